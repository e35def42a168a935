package wire

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// inputs collects what Peers deliver.
type inputs struct {
	mu  sync.Mutex
	all []raft.Input
}

func (i *inputs) deliver(in raft.Input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, in)
}

// take returns what was delivered since the last time.
func (i *inputs) take() []raft.Input {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.all
	i.all = nil
	return all
}

// withPeers runs a test in a bubble, with nodes by address.
func withPeers(t *testing.T, nodes map[string]*node, test func(t *testing.T, p *Peers, in *inputs, net *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, net := &inputs{}, &network{nodes: nodes}
		p := NewPeers(Self{ClientID: "raft-client-1"}, net.dial, in.deliver)
		defer p.Close()
		test(t, p, in, net)
	})
}

// connected lets p have a connection to node 2 at a:1, over which it has asked for something.
func connected(t *testing.T, p *Peers, in *inputs) {
	t.Helper()
	p.Send(to(2, "a", 1, &raft.ApiVersionsRequest{}))
	synctest.Wait()
	if got := in.take(); len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
}

// to returns a Send to node id at host:1, as the core makes it.
func to(id raft.NodeID, host string, request raft.RequestID, r raft.Request) raft.Send {
	return raft.Send{
		ID:            request,
		To:            raft.Destination{NodeID: id, Endpoint: raft.Endpoint{Host: host, Port: 1}},
		TimeoutMillis: 2000,
		Request:       r,
	}
}

func vote() raft.Request {
	return &raft.VoteRequest{ClusterID: &testCluster, Voter: testKey, ReplicaEpoch: 3, Replica: otherKey, PreVote: true}
}

func fetch() raft.Request {
	return &raft.FetchRequest{ClusterID: &testCluster, Replica: testKey, MaxWaitMillis: 500, MaxBytes: 1 << 20, HighWatermark: 8}
}

// records returns encoded batches that begin at base.
func records(t testing.TB, base raft.Offset, epochs ...raft.Epoch) (all []byte, batches []raft.Batch) {
	t.Helper()
	for _, epoch := range epochs {
		b := raft.Batch{BaseOffset: base, LastOffset: base, Epoch: epoch, Control: []raft.ControlRecord{raft.KRaftVersion{Version: 1}}}
		encoded, err := b.Encode(1)
		if err != nil {
			t.Fatal(err)
		}
		b.Bytes = encoded
		all, batches = append(all, encoded...), append(batches, b)
		base++
	}
	return all, batches
}

// TestPeersAnswer: each answer comes back as the core's, with the bytes where it wants them.
func TestPeersAnswer(t *testing.T) {
	data, batches := records(t, 5, 1, 2)
	for _, c := range []struct {
		request raft.Request
		answer  raft.Response
		payload []byte
		want    raft.Response // nil: answer
	}{
		{request: vote(), answer: &raft.VoteResponse{LeaderView: testView, VoteGranted: true}},
		{request: &raft.BeginQuorumEpochRequest{Voter: testKey, LeaderID: 1}, answer: &raft.BeginQuorumEpochResponse{LeaderView: testView}},
		{request: &raft.EndQuorumEpochRequest{LeaderID: 1}, answer: &raft.EndQuorumEpochResponse{LeaderView: testView}},
		{request: &raft.AddVoterRequest{Voter: testKey}, answer: &raft.ChangeVoterResponse{Code: raft.DuplicateVoter, Message: "m"}},
		{request: &raft.RemoveVoterRequest{Voter: testKey}, answer: &raft.ChangeVoterResponse{}},
		{request: &raft.UpdateVoterRequest{Voter: testKey}, answer: &raft.UpdateVoterResponse{LeaderView: testView}},
		{
			request: fetch(), answer: &raft.FetchResponse{LeaderView: testView, HighWatermark: 7}, payload: append(data, data[:70]...),
			want: &raft.FetchResponse{LeaderView: testView, HighWatermark: 7, Batches: batches},
		},
		{request: fetch(), answer: &raft.FetchResponse{Code: raft.InconsistentClusterID}},
		{
			request: &raft.FetchSnapshotRequest{Replica: testKey}, answer: &raft.FetchSnapshotResponse{LeaderView: testView, SizeBytes: 3}, payload: []byte("abc"),
			want: &raft.FetchSnapshotResponse{LeaderView: testView, SizeBytes: 3, Bytes: []byte("abc")},
		},
		{request: &raft.FetchSnapshotRequest{Replica: testKey}, answer: &raft.FetchSnapshotResponse{Code: raft.UnknownServerError}}, // Kafka 4.4.0
	} {
		if c.want == nil {
			c.want = c.answer
		}
		n := &node{answer: func(q kmsg.Request, _ net.Conn) kmsg.Response { return EncodeRaftResponse(q, c.answer, c.payload, nil) }}
		withPeers(t, map[string]*node{"a:1": n}, func(t *testing.T, p *Peers, in *inputs, _ *network) {
			p.Send(to(2, "a", 9, c.request))
			synctest.Wait()
			if got, want := in.take(), []raft.Input{raft.Answered{ID: 9, Response: c.want}}; !reflect.DeepEqual(got, want) {
				t.Errorf("%T: got %+v, want %+v (%+v)", c.request, got, want, c.want)
			}
		})
	}
}

// TestPeersProbe: the features are asked for each time, they change in a process's life.
func TestPeersProbe(t *testing.T) {
	n := &node{}
	withPeers(t, map[string]*node{"a:1": n}, func(t *testing.T, p *Peers, in *inputs, _ *network) {
		for _, id := range []raft.RequestID{1, 2} {
			p.Send(to(2, "a", id, &raft.ApiVersionsRequest{}))
			synctest.Wait()
		}
		want := []raft.Input{
			raft.Answered{ID: 1, Response: &raft.ApiVersionsResponse{}},
			raft.Answered{ID: 2, Response: &raft.ApiVersionsResponse{}},
		}
		if got := in.take(); !reflect.DeepEqual(got, want) || n.requests() != "ApiVersions v5, ApiVersions v5, ApiVersions v5" {
			t.Errorf("got %+v, sent %s", got, n.requests())
		}
	})
	r := kmsg.NewPtrApiVersionsResponse()
	r.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: "metadata.version", MinVersion: 7, MaxVersion: 33}, {Name: "kraft.version", MaxVersion: 1}}
	got, _, err := DecodeRaftResponse(r)
	if want := (&raft.ApiVersionsResponse{HasKRaftVersion: true, MaxKRaftVersion: 1}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPeersFailures(t *testing.T) {
	broken, _ := records(t, 0, 1)
	broken[len(broken)-1]++
	answer := func(r raft.Response, payload []byte) func(kmsg.Request, net.Conn) kmsg.Response {
		return func(q kmsg.Request, _ net.Conn) kmsg.Response { return EncodeRaftResponse(q, r, payload, nil) }
	}
	oldVote := []API{{int16(kmsg.ApiVersions), 0, 5}, {int16(kmsg.Vote), 0, 1}}
	for name, c := range map[string]struct {
		node    *node
		request raft.Request
		host    string
		want    raft.SendFailure
	}{
		"nobody listens":                 {nil, vote(), "a", raft.Refused},
		"it hangs up":                    {&node{answer: func(kmsg.Request, net.Conn) kmsg.Response { return nil }}, vote(), "a", raft.Disconnected},
		"its address is not known":       {&node{answer: echo}, vote(), "", raft.Disconnected},
		"it doesn't answer":              {&node{answer: never}, vote(), "a", raft.TimedOut},
		"it has no pre-votes":            {&node{apis: oldVote}, vote(), "a", raft.Unsupported},
		"it has no Fetch":                {&node{apis: oldVote}, fetch(), "a", raft.Unsupported},
		"it answers without a partition": {&node{answer: echo}, vote(), "a", raft.Corrupt},
		"a batch is damaged":             {&node{answer: answer(&raft.FetchResponse{}, broken)}, fetch(), "a", raft.Corrupt},
	} {
		test := func(before bool) func(*testing.T) {
			return func(t *testing.T) {
				nodes := map[string]*node{}
				if c.node != nil {
					nodes["a:1"] = c.node
				}
				withPeers(t, nodes, func(t *testing.T, p *Peers, in *inputs, _ *network) {
					if before {
						connected(t, p, in)
					}
					if c.want == raft.TimedOut {
						p.Send(to(2, c.host, 9, c.request))
						time.Sleep(1999 * time.Millisecond)
						synctest.Wait()
						if got := in.take(); got != nil {
							t.Errorf("before the timeout: %+v", got)
						}
						time.Sleep(time.Millisecond)
					} else {
						p.Send(to(2, c.host, 9, c.request))
					}
					synctest.Wait() // without any time
					if got, want := in.take(), []raft.Input{raft.SendFailed{ID: 9, Reason: c.want}}; !reflect.DeepEqual(got, want) {
						t.Errorf("got %+v, want %+v", got, want)
					}
				})
			}
		}
		t.Run(name, test(false))
		if c.node != nil {
			t.Run(name+", on a connection that has been used", test(true))
		}
	}
}

// TestPeersLeaderGone is a leader whose process dies under a Fetch that waits: the follower hears of it at once, and
// the next attempt is refused at once.
func TestPeersLeaderGone(t *testing.T) {
	n := &node{answer: never}
	withPeers(t, map[string]*node{"a:1": n}, func(t *testing.T, p *Peers, in *inputs, net *network) {
		start := time.Now()
		p.Send(to(2, "a", 1, fetch()))
		synctest.Wait()
		net.nodes["a:1"] = nil
		n.hangUp()
		synctest.Wait()
		p.Send(to(2, "a", 2, fetch()))
		synctest.Wait()
		want := []raft.Input{raft.SendFailed{ID: 1, Reason: raft.Disconnected}, raft.SendFailed{ID: 2, Reason: raft.Refused}}
		if got := in.take(); !reflect.DeepEqual(got, want) || time.Since(start) != 0 {
			t.Errorf("got %+v after %v", got, time.Since(start))
		}
	})
}

// TestPeersNewerTakesOver: a Vote doesn't wait behind a Fetch, and nobody hears of the Fetch any more.
func TestPeersNewerTakesOver(t *testing.T) {
	n := &node{answer: func(q kmsg.Request, conn net.Conn) kmsg.Response {
		if _, ok := q.(*kmsg.FetchRequest); ok {
			return never(q, conn)
		}
		return EncodeRaftResponse(q, &raft.VoteResponse{LeaderView: testView}, nil, nil)
	}}
	withPeers(t, map[string]*node{"a:1": n}, func(t *testing.T, p *Peers, in *inputs, net *network) {
		start := time.Now()
		connected(t, p, in)
		p.Send(to(2, "a", 1, fetch()))
		synctest.Wait()
		p.Send(to(2, "a", 2, vote()))
		synctest.Wait()
		want := []raft.Input{raft.Answered{ID: 2, Response: &raft.VoteResponse{LeaderView: testView}}}
		if got := in.take(); !reflect.DeepEqual(got, want) || len(net.dials) != 2 || time.Since(start) != 0 {
			t.Errorf("got %+v after %d dials and %v", got, len(net.dials), time.Since(start))
		}
		time.Sleep(time.Minute)
		if got := in.take(); got != nil {
			t.Errorf("later: %+v", got)
		}
	})
}

// TestPeersConnections: one for each destination, a bootstrap server's apart from the node's; a new one if the address
// is another, and after a long silence.
func TestPeersConnections(t *testing.T) {
	answer := func(q kmsg.Request, _ net.Conn) kmsg.Response {
		return EncodeRaftResponse(q, &raft.VoteResponse{LeaderView: testView}, nil, nil)
	}
	nodes := map[string]*node{"a:1": {answer: answer}, "b:1": {answer: answer}}
	withPeers(t, nodes, func(t *testing.T, p *Peers, in *inputs, net *network) {
		send := func(id raft.NodeID, host string) {
			t.Helper()
			p.Send(to(id, host, 1, vote()))
			synctest.Wait()
			if _, ok := in.take()[0].(raft.Answered); !ok {
				t.Errorf("no answer")
			}
		}
		for _, id := range []raft.NodeID{2, -2, 2, -2} {
			send(id, "a")
		}
		send(2, "b")
		send(2, "b")
		if want := []string{"a:1", "a:1", "b:1"}; !reflect.DeepEqual(net.dials, want) {
			t.Errorf("dialled %v, want %v", net.dials, want)
		}
		time.Sleep(idleMax - time.Minute)
		send(2, "b")
		time.Sleep(time.Minute)
		send(2, "b")
		if len(p.peers) != 1 || len(net.dials) != 3 {
			t.Errorf("%d peers, dialled %v", len(p.peers), net.dials)
		}
		time.Sleep(idleMax)
		send(2, "b")
		if want := []string{"a:1", "a:1", "b:1", "b:1"}; !reflect.DeepEqual(net.dials, want) {
			t.Errorf("dialled %v, want %v", net.dials, want)
		}
	})
}

// TestPeersApart: a node that hangs doesn't keep the others waiting.
func TestPeersApart(t *testing.T) {
	nodes := map[string]*node{"a:1": {answer: never}, "b:1": {answer: func(q kmsg.Request, _ net.Conn) kmsg.Response {
		return EncodeRaftResponse(q, &raft.VoteResponse{LeaderView: testView}, nil, nil)
	}}}
	withPeers(t, nodes, func(t *testing.T, p *Peers, in *inputs, _ *network) {
		p.Send(to(2, "a", 1, vote()))
		p.Send(to(3, "b", 2, vote()))
		synctest.Wait()
		want := []raft.Input{raft.Answered{ID: 2, Response: &raft.VoteResponse{LeaderView: testView}}}
		if got := in.take(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v", got)
		}
	})
}

// TestPeersWithoutClusterID: a node that has no id yet sends null, which all take; "" would be refused.
func TestPeersWithoutClusterID(t *testing.T) {
	n := &node{answer: func(q kmsg.Request, _ net.Conn) kmsg.Response {
		if id := q.(*kmsg.FetchRequest).ClusterID; id != nil {
			t.Errorf("the request has the cluster id %q", *id)
		}
		return EncodeRaftResponse(q, &raft.FetchResponse{LeaderView: testView}, nil, nil)
	}}
	withPeers(t, map[string]*node{"a:1": n}, func(t *testing.T, p *Peers, in *inputs, _ *network) {
		p.Send(to(2, "a", 1, &raft.FetchRequest{Replica: testKey}))
		synctest.Wait()
		if got, ok := in.take()[0].(raft.Answered); !ok {
			t.Errorf("got %+v", got)
		}
	})
}

func TestPeersClose(t *testing.T) {
	for _, before := range []bool{false, true} {
		withPeers(t, map[string]*node{"a:1": {answer: never}}, func(t *testing.T, p *Peers, in *inputs, _ *network) {
			if before {
				connected(t, p, in)
			}
			p.Send(to(2, "a", 1, vote()))
			synctest.Wait()
			p.Close()
			p.Send(to(2, "a", 2, vote()))
			synctest.Wait()
			if got := in.take(); got != nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// BenchmarkFetch is a Fetch of one small batch, from the Send effect to the Answered input, over TCP.
func BenchmarkFetch(b *testing.B) {
	data, _ := records(b, 0, 1)
	benchmarkFetch(b, data)
}

// BenchmarkFetchMiB has as much as one Fetch may bring, in batches of 16 KiB.
func BenchmarkFetchMiB(b *testing.B) {
	batch := record.AppendBatch(nil, record.BatchHeader{}, record.Entry{Value: make([]byte, 16<<10-100)})
	benchmarkFetch(b, bytes.Repeat(batch, 1<<20/len(batch)))
}

func benchmarkFetch(b *testing.B, data []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	server := NewServer(ServerConfig{Listener: "CONTROLLER", APIs: RaftAPIs, Handler: fetchHandler(data), Logger: slog.New(slog.DiscardHandler), Versions: func() VersionInfo { return VersionInfo{} }})
	go server.Serve(l)
	defer server.Close()
	done := make(chan raft.Input)
	p := NewPeers(Self{ClientID: "raft-client-1"}, nil, func(in raft.Input) { done <- in })
	defer p.Close()
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		b.Fatal(err)
	}
	send := to(2, host, 1, fetch())
	send.To.Endpoint.Port = uint16(number)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		p.Send(send)
		if in, ok := (<-done).(raft.Answered); !ok {
			b.Fatalf("got %+v", in)
		}
	}
}

// fetchHandler answers each Fetch with the same records.
type fetchHandler []byte

func (data fetchHandler) Handle(_ context.Context, r *Request) kmsg.Response {
	return EncodeRaftResponse(r.Body, &raft.FetchResponse{LeaderView: testView}, data, nil)
}
