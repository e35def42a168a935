package raft

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowLog is a log as a list: the epoch of each record from offset 0 on.
type slowLog []Epoch

func (l slowLog) state(start Offset, snapshots ...Snapshot) logState {
	s := logState{start: start, end: Offset(len(l)), synced: Offset(len(l)), snapshots: snapshots}
	for i, e := range l {
		if i == 0 || l[i-1] != e {
			s.epochs = append(s.epochs, EpochStart{e, Offset(i)})
		}
	}
	s.epochs = startsFrom(s.epochs, start)
	return s
}

// drawLog returns a log of even epochs.
func drawLog(t *rapid.T, name string) slowLog {
	var l slowLog
	epoch := Epoch(2)
	for range rapid.IntRange(0, 12).Draw(t, name+" records") {
		epoch += 2 * Epoch(rapid.IntRange(0, 2).Draw(t, name+" step"))
		l = append(l, epoch)
	}
	return l
}

// branch returns a log that has the first records of l and then others, as two logs of one cluster do: an epoch
// has one leader, so what has the same offset and epoch is the same record, and other epochs than l's begin in
// it, odd ones.
func branch(t *rapid.T, l slowLog) slowLog {
	keep := rapid.IntRange(0, len(l)).Draw(t, "common")
	out := slices.Clone(l[:keep])
	epoch := Epoch(1)
	if keep > 0 {
		epoch = l[keep-1]
	}
	for range rapid.IntRange(0, 6).Draw(t, "own records") {
		// More of the last common epoch is more than l's leader got, if l goes on with another one.
		goesOn := len(out) > 0 && (keep == len(l) || l[keep] != epoch || epoch%2 == 1)
		if !goesOn || rapid.Bool().Draw(t, "next epoch") {
			epoch += 1 + epoch%2
		}
		out = append(out, epoch)
	}
	return out
}

// A leader's answers and the follower's truncations end with a prefix of the leader's log, and nothing that both have
// is cut.
func TestDivergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		leader := drawLog(t, "leader")
		follower := branch(t, leader)
		common := 0
		for common < min(len(leader), len(follower)) && leader[common] == follower[common] {
			common++
		}
		// The leader's epoch has begun and is the newest.
		newest := Epoch(100)
		l := append(slices.Clone(leader), newest).state(0)
		for range 30 {
			f := follower.state(0)
			place := l.place(f.end, f.lastEpoch())
			if place.valid() {
				if len(follower) > common {
					t.Fatalf("a follower with %v is valid to a leader with %v", follower, leader)
				}
				if len(follower) < common {
					t.Fatalf("%d records in common, and %d are left", common, len(follower))
				}
				return
			}
			end := f.truncationPoint(*place.diverging)
			if end >= f.end {
				t.Fatalf("nothing is cut of %v by %v", follower, *place.diverging)
			}
			follower = follower[:end]
		}
		t.Fatalf("it doesn't end")
	})
}

func TestEpochEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, "log")
		s := l.state(0)
		epoch := Epoch(rapid.IntRange(0, 30).Draw(t, "epoch"))
		want := EpochEnd{epoch, 0} // older than all
		for i, e := range l {
			if e <= epoch {
				want = EpochEnd{e, Offset(i + 1)}
			}
		}
		if len(l) == 0 {
			want = EpochEnd{0, 0}
		}
		if got := s.epochEnd(epoch); got != want {
			t.Fatalf("epochEnd(%d) of %v = %v, want %v", epoch, l, got, want)
		}
	})
}

func TestPlace(t *testing.T) {
	// Epoch 1 from 0, epoch 3 from 10, epoch 4 from 20; the log ends at 30.
	epochs := []EpochStart{{1, 0}, {3, 10}, {4, 20}}
	zero := Snapshot{}
	at15 := Snapshot{ID: SnapshotID{15, 3}}
	at25 := Snapshot{ID: SnapshotID{25, 4}}
	whole := logState{end: 30, epochs: epochs, snapshots: []Snapshot{zero}}
	withSnapshot := logState{end: 30, epochs: epochs, snapshots: []Snapshot{at15}}
	cut := logState{start: 15, end: 30, epochs: startsFrom(epochs, 15), snapshots: []Snapshot{at15, at25}}
	for _, test := range []struct {
		reason    string
		log       *logState
		offset    Offset
		epoch     Epoch
		snapshot  *SnapshotID
		diverging *EpochEnd
	}{
		{"an empty log, the zero checkpoint is not offered", &whole, 0, 0, nil, nil},
		{"the end", &whole, 30, 4, nil, nil},
		{"inside of an epoch", &whole, 12, 3, nil, nil},
		{"the end of an epoch", &whole, 20, 3, nil, nil},
		{"beyond the end of an epoch", &whole, 22, 3, nil, &EpochEnd{3, 20}},
		{"beyond the end", &whole, 31, 4, nil, &EpochEnd{4, 30}},
		{"an epoch that this log doesn't have", &whole, 12, 2, nil, &EpochEnd{1, 10}},
		{"an epoch before all", &whole, 5, 0, nil, &EpochEnd{0, 0}},
		{"an empty log gets the snapshot though the log is whole", &withSnapshot, 0, 0, &at15.ID, nil},
		{"with a snapshot, an older epoch than its", &withSnapshot, 5, 1, &at15.ID, nil},
		{"with a snapshot, its epoch", &withSnapshot, 12, 3, nil, nil},
		{"before the start: the newest snapshot", &cut, 14, 3, &at25.ID, nil},
		{"at the start", &cut, 15, 3, nil, nil},
		{"at the start with another epoch", &cut, 15, 2, &at25.ID, nil},
		{"at the start with a newer epoch", &cut, 15, 4, &at25.ID, nil},
		{"behind the start", &cut, 18, 3, nil, nil},
		{"behind the start, beyond the end of its epoch", &cut, 22, 3, nil, &EpochEnd{3, 20}},
	} {
		got := test.log.place(test.offset, test.epoch)
		if !equal(got.snapshot, test.snapshot) || !equal(got.diverging, test.diverging) {
			t.Errorf("%s: snapshot %v, diverging %v", test.reason, got.snapshot, got.diverging)
		}
	}
}

func equal[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func TestTruncationPoint(t *testing.T) {
	l := logState{end: 30, epochs: []EpochStart{{1, 0}, {3, 10}, {4, 20}}}
	for _, test := range []struct {
		reason string
		theirs EpochEnd
		want   Offset
	}{
		{"their epoch ends before ours", EpochEnd{4, 25}, 25},
		{"their epoch ends behind ours", EpochEnd{3, 25}, 20},
		{"an epoch that we don't have: the one before", EpochEnd{2, 15}, 10},
		{"epoch 0 is as they say", EpochEnd{0, 5}, 5},
		{"epoch 0 beyond our end", EpochEnd{0, 99}, 30},
	} {
		if got := l.truncationPoint(test.theirs); got != test.want {
			t.Errorf("%s: %d, want %d", test.reason, got, test.want)
		}
	}
}

func TestEpochStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t, "log")
		at := Offset(rapid.IntRange(0, len(l)).Draw(t, "at"))
		below := startsBelow(l.state(0).epochs, at)
		if want := l[:at].state(0).epochs; !slices.Equal(below, want) {
			t.Fatalf("cut at %d of %v: %v, want %v", at, l, below, want)
		}
		if at == Offset(len(l)) {
			return // the last epoch stays, begun at the end: there is no record left to compare with
		}
		var want []EpochStart
		for _, e := range l[at:].state(0).epochs {
			want = append(want, EpochStart{e.Epoch, e.Start + at})
		}
		if from := startsFrom(l.state(0).epochs, at); !slices.Equal(from, want) {
			t.Fatalf("from %d of %v: %v, want %v", at, l, from, want)
		}
	})
}

func TestLastEpoch(t *testing.T) {
	for _, test := range []struct {
		reason string
		log    logState
		want   Epoch
	}{
		{"an empty log", logState{}, 0},
		{"an empty log with a zero checkpoint", logState{snapshots: []Snapshot{{}}}, 0},
		{"a log that begins with a snapshot", logState{start: 9, end: 9, snapshots: []Snapshot{{ID: SnapshotID{9, 4}}}}, 4},
		{"records", logState{end: 9, epochs: []EpochStart{{1, 0}, {3, 5}}}, 3},
		{"a leader that has not appended", logState{end: 9, epochs: []EpochStart{{1, 0}, {3, 9}}}, 3},
	} {
		if got := test.log.lastEpoch(); got != test.want {
			t.Errorf("%s: %d, want %d", test.reason, got, test.want)
		}
	}
}

func TestUpToDate(t *testing.T) {
	l := logState{end: 9, epochs: []EpochStart{{3, 0}}}
	for _, test := range []struct {
		reason string
		epoch  Epoch
		end    Offset
		want   bool
	}{
		{"the same", 3, 9, true},
		{"longer", 3, 10, true},
		{"shorter", 3, 8, false},
		{"a newer epoch counts first", 4, 1, true},
		{"an older epoch counts first", 2, 99, false},
	} {
		if got := l.upToDate(test.epoch, test.end); got != test.want {
			t.Errorf("%s: %v", test.reason, got)
		}
	}
}

func TestRecoveredIsChecked(t *testing.T) {
	for _, test := range []struct {
		reason string
		r      Recovered
		bad    bool
	}{
		{"nothing", Recovered{}, false},
		{"a start without a snapshot", Recovered{LogStart: 5, LogEnd: 9}, true},
		{"a start with one", Recovered{LogStart: 5, LogEnd: 9, Snapshots: []Snapshot{{ID: SnapshotID{5, 1}}}}, false},
		{"a snapshot behind the end", Recovered{LogEnd: 9, Snapshots: []Snapshot{{ID: SnapshotID{10, 1}}}}, true},
		{"epochs that go back", Recovered{LogEnd: 9, EpochStarts: []EpochStart{{2, 0}, {1, 5}}}, true},
		{"epochs that begin earlier", Recovered{LogEnd: 9, EpochStarts: []EpochStart{{1, 5}, {2, 0}}}, true},
		{"an epoch behind the end", Recovered{LogEnd: 9, EpochStarts: []EpochStart{{1, 10}}}, true},
		{"an end before the start", Recovered{LogStart: 5, LogEnd: 4}, true},
		{"snapshots out of order", Recovered{LogEnd: 9, Snapshots: []Snapshot{{ID: SnapshotID{5, 1}}, {ID: SnapshotID{4, 1}}}}, true},
	} {
		_, err := newLogState(test.r)
		if (err != nil) != test.bad {
			t.Errorf("%s: %v", test.reason, err)
		}
	}
}
