package raft_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// TestWireFrames maps every recorded frame to the core's messages and back to the same bytes.
func TestWireFrames(t *testing.T) {
	wall := func(m raft.Millis) int64 { return int64(m) }
	unwall := func(m int64) raft.Millis { return raft.Millis(m) }
	for _, name := range []string{"static", "dynamic", "dynamic2"} {
		for _, f := range readTrace(t, name).frames {
			if f.api == kmsg.ApiVersions {
				continue // the client's name differs; the core only asks: TestWireApiVersions
			}
			if f.version != wireVersions[f.api].newest {
				t.Errorf("%s: version %d, real nodes speak %d", f.name, f.version, wireVersions[f.api].newest)
			}
			q, clientID, correlationID := f.request(t)
			if !f.response {
				r, refused := decodeRequest(q, "")
				if refused != nil {
					t.Fatalf("%s is refused: %v", f.name, refused)
				}
				back, err := encodeRequest(r, f.version)
				if err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
				if got := appendRequestFrame(nil, back, clientID, correlationID); !bytes.Equal(got, f.bytes) {
					t.Errorf("%s: %s", f.name, diffBytes(got, f.bytes, back, q))
				}
				continue
			}
			r, correlationID := f.decodedResponse(t)
			core, payload, err := decodeResponse(r, unwall)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			if q, ok := q.(*kmsg.FetchSnapshotRequest); ok {
				q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: metadataTopic, Partitions: make([]kmsg.FetchSnapshotRequestTopicPartition, 1)}}
			}
			back, err := encodeResponse(q, core, payload, wall)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			if got := appendResponseFrame(nil, back, correlationID); !bytes.Equal(got, f.bytes) {
				t.Errorf("%s: %s", f.name, diffBytes(got, f.bytes, back, r))
			}
		}
	}
}

// TestWireApiVersions reads what the answer to the probe of a new voter says.
func TestWireApiVersions(t *testing.T) {
	f := readTrace(t, "dynamic").byName["12.521 ApiVersions 2>1"]
	r, _ := f.decodedResponse(t)
	got, _, err := decodeResponse(r, nil)
	want := &raft.ApiVersionsResponse{HasKRaftVersion: true, MinKRaftVersion: 0, MaxKRaftVersion: 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	// An old node answers version 0 alone, with error 35.
	old := kmsg.NewPtrApiVersionsResponse()
	old.ErrorCode = 35
	if got, _, _ := decodeResponse(old, nil); !reflect.DeepEqual(got, &raft.ApiVersionsResponse{Code: raft.UnsupportedVersion}) {
		t.Errorf("got %+v", got)
	}
}

var (
	wireCluster   = "MkU3OEVBNTcwNTJENDM2Qg"
	wireKey       = raft.ReplicaKey{NodeID: 7, DirectoryID: uuid.UUID{1, 15: 2}}
	wireKey2      = raft.ReplicaKey{NodeID: 8, DirectoryID: uuid.UUID{3, 15: 4}}
	wireEndpoints = []raft.Endpoint{{Listener: "CONTROLLER", Host: "a", Port: 1}, {Listener: "SSL", Host: "b", Port: 65535}}
	wireView      = raft.LeaderView{LeaderID: 5, Epoch: 6, Endpoint: raft.Endpoint{Host: "c", Port: 22161}}
)

func plain(k raft.ReplicaKey) raft.ReplicaKey { return raft.ReplicaKey{NodeID: k.NodeID} }

// The requests with all fields set. lost changes a copy to what is left of it after a trip at an older version; nil requests are
// those that the version cannot express.
var wireRequests = []struct {
	request raft.Request
	api     kmsg.Key
	lost    func(version int16, r raft.Request) raft.Request
}{
	{
		&raft.VoteRequest{ClusterID: &wireCluster, Voter: wireKey, ReplicaEpoch: 3, Replica: wireKey2, LastEpoch: 2, LastOffset: 9, PreVote: true}, kmsg.Vote,
		func(version int16, r raft.Request) raft.Request {
			if version < 2 {
				return nil
			}
			return r
		},
	},
	{
		&raft.VoteRequest{ClusterID: &wireCluster, Voter: wireKey, ReplicaEpoch: 3, Replica: wireKey2, LastEpoch: 2, LastOffset: 9}, kmsg.Vote,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.VoteRequest); version == 0 {
				q.Voter, q.Replica = raft.ReplicaKey{NodeID: raft.None}, plain(q.Replica)
				return &q
			}
			return r
		},
	},
	{
		&raft.BeginQuorumEpochRequest{ClusterID: &wireCluster, Voter: wireKey, LeaderID: 8, Epoch: 3, Endpoints: wireEndpoints}, kmsg.BeginQuorumEpoch,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.BeginQuorumEpochRequest); version == 0 {
				q.Voter, q.Endpoints = raft.ReplicaKey{NodeID: raft.None}, nil
				return &q
			}
			return r
		},
	},
	{
		&raft.EndQuorumEpochRequest{ClusterID: &wireCluster, LeaderID: 8, Epoch: 3, Successors: []raft.ReplicaKey{wireKey, wireKey2}, Endpoints: wireEndpoints}, kmsg.EndQuorumEpoch,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.EndQuorumEpochRequest); version == 0 {
				q.Successors, q.Endpoints = []raft.ReplicaKey{plain(wireKey), plain(wireKey2)}, nil
				return &q
			}
			return r
		},
	},
	{
		&raft.FetchRequest{ClusterID: &wireCluster, Replica: wireKey, MaxWaitMillis: 500, MaxBytes: 100, Epoch: 3, FetchOffset: 9, LastFetchedEpoch: 2, HighWatermark: 8}, kmsg.Fetch,
		func(version int16, r raft.Request) raft.Request {
			q := *r.(*raft.FetchRequest)
			if version < 13 {
				return nil
			}
			if version < 17 {
				q.Replica = plain(q.Replica)
			}
			if version < 18 {
				q.HighWatermark = raft.NoHighWatermark
			}
			return &q
		},
	},
	{
		&raft.FetchSnapshotRequest{ClusterID: &wireCluster, Replica: wireKey, MaxBytes: 100, Epoch: 3, SnapshotID: raft.SnapshotID{EndOffset: 9, Epoch: 2}, Position: 5}, kmsg.FetchSnapshot,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.FetchSnapshotRequest); version == 0 {
				q.Replica = plain(q.Replica)
				return &q
			}
			return r
		},
	},
	{
		&raft.AddVoterRequest{ClusterID: &wireCluster, TimeoutMillis: 2000, Voter: wireKey, Endpoints: wireEndpoints}, kmsg.AddRaftVoter,
		func(version int16, r raft.Request) raft.Request {
			if version == 0 {
				return nil
			}
			return r
		},
	},
	{&raft.AddVoterRequest{TimeoutMillis: 2000, Voter: wireKey, Endpoints: wireEndpoints, AckWhenCommitted: true}, kmsg.AddRaftVoter, nil},
	{&raft.RemoveVoterRequest{ClusterID: &wireCluster, Voter: wireKey}, kmsg.RemoveRaftVoter, nil},
	{&raft.RemoveVoterRequest{Voter: wireKey}, kmsg.RemoveRaftVoter, nil},
	{&raft.UpdateVoterRequest{ClusterID: &wireCluster, Epoch: 3, Voter: wireKey, Endpoints: wireEndpoints, MinKRaftVersion: 0, MaxKRaftVersion: 1}, kmsg.UpdateRaftVoter, nil},
	{&raft.DescribeQuorumRequest{}, kmsg.DescribeQuorum, nil},
	{&raft.ApiVersionsRequest{}, kmsg.ApiVersions, nil},
}

func TestWireRequests(t *testing.T) {
	for _, c := range wireRequests {
		for version := wireVersions[c.api].oldest; version <= wireVersions[c.api].newest; version++ {
			want := c.request
			if c.lost != nil {
				want = c.lost(version, c.request)
			}
			what := fmt.Sprintf("%T v%d", c.request, version)
			q, err := encodeRequest(c.request, version)
			if want == nil {
				if !errors.Is(err, errUnsupported) {
					t.Errorf("%s: error %v", what, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			frame := appendRequestFrame(nil, q, "client", 77)
			back, clientID, correlationID, err := decodeRequestFrame(frame)
			if err != nil || clientID != "client" || correlationID != 77 {
				t.Fatalf("%s: client %q, correlation %d, %v", what, clientID, correlationID, err)
			}
			got, refused := decodeRequest(back, wireCluster)
			if refused != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v (%v), want %+v", what, got, refused, want)
			}
		}
	}
}

// TestWireTags: tagged fields that a version doesn't have are not sent, though kmsg would.
func TestWireTags(t *testing.T) {
	for version := int16(13); version <= 18; version++ {
		q, err := encodeRequest(wireRequests[4].request, version)
		if err != nil {
			t.Fatal(err)
		}
		p := q.(*kmsg.FetchRequest).Topics[0].Partitions[0]
		if (p.ReplicaDirectoryID != [16]byte{}) != (version >= 17) || (p.HighWatermark != 1<<63-1) != (version >= 18) {
			t.Errorf("Fetch v%d: %+v", version, p)
		}
		r, err := encodeResponse(q, &raft.FetchResponse{LeaderView: wireView}, nil, nil)
		if err != nil || (len(r.(*kmsg.FetchResponse).Brokers) > 0) != (version >= 17) {
			t.Errorf("Fetch v%d: %+v, %v", version, r, err)
		}
	}
	for version := int16(0); version <= 1; version++ {
		q, err := encodeRequest(wireRequests[5].request, version)
		if err != nil {
			t.Fatal(err)
		}
		if p := q.(*kmsg.FetchSnapshotRequest).Topics[0].Partitions[0]; (p.ReplicaDirectoryID != [16]byte{}) != (version >= 1) {
			t.Errorf("FetchSnapshot v%d: %+v", version, p)
		}
	}
}

var wireResponses = []struct {
	response raft.Response
	api      kmsg.Key
	lost     func(version int16, r raft.Response) raft.Response // nil: the node endpoints below newest
	payload  []byte
}{
	{&raft.VoteResponse{Partition: 74, LeaderView: wireView, VoteGranted: true}, kmsg.Vote, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.VoteResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, nil},
	{&raft.VoteResponse{Code: raft.InconsistentClusterID}, kmsg.Vote, nil, nil},
	{&raft.VoteResponse{LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: 4}}, kmsg.Vote, nil, nil},
	{&raft.BeginQuorumEpochResponse{Partition: 125, LeaderView: wireView}, kmsg.BeginQuorumEpoch, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.BeginQuorumEpochResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, nil},
	{&raft.EndQuorumEpochResponse{Partition: 42, LeaderView: wireView}, kmsg.EndQuorumEpoch, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.EndQuorumEpochResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, nil},
	{&raft.FetchResponse{LeaderView: wireView, HighWatermark: 7, LogStart: 3}, kmsg.Fetch, lostByFetch, []byte("records")},
	{&raft.FetchResponse{LeaderView: wireView, HighWatermark: 7, Diverging: &raft.EpochEnd{Epoch: 0, EndOffset: 0}}, kmsg.Fetch, lostByFetch, []byte{}},
	{&raft.FetchResponse{LeaderView: wireView, HighWatermark: -1, SnapshotID: &raft.SnapshotID{EndOffset: 9, Epoch: 2}}, kmsg.Fetch, lostByFetch, []byte{}},
	{&raft.FetchResponse{Code: raft.InvalidRequest}, kmsg.Fetch, nil, nil},
	{&raft.FetchSnapshotResponse{LeaderView: wireView, SnapshotID: raft.SnapshotID{EndOffset: 9, Epoch: 2}, SizeBytes: 100, Position: 5}, kmsg.FetchSnapshot, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.FetchSnapshotResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, []byte("snapshot")},
	{&raft.FetchSnapshotResponse{Partition: raft.SnapshotNotFound, LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: 4}, SnapshotID: raft.SnapshotID{EndOffset: 9, Epoch: 2}}, kmsg.FetchSnapshot, nil, []byte{}},
	{&raft.FetchSnapshotResponse{Code: raft.InconsistentClusterID}, kmsg.FetchSnapshot, nil, nil},
	{&raft.ChangeVoterResponse{}, kmsg.AddRaftVoter, nil, nil},
	{&raft.ChangeVoterResponse{Code: raft.DuplicateVoter, Message: "m"}, kmsg.AddRaftVoter, nil, nil},
	{&raft.ChangeVoterResponse{Code: raft.VoterNotFound, Message: "m"}, kmsg.RemoveRaftVoter, nil, nil},
	{&raft.UpdateVoterResponse{Code: raft.FencedLeaderEpoch, LeaderView: wireView}, kmsg.UpdateRaftVoter, nil, nil},
	{&raft.DescribeQuorumResponse{
		LeaderID: 7, Epoch: 6, HighWatermark: 9,
		Voters:    []raft.ReplicaState{{Key: wireKey, LogEnd: 9, LastFetch: 100, LastCaughtUp: 90}},
		Observers: []raft.ReplicaState{{Key: wireKey2, LogEnd: -1, LastFetch: -1, LastCaughtUp: -1}},
		Nodes:     []raft.Voter{{Key: wireKey, Endpoints: wireEndpoints}},
	}, kmsg.DescribeQuorum, func(version int16, r raft.Response) raft.Response {
		q := *r.(*raft.DescribeQuorumResponse)
		older := func(states []raft.ReplicaState) (out []raft.ReplicaState) {
			for _, s := range states {
				if version < 2 {
					s.Key = plain(s.Key)
				}
				if version < 1 {
					s.LastFetch, s.LastCaughtUp = -1, -1
				}
				out = append(out, s)
			}
			return out
		}
		q.Voters, q.Observers = older(q.Voters), older(q.Observers)
		if version < 2 {
			q.Nodes = nil
		}
		return &q
	}, nil},
}

func lostByFetch(version int16, r raft.Response) raft.Response {
	if q := *r.(*raft.FetchResponse); version < 17 {
		q.Endpoint = raft.Endpoint{}
		return &q
	}
	return r
}

func TestWireResponses(t *testing.T) {
	wall := func(m raft.Millis) int64 { return int64(m) }
	for _, c := range wireResponses {
		for version := wireVersions[c.api].oldest; version <= wireVersions[c.api].newest; version++ {
			if r, ok := c.response.(*raft.FetchResponse); ok && (r.Code == raft.NoError && version < 13 || version < 7) {
				continue // answered by a refusal alone, which the oldest have no field for
			}
			want := c.response
			if c.lost != nil {
				want = c.lost(version, c.response)
			}
			what := fmt.Sprintf("%T v%d", c.response, version)
			q := kmsg.RequestForKey(int16(c.api))
			q.SetVersion(version)
			if q, ok := q.(*kmsg.FetchSnapshotRequest); ok {
				q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: metadataTopic, Partitions: make([]kmsg.FetchSnapshotRequestTopicPartition, 1)}}
			}
			r, err := encodeResponse(q, c.response, c.payload, wall)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			back, correlationID, err := decodeResponseFrame(appendResponseFrame(nil, r, 78), q)
			if err != nil || correlationID != 78 {
				t.Fatalf("%s: correlation %d, %v", what, correlationID, err)
			}
			got, payload, err := decodeResponse(back, func(m int64) raft.Millis { return raft.Millis(m) })
			if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(payload, c.payload) || (payload == nil) != (c.payload == nil) {
				t.Errorf("%s: got %+v, %q, %v, want %+v, %q", what, got, payload, err, want, c.payload)
			}
		}
	}
}
