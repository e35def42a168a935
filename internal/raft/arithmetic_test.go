package raft

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The high watermark by definition: the largest offset that a majority has reached.
func TestHighWatermark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := rapid.SliceOfN(rapid.Map(rapid.IntRange(-1, 6), func(n int) Offset { return Offset(n) }), 0, 7).Draw(t, "ends")
		want := Unknown
		for hw := Offset(0); hw <= 6; hw++ {
			reached := 0
			for _, end := range ends {
				if end >= hw {
					reached++
				}
			}
			if len(ends) > 0 && 2*reached > len(ends) {
				want = hw
			}
		}
		if got := highWatermark(slices.Clone(ends)); got != want {
			t.Fatalf("highWatermark(%v) = %d, want %d", ends, got, want)
		}
	})
}

// A round of votes by definition: won when more than half of the voters granted, lost when that cannot come any
// more, whatever the rest answers.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "voters")
		var voters []Voter
		for id := 1; id <= n; id++ {
			voters = append(voters, testVoter(NodeID(id)))
		}
		own := NodeID(rapid.IntRange(1, n+1).Draw(t, "own")) // n+1 is no voter
		round := newTally(voters, own)
		first := map[NodeID]answer{}
		if own <= NodeID(n) {
			first[own] = granted
		}
		for range rapid.IntRange(0, 12).Draw(t, "answers") {
			id := NodeID(rapid.IntRange(1, n+2).Draw(t, "id"))
			a := rapid.SampledFrom([]answer{granted, rejected}).Draw(t, "answer")
			round.record(id, a)
			if _, ok := first[id]; !ok && id <= NodeID(n) {
				first[id] = a
			}
		}
		yes, no := 0, 0
		for _, a := range first {
			if a == granted {
				yes++
			} else {
				no++
			}
		}
		if got, want := round.won(), 2*yes > n; got != want {
			t.Fatalf("won with %d of %d: %v", yes, n, got)
		}
		if got, want := round.lost(), 2*(n-no) <= n; got != want {
			t.Fatalf("lost with %d rejections of %d: %v", no, n, got)
		}
		if len(round.granting()) != yes {
			t.Fatalf("%v granted, want %d", round.granting(), yes)
		}
	})
}

func TestFetchersNeeded(t *testing.T) {
	for _, test := range []struct {
		reason        string
		voters        int
		leaderIsVoter bool
		want          int
	}{
		{"the only voter needs nobody", 1, true, 0},
		{"one of the other two", 3, true, 1},
		{"two of the other four", 5, true, 2},
		{"the other of two", 2, true, 1},
		{"a removed leader needs a majority of the others", 2, false, 2},
		{"also of one", 1, false, 1},
	} {
		if got := fetchersNeeded(test.voters, test.leaderIsVoter); got != test.want {
			t.Errorf("%s: %d, want %d", test.reason, got, test.want)
		}
	}
}

func TestSuccessorDelay(t *testing.T) {
	for _, test := range []struct {
		reason      string
		position, n int
		want        Millis
	}{
		{"the first at once", 0, 3, 0},
		{"then a part", 1, 3, 250},
		{"twice as long", 2, 3, 500},
		{"the second of two waits half of the longest", 1, 2, 500},
		{"who isn't named waits longest", -1, 3, 1000},
		{"nobody is named", -1, 0, 1000},
		{"a list longer than the number has bits", 69, 70, 0},
	} {
		if got := successorDelay(test.position, test.n, 1000); got != test.want {
			t.Errorf("%s: %d, want %d", test.reason, got, test.want)
		}
	}
}
