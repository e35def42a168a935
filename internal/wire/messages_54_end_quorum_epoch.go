package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// EndQuorumEpoch (KIP-595): successors with their directory ids, and the leader's endpoints, from 1 on (KIP-853).

func encodeEndQuorumEpochRequest(r *raft.EndQuorumEpochRequest) kmsg.Request {
	p := kmsg.NewEndQuorumEpochRequestTopicPartition()
	p.LeaderID = int32(r.LeaderID)
	p.LeaderEpoch = int32(r.Epoch)
	for _, s := range r.Successors {
		p.PreferredSuccessors = append(p.PreferredSuccessors, int32(s.NodeID)) // version 0
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
	return q
}

func decodeEndQuorumEpochRequest(q *kmsg.EndQuorumEpochRequest, clusterID string) (raft.Request, raft.Response) {
	ok := len(q.Topics) == 1 && q.Topics[0].Topic == metadataTopic &&
		len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
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
}

func encodeEndQuorumEpochResponse(out *kmsg.EndQuorumEpochResponse, r *raft.EndQuorumEpochResponse, version int16) {
	out.ErrorCode = int16(r.Code)
	if r.Code != raft.NoError {
		return
	}
	out.Topics = []kmsg.EndQuorumEpochResponseTopic{{
		Topic: metadataTopic,
		Partitions: []kmsg.EndQuorumEpochResponseTopicPartition{{
			ErrorCode:   int16(r.Partition),
			LeaderID:    int32(r.LeaderID),
			LeaderEpoch: int32(r.Epoch),
		}},
	}}
	if version >= 1 && r.Endpoint.Host != "" {
		out.NodeEndpoints = []kmsg.EndQuorumEpochResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
	}
}

func decodeEndQuorumEpochResponse(r *kmsg.EndQuorumEpochResponse) (raft.Response, error) {
	out := &raft.EndQuorumEpochResponse{Code: raft.Code(r.ErrorCode)}
	if out.Code != raft.NoError {
		return out, nil
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, &PartitionError{r.Key()}
	}
	p := r.Topics[0].Partitions[0]
	out.Partition = raft.Code(p.ErrorCode)
	out.LeaderView = leaderView(p.LeaderID, p.LeaderEpoch)
	for _, n := range r.NodeEndpoints {
		addEndpoint(&out.LeaderView, n.NodeID, n.Host, int32(n.Port))
	}
	return out, nil
}
