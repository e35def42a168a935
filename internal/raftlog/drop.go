package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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
	keep := len(l.segments)
	for keep > 1 && l.segments[keep-1].base >= end {
		keep--
	}
	last := l.segments[keep-1]
	position, err := last.boundary(end)
	if err != nil {
		return err
	}
	cut := position < last.size
	if !cut && keep == len(l.segments) {
		return nil
	}
	l.mu.Lock()
	gone := l.segments[keep:]
	l.segments = slices.Clip(l.segments[:keep])
	last.shorten(position, end)
	l.recent.clear()
	l.drops++
	l.mu.Unlock()
	if len(gone) > 0 {
		l.reserved, l.unused = 0, false // they were those of the last segment
		// The last segment first: whatever a crash leaves is a log without a gap.
		if err := l.removeSegments(slices.Backward(gone)); err != nil {
			return err
		}
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	if !cut {
		return nil
	}
	return l.cut()
}

// Reset carries out a ResetLog: the log is empty, and begins and ends at the snapshot's end. The snapshot is there.
func (l *Log) Reset(id raft.SnapshotID) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	err := l.reset(id)
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	return l.fail(err)
}

// reset leaves it to its caller to sync the directory.
func (l *Log) reset(id raft.SnapshotID) error {
	// Its file comes when those of the others are gone: it would not fit behind them.
	s := l.newSegment(id.EndOffset)
	l.mu.Lock()
	gone := l.segments
	l.reserved, l.unused = 0, false
	l.segments, l.start = []*segment{s}, id.EndOffset
	l.pending, l.appended, l.synced = nil, raft.Synced{}, raft.Synced{}
	l.recent.clear()
	l.drops++
	l.mu.Unlock()
	if len(gone) > 0 {
		// The last segment first: a crash then leaves the front of the log, which is behind the snapshot or agrees with it.
		if err := l.removeSegments(slices.Backward(gone)); err != nil {
			return err
		}
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	f, err := l.createSegment(s)
	if err != nil {
		return err
	}
	l.mu.Lock()
	s.file = f
	l.mu.Unlock()
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
	if end := l.end(); start > end {
		panic(fmt.Sprintf("raftlog: delete up to offset %d of a log that ends at %d", start, end))
	}
	l.start = max(l.start, start)
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].base <= l.start {
		n++
	}
	gone := l.segments[:n]
	l.segments = slices.Clone(l.segments[n:])
	l.drops++
	l.mu.Unlock()
	if err := l.removeSegments(slices.All(gone)); err != nil {
		return err
	}
	if err := l.removeSnapshots(); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// removeSegments removes the files of segments that are in the log no more, in this order. Whoever reads one finds it closed,
// and then that something was dropped.
func (l *Log) removeSegments(gone iter.Seq2[int, *segment]) error {
	var errs []error
	for _, s := range gone {
		errs = append(errs, s.file.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range gone {
		// And what Kafka keeps beside it.
		stem := l.path(segmentStem(s.base))
		for _, suffix := range []string{".index", ".timeindex", ".txnindex", ".snapshot"} {
			if err := l.fs.Remove(stem + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := l.fs.Remove(s.name); err != nil {
			return err
		}
	}
	return nil
}

// removeSnapshots removes those that end below the log's start. It leaves it to its caller to sync the directory.
func (l *Log) removeSnapshots() error {
	l.mu.Lock()
	n := 0
	for n < len(l.snapshots) && l.snapshots[n].EndOffset < l.start {
		n++
	}
	gone := l.snapshots[:n]
	l.snapshots = slices.Clone(l.snapshots[n:])
	l.mu.Unlock()
	for _, id := range gone {
		if err := l.fs.Remove(l.SnapshotPath(id)); err != nil {
			return err
		}
	}
	return nil
}
