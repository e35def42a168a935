package raft_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// replay puts one node's core in the place of a recorded node. Its steps are lines: a frame of the recording by its name,
// or something that the recording doesn't show. What a frame means follows from its ends. Of a node N:
//
//	a request of N     the core must have sent it, byte for byte
//	a response to N    it is handed in, as the answer to that
//	a request to N     it is handed in
//	a response of N    the core must have given it, byte for byte
//
// A request of N to itself is both sent and handed in. Client ids and correlation ids are those of the recording. At the end each request that
// the core has sent must have been in a step. The records of a Fetch answer follow its name, as batches (see batches).
//
// The other steps:
//
//	tick MS                        time passes
//	waited                         500 ms pass: an observer gets then what Kafka's leader sends it before it is committed
//	idle MS                        time passes; the leader answers a Fetch without news every 500 ms
//	pick I                         by chance the node asks the I-th of the bootstrap servers that are ready
//	hidden API ID                  a request to ID that the recording leaves out, and its answer
//	like FRAME ; ID                the answer of FRAME comes from ID too
//	granted ID                     ID grants the Vote
//	fetched BATCHES [hw=H]         the leader answers a Fetch
//	fenced ID LEADER EPOCH         ID answers a Fetch with error 74 and the leader
//	offered OFFSET EPOCH           the leader answers a Fetch with a snapshot's id
//	failed ID                      the connection to ID breaks, and a request with it
//	fetches ID OFFSET LAST HW      a Fetch of ID comes in, in this epoch; LAST is its last epoch
//	votes ID EPOCH LAST OFFSET     a Vote of ID comes in, and is granted
//	probed ID                      ID answers the probe of a new voter
//	append OFFSET [BYTES]          the layer above appends a batch that ends there; 72 bytes are a NoOpRecord
//	upgrade                        the layer above raises kraft.version to 1
//	snapshot OFFSET EPOCH BYTES    it makes a snapshot
//	clean                          retention drops the oldest snapshot
//	shutdown                       the process is asked to stop
//	is ROLE EPOCH HW               the node's state
type replay struct {
	title     string
	trace     string
	node      string // in recordedNodes
	broker    bool
	bootstrap []string
	static    []string
	autoJoin  bool
	zero      []string // voters of its zero checkpoint, kraft.version 1; nil: kraft.version 0
	disk      string   // the log, as batches
	epoch     raft.Epoch
	leader    raft.NodeID // of quorum-state; 0: none
	steps     string      // the name of their file in testdata/replays
}

var wireCluster = "MkU3OEVBNTcwNTJENDM2Qg"

// recordedNodes are the nodes of each recording: "3old" is 3 before its disk was replaced, "2moved" is 2 on its second port.
var recordedNodes = map[string]map[string]raft.Voter{
	"static": {
		"1":  recordedNode(1, "JtmDoT9G4GJhGCQAbmiswg", 22161),
		"2":  recordedNode(2, "N1uSdIiypEmwfPgXinSlhg", 22162),
		"3":  recordedNode(3, "c7tqlwNHvsr4T0d3IbF4IA", 22163),
		"10": recordedNode(10, "IKaHY5OZcfGYwQ5mBwCu8g", 0),
	},
	"dynamic": {
		"1":  recordedNode(1, "KKfAwLeWRfKHIasz7emK5A", 22151),
		"2":  recordedNode(2, "G29FNkE07lX8NkqNThs39g", 22152),
		"3":  recordedNode(3, "ceOfvU4e_A0ydstUKv2vRw", 22153),
		"10": recordedNode(10, "ncSrW8ZUpv-pfqv0HdVhIA", 0),
	},
	"probes": {
		"1":  recordedNode(1, "dtyOkNMUSdaeqastGtgkVw", 22095),
		"44": recordedNode(44, "BQAAAAAAAAAAAAAAAAAAAA", 1),
	},
	"dynamic2": {
		"1":      recordedNode(1, "H4qMTFQ7SAqLu1n8taTt4A", 22151),
		"2":      recordedNode(2, "d0XkbNW1IcGjTRTIMA_EWA", 22152),
		"2moved": recordedNode(2, "d0XkbNW1IcGjTRTIMA_EWA", 22154),
		"3":      recordedNode(3, "9EnAWUFdU2SfKjCJVUdxCA", 22153),
		"3old":   recordedNode(3, "qHEWBoHAOoHkWyMiGcCOKA", 22153),
	},
}

func recordedNode(id raft.NodeID, dir string, port uint16) raft.Voter {
	directory, err := kafkaid.Parse(dir)
	if err != nil {
		panic(err)
	}
	return raft.Voter{
		Key:             raft.ReplicaKey{NodeID: id, DirectoryID: directory},
		Endpoints:       []raft.Endpoint{{Listener: "CONTROLLER", Host: "127.0.0.1", Port: port}},
		MaxKRaftVersion: 1,
	}
}

// replayer runs a replay.
type replayer struct {
	t     *testing.T
	r     replay
	trace *trace
	nodes map[string]raft.Voter
	core  *raft.Core
	now   raft.Millis
	id    raft.NodeID
	step  string
	lines []string // of effects, for failures

	log    []raft.Batch
	sent   []*sentRequest
	served []*servedRequest
	nextID raft.RequestID
	pick   int64
	ended  bool
}

type sentRequest struct {
	send     raft.Send
	to       string
	api      kmsg.Key
	shown    bool // a step has had it
	answered bool
}

type servedRequest struct {
	id       raft.RequestID
	from     string
	request  kmsg.Request // nil: one that the recording doesn't show
	response raft.Response
	shown    bool
}

// Int64N is the chance of a replay: timers take their shortest time, and the choice of a bootstrap server is the script's.
func (p *replayer) Int64N(n int64) int64 {
	if n <= 3 {
		return p.pick % n
	}
	return 0
}

func newReplayer(t *testing.T, tr *trace, r replay) *replayer {
	p := &replayer{t: t, r: r, trace: tr, nodes: recordedNodes[r.trace]}
	self := p.nodes[r.node]
	p.id = self.Key.NodeID
	cfg := raft.DefaultConfig()
	cfg.NodeID, cfg.DirectoryID, cfg.ClusterID = p.id, self.Key.DirectoryID, wireCluster
	cfg.DefaultListener = "CONTROLLER"
	cfg.AutoJoin = r.autoJoin
	cfg.RetentionMillis = 0
	cfg.Random = p
	if !r.broker {
		cfg.CanBeVoter = true
		cfg.Listeners = self.Endpoints
	}
	for _, name := range r.bootstrap {
		cfg.BootstrapServers = append(cfg.BootstrapServers, p.nodes[name].Endpoints[0])
	}
	for _, name := range r.static {
		v := p.nodes[name]
		cfg.StaticVoters = append(cfg.StaticVoters, raft.Voter{Key: raft.ReplicaKey{NodeID: v.Key.NodeID}, Endpoints: v.Endpoints})
	}
	recovered := raft.Recovered{QuorumState: raft.NoQuorumState()}
	if !r.broker {
		zero := raft.Snapshot{SizeBytes: 500}
		if r.zero != nil {
			zero.KRaftVersion, zero.Voters = 1, p.voters(r.zero)
		}
		recovered.Snapshots = []raft.Snapshot{zero}
	}
	if r.disk != "" {
		recovered.QuorumState.Epoch = r.epoch
		if r.leader != 0 {
			recovered.QuorumState.LeaderID = r.leader
		}
		p.log = p.batches(strings.Fields(r.disk), 0, r.epoch, r.leader)
		for _, b := range p.log {
			recovered.LogEnd = b.LastOffset + 1
			if b.Control != nil {
				recovered.Control = append(recovered.Control, b)
			}
		}
		recovered.EpochStarts = []raft.EpochStart{{Epoch: r.epoch}}
	}
	p.core = raft.New(cfg, recovered)
	p.do(raft.Tick{})
	return p
}

func (p *replayer) voters(names []string) (voters []raft.Voter) {
	for _, name := range names {
		v, ok := p.nodes[name]
		if !ok {
			p.fail("no node %q", name)
		}
		voters = append(voters, v)
	}
	return voters
}

// batches makes what follows end in a log, in an epoch:
//
//	to=N           one data batch, up to N
//	leader         the LeaderChange of the epoch
//	start=1,2      the LeaderChange, KRaftVersion and Voters of a dynamic quorum's first epoch
//	voters=1,2     Voters
//	upgrade=1,2    KRaftVersion and Voters
func (p *replayer) batches(words []string, end raft.Offset, epoch raft.Epoch, leader raft.NodeID) (batches []raft.Batch) {
	for _, word := range words {
		kind, value, _ := strings.Cut(word, "=")
		b := raft.Batch{BaseOffset: end, Epoch: epoch}
		change := raft.LeaderChange{LeaderID: leader, Voters: []raft.NodeID{}, Granting: []raft.NodeID{}}
		switch kind {
		case "hw":
			continue
		case "to":
			b.LastOffset = raft.Offset(p.int(value)) - 1
			b.Bytes = make([]byte, 72)
			if b.LastOffset < end {
				p.fail("the log is at %d already", end)
			}
		case "leader":
			b.Control = []raft.ControlRecord{change}
		case "start":
			b.Control = []raft.ControlRecord{change, raft.KRaftVersion{Version: 1}, raft.Voters{Voters: p.voters(strings.Split(value, ","))}}
		case "voters":
			b.Control = []raft.ControlRecord{raft.Voters{Voters: p.voters(strings.Split(value, ","))}}
		case "upgrade":
			b.Control = []raft.ControlRecord{raft.KRaftVersion{Version: 1}, raft.Voters{Voters: p.voters(strings.Split(value, ","))}}
		default:
			p.fail("no batch is made of %q", word)
		}
		if b.Control != nil {
			b.LastOffset = end + raft.Offset(len(b.Control)) - 1
		}
		batches = append(batches, b)
		end = b.LastOffset + 1
	}
	return batches
}

func (p *replayer) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s: %s\nthe core is %+v\nit did:\n%s", p.step, fmt.Sprintf(format, args...), p.core.Status(), strings.Join(p.lines[max(0, len(p.lines)-12):], "\n"))
}

func (p *replayer) int(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.fail("%v", err)
	}
	return n
}

// do hands in an input and carries the effects out. Appends are synced at once.
func (p *replayer) do(in raft.Input) {
	var then []raft.Input
	for _, e := range slices.Clone(p.core.Step(p.now, in)) {
		p.lines = append(p.lines, fmt.Sprintf("  %T%+v", e, e))
		switch e := e.(type) {
		case raft.AppendLog:
			for _, b := range e.Batches {
				bytes, err := b.Encode(0)
				if err != nil {
					p.fail("%v", err)
				}
				b.Bytes = bytes
				p.log = append(p.log, b)
			}
			then = append(then, raft.Synced{EndOffset: e.EndOffset, Generation: e.Generation})
		case raft.ResetLog:
			p.log = nil
		case raft.InstallSnapshot:
			then = append(then, raft.SnapshotInstalled{Snapshot: raft.Snapshot{ID: e.ID, SizeBytes: 1, KRaftVersion: 1, Voters: p.voters([]string{"1", "2", "3"})}})
		case raft.Send:
			p.sent = append(p.sent, &sentRequest{send: e, to: p.nodeAt(e.To.Endpoint), api: wire.RaftKey(e.Request)})
		case raft.Reply:
			for _, s := range p.served {
				if s.id == e.ID {
					s.response = e.Response
				}
			}
		case raft.ShutdownDone:
			p.ended = true
		case raft.Fatal:
			p.fail("fatal: %s", e.Reason)
		}
	}
	for _, in := range then {
		p.do(in)
	}
}

// nodeAt is the id of the node at an address.
func (p *replayer) nodeAt(at raft.Endpoint) string {
	for _, v := range p.nodes {
		if v.Endpoints[0].Host == at.Host && v.Endpoints[0].Port == at.Port {
			return fmt.Sprint(v.Key.NodeID)
		}
	}
	p.fail("the core sends to %v", at)
	return ""
}

// notMade are the frames of nodes that no core makes in a replay.
var notMade = map[string]string{
	"12.521 ApiVersions 2>1": "the layer of the wire answers it",
	"23.881 ApiVersions 3>1": "the layer of the wire answers it",
}

// TestWireReplays runs all replays, and demands that each recorded frame is in one of them: made by the core in its sender's place, if
// that is a node.
func TestWireReplays(t *testing.T) {
	traces := map[string]*trace{}
	for _, name := range []string{"static", "dynamic", "dynamic2"} {
		traces[name] = readTrace(t, name)
	}
	for _, r := range replays {
		t.Run(strings.ReplaceAll(r.trace+" "+r.node+" "+r.title, " ", "_"), func(t *testing.T) {
			newReplayer(t, traces[r.trace], r).run()
		})
	}
	if t.Failed() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(traces)) {
		tr := traces[name]
		requests, answers := 0, 0
		for _, f := range tr.frames {
			switch _, known := notMade[f.name]; {
			case !tr.shown[f.name]:
				t.Errorf("%s: %s is in no replay", name, f.name)
			case f.from != "tool" && !tr.made[f.name] && !known:
				t.Errorf("%s: %s is made in no replay", name, f.name)
			case tr.made[f.name] && f.response:
				answers++
			case tr.made[f.name]:
				requests++
			}
		}
		t.Logf("%s: %d frames, of which the core has made %d requests and %d answers", name, len(tr.frames), requests, answers)
	}
}
