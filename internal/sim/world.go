// Package sim is a deterministic simulation of whole clusters: the real core (internal/raft) and the real log
// (internal/raftlog) over disks that crash, a network that loses, and clocks that jump. It is for tests only.
//
// # The world
//
// A world has a clock, a queue of events in the order of their times, and one source of chance; whatever happens is
// an event, and nothing runs besides. So a seed gives the whole run: ids, delays, faults, jitter. A run is made
// twice, and its traces, hashes of all inputs and effects of all cores, must be equal.
//
//	world       clock, events, chance; clients; the end of the faults, and the progress that is demanded then
//	scenario    which cluster and which faults
//	network     delays, losses, duplicates, partitions, refusals
//	machine     a computer: disk (crashdisk), directory, addresses; starts and ends
//	process     a node on it; it hosts
//	driver      which carries out the core's effects: the part that internal/node has too
//	app         the layer above the core: applies what is committed to an image, snapshots, bootstrap, appends
//	checker     what Raft promises, after every event
//	tamper      bugs that are planted from outside, to see that the checker finds them
//
// # What is checked
//
// All the time: one leader an epoch, by what anybody says of it; one vote an epoch and directory, restarts or not;
// epochs and high watermarks never go back, epochs not even over restarts; logs that have a batch in common are equal
// up to it; a new leader has all that was ever committed; a high watermark is on the disks of a majority of voters,
// and counted only by a leader of that epoch; committed batches never change and are never cut; a voter set
// changes by one voter at a time, with the one before committed; snapshots hold only what is committed; all nodes apply the same records
// and come to the same image; the image has a cluster id exactly if its level has one, and it never changes
// (docs/design.md 5.7); a log that is opened has all that was synced, and nothing that was not written; each request is
// answered once.
//
// At the end, with the faults over: there is a leader that all follow, appends are acknowledged, all nodes have
// applied the same, every acknowledged append is among it, each request has its answer; a loss of power of all
// machines at once would leave it all on a majority of disks.
//
// # Left out
//
// Bytes that rot, disks that lie, nodes that lie, clocks that go back.
package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"sort"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
)

// world is a run.
type world struct {
	scenario *scenario
	random   *rand.Rand
	now      micros
	queue    queue
	machines []*machine
	network  *network
	check    *checker
	tamper   tamper
	trace    trace

	static           bool // kraft.version 0 at first
	level            int16
	initialVoters    []raft.Voter
	bootstrapServers []raft.Endpoint
	fetchMaxBytes    int32
	snapshotMaxBytes int32
	retentionBytes   int64
	logConfig        raftlog.Config
	slowDisks        bool
	quick            bool // short timeouts

	faulting   bool // faults are made
	ops        int64
	healed     micros // when the faults ended
	opsBefore  int64  // the last append before
	wellSince  micros // 0: something is missing
	wellEpoch  raft.Epoch
	events     int
	did        counts
	lastChange micros // of the voters, by a tool
	finished   bool

	verbose bool
	log     io.Writer
}

// result is what a run came to.
type result struct {
	events    int
	trace     trace
	did       counts
	violation string // "": none
}

// counts says what a run has come to do, so that a test can see that the scenarios reach what they are for.
type counts struct {
	steps, acked, leaders                        int
	restarts, diskErrors                         int
	truncations, resets, snapshots, prefixes     int
	voterChanges, upgrades, idsLearned, rejected int
}

func (c *counts) add(o counts) {
	c.steps += o.steps
	c.acked += o.acked
	c.leaders += o.leaders
	c.restarts += o.restarts
	c.diskErrors += o.diskErrors
	c.truncations += o.truncations
	c.resets += o.resets
	c.snapshots += o.snapshots
	c.prefixes += o.prefixes
	c.voterChanges += o.voterChanges
	c.upgrades += o.upgrades
	c.idsLearned += o.idsLearned
	c.rejected += o.rejected
}

// violation unwinds a run.
type violation string

// run makes a run. A log, if not nil, gets a line for everything that happens.
func run(s *scenario, seed uint64, t tamper, log io.Writer) (r result) {
	w := &world{lastChange: -10 * second, scenario: s, random: rand.New(rand.NewPCG(seed, 1)), tamper: t, log: log, verbose: log != nil}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			r.violation = string(v)
		default:
			r.violation = fmt.Sprintf("panic: %v\n%s", v, debug.Stack())
		}
		r.events, r.trace, r.did = w.events, w.trace, w.did
		if r.violation != "" {
			w.logf("VIOLATION: %s", r.violation)
		}
	}()
	w.check = newChecker(w)
	w.build()
	for !w.finished {
		e := w.queue.next()
		w.now = e.at
		w.events++
		e.run()
	}
	w.checkEnd()
	return
}

func (w *world) fail(format string, args ...any) {
	panic(violation(fmt.Sprintf("at %d.%06d s: ", w.now/second, w.now%second) + fmt.Sprintf(format, args...)))
}

func (w *world) logf(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%4d.%06d %s\n", w.now/second, w.now%second, fmt.Sprintf(format, args...))
	}
}

func (w *world) at(t micros, do func())    { w.queue.add(t, do) }
func (w *world) after(d micros, do func()) { w.queue.add(w.now+d, do) }

// micros returns a random time below d.
func (w *world) micros(d micros) micros {
	if d <= 0 {
		return 0
	}
	return micros(w.random.Int64N(int64(d)))
}

func (w *world) intN(n int) int            { return w.random.IntN(n) }
func (w *world) chance(p float64) bool     { return p > 0 && w.random.Float64() < p }
func (w *world) faulty(p float64) bool     { return w.faulting && w.chance(p) }
func pick[T any](w *world, list []T) (t T) { return list[w.intN(len(list))] }

// newID draws a directory id.
func (w *world) newID() (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], w.random.Uint64()|1<<60)
	binary.BigEndian.PutUint64(id[8:], w.random.Uint64())
	return id
}

// syncTime is how long an fsync takes.
func (w *world) syncTime() micros {
	switch {
	case w.slowDisks && w.chance(0.2):
		return w.micros(pick(w, []micros{200 * millisecond, 200 * millisecond, second}))
	case w.slowDisks && w.chance(0.03):
		return 3*second + w.micros(3*second)
	}
	return 100 + w.micros(3*millisecond)
}

// build makes the cluster and starts it.
func (w *world) build() {
	s := w.scenario
	voters := pick(w, s.voters)
	observers := w.intN(s.observers + 1)
	w.static = w.chance(s.static)
	w.level = pick(w, []int16{33, 35})
	w.fetchMaxBytes = pick(w, []int32{1, 300, 1 << 20})
	w.snapshotMaxBytes = pick(w, []int32{50, 200, 1 << 20})
	w.retentionBytes = pick(w, []int64{1, 4000})
	w.logConfig = raftlog.Config{SegmentBytes: int64(pick(w, []int{400, 3000, 1 << 30})), SegmentMillis: pick(w, []int64{2000, 1 << 40})}
	w.slowDisks = w.chance(s.slowDisks)
	w.quick = w.chance(s.quick)
	w.network = newNetwork(w, voters+observers)
	w.network.delay = pick(w, []micros{200, millisecond, 5 * millisecond, 30 * millisecond})
	clusterID := ""
	if w.level < clusterIDLevel || w.chance(0.5) {
		clusterID = randomID(w)
	}
	for i := range voters + observers {
		m := &machine{
			w:          w,
			index:      i,
			id:         raft.NodeID(i + 1),
			voter:      i < voters,
			controller: i < voters || !w.static && w.chance(0.7),
			old:        w.chance(0.05),
			clusterID:  clusterID,
			endpoint:   raft.Endpoint{Listener: "CONTROLLER", Host: fmt.Sprintf("node%d", i+1), Port: 9093},
		}
		m.autoJoin = m.controller && w.chance(s.autoJoin)
		w.machines = append(w.machines, m)
	}
	for _, m := range w.machines {
		m.newDirectory(w.newID())
		if m.voter {
			v := m.voterEntry()
			if w.static {
				v.Key.DirectoryID, v.MaxKRaftVersion = uuid.Nil, 0
			}
			w.initialVoters = append(w.initialVoters, v)
		}
		if m.controller {
			w.bootstrapServers = append(w.bootstrapServers, m.endpoint)
		}
	}
	for _, m := range w.machines {
		var voters []raft.Voter
		if m.voter && !w.static {
			voters = w.initialVoters
		}
		m.format(voters)
		w.after(w.micros(300*millisecond), m.start)
	}
	if s.loss > 0 {
		w.network.loss, w.network.duplicates = s.loss, s.loss
		w.network.spikes, w.network.damage = s.loss/3, s.loss
	}
	w.clients()
	w.faulting = true
	for _, f := range s.faults {
		w.inject(f)
	}
	w.at(s.faultsUntil+w.micros(2*second), w.heal)
}

// listenerAt finds the machine with this address. When the faults are over somebody has forwarded the ports that a machine
// had before it moved: two of two voters, one of them moved, may need just the vote of that one.
func (w *world) listenerAt(e raft.Endpoint) *machine {
	for _, m := range w.machines {
		if m.endpoint.Host == e.Host && (m.endpoint.Port == e.Port || !w.faulting) {
			return m
		}
	}
	return nil
}

// clients append again and again, to whoever takes it.
func (w *world) clients() {
	w.after(w.scenario.appendEvery/2+w.micros(w.scenario.appendEvery), func() {
		w.appendOps(1 + w.intN(4)*w.intN(2))
		w.clients()
	})
}

func (w *world) appendOps(n int) (last int64) {
	var active []*process
	for _, m := range w.machines {
		if p := m.process; p != nil && p.app.active() && p.app.image.level > 0 && w.now >= p.pausedTo {
			active = append(active, p)
		}
	}
	if len(active) == 0 {
		return 0
	}
	var ops []int64
	for range n {
		w.ops++
		ops = append(ops, w.ops)
	}
	pick(w, active).app.append(ops)
	return w.ops
}

func (w *world) acknowledged(p *process, op int64) {
	offset, ok := w.check.ops[op]
	if !ok || offset >= w.check.committedEnd() {
		w.fail("%s acknowledges append %d, which is not committed", p, op)
	}
	w.did.acked++
	w.check.acked = append(w.check.acked, ack{op, offset})
}

// heal ends the faults. From then on there must be progress.
func (w *world) heal() {
	w.logf("the faults end")
	w.faulting = false
	w.healed = w.now
	w.network.heal()
	w.slowDisks = false
	for _, m := range w.machines {
		m.disk.FailAt(0, nil)
		m.hangs = 0
		if m.process == nil {
			w.after(w.micros(second), m.start)
		}
	}
	w.opsBefore = w.ops
	w.watch()
}

// patience is how long a healed cluster may take: some elections, each with its fetch timeout.
const patience = 60 * second

// calm is how long all must be well, in one epoch: longer than the timers that could still upset it.
const calm = 2500 * millisecond

// watch looks whether all is well again.
func (w *world) watch() {
	leader, missing := w.missing()
	switch {
	case missing != "":
		w.wellSince = 0
	case w.wellSince == 0 || w.wellEpoch != leader.status.Epoch:
		w.wellSince, w.wellEpoch = w.now, leader.status.Epoch
	case w.now > w.wellSince+calm:
		w.finished = true
		return
	}
	if w.now > w.healed+patience {
		w.fail("no calm %d s after the faults: %s %s", patience/second, missing, w.overview())
	}
	w.after(100*millisecond, w.watch)
}

// missing says what keeps the cluster from being well, "" if nothing does, and who leads.
func (w *world) missing() (leader *process, missing string) {
	for _, m := range w.machines {
		if m.process == nil {
			return nil, fmt.Sprintf("%s does not run", m)
		}
	}
	leader = w.leader()
	if leader == nil {
		return nil, "there is no leader"
	}
	i := sort.Search(len(w.check.acked), func(i int) bool { return w.check.acked[i].op > w.opsBefore })
	if i == len(w.check.acked) {
		return nil, "no append is acknowledged"
	}
	offset := w.check.acked[i].offset
	for _, m := range w.machines {
		p := m.process
		switch {
		case p.status.Epoch != leader.status.Epoch || p.status.LeaderID != leader.machine.id:
			return nil, fmt.Sprintf("%s does not follow %s", p, leader)
		case p.app.next <= offset:
			return nil, fmt.Sprintf("%s has not applied offset %d", p, offset)
		case w.level >= clusterIDLevel && m.clusterID == "":
			return nil, fmt.Sprintf("%s has not learned the cluster id", p)
		case m.autoJoin && leader.status.KRaftVersion > 0 && !p.status.IsVoter:
			return nil, fmt.Sprintf("%s has not joined", p)
		}
	}
	return leader, ""
}

// overview is a line on each node.
func (w *world) overview() string {
	var b strings.Builder
	for _, m := range w.machines {
		if p := m.process; p != nil {
			s := p.status
			fmt.Fprintf(&b, "\n  %v %v epoch %d leader %d log %d..%d synced %d hw %d applied %d version %d voters %v", m.directory.key, s.Role,
				s.Epoch, s.LeaderID, s.LogStart, s.LogEnd, s.SyncedEnd, s.HighWatermark, p.app.next, s.KRaftVersion, keys(s.Voters))
		} else {
			fmt.Fprintf(&b, "\n  %v is down", m.directory.key)
		}
	}
	return b.String()
}

// checkEnd makes the costly checks.
func (w *world) checkEnd() {
	c := w.check
	for _, a := range c.acked {
		if offset, ok := c.ops[a.op]; !ok || offset != a.offset {
			w.fail("append %d was acknowledged at offset %d and is lost", a.op, a.offset)
		}
	}
	for _, m := range w.machines {
		p := m.process
		for _, c := range p.serving {
			if w.now > c.came+10*second {
				w.fail("%s has not answered a %T for %d s", p, c.request, (w.now-c.came)/second)
			}
		}
		for _, b := range p.directory.batches {
			if have, ok := chainAt(c.committed, b.end()); ok && have != b.chain {
				w.fail("%s has another batch at offset %d than is committed", p, b.base)
			}
		}
		log, recovered, err := raftlog.Open(m.disk.Kill(), logDir, w.logConfig)
		if err != nil {
			w.fail("the log of %s, killed now, cannot be opened: %v", p, err)
		}
		batches, err := readLog(log, recovered)
		if err != nil {
			w.fail("the log of %s, killed now, cannot be read: %v", p, err)
		}
		for _, in := range batches {
			b := batchAt(p.directory.batches, in.LastOffset+1)
			if before, ok := p.directory.chainAt(in.BaseOffset); b == nil && in.LastOffset >= p.directory.start || ok && makeBatch(before, in).chain != b.chain {
				w.fail("%s has another batch at offset %d on its disk than was appended", p, in.BaseOffset)
			}
		}
	}
	w.checkPowerLoss()
}

// checkPowerLoss takes the power from all machines: what is committed is on the disks of a majority.
func (w *world) checkPowerLoss() {
	c := w.check
	voters := c.voters
	if voters == nil {
		voters = w.initialVoters
	}
	have := 0
	for _, v := range voters {
		d := c.directoryOf(v.Key)
		if d == nil || d.dead {
			continue
		}
		log, recovered, err := raftlog.Open(d.machine.disk.Restart(crashdisk.Lost), logDir, w.logConfig)
		if err != nil {
			w.fail("the log of %v, after a loss of power now, cannot be opened: %v", d, err)
		}
		batches, err := readLog(log, recovered)
		if err != nil {
			w.fail("the log of %v, after a loss of power now, cannot be read: %v", d, err)
		}
		if c.allIn(recovered.LogStart, batches) {
			have++
		}
	}
	if have <= len(voters)/2 {
		w.fail("after a loss of power now, %d of %d voters would have what is committed below offset %d", have, len(voters), c.committedEnd())
	}
}
