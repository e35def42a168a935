package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// BeginQuorumEpoch (KIP-595): the receiver's key and the leader's endpoints from 1 on (KIP-853).

func encodeBeginQuorumEpochRequest(r *raft.BeginQuorumEpochRequest) kmsg.Request {
	q := kmsg.NewPtrBeginQuorumEpochRequest()
	q.ClusterID = r.ClusterID
	q.VoterID = int32(r.Voter.NodeID)
	q.Topics = []kmsg.BeginQuorumEpochRequestTopic{{
		Topic: metadataTopic,
		Partitions: []kmsg.BeginQuorumEpochRequestTopicPartition{{
			VoterDirectoryID: r.Voter.DirectoryID,
			LeaderID:         int32(r.LeaderID),
			LeaderEpoch:      int32(r.Epoch),
		}},
	}}
	for _, e := range r.Endpoints {
		q.LeaderEndpoints = append(q.LeaderEndpoints, kmsg.BeginQuorumEpochRequestLeaderEndpoint{Name: e.Listener, Host: e.Host, Port: e.Port})
	}
	return q
}

func decodeBeginQuorumEpochRequest(q *kmsg.BeginQuorumEpochRequest, clusterID string) (raft.Request, raft.Response) {
	ok := len(q.Topics) == 1 && q.Topics[0].Topic == metadataTopic &&
		len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
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
}

func encodeBeginQuorumEpochResponse(out *kmsg.BeginQuorumEpochResponse, r *raft.BeginQuorumEpochResponse, version int16) {
	out.ErrorCode = int16(r.Code)
	if r.Code != raft.NoError {
		return
	}
	out.Topics = []kmsg.BeginQuorumEpochResponseTopic{{
		Topic: metadataTopic,
		Partitions: []kmsg.BeginQuorumEpochResponseTopicPartition{{
			ErrorCode:   int16(r.Partition),
			LeaderID:    int32(r.LeaderID),
			LeaderEpoch: int32(r.Epoch),
		}},
	}}
	if version >= 1 && r.Endpoint.Host != "" {
		out.NodeEndpoints = []kmsg.BeginQuorumEpochResponseNodeEndpoint{{NodeID: int32(r.LeaderID), Host: r.Endpoint.Host, Port: r.Endpoint.Port}}
	}
}

func decodeBeginQuorumEpochResponse(r *kmsg.BeginQuorumEpochResponse) (raft.Response, error) {
	out := &raft.BeginQuorumEpochResponse{Code: raft.Code(r.ErrorCode)}
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
