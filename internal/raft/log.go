package raft

import (
	"cmp"
	"fmt"
	"slices"
)

// logState is what the core knows of the log: no bytes, but where it starts and ends, what of it is durable, where
// each leader epoch begins, and which snapshots there are.
type logState struct {
	start, end Offset
	synced     Offset // everything below has reached the disk; start <= synced <= end
	epochs     []EpochStart
	snapshots  []Snapshot // ascending
	generation uint64     // counts the truncations: see Synced
}

// newLogState checks what recovery found. The errors are those of a damaged disk, or of a wrong recovery.
func newLogState(r Recovered) (logState, error) {
	l := logState{start: r.LogStart, end: r.LogEnd, synced: r.LogEnd}
	if l.start < 0 || l.end < l.start {
		return l, fmt.Errorf("the log is from offset %d to %d", l.start, l.end)
	}
	last := EpochStart{-1, -1}
	for _, e := range r.EpochStarts {
		if e.Epoch <= last.Epoch || e.Start < last.Start || e.Start > l.end {
			return l, fmt.Errorf("epoch %d starts at offset %d, after epoch %d at %d, in a log that ends at %d", e.Epoch, e.Start, last.Epoch, last.Start, l.end)
		}
		last = e
	}
	l.epochs = startsFrom(r.EpochStarts, l.start)
	for i, s := range r.Snapshots {
		if i > 0 && r.Snapshots[i-1].ID.Compare(s.ID) >= 0 {
			return l, fmt.Errorf("the snapshots %v and %v are out of order", r.Snapshots[i-1].ID, s.ID)
		}
		if s.ID.EndOffset > l.end {
			return l, fmt.Errorf("snapshot %v ends behind the log, which ends at offset %d", s.ID, l.end)
		}
		if s.ID.EndOffset >= l.start {
			l.snapshots = append(l.snapshots, s)
		}
	}
	if l.start > 0 && len(l.snapshots) == 0 {
		return l, fmt.Errorf("the log starts at offset %d and there is no snapshot", l.start)
	}
	return l, nil
}

// startsFrom returns the epoch starts of a log that starts at start: those of epochs that end at or before it
// go, and the one that covers it begins there.
func startsFrom(epochs []EpochStart, start Offset) []EpochStart {
	epochs = slices.Clone(epochs)
	for len(epochs) > 1 && epochs[1].Start <= start {
		epochs = epochs[1:]
	}
	if len(epochs) > 0 && epochs[0].Start < start {
		epochs[0].Start = start
	}
	return epochs
}

// startsBelow returns the epoch starts of a log that is cut at end. One that begins at the cut goes too: it has
// no record.
func startsBelow(epochs []EpochStart, end Offset) []EpochStart {
	n := len(epochs)
	for n > 0 && epochs[n-1].Start >= end {
		n--
	}
	return slices.Clone(epochs[:n])
}

// lastEpoch is the epoch of the last record; or of the leader that has not written one yet.
func (l *logState) lastEpoch() Epoch {
	if n := len(l.epochs); n > 0 {
		return l.epochs[n-1].Epoch
	}
	return l.snapshotEpoch()
}

// recordEpoch is the epoch of the last record that there is, whatever was led since.
func (l *logState) recordEpoch() Epoch {
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if l.epochs[i].Start < l.end {
			return l.epochs[i].Epoch
		}
	}
	return l.snapshotEpoch()
}

// snapshotEpoch is the epoch of a log that has no records behind its snapshot.
func (l *logState) snapshotEpoch() Epoch {
	if s := l.latestSnapshot(); s != nil && s.ID.EndOffset == l.end {
		return s.ID.Epoch
	}
	return 0
}

// latestSnapshot and earliestSnapshot return nil if there is none.
func (l *logState) latestSnapshot() *Snapshot {
	if len(l.snapshots) == 0 {
		return nil
	}
	return &l.snapshots[len(l.snapshots)-1]
}

func (l *logState) earliestSnapshot() *Snapshot {
	if len(l.snapshots) == 0 {
		return nil
	}
	return &l.snapshots[0]
}

// newestSnapshotEnd is 0 without a snapshot.
func (l *logState) newestSnapshotEnd() Offset {
	if s := l.latestSnapshot(); s != nil {
		return s.ID.EndOffset
	}
	return 0
}

func (l *logState) snapshot(id SnapshotID) *Snapshot {
	i := slices.IndexFunc(l.snapshots, func(s Snapshot) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &l.snapshots[i]
}

// epochEnd returns the largest epoch that is not above epoch, and where it ends. For an epoch that is older
// than all that the log knows this is the epoch itself, ending where the log's first epoch starts; for one that
// is newer, the log's last.
func (l *logState) epochEnd(epoch Epoch) EpochEnd {
	// i is the first epoch above the one that is asked for.
	i, _ := slices.BinarySearchFunc(l.epochs, epoch, func(e EpochStart, epoch Epoch) int {
		if e.Epoch <= epoch {
			return -1
		}
		return 1
	})
	switch {
	case i == len(l.epochs):
		return EpochEnd{l.lastEpoch(), l.end}
	case i == 0:
		return EpochEnd{epoch, l.epochs[0].Start}
	default:
		return EpochEnd{l.epochs[i-1].Epoch, l.epochs[i].Start}
	}
}

// fetchPlace is what a leader makes of the place from which a follower wants to fetch: exactly one of the
// fields counts.
type fetchPlace struct {
	snapshot  *SnapshotID // fetch this first
	diverging *EpochEnd   // your epoch ends here: truncate
}

// valid tells that the follower's log is a prefix of this one.
func (p fetchPlace) valid() bool { return p.snapshot == nil && p.diverging == nil }

// place compares a follower's log, which ends at offset with a record of epoch, with this one (KIP-595).
func (l *logState) place(offset Offset, epoch Epoch) fetchPlace {
	latest := l.latestSnapshot()
	if offset == 0 && latest != nil && latest.ID != zeroSnapshot {
		// A snapshot is shorter than the log that it stands for, so a new follower begins with one even
		// while the log is whole.
		return fetchPlace{snapshot: &latest.ID}
	}
	if offset == 0 && l.start == 0 {
		return fetchPlace{}
	}
	if earliest := l.earliestSnapshot(); earliest != nil {
		if offset < l.start || (offset == l.start && epoch != earliest.ID.Epoch) || epoch < earliest.ID.Epoch {
			return fetchPlace{snapshot: &latest.ID}
		}
	}
	if end := l.epochEnd(epoch); end.Epoch != epoch || end.EndOffset < offset {
		return fetchPlace{diverging: &end}
	}
	return fetchPlace{}
}

// truncationPoint is where a follower cuts its log when the leader says that the epoch of its last record ends
// at theirs. It never lies above the end of what both logs have in common with certainty, and the next Fetch
// goes on from there.
func (l *logState) truncationPoint(theirs EpochEnd) Offset {
	if theirs.Epoch == 0 {
		return min(theirs.EndOffset, l.end)
	}
	own := l.epochEnd(theirs.Epoch)
	if own.Epoch == theirs.Epoch {
		return min(own.EndOffset, theirs.EndOffset)
	}
	return own.EndOffset
}

// epochAt returns the epoch of the record at offset, which must be in the log or just before its start.
func (l *logState) epochAt(offset Offset) (Epoch, bool) {
	if offset+1 == l.start {
		if s := l.earliestSnapshot(); s != nil && s.ID.EndOffset == l.start {
			return s.ID.Epoch, true
		}
		return 0, false
	}
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if e := l.epochs[i]; e.Start <= offset {
			return e.Epoch, offset < l.end
		}
	}
	return 0, false
}

// upToDate reports whether a candidate's log, by the epoch of its last record and its end, has all that this
// one has committed: it is at least as new (Raft 5.4.1).
func (l *logState) upToDate(lastEpoch Epoch, end Offset) bool {
	return compareLogs(lastEpoch, end, l.lastEpoch(), l.end) >= 0
}

func compareLogs(epochA Epoch, endA Offset, epochB Epoch, endB Offset) int {
	return cmp.Or(cmp.Compare(epochA, epochB), cmp.Compare(endA, endB))
}
