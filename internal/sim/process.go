package sim

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"syscall"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
)

// process is a running node: the core with its driver, and the layer above.
type process struct {
	machine   *machine
	w         *world
	directory *directory // of the machine, when the process started
	driver    driver
	app       app
	dead      bool
	pausedTo  micros // nothing happens in it until then
	alarmAt   micros // -1: none is set

	calls         []*call // sent
	serving       map[raft.RequestID]*call
	served        raft.RequestID
	highWatermark raft.Offset
	status        raft.Status // after the last step
}

func (p *process) String() string { return fmt.Sprintf("node %d", p.machine.id) }

// run does something in the process: now, or when it is no longer paused, unless it has ended.
func (p *process) run(do func()) {
	if p.dead {
		return
	}
	if p.w.now < p.pausedTo {
		p.w.at(p.pausedTo, func() { p.run(do) })
		return
	}
	do()
}

func (p *process) after(d micros, do func()) { p.w.after(d, func() { p.run(do) }) }

// every repeats something for as long as the process lives; not at all if the interval is 0.
func (p *process) every(interval micros, do func()) {
	if interval == 0 {
		return
	}
	p.after(interval, func() {
		do()
		p.every(interval, do)
	})
}

func (p *process) now() raft.Millis  { return raft.Millis((p.w.now + p.machine.clock) / millisecond) }
func (p *process) wallMillis() int64 { return p.machine.wallMillis() }

// alarm sets the time of the next tick. An earlier alarm that is set already looks again when it comes.
func (p *process) alarm(at raft.Millis) {
	t := max(micros(at)*millisecond-p.machine.clock, p.w.now)
	if p.alarmAt >= 0 && p.alarmAt <= t {
		return
	}
	p.alarmAt = t
	p.w.at(t, func() {
		p.run(func() {
			if p.alarmAt != t {
				return
			}
			p.alarmAt = -1
			at, ok := p.driver.core.Deadline()
			switch {
			case !ok:
			case at <= p.now():
				p.driver.input(raft.Tick{})
			default:
				p.alarm(at)
			}
		})
	})
}

// startSync lets the fsync take its time. The log's Sync is one call, so that the bytes get to the disk either when it
// begins or when it ends: appends that come meanwhile are covered, or not.
func (p *process) startSync() {
	duration := max(p.w.syncTime(), p.machine.hangs)
	p.machine.hangs = 0
	early := p.w.intN(2) == 0
	var result raft.Synced
	var err error
	sync := func() {
		if result, err = p.driver.log.Sync(); err == nil && result.EndOffset > 0 {
			p.directory.durable = max(p.directory.durable, result.EndOffset)
		}
	}
	if early {
		sync()
	}
	p.after(duration, func() {
		if !early {
			sync()
		}
		p.driver.synced(result, err)
	})
}

// startInstall lets the installation of a snapshot take its time, in the same way.
func (p *process) startInstall(id raft.SnapshotID) {
	early := p.w.intN(2) == 0
	var s raft.Snapshot
	var err error
	install := func() {
		if s, err = p.driver.log.InstallSnapshot(id); err != nil {
			p.w.did.rejected++
			return
		}
		in, err := p.app.read(id)
		if err != nil {
			p.w.fail("%s cannot read the snapshot that it has installed: %v", p, err)
		}
		p.w.check.snapshot(p, id, in)
	}
	if early {
		install()
	}
	p.after(p.w.syncTime(), func() {
		if !early {
			install()
		}
		p.driver.installed(id, s, err)
	})
}

func (p *process) send(s raft.Send) {
	p.w.check.sends(p, s.Request)
	switch s.Request.(type) {
	case *raft.AddVoterRequest, *raft.RemoveVoterRequest:
		p.w.lastChange = p.w.now
	}
	if vote, ok := s.Request.(*raft.VoteRequest); ok && vote.PreVote {
		// Only where the voters do not change: releases before 4.0 are no peers of a dynamic quorum, and what a removed
		// node may do there without pre-votes either way costs somebody a leader (voteFailed in package raft).
		if m := p.w.listenerAt(s.To.Endpoint); m != nil && m.old && p.driver.core.Status().KRaftVersion == 0 {
			p.after(0, func() { p.driver.input(raft.SendFailed{ID: s.ID, Reason: raft.Unsupported}) })
			return
		}
	}
	if len(p.calls) > 100 {
		p.calls = open(p.calls)
	}
	p.w.network.send(&call{
		id:      s.ID,
		from:    p,
		request: s.Request,
		timeout: micros(s.TimeoutMillis) * millisecond,
		done:    func(a answer) { p.driver.input(decode(s.ID, a)) },
	}, s.To.Endpoint)
}

// open returns the calls that have not ended.
func open(calls []*call) []*call {
	var left []*call
	for _, c := range calls {
		if !c.ended {
			left = append(left, c)
		}
	}
	return left
}

// serve takes a request.
func (p *process) serve(c *call) {
	if _, ok := c.request.(*raft.ApiVersionsRequest); ok {
		// docs/design.md 5: a node without a cluster id is not to become a voter.
		known := p.machine.clusterID != "" || p.status.IsVoter
		p.w.network.answer(c, answer{response: &raft.ApiVersionsResponse{HasKRaftVersion: known, MaxKRaftVersion: 1}})
		return
	}
	p.receive(c)
}

func (p *process) receive(c *call) {
	p.served++
	p.serving[p.served] = c
	c.came = p.w.now
	p.driver.input(raft.Received{ID: p.served, Request: c.request})
}

func (p *process) reply(id raft.RequestID, a answer) {
	c := p.serving[id]
	if c == nil {
		p.w.fail("%s answers request %d a second time", p, id)
	}
	delete(p.serving, id)
	p.w.check.replies(p, c.request, a.response)
	if c.server == nil { // of the layer above
		c.done(a)
		return
	}
	if r, ok := a.response.(*raft.FetchSnapshotResponse); ok && p.machine.old && r.Partition != raft.NoError {
		// As Kafka 4.4.0 does.
		a.response = &raft.FetchSnapshotResponse{Code: raft.UnknownServerError, LeaderView: raft.LeaderView{LeaderID: raft.None}}
	}
	p.w.network.answer(c, a)
}

// above tells the layer above.
func (p *process) above(e raft.Effect) error {
	switch e := e.(type) {
	case raft.LeaderChanged:
		p.w.check.leads(p, e.Epoch, e.LeaderID)
		p.app.leaderChanged(e)
	case raft.Committed:
		s := p.driver.core.Status()
		leads := s.Role == raft.Leader || p.status.Role == raft.Leader
		p.w.check.highWatermark(p, e.HighWatermark, leads, s.Epoch, s.Voters)
		return p.app.committed(e.HighWatermark)
	case raft.LoadSnapshot:
		return p.app.load(e.ID)
	}
	return nil
}

func (p *process) stopped(err error) {
	p.w.logf("%s stops: %v", p, err)
	switch {
	case errors.Is(err, errShutdown):
		if err := p.driver.log.Close(); err != nil {
			p.stopped(err)
			return
		}
		p.machine.crash(false)
		p.w.after(p.w.micros(2*second), p.machine.start)
	case errors.Is(err, crashdisk.ErrCrashed):
		p.machine.crash(p.w.intN(4) > 0)
		p.w.after(p.w.micros(5*second), p.machine.start)
	case errors.Is(err, syscall.EIO):
		p.w.did.diskErrors++
		p.machine.crash(p.w.intN(2) == 0)
		p.w.after(p.w.micros(5*second), p.machine.start)
	default:
		p.w.fail("%s stops: %v", p, err)
	}
}

func (p *process) before(in raft.Input) raft.Input {
	if t := p.w.tamper.input; t != nil {
		in = t(p, in)
	}
	p.w.trace.number(uint64(p.machine.id))
	p.w.trace.add(in)
	p.w.did.steps++
	if p.w.verbose {
		p.w.logf("%s <- %s", p, show(in))
	}
	return in
}

func (p *process) carrying(e raft.Effect) raft.Effect {
	if t := p.w.tamper.effect; t != nil {
		e = t(p, e)
	}
	p.w.trace.add(e)
	if p.w.verbose {
		p.w.logf("%s    %s", p, show(e))
	}
	switch e := e.(type) {
	case raft.AppendLog:
		e.Batches = slices.Clone(e.Batches)
		for i, b := range e.Batches {
			data, err := b.Encode(p.wallMillis())
			if err != nil {
				p.w.fail("%s appends what cannot be encoded: %v", p, err)
			}
			e.Batches[i].Bytes = data
		}
		p.w.check.appended(p, e.Batches, p.driver.core.Status().Role == raft.Leader)
		if end := p.directory.end(); e.EndOffset != end {
			p.w.fail("%s says that its log ends at %d after an append, and it ends at %d", p, e.EndOffset, end)
		}
		return e
	case raft.TruncateLog:
		p.w.check.truncated(p, e.EndOffset, p.highWatermark)
		p.directory.unsure = e
	case raft.ResetLog, raft.WriteQuorumState:
		p.directory.unsure = e
	case raft.WriteEpochStarts:
		p.w.check.epochStarts(p, e.Entries)
	}
	return e
}

func (p *process) carried(e raft.Effect) {
	d := p.directory
	switch e := e.(type) {
	case raft.WriteQuorumState, raft.WriteEpochStarts, raft.TruncateLog, raft.ResetLog:
		p.mayEnd()
	case raft.Reply:
		if r, ok := e.Response.(*raft.VoteResponse); ok && r.VoteGranted {
			p.mayEnd()
		}
	case raft.Send:
		if r, ok := e.Request.(*raft.VoteRequest); ok && !r.PreVote && p.driver.syncing {
			if p.w.faulty(4 * p.w.scenario.barrierFaults) {
				p.end(0, true) // what it stands for is not on its disk yet
			}
		} else if ok && !r.PreVote {
			p.mayEnd()
		}
	}
	switch e := e.(type) {
	case raft.TruncateLog:
		p.w.did.truncations++
		d.cut(e.EndOffset)
	case raft.ResetLog:
		p.w.did.resets++
		p.w.check.beginAt(d, e.ID)
	case raft.WriteQuorumState:
		d.quorum = e.State
	case raft.WriteEpochStarts:
		d.durable = d.end() // the log is synced before its epochs are written
		return
	case raft.DeletePrefix:
		p.w.did.prefixes++
		return
	default:
		return
	}
	d.unsure = nil
}

// mayEnd lets the process crash at a delicate place, soon after the step has been carried out.
func (p *process) mayEnd() {
	if p.w.faulty(p.w.scenario.barrierFaults) {
		p.end(pick(p.w, []micros{0, 3 * p.w.network.delay}), p.w.chance(0.5))
	}
}

// end crashes the process. It comes back while the others still talk of it.
func (p *process) end(after micros, power bool) {
	p.after(after, func() {
		p.machine.crash(power)
		p.w.after(p.w.micros(pick(p.w, []micros{20 * millisecond, 300 * millisecond})), p.machine.start)
	})
}

func (p *process) stepped() {
	p.status = p.driver.core.Status()
	p.w.check.stepped(p, p.status)
}

// show prints an input or effect for people.
func show(v any) string {
	var message any
	switch e := v.(type) {
	case raft.Received:
		message = e.Request
	case raft.Answered:
		message = e.Response
	case raft.Send:
		message = e.Request
	case raft.Reply:
		message = e.Response
	}
	text := fmt.Sprintf("%T%+v", v, v)
	if message != nil {
		text += fmt.Sprintf(" %T%+v", message, message)
	}
	return manyBytes.ReplaceAllString(text, "Bytes:...")
}

var manyBytes = regexp.MustCompile(`Bytes:\[[0-9 ]+\]`)

// alarmAnew sets the alarm again after a jump of the clock.
func (p *process) alarmAnew() {
	p.alarmAt = -1
	if at, ok := p.driver.core.Deadline(); ok {
		p.alarm(at)
	}
}
