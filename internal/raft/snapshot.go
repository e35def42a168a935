package raft

import (
	"fmt"
	"slices"
)

// download is a snapshot that a follower is fetching.
type download struct {
	id       SnapshotID
	size     int64 // as the first answer has it; 0: none yet
	position int64 // bytes that are here
}

func (f *follower) beginDownload(c *Core, id SnapshotID) error {
	switch {
	case id.EndOffset <= 0 || id.Epoch < 0 || id.Epoch > c.state.epoch:
		return fmt.Errorf("it offers the snapshot %v", id)
	case id.EndOffset < c.committed():
		c.die("the leader %d of epoch %d offers the snapshot %v in place of the log, but this node has committed up to %d: records are lost there or here",
			c.state.leaderID, c.state.epoch, id, c.committed())
		return nil
	case f.download != nil && f.download.id == id:
		return nil
	}
	f.drop(c)
	if s := c.log.snapshot(id); s != nil {
		if c.log.start == id.EndOffset && c.log.end == id.EndOffset && c.log.lastEpoch() == id.Epoch {
			return fmt.Errorf("it offers the snapshot %v, which this node begins with", id)
		}
		c.resetLog(*s)
		return nil
	}
	f.download = &download{id: id}
	return nil
}

func (f *follower) drop(c *Core) {
	if f.download != nil {
		c.emit(DropSnapshotChunks{f.download.id})
		f.download = nil
	}
}

func (c *Core) fetchSnapshotRequest(d *download) *FetchSnapshotRequest {
	return &FetchSnapshotRequest{
		ClusterID:  c.clusterID(),
		Replica:    c.ownKey(),
		MaxBytes:   c.cfg.SnapshotMaxBytes,
		Epoch:      c.state.epoch,
		SnapshotID: d.id,
		Position:   d.position,
	}
}

func (c *Core) handleFetchSnapshotResponse(o outgoing, q *FetchSnapshotRequest, r *FetchSnapshotResponse) {
	f, _ := c.role.(*follower)
	if !c.topLevel(o, r.Code) {
		if f != nil && r.Code == UnknownServerError {
			// Kafka 4.4.0 sends this in place of any error of the partition: begin again with a Fetch.
			f.drop(c)
		}
		return
	}
	if !c.partition(o, r.Partition, r.LeaderView) {
		if f != nil && c.role == f && (r.Partition == SnapshotNotFound || r.Partition == PositionOutOfRange) {
			f.drop(c)
		}
		return
	}
	if f == nil || c.role != f || f.download == nil || f.download.id != q.SnapshotID {
		return
	}
	if err := f.download.check(r); err != nil {
		// Unlike Kafka, which stops: what is here so far is worth nothing, the log is untouched.
		c.notice("the answer of node %d to a FetchSnapshot of %v is dropped: %v", o.to, q.SnapshotID, err)
		f.drop(c)
		c.backOff(o.to)
		return
	}
	c.out.forgetFetches()
	d := f.download
	c.emit(WriteSnapshotChunk{d.id, d.position, r.Bytes})
	d.size = r.SizeBytes
	d.position += int64(len(r.Bytes))
	if d.id != f.had {
		f.succeeded(c)
	}
	if d.position == d.size {
		c.installing = d.id
		f.download, f.had = nil, d.id
		c.emit(InstallSnapshot{d.id})
	}
}

func (d *download) check(r *FetchSnapshotResponse) error {
	switch {
	case r.SnapshotID != d.id:
		return fmt.Errorf("it is of the snapshot %v", r.SnapshotID)
	case r.Position != d.position:
		return fmt.Errorf("it has the bytes from %d on where %d is due", r.Position, d.position)
	case r.SizeBytes <= 0 || (d.size != 0 && r.SizeBytes != d.size):
		return fmt.Errorf("the size is %d, and was %d", r.SizeBytes, d.size)
	case len(r.Bytes) == 0 || int64(len(r.Bytes)) > r.SizeBytes-d.position:
		return fmt.Errorf("%d bytes, with %d of %d here", len(r.Bytes), d.position, r.SizeBytes)
	}
	return nil
}

// handleSnapshotInstalled puts a fetched snapshot in the place of the log.
func (c *Core) handleSnapshotInstalled(s Snapshot) {
	if s.ID != c.installing {
		return
	}
	c.installing = SnapshotID{}
	if !c.supports(s.KRaftVersion) {
		return
	}
	c.resetLog(s)
	if f, ok := c.role.(*follower); ok {
		f.succeeded(c) // no timer ran for what the disk took
	}
}

// handleSnapshotRejected goes back to the log. What the same leader has to offer is likely to be as bad the next time: it
// is tried, without haste, and the fetch timer goes on, so that a voter gets another leader.
func (c *Core) handleSnapshotRejected(id SnapshotID) {
	if id != c.installing {
		return
	}
	c.installing = SnapshotID{}
	c.notice("the snapshot %v that was fetched is damaged and is dropped", id)
	if f, ok := c.role.(*follower); ok && f.had == id {
		c.backOff(c.state.leaderID)
	}
}

// resetLog lets the log begin anew at the end of a snapshot. All that it had is in the snapshot or not committed.
func (c *Core) resetLog(s Snapshot) {
	switch c.role.(type) {
	case *follower, *unattached:
	default:
		c.broken("snapshot %v comes to a %v", s.ID, c.role.kind())
	}
	if s.ID.EndOffset < c.hw {
		c.broken("snapshot %v", s.ID)
	}
	// As with truncate, the epoch starts first: an old entry must not count in the new log.
	c.setEpochs(nil)
	c.emit(ResetLog{s.ID})
	c.log.start, c.log.end, c.log.synced = s.ID.EndOffset, s.ID.EndOffset, s.ID.EndOffset
	c.log.generation++
	c.log.snapshots = []Snapshot{s}
	c.history.reset(s)
	c.announceVoters()
	if c.hw != Unknown { // else it is loaded for being the newest
		c.emit(LoadSnapshot{s.ID})
	}
	c.setHighWatermark(s.ID.EndOffset, NoHighWatermark) // the next Fetch brings what is behind it
}

// handleFetchSnapshot serves bytes of a snapshot (KIP-630). Errors of the partition go out as what they are.
func (c *Core) handleFetchSnapshot(in Received, r *FetchSnapshotRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &FetchSnapshotResponse{Code: InconsistentClusterID, LeaderView: noView})
		return
	}
	out := &FetchSnapshotResponse{Partition: c.checkLeaderOnly(r.Epoch), LeaderView: c.view(in.Listener), SnapshotID: r.SnapshotID}
	if out.Partition == NoError {
		s := c.log.snapshot(r.SnapshotID)
		switch {
		case s == nil || s.ID == zeroSnapshot:
			// A zero checkpoint is each node's own, never another's.
			out.Partition = SnapshotNotFound
		case r.Position < 0 || r.Position >= s.SizeBytes:
			out.Partition = PositionOutOfRange
		default:
			out.SizeBytes = s.SizeBytes
			out.Position = r.Position
			out.Read = int32(min(int64(max(r.MaxBytes, 0)), int64(maxReadBytes), s.SizeBytes-r.Position))
			c.role.(*leader).heardFrom(c, r.Replica)
		}
	}
	c.reply(in, out)
}

// SnapshotHeader returns what the header of a snapshot with this id has to hold, or why there may be none: it is
// beyond the high watermark, older than the newest snapshot, not the end of a record of that epoch, or exists.
func (c *Core) SnapshotHeader(id SnapshotID) (Snapshot, error) {
	switch epoch, ok := c.log.epochAt(id.EndOffset - 1); {
	case id.EndOffset > c.hw:
		return Snapshot{}, fmt.Errorf("snapshot %v is beyond the high watermark %d", id, c.hw)
	case id.EndOffset <= 0 || id.EndOffset < c.log.newestSnapshotEnd():
		// What the voters were there is forgotten.
		return Snapshot{}, fmt.Errorf("snapshot %v is older than the newest one, which ends at %d", id, c.log.newestSnapshotEnd())
	case !ok || epoch != id.Epoch:
		return Snapshot{}, fmt.Errorf("snapshot %v: the record before offset %d is not of this epoch", id, id.EndOffset)
	case c.log.snapshot(id) != nil:
		return Snapshot{}, fmt.Errorf("snapshot %v exists", id)
	}
	version, voters := c.history.at(id.EndOffset)
	return Snapshot{ID: id, KRaftVersion: version, Voters: voters}, nil
}

func (c *Core) handleSnapshotCreated(s Snapshot) {
	if c.log.snapshot(s.ID) != nil || s.ID.EndOffset < c.log.start || s.ID.EndOffset > c.hw {
		// While it was written, a newer one was fetched.
		return
	}
	i, _ := slices.BinarySearchFunc(c.log.snapshots, s.ID, func(have Snapshot, id SnapshotID) int { return have.ID.Compare(id) })
	c.log.snapshots = slices.Insert(c.log.snapshots, i, s)
	c.history.trim(s.ID.EndOffset)
}

// handleClean drops the oldest snapshot, and the log up to the next one, when they are too large or too old
// (KIP-630).
func (c *Core) handleClean(in Clean) {
	if len(c.log.snapshots) < 2 {
		return
	}
	size := in.LogSizeBytes
	for _, s := range c.log.snapshots {
		size += s.SizeBytes
	}
	oldest, next := c.log.snapshots[0], c.log.snapshots[1]
	tooLarge := c.cfg.RetentionBytes >= 0 && size > c.cfg.RetentionBytes
	tooOld := c.cfg.RetentionMillis >= 0 && in.WallMillis-oldest.LastContainedLogTime > c.cfg.RetentionMillis
	if !tooLarge && !tooOld {
		return
	}
	start := next.ID.EndOffset
	// The log's start is where a follower is sent to a snapshot, and where this node starts again: only what is
	// known to be committed may go below it.
	if start > c.hw {
		return
	}
	c.log.start = start
	c.log.snapshots = slices.Clone(c.log.snapshots[1:])
	c.emit(DeletePrefix{start})
	c.setEpochs(startsFrom(c.log.epochs, start))
	c.history.trim(start)
}
