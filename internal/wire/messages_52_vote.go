package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// Vote (KIP-595): directory ids from 1 on (KIP-853), pre-votes from 2 on (KIP-996).

func encodeVoteRequest(r *raft.VoteRequest, version int16) (kmsg.Request, error) {
	if r.PreVote && version < 2 {
		return nil, fmt.Errorf("a pre-vote in version %d of Vote: %w", version, ErrUnsupported)
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
	return q, nil
}

func decodeVoteRequest(q *kmsg.VoteRequest, clusterID string) (raft.Request, raft.Response) {
	ok := len(q.Topics) == 1 && q.Topics[0].Topic == metadataTopic &&
		len(q.Topics[0].Partitions) == 1 && q.Topics[0].Partitions[0].Partition == 0
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
}

func encodeVoteResponse(out *kmsg.VoteResponse, r *raft.VoteResponse, version int16) {
	out.ErrorCode = int16(r.Code)
	if r.Code != raft.NoError {
		return
	}
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

func decodeVoteResponse(r *kmsg.VoteResponse) (raft.Response, error) {
	out := &raft.VoteResponse{Code: raft.Code(r.ErrorCode)}
	if out.Code != raft.NoError {
		return out, nil
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, &PartitionError{r.Key()}
	}
	p := r.Topics[0].Partitions[0]
	out.Partition, out.VoteGranted = raft.Code(p.ErrorCode), p.VoteGranted
	out.LeaderView = leaderView(p.LeaderID, p.LeaderEpoch)
	for _, n := range r.NodeEndpoints {
		addEndpoint(&out.LeaderView, n.NodeID, n.Host, int32(n.Port))
	}
	return out, nil
}
