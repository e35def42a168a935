package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// DescribeQuorum (KIP-595, KIP-836): times from 1 on, directory ids and the voters' endpoints from 2 on (KIP-853). The
// core is only asked.

func decodeDescribeQuorumRequest(q *kmsg.DescribeQuorumRequest) (raft.Request, raft.Response) {
	if len(q.Topics) != 1 || q.Topics[0].Topic != metadataTopic ||
		len(q.Topics[0].Partitions) != 1 || q.Topics[0].Partitions[0].Partition != 0 {
		return nil, &raft.DescribeQuorumResponse{Partition: raft.UnknownTopicOrPartition}
	}
	return &raft.DescribeQuorumRequest{}, nil
}

func encodeDescribeQuorumResponse(out *kmsg.DescribeQuorumResponse, r *raft.DescribeQuorumResponse, q *kmsg.DescribeQuorumRequest, wall func(raft.Millis) int64) {
	replicas := func(states []raft.ReplicaState) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
		rows := []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
		for _, s := range states {
			row := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			row.ReplicaID = int32(s.Key.NodeID)
			row.ReplicaDirectoryID = s.Key.DirectoryID
			row.LogEndOffset = int64(s.LogEnd)
			if s.LastFetch >= 0 { // else never: -1, the default
				row.LastFetchTimestamp = wall(s.LastFetch)
			}
			if s.LastCaughtUp >= 0 {
				row.LastCaughtUpTimestamp = wall(s.LastCaughtUp)
			}
			rows = append(rows, row)
		}
		return rows
	}
	out.ErrorMessage = kmsg.StringPtr("")
	topic := metadataTopic
	if len(q.Topics) == 1 {
		topic = q.Topics[0].Topic
	}
	out.Topics = []kmsg.DescribeQuorumResponseTopic{{
		Topic: topic,
		Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
			ErrorCode:     int16(r.Partition),
			ErrorMessage:  kmsg.StringPtr(""),
			LeaderID:      int32(r.LeaderID),
			LeaderEpoch:   int32(r.Epoch),
			HighWatermark: int64(r.HighWatermark),
			CurrentVoters: replicas(r.Voters),
			Observers:     replicas(r.Observers),
		}},
	}}
	for _, v := range r.Nodes {
		node := kmsg.DescribeQuorumResponseNode{NodeID: int32(v.Key.NodeID)}
		for _, e := range v.Endpoints {
			node.Listeners = append(node.Listeners, kmsg.DescribeQuorumResponseNodeListener{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		out.Nodes = append(out.Nodes, node)
	}
}
