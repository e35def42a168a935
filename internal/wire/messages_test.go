package wire

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

var (
	testCluster   = "MkU3OEVBNTcwNTJENDM2Qg"
	testKey       = raft.ReplicaKey{NodeID: 7, DirectoryID: uuid.UUID{1, 15: 2}}
	otherKey      = raft.ReplicaKey{NodeID: 8, DirectoryID: uuid.UUID{3, 15: 4}}
	testEndpoints = []raft.Endpoint{{Listener: "CONTROLLER", Host: "a", Port: 1}, {Listener: "SSL", Host: "b", Port: 65535}}
	testView      = raft.LeaderView{LeaderID: 5, Epoch: 6, Endpoint: raft.Endpoint{Host: "c", Port: 22161}}
)

func plain(k raft.ReplicaKey) raft.ReplicaKey { return raft.ReplicaKey{NodeID: k.NodeID} }

// The requests with all fields set. lost changes a copy to what is left of it after a trip at an older version; nil requests are
// those that the version cannot express.
var raftRequests = []struct {
	request raft.Request
	api     kmsg.Key
	lost    func(version int16, r raft.Request) raft.Request
}{
	{
		&raft.VoteRequest{ClusterID: &testCluster, Voter: testKey, ReplicaEpoch: 3, Replica: otherKey, LastEpoch: 2, LastOffset: 9, PreVote: true}, kmsg.Vote,
		func(version int16, r raft.Request) raft.Request {
			if version < 2 {
				return nil
			}
			return r
		},
	},
	{
		&raft.VoteRequest{ClusterID: &testCluster, Voter: testKey, ReplicaEpoch: 3, Replica: otherKey, LastEpoch: 2, LastOffset: 9}, kmsg.Vote,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.VoteRequest); version == 0 {
				q.Voter, q.Replica = raft.ReplicaKey{NodeID: raft.None}, plain(q.Replica)
				return &q
			}
			return r
		},
	},
	{
		&raft.BeginQuorumEpochRequest{ClusterID: &testCluster, Voter: testKey, LeaderID: 8, Epoch: 3, Endpoints: testEndpoints}, kmsg.BeginQuorumEpoch,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.BeginQuorumEpochRequest); version == 0 {
				q.Voter, q.Endpoints = raft.ReplicaKey{NodeID: raft.None}, nil
				return &q
			}
			return r
		},
	},
	{
		&raft.EndQuorumEpochRequest{ClusterID: &testCluster, LeaderID: 8, Epoch: 3, Successors: []raft.ReplicaKey{testKey, otherKey}, Endpoints: testEndpoints}, kmsg.EndQuorumEpoch,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.EndQuorumEpochRequest); version == 0 {
				q.Successors, q.Endpoints = []raft.ReplicaKey{plain(testKey), plain(otherKey)}, nil
				return &q
			}
			return r
		},
	},
	{
		&raft.FetchRequest{ClusterID: &testCluster, Replica: testKey, MaxWaitMillis: 500, MaxBytes: 100, Epoch: 3, FetchOffset: 9, LastFetchedEpoch: 2, HighWatermark: 8}, kmsg.Fetch,
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
		&raft.FetchSnapshotRequest{ClusterID: &testCluster, Replica: testKey, MaxBytes: 100, Epoch: 3, SnapshotID: raft.SnapshotID{EndOffset: 9, Epoch: 2}, Position: 5}, kmsg.FetchSnapshot,
		func(version int16, r raft.Request) raft.Request {
			if q := *r.(*raft.FetchSnapshotRequest); version == 0 {
				q.Replica = plain(q.Replica)
				return &q
			}
			return r
		},
	},
	{
		&raft.AddVoterRequest{ClusterID: &testCluster, TimeoutMillis: 2000, Voter: testKey, Endpoints: testEndpoints}, kmsg.AddRaftVoter,
		func(version int16, r raft.Request) raft.Request {
			if version == 0 {
				return nil
			}
			return r
		},
	},
	{&raft.AddVoterRequest{TimeoutMillis: 2000, Voter: testKey, Endpoints: testEndpoints, AckWhenCommitted: true}, kmsg.AddRaftVoter, nil},
	{&raft.RemoveVoterRequest{ClusterID: &testCluster, Voter: testKey}, kmsg.RemoveRaftVoter, nil},
	{&raft.RemoveVoterRequest{Voter: testKey}, kmsg.RemoveRaftVoter, nil},
	{&raft.UpdateVoterRequest{ClusterID: &testCluster, Epoch: 3, Voter: testKey, Endpoints: testEndpoints, MinKRaftVersion: 0, MaxKRaftVersion: 1}, kmsg.UpdateRaftVoter, nil},
}

// versionsOf returns the range of an API's versions.
func versionsOf(api kmsg.Key) (oldest, newest int16) {
	for _, a := range RaftAPIs {
		if a.Key == int16(api) {
			return a.Min, a.Max
		}
	}
	panic(api.Name())
}

// trip brings a request through a frame.
func trip(t *testing.T, q kmsg.Request) kmsg.Request {
	t.Helper()
	h, body, err := DecodeRequestHeader(AppendRequest(nil, q, Self{ClientID: "client"}, 77)[4:])
	if err != nil || h.client() != "client" || h.CorrelationID != 77 {
		t.Fatalf("header %+v, %v", h, err)
	}
	back, err := decodeBody(h.Key, h.Version, body)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// TestRaftRequests: what a version has survives the trip, and nothing else is sent; decodeBody takes no tagged
// field that the version doesn't have.
func TestRaftRequests(t *testing.T) {
	for _, c := range raftRequests {
		oldest, newest := versionsOf(c.api)
		for version := oldest; version <= newest; version++ {
			t.Run(fmt.Sprintf("%T_v%d", c.request, version), func(t *testing.T) {
				want := c.request
				if c.lost != nil {
					want = c.lost(version, c.request)
				}
				q, err := EncodeRaftRequest(c.request, version)
				if want == nil {
					if !errors.Is(err, ErrUnsupported) {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				got, refused := DecodeRaftRequest(trip(t, q), testCluster)
				if refused != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v (%v), want %+v", got, refused, want)
				}
			})
		}
	}
}

// TestRaftRefusals: a request of something else than partition 0 of the metadata topic doesn't reach the core; another
// cluster id counts for more.
func TestRaftRefusals(t *testing.T) {
	topics := map[string]func(kmsg.Request){
		"no topic": func(q kmsg.Request) { reflect.ValueOf(q).Elem().FieldByName("Topics").SetZero() },
		"two topics": func(q kmsg.Request) {
			topics := reflect.ValueOf(q).Elem().FieldByName("Topics")
			topics.Set(reflect.AppendSlice(topics, topics))
		},
		"no partition": func(q kmsg.Request) {
			reflect.ValueOf(q).Elem().FieldByName("Topics").Index(0).FieldByName("Partitions").SetZero()
		},
		"two partitions": func(q kmsg.Request) {
			partitions := reflect.ValueOf(q).Elem().FieldByName("Topics").Index(0).FieldByName("Partitions")
			partitions.Set(reflect.AppendSlice(partitions, partitions))
		},
		"partition 1": func(q kmsg.Request) {
			topic := reflect.ValueOf(q).Elem().FieldByName("Topics").Index(0)
			topic.FieldByName("Partitions").Index(0).FieldByName("Partition").SetInt(1)
		},
		"another topic": func(q kmsg.Request) {
			topic := reflect.ValueOf(q).Elem().FieldByName("Topics").Index(0)
			topic.FieldByName("Topic").SetString("foo")
			if id := topic.FieldByName("TopicID"); id.IsValid() {
				id.Index(0).SetUint(1)
			}
		},
	}
	for _, c := range raftRequests[:6] {
		for what, change := range topics {
			for _, own := range []string{testCluster, "another", ""} {
				_, version := versionsOf(c.api)
				q, err := EncodeRaftRequest(c.request, version)
				if err != nil {
					t.Fatal(err)
				}
				change(q)
				want := raft.InvalidRequest
				if own == "another" {
					want = raft.InconsistentClusterID
				}
				r, refused := DecodeRaftRequest(q, own)
				if refused == nil {
					t.Fatalf("%T with %s in cluster %q: goes on as %+v", c.request, what, own, r)
				}
				code := raft.Code(reflect.ValueOf(refused).Elem().FieldByName("ErrorCode").Int())
				if s, ok := refused.(*kmsg.FetchSnapshotResponse); ok && code == raft.NoError && (what == "another topic" || what == "partition 1") {
					code, want = raft.Code(s.Topics[0].Partitions[0].ErrorCode), raft.UnknownTopicOrPartition
				}
				if code != want {
					t.Errorf("%T with %s in cluster %q: error %d, want %d", c.request, what, own, code, want)
				}
			}
		}
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: metadataTopic, TopicID: metadataTopicID, Partitions: make([]kmsg.FetchRequestTopicPartition, 1)}}
	if _, refused := DecodeRaftRequest(fetch, ""); refused == nil || refused.(*kmsg.FetchResponse).ErrorCode != int16(raft.InvalidRequest) {
		t.Errorf("Fetch by name: %+v", refused)
	}
}

var raftResponses = []struct {
	response raft.Response
	api      kmsg.Key
	lost     func(version int16, r raft.Response) raft.Response // nil: the node endpoints below newest
	payload  []byte
}{
	{&raft.VoteResponse{Partition: 74, LeaderView: testView, VoteGranted: true}, kmsg.Vote, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.VoteResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, nil},
	{&raft.VoteResponse{Code: raft.InconsistentClusterID}, kmsg.Vote, nil, nil},
	{&raft.VoteResponse{LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: 4}}, kmsg.Vote, nil, nil},
	{&raft.BeginQuorumEpochResponse{Partition: 125, LeaderView: testView}, kmsg.BeginQuorumEpoch, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.BeginQuorumEpochResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, nil},
	{&raft.EndQuorumEpochResponse{Partition: 42, LeaderView: testView}, kmsg.EndQuorumEpoch, func(version int16, r raft.Response) raft.Response {
		if q := *r.(*raft.EndQuorumEpochResponse); version == 0 {
			q.Endpoint = raft.Endpoint{}
			return &q
		}
		return r
	}, nil},
	{&raft.FetchResponse{LeaderView: testView, HighWatermark: 7, LogStart: 3}, kmsg.Fetch, lostByFetch, []byte("records")},
	{&raft.FetchResponse{LeaderView: testView, HighWatermark: 7, Diverging: &raft.EpochEnd{Epoch: 0, EndOffset: 0}}, kmsg.Fetch, lostByFetch, []byte{}},
	{&raft.FetchResponse{LeaderView: testView, HighWatermark: -1, SnapshotID: &raft.SnapshotID{EndOffset: 9, Epoch: 2}}, kmsg.Fetch, lostByFetch, []byte{}},
	{&raft.FetchResponse{Code: raft.InvalidRequest}, kmsg.Fetch, nil, nil},
	{&raft.FetchSnapshotResponse{LeaderView: testView, SnapshotID: raft.SnapshotID{EndOffset: 9, Epoch: 2}, SizeBytes: 100, Position: 5}, kmsg.FetchSnapshot, func(version int16, r raft.Response) raft.Response {
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
	{&raft.UpdateVoterResponse{Code: raft.FencedLeaderEpoch, LeaderView: testView}, kmsg.UpdateRaftVoter, nil, nil},
}

func lostByFetch(version int16, r raft.Response) raft.Response {
	if q := *r.(*raft.FetchResponse); version < 17 {
		q.Endpoint = raft.Endpoint{}
		return &q
	}
	return r
}

func TestRaftResponses(t *testing.T) {
	for _, c := range raftResponses {
		oldest, newest := versionsOf(c.api)
		for version := oldest; version <= newest; version++ {
			if r, ok := c.response.(*raft.FetchResponse); ok && (r.Code == raft.NoError && version < 13 || version < 7) {
				continue // answered by a refusal alone, which the oldest have no field for
			}
			want := c.response
			if c.lost != nil {
				want = c.lost(version, c.response)
			}
			what := fmt.Sprintf("%T v%d", c.response, version)
			q := requestFor(c.api, version)
			frame := AppendResponse(nil, EncodeRaftResponse(q, c.response, c.payload, nil), 78)[4:]
			back, correlationID, err := DecodeResponse(q, frame)
			if err != nil || correlationID != 78 {
				t.Fatalf("%s: correlation id %d, %v", what, correlationID, err)
			}
			got, payload, err := DecodeRaftResponse(back)
			if err != nil || !reflect.DeepEqual(got, want) || !bytes.Equal(payload, c.payload) || (payload == nil) != (c.payload == nil) {
				t.Errorf("%s: got %+v, %q, %v, want %+v, %q", what, got, payload, err, want, c.payload)
			}
		}
	}
}

// requestFor returns a request that answers are encoded for.
func requestFor(api kmsg.Key, version int16) kmsg.Request {
	q := api.Request()
	q.SetVersion(version)
	if q, ok := q.(*kmsg.FetchSnapshotRequest); ok {
		q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: metadataTopic, Partitions: make([]kmsg.FetchSnapshotRequestTopicPartition, 1)}}
	}
	return q
}

// TestLeaderAddressByVersion: the leader's address is in the tagged fields of newer versions alone.
func TestLeaderAddressByVersion(t *testing.T) {
	for api, first := range map[kmsg.Key]int16{kmsg.Vote: 1, kmsg.BeginQuorumEpoch: 1, kmsg.EndQuorumEpoch: 1, kmsg.Fetch: 17, kmsg.FetchSnapshot: 1} {
		answer := map[kmsg.Key]raft.Response{
			kmsg.Vote:             &raft.VoteResponse{LeaderView: testView},
			kmsg.BeginQuorumEpoch: &raft.BeginQuorumEpochResponse{LeaderView: testView},
			kmsg.EndQuorumEpoch:   &raft.EndQuorumEpochResponse{LeaderView: testView},
			kmsg.Fetch:            &raft.FetchResponse{LeaderView: testView},
			kmsg.FetchSnapshot:    &raft.FetchSnapshotResponse{LeaderView: testView},
		}[api]
		oldest, newest := versionsOf(api)
		for version := oldest; version <= newest; version++ {
			r := reflect.ValueOf(EncodeRaftResponse(requestFor(api, version), answer, nil, nil)).Elem()
			nodes := r.FieldByName("NodeEndpoints")
			if api == kmsg.Fetch {
				nodes = r.FieldByName("Brokers")
			}
			if (nodes.Len() > 0) != (version >= first) {
				t.Errorf("%s v%d: %v", api.Name(), version, nodes)
			}
		}
	}
}

// TestForeignAddresses: what an answer says of other nodes than the leader, or with an impossible port, is no address.
func TestForeignAddresses(t *testing.T) {
	r := kmsg.NewPtrFetchResponse()
	r.Version = 18
	p := kmsg.NewFetchResponseTopicPartition()
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 5, 6
	r.Topics = []kmsg.FetchResponseTopic{{TopicID: metadataTopicID, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	for name, c := range map[string]struct {
		nodes []kmsg.FetchResponseBroker
		want  raft.Endpoint
	}{
		"the leader among others": {[]kmsg.FetchResponseBroker{{NodeID: 4, Host: "x", Port: 1}, {NodeID: 5, Host: "y", Port: 2}}, raft.Endpoint{Host: "y", Port: 2}},
		"another node":            {[]kmsg.FetchResponseBroker{{NodeID: 4, Host: "x", Port: 1}}, raft.Endpoint{}},
		"port 0":                  {[]kmsg.FetchResponseBroker{{NodeID: 5, Host: "x"}}, raft.Endpoint{}},
		"port of 17 bits":         {[]kmsg.FetchResponseBroker{{NodeID: 5, Host: "x", Port: 65536 + 9092}}, raft.Endpoint{}},
		"negative port":           {[]kmsg.FetchResponseBroker{{NodeID: 5, Host: "x", Port: -1}}, raft.Endpoint{}},
	} {
		r.Brokers = c.nodes
		got, _, err := DecodeRaftResponse(r)
		if err != nil || got.(*raft.FetchResponse).Endpoint != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestAnswersWithoutPartition: a peer that answers without an error and without the partition is no peer to believe.
func TestAnswersWithoutPartition(t *testing.T) {
	for _, api := range []kmsg.Key{kmsg.Vote, kmsg.BeginQuorumEpoch, kmsg.EndQuorumEpoch, kmsg.Fetch, kmsg.FetchSnapshot} {
		_, _, err := DecodeRaftResponse(api.Response())
		if _, ok := errors.AsType[*PartitionError](err); !ok {
			t.Errorf("%s: %v", api.Name(), err)
		}
	}
}

func TestDescribeQuorumByVersion(t *testing.T) {
	wall := func(m raft.Millis) int64 { return int64(m) + 1_000_000 }
	answer := &raft.DescribeQuorumResponse{
		LeaderID: 7, Epoch: 6, HighWatermark: 9,
		Voters:    []raft.ReplicaState{{Key: testKey, LogEnd: 9, LastFetch: 100, LastCaughtUp: 90}},
		Observers: []raft.ReplicaState{{Key: otherKey, LogEnd: -1, LastFetch: -1, LastCaughtUp: -1}},
		Nodes:     []raft.Voter{{Key: testKey, Endpoints: testEndpoints}},
	}
	oldest, newest := versionsOf(kmsg.DescribeQuorum)
	for version := oldest; version <= newest; version++ {
		q := kmsg.NewPtrDescribeQuorumRequest()
		q.Version = version
		r, _, err := DecodeResponse(q, AppendResponse(nil, EncodeRaftResponse(q, answer, nil, wall), 1)[4:])
		if err != nil {
			t.Fatal(err)
		}
		d := r.(*kmsg.DescribeQuorumResponse)
		want := []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{
			{ReplicaID: 7, ReplicaDirectoryID: testKey.DirectoryID, LogEndOffset: 9, LastFetchTimestamp: 1_000_100, LastCaughtUpTimestamp: 1_000_090},
			{ReplicaID: 8, ReplicaDirectoryID: otherKey.DirectoryID, LogEndOffset: -1, LastFetchTimestamp: -1, LastCaughtUpTimestamp: -1},
		}
		nodes := []kmsg.DescribeQuorumResponseNode{{NodeID: 7, Listeners: []kmsg.DescribeQuorumResponseNodeListener{
			{Name: "CONTROLLER", Host: "a", Port: 1}, {Name: "SSL", Host: "b", Port: 65535},
		}}}
		for i := range want {
			if version < 2 {
				want[i].ReplicaDirectoryID = uuid.Nil
			}
			if version < 1 {
				want[i].LastFetchTimestamp, want[i].LastCaughtUpTimestamp = -1, -1
			}
		}
		if version < 2 {
			nodes = nil
		}
		p := d.Topics[0].Partitions[0]
		if got := append(p.CurrentVoters, p.Observers...); p.LeaderID != 7 || p.LeaderEpoch != 6 || p.HighWatermark != 9 || !reflect.DeepEqual(got, want) {
			t.Errorf("v%d: got %+v, want %+v", version, p, want)
		}
		if !reflect.DeepEqual(d.Nodes, nodes) {
			t.Errorf("v%d: nodes %+v", version, d.Nodes)
		}
	}
}
