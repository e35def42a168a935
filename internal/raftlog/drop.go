package raftlog

import (
	"cmp"
	"fmt"
	"slices"

	"kstorage/internal/raft"
)

// Truncate carries out a TruncateLog. What is left is durable. It panics where the end is outside of the log.
func (l *Log) Truncate(end raft.Offset) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	return l.fail(l.truncate(end))
}

func (l *Log) truncate(end raft.Offset) error {
	l.mu.Lock()
	if have := l.end(); end < l.start || end > have {
		panic(fmt.Sprintf("raftlog: truncate to offset %d a log of %d to %d", end, l.start, have))
	}
	i, _ := slices.BinarySearchFunc(l.pending, end, func(b pending, o raft.Offset) int { return cmp.Compare(b.base, o) })
	l.pending = slices.Delete(l.pending, i, len(l.pending))
	l.appended = raft.Synced{}
	// An end inside of a batch is not what the core meant: epochs end where batches do.
	inside := end > l.end()
	l.mu.Unlock()
	if inside {
		return fmt.Errorf("truncate to offset %d: it is inside of a batch", end)
	}
	if err := l.flush(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// The last segment first: whatever a crash leaves is a log without a gap.
	removed := false
	for s := l.active(); s.base >= end && len(l.segments) > 1; s = l.active() {
		if err := l.removeSegment(s); err != nil {
			return err
		}
		l.segments = l.segments[:len(l.segments)-1]
		removed = true
	}
	if removed {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	return l.active().truncate(end)
}

// Reset carries out a ResetLog: the log is empty, and begins and ends at the snapshot's end. The snapshot is there.
func (l *Log) Reset(id raft.SnapshotID) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	return l.fail(l.reset(id))
}

func (l *Log) reset(id raft.SnapshotID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.appended, l.synced = nil, raft.Synced{}, raft.Synced{}
	// The last segment first: a crash then leaves the front of the log, which is behind the snapshot or agrees with it. The new
	// segment comes when they are gone: it would not fit behind them.
	for len(l.segments) > 0 {
		if err := l.removeSegment(l.active()); err != nil {
			return err
		}
		l.segments = l.segments[:len(l.segments)-1]
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	s, err := l.createSegment(id.EndOffset)
	if err != nil {
		return err
	}
	l.segments, l.start = []*segment{s}, id.EndOffset
	return l.removeSnapshots()
}

// DeletePrefix carries out a DeletePrefix. A snapshot that ends at start or above is there.
func (l *Log) DeletePrefix(start raft.Offset) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	return l.fail(l.deletePrefix(start))
}

func (l *Log) deletePrefix(start raft.Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end := l.end(); start > end {
		panic(fmt.Sprintf("raftlog: delete up to offset %d of a log that ends at %d", start, end))
	}
	l.start = max(l.start, start)
	for len(l.segments) > 1 && l.segments[1].base <= l.start {
		if err := l.removeSegment(l.segments[0]); err != nil {
			return err
		}
		l.segments = slices.Delete(l.segments, 0, 1)
	}
	return l.removeSnapshots()
}

// removeSnapshots removes those that end below the log's start. It syncs the directory in any case. The caller holds mu.
func (l *Log) removeSnapshots() error {
	for len(l.snapshots) > 0 && l.snapshots[0].EndOffset < l.start {
		if err := l.fs.Remove(l.SnapshotPath(l.snapshots[0])); err != nil {
			return err
		}
		l.snapshots = slices.Delete(l.snapshots, 0, 1)
	}
	return l.fs.SyncDir(l.dir)
}
