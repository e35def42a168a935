package raft

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the message flows in testdata")

// TestScripts runs the scenarios of testdata, each of which is a story with the message flow that it expects. Their
// commands:
//
//	cluster static N | dynamic N   N voters by configuration (kraft.version 0), or by their zero checkpoints; all start
//	observer ID [join]             one more node, that fetches; with auto-join
//	tick MS                        time passes, nothing is delivered
//	run MS                         time passes, messages arrive at once
//	deliver [FROM TO]              the oldest message from one node to another arrives; without arguments all do
//	drop FROM TO                   it is lost
//	cut A B | heal                 nothing gets through between two nodes; everything does again
//	disconnect A B | refuse A B    the connection from A to B breaks; and is refused until heal
//	crash ID | start ID            the process ends as in a loss of power; starts again
//	wipe ID                        the disk of a crashed node is replaced by an empty one
//	join ID                        auto-join is switched on for its next start
//	forget ID                      its quorum-state is deleted
//	hold ID | sync ID              fsyncs of appends wait; end
//	append ID COUNT                the layer above appends a batch
//	resign ID | shutdown ID        the layer above gives up the leadership; the process is asked to stop
//	add ID VOTER | remove ID VOTER | upgrade ID LEVEL | describe ID     a tool asks a node
//	move ID                        a crashed node gets another port
//	snapshot ID | clean ID         a snapshot at the high watermark; retention that wants all space back
//	verbose                        the flow shows Fetches that bring nothing too
//	status | flow                  prints a line for each node; prints the flow since the last time
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Values["cluster"] = newCluster(func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) })
			return nil
		},
		Cmds: commands,
	})
}

var commands = map[string]func(*testscript.TestScript, bool, []string){
	"cluster": command(func(cl *cluster, s script) {
		dynamic, n := s.args[0] == "dynamic", s.int(1)
		var voters []Voter
		for id := 1; id <= n && dynamic; id++ {
			voters = append(voters, testVoter(NodeID(id)))
		}
		static := n
		if dynamic {
			static = 0
		}
		for id := 1; id <= n; id++ {
			cl.addNode(NodeID(id), static, voters, dynamic)
		}
		for _, n := range cl.nodes {
			cl.start(n)
		}
	}),
	"observer": command(func(cl *cluster, s script) {
		n := cl.addNode(s.id(0), 0, nil, true)
		n.cfg.BootstrapServers = cl.nodes[0].cfg.BootstrapServers
		n.cfg.StaticVoters = cl.nodes[0].cfg.StaticVoters
		n.cfg.AutoJoin = len(s.args) > 1 && s.args[1] == "join"
		if n.cfg.StaticVoters != nil {
			n.disk.snapshots = nil
		}
		cl.start(n)
	}),
	"tick": command(func(cl *cluster, s script) { cl.tick(Millis(s.int(0)), false) }),
	"run":  command(func(cl *cluster, s script) { cl.tick(Millis(s.int(0)), true) }),
	"deliver": command(func(cl *cluster, s script) {
		if len(s.args) == 0 {
			cl.deliverAll()
			return
		}
		cl.deliver(s.take(cl))
	}),
	"drop": command(func(cl *cluster, s script) { cl.sayPacket(s.take(cl), "-x") }),
	"cut":  command(func(cl *cluster, s script) { cl.cuts = append(cl.cuts, [2]NodeID{s.id(0), s.id(1)}) }),
	"heal": command(func(cl *cluster, s script) { cl.cuts, cl.refuses = nil, nil }),
	"refuse": command(func(cl *cluster, s script) {
		cl.refuses = append(cl.refuses, [2]NodeID{s.id(0), s.id(1)})
		cl.disconnect(s.id(0), s.id(1))
	}),
	"disconnect": command(func(cl *cluster, s script) { cl.disconnect(s.id(0), s.id(1)) }),
	"crash":      command(func(cl *cluster, s script) { cl.crash(s.node(cl)) }),
	"start":      command(func(cl *cluster, s script) { cl.start(s.node(cl)) }),
	"wipe": command(func(cl *cluster, s script) {
		n := s.node(cl)
		var zero []Snapshot
		if n.cfg.StaticVoters == nil {
			zero = []Snapshot{{SizeBytes: 100, KRaftVersion: 1}}
		}
		n.disk = testDisk{quorum: NoQuorumState(), snapshots: zero}
		n.cfg.DirectoryID[15]++
		n.voted = map[Epoch]ReplicaKey{}
	}),
	"join":   command(func(cl *cluster, s script) { s.node(cl).cfg.AutoJoin = true }),
	"forget": command(func(cl *cluster, s script) { s.node(cl).disk.quorum = NoQuorumState() }),
	"hold":   command(func(cl *cluster, s script) { s.node(cl).hold = true }),
	"sync": command(func(cl *cluster, s script) {
		n := s.node(cl)
		n.hold = false
		cl.sync(n)
	}),
	"append":   command(func(cl *cluster, s script) { cl.appendTo(s.node(cl), s.int(1)) }),
	"resign":   command(func(cl *cluster, s script) { cl.step(s.node(cl), Resign{s.node(cl).core.Status().Epoch}) }),
	"shutdown": command(func(cl *cluster, s script) { cl.step(s.node(cl), Shutdown{}) }),
	"add": command(func(cl *cluster, s script) {
		v := cl.node(s.id(1))
		cl.request(s.id(0), &AddVoterRequest{TimeoutMillis: 2000, Voter: ReplicaKey{v.id, v.cfg.DirectoryID}, Endpoints: v.cfg.Listeners, AckWhenCommitted: true})
		s.deliverTool(cl)
	}),
	"remove": command(func(cl *cluster, s script) {
		v := cl.node(s.id(1))
		cl.request(s.id(0), &RemoveVoterRequest{Voter: ReplicaKey{v.id, v.cfg.DirectoryID}})
		s.deliverTool(cl)
	}),
	"upgrade": command(func(cl *cluster, s script) {
		cl.request(s.id(0), &UpgradeRequest{Epoch: s.node(cl).core.Status().Epoch, Version: int16(s.int(1))})
		s.deliverTool(cl)
	}),
	"describe": command(func(cl *cluster, s script) {
		cl.request(s.id(0), &DescribeQuorumRequest{})
		s.deliverTool(cl)
	}),
	"move": command(func(cl *cluster, s script) {
		n := s.node(cl)
		at := n.cfg.Listeners[0]
		at.Port++
		n.cfg.Listeners = []Endpoint{at}
	}),
	"snapshot": command(func(cl *cluster, s script) { s.ts.Check(cl.snapshotOf(s.node(cl))) }),
	"clean":    command(func(cl *cluster, s script) { cl.step(s.node(cl), Clean{LogSizeBytes: 1 << 40}) }),
	"verbose":  command(func(cl *cluster, s script) { cl.verbose = true }),
	"status": command(func(cl *cluster, s script) {
		for _, n := range cl.nodes {
			if n.core == nil {
				fmt.Fprintf(s.ts.Stdout(), "%d: down\n", n.id)
				continue
			}
			st := n.core.Status()
			fmt.Fprintf(s.ts.Stdout(), "%d: %v of epoch %d, leader %s, log %d-%d of epoch %d, high watermark %d, voters %s\n",
				n.id, st.Role, st.Epoch, name(st.LeaderID), st.LogStart, st.LogEnd, st.LastEpoch, st.HighWatermark, showVoters(st.Voters))
		}
	}),
	"flow": command(func(cl *cluster, s script) {
		fmt.Fprint(s.ts.Stdout(), cl.trace.String())
		cl.trace.Reset()
		cl.told = -1
	}),
}

// script is one command of a script.
type script struct {
	ts   *testscript.TestScript
	args []string
}

func command(f func(*cluster, script)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		cl := ts.Value("cluster").(*cluster)
		cl.failed = func(format string, args ...any) { ts.Fatalf("%s\n%s", fmt.Sprintf(format, args...), cl.trace.String()) }
		f(cl, script{ts, args})
	}
}

func (s script) int(i int) int {
	if i >= len(s.args) {
		s.ts.Fatalf("an argument is missing")
	}
	n, err := strconv.Atoi(s.args[i])
	s.ts.Check(err)
	return n
}

func (s script) id(i int) NodeID { return NodeID(s.int(i)) }

func (s script) node(cl *cluster) *testNode { return cl.node(s.id(0)) }

// take removes the oldest message between two nodes from the network.
func (s script) take(cl *cluster) *packet {
	i := slices.IndexFunc(cl.queue, func(p *packet) bool { return p.from == s.id(0) && p.to == s.id(1) })
	if i < 0 {
		s.ts.Fatalf("nothing is on its way from node %d to node %d", s.id(0), s.id(1))
	}
	p := cl.queue[i]
	cl.queue = slices.Delete(cl.queue, i, i+1)
	return p
}

// deliverTool delivers a tool's request at once.
func (s script) deliverTool(cl *cluster) {
	p := cl.queue[len(cl.queue)-1]
	cl.queue = cl.queue[:len(cl.queue)-1]
	cl.deliver(p)
}
