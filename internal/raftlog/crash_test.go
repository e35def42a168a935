package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
)

// model is what a log should hold: the simple twin.
type model struct {
	start     raft.Offset
	batches   []raft.Batch // from the first one that may be there, pending ones too
	synced    raft.Offset  // up to here it must survive
	quorum    raft.QuorumState
	epochs    []raft.EpochStart // in the file
	snapshots []raft.SnapshotID
}

func (m *model) end() raft.Offset {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].LastOffset + 1
	}
	return m.start
}

func (m *model) newest() raft.SnapshotID {
	if n := len(m.snapshots); n > 0 {
		return m.snapshots[n-1]
	}
	return raft.SnapshotID{}
}

// cutTo drops the batches from end on.
func (m *model) cutTo(end raft.Offset) {
	m.batches = slices.DeleteFunc(slices.Clone(m.batches), func(b raft.Batch) bool { return b.BaseOffset >= end })
	m.synced = min(m.synced, end)
}

// between are the bytes of whole batches.
func (m *model) between(from, to raft.Offset) []byte {
	var all []byte
	for _, b := range m.batches {
		if b.BaseOffset >= from && b.LastOffset < to {
			all = append(all, b.Bytes...)
		}
	}
	return all
}

// boundary tells whether a batch begins or ends there.
func (m *model) boundary(o raft.Offset) bool {
	return o == m.end() || slices.ContainsFunc(m.batches, func(b raft.Batch) bool { return b.BaseOffset == o })
}

func (m *model) epochAt(o raft.Offset) raft.Epoch {
	for _, b := range m.batches {
		if b.BaseOffset <= o && o <= b.LastOffset {
			return b.Epoch
		}
	}
	return -1
}

// life is a log on a disk and its model, driven by a random sequence of what a core may ask for.
type life struct {
	t      tester
	disk   *crashdisk.Disk
	log    *Log
	random interface{ IntN(n int) int }
	config Config
	large  int // size of the largest record
	model
	after model // what it will be when the operation at work is done
}

// newLife opens a log on an empty disk.
func newLife(t tester, random interface{ IntN(n int) int }) *life {
	l := &life{t: t, disk: crashdisk.New(), random: random, config: small, large: 300}
	if random.IntN(4) == 3 { // several entries in the index of a segment
		l.config.SegmentBytes, l.large = 30000, 3000
	}
	l.quorum = raft.NoQuorumState()
	l.recover(l.disk, nil)
	return l
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// do runs an operation that changes the model as change says.
func (l *life) do(change func(m *model), run func() error) error {
	l.after = l.model
	change(&l.after)
	if err := run(); err != nil {
		return err
	}
	l.model = l.after
	return nil
}

func (l *life) writeEpochs(epochs []raft.EpochStart) error {
	end := l.end()
	return l.do(func(m *model) { m.epochs, m.synced = epochs, end }, func() error { return l.log.WriteEpochStarts(epochs) })
}

// step is one thing that a core does.
func (l *life) step() error {
	epoch := max(l.quorum.Epoch, 1)
	floor := max(l.start, l.newest().EndOffset) // nothing below is ever dropped: it is committed
	switch l.random.IntN(12) {
	case 0, 1, 2, 3: // append
		if n := len(l.epochs); n == 0 || l.epochs[n-1].Epoch != epoch {
			entries := slices.DeleteFunc(slices.Clone(l.epochs), func(e raft.EpochStart) bool { return e.Start >= l.end() })
			if err := l.writeEpochs(append(entries, raft.EpochStart{Epoch: epoch, Start: l.end()})); err != nil {
				return err
			}
		}
		var batches []raft.Batch
		at := l.end()
		for range 1 + l.random.IntN(3) {
			b := batch(at, epoch, 1+l.random.IntN(3), 1+l.random.IntN(l.large))
			batches, at = append(batches, b), b.LastOffset+1
		}
		return l.do(func(m *model) { m.batches = append(slices.Clip(m.batches), batches...) }, func() error { return l.log.Append(appendOf(batches...), 0) })
	case 4, 5: // sync
		end := l.end()
		return l.do(func(m *model) { m.synced = end }, func() error {
			s, err := l.log.Sync()
			if err == nil && s.EndOffset != 0 && s.EndOffset != end {
				l.t.Errorf("Sync says %d, want %d", s.EndOffset, end)
			}
			return err
		})
	case 6: // a new epoch
		state := raft.QuorumState{Version: 1, Epoch: epoch + 1, LeaderID: raft.NodeID(l.random.IntN(3) - 1), Voted: raft.ReplicaKey{NodeID: raft.None}}
		return l.do(func(m *model) { m.quorum = state }, func() error { return l.log.WriteQuorumState(state) })
	case 7: // truncate
		end := floor + raft.Offset(l.random.IntN(int(l.end()-floor)+1))
		if !l.boundary(end) {
			return nil
		}
		if err := l.writeEpochs(slices.DeleteFunc(slices.Clone(l.epochs), func(e raft.EpochStart) bool { return e.Start >= end })); err != nil {
			return err
		}
		return l.do(func(m *model) { m.cutTo(end); m.synced = end }, func() error { return l.log.Truncate(end) })
	case 8: // a snapshot of our own
		if l.end() == floor {
			return nil
		}
		id := raft.SnapshotID{EndOffset: floor + 1 + raft.Offset(l.random.IntN(int(l.end()-floor)))}
		id.Epoch = l.epochAt(id.EndOffset - 1)
		return l.do(func(m *model) { m.snapshots = append(slices.Clip(m.snapshots), id) }, func() error {
			w, err := l.log.CreateSnapshot(id)
			if err != nil {
				return err
			}
			if _, err := w.Write(snapshotBytes(id.Epoch, 1)); err != nil {
				return err
			}
			if l.random.IntN(4) == 0 {
				l.after = l.model
				return w.Abort()
			}
			_, err = w.Commit()
			return err
		})
	case 9: // delete up to a snapshot
		if len(l.snapshots) == 0 {
			return nil
		}
		start := l.snapshots[l.random.IntN(len(l.snapshots))].EndOffset
		if start < l.start || start > l.end() {
			return nil
		}
		return l.do(func(m *model) {
			m.start = start
			m.snapshots = slices.DeleteFunc(slices.Clone(m.snapshots), func(s raft.SnapshotID) bool { return s.EndOffset < start })
		}, func() error { return l.log.DeletePrefix(start) })
	case 10: // a snapshot of the leader, which is ahead of the log or of an epoch that the log does not have
		id := raft.SnapshotID{EndOffset: floor + 1 + raft.Offset(l.random.IntN(int(l.end()-floor)+5)), Epoch: epoch + 1}
		data := snapshotBytes(id.Epoch, 2)
		state := raft.QuorumState{Version: 1, Epoch: epoch + 1, LeaderID: 7, Voted: raft.ReplicaKey{NodeID: raft.None}}
		if err := l.do(func(m *model) { m.quorum = state }, func() error { return l.log.WriteQuorumState(state) }); err != nil {
			return err
		}
		for position := 0; position < len(data); position += 100 {
			chunk := raft.WriteSnapshotChunk{ID: id, Position: int64(position), Bytes: data[position:min(position+100, len(data))]}
			if err := l.do(func(*model) {}, func() error { return l.log.WriteSnapshotChunk(chunk) }); err != nil {
				return err
			}
			if l.random.IntN(20) == 0 {
				return l.do(func(*model) {}, l.log.DropSnapshotChunks)
			}
		}
		err := l.do(func(m *model) { m.snapshots = append(slices.Clip(m.snapshots), id) }, func() error {
			_, err := l.log.InstallSnapshot(id)
			return err
		})
		if err == nil {
			err = l.writeEpochs(nil)
		}
		if err == nil {
			err = l.do(func(m *model) {
				m.start, m.synced, m.batches, m.snapshots = id.EndOffset, id.EndOffset, nil, []raft.SnapshotID{id}
			}, func() error { return l.log.Reset(id) })
		}
		return err
	default:
		l.checkReads()
		return nil
	}
}

func (l *life) checkReads() {
	for range 3 {
		if l.start == l.end() {
			return
		}
		r := raft.LogRange{From: l.start + raft.Offset(l.random.IntN(int(l.end()-l.start))), End: l.end(), MaxBytes: int32(l.random.IntN(10 * l.large))}
		got, err := l.log.Read(r)
		if err != nil {
			l.t.Fatalf("read %+v: %v", r, err)
		}
		batches, err := raft.DecodeBatches(got)
		if err != nil || len(batches) == 0 {
			l.t.Fatalf("read %+v: %d bytes, %v", r, len(got), err)
		}
		from, to := batches[0].BaseOffset, nextOffset(batches)
		if from > r.From || to <= r.From || !bytes.Equal(got, l.between(from, to)) || len(batches) > 1 && len(got) > int(r.MaxBytes) {
			l.t.Fatalf("read %+v: got offsets %d to %d, %d bytes", r, from, to-1, len(got))
		}
	}
}

// recover opens what a crash has left, checks it, and goes on with it.
func (l *life) recover(d *crashdisk.Disk, faults func(*crashdisk.Disk)) (crashed bool) {
	l.t.Helper()
	if faults != nil {
		faults(d)
	}
	log, found, err := Open(d, testDir, l.config)
	l.disk = d
	if errors.Is(err, crashdisk.ErrCrashed) {
		return true
	}
	if err != nil {
		l.t.Fatalf("recovery: %v", err)
	}
	log.recent.limit = []int{0, 500, maxRecentBytes}[l.random.IntN(3)]
	l.check(log, found)
	// Nothing is claimed that is not durable.
	_, again, err := Open(d.Restart(crashdisk.Lost), testDir, l.config)
	if err != nil || !reflect.DeepEqual(again, found) {
		l.t.Fatalf("recovered\n%+v, after a loss of power\n%+v, %v", found, again, err)
	}
	l.log = log
	all := l.longer().batches
	l.model = model{start: found.LogStart, synced: found.LogEnd, quorum: found.QuorumState, epochs: found.EpochStarts}
	for _, b := range all {
		if b.BaseOffset >= found.LogStart && b.LastOffset < found.LogEnd {
			l.batches = append(l.batches, b)
		}
	}
	for _, s := range found.Snapshots {
		l.snapshots = append(l.snapshots, s.ID)
	}
	l.after = l.model
	return false
}

func (l *life) longer() *model {
	if l.after.end() > l.model.end() && len(l.after.batches) > 0 {
		return &l.after
	}
	return &l.model
}

// check compares what was found with what may be there when the operation from model to after was interrupted.
func (l *life) check(log *Log, found raft.Recovered) {
	l.t.Helper()
	fail := func(format string, args ...any) {
		l.t.Helper()
		l.t.Fatalf("%s\nrecovered %+v\nbefore %s\nafter %s\n%q", fmt.Sprintf(format, args...), found, &l.model, &l.after, log.Repaired)
	}
	all := l.longer()
	var newest raft.SnapshotID
	for _, s := range found.Snapshots {
		newest = s.ID
		if !slices.Contains(l.model.snapshots, s.ID) && !slices.Contains(l.after.snapshots, s.ID) {
			fail("snapshot %v is new", s.ID)
		}
		if s.LastContainedLogTime != 6 || len(s.Voters) != 1 {
			fail("snapshot %+v", s)
		}
	}
	for _, id := range l.model.snapshots {
		if slices.Contains(l.after.snapshots, id) && id.EndOffset >= found.LogStart && !slices.ContainsFunc(found.Snapshots, func(s raft.Snapshot) bool { return s.ID == id }) {
			fail("snapshot %v is lost", id)
		}
	}
	least := min(l.model.synced, l.after.end())
	switch {
	case newest.EndOffset > 0 && found.LogStart == newest.EndOffset && found.LogEnd == newest.EndOffset:
		// Anew at the snapshot, or up to it as it was.
		if least > newest.EndOffset && all.epochAt(newest.EndOffset-1) == newest.Epoch {
			fail("the log starts anew, but must have reached %d", least)
		}
	case found.LogEnd < least:
		fail("synced offsets from %d to %d are lost", found.LogEnd, least-1)
	case found.LogEnd < newest.EndOffset:
		fail("the log is behind its snapshot")
	case found.LogEnd > all.end() || !all.boundary(found.LogEnd):
		fail("the log ends where it never did")
	case found.LogStart < newest.EndOffset && all.epochAt(newest.EndOffset-1) != newest.Epoch:
		fail("the log contradicts its snapshot")
	case found.LogStart > max(l.model.start, l.after.start):
		fail("the log starts too late")
	}
	if got, want := readAll(l.t, log, found.LogStart, found.LogEnd), all.between(found.LogStart, found.LogEnd); !bytes.Equal(got, want) {
		fail("%d bytes are in the log, want %d", len(got), len(want))
	}
	if found.LogStart > newest.EndOffset {
		fail("no snapshot has what is in front of the log")
	}
	if q := found.QuorumState; !reflect.DeepEqual(q, l.model.quorum) && !reflect.DeepEqual(q, l.after.quorum) && !(q.LeaderID == raft.None && q.Epoch > l.model.quorum.Epoch) {
		fail("quorum-state %+v", q)
	}
	var want []raft.EpochStart
	for _, b := range all.batches {
		if b.BaseOffset >= found.LogStart && b.BaseOffset < found.LogEnd && (len(want) == 0 || want[len(want)-1].Epoch != b.Epoch) {
			want = append(want, raft.EpochStart{Epoch: b.Epoch, Start: b.BaseOffset})
		}
	}
	if n := len(found.EpochStarts); n == len(want)+1 {
		last := found.EpochStarts[n-1]
		if last.Start != found.LogEnd || !slices.Contains(l.model.epochs, last) && !slices.Contains(l.after.epochs, last) {
			fail("epoch %d begins at %d", last.Epoch, last.Start)
		}
		want = append(want, last)
	} else if n := len(l.model.epochs); n > 0 && len(l.after.epochs) > 0 {
		// A leader's epoch stays, though it has appended nothing.
		last := l.model.epochs[n-1]
		if last == l.after.epochs[len(l.after.epochs)-1] && last.Start == found.LogEnd && (len(want) == 0 || want[len(want)-1].Epoch < last.Epoch) && last.Epoch > newest.Epoch {
			fail("epoch %d is lost", last.Epoch)
		}
	}
	if !slices.Equal(found.EpochStarts, want) {
		fail("epoch starts, want %v", want)
	}
}

func (m *model) String() string {
	var list []string
	for _, b := range m.batches {
		list = append(list, fmt.Sprintf("%d-%d/%d", b.BaseOffset, b.LastOffset, b.Epoch))
	}
	return fmt.Sprintf("{start %d synced %d log %v quorum %+v epochs %v snapshots %v}", m.start, m.synced, list, m.quorum, m.epochs, m.snapshots)
}

// run does n things and returns the error that ended it early.
func (l *life) run(n int) error {
	for range n {
		if err := l.step(); err != nil {
			return err
		}
	}
	return nil
}

// Whatever step a crash comes at, and whatever a disk makes of it, nothing that was synced is lost and nothing appears that
// was not written. The same with a step that fails: then the log is unusable, and what a new process finds is right.
func TestCrashAtEachStep(t *testing.T) {
	const things = 25
	lives := uint64(10)
	if testing.Short() {
		lives = 2
	}
	runs, forgiven := 0, 0
	for seed := range lives {
		born := func() *life { return newLife(t, seeded(seed)) }
		whole := born()
		first := whole.disk.Steps() + 1
		must(t, whole.run(things))
		for step := first; step <= whole.disk.Steps(); step++ {
			extends := false
			for outcome, fault := range []error{crashdisk.ErrCrashed, crashdisk.ErrCrashed, crashdisk.ErrCrashed, crashdisk.ErrCrashed, syscall.EIO, syscall.ENOSPC} {
				runs++
				l := born()
				l.disk.FailAt(step, fault)
				err := l.run(things)
				if outcome == 0 {
					extends = strings.HasPrefix(l.disk.LastStep(), "extend ")
				}
				switch {
				case fault == syscall.ENOSPC && extends: // no room for zeros is no fault
					if err != nil {
						t.Fatalf("seed %d, step %d: %v", seed, step, err)
					}
					forgiven++
				case !errors.Is(err, fault):
					t.Fatalf("seed %d, step %d (%s): %v", seed, step, l.disk.LastStep(), err)
				case fault != crashdisk.ErrCrashed:
					l.checkUnusable(fault)
				}
				found := l.disk.Restart(uint64(outcome))
				if outcome == 3 {
					found = l.disk.Kill()
				}
				l.recover(found, nil)
				must(t, l.run(3))
			}
		}
	}
	if forgiven == 0 {
		t.Error("there was always room for zeros")
	}
	t.Logf("%d runs", runs)
}

func (l *life) checkUnusable(fault error) {
	l.t.Helper()
	_, syncErr := l.log.Sync()
	_, readErr := l.log.Read(raft.LogRange{From: 0, End: 1})
	_, createErr := l.log.CreateSnapshot(raft.SnapshotID{EndOffset: 1})
	_, openErr := l.log.OpenSnapshot(raft.SnapshotID{})
	errs := []error{
		syncErr, readErr, createErr, openErr,
		l.log.Append(appendOf(batch(l.end(), 1, 1, 1)), 0),
		l.log.Truncate(l.start), l.log.Reset(raft.SnapshotID{}), l.log.DeletePrefix(0),
		l.log.WriteQuorumState(l.quorum), l.log.WriteEpochStarts(nil),
		l.log.WriteSnapshotChunk(raft.WriteSnapshotChunk{}), l.log.DropSnapshotChunks(),
	}
	steps := l.disk.Steps()
	for i, err := range errs {
		if !errors.Is(err, fault) {
			l.t.Errorf("call %d on an unusable log: %v", i, err)
		}
	}
	if l.disk.Steps() != steps {
		l.t.Errorf("an unusable log goes on writing")
	}
	l.log.Close()
}

// crash takes the power, or the process, away at some step of some things, and recovers, which may take several attempts.
func (l *life) crash() {
	l.t.Helper()
	l.disk.CrashAt(l.disk.Steps() + 1 + l.random.IntN(60))
	if err := l.run(30); err != nil && !errors.Is(err, crashdisk.ErrCrashed) {
		l.t.Fatal(err)
	}
	for again := true; again; {
		found := l.disk.Kill()
		if l.random.IntN(4) > 0 {
			found = l.disk.Restart(uint64(l.random.IntN(1 << 20)))
		}
		again = l.recover(found, func(d *crashdisk.Disk) {
			if l.random.IntN(3) == 0 {
				d.CrashAt(1 + l.random.IntN(20))
			}
		})
	}
	l.disk.CrashAt(0)
}

// Several crashes in a row, some of them during recovery.
func TestCrashes(t *testing.T) {
	lives := uint64(1000)
	if testing.Short() {
		lives = 200
	}
	for seed := range lives {
		l := newLife(t, seeded(seed))
		for range 6 {
			l.crash()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// drawn lets rapid choose, and so find the shortest life that goes wrong.
type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "") }

// The log against its model: what it does, what it reads, what it finds when it is opened again.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t, drawn{t})
		for range rapid.IntRange(1, 4).Draw(t, "restarts") {
			must(t, l.run(rapid.IntRange(1, 15).Draw(t, "things")))
			l.checkReads()
			switch l.random.IntN(3) {
			case 0:
				l.synced = l.end()
				l.after = l.model
				must(t, l.log.Close())
				l.recover(l.disk, nil)
			case 1:
				l.recover(l.disk.Restart(crashdisk.Lost), nil)
			default:
				l.crash()
			}
		}
	})
}
