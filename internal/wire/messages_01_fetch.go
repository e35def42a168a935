package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// Fetch (KIP-595): the topic's id from 13 on, the replica's directory id from 17 on (KIP-853), its high watermark from
// 18 on (KIP-1166).

func encodeFetchRequest(r *raft.FetchRequest, version int16) (kmsg.Request, error) {
	if version < 13 {
		return nil, fmt.Errorf("a Fetch by topic id in version %d: %w", version, ErrUnsupported)
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
	return q, nil
}

func decodeFetchRequest(q *kmsg.FetchRequest, clusterID string) (raft.Request, raft.Response) {
	ok := q.Version >= 13 && len(q.Topics) == 1 && q.Topics[0].TopicID == metadataTopicID &&
		len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
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
		HighWatermark:    raft.Offset(p.HighWatermark), // below 18 the default: raft.NoHighWatermark
	}, nil
}

func encodeFetchResponse(out *kmsg.FetchResponse, r *raft.FetchResponse, version int16, records []byte) {
	out.ErrorCode = int16(r.Code)
	if r.Code != raft.NoError {
		return
	}
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
	p.RecordBatches = notNil(records)
	out.Topics = []kmsg.FetchResponseTopic{{TopicID: metadataTopicID, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	// The schema has it from 16 on; Kafka's raft layer fills it from 17 on.
	if version >= 17 && r.Endpoint.Host != "" {
		out.Brokers = []kmsg.FetchResponseBroker{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: int32(r.Endpoint.Port)}}
	}
}

func decodeFetchResponse(r *kmsg.FetchResponse) (raft.Response, []byte, error) {
	out := &raft.FetchResponse{Code: raft.Code(r.ErrorCode)}
	if out.Code != raft.NoError {
		return out, nil, nil
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, nil, &PartitionError{r.Key()}
	}
	p := r.Topics[0].Partitions[0]
	out.Partition = raft.Code(p.ErrorCode)
	out.LeaderView = leaderView(p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
	for _, n := range r.Brokers {
		addEndpoint(&out.LeaderView, n.NodeID, n.Host, n.Port)
	}
	out.HighWatermark, out.LogStart = raft.Offset(p.HighWatermark), raft.Offset(p.LogStartOffset)
	if d := p.DivergingEpoch; d.Epoch >= 0 {
		out.Diverging = &raft.EpochEnd{Epoch: raft.Epoch(d.Epoch), EndOffset: raft.Offset(d.EndOffset)}
	}
	if s := p.SnapshotID; s.EndOffset >= 0 || s.Epoch >= 0 {
		out.SnapshotID = &raft.SnapshotID{EndOffset: raft.Offset(s.EndOffset), Epoch: raft.Epoch(s.Epoch)}
	}
	return out, p.RecordBatches, nil
}
