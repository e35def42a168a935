package wire

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// The messages of internal/raft on the wire and back, one API a file. This knows versions, topics, what is null and
// what is empty, and nothing of a cluster's state.
//
// kmsg writes and reads tagged fields at versions that don't have them, and a Kafka node closes the connection then:
// what a version doesn't have stays at its default here.

const metadataTopic = "__cluster_metadata"

// metadataTopicID is the id of that topic. Fetch goes by it.
var metadataTopicID = [16]byte{15: 1}

// RaftAPIs are the APIs of the core and the versions of them that are spoken; the newest are those of Kafka 4.4.0.
// Fetch is by topic id from 13 on, older versions are served by a refusal.
var RaftAPIs = []API{
	{int16(kmsg.Fetch), 4, 18},
	{int16(kmsg.Vote), 0, 2},
	{int16(kmsg.BeginQuorumEpoch), 0, 1},
	{int16(kmsg.EndQuorumEpoch), 0, 1},
	{int16(kmsg.DescribeQuorum), 0, 2},
	{int16(kmsg.FetchSnapshot), 0, 1},
	{int16(kmsg.AddRaftVoter), 0, 1},
	{int16(kmsg.RemoveRaftVoter), 0, 0},
	{int16(kmsg.UpdateRaftVoter), 0, 0},
}

// newestOf returns the newest version of an API that the core's requests are sent in.
func newestOf(key int16) int16 {
	for _, a := range RaftAPIs {
		if a.Key == key {
			return a.Max
		}
	}
	return maxApiVersions
}

// ErrUnsupported says that there is no version of an API that both sides speak and that can express the request.
var ErrUnsupported = errors.New("not supported")

// RaftKey returns the API of a request that the core sends.
func RaftKey(r raft.Request) kmsg.Key {
	switch r.(type) {
	case *raft.VoteRequest:
		return kmsg.Vote
	case *raft.BeginQuorumEpochRequest:
		return kmsg.BeginQuorumEpoch
	case *raft.EndQuorumEpochRequest:
		return kmsg.EndQuorumEpoch
	case *raft.FetchRequest:
		return kmsg.Fetch
	case *raft.FetchSnapshotRequest:
		return kmsg.FetchSnapshot
	case *raft.AddVoterRequest:
		return kmsg.AddRaftVoter
	case *raft.RemoveVoterRequest:
		return kmsg.RemoveRaftVoter
	case *raft.UpdateVoterRequest:
		return kmsg.UpdateRaftVoter
	case *raft.ApiVersionsRequest:
		return kmsg.ApiVersions
	}
	panic(fmt.Sprintf("the core sends no %T", r))
}

// EncodeRaftRequest maps a request that the core sends to the wire, at a version. Errors: ErrUnsupported, if the
// version cannot express it.
func EncodeRaftRequest(r raft.Request, version int16) (kmsg.Request, error) {
	var q kmsg.Request
	var err error
	switch r := r.(type) {
	case *raft.VoteRequest:
		q, err = encodeVoteRequest(r, version)
	case *raft.BeginQuorumEpochRequest:
		q = encodeBeginQuorumEpochRequest(r)
	case *raft.EndQuorumEpochRequest:
		q = encodeEndQuorumEpochRequest(r)
	case *raft.FetchRequest:
		q, err = encodeFetchRequest(r, version)
	case *raft.FetchSnapshotRequest:
		q = encodeFetchSnapshotRequest(r, version)
	case *raft.AddVoterRequest:
		q, err = encodeAddRaftVoterRequest(r, version)
	case *raft.RemoveVoterRequest:
		q = encodeRemoveRaftVoterRequest(r)
	case *raft.UpdateVoterRequest:
		q = encodeUpdateRaftVoterRequest(r)
	case *raft.ApiVersionsRequest:
		q = newApiVersionsRequest()
	default:
		panic(fmt.Sprintf("the core sends no %T", r))
	}
	if err != nil {
		return nil, err
	}
	q.SetVersion(version)
	return q, nil
}

// DecodeRaftRequest maps a request of one of the RaftAPIs to the core's. One that doesn't name partition 0 of the
// metadata topic, and nothing else, is refused here: then the answer to send is returned in its place. The cluster
// id, "" for a node without one, comes before that, in Kafka's order; for all others the core checks it.
func DecodeRaftRequest(q kmsg.Request, clusterID string) (r raft.Request, refusal kmsg.Response) {
	var refused raft.Response
	switch q := q.(type) {
	case *kmsg.VoteRequest:
		r, refused = decodeVoteRequest(q, clusterID)
	case *kmsg.BeginQuorumEpochRequest:
		r, refused = decodeBeginQuorumEpochRequest(q, clusterID)
	case *kmsg.EndQuorumEpochRequest:
		r, refused = decodeEndQuorumEpochRequest(q, clusterID)
	case *kmsg.FetchRequest:
		r, refused = decodeFetchRequest(q, clusterID)
	case *kmsg.FetchSnapshotRequest:
		r, refused = decodeFetchSnapshotRequest(q, clusterID)
	case *kmsg.AddRaftVoterRequest:
		r = decodeAddRaftVoterRequest(q)
	case *kmsg.RemoveRaftVoterRequest:
		r = decodeRemoveRaftVoterRequest(q)
	case *kmsg.UpdateRaftVoterRequest:
		r = decodeUpdateRaftVoterRequest(q)
	case *kmsg.DescribeQuorumRequest:
		r, refused = decodeDescribeQuorumRequest(q)
	default:
		panic(fmt.Sprintf("the core takes no %T", q))
	}
	if refused != nil {
		return nil, EncodeRaftResponse(q, refused, nil, nil)
	}
	return r, nil
}

// refusal is why a request that names the topic or not cannot go on to the core.
func refusal(theirs *string, ours string, topic bool) raft.Code {
	switch {
	case topic:
		return raft.NoError
	case theirs != nil && ours != "" && *theirs != ours:
		return raft.InconsistentClusterID
	}
	return raft.InvalidRequest
}

// EncodeRaftResponse maps an answer of the core to the wire, as the answer to q. payload is what the driver has read
// for it: batches, or a piece of a snapshot. wall turns the clock of Step into milliseconds since the Unix epoch, for
// DescribeQuorum alone.
//
// An answer with a top-level error names no topic. Only then is the core's view of the leader left out.
func EncodeRaftResponse(q kmsg.Request, r raft.Response, payload []byte, wall func(raft.Millis) int64) kmsg.Response {
	version := q.GetVersion()
	out := q.ResponseKind()
	switch r := r.(type) {
	case *raft.VoteResponse:
		encodeVoteResponse(out.(*kmsg.VoteResponse), r, version)
	case *raft.BeginQuorumEpochResponse:
		encodeBeginQuorumEpochResponse(out.(*kmsg.BeginQuorumEpochResponse), r, version)
	case *raft.EndQuorumEpochResponse:
		encodeEndQuorumEpochResponse(out.(*kmsg.EndQuorumEpochResponse), r, version)
	case *raft.FetchResponse:
		encodeFetchResponse(out.(*kmsg.FetchResponse), r, version, payload)
	case *raft.FetchSnapshotResponse:
		encodeFetchSnapshotResponse(out.(*kmsg.FetchSnapshotResponse), r, q.(*kmsg.FetchSnapshotRequest), payload)
	case *raft.ChangeVoterResponse:
		encodeChangeVoterResponse(out, r)
	case *raft.UpdateVoterResponse:
		encodeUpdateRaftVoterResponse(out.(*kmsg.UpdateRaftVoterResponse), r)
	case *raft.DescribeQuorumResponse:
		encodeDescribeQuorumResponse(out.(*kmsg.DescribeQuorumResponse), r, q.(*kmsg.DescribeQuorumRequest), wall)
	default:
		panic(fmt.Sprintf("a %T answers nothing on the wire", r))
	}
	return out
}

// DecodeRaftResponse maps an answer to a request of the core. Its batches or bytes are not in it yet: they are
// payload, a part of the frame. Errors: an answer that has not the one partition that was asked for.
func DecodeRaftResponse(r kmsg.Response) (out raft.Response, payload []byte, err error) {
	switch r := r.(type) {
	case *kmsg.VoteResponse:
		out, err = decodeVoteResponse(r)
	case *kmsg.BeginQuorumEpochResponse:
		out, err = decodeBeginQuorumEpochResponse(r)
	case *kmsg.EndQuorumEpochResponse:
		out, err = decodeEndQuorumEpochResponse(r)
	case *kmsg.FetchResponse:
		return decodeFetchResponse(r)
	case *kmsg.FetchSnapshotResponse:
		return decodeFetchSnapshotResponse(r)
	case *kmsg.AddRaftVoterResponse:
		out = decodeChangeVoterResponse(r.ErrorCode, r.ErrorMessage)
	case *kmsg.RemoveRaftVoterResponse:
		out = decodeChangeVoterResponse(r.ErrorCode, r.ErrorMessage)
	case *kmsg.UpdateRaftVoterResponse:
		out = decodeUpdateRaftVoterResponse(r)
	case *kmsg.ApiVersionsResponse:
		out = decodeApiVersionsResponse(r)
	default:
		panic(fmt.Sprintf("a %T answers nothing that the core sends", r))
	}
	return out, nil, err
}

// PartitionError is an answer that has not the one partition that was asked for.
type PartitionError struct{ Key int16 }

func (e *PartitionError) Error() string {
	return fmt.Sprintf("the answer to %s has not the one partition that was asked for", kmsg.NameForKey(e.Key))
}

// leaderView is what an answer says of the leader.
func leaderView(id, epoch int32) raft.LeaderView {
	return raft.LeaderView{LeaderID: raft.NodeID(id), Epoch: raft.Epoch(epoch)}
}

// addEndpoint adds a node's address to the view if the node is the leader. A port that is none counts as no address.
func addEndpoint(v *raft.LeaderView, id int32, host string, port int32) {
	if raft.NodeID(id) == v.LeaderID && id >= 0 && port > 0 && port < 1<<16 {
		v.Endpoint = raft.Endpoint{Host: host, Port: uint16(port)}
	}
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
