package status

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"kstorage/internal/raft"
)

func TestMeter(t *testing.T) {
	m := &Meter{}
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	if r := m.Rates(0); !math.IsNaN(r.Commit.Avg) || !math.IsNaN(r.Election.Max) || r.Append != 0 {
		t.Errorf("nothing has happened: %+v", r)
	}
	// An election of two rounds, with a change of epoch in between.
	m.Role(at(1), raft.Prospective)
	m.Role(at(1.1), raft.Candidate)
	m.Role(at(1.2), raft.Unattached)
	m.Role(at(1.3), raft.Prospective)
	m.Role(at(1.5), raft.Leader)
	// Of two appends the first one is measured, then the next behind its commit.
	m.Appended(at(2), 3, 3)
	m.Appended(at(2.001), 1, 4)
	m.Committed(at(2.002), 2)
	m.Committed(at(2.004), 4)
	m.Appended(at(3), 2, 6)
	m.Committed(at(3.002), 6)
	r := m.Rates(at(4))
	if r.Election != (Latency{500, 500}) || r.Commit != (Latency{3, 4}) || math.Abs(r.Append-6.0/34) > 1e-9 || r.Fetch != 0 {
		t.Errorf("%+v", r)
	}
	// What was not committed when the leadership was lost does not count.
	m.Appended(at(40), 1, 7)
	m.Role(at(41), raft.Follower)
	m.Committed(at(42), 7)
	m.Appended(at(42), 12, 19)
	r = m.Rates(at(45))
	if r.Commit != (Latency{3, 4}) || math.Abs(r.Append-7.0/45) > 1e-9 || math.Abs(r.Fetch-12.0/45) > 1e-9 {
		t.Errorf("in the next window: %+v", r)
	}
	r = m.Rates(at(61))
	if !math.IsNaN(r.Commit.Avg) || r.Append == 0 {
		t.Errorf("in the one behind: %+v", r)
	}
	if r = m.Rates(at(1000)); r.Append != 0 || r.Fetch != 0 {
		t.Errorf("long after: %+v", r)
	}
}

func TestEvents(t *testing.T) {
	var events Events
	var out strings.Builder
	log := slog.New(events.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	log.Debug("no event")
	log.With("a", 1).WithGroup("g").Warn("text", "b", "two words")
	log.Info("long \xff", "x", strings.Repeat("ü", maxEventBytes))
	recent := events.Recent()
	if len(recent) != 2 || recent[0].Text != "text" || recent[0].Attrs != "a=1 g.b=two words" || recent[0].Level != slog.LevelWarn || recent[0].Time.IsZero() {
		t.Errorf("%+v", recent)
	}
	if long := recent[1]; long.Text != "long \uFFFD" || len(long.Attrs) > maxEventBytes+len("…") || !strings.HasSuffix(long.Attrs, "ü…") {
		t.Errorf("%+v", long)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), `a=1 g.b="two words"`) {
		t.Errorf("the log itself: %s", out.String())
	}
	for i := range 3 * maxEvents {
		log.Info("many", "i", i)
	}
	if recent = events.Recent(); len(recent) != maxEvents || recent[maxEvents-1].Attrs != "i=191" || recent[0].Attrs != "i=128" {
		t.Errorf("%d: %+v", len(recent), recent)
	}
}
