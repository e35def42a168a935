package sim

import (
	"slices"
	"testing"

	"kstorage/internal/raft"
)

// quiet is a cluster in which nothing happens but what a test does at 8 s.
func quiet(do func(*world)) *scenario {
	done := false
	return base("quiet").with(func(s *scenario) {
		s.voters, s.observers, s.quick = []int{3, 5}, 0, 0
		s.faults = []fault{{second, func(w *world) {
			w.slowDisks = false
			w.network.delay = min(w.network.delay, millisecond)
			for _, m := range w.machines {
				m.old = false
			}
			if w.now > 8*second && !done {
				done = true
				do(w)
			}
		}}}
		s.faultsUntil = 15 * second
	})
}

// docs/design.md 6: a crashed leader is replaced in milliseconds, since its host refuses connections. Now and then
// two followers stand at once and the vote splits.
func TestACrashedLeaderIsReplacedInMilliseconds(t *testing.T) {
	const runs = 100
	var millis []micros
	for seed := range uint64(runs) {
		r := run(quiet(func(w *world) {
			killed, epoch, machine := w.now, w.leader().status.Epoch, w.leader().machine
			machine.crash(false)
			machine.powerOff = false
			var look func()
			look = func() {
				if p := w.leader(); p != nil && p.status.Epoch > epoch {
					millis = append(millis, (w.now-killed)/millisecond)
				} else {
					w.after(100, look)
				}
			}
			look()
		}), seed, tamper{}, nil)
		if r.violation != "" {
			t.Fatalf("seed %d: %s", seed, r.violation)
		}
	}
	slices.Sort(millis)
	if len(millis) != runs || millis[runs*9/10] > 50 {
		t.Errorf("%d of %d crashed leaders replaced, after milliseconds: %v", len(millis), runs, millis)
	}
}

// docs/design.md 6: connections that break, and can be made again, change nothing.
func TestALeaderThatLosesItsConnectionsKeepsItsEpoch(t *testing.T) {
	for seed := range uint64(50) {
		var leader *process
		var epoch raft.Epoch
		r := run(quiet(func(w *world) {
			leader = w.leader()
			epoch = leader.status.Epoch
			for _, m := range w.machines {
				w.network.disconnect(m.process, func(*call) bool { return true })
			}
		}), seed, tamper{}, nil)
		if r.violation != "" || leader == nil || leader.status.Role != raft.Leader || leader.status.Epoch != epoch {
			t.Errorf("seed %d: %s: epoch %d became %+v", seed, r.violation, epoch, leader.status)
		}
	}
}
