package raft

import (
	"cmp"
	"slices"
)

// majority is the number of voters that decides in a set of n.
func majority(n int) int { return n/2 + 1 }

// tally counts the answers of one election round among the voters of its begin.
type tally struct {
	voters  []Voter
	answers []answer // of the voters, in their order
}

type answer uint8

const (
	unanswered answer = iota
	granted
	rejected
)

// newTally begins a round in which the own vote is granted.
func newTally(voters []Voter, own NodeID) tally {
	t := tally{voters, make([]answer, len(voters))}
	t.record(own, granted)
	return t
}

// record notes an answer. Only a voter's first one counts: duplicates of the network change nothing.
func (t *tally) record(id NodeID, a answer) {
	i := slices.IndexFunc(t.voters, func(v Voter) bool { return v.Key.NodeID == id })
	if i >= 0 && t.answers[i] == unanswered {
		t.answers[i] = a
	}
}

func (t *tally) count(a answer) (n int) {
	for _, have := range t.answers {
		if have == a {
			n++
		}
	}
	return n
}

func (t *tally) won() bool { return t.count(granted) >= majority(len(t.voters)) }

// lost tells that no answers to come can make a majority.
func (t *tally) lost() bool {
	return t.count(granted)+t.count(unanswered) < majority(len(t.voters))
}

// granting returns who granted, in the order of the set.
func (t *tally) granting() []NodeID {
	ids := []NodeID{}
	for i, v := range t.voters {
		if t.answers[i] == granted {
			ids = append(ids, v.Key.NodeID)
		}
	}
	return ids
}

// highWatermark returns the end of what a majority has on disk: the n/2-th largest of the voters' n ends (from
// 0), because n/2+1 of them are at least there. ends is sorted by it. Unknown if there are no voters or too
// many ends are Unknown.
//
// It counts for a leader only if it is above the start of its epoch: an entry of an older epoch that is on a
// majority can still be overwritten by a leader that never saw it (Raft 5.4.2), until one of this epoch above
// it is there too.
func highWatermark(ends []Offset) Offset {
	if len(ends) == 0 {
		return Unknown
	}
	slices.SortFunc(ends, func(a, b Offset) int { return cmp.Compare(b, a) })
	return ends[len(ends)/2]
}

// fetchersNeeded is how many voters other than the leader have to fetch from it to show that it has a majority.
func fetchersNeeded(voters int, leaderIsVoter bool) int {
	if leaderIsVoter {
		return majority(voters) - 1
	}
	return majority(voters)
}

// successorDelay is how long a follower waits after the leader resigned before it tries to succeed it: 0 for
// the first of the list, then doubling steps up to longest, and longest for who isn't in the list (position <
// 0). n is the list's length.
func successorDelay(position, n int, longest Millis) Millis {
	switch {
	case position == 0:
		return 0
	case position < 0:
		return longest
	default:
		return min(longest, (longest>>(n-1))<<(position-1))
	}
}
