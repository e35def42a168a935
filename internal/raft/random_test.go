package raft

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestRandom")
	tail      = flag.Int("tail", 6000, "how many bytes of the trace TestRandom shows")
	seeds     = flag.Uint64("seeds", 60, "how many seeds TestRandom runs of each kind of cluster")
)

// TestRandom lets chance decide what happens to a cluster, then heals everything and demands progress. The
// invariants of cluster.check hold all the time. Disks here don't tear writes; internal/sim has the real log
// under the same core.
func TestRandom(t *testing.T) {
	for _, kind := range []string{"static", "dynamic"} {
		t.Run(kind, func(t *testing.T) {
			for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
				if text := runRandom(kind == "dynamic", seed, 600); text != "" {
					t.Fatalf("replay: go test ./internal/raft -run 'TestRandom/%s$' -seed=%d -seeds=1\n%s", kind, seed, text)
				}
			}
		})
	}
}

// runRandom returns what went wrong with the end of the trace, "" if nothing.
func runRandom(dynamic bool, seed uint64, steps int) (text string) {
	r := rand.New(rand.NewPCG(seed, 7))
	cl := newCluster(func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) })
	defer func() {
		if e := recover(); e != nil {
			trace := cl.trace.String()
			text = fmt.Sprintf("%s\n%v", trace[max(0, len(trace)-*tail):], e)
		}
	}()
	n := 1 + 2*r.IntN(2)
	if r.IntN(8) == 0 {
		n = 5
	}
	var voters []Voter
	static := n
	if dynamic {
		static = 0
		for id := 1; id <= n; id++ {
			voters = append(voters, testVoter(NodeID(id)))
		}
	}
	for id := 1; id <= n; id++ {
		cl.addNode(NodeID(id), static, voters, dynamic)
	}
	for id := n + 1; id <= n+2; id++ {
		cl.addNode(NodeID(id), static, nil, dynamic)
	}
	var bootstrap []Endpoint // any of them can be the only voter in the end
	for _, n := range cl.nodes {
		bootstrap = append(bootstrap, testEndpoint(n.id))
	}
	for _, n := range cl.nodes {
		n.cfg.BootstrapServers = bootstrap
		n.cfg.Random = rand.New(rand.NewPCG(seed, uint64(n.id)))
		cl.start(n)
	}
	for range steps {
		cl.chance(r, dynamic)
	}
	// The faults end.
	cl.say("the faults end")
	cl.cuts, cl.refuses = nil, nil
	for _, n := range cl.nodes {
		n.hold = false
		if n.core == nil {
			cl.start(n)
		}
		cl.sync(n)
	}
	cl.tick(30_000, true)
	var leader *testNode
	for _, n := range cl.nodes {
		if n.core != nil && n.last.Role == Leader && (leader == nil || n.last.Epoch > leader.last.Epoch) {
			leader = n
		}
	}
	if leader == nil {
		cl.failed("no leader")
	}
	cl.appendTo(leader, 2)
	cl.tick(3000, true)
	for _, n := range cl.nodes {
		if n.last.HighWatermark != leader.last.LogEnd {
			cl.failed("node %d has the high watermark %d, and the leader %d appended up to %d", n.id, n.last.HighWatermark, leader.id, leader.last.LogEnd)
		}
	}
	return ""
}

// chance does one thing.
func (cl *cluster) chance(r *rand.Rand, dynamic bool) {
	n := cl.nodes[r.IntN(len(cl.nodes))]
	m := cl.nodes[r.IntN(len(cl.nodes))]
	up := n.core != nil
	switch x := r.IntN(100); {
	case x < 50:
		for range 1 + r.IntN(8) {
			if len(cl.queue) > 0 {
				i := 0
				if r.IntN(4) == 0 {
					i = r.IntN(len(cl.queue))
				}
				p := cl.queue[i]
				if r.IntN(20) > 0 { // else it comes a second time
					cl.queue = slices.Delete(cl.queue, i, i+1)
				}
				cl.deliver(p)
			}
		}
	case x < 54:
		if len(cl.queue) > 0 {
			i := r.IntN(len(cl.queue))
			cl.queue = slices.Delete(cl.queue, i, i+1)
		}
	case x < 74:
		cl.tick(Millis(r.IntN(400)), r.IntN(3) > 0)
	case x < 77:
		if up && r.IntN(2) == 0 {
			cl.crash(n)
		}
	case x < 81:
		if !up {
			cl.start(n)
		}
	case x < 85:
		if up && n.last.Role == Leader {
			cl.appendTo(n, 1+r.IntN(3))
		}
	case x < 88:
		if up {
			n.hold = !n.hold
			if !n.hold {
				cl.sync(n)
			}
		}
	case x < 90:
		cl.cuts = append(cl.cuts, [2]NodeID{n.id, m.id})
	case x < 92:
		cl.cuts, cl.refuses = nil, nil
	case x < 93:
		if n != m {
			cl.refuses = append(cl.refuses, [2]NodeID{n.id, m.id})
			cl.disconnect(n.id, m.id)
		}
	case x < 95:
		if up {
			cl.snapshotOf(n)
		}
	case x < 96:
		if up {
			cl.step(n, Clean{LogSizeBytes: 1 << 40})
		}
	case x < 97:
		if up {
			cl.step(n, Resign{n.core.Status().Epoch})
		}
	case x < 99:
		key := ReplicaKey{m.id, m.cfg.DirectoryID}
		if r.IntN(2) == 0 {
			cl.request(n.id, &AddVoterRequest{Voter: key, Endpoints: m.cfg.Listeners, AckWhenCommitted: r.IntN(2) == 0})
		} else {
			cl.request(n.id, &RemoveVoterRequest{Voter: key})
		}
	default:
		if up && !dynamic {
			cl.request(n.id, &UpgradeRequest{Epoch: n.core.Status().Epoch, Version: 1})
		}
	}
}

// appendTo hands a batch of the layer above to a node.
func (cl *cluster) appendTo(n *testNode, count int) {
	s := n.core.Status()
	cl.nextID++
	n.served[cl.nextID] = &packet{from: tool, to: n.id, request: &AppendRequest{}}
	cl.step(n, Received{ID: cl.nextID, Request: &AppendRequest{Batch{BaseOffset: s.LogEnd, LastOffset: s.LogEnd + Offset(count) - 1, Epoch: s.Epoch, Bytes: []byte("x")}}})
}

// snapshotOf makes a snapshot at a node's high watermark, if there may be one.
func (cl *cluster) snapshotOf(n *testNode) error {
	end := n.core.Status().HighWatermark
	epoch, _ := n.core.log.epochAt(end - 1)
	s, err := n.core.SnapshotHeader(SnapshotID{end, epoch})
	if err != nil {
		return err
	}
	s.SizeBytes = 1_500_000
	cl.snapshots[s.ID] = s
	n.disk.snapshots = append(n.disk.snapshots, s)
	cl.say("%d: creates snapshot %s", n.id, showID(s.ID))
	cl.step(n, SnapshotCreated{s})
	return nil
}
