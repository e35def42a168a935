package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
	"kstorage/internal/status"
	"kstorage/internal/wire"
)

// quorum is the raft loop: it runs the consensus core, which says what to do, and does it.
//
//	inputs   -> mailbox -> core.Step -> effects   one goroutine, which waits for nothing but its barriers of the disk
//	log.Sync                                      a second one, one call at a time
//	log.InstallSnapshot                           one for each
//
// The rules, which the simulation follows too:
//
//   - The loop takes all inputs that wait, in their order. The effects of each Step are carried out front to back
//     before the next, as the list is valid until then. What stands behind a barrier comes after it is durable.
//   - Then, if something was appended and no Sync runs, one begins: all that came in meanwhile shares its fsync.
//     The core goes on, so followers fetch while the disk writes. What Sync returns is an input.
//   - A Reply that names bytes gets them when it is carried out, so it finds what was appended before it.
//   - What the layer above must know goes to above in the order of the effects, Notices too. It must not block.
//   - The core is woken at its deadline, and asked for retention each minute.
//
// An error of the disk, a Fatal and ShutdownDone end it: nothing is carried out any more.
type quorum struct {
	core   *raft.Core
	log    *raftlog.Log
	peers  sender
	above  func(raft.Effect)
	clock  clock
	logger *slog.Logger
	meter  *status.Meter // nil: nobody looks

	box     *mailbox[event]
	syncs   chan struct{}  // starts a Sync
	helpers sync.WaitGroup // the goroutines beside the loop

	// Of the loop alone.
	appended bool // something that no Sync has covered yet
	syncing  bool
	timer    *time.Timer
	alarmAt  raft.Millis // when timer fires; never: it has fired
	cleanAt  raft.Millis

	heard   atomic.Int64 // when the leader answered a Fetch for the last time, in raft.Millis; 0: never
	appends atomic.Int64 // AppendLogs so far

	ended   chan struct{} // closed when the loop is over
	stopped error         // why calls end then; written before

	mu      sync.Mutex
	lastID  raft.RequestID
	waiting map[raft.RequestID]chan answer // the calls without an answer
}

// sender sends the requests of the core; *wire.Peers is one. The answer or the failure comes back as an input.
type sender interface {
	Send(raft.Send) // never blocks
	Close()         // gives up what is under way
}

// clock has the two times of a node.
type clock struct {
	start time.Time        // of the process, with its monotonic reading
	wall  func() time.Time // what the time of day is
}

func (c clock) now() raft.Millis { return raft.Millis(time.Since(c.start) / time.Millisecond) }
func (c clock) until(at raft.Millis) time.Duration {
	return time.Duration(at)*time.Millisecond - time.Since(c.start)
}
func (c clock) wallMillis() int64 { return c.wall().UnixMilli() }

// event is what the loop does next: exactly one of the fields is set.
type event struct {
	input raft.Input
	do    func() error // an error ends the loop
}

// answer is the response to a call, with the bytes that it names.
type answer struct {
	response raft.Response
	bytes    []byte
}

// errStopped is in the error of each call that the end of the loop has left without an answer.
var errStopped = errors.New("the quorum has stopped")

// errShutdown ends the loop as it was wished.
var errShutdown = errors.New("shut down")

// fatalError says why the core has stopped the node.
type fatalError struct{ Reason string }

func (e *fatalError) Error() string { return e.Reason }

const (
	// never is later than all times.
	never raft.Millis = math.MaxInt64

	// cleanIntervalMillis is how often old snapshots are looked for, as in Kafka (KIP-630).
	cleanIntervalMillis raft.Millis = 60_000
)

// newQuorum returns a quorum that does not run yet, on an open log and what was recovered of it. It closes peers
// at its end, but not the log.
func newQuorum(cfg raft.Config, log *raftlog.Log, rec raft.Recovered, peers sender, above func(raft.Effect), c clock, logger *slog.Logger) *quorum {
	return &quorum{
		core:    raft.New(cfg, rec),
		log:     log,
		peers:   peers,
		above:   above,
		clock:   c,
		logger:  logger,
		box:     newMailbox[event](),
		syncs:   make(chan struct{}, 1),
		timer:   time.NewTimer(0),
		cleanAt: c.now() + cleanIntervalMillis,
		ended:   make(chan struct{}),
		waiting: map[raft.RequestID]chan answer{},
	}
}

// run runs the loop until a shutdown is done, which is no error. Errors: *fatalError, *raftlog.CorruptError,
// those of the disk, which name the file, and what fail was called with. When it returns, all calls have got an
// answer or an error, nothing is sent or written any more, and no goroutine is left.
func (q *quorum) run() error {
	q.helpers.Go(q.syncLoop)
	reason := q.loop()
	q.timer.Stop()
	q.box.close()
	q.stopped = fmt.Errorf("%w: %w", errStopped, reason)
	close(q.ended)
	close(q.syncs)
	q.peers.Close()
	q.helpers.Wait()
	if errors.Is(reason, errShutdown) {
		return nil
	}
	return reason
}

func (q *quorum) loop() error {
	if err := q.step(raft.Tick{}); err != nil {
		return err
	}
	var events []event
	for {
		q.startSync()
		q.setAlarm()
		select {
		case <-q.box.ready:
		case <-q.timer.C:
			q.alarmAt = never
		}
		events = q.box.take(events)
		if err := q.turn(events); err != nil {
			return err
		}
	}
}

// turn does what is due: the events, then what the clock asks for.
func (q *quorum) turn(events []event) error {
	for _, e := range events {
		var err error
		if e.input != nil {
			err = q.step(e.input)
		} else {
			err = e.do()
		}
		if err != nil {
			return err
		}
	}
	now := q.clock.now()
	if now >= q.cleanAt {
		q.cleanAt = now + cleanIntervalMillis
		if err := q.step(q.clean()); err != nil {
			return err
		}
	}
	if at, ok := q.core.Deadline(); ok && at <= now {
		return q.step(raft.Tick{})
	}
	return nil
}

// setAlarm lets the loop wake up when something is due. An alarm that is set for earlier stays, and the loop
// looks again when it comes: a deadline that each input moves on costs nothing.
func (q *quorum) setAlarm() {
	at := q.cleanAt
	if deadline, ok := q.core.Deadline(); ok {
		at = min(at, deadline)
	}
	if at < q.alarmAt {
		q.alarmAt = at
		q.timer.Reset(q.clock.until(at))
	}
}

func (q *quorum) clean() raft.Input {
	return raft.Clean{WallMillis: q.clock.wallMillis(), LogSizeBytes: q.log.SizeBytes()}
}

func (q *quorum) step(in raft.Input) error {
	if a, ok := in.(raft.Answered); ok {
		if r, ok := a.Response.(*raft.FetchResponse); ok && r.Code == raft.NoError && r.Partition == raft.NoError {
			q.heard.Store(int64(q.clock.now()))
		}
	}
	effects := q.core.Step(q.clock.now(), in)
	if q.meter != nil {
		q.measure(effects)
	}
	for _, e := range effects {
		if err := q.carryOut(e); err != nil {
			return err
		}
	}
	return nil
}

// measure tells the meter what a step brings.
func (q *quorum) measure(effects []raft.Effect) {
	now := time.Since(q.clock.start)
	q.meter.Role(now, q.core.Role())
	for _, e := range effects {
		switch e := e.(type) {
		case raft.AppendLog:
			q.meter.Appended(now, int64(e.EndOffset-e.Batches[0].BaseOffset), e.EndOffset)
		case raft.Committed:
			q.meter.Committed(now, e.HighWatermark)
		}
	}
}

func (q *quorum) carryOut(e raft.Effect) error {
	switch e := e.(type) {
	case raft.WriteQuorumState:
		return q.log.WriteQuorumState(e.State)
	case raft.WriteEpochStarts:
		return q.log.WriteEpochStarts(e.Entries)
	case raft.AppendLog:
		q.appended = true
		q.appends.Add(1)
		return q.log.Append(e, q.clock.wallMillis())
	case raft.TruncateLog:
		return q.log.Truncate(e.EndOffset)
	case raft.ResetLog:
		return q.log.Reset(e.ID)
	case raft.DeletePrefix:
		if err := q.log.DeletePrefix(e.LogStart); err != nil {
			return err
		}
		q.input(q.clean())
	case raft.WriteSnapshotChunk:
		return q.log.WriteSnapshotChunk(e)
	case raft.InstallSnapshot:
		q.helpers.Go(func() { q.install(e.ID) })
	case raft.DropSnapshotChunks:
		return q.log.DropSnapshotChunks()
	case raft.Send:
		q.peers.Send(e)
	case raft.Reply:
		return q.reply(e)
	case raft.Notice:
		if e.Code == raft.NoError {
			q.logger.Info(e.Text)
		} else {
			q.logger.Warn(e.Text, "error", wire.ErrorName(int16(e.Code)))
		}
		q.above(e)
	case raft.ShutdownDone:
		return errShutdown
	case raft.Fatal:
		return &fatalError{e.Reason}
	default:
		q.above(e)
	}
	return nil
}

// startSync lets a Sync begin if there is something to sync and none runs.
func (q *quorum) startSync() {
	if q.appended && !q.syncing {
		q.appended, q.syncing = false, true
		q.syncs <- struct{}{}
	}
}

// gatherYields is how often those who can run may do so before a group is written.
const gatherYields = 10

func (q *quorum) syncLoop() {
	var before, group int64 // appends in front of the last group, and in it
	for range q.syncs {
		// Who was answered with the last group comes back at once if he has more to write, and would wait for two fsyncs, the
		// one that begins now and his own. One client alone is not kept waiting.
		if group > 1 {
			for range gatherYields {
				runtime.Gosched()
			}
		}
		appends := q.appends.Load()
		before, group = appends, appends-before
		s, err := q.log.Sync()
		q.box.put(event{do: func() error {
			q.syncing = false
			if err != nil || s.EndOffset == 0 {
				return err
			}
			return q.step(s)
		}})
	}
}

func (q *quorum) install(id raft.SnapshotID) {
	s, err := q.log.InstallSnapshot(id)
	if corrupt, ok := errors.AsType[*raftlog.CorruptError](err); ok {
		q.logger.Warn("the snapshot that was fetched is damaged", "error", corrupt)
		q.input(raft.SnapshotRejected{ID: id})
	} else if err != nil {
		q.fail(err)
	} else {
		q.input(raft.SnapshotInstalled{Snapshot: s})
	}
}

// reply gives a call its answer, with the bytes that it names. They are the log's own.
func (q *quorum) reply(e raft.Reply) error {
	if !q.waits(e.ID) {
		return nil
	}
	a := answer{response: e.Response}
	var err error
	switch r := e.Response.(type) {
	case *raft.FetchResponse:
		a.bytes, err = q.log.Read(r.Read)
	case *raft.FetchSnapshotResponse:
		if r.Read > 0 {
			a.bytes, err = q.log.ReadSnapshot(r.SnapshotID, r.Position, r.Read)
		}
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if answers := q.waiting[e.ID]; answers != nil {
		answers <- a
		delete(q.waiting, e.ID)
	}
	return nil
}

func (q *quorum) waits(id raft.RequestID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[id] != nil
}

// input hands an input to the core. Like all that follows it is for any goroutine, and never blocks.
func (q *quorum) input(in raft.Input) { q.box.put(event{input: in}) }

// shutdown lets the node hand over; then run returns nil.
func (q *quorum) shutdown() { q.input(raft.Shutdown{}) }

// fail ends run with a reason, at once and without handing over.
func (q *quorum) fail(reason error) { q.box.put(event{do: func() error { return reason }}) }

// call lets the core answer a request that came in through a listener; "" is the node itself. It waits for the
// answer and returns it with the records of a Fetch or the piece of a FetchSnapshot, which must not be changed. When
// ctx ends, the answer is dropped, but the request may take effect. Errors: that of ctx, and one with errStopped and
// the reason in it.
func (q *quorum) call(ctx context.Context, listener string, r raft.Request) (raft.Response, []byte, error) {
	answers := make(chan answer, 1)
	q.mu.Lock()
	q.lastID++
	id := q.lastID
	q.waiting[id] = answers
	q.mu.Unlock()
	q.input(raft.Received{ID: id, Listener: listener, Request: r})
	var err error
	select {
	case a := <-answers:
		return a.response, a.bytes, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-q.ended:
		err = q.stopped
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waiting, id)
	select {
	case a := <-answers: // came at the same time, and an answer is worth more than an error
		return a.response, a.bytes, nil
	default:
		return nil, nil, err
	}
}

// status returns a view of the core. Errors as those of call.
func (q *quorum) status(ctx context.Context) (raft.Status, error) {
	return ask(ctx, q, func(c *raft.Core) (raft.Status, error) { return c.Status(), nil })
}

// snapshotHeader returns what the header of a snapshot with this id has to hold. Errors: those of call, and why
// there may be none.
func (q *quorum) snapshotHeader(ctx context.Context, id raft.SnapshotID) (raft.Snapshot, error) {
	return ask(ctx, q, func(c *raft.Core) (raft.Snapshot, error) { return c.SnapshotHeader(id) })
}

// ask looks into the core between two of its steps.
func ask[T any](ctx context.Context, q *quorum, look func(*raft.Core) (T, error)) (none T, err error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	q.box.put(event{do: func() error {
		value, err := look(q.core)
		results <- result{value, err}
		return nil
	}})
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-q.ended:
		return none, q.stopped
	}
}
