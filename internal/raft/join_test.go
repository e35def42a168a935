package raft

import "testing"

// TestUpdateRequest has what a follower tells the leader of itself, and when (KIP-853).
func TestUpdateRequest(t *testing.T) {
	joins := func(cfg *Config, r *Recovered) {
		dynamic(3)(cfg, r)
		cfg.NodeID, cfg.DirectoryID, cfg.Listeners = 4, dirID(4, 1), []Endpoint{testEndpoint(4)}
		cfg.AutoJoin = true
	}
	for _, test := range []struct {
		reason string
		change func(*Config, *Recovered)
		want   Request // its type; nil: a Fetch
	}{
		{"kraft.version 0: once an epoch", nil, &UpdateVoterRequest{}},
		{"kraft.version 1, nothing new", dynamic(3), nil},
		{"kraft.version 1, another port", func(cfg *Config, r *Recovered) {
			dynamic(3)(cfg, r)
			cfg.Listeners = []Endpoint{{"CONTROLLER", "n1", 9999}}
		}, &UpdateVoterRequest{}},
		{"an observer without auto-join", func(cfg *Config, r *Recovered) { joins(cfg, r); cfg.AutoJoin = false }, nil},
		{"auto-join", joins, &AddVoterRequest{}},
		{"auto-join of a broker", func(cfg *Config, r *Recovered) { joins(cfg, r); cfg.CanBeVoter = false }, nil},
		{"auto-join without a cluster id", func(cfg *Config, r *Recovered) { joins(cfg, r); cfg.ClusterID = "" }, nil},
		{"auto-join under kraft.version 0", func(cfg *Config, r *Recovered) { cfg.NodeID = 9; cfg.AutoJoin = true }, nil},
		{"auto-join after the disk was replaced", func(cfg *Config, r *Recovered) {
			joins(cfg, r)
			cfg.NodeID = 3
		}, &RemoveVoterRequest{}},
	} {
		l := newLone(t, func(cfg *Config, r *Recovered) {
			if test.change != nil {
				test.change(cfg, r)
			}
			r.QuorumState.LeaderID = 2
		})
		l.step(Tick{})
		answer := func() {
			s := l.core.Status()
			l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(s.Epoch, 2), HighWatermark: Unknown}})
		}
		l.now += 1999
		answer()
		l.sentFetch()
		l.now++
		answer()
		switch r := l.sent(2).Request.(type) {
		case *FetchRequest:
			if test.want != nil {
				t.Errorf("%s: a Fetch", test.reason)
			}
		case *UpdateVoterRequest:
			if _, ok := test.want.(*UpdateVoterRequest); !ok || r.Voter != l.core.ownKey() || r.MaxKRaftVersion != 1 || len(r.Endpoints) != 1 {
				t.Errorf("%s: %+v", test.reason, r)
			}
			// Answered, it isn't sent again under kraft.version 0.
			l.step(Answered{l.sent(2).ID, &UpdateVoterResponse{LeaderView: view(3, 2)}})
			l.now += 2000
			answer()
			if _, again := l.sent(2).Request.(*UpdateVoterRequest); again != (test.change != nil) {
				t.Errorf("%s: again %v", test.reason, again)
			}
		case *AddVoterRequest:
			if _, ok := test.want.(*AddVoterRequest); !ok || r.Voter != l.core.ownKey() || r.AckWhenCommitted || r.TimeoutMillis != 2000 {
				t.Errorf("%s: %+v", test.reason, r)
			}
		case *RemoveVoterRequest:
			if _, ok := test.want.(*RemoveVoterRequest); !ok || r.Voter != (ReplicaKey{3, dirID(3, 1)}) {
				t.Errorf("%s: %+v", test.reason, r)
			}
		}
	}
}

// A leader that doesn't know UpdateRaftVoter, or refuses it, goes on being fetched from.
func TestUpdateRefused(t *testing.T) {
	for _, test := range []struct {
		reason string
		code   Code
		again  bool // in the next period
	}{
		{"done", NoError, false},
		{"unknown to the leader", UnsupportedVersion, false},
		{"another change is under way", RequestTimedOut, true},
		{"not a voter there", VoterNotFound, true},
		{"invalid", InvalidRequest, true},
	} {
		l := inRole(t, "follower, fetched")
		l.after(1999)
		l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		l.after(1)
		l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		l.step(Answered{l.sent(2).ID, &UpdateVoterResponse{Code: test.code, LeaderView: view(3, 2)}})
		l.after(20)
		l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		l.after(1980)
		l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		if _, again := l.sent(2).Request.(*UpdateVoterRequest); again != test.again || l.core.Status().Fatal != "" {
			t.Errorf("%s: again %v, fatal %q", test.reason, again, l.core.Status().Fatal)
		}
	}
}

// TestShutdown: who waits for what.
func TestShutdown(t *testing.T) {
	for _, test := range []struct {
		role string
		want Role
		done bool // at once
	}{
		{"follower", Follower, true},
		{"leader", Resigned, false},
		{"resigned", Resigned, false},
		{"candidate", Unattached, false},
		{"prospective", Unattached, false},
		{"prospective, leader 2 known", Unattached, true},
		{"unattached", Unattached, false},
	} {
		l := inRole(t, test.role)
		l.step(Shutdown{})
		_, done := effect[ShutdownDone](l)
		if s := l.core.Status(); s.Role != test.want || done != test.done {
			t.Errorf("%s: %v, done %v", test.role, s.Role, done)
		}
		if done {
			continue
		}
		l.step(Shutdown{}) // a second one changes nothing
		for end := l.now + 4999; l.now < end; {
			l.after(min(100, end-l.now))
			if s := l.core.Status(); s.Role != test.want {
				t.Errorf("%s: becomes %v", test.role, s.Role)
			}
			if _, done := effect[ShutdownDone](l); done {
				t.Errorf("%s: it ends too early", test.role)
			}
		}
		l.after(1)
		if _, done := effect[ShutdownDone](l); !done {
			t.Errorf("%s: it doesn't end", test.role)
		}
	}
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11)) // waits
	waits := l.nextID
	l.step(Shutdown{})
	if l.answerTo(waits) == nil {
		t.Errorf("a request is not answered: %v", l.effects)
	}
	l.ask(&BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 2, Epoch: 4})
	if _, done := effect[ShutdownDone](l); !done {
		t.Errorf("another leader is known: %v", l.effects)
	}
	if l.after(5000); len(l.effects) > 0 {
		t.Errorf("%v", l.effects)
	}
}
