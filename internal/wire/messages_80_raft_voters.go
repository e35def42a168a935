package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (80, 81, 82; KIP-853). AckWhenCommitted came with AddRaftVoter 1
// (KIP-1186).

func encodeAddRaftVoterRequest(r *raft.AddVoterRequest, version int16) (kmsg.Request, error) {
	if version == 0 && !r.AckWhenCommitted {
		// The answer could wait for a Fetch of this node, which waits for the answer.
		return nil, fmt.Errorf("AddRaftVoter without AckWhenCommitted in version %d: %w", version, ErrUnsupported)
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
	return q, nil
}

func decodeAddRaftVoterRequest(q *kmsg.AddRaftVoterRequest) raft.Request {
	r := &raft.AddVoterRequest{
		ClusterID:        q.ClusterID,
		TimeoutMillis:    raft.Millis(q.TimeoutMillis),
		Voter:            raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: q.VoterDirectoryID},
		AckWhenCommitted: q.Version == 0 || q.AckWhenCommitted,
	}
	for _, e := range q.Listeners {
		r.Endpoints = append(r.Endpoints, raft.Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port})
	}
	return r
}

func encodeRemoveRaftVoterRequest(r *raft.RemoveVoterRequest) kmsg.Request {
	q := kmsg.NewPtrRemoveRaftVoterRequest()
	q.ClusterID = r.ClusterID
	q.VoterID = int32(r.Voter.NodeID)
	q.VoterDirectoryID = r.Voter.DirectoryID
	return q
}

func decodeRemoveRaftVoterRequest(q *kmsg.RemoveRaftVoterRequest) raft.Request {
	return &raft.RemoveVoterRequest{
		ClusterID: q.ClusterID,
		Voter:     raft.ReplicaKey{NodeID: raft.NodeID(q.VoterID), DirectoryID: q.VoterDirectoryID},
	}
}

// encodeChangeVoterResponse fills the answer to AddRaftVoter or RemoveRaftVoter. Without an error its message is null.
func encodeChangeVoterResponse(out kmsg.Response, r *raft.ChangeVoterResponse) {
	switch out := out.(type) {
	case *kmsg.AddRaftVoterResponse:
		out.ErrorCode, out.ErrorMessage = int16(r.Code), nullIfEmpty(r.Message)
	case *kmsg.RemoveRaftVoterResponse:
		out.ErrorCode, out.ErrorMessage = int16(r.Code), nullIfEmpty(r.Message)
	default:
		panic(fmt.Sprintf("a %T for a change of voters", out))
	}
}

func decodeChangeVoterResponse(code int16, message *string) raft.Response {
	return &raft.ChangeVoterResponse{Code: raft.Code(code), Message: emptyIfNull(message)}
}

func encodeUpdateRaftVoterRequest(r *raft.UpdateVoterRequest) kmsg.Request {
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
	return q
}

func decodeUpdateRaftVoterRequest(q *kmsg.UpdateRaftVoterRequest) raft.Request {
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
	return r
}

func encodeUpdateRaftVoterResponse(out *kmsg.UpdateRaftVoterResponse, r *raft.UpdateVoterResponse) {
	out.ErrorCode = int16(r.Code)
	if r.Code == raft.InconsistentClusterID {
		return
	}
	out.CurrentLeader.LeaderID = int32(r.LeaderID)
	out.CurrentLeader.LeaderEpoch = int32(r.Epoch)
	out.CurrentLeader.Host = r.Endpoint.Host
	out.CurrentLeader.Port = int32(r.Endpoint.Port)
}

func decodeUpdateRaftVoterResponse(r *kmsg.UpdateRaftVoterResponse) raft.Response {
	l := r.CurrentLeader
	out := &raft.UpdateVoterResponse{Code: raft.Code(r.ErrorCode), LeaderView: leaderView(l.LeaderID, l.LeaderEpoch)}
	addEndpoint(&out.LeaderView, l.LeaderID, l.Host, l.Port)
	return out
}
