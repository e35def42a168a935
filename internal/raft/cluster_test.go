package raft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// cluster is nodes of the real core in one goroutine, with disks and a network of values. Tests decide when
// time passes and what is delivered. All that happens is written to trace. After each step the invariants of
// check are checked.
type cluster struct {
	now     Millis
	nodes   []*testNode
	queue   []*packet // in the order of sending
	cuts    [][2]NodeID
	refuses [][2]NodeID // from, to
	nextID  RequestID
	mayDie  bool // a Fatal is what the test is about
	verbose bool // shows Fetches that bring nothing
	trace   strings.Builder
	failed  func(format string, args ...any)

	snapshots map[SnapshotID]Snapshot // the content of snapshots, which have no bytes here
	history   *committedLog
	told      Millis // the time that the trace has
}

type testNode struct {
	id     NodeID
	cfg    Config
	core   *Core // nil: the process is not there
	disk   testDisk
	hold   bool // fsyncs wait for the test
	served map[RequestID]*packet
	last   Status
	voted  map[Epoch]ReplicaKey

	leads    Epoch // the last epoch that it led
	roleSaid string
}

// testDisk is what survives a crash, and what of it doesn't: the batches from synced on.
type testDisk struct {
	quorum     QuorumState
	epochs     []EpochStart
	start, end Offset
	synced     Offset
	batches    []Batch
	snapshots  []Snapshot
	part       int64 // bytes of the snapshot that is being fetched
	unsynced   *AppendLog
}

// packet is a request, a response or a failure on its way. from is the node that acts, to the node that is told.
type packet struct {
	from, to NodeID
	id       RequestID // of the sender of the request
	request  Request
	response Response
	failure  *SendFailure
}

// tool is the sender of requests that come from no node, nobody one that is gone.
const tool, nobody NodeID = 0, -100

func newCluster(failed func(string, ...any)) *cluster {
	return &cluster{failed: failed, snapshots: map[SnapshotID]Snapshot{}, history: &committedLog{}, told: -1}
}

func dirID(id NodeID, generation byte) uuid.UUID { return uuid.UUID{0: byte(id), 15: generation} }

func testEndpoint(id NodeID) Endpoint { return Endpoint{"CONTROLLER", fmt.Sprintf("n%d", id), 9093} }

func testVoter(id NodeID) Voter {
	return Voter{Key: ReplicaKey{id, dirID(id, 1)}, Endpoints: []Endpoint{testEndpoint(id)}, MaxKRaftVersion: 1}
}

// fixedRandom spreads the timers of the nodes: node 1 always draws 0, node 2 a bit more, and so on.
type fixedRandom int64

func (r fixedRandom) Int64N(n int64) int64 { return int64(r) % n }

// addNode adds a node that is not started. With voters its zero checkpoint has them, and kraft.version 1.
func (cl *cluster) addNode(id NodeID, static int, voters []Voter, dynamic bool) *testNode {
	cfg := DefaultConfig()
	cfg.NodeID = id
	cfg.DirectoryID = dirID(id, 1)
	cfg.ClusterID = "C"
	cfg.CanBeVoter = true
	cfg.DefaultListener = "CONTROLLER"
	cfg.Listeners = []Endpoint{testEndpoint(id)}
	cfg.Random = fixedRandom(100 * (id - 1))
	n := &testNode{id: id, cfg: cfg, voted: map[Epoch]ReplicaKey{}}
	for i := range NodeID(static) {
		n.cfg.StaticVoters = append(n.cfg.StaticVoters, Voter{Key: ReplicaKey{NodeID: i + 1}, Endpoints: []Endpoint{testEndpoint(i + 1)}})
		n.cfg.BootstrapServers = append(n.cfg.BootstrapServers, testEndpoint(i+1))
	}
	for _, v := range voters {
		n.cfg.BootstrapServers = append(n.cfg.BootstrapServers, testEndpoint(v.Key.NodeID))
	}
	n.disk.quorum = NoQuorumState()
	if dynamic {
		n.disk.snapshots = []Snapshot{{SizeBytes: 100, KRaftVersion: 1, Voters: voters}}
	}
	cl.nodes = append(cl.nodes, n)
	return n
}

func (cl *cluster) node(id NodeID) *testNode {
	for _, n := range cl.nodes {
		if n.id == id {
			return n
		}
	}
	cl.failed("no node %d", id)
	return nil
}

func (cl *cluster) start(n *testNode) {
	n.core = New(n.cfg, n.disk.recovered())
	n.served = map[RequestID]*packet{}
	n.last = Status{HighWatermark: Unknown}
	cl.say("%d: starts", n.id)
	cl.step(n, Tick{})
}

// crash ends a node's process and takes what was not synced, as a loss of power does. Peers find their
// connections broken.
func (cl *cluster) crash(n *testNode) {
	cl.say("%d: crashes", n.id)
	n.core = nil
	n.disk.crash()
	var broken []*packet
	cl.queue = slices.DeleteFunc(cl.queue, func(p *packet) bool {
		if p.to == n.id && p.request != nil && p.response == nil && p.failure == nil {
			broken = append(broken, p)
		}
		return p.to == n.id || p.from == n.id
	})
	for _, p := range n.served {
		broken = append(broken, p)
	}
	for _, m := range cl.nodes {
		cl.orphan(m, n.id)
	}
	slices.SortFunc(broken, func(a, b *packet) int { return int(a.from-b.from)*1000 + int(a.id) - int(b.id) })
	for _, p := range broken {
		cl.fail(p, Disconnected)
	}
}

// recover does what recovery does with epoch starts: those of batches stay, and those that name nothing lost.
func (d *testDisk) recover() {
	d.epochs = startsFrom(slices.DeleteFunc(slices.Clone(d.epochs), func(e EpochStart) bool { return e.Start > d.end }), d.start)
	for _, b := range d.batches {
		if n := len(d.epochs); n == 0 || d.epochs[n-1].Epoch < b.Epoch {
			d.epochs = append(d.epochs, EpochStart{b.Epoch, b.BaseOffset})
		}
	}
	if n := len(d.snapshots); n > 0 {
		if s := d.snapshots[n-1].ID; compareLogs(s.Epoch, s.EndOffset, lastEpochOf(d), d.end) > 0 {
			d.start, d.end, d.batches, d.epochs = s.EndOffset, s.EndOffset, nil, nil
		}
	}
	d.synced = d.end
}

func lastEpochOf(d *testDisk) Epoch {
	if n := len(d.epochs); n > 0 {
		return d.epochs[n-1].Epoch
	}
	return 0
}

// orphan lets the answers that a node owes another one find nobody, and returns their requests.
func (cl *cluster) orphan(n *testNode, from NodeID) (orphans []*packet) {
	for id, p := range n.served {
		if p.from == from {
			n.served[id] = &packet{from: nobody, to: n.id, request: p.request}
			orphans = append(orphans, p)
		}
	}
	return orphans
}

// disconnect breaks the connections from one node to another: what is under way on them fails.
func (cl *cluster) disconnect(from, to NodeID) {
	var broken []*packet
	cl.queue = slices.DeleteFunc(cl.queue, func(p *packet) bool {
		request := p.from == from && p.to == to && p.response == nil && p.failure == nil
		answer := p.from == to && p.to == from && p.response != nil
		if request || answer {
			broken = append(broken, &packet{from: from, to: to, id: p.id, request: p.request})
		}
		return request || answer
	})
	broken = append(broken, cl.orphan(cl.node(to), from)...)
	slices.SortFunc(broken, func(a, b *packet) int { return int(a.id) - int(b.id) })
	for _, p := range broken {
		cl.fail(p, Disconnected)
	}
}

func (cl *cluster) fail(p *packet, reason SendFailure) {
	if p.from == tool || p.from == nobody {
		return
	}
	cl.queue = append(cl.queue, &packet{from: p.to, to: p.from, id: p.id, request: p.request, failure: &reason})
}

func (cl *cluster) step(n *testNode, in Input) {
	if n.core == nil {
		return
	}
	effects := n.core.Step(cl.now, in)
	cl.check(n, effects)
	cl.sayRole(n)
	for _, e := range slices.Clone(effects) {
		cl.carryOut(n, e)
	}
	if a := n.disk.unsynced; a != nil && !n.hold {
		cl.sync(n)
	}
}

func (cl *cluster) sync(n *testNode) {
	if a := n.disk.unsynced; a != nil {
		n.disk.unsynced = nil
		n.disk.synced = a.EndOffset
		cl.step(n, Synced{a.EndOffset, a.Generation})
	}
}

func (cl *cluster) carryOut(n *testNode, e Effect) {
	n.disk.apply(e)
	switch e := e.(type) {
	case WriteQuorumState:
		cl.say("%d: quorum-state: epoch %d, leader %s, vote %s", n.id, e.State.Epoch, name(e.State.LeaderID), name(e.State.Voted.NodeID))
	case WriteEpochStarts:
		cl.say("%d: epoch starts %s", n.id, showStarts(e.Entries))
	case AppendLog:
		for _, b := range e.Batches {
			cl.say("%d: appends %s", n.id, showBatch(b))
		}
	case TruncateLog:
		cl.say("%d: truncates to %d", n.id, e.EndOffset)
	case ResetLog:
		cl.say("%d: log begins anew at %d", n.id, e.ID.EndOffset)
	case DeletePrefix:
		cl.say("%d: deletes up to %d", n.id, e.LogStart)
	case DropSnapshotChunks:
		cl.say("%d: drops the download of %s", n.id, showID(e.ID))
	case InstallSnapshot:
		cl.say("%d: installs snapshot %s of %d bytes", n.id, showID(e.ID), n.disk.part)
		s := cl.snapshots[e.ID]
		n.disk.snapshots = append(n.disk.snapshots, s)
		cl.step(n, SnapshotInstalled{s})
	case Send:
		cl.sendPacket(n, e)
	case Reply:
		cl.reply(n, e)
	case Committed:
		cl.say("%d: committed up to %d", n.id, e.HighWatermark)
	case LoadSnapshot:
		cl.say("%d: loads snapshot %s", n.id, showID(e.ID))
	case VotersChanged:
		cl.say("%d: kraft.version %d, voters %v", n.id, e.KRaftVersion, showVoters(e.Voters))
	case Notice:
		cl.say("%d: notice: %s", n.id, e.Text)
	case ShutdownDone:
		cl.say("%d: shutdown done", n.id)
		n.core = nil
	case Fatal:
		cl.say("%d: fatal: %s", n.id, e.Reason)
		n.core = nil
		if !cl.mayDie {
			cl.failed("node %d: %s", n.id, e.Reason)
		}
	}
}

func (cl *cluster) sendPacket(n *testNode, e Send) {
	var to NodeID
	fmt.Sscanf(e.To.Endpoint.Host, "n%d", &to)
	p := &packet{from: n.id, to: to, id: e.ID, request: e.Request}
	if cl.node(to).core == nil && !cl.isCut(n.id, to) || slices.Contains(cl.refuses, [2]NodeID{n.id, to}) {
		cl.fail(p, Refused)
		return
	}
	cl.queue = append(cl.queue, p)
}

func (cl *cluster) reply(n *testNode, e Reply) {
	p := n.served[e.ID]
	if p == nil {
		cl.failed("node %d answers request %d, which it hasn't or has answered", n.id, e.ID)
		return
	}
	delete(n.served, e.ID)
	switch r := e.Response.(type) {
	case *FetchResponse:
		r.Batches = n.disk.read(r.Read)
	case *FetchSnapshotResponse:
		r.Bytes = make([]byte, r.Read)
	}
	cl.queue = append(cl.queue, &packet{from: n.id, to: p.from, id: p.id, request: p.request, response: e.Response})
}

// apply carries out an effect on the disk.
func (d *testDisk) apply(e Effect) {
	switch e := e.(type) {
	case WriteQuorumState:
		d.quorum = e.State
	case WriteEpochStarts:
		d.epochs = e.Entries
	case AppendLog:
		d.batches = append(d.batches, e.Batches...)
		d.end = e.EndOffset
		d.unsynced = &e
	case TruncateLog:
		d.batches = slices.DeleteFunc(d.batches, func(b Batch) bool { return b.BaseOffset >= e.EndOffset })
		d.end, d.synced, d.unsynced = e.EndOffset, min(d.synced, e.EndOffset), nil
	case ResetLog:
		d.batches, d.unsynced = nil, nil
		d.start, d.end, d.synced = e.ID.EndOffset, e.ID.EndOffset, e.ID.EndOffset
		d.snapshots = slices.DeleteFunc(d.snapshots, func(s Snapshot) bool { return s.ID.EndOffset < e.ID.EndOffset })
	case DeletePrefix:
		d.start = e.LogStart
		d.batches = slices.DeleteFunc(d.batches, func(b Batch) bool { return b.LastOffset < e.LogStart })
		d.snapshots = slices.DeleteFunc(d.snapshots, func(s Snapshot) bool { return s.ID.EndOffset < e.LogStart })
	case WriteSnapshotChunk:
		d.part = e.Position + int64(len(e.Bytes))
	case DropSnapshotChunks:
		d.part = 0
	}
}

// recovered is what recovery finds on it.
func (d *testDisk) recovered() Recovered {
	r := Recovered{QuorumState: d.quorum, LogStart: d.start, LogEnd: d.end, EpochStarts: d.epochs, Snapshots: d.snapshots}
	for _, b := range d.batches {
		if b.Control != nil {
			r.Control = append(r.Control, b)
		}
	}
	return r
}

// crash takes what was not synced.
func (d *testDisk) crash() {
	d.unsynced = nil
	for len(d.batches) > 0 && d.batches[len(d.batches)-1].LastOffset >= d.synced {
		d.end = d.batches[len(d.batches)-1].BaseOffset
		d.batches = d.batches[:len(d.batches)-1]
	}
	d.recover()
}

func (d *testDisk) read(r LogRange) (batches []Batch) {
	for _, b := range d.batches {
		if b.LastOffset >= r.From && b.LastOffset < r.End {
			batches = append(batches, b)
		}
		if len(batches) == 3 {
			break
		}
	}
	return batches
}

func (cl *cluster) isCut(a, b NodeID) bool {
	return slices.ContainsFunc(cl.cuts, func(cut [2]NodeID) bool { return cut == [2]NodeID{a, b} || cut == [2]NodeID{b, a} })
}

// request hands a tool's request to a node.
func (cl *cluster) request(to NodeID, r Request) {
	cl.queue = append(cl.queue, &packet{from: tool, to: to, request: r})
}

// deliver brings a packet to its end.
func (cl *cluster) deliver(p *packet) {
	if cl.isCut(p.from, p.to) || p.to == nobody {
		return
	}
	cl.sayPacket(p, "->")
	if p.to == tool {
		return
	}
	n := cl.node(p.to)
	switch {
	case p.failure != nil:
		cl.step(n, SendFailed{p.id, *p.failure})
	case p.response != nil:
		cl.step(n, Answered{p.id, p.response})
	case n.core == nil:
		cl.fail(p, Disconnected)
	default:
		if _, ok := p.request.(*ApiVersionsRequest); ok {
			// The layer of the wire answers this one.
			cl.queue = append(cl.queue, &packet{from: p.to, to: p.from, id: p.id, request: p.request,
				response: &ApiVersionsResponse{HasKRaftVersion: true, MinKRaftVersion: n.cfg.MinKRaftVersion, MaxKRaftVersion: n.cfg.MaxKRaftVersion}})
			return
		}
		cl.nextID++
		n.served[cl.nextID] = p
		cl.step(n, Received{ID: cl.nextID, Request: p.request})
	}
}

// deliverAll delivers until nothing is on its way.
func (cl *cluster) deliverAll() {
	for i := 0; len(cl.queue) > 0; i++ {
		if i == 10_000 {
			cl.failed("the messages don't come to an end")
			return
		}
		p := cl.queue[0]
		cl.queue = cl.queue[1:]
		cl.deliver(p)
	}
}

// tick lets time pass, from timer to timer. With delivery, messages arrive at once.
func (cl *cluster) tick(millis Millis, delivery bool) {
	until := cl.now + millis
	for {
		if delivery {
			cl.deliverAll()
		}
		next, at := (*testNode)(nil), until
		for _, n := range cl.nodes {
			if n.core == nil {
				continue
			}
			if d, ok := n.core.Deadline(); ok && d < at || ok && d == at && next == nil {
				next, at = n, d
			}
		}
		if next == nil {
			cl.now = until
			return
		}
		cl.now = max(cl.now, at)
		cl.step(next, Tick{})
	}
}

// check holds what must be true of each node after each step, and of all together.
func (cl *cluster) check(n *testNode, effects []Effect) {
	s := n.core.Status()
	if s.Epoch < n.last.Epoch {
		cl.failed("node %d: epoch %d becomes %d", n.id, n.last.Epoch, s.Epoch)
	}
	if s.HighWatermark < n.last.HighWatermark || s.HighWatermark > s.LogEnd {
		cl.failed("node %d: high watermark %d becomes %d, the log ends at %d", n.id, n.last.HighWatermark, s.HighWatermark, s.LogEnd)
	}
	n.last = s
	for _, e := range effects {
		if w, ok := e.(WriteQuorumState); ok && w.State.Voted.NodeID != None {
			if old, voted := n.voted[w.State.Epoch]; voted && old.NodeID != w.State.Voted.NodeID {
				cl.failed("node %d votes for %d and %d in epoch %d", n.id, old.NodeID, w.State.Voted.NodeID, w.State.Epoch)
			}
			n.voted[w.State.Epoch] = w.State.Voted
		}
	}
	if at, ok := n.core.Deadline(); ok && at <= cl.now {
		cl.failed("node %d: the deadline %d has passed at %d", n.id, at, cl.now)
	}
	for _, e := range effects {
		if c, ok := e.(Committed); ok {
			if err := cl.history.commit(n, c.HighWatermark, effects); err != nil {
				cl.failed("%v", err)
			}
		}
	}
	if s.Role == Leader && n.leads != s.Epoch {
		n.leads = s.Epoch
		if err := cl.history.complete(n, effects); err != nil {
			cl.failed("node %d becomes the leader of epoch %d: %v", n.id, s.Epoch, err)
		}
	}
	for _, m := range cl.nodes {
		if m != n && m.core != nil && m.last.Role == Leader && s.Role == Leader && m.last.Epoch == s.Epoch {
			cl.failed("nodes %d and %d both lead epoch %d", m.id, n.id, s.Epoch)
		}
	}
}

// committedLog is what has ever been committed, by whomever: the epoch of each offset, and the epoch in which it was
// first known to be committed.
type committedLog struct{ epochs, in []Epoch }

func (h *committedLog) commit(n *testNode, hw Offset, effects []Effect) error {
	for _, b := range logWith(n, effects) {
		for o := b.BaseOffset; o <= b.LastOffset && o < hw; o++ {
			switch {
			case o < Offset(len(h.epochs)):
				if h.epochs[o] != b.Epoch {
					return fmt.Errorf("node %d commits offset %d with epoch %d, which was committed with epoch %d", n.id, o, b.Epoch, h.epochs[o])
				}
			case o == Offset(len(h.epochs)):
				h.epochs = append(h.epochs, b.Epoch)
				h.in = append(h.in, n.last.Epoch)
			}
		}
	}
	return nil
}

// complete checks that a new leader has all that was committed in the epochs before its own. One that was paused and
// wins late need not have what later leaders committed.
func (h *committedLog) complete(n *testNode, effects []Effect) error {
	has := map[Offset]Epoch{}
	for _, b := range logWith(n, effects) {
		for o := b.BaseOffset; o <= b.LastOffset; o++ {
			has[o] = b.Epoch
		}
	}
	for o := n.disk.start; o < Offset(len(h.epochs)); o++ {
		if epoch, ok := has[o]; h.in[o] < n.last.Epoch && (!ok || epoch != h.epochs[o]) {
			return fmt.Errorf("offset %d was committed with epoch %d, and its log has epoch %d (there: %v)", o, h.epochs[o], epoch, ok)
		}
	}
	return nil
}

// logWith is a node's log with the appends of effects that are not carried out yet.
func logWith(n *testNode, effects []Effect) []Batch {
	batches := slices.Clone(n.disk.batches)
	for _, e := range effects {
		switch e := e.(type) {
		case AppendLog:
			batches = append(batches, e.Batches...)
		case ResetLog:
			batches = nil
		case TruncateLog:
			batches = slices.DeleteFunc(batches, func(b Batch) bool { return b.BaseOffset >= e.EndOffset })
		}
	}
	return batches
}
