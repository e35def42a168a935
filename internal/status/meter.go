package status

import (
	"math"
	"time"

	"kstorage/internal/raft"
)

// windowLength is how long values are collected before the oldest ones go: two such windows count, as in Kafka.
const windowLength = 30 * time.Second

// Meter measures what happens in the consensus layer over time. It belongs to the loop that runs the core; now is the time
// since the process was started. The zero value is ready for use.
type Meter struct {
	elections, commits, appends, fetches series

	role     raft.Role
	election time.Duration // when it began; 0: there is none
	pending  raft.Offset   // the end of an append whose commit is waited for; 0: none
	appended time.Duration // when that was
}

// Rates are the values of a Meter. An average of nothing is NaN.
type Rates struct {
	Election, Commit Latency
	Append, Fetch    float64 // records a second, appended as the leader, or fetched from it
}

// Latency is in milliseconds.
type Latency struct{ Avg, Max float64 }

// Role tells which role the core has behind a step. An election is measured from the first vote that is asked for to
// the role that it ends with.
func (m *Meter) Role(now time.Duration, r raft.Role) {
	if r == m.role {
		return
	}
	m.role = r
	m.pending = 0
	switch r {
	case raft.Prospective, raft.Candidate:
		if m.election == 0 {
			m.election = now
		}
	case raft.Leader, raft.Follower:
		if m.election != 0 {
			m.elections.add(now, milliseconds(now-m.election))
		}
		m.election = 0
	case raft.Unattached: // of a higher epoch: the election goes on elsewhere
	case raft.Resigned:
		m.election = 0
	}
}

// Appended tells that records were appended, so that the log ends at end. Of the appends that wait for their commit one
// at a time is measured.
func (m *Meter) Appended(now time.Duration, records int64, end raft.Offset) {
	if m.role != raft.Leader {
		m.fetches.add(now, float64(records))
		return
	}
	m.appends.add(now, float64(records))
	if m.pending == 0 {
		m.pending, m.appended = end, now
	}
}

// Committed tells of the high watermark.
func (m *Meter) Committed(now time.Duration, highWatermark raft.Offset) {
	if m.pending != 0 && m.pending <= highWatermark {
		m.commits.add(now, milliseconds(now-m.appended))
		m.pending = 0
	}
}

// Rates returns the values of now.
func (m *Meter) Rates(now time.Duration) Rates {
	return Rates{Election: m.elections.latency(now), Commit: m.commits.latency(now), Append: m.appends.rate(now), Fetch: m.fetches.rate(now)}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// series has two windows: the one that is being filled, and the one before.
type series struct {
	began   time.Duration // of windows[0]
	windows [2]window
}

type window struct{ n, sum, max float64 }

func (s *series) roll(now time.Duration) {
	switch past := now - s.began; {
	case past >= 2*windowLength:
		s.windows, s.began = [2]window{}, now-now%windowLength
	case past >= windowLength:
		s.windows[0], s.windows[1] = window{}, s.windows[0]
		s.began += windowLength
	}
}

func (s *series) add(now time.Duration, v float64) {
	s.roll(now)
	w := &s.windows[0]
	w.n++
	w.sum += v
	w.max = max(w.max, v)
}

func (s *series) latency(now time.Duration) Latency {
	s.roll(now)
	w, before := s.windows[0], s.windows[1]
	if w.n+before.n == 0 {
		return Latency{math.NaN(), math.NaN()}
	}
	return Latency{Avg: (w.sum + before.sum) / (w.n + before.n), Max: max(w.max, before.max)}
}

// rate is that of a whole window at least, as in Kafka: a process that has just been started has no high ones.
func (s *series) rate(now time.Duration) float64 {
	s.roll(now)
	return (s.windows[0].sum + s.windows[1].sum) / (windowLength + now - s.began).Seconds()
}
