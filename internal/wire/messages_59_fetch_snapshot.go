package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// FetchSnapshot (KIP-630): the replica's directory id and the leader's address from 1 on (KIP-853).

func encodeFetchSnapshotRequest(r *raft.FetchSnapshotRequest, version int16) kmsg.Request {
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
	return q
}

func decodeFetchSnapshotRequest(q *kmsg.FetchSnapshotRequest, clusterID string) (raft.Request, raft.Response) {
	one := len(q.Topics) == 1 && len(q.Topics[0].Partitions) == 1
	if code := refusal(q.ClusterID, clusterID, one); code != raft.NoError {
		return nil, &raft.FetchSnapshotResponse{Code: code}
	}
	p := q.Topics[0].Partitions[0]
	id := raft.SnapshotID{EndOffset: raft.Offset(p.SnapshotID.EndOffset), Epoch: raft.Epoch(p.SnapshotID.Epoch)}
	if q.Topics[0].Topic != metadataTopic || p.Partition != 0 {
		return nil, &raft.FetchSnapshotResponse{
			Partition:  raft.UnknownTopicOrPartition,
			LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: -1},
			SnapshotID: id,
		}
	}
	return &raft.FetchSnapshotRequest{
		ClusterID:  q.ClusterID,
		Replica:    raft.ReplicaKey{NodeID: raft.NodeID(q.ReplicaID), DirectoryID: p.ReplicaDirectoryID},
		MaxBytes:   q.MaxBytes,
		Epoch:      raft.Epoch(p.CurrentLeaderEpoch),
		SnapshotID: id,
		Position:   p.Position,
	}, nil
}

func encodeFetchSnapshotResponse(out *kmsg.FetchSnapshotResponse, r *raft.FetchSnapshotResponse, q *kmsg.FetchSnapshotRequest, piece []byte) {
	out.ErrorCode = int16(r.Code)
	if r.Code != raft.NoError {
		return
	}
	topic := q.Topics[0]
	p := kmsg.NewFetchSnapshotResponseTopicPartition()
	p.Partition = topic.Partitions[0].Partition
	p.ErrorCode = int16(r.Partition)
	p.SnapshotID.EndOffset = int64(r.SnapshotID.EndOffset)
	p.SnapshotID.Epoch = int32(r.SnapshotID.Epoch)
	p.CurrentLeader.LeaderID = int32(r.LeaderID)
	p.CurrentLeader.LeaderEpoch = int32(r.Epoch)
	p.Size = r.SizeBytes
	p.Position = r.Position
	// Unlike Kafka 4.4.0, which leaves it null with an error of the partition, and then cannot write the answer.
	p.Bytes = notNil(piece)
	out.Topics = []kmsg.FetchSnapshotResponseTopic{{Topic: topic.Topic, Partitions: []kmsg.FetchSnapshotResponseTopicPartition{p}}}
	if q.Version >= 1 && r.Endpoint.Host != "" {
		out.NodeEndpoints = []kmsg.FetchSnapshotResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
	}
}

// decodeFetchSnapshotResponse leaves a top-level UnknownServerError, by which Kafka 4.4.0 answers all errors of the
// partition, to the core.
func decodeFetchSnapshotResponse(r *kmsg.FetchSnapshotResponse) (raft.Response, []byte, error) {
	out := &raft.FetchSnapshotResponse{Code: raft.Code(r.ErrorCode)}
	if out.Code != raft.NoError {
		return out, nil, nil
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, nil, &PartitionError{r.Key()}
	}
	p := r.Topics[0].Partitions[0]
	out.Partition = raft.Code(p.ErrorCode)
	out.LeaderView = leaderView(p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
	for _, n := range r.NodeEndpoints {
		addEndpoint(&out.LeaderView, n.NodeID, n.Host, int32(n.Port))
	}
	out.SnapshotID = raft.SnapshotID{EndOffset: raft.Offset(p.SnapshotID.EndOffset), Epoch: raft.Epoch(p.SnapshotID.Epoch)}
	out.SizeBytes, out.Position = p.Size, p.Position
	return out, p.Bytes, nil
}
