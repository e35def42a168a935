package raft_test

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// This file maps the core's messages to those of the wire and back. It knows versions, topics, what is null and what
// is empty, and nothing of a cluster's state.

const metadataTopic = "__cluster_metadata"

// metadataTopicID is the id of that topic. Fetch goes by it.
var metadataTopicID = [16]byte{15: 1}

// wireVersions are the versions of raft APIs that are served; the newest are those that Kafka 4.4.0 speaks. Fetch is by topic
// id from 13 on, older versions are served by a refusal.
var wireVersions = map[kmsg.Key]struct{ oldest, newest int16 }{
	kmsg.Fetch:            {4, 18},
	kmsg.ApiVersions:      {0, 5},
	kmsg.Vote:             {0, 2},
	kmsg.BeginQuorumEpoch: {0, 1},
	kmsg.EndQuorumEpoch:   {0, 1},
	kmsg.DescribeQuorum:   {0, 2},
	kmsg.FetchSnapshot:    {0, 1},
	kmsg.AddRaftVoter:     {0, 1},
	kmsg.RemoveRaftVoter:  {0, 0},
	kmsg.UpdateRaftVoter:  {0, 0},
}

// errUnsupported says that a version of the wire cannot express a request. The core hears of it as raft.Unsupported.
var errUnsupported = errors.New("the version cannot express the request")

// encodeRequest maps a request of the core to the wire, at a version. kmsg writes tagged fields at versions that don't have them,
// which closes the connection to a Kafka node (facts: a known tag at a version without it): they stay at their defaults there.
func encodeRequest(r raft.Request, version int16) (kmsg.Request, error) {
	var out kmsg.Request
	switch r := r.(type) {
	case *raft.VoteRequest:
		if r.PreVote && version < 2 {
			return nil, fmt.Errorf("Vote v%d with PreVote: %w", version, errUnsupported)
		}
		p := kmsg.NewVoteRequestTopicPartition()
		p.CandidateEpoch = int32(r.ReplicaEpoch)
		p.CandidateID = int32(r.Replica.NodeID)
		p.CandidateDirectoryID = r.Replica.DirectoryID
		p.VoterDirectoryID = r.Voter.DirectoryID
		p.LastOffsetEpoch = int32(r.LastEpoch)
		p.LastOffset = int64(r.LastOffset)
		p.PreVote = r.PreVote
		q := kmsg.NewPtrVoteRequest()
		q.ClusterID = r.ClusterID
		q.VoterID = int32(r.Voter.NodeID)
		q.Topics = []kmsg.VoteRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.VoteRequestTopicPartition{p}}}
		out = q
	case *raft.BeginQuorumEpochRequest:
		q := kmsg.NewPtrBeginQuorumEpochRequest()
		q.ClusterID = r.ClusterID
		q.VoterID = int32(r.Voter.NodeID)
		q.Topics = []kmsg.BeginQuorumEpochRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.BeginQuorumEpochRequestTopicPartition{{
			VoterDirectoryID: r.Voter.DirectoryID,
			LeaderID:         int32(r.LeaderID),
			LeaderEpoch:      int32(r.Epoch),
		}}}}
		for _, e := range r.Endpoints {
			q.LeaderEndpoints = append(q.LeaderEndpoints, kmsg.BeginQuorumEpochRequestLeaderEndpoint{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		out = q
	case *raft.EndQuorumEpochRequest:
		p := kmsg.NewEndQuorumEpochRequestTopicPartition()
		p.LeaderID = int32(r.LeaderID)
		p.LeaderEpoch = int32(r.Epoch)
		for _, s := range r.Successors {
			p.PreferredSuccessors = append(p.PreferredSuccessors, int32(s.NodeID)) // v0
			p.PreferredCandidates = append(p.PreferredCandidates, kmsg.EndQuorumEpochRequestTopicPartitionPreferredCandidate{
				CandidateID:          int32(s.NodeID),
				CandidateDirectoryID: s.DirectoryID,
			})
		}
		q := kmsg.NewPtrEndQuorumEpochRequest()
		q.ClusterID = r.ClusterID
		q.Topics = []kmsg.EndQuorumEpochRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.EndQuorumEpochRequestTopicPartition{p}}}
		for _, e := range r.Endpoints {
			q.LeaderEndpoints = append(q.LeaderEndpoints, kmsg.EndQuorumEpochRequestLeaderEndpoint{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		out = q
	case *raft.FetchRequest:
		if version < 13 {
			return nil, fmt.Errorf("Fetch v%d of a topic id: %w", version, errUnsupported)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.CurrentLeaderEpoch = int32(r.Epoch)
		p.FetchOffset = int64(r.FetchOffset)
		p.LastFetchedEpoch = int32(r.LastFetchedEpoch)
		if version >= 17 {
			p.ReplicaDirectoryID = r.Replica.DirectoryID
		}
		if version >= 18 {
			p.HighWatermark = int64(r.HighWatermark)
		}
		q := kmsg.NewPtrFetchRequest()
		q.ClusterID = r.ClusterID
		if version >= 15 {
			q.ReplicaState.ID = int32(r.Replica.NodeID)
		} else {
			q.ReplicaID = int32(r.Replica.NodeID)
		}
		q.MaxWaitMillis = int32(r.MaxWaitMillis)
		q.MinBytes = 0
		q.MaxBytes = r.MaxBytes
		q.Topics = []kmsg.FetchRequestTopic{{TopicID: metadataTopicID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		out = q
	case *raft.FetchSnapshotRequest:
		p := kmsg.NewFetchSnapshotRequestTopicPartition()
		p.CurrentLeaderEpoch = int32(r.Epoch)
		p.SnapshotID.EndOffset = int64(r.SnapshotID.EndOffset)
		p.SnapshotID.Epoch = int32(r.SnapshotID.Epoch)
		p.Position = r.Position
		if version >= 1 {
			p.ReplicaDirectoryID = r.Replica.DirectoryID
		}
		q := kmsg.NewPtrFetchSnapshotRequest()
		q.ClusterID = r.ClusterID
		q.ReplicaID = int32(r.Replica.NodeID)
		q.MaxBytes = r.MaxBytes
		q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.FetchSnapshotRequestTopicPartition{p}}}
		out = q
	case *raft.AddVoterRequest:
		if version == 0 && !r.AckWhenCommitted {
			// The answer could wait for a Fetch of this node, which waits for the answer.
			return nil, fmt.Errorf("AddRaftVoter v0 without AckWhenCommitted: %w", errUnsupported)
		}
		q := kmsg.NewPtrAddRaftVoterRequest()
		q.ClusterID = r.ClusterID
		q.TimeoutMillis = int32(r.TimeoutMillis)
		q.VoterID = int32(r.Voter.NodeID)
		q.VoterDirectoryID = r.Voter.DirectoryID
		for _, e := range r.Endpoints {
			q.Listeners = append(q.Listeners, kmsg.AddRaftVoterRequestListener{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		q.AckWhenCommitted = r.AckWhenCommitted
		out = q
	case *raft.RemoveVoterRequest:
		q := kmsg.NewPtrRemoveRaftVoterRequest()
		q.ClusterID = r.ClusterID
		q.VoterID = int32(r.Voter.NodeID)
		q.VoterDirectoryID = r.Voter.DirectoryID
		out = q
	case *raft.UpdateVoterRequest:
		q := kmsg.NewPtrUpdateRaftVoterRequest()
		q.ClusterID = r.ClusterID
		q.CurrentLeaderEpoch = int32(r.Epoch)
		q.VoterID = int32(r.Voter.NodeID)
		q.VoterDirectoryID = r.Voter.DirectoryID
		for _, e := range r.Endpoints {
			q.Listeners = append(q.Listeners, kmsg.UpdateRaftVoterRequestListener{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		q.KRaftVersionFeature.MinSupportedVersion = r.MinKRaftVersion
		q.KRaftVersionFeature.MaxSupportedVersion = r.MaxKRaftVersion
		out = q
	case *raft.DescribeQuorumRequest:
		q := kmsg.NewPtrDescribeQuorumRequest()
		q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		out = q
	case *raft.ApiVersionsRequest:
		q := kmsg.NewPtrApiVersionsRequest()
		q.ClientSoftwareName, q.ClientSoftwareVersion = "kstorage", "0"
		out = q
	default:
		return nil, fmt.Errorf("%T is no request of the wire", r)
	}
	out.SetVersion(version)
	return out, nil
}

// decodeRequest maps a request of the wire to the core's. One that doesn't name partition 0 of the metadata topic, and nothing else,
// is refused here: then the response is set. The cluster id comes before that, in Kafka's order.
func decodeRequest(q kmsg.Request, clusterID string) (raft.Request, raft.Response) {
	switch q := q.(type) {
	case *kmsg.VoteRequest:
		ok := len(q.Topics) == 1 && q.Topics[0].Topic == metadataTopic && len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
		if code := refusal(q.ClusterID, clusterID, ok); code != raft.NoError {
			return nil, &raft.VoteResponse{Code: code}
		}
		p := q.Topics[0].Partitions[0]
		r := &raft.VoteRequest{
			ClusterID:    q.ClusterID,
			Voter:        raft.ReplicaKey{NodeID: raft.None},
			ReplicaEpoch: raft.Epoch(p.CandidateEpoch),
			Replica:      raft.ReplicaKey{NodeID: raft.NodeID(p.CandidateID), DirectoryID: p.CandidateDirectoryID},
			LastEpoch:    raft.Epoch(p.LastOffsetEpoch),
			LastOffset:   raft.Offset(p.LastOffset),
			PreVote:      p.PreVote,
		}
		if q.Version >= 1 {
			r.Voter = raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: p.VoterDirectoryID}
		}
		return r, nil
	case *kmsg.BeginQuorumEpochRequest:
		ok := len(q.Topics) == 1 && q.Topics[0].Topic == metadataTopic && len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
		if code := refusal(q.ClusterID, clusterID, ok); code != raft.NoError {
			return nil, &raft.BeginQuorumEpochResponse{Code: code}
		}
		p := q.Topics[0].Partitions[0]
		r := &raft.BeginQuorumEpochRequest{
			ClusterID: q.ClusterID,
			Voter:     raft.ReplicaKey{NodeID: raft.None},
			LeaderID:  raft.NodeID(p.LeaderID),
			Epoch:     raft.Epoch(p.LeaderEpoch),
		}
		if q.Version >= 1 {
			r.Voter = raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: p.VoterDirectoryID}
		}
		for _, e := range q.LeaderEndpoints {
			r.Endpoints = append(r.Endpoints, raft.Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port})
		}
		return r, nil
	case *kmsg.EndQuorumEpochRequest:
		ok := len(q.Topics) == 1 && q.Topics[0].Topic == metadataTopic && len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
		if code := refusal(q.ClusterID, clusterID, ok); code != raft.NoError {
			return nil, &raft.EndQuorumEpochResponse{Code: code}
		}
		p := q.Topics[0].Partitions[0]
		r := &raft.EndQuorumEpochRequest{
			ClusterID: q.ClusterID,
			LeaderID:  raft.NodeID(p.LeaderID),
			Epoch:     raft.Epoch(p.LeaderEpoch),
		}
		for _, s := range p.PreferredCandidates {
			r.Successors = append(r.Successors, raft.ReplicaKey{NodeID: raft.NodeID(s.CandidateID), DirectoryID: s.CandidateDirectoryID})
		}
		if q.Version == 0 {
			for _, id := range p.PreferredSuccessors {
				r.Successors = append(r.Successors, raft.ReplicaKey{NodeID: raft.NodeID(id)})
			}
		}
		for _, e := range q.LeaderEndpoints {
			r.Endpoints = append(r.Endpoints, raft.Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port})
		}
		return r, nil
	case *kmsg.FetchRequest:
		ok := q.Version >= 13 && len(q.Topics) == 1 && q.Topics[0].TopicID == metadataTopicID && len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
		if code := refusal(q.ClusterID, clusterID, ok); code != raft.NoError {
			return nil, &raft.FetchResponse{Code: code}
		}
		p := q.Topics[0].Partitions[0]
		id := q.ReplicaState.ID
		if q.Version < 15 {
			id = q.ReplicaID
		}
		return &raft.FetchRequest{
			ClusterID:        q.ClusterID,
			Replica:          raft.ReplicaKey{NodeID: raft.NodeID(id), DirectoryID: p.ReplicaDirectoryID},
			MaxWaitMillis:    raft.Millis(q.MaxWaitMillis),
			MaxBytes:         q.MaxBytes,
			Epoch:            raft.Epoch(p.CurrentLeaderEpoch),
			FetchOffset:      raft.Offset(p.FetchOffset),
			LastFetchedEpoch: raft.Epoch(p.LastFetchedEpoch),
			HighWatermark:    raft.Offset(p.HighWatermark), // below v18 the default: raft.NoHighWatermark
		}, nil
	case *kmsg.FetchSnapshotRequest:
		one := len(q.Topics) == 1 && len(q.Topics[0].Partitions) == 1
		if code := refusal(q.ClusterID, clusterID, one); code != raft.NoError {
			return nil, &raft.FetchSnapshotResponse{Code: code}
		}
		p := q.Topics[0].Partitions[0]
		id := raft.SnapshotID{EndOffset: raft.Offset(p.SnapshotID.EndOffset), Epoch: raft.Epoch(p.SnapshotID.Epoch)}
		if q.Topics[0].Topic != metadataTopic || p.Partition != 0 {
			return nil, &raft.FetchSnapshotResponse{Partition: raft.UnknownTopicOrPartition, LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: -1}, SnapshotID: id}
		}
		return &raft.FetchSnapshotRequest{
			ClusterID:  q.ClusterID,
			Replica:    raft.ReplicaKey{NodeID: raft.NodeID(q.ReplicaID), DirectoryID: p.ReplicaDirectoryID},
			MaxBytes:   q.MaxBytes,
			Epoch:      raft.Epoch(p.CurrentLeaderEpoch),
			SnapshotID: id,
			Position:   p.Position,
		}, nil
	case *kmsg.AddRaftVoterRequest:
		r := &raft.AddVoterRequest{
			ClusterID:        q.ClusterID,
			TimeoutMillis:    raft.Millis(q.TimeoutMillis),
			Voter:            raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: q.VoterDirectoryID},
			AckWhenCommitted: q.Version == 0 || q.AckWhenCommitted,
		}
		for _, e := range q.Listeners {
			r.Endpoints = append(r.Endpoints, raft.Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port})
		}
		return r, nil
	case *kmsg.RemoveRaftVoterRequest:
		return &raft.RemoveVoterRequest{
			ClusterID: q.ClusterID,
			Voter:     raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: q.VoterDirectoryID},
		}, nil
	case *kmsg.UpdateRaftVoterRequest:
		r := &raft.UpdateVoterRequest{
			ClusterID:       q.ClusterID,
			Epoch:           raft.Epoch(q.CurrentLeaderEpoch),
			Voter:           raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: q.VoterDirectoryID},
			MinKRaftVersion: q.KRaftVersionFeature.MinSupportedVersion,
			MaxKRaftVersion: q.KRaftVersionFeature.MaxSupportedVersion,
		}
		for _, e := range q.Listeners {
			r.Endpoints = append(r.Endpoints, raft.Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port})
		}
		return r, nil
	case *kmsg.DescribeQuorumRequest:
		if len(q.Topics) != 1 || q.Topics[0].Topic != metadataTopic || len(q.Topics[0].Partitions) != 1 || q.Topics[0].Partitions[0].Partition != 0 {
			return nil, &raft.DescribeQuorumResponse{Partition: raft.UnknownTopicOrPartition}
		}
		return &raft.DescribeQuorumRequest{}, nil
	case *kmsg.ApiVersionsRequest:
		return &raft.ApiVersionsRequest{}, nil
	}
	return nil, nil
}

// refusal is why a request cannot go on to the core.
func refusal(theirs *string, ours string, topic bool) raft.Code {
	switch {
	case topic:
		return raft.NoError // the core checks the cluster id
	case theirs != nil && ours != "" && *theirs != ours:
		return raft.InconsistentClusterID
	}
	return raft.InvalidRequest
}

// encodeResponse maps an answer of the core to the wire, as the answer to q. payload is what the driver has read for it: batches, or
// a piece of a snapshot. wall turns the clock of Step into milliseconds since the Unix epoch.
//
// An answer with a top-level error names no topic. Only then is the core's view of the leader left out.
func encodeResponse(q kmsg.Request, r raft.Response, payload []byte, wall func(raft.Millis) int64) (kmsg.Response, error) {
	version := q.GetVersion()
	out := q.ResponseKind()
	switch out := out.(type) {
	case *kmsg.VoteResponse:
		r := r.(*raft.VoteResponse)
		out.ErrorCode = int16(r.Code)
		if r.Code == raft.NoError {
			out.Topics = []kmsg.VoteResponseTopic{{Topic: metadataTopic, Partitions: []kmsg.VoteResponseTopicPartition{{
				ErrorCode:   int16(r.Partition),
				LeaderID:    int32(r.LeaderID),
				LeaderEpoch: int32(r.Epoch),
				VoteGranted: r.VoteGranted,
			}}}}
			if version >= 1 && r.Endpoint.Host != "" {
				out.NodeEndpoints = []kmsg.VoteResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
			}
		}
	case *kmsg.BeginQuorumEpochResponse:
		r := r.(*raft.BeginQuorumEpochResponse)
		out.ErrorCode = int16(r.Code)
		if r.Code == raft.NoError {
			out.Topics = []kmsg.BeginQuorumEpochResponseTopic{{Topic: metadataTopic, Partitions: []kmsg.BeginQuorumEpochResponseTopicPartition{{
				ErrorCode:   int16(r.Partition),
				LeaderID:    int32(r.LeaderID),
				LeaderEpoch: int32(r.Epoch),
			}}}}
			if version >= 1 && r.Endpoint.Host != "" {
				out.NodeEndpoints = []kmsg.BeginQuorumEpochResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
			}
		}
	case *kmsg.EndQuorumEpochResponse:
		r := r.(*raft.EndQuorumEpochResponse)
		out.ErrorCode = int16(r.Code)
		if r.Code == raft.NoError {
			out.Topics = []kmsg.EndQuorumEpochResponseTopic{{Topic: metadataTopic, Partitions: []kmsg.EndQuorumEpochResponseTopicPartition{{
				ErrorCode:   int16(r.Partition),
				LeaderID:    int32(r.LeaderID),
				LeaderEpoch: int32(r.Epoch),
			}}}}
			if version >= 1 && r.Endpoint.Host != "" {
				out.NodeEndpoints = []kmsg.EndQuorumEpochResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
			}
		}
	case *kmsg.FetchResponse:
		r := r.(*raft.FetchResponse)
		out.ErrorCode = int16(r.Code)
		if r.Code == raft.NoError {
			p := kmsg.NewFetchResponseTopicPartition()
			p.ErrorCode = int16(r.Partition)
			p.HighWatermark = int64(r.HighWatermark)
			p.LogStartOffset = int64(r.LogStart)
			p.CurrentLeader.LeaderID = int32(r.LeaderID)
			p.CurrentLeader.LeaderEpoch = int32(r.Epoch)
			if d := r.Diverging; d != nil {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = int32(d.Epoch), int64(d.EndOffset)
			}
			if s := r.SnapshotID; s != nil {
				p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(s.EndOffset), int32(s.Epoch)
			}
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			p.RecordBatches = notNil(payload)
			out.Topics = []kmsg.FetchResponseTopic{{TopicID: metadataTopicID, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
			// The schema has it from 16 on; Kafka's raft layer fills it from 17 on.
			if version >= 17 && r.Endpoint.Host != "" {
				out.Brokers = []kmsg.FetchResponseBroker{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: int32(r.Endpoint.Port)}}
			}
		}
	case *kmsg.FetchSnapshotResponse:
		r := r.(*raft.FetchSnapshotResponse)
		out.ErrorCode = int16(r.Code)
		if r.Code == raft.NoError {
			topic := q.(*kmsg.FetchSnapshotRequest).Topics[0]
			p := kmsg.NewFetchSnapshotResponseTopicPartition()
			p.Partition = topic.Partitions[0].Partition
			p.ErrorCode = int16(r.Partition)
			p.SnapshotID.EndOffset = int64(r.SnapshotID.EndOffset)
			p.SnapshotID.Epoch = int32(r.SnapshotID.Epoch)
			p.CurrentLeader.LeaderID = int32(r.LeaderID)
			p.CurrentLeader.LeaderEpoch = int32(r.Epoch)
			p.Size = r.SizeBytes
			p.Position = r.Position
			p.Bytes = notNil(payload) // also with an error, where Kafka 4.4.0 leaves it null and fails
			out.Topics = []kmsg.FetchSnapshotResponseTopic{{Topic: topic.Topic, Partitions: []kmsg.FetchSnapshotResponseTopicPartition{p}}}
			if version >= 1 && r.Endpoint.Host != "" {
				out.NodeEndpoints = []kmsg.FetchSnapshotResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
			}
		}
	case *kmsg.AddRaftVoterResponse:
		r := r.(*raft.ChangeVoterResponse)
		out.ErrorCode, out.ErrorMessage = int16(r.Code), nullIfEmpty(r.Message)
	case *kmsg.RemoveRaftVoterResponse:
		r := r.(*raft.ChangeVoterResponse)
		out.ErrorCode, out.ErrorMessage = int16(r.Code), nullIfEmpty(r.Message)
	case *kmsg.UpdateRaftVoterResponse:
		r := r.(*raft.UpdateVoterResponse)
		out.ErrorCode = int16(r.Code)
		if r.Code != raft.InconsistentClusterID {
			out.CurrentLeader.LeaderID = int32(r.LeaderID)
			out.CurrentLeader.LeaderEpoch = int32(r.Epoch)
			out.CurrentLeader.Host = r.Endpoint.Host
			out.CurrentLeader.Port = int32(r.Endpoint.Port)
		}
	case *kmsg.DescribeQuorumResponse:
		r := r.(*raft.DescribeQuorumResponse)
		replicas := func(states []raft.ReplicaState) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
			rows := []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
			for _, s := range states {
				rows = append(rows, kmsg.DescribeQuorumResponseTopicPartitionReplicaState{
					ReplicaID:             int32(s.Key.NodeID),
					ReplicaDirectoryID:    s.Key.DirectoryID,
					LogEndOffset:          int64(s.LogEnd),
					LastFetchTimestamp:    wall(s.LastFetch),
					LastCaughtUpTimestamp: wall(s.LastCaughtUp),
				})
			}
			return rows
		}
		out.ErrorMessage = kmsg.StringPtr("")
		topic := metadataTopic
		if topics := q.(*kmsg.DescribeQuorumRequest).Topics; len(topics) == 1 {
			topic = topics[0].Topic
		}
		out.Topics = []kmsg.DescribeQuorumResponseTopic{{Topic: topic, Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
			ErrorCode:     int16(r.Partition),
			ErrorMessage:  kmsg.StringPtr(""),
			LeaderID:      int32(r.LeaderID),
			LeaderEpoch:   int32(r.Epoch),
			HighWatermark: int64(r.HighWatermark),
			CurrentVoters: replicas(r.Voters),
			Observers:     replicas(r.Observers),
		}}}}
		for _, v := range r.Nodes {
			node := kmsg.DescribeQuorumResponseNode{NodeID: int32(v.Key.NodeID)}
			for _, e := range v.Endpoints {
				node.Listeners = append(node.Listeners, kmsg.DescribeQuorumResponseNodeListener{Name: e.Listener, Host: e.Host, Port: e.Port})
			}
			out.Nodes = append(out.Nodes, node)
		}
	default:
		return nil, fmt.Errorf("the core doesn't answer %s", kmsg.NameForKey(q.Key()))
	}
	return out, nil
}

// decodeResponse maps an answer of the wire to the core's, which has no batches and no bytes yet: they are payload.
func decodeResponse(r kmsg.Response, unwall func(int64) raft.Millis) (out raft.Response, payload []byte, err error) {
	malformed := fmt.Errorf("the answer to %s has not the one partition that was asked for", kmsg.NameForKey(r.Key()))
	switch r := r.(type) {
	case *kmsg.VoteResponse:
		out := &raft.VoteResponse{Code: raft.Code(r.ErrorCode)}
		if out.Code != raft.NoError {
			return out, nil, nil
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, nil, malformed
		}
		p := r.Topics[0].Partitions[0]
		out.Partition, out.VoteGranted = raft.Code(p.ErrorCode), p.VoteGranted
		out.LeaderView = leaderView(p.LeaderID, p.LeaderEpoch)
		for _, n := range r.NodeEndpoints {
			addEndpoint(&out.LeaderView, n.NodeID, n.Host, n.Port)
		}
		return out, nil, nil
	case *kmsg.BeginQuorumEpochResponse:
		out := &raft.BeginQuorumEpochResponse{Code: raft.Code(r.ErrorCode)}
		if out.Code != raft.NoError {
			return out, nil, nil
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, nil, malformed
		}
		p := r.Topics[0].Partitions[0]
		out.Partition = raft.Code(p.ErrorCode)
		out.LeaderView = leaderView(p.LeaderID, p.LeaderEpoch)
		for _, n := range r.NodeEndpoints {
			addEndpoint(&out.LeaderView, n.NodeID, n.Host, n.Port)
		}
		return out, nil, nil
	case *kmsg.EndQuorumEpochResponse:
		out := &raft.EndQuorumEpochResponse{Code: raft.Code(r.ErrorCode)}
		if out.Code != raft.NoError {
			return out, nil, nil
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, nil, malformed
		}
		p := r.Topics[0].Partitions[0]
		out.Partition = raft.Code(p.ErrorCode)
		out.LeaderView = leaderView(p.LeaderID, p.LeaderEpoch)
		for _, n := range r.NodeEndpoints {
			addEndpoint(&out.LeaderView, n.NodeID, n.Host, n.Port)
		}
		return out, nil, nil
	case *kmsg.FetchResponse:
		out := &raft.FetchResponse{Code: raft.Code(r.ErrorCode)}
		if out.Code != raft.NoError {
			return out, nil, nil
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, nil, malformed
		}
		p := r.Topics[0].Partitions[0]
		out.Partition = raft.Code(p.ErrorCode)
		out.LeaderView = leaderView(p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
		for _, n := range r.Brokers {
			addEndpoint(&out.LeaderView, n.NodeID, n.Host, uint16(n.Port))
		}
		out.HighWatermark, out.LogStart = raft.Offset(p.HighWatermark), raft.Offset(p.LogStartOffset)
		if d := p.DivergingEpoch; d.Epoch >= 0 {
			out.Diverging = &raft.EpochEnd{Epoch: raft.Epoch(d.Epoch), EndOffset: raft.Offset(d.EndOffset)}
		}
		if s := p.SnapshotID; s.EndOffset >= 0 || s.Epoch >= 0 {
			out.SnapshotID = &raft.SnapshotID{EndOffset: raft.Offset(s.EndOffset), Epoch: raft.Epoch(s.Epoch)}
		}
		return out, p.RecordBatches, nil
	case *kmsg.FetchSnapshotResponse:
		out := &raft.FetchSnapshotResponse{Code: raft.Code(r.ErrorCode)}
		if out.Code != raft.NoError {
			return out, nil, nil
		}
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, nil, malformed
		}
		p := r.Topics[0].Partitions[0]
		out.Partition = raft.Code(p.ErrorCode)
		out.LeaderView = leaderView(p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
		for _, n := range r.NodeEndpoints {
			addEndpoint(&out.LeaderView, n.NodeID, n.Host, n.Port)
		}
		out.SnapshotID = raft.SnapshotID{EndOffset: raft.Offset(p.SnapshotID.EndOffset), Epoch: raft.Epoch(p.SnapshotID.Epoch)}
		out.SizeBytes, out.Position = p.Size, p.Position
		return out, p.Bytes, nil
	case *kmsg.AddRaftVoterResponse:
		return &raft.ChangeVoterResponse{Code: raft.Code(r.ErrorCode), Message: emptyIfNull(r.ErrorMessage)}, nil, nil
	case *kmsg.RemoveRaftVoterResponse:
		return &raft.ChangeVoterResponse{Code: raft.Code(r.ErrorCode), Message: emptyIfNull(r.ErrorMessage)}, nil, nil
	case *kmsg.UpdateRaftVoterResponse:
		out := &raft.UpdateVoterResponse{Code: raft.Code(r.ErrorCode), LeaderView: leaderView(r.CurrentLeader.LeaderID, r.CurrentLeader.LeaderEpoch)}
		addEndpoint(&out.LeaderView, r.CurrentLeader.LeaderID, r.CurrentLeader.Host, uint16(r.CurrentLeader.Port))
		return out, nil, nil
	case *kmsg.DescribeQuorumResponse:
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, nil, malformed
		}
		replicas := func(rows []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) (states []raft.ReplicaState) {
			for _, row := range rows {
				states = append(states, raft.ReplicaState{
					Key:          raft.ReplicaKey{NodeID: raft.NodeID(row.ReplicaID), DirectoryID: row.ReplicaDirectoryID},
					LogEnd:       raft.Offset(row.LogEndOffset),
					LastFetch:    unwall(row.LastFetchTimestamp),
					LastCaughtUp: unwall(row.LastCaughtUpTimestamp),
				})
			}
			return states
		}
		p := r.Topics[0].Partitions[0]
		out := &raft.DescribeQuorumResponse{
			Partition:     raft.Code(p.ErrorCode),
			LeaderID:      raft.NodeID(p.LeaderID),
			Epoch:         raft.Epoch(p.LeaderEpoch),
			HighWatermark: raft.Offset(p.HighWatermark),
			Voters:        replicas(p.CurrentVoters),
			Observers:     replicas(p.Observers),
		}
		for _, n := range r.Nodes {
			v := raft.Voter{Key: raft.ReplicaKey{NodeID: raft.NodeID(n.NodeID), DirectoryID: directoryOf(out.Voters, n.NodeID)}}
			for _, l := range n.Listeners {
				v.Endpoints = append(v.Endpoints, raft.Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port})
			}
			out.Nodes = append(out.Nodes, v)
		}
		return out, nil, nil
	case *kmsg.ApiVersionsResponse:
		out := &raft.ApiVersionsResponse{Code: raft.Code(r.ErrorCode)}
		for _, f := range r.SupportedFeatures {
			if f.Name == "kraft.version" {
				out.HasKRaftVersion, out.MinKRaftVersion, out.MaxKRaftVersion = true, f.MinVersion, f.MaxVersion
			}
		}
		return out, nil, nil
	}
	return nil, nil, fmt.Errorf("%T is no answer to the core", r)
}

func leaderView(id, epoch int32) raft.LeaderView {
	return raft.LeaderView{LeaderID: raft.NodeID(id), Epoch: raft.Epoch(epoch)}
}

func addEndpoint(v *raft.LeaderView, id int32, host string, port uint16) {
	if raft.NodeID(id) == v.LeaderID && id >= 0 {
		v.Endpoint = raft.Endpoint{Host: host, Port: port}
	}
}

func directoryOf(states []raft.ReplicaState, id int32) uuid.UUID {
	for _, s := range states {
		if s.Key.NodeID == raft.NodeID(id) {
			return s.Key.DirectoryID
		}
	}
	return uuid.Nil
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func emptyIfNull(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// notNil lets empty bytes be empty on the wire, not null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Frames, without the length in front.

// appendRequestFrame appends the header and the body of a request.
func appendRequestFrame(dst []byte, q kmsg.Request, clientID string, correlationID int32) []byte {
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, q, correlationID)
	return append(dst, frame[4:]...)
}

// decodeRequestFrame reads a request, its client id and its correlation id.
func decodeRequestFrame(frame []byte) (q kmsg.Request, clientID string, correlationID int32, err error) {
	if len(frame) < 10 {
		return nil, "", 0, errors.New("a frame of less than a header")
	}
	key, version := int16(frame[0])<<8|int16(frame[1]), int16(frame[2])<<8|int16(frame[3])
	correlationID = int32(frame[4])<<24 | int32(frame[5])<<16 | int32(frame[6])<<8 | int32(frame[7])
	length := int(int16(frame[8])<<8 | int16(frame[9]))
	rest := frame[10:]
	if length > 0 {
		if length > len(rest) {
			return nil, "", 0, errors.New("a client id that is cut off")
		}
		clientID, rest = string(rest[:length]), rest[length:]
	}
	q = kmsg.RequestForKey(key)
	if q == nil {
		return nil, "", 0, fmt.Errorf("no request has the key %d", key)
	}
	q.SetVersion(version)
	if q.IsFlexible() {
		if len(rest) == 0 || rest[0] != 0 {
			return nil, "", 0, errors.New("a header with tags")
		}
		rest = rest[1:]
	}
	return q, clientID, correlationID, q.ReadFrom(rest)
}

func appendResponseFrame(dst []byte, r kmsg.Response, correlationID int32) []byte {
	dst = append(dst, byte(correlationID>>24), byte(correlationID>>16), byte(correlationID>>8), byte(correlationID))
	if r.IsFlexible() && kmsg.Key(r.Key()) != kmsg.ApiVersions {
		dst = append(dst, 0)
	}
	return r.AppendTo(dst)
}

// decodeResponseFrame reads an answer to q.
func decodeResponseFrame(frame []byte, q kmsg.Request) (r kmsg.Response, correlationID int32, err error) {
	if len(frame) < 5 {
		return nil, 0, errors.New("a frame of less than a header")
	}
	correlationID = int32(frame[0])<<24 | int32(frame[1])<<16 | int32(frame[2])<<8 | int32(frame[3])
	rest := frame[4:]
	r = q.ResponseKind()
	if r.IsFlexible() && kmsg.Key(r.Key()) != kmsg.ApiVersions {
		if rest[0] != 0 {
			return nil, 0, errors.New("a header with tags")
		}
		rest = rest[1:]
	}
	return r, correlationID, r.ReadFrom(rest)
}
