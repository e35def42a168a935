package raft_test

import (
	"bytes"
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
	steps     string
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
			p.sent = append(p.sent, &sentRequest{send: e, to: p.nodeAt(e.To.Endpoint), api: apiOf(e.Request)})
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

func apiOf(r raft.Request) kmsg.Key {
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
	panic(fmt.Sprintf("%T", r))
}

// take returns the oldest request to a node that no step has had yet.
func (p *replayer) take(api kmsg.Key, to string) *sentRequest {
	for _, s := range p.sent {
		if !s.shown && s.to == to && s.api == api {
			s.shown = true
			return s
		}
	}
	p.fail("no %s is sent to %s", kmsg.NameForKey(int16(api)), to)
	return nil
}

// waiting returns the last request to a node that has no answer yet, and counts it as shown.
func (p *replayer) waiting(api kmsg.Key, to string) *sentRequest {
	for _, s := range slices.Backward(p.sent) {
		if !s.answered && s.api == api && (to == "" || s.to == to) {
			s.shown, s.answered = true, true
			return s
		}
	}
	p.fail("no %s to %s waits for an answer", kmsg.NameForKey(int16(api)), to)
	return nil
}

func (p *replayer) answer(s *sentRequest, r raft.Response) {
	p.do(raft.Answered{ID: s.send.ID, Response: r})
}

// frame is a step of the recording.
func (p *replayer) frame(f *traceFrame, words []string) {
	node := fmt.Sprint(p.id)
	p.trace.shown[f.name] = true
	if f.from != node && f.to != node {
		p.fail("it doesn't concern node %s", node)
	}
	if !f.response {
		if f.from == node {
			p.checkSent(f)
		}
		if f.to == node {
			q, _, _ := f.request(p.t)
			r, refused := wire.DecodeRaftRequest(q, wireCluster)
			if refused != nil {
				p.fail("refused: %+v", refused)
			}
			p.receive(f.from, q, r)
		}
		return
	}
	if f.from == node {
		p.checkAnswer(f)
	}
	if f.to == node {
		p.receiveAnswer(f, f.from, words)
	}
}

func (p *replayer) receive(from string, q kmsg.Request, r raft.Request) *servedRequest {
	p.nextID++
	s := &servedRequest{id: p.nextID, from: from, request: q}
	p.served = append(p.served, s)
	p.do(raft.Received{ID: s.id, Request: r})
	return s
}

// checkSent compares a request that the core has sent.
func (p *replayer) checkSent(f *traceFrame) {
	s := p.take(f.api, f.to)
	want, clientID, correlationID := f.request(p.t)
	q, err := wire.EncodeRaftRequest(s.send.Request, f.version)
	if err != nil {
		p.fail("%v", err)
	}
	maskRequest(q, want)
	if got := requestFrame(q, clientID, correlationID); !bytes.Equal(got, f.bytes) {
		p.fail("%s", diffBytes(got, f.bytes, q, want))
	}
	p.trace.made[f.name] = true
}

// checkAnswer compares an answer that the core has given.
func (p *replayer) checkAnswer(f *traceFrame) {
	var s *servedRequest
	for _, o := range p.served {
		if o.request != nil && !o.shown && o.from == f.to && o.request.Key() == int16(f.api) && (o.response != nil || s == nil) {
			s = o
		}
	}
	if s == nil {
		p.fail("there was no such request")
	}
	if s.response == nil {
		p.fail("the core has not answered")
	}
	s.shown = true
	want, correlationID := f.decodedResponse(p.t)
	var payload []byte
	switch r := s.response.(type) {
	case *raft.FetchResponse:
		payload = p.read(r.Read)
		if f.made {
			clear(payload) // the recording has their size
		}
	case *raft.FetchSnapshotResponse:
		payload = want.(*kmsg.FetchSnapshotResponse).Topics[0].Partitions[0].Bytes
		if int(r.Read) != len(payload) {
			p.fail("%d bytes of the snapshot, not %d", r.Read, len(payload))
		}
	}
	got := wire.EncodeRaftResponse(s.request, s.response, payload, func(m raft.Millis) int64 { return int64(m) })
	maskResponse(got, want)
	if frame := responseFrame(got, correlationID); !bytes.Equal(frame, f.bytes) {
		p.fail("%s", diffBytes(frame, f.bytes, got, want))
	}
	p.trace.made[f.name] = true
}

// read returns the bytes of batches.
func (p *replayer) read(r raft.LogRange) (data []byte) {
	for _, b := range p.log {
		if b.LastOffset >= r.From && b.BaseOffset < r.End {
			data = append(data, b.Bytes...)
		}
	}
	return data
}

// receiveAnswer hands in the answer of a frame, from a node.
func (p *replayer) receiveAnswer(f *traceFrame, from string, words []string) {
	s := p.answeredBy(f, from)
	w, _ := f.decodedResponse(p.t)
	r, payload, err := wire.DecodeRaftResponse(w)
	if err != nil {
		p.fail("%v", err)
	}
	switch r := r.(type) {
	case *raft.FetchResponse:
		r.Batches = p.batches(words, p.core.Status().LogEnd, r.Epoch, r.LeaderID)
		if (len(payload) > 0) != (len(r.Batches) > 0) {
			p.fail("%d bytes of records, %d batches", len(payload), len(r.Batches))
		}
	case *raft.FetchSnapshotResponse:
		r.Bytes = payload
	}
	p.answer(s, r)
}

// answeredBy is the request that a frame answers: the last one. Only a pre-vote can have been won before its last answer comes, and the
// Vote to the same node is under way by then: the frames of Votes answer those that frames have shown.
func (p *replayer) answeredBy(f *traceFrame, from string) *sentRequest {
	if f.api == kmsg.Vote {
		for _, s := range p.sent {
			if s.shown && !s.answered && s.api == f.api && s.to == from {
				s.answered = true
				return s
			}
		}
	}
	return p.waiting(f.api, from)
}

func (p *replayer) run() {
	for line := range strings.Lines(p.r.steps) {
		p.step = strings.TrimSpace(line)
		words := strings.Fields(p.step)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) >= 3 {
			if f := p.trace.byName[strings.Join(words[:3], " ")]; f != nil {
				p.frame(f, words[3:])
				continue
			}
		}
		do, ok := replaySteps[words[0]]
		if !ok {
			p.fail("no such frame and no such step")
		}
		do(p, words[1:])
	}
	p.step = "at the end"
	for i, s := range p.sent {
		if _, fetch := s.send.Request.(*raft.FetchRequest); fetch && i == len(p.sent)-1 {
			continue // the next one is under way when a replay ends
		}
		if !s.shown {
			p.fail("the core has sent a %T to %s that is in no step: %+v", s.send.Request, s.to, s.send.Request)
		}
	}
}

var replaySteps = map[string]func(*replayer, []string){
	"tick": func(p *replayer, args []string) {
		p.now += raft.Millis(p.int(args[0]))
		p.do(raft.Tick{})
	},
	"waited": func(p *replayer, _ []string) {
		p.now += 500
		p.do(raft.Tick{})
	},
	"idle": func(p *replayer, args []string) {
		for range p.int(args[0]) / 500 {
			p.now += 500
			p.do(raft.Tick{})
			s := p.waiting(kmsg.Fetch, "")
			p.answer(s, p.news())
		}
	},
	"pick":   func(p *replayer, args []string) { p.pick = int64(p.int(args[0])) },
	"hidden": func(p *replayer, args []string) { p.take(keyOf(args[0]), args[1]).answered = true },
	"like": func(p *replayer, args []string) {
		f := p.trace.byName[strings.Join(args[:3], " ")]
		if f == nil {
			p.fail("no such frame")
		}
		p.receiveAnswer(f, args[4], nil)
	},
	"granted": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Vote, args[0])
		r := &raft.VoteResponse{LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: p.core.Status().Epoch}, VoteGranted: true}
		p.answer(s, r)
	},
	"fetched": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Fetch, "")
		r := p.news()
		for _, arg := range args {
			if v, ok := strings.CutPrefix(arg, "hw="); ok {
				r.HighWatermark = raft.Offset(p.int(v))
			}
		}
		r.Batches = p.batches(args, p.core.Status().LogEnd, r.Epoch, r.LeaderID)
		p.answer(s, r)
	},
	"fenced": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Fetch, args[0])
		leader := p.nodes[args[1]]
		p.answer(s, &raft.FetchResponse{
			Partition:     raft.FencedLeaderEpoch,
			LeaderView:    raft.LeaderView{LeaderID: leader.Key.NodeID, Epoch: raft.Epoch(p.int(args[2])), Endpoint: leader.Endpoints[0]},
			HighWatermark: raft.Unknown,
		})
	},
	"offered": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Fetch, "")
		r := p.news()
		r.SnapshotID = &raft.SnapshotID{EndOffset: raft.Offset(p.int(args[0])), Epoch: raft.Epoch(p.int(args[1]))}
		p.answer(s, r)
	},
	"failed": func(p *replayer, args []string) {
		for _, s := range slices.Backward(p.sent) {
			if !s.answered && s.to == args[0] {
				s.shown, s.answered = true, true
				p.do(raft.SendFailed{ID: s.send.ID, Reason: raft.Disconnected})
				return
			}
		}
		p.fail("nothing waits for it")
	},
	"fetches": func(p *replayer, args []string) {
		key := p.voters(args[:1])[0].Key
		p.receive(fmt.Sprint(key.NodeID), frameOfFetch, &raft.FetchRequest{
			ClusterID:        &wireCluster,
			Replica:          key,
			MaxWaitMillis:    500,
			MaxBytes:         1 << 20,
			Epoch:            p.core.Status().Epoch,
			FetchOffset:      raft.Offset(p.int(args[1])),
			LastFetchedEpoch: raft.Epoch(p.int(args[2])),
			HighWatermark:    raft.Offset(p.int(args[3])),
		})
		s := p.served[len(p.served)-1]
		if r, ok := s.response.(*raft.FetchResponse); ok {
			if r.Partition != raft.NoError {
				p.fail("answered with %+v", r)
			}
		}
	},
	"votes": func(p *replayer, args []string) {
		s := p.receive(args[0], nil, &raft.VoteRequest{
			ClusterID:    &wireCluster,
			Voter:        p.nodes[p.r.node].Key,
			Replica:      p.nodes[args[0]].Key,
			ReplicaEpoch: raft.Epoch(p.int(args[1])),
			LastEpoch:    raft.Epoch(p.int(args[2])),
			LastOffset:   raft.Offset(p.int(args[3])),
		})
		if r, ok := s.response.(*raft.VoteResponse); !ok || !r.VoteGranted {
			p.fail("answered with %+v", s.response)
		}
	},
	"probed": func(p *replayer, args []string) {
		p.answer(p.waiting(kmsg.ApiVersions, args[0]), &raft.ApiVersionsResponse{HasKRaftVersion: true, MaxKRaftVersion: 1})
	},
	"append": func(p *replayer, args []string) {
		s := p.core.Status()
		size := 72
		if len(args) == 2 {
			size = p.int(args[1])
		}
		r := p.receive("", nil, &raft.AppendRequest{Batch: raft.Batch{
			BaseOffset: s.LogEnd, LastOffset: raft.Offset(p.int(args[0])) - 1, Epoch: s.Epoch, Bytes: make([]byte, size),
		}})
		if a, ok := r.response.(*raft.AppendResponse); !ok || a.Code != raft.NoError {
			p.fail("answered with %+v", r.response)
		}
	},
	"upgrade": func(p *replayer, _ []string) {
		s := p.receive("", nil, &raft.UpgradeRequest{Epoch: p.core.Status().Epoch, Version: 1})
		if r, ok := s.response.(*raft.UpgradeResponse); !ok || r.Code != raft.NoError {
			p.fail("answered with %+v", s.response)
		}
	},
	"snapshot": func(p *replayer, args []string) {
		s, err := p.core.SnapshotHeader(raft.SnapshotID{EndOffset: raft.Offset(p.int(args[0])), Epoch: raft.Epoch(p.int(args[1]))})
		if err != nil {
			p.fail("%v", err)
		}
		s.SizeBytes = int64(p.int(args[2]))
		p.do(raft.SnapshotCreated{Snapshot: s})
	},
	"clean":    func(p *replayer, _ []string) { p.do(raft.Clean{WallMillis: 1 << 40}) },
	"shutdown": func(p *replayer, _ []string) { p.do(raft.Shutdown{}) },
	"is": func(p *replayer, args []string) {
		s := p.core.Status()
		if got := fmt.Sprint(s.Role, " ", s.Epoch, " ", s.HighWatermark); got != strings.Join(args, " ") {
			p.fail("it is %s", got)
		}
	},
}

// frameOfFetch stands for the frame of a Fetch that the recording doesn't show; its answer may be shown.
var frameOfFetch = func() kmsg.Request {
	q := kmsg.NewPtrFetchRequest()
	q.Version = 18
	return q
}()

// news is an answer without records of the node's leader.
func (p *replayer) news() *raft.FetchResponse {
	s := p.core.Status()
	leader := p.nodes[fmt.Sprint(s.LeaderID)]
	r := &raft.FetchResponse{LeaderView: raft.LeaderView{LeaderID: s.LeaderID, Epoch: s.Epoch}, HighWatermark: s.HighWatermark}
	if len(leader.Endpoints) > 0 {
		r.Endpoint = leader.Endpoints[0]
	}
	return r
}

// What is not compared, because it isn't deterministic or not the core's.

// maskRequest: who the client is belongs to the layer of the wire.
func maskRequest(got, want kmsg.Request) {
	if got, ok := got.(*kmsg.ApiVersionsRequest); ok {
		want := want.(*kmsg.ApiVersionsRequest)
		got.ClientSoftwareName, got.ClientSoftwareVersion = want.ClientSoftwareName, want.ClientSoftwareVersion
	}
}

// maskResponse: times that are known are those of the recording.
func maskResponse(got, want kmsg.Response) {
	g, ok := got.(*kmsg.DescribeQuorumResponse)
	if !ok {
		return
	}
	gp, wp := &g.Topics[0].Partitions[0], want.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
	mask := func(got, want []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
		for i := range min(len(got), len(want)) {
			if got[i].LastFetchTimestamp >= 0 && want[i].LastFetchTimestamp >= 0 {
				got[i].LastFetchTimestamp = want[i].LastFetchTimestamp
			}
			if got[i].LastCaughtUpTimestamp >= 0 && want[i].LastCaughtUpTimestamp >= 0 {
				got[i].LastCaughtUpTimestamp = want[i].LastCaughtUpTimestamp
			}
		}
	}
	mask(gp.CurrentVoters, wp.CurrentVoters)
	mask(gp.Observers, wp.Observers)
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
