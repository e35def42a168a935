package sim

import (
	"io"
	"math"
	"slices"

	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// app is the layer above the core in one process: it applies what is committed to an image, makes snapshots of
// it and, on the leader, writes the bootstrap and what clients append.
type app struct {
	p         *process
	image     image
	next      raft.Offset // to apply
	lastEpoch raft.Epoch  // of the batch before next
	lastTime  int64
	sinceSnap int // batches applied since the last snapshot
	snapping  bool

	epoch   raft.Epoch
	leads   bool
	start   raft.Offset // of the epoch that it leads
	began   bool        // to write the bootstrap
	end     raft.Offset // where the log ends, as far as it knows
	pending []pending   // ascending
}

// pending is an append that is not committed yet.
type pending struct {
	ops  []int64
	last raft.Offset
}

func (a *app) leaderChanged(e raft.LeaderChanged) {
	if a.leads && a.epoch == e.Epoch && e.LeaderID == a.p.machine.id {
		return
	}
	// What is pending may be lost, or not: its clients never hear of it.
	a.epoch, a.leads, a.start, a.pending = e.Epoch, e.LeaderID == a.p.machine.id && e.StartOffset != raft.Unknown, e.StartOffset, nil
	a.end, a.began = a.start+1, false
}

// active tells whether the leader may write: it has applied all of the epochs before.
func (a *app) active() bool { return a.leads && a.next > a.start }

// load loads a snapshot. The zero checkpoint is left to the bootstrap.
func (a *app) load(id raft.SnapshotID) error {
	if id.EndOffset < a.next {
		a.p.w.fail("%s loads a snapshot up to offset %d and has applied up to %d", a.p, id.EndOffset, a.next)
	}
	if id == (raft.SnapshotID{}) {
		return nil
	}
	image, err := a.read(id)
	if err != nil {
		return err
	}
	a.check(image)
	a.next, a.lastEpoch, a.sinceSnap = id.EndOffset, id.Epoch, 0
	a.p.w.check.snapshot(a.p, id, image)
	return nil
}

func (a *app) read(id raft.SnapshotID) (image, error) {
	f, err := a.p.driver.log.OpenSnapshot(id)
	if err != nil {
		return image{}, err
	}
	defer f.Close()
	return readImage(io.NewSectionReader(f, 0, math.MaxInt64), a.p.driver.log.SnapshotPath(id))
}

// check publishes an image.
func (a *app) check(next image) {
	if err := next.check(a.image); err != nil {
		a.p.w.fail("%s: %v", a.p, err)
	}
	a.image = next
	m := a.p.machine
	if next.clusterID == "" || next.clusterID == m.clusterID {
		return
	}
	if m.clusterID != "" {
		a.p.w.fail("%s has the cluster id %q and finds %q", a.p, m.clusterID, next.clusterID)
	}
	m.clusterID = next.clusterID
	a.p.w.did.idsLearned++
	a.p.driver.input(raft.ClusterIDLearned{ClusterID: next.clusterID})
}

// committed applies what the log has below the high watermark.
func (a *app) committed(highWatermark raft.Offset) error {
	log := a.p.driver.log
	for a.next < highWatermark {
		data, err := log.Read(raft.LogRange{From: a.next, End: highWatermark, MaxBytes: 1 << 20})
		if err != nil {
			return err
		}
		if len(data) == 0 {
			a.p.w.fail("%s finds nothing at offset %d of its log", a.p, a.next)
		}
		for len(data) > 0 && a.next < highWatermark {
			data = data[a.apply(data):]
		}
	}
	if a.next > highWatermark {
		a.p.w.fail("%s has the high watermark %d inside of a batch", a.p, highWatermark)
	}
	a.acknowledge()
	a.begin()
	a.snapshot()
	return nil
}

// apply applies the batch that data begins with, and returns its size.
func (a *app) apply(data []byte) int {
	b, err := record.DecodeBatch(data)
	if err != nil {
		a.p.w.fail("%s has a damaged batch at offset %d: %v", a.p, a.next, err)
	}
	next := a.image
	for e, err := range b.Entries() {
		switch {
		case err != nil:
			a.p.w.fail("%s has a damaged record at offset %d: %v", a.p, e.Offset, err)
		case b.Control:
			continue
		}
		op, err := next.apply(e.Value)
		if err != nil {
			a.p.w.fail("%s has a strange record at offset %d: %v", a.p, e.Offset, err)
		}
		if op > 0 {
			a.p.w.check.ops[op] = raft.Offset(e.Offset)
		}
	}
	a.check(next)
	a.next, a.lastEpoch, a.lastTime = raft.Offset(b.LastOffset())+1, raft.Epoch(b.LeaderEpoch), b.Timestamp
	a.sinceSnap++
	a.p.w.check.applied(a.p, a.next, next)
	return b.Size
}

// acknowledge tells the clients whose appends are committed.
func (a *app) acknowledge() {
	if !a.leads {
		return
	}
	n := 0
	for ; n < len(a.pending) && a.pending[n].last < a.next; n++ {
		for _, op := range a.pending[n].ops {
			a.p.w.acknowledged(a.p, op)
		}
	}
	a.pending = a.pending[n:]
}

// begin writes the bootstrap, as the first active controller of a log without metadata.version.
func (a *app) begin() {
	if !a.active() || a.image.level > 0 || a.began {
		return
	}
	a.began = true
	w := a.p.w
	id := a.p.machine.clusterID
	if id == "" && w.level >= clusterIDLevel {
		id = randomID(w)
	}
	a.write(bootstrap(w.level, id), nil)
}

// append writes what a client appends.
func (a *app) append(ops []int64) {
	var values [][]byte
	for _, op := range ops {
		values = append(values, opRecord(op))
	}
	a.write(values, ops)
}

// write appends a batch. Where a control batch slipped in it is made anew for the new end.
func (a *app) write(values [][]byte, ops []int64) {
	var entries []record.Entry
	for _, v := range values {
		entries = append(entries, record.Entry{Value: v})
	}
	h := record.BatchHeader{BaseOffset: int64(a.end), LeaderEpoch: int32(a.epoch), Timestamp: a.p.wallMillis()}
	b := raft.Batch{
		BaseOffset: a.end,
		LastOffset: a.end + raft.Offset(len(entries)) - 1,
		Epoch:      a.epoch,
		Bytes:      record.AppendBatch(nil, h, entries...),
	}
	a.p.receive(&call{request: &raft.AppendRequest{Batch: b}, done: func(got answer) {
		r := got.response.(*raft.AppendResponse)
		if a.epoch != b.Epoch || !a.leads {
			return
		}
		switch r.Code {
		case raft.NoError:
			if r.NextOffset != b.LastOffset+1 {
				a.p.w.fail("%s appends up to offset %d, and the next one is %d", a.p, b.LastOffset, r.NextOffset)
			}
			a.end = r.NextOffset
			a.pending = append(a.pending, pending{ops, b.LastOffset})
		case raft.InvalidRequest:
			if r.NextOffset == a.end {
				a.p.w.fail("%s refuses an append at the log's end %d", a.p, a.end)
			}
			a.end = r.NextOffset
			a.write(values, ops)
		}
	}})
}

// snapshot begins a snapshot of the image when it is time. It takes a while, in which the log goes on.
func (a *app) snapshot() {
	every := a.p.w.scenario.snapshotEvery
	if every == 0 || a.sinceSnap < every || a.snapping {
		return
	}
	a.sinceSnap, a.snapping = 0, true
	state, id, lastTime := a.image, raft.SnapshotID{EndOffset: a.next, Epoch: a.lastEpoch}, a.lastTime
	a.p.after(a.p.w.micros(300*millisecond), func() {
		a.snapping = false
		a.freeze(state, id, lastTime)
	})
}

// freeze writes and freezes a snapshot, if the core still wants it.
func (a *app) freeze(state image, id raft.SnapshotID, lastTime int64) {
	d := &a.p.driver
	s, err := d.core.SnapshotHeader(id)
	if t := a.p.w.tamper.snapshot; t != nil {
		if other := t(a.p); other.EndOffset > a.p.highWatermark {
			id, s, err = other, raft.Snapshot{ID: other}, nil
		}
	}
	if err != nil {
		return // overtaken by one that was fetched
	}
	s.LastContainedLogTime = lastTime
	out, err := d.log.CreateSnapshot(id)
	if err == nil {
		if err = state.write(out, header(s, a.p.wallMillis())); err == nil {
			s, err = out.Commit()
		}
	}
	if err != nil {
		a.p.stopped(err)
		return
	}
	if id.EndOffset > a.p.highWatermark {
		a.p.w.fail("%s makes a snapshot up to offset %d, above its high watermark %d", a.p, id.EndOffset, a.p.highWatermark)
	}
	a.p.w.check.snapshot(a.p, id, state)
	a.p.w.did.snapshots++
	d.input(raft.SnapshotCreated{Snapshot: s})
}

// randomID draws a cluster id.
func randomID(w *world) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	id := slices.Repeat([]byte{'-'}, 22)
	for i := range id {
		id[i] = letters[w.intN(len(letters))]
	}
	return string(id)
}
