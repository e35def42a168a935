package raftlog

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
)

// What recovery makes of files that do not fit together, but can be there after a crash or the work of an operator.
func TestRecovery(t *testing.T) {
	log := bytesOf(batch(0, 1, 4, 10), batch(4, 1, 6, 10), batch(10, 3, 10, 10)) // epoch 1 up to 9, epoch 3 up to 19
	later := bytesOf(batch(10, 3, 10, 10))
	id := func(end raft.Offset, epoch raft.Epoch) raft.SnapshotID {
		return raft.SnapshotID{EndOffset: end, Epoch: epoch}
	}
	starts := func(pairs ...int) (list []raft.EpochStart) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, raft.EpochStart{Epoch: raft.Epoch(pairs[i]), Start: raft.Offset(pairs[i+1])})
		}
		return list
	}
	voted := raft.QuorumState{Version: 1, Epoch: 4, LeaderID: raft.None, Voted: raft.ReplicaKey{NodeID: 2}}
	old := raft.QuorumState{Epoch: 2, LeaderID: 3, Voted: raft.ReplicaKey{NodeID: 3}, Voters: []raft.NodeID{3, 4}}
	tests := []struct {
		why       string
		segments  map[raft.Offset][]byte
		snapshots []raft.SnapshotID
		epochs    []raft.EpochStart
		quorum    *raft.QuorumState
		want      raft.Recovered
		repaired  int // lines
	}{
		{"all fits", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(10, 1)}, starts(1, 0, 3, 10), &voted,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: voted}, 0},
		{"no leader-epoch-checkpoint", map[raft.Offset][]byte{0: log}, nil, nil, nil,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10)}, 1},
		{"no quorum-state, and a leader that had not appended", map[raft.Offset][]byte{0: log}, nil, starts(1, 0, 3, 10, 7, 20), nil,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10, 7, 20)}, 0},
		{"an epoch whose batches are lost", map[raft.Offset][]byte{0: log}, nil, starts(1, 0, 3, 10, 7, 30), &voted,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: raft.QuorumState{Version: 1, Epoch: 7, LeaderID: raft.None, Voted: raft.ReplicaKey{NodeID: raft.None}}}, 2},
		{"the same, and no quorum-state", map[raft.Offset][]byte{0: log}, nil, starts(1, 0, 3, 10, 7, 30), nil,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: raft.QuorumState{Epoch: 7, LeaderID: raft.None, Voted: raft.ReplicaKey{NodeID: raft.None}}}, 2},
		{"a lost epoch that quorum-state knows", map[raft.Offset][]byte{0: log}, nil, starts(1, 0, 3, 10, 4, 30), &voted,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: voted}, 1},
		{"epochs that the log contradicts", map[raft.Offset][]byte{0: log}, nil, starts(1, 0, 2, 5, 3, 10, 4, 15), &voted,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: voted}, 1},
		{"quorum-state is behind the log: the core sees that", map[raft.Offset][]byte{0: log}, nil, starts(1, 0, 3, 10), &old,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: old}, 0},
		{"the snapshot is ahead", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(10, 1), id(25, 3)}, starts(1, 0, 3, 10), &voted,
			raft.Recovered{LogStart: 25, LogEnd: 25, QuorumState: voted}, 2},
		{"the snapshot is ahead, its epoch too", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(25, 5)}, starts(1, 0, 3, 10), nil,
			raft.Recovered{LogStart: 25, LogEnd: 25, QuorumState: raft.QuorumState{Epoch: 3, LeaderID: raft.None, Voted: raft.ReplicaKey{NodeID: raft.None}}}, 3},
		{"the snapshot is not ahead, but of an epoch that the log does not have", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(15, 4)}, starts(1, 0, 3, 10), &voted,
			raft.Recovered{LogStart: 15, LogEnd: 15, QuorumState: voted}, 2},
		{"the snapshot has an older epoch than the log there", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(15, 2)}, starts(1, 0, 3, 10), &voted,
			raft.Recovered{LogStart: 15, LogEnd: 15, QuorumState: voted}, 2},
		{"the log ends where the snapshot does", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(20, 3)}, starts(1, 0, 3, 10), &voted,
			raft.Recovered{LogEnd: 20, EpochStarts: starts(1, 0, 3, 10), QuorumState: voted}, 0},
		{"the log begins where the snapshot ends", map[raft.Offset][]byte{10: later}, []raft.SnapshotID{id(10, 1)}, starts(3, 10), &voted,
			raft.Recovered{LogStart: 10, LogEnd: 20, EpochStarts: starts(3, 10), QuorumState: voted}, 0},
		{"the log is of an older epoch than the snapshot that it begins behind", map[raft.Offset][]byte{10: later}, []raft.SnapshotID{id(10, 4)}, starts(3, 10), &voted,
			raft.Recovered{LogStart: 10, LogEnd: 10, QuorumState: voted}, 2},
		{"an empty log at the snapshot", map[raft.Offset][]byte{10: nil}, []raft.SnapshotID{id(10, 1)}, nil, &voted,
			raft.Recovered{LogStart: 10, LogEnd: 10, QuorumState: voted}, 0},
		{"the crash came before the new segment", nil, []raft.SnapshotID{id(10, 1)}, nil, &voted,
			raft.Recovered{LogStart: 10, LogEnd: 10, QuorumState: voted}, 0},
		{"a leader at the snapshot that had not appended", map[raft.Offset][]byte{10: nil}, []raft.SnapshotID{id(10, 1)}, starts(7, 10), &voted,
			raft.Recovered{LogStart: 10, LogEnd: 10, EpochStarts: starts(7, 10), QuorumState: voted}, 0},
		{"an entry older than the snapshot behind which the log is empty", map[raft.Offset][]byte{10: nil}, []raft.SnapshotID{id(10, 3)}, starts(2, 10), &voted,
			raft.Recovered{LogStart: 10, LogEnd: 10, QuorumState: voted}, 1},
		{"a leader that had not appended downloaded another log's snapshot", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(20, 4)}, starts(1, 0, 3, 10, 7, 20), &voted,
			raft.Recovered{LogStart: 20, LogEnd: 20, QuorumState: raft.QuorumState{Version: 1, Epoch: 7, LeaderID: raft.None, Voted: raft.ReplicaKey{NodeID: raft.None}}}, 3},
		{"the snapshot is ahead, an epoch began in front of its end", map[raft.Offset][]byte{0: log}, []raft.SnapshotID{id(25, 3)}, starts(1, 0, 3, 10, 4, 24), &voted,
			raft.Recovered{LogStart: 25, LogEnd: 25, QuorumState: voted}, 2},
		{"snapshots from before the log", map[raft.Offset][]byte{10: later}, []raft.SnapshotID{id(0, 0), id(4, 1), id(10, 1), id(12, 3)}, starts(3, 10), &voted,
			raft.Recovered{LogStart: 10, LogEnd: 20, EpochStarts: starts(3, 10), QuorumState: voted}, 0},
	}
	for _, test := range tests {
		d := emptyDir(t)
		for base, data := range test.segments {
			put(t, d, testDir+"/"+segmentStem(base)+".log", data)
		}
		for _, s := range test.snapshots {
			put(t, d, testDir+"/"+snapshotID(s).String(), snapshotBytes(s.Epoch, 1))
			if s.EndOffset >= test.want.LogStart {
				test.want.Snapshots = append(test.want.Snapshots, snapshotFor(s, 1))
			}
		}
		if test.epochs != nil {
			put(t, d, testDir+"/leader-epoch-checkpoint", AppendEpochStarts(nil, test.epochs))
		}
		if test.quorum != nil {
			put(t, d, testDir+"/quorum-state", AppendQuorumState(nil, *test.quorum))
		} else if test.want.QuorumState.Epoch == 0 {
			test.want.QuorumState = raft.NoQuorumState()
		}
		// Recovery may be cut off anywhere, and then comes to the same result.
		whole := d.Restart(crashdisk.Kept)
		l, found := open(t, whole)
		if !reflect.DeepEqual(found, test.want) {
			t.Errorf("%s: recovered\n%+v, want\n%+v", test.why, found, test.want)
		}
		if len(l.Repaired) != test.repaired {
			t.Errorf("%s: repaired %s", test.why, strings.Join(l.Repaired, "\n\t"))
		}
		for step := 1; step <= whole.Steps(); step++ {
			failing := d.Restart(crashdisk.Kept)
			failing.FailAt(step, syscall.EIO)
			if _, _, err := Open(failing, testDir, small); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: failure at step %d: %v", test.why, step, err)
			}
			if _, again := open(t, failing); !reflect.DeepEqual(again, found) {
				t.Errorf("%s: failure at step %d (%s), recovered\n%+v, want\n%+v", test.why, step, failing.LastStep(), again, found)
			}
			for seed := range uint64(4) {
				cut := d.Restart(crashdisk.Kept)
				cut.CrashAt(step)
				if _, _, err := Open(cut, testDir, small); err == nil {
					t.Fatalf("%s: no crash at step %d", test.why, step)
				}
				l, again := open(t, cut.Restart(seed))
				if !reflect.DeepEqual(again, found) {
					t.Errorf("%s: crash at step %d (%s), recovered\n%+v, want\n%+v", test.why, step, cut.LastStep(), again, found)
				}
				must(t, l.Close())
			}
		}
		l, again := open(t, whole)
		if !reflect.DeepEqual(again, found) || len(l.Repaired) > 0 {
			t.Errorf("%s: again %+v, %q", test.why, again, l.Repaired)
		}
		if names := files(t, whole); !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(strings.Fields(n)[0], segmentSuffix) }) {
			t.Errorf("%s: files %q", test.why, names)
		}
	}
}

// What no crash leaves: leader-epoch-checkpoint names a part of the log that is gone. A voter that went on without it could
// undo commits.
func TestLostLog(t *testing.T) {
	log := bytesOf(batch(0, 1, 10, 10)) // up to 9
	start := func(epoch raft.Epoch, offset raft.Offset) raft.EpochStart {
		return raft.EpochStart{Epoch: epoch, Start: offset}
	}
	tests := []struct {
		why      string
		log      []byte // nil: no segment
		snapshot raft.Offset
		epochs   []raft.EpochStart
		lost     bool
	}{
		{"a new directory", nil, 0, nil, false},
		{"no segment", nil, 0, []raft.EpochStart{start(1, 0), start(7, 400)}, true},
		{"no segment of an only epoch", nil, 0, []raft.EpochStart{start(1, 0)}, true},
		{"no segment, a snapshot covers where the epochs began", nil, 500, []raft.EpochStart{start(1, 0), start(7, 400)}, true},
		{"no segment, an epoch began behind the snapshot", nil, 300, []raft.EpochStart{start(1, 0), start(7, 400)}, true},
		{"a reset was interrupted", nil, 300, nil, false},
		{"behind the snapshot, an epoch began behind its end", log, 300, []raft.EpochStart{start(1, 0), start(7, 400)}, true},
		{"behind the snapshot, an epoch began at its end", log, 400, []raft.EpochStart{start(1, 0), start(7, 400)}, true},
		{"behind the snapshot, as a crash during a download leaves it", log, 500, []raft.EpochStart{start(1, 0), start(7, 10)}, false},
	}
	for _, test := range tests {
		d := emptyDir(t)
		if test.log != nil {
			put(t, d, firstSegment, test.log)
		}
		if test.snapshot > 0 {
			put(t, d, testDir+"/"+snapshotID(raft.SnapshotID{EndOffset: test.snapshot, Epoch: 1}).String(), snapshotBytes(1, 1))
		}
		if test.epochs != nil {
			put(t, d, testDir+"/"+epochStartsName, AppendEpochStarts(nil, test.epochs))
		}
		put(t, d, testDir+"/"+partitionMetadataName, []byte(partitionMetadata))
		before := files(t, d)
		for range 2 { // it stays so
			_, _, err := Open(d, testDir, small)
			corrupt, ok := errors.AsType[*CorruptError](err)
			if ok != test.lost || !ok && err != nil || ok && corrupt.File != testDir+"/"+epochStartsName {
				t.Errorf("%s: %v", test.why, err)
			}
			if after := files(t, d); test.lost && !slices.Equal(after, before) {
				t.Errorf("%s: the files have changed from %q to %q", test.why, before, after)
			}
		}
	}
}
