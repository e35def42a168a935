package raft

import (
	"fmt"
	"strings"
	"testing"
)

func effectName(e Effect) string { return strings.TrimPrefix(fmt.Sprintf("%T", e), "raft.") }

// TestVote has what each role does with a request that passes all checks (KIP-595, KIP-996). A second answer of
// the same vote is the same.
func TestVote(t *testing.T) {
	for _, test := range []struct {
		role                   string
		preVote, preVoteBehind bool // granted when the log is up to date; when it isn't
		vote, voteBehind       bool // in the same epoch
	}{
		{"unattached", true, false, true, false},
		{"unattached, voted for 2", true, false, false, false},
		{"unattached, leader 9 known", true, false, false, false},
		{"prospective", true, false, true, false},
		{"prospective, leader 2 known", true, false, false, false},
		{"candidate", true, false, false, false},
		{"resigned", true, false, false, false},
		{"leader", false, false, false, false},
		{"follower", true, false, false, false},
		{"follower, fetched", false, false, false, false},
		{"follower, fetched, refused", true, false, false, false},
	} {
		for _, ask := range []struct {
			what    string
			preVote bool
			offset  Offset
			want    bool
		}{
			{"pre-vote", true, 10, test.preVote},
			{"pre-vote, behind", true, 9, test.preVoteBehind},
			{"vote", false, 10, test.vote},
			{"vote, behind", false, 9, test.voteBehind},
		} {
			l := inRole(t, test.role)
			lastEpoch := Epoch(2)
			for range 2 {
				r := l.ask(&VoteRequest{Voter: ReplicaKey{1, dirID(1, 1)}, ReplicaEpoch: 3, Replica: ReplicaKey{3, dirID(3, 1)}, LastEpoch: lastEpoch, LastOffset: ask.offset, PreVote: ask.preVote}).(*VoteResponse)
				if r.VoteGranted != ask.want || r.Code != NoError || r.Partition != NoError {
					t.Errorf("%s, %s: %+v", test.role, ask.what, r)
				}
				if ask.preVote {
					if _, ok := effect[WriteQuorumState](l); ok {
						t.Errorf("%s: a pre-vote is recorded", test.role)
					}
				}
			}
			if granted := l.core.Status().Voted; !ask.preVote && ask.want && granted != (ReplicaKey{3, dirID(3, 1)}) {
				t.Errorf("%s: voted for %v", test.role, granted)
			}
		}
	}
}

// The one who got the vote gets it again; its directory id counts if it is known.
func TestVoteAgain(t *testing.T) {
	for _, test := range []struct {
		stored, asks ReplicaKey
		want         bool
	}{
		{ReplicaKey{NodeID: 2}, ReplicaKey{2, dirID(2, 1)}, true},
		{ReplicaKey{2, dirID(2, 1)}, ReplicaKey{2, dirID(2, 1)}, true},
		{ReplicaKey{2, dirID(2, 1)}, ReplicaKey{2, dirID(2, 2)}, false},
		{ReplicaKey{2, dirID(2, 1)}, ReplicaKey{3, dirID(3, 1)}, false},
	} {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.Voted = test.stored })
		r := l.ask(&VoteRequest{Voter: noReplica, ReplicaEpoch: 3, Replica: test.asks, LastEpoch: 2, LastOffset: 10}).(*VoteResponse)
		if r.VoteGranted != test.want {
			t.Errorf("voted for %v, %v asks: %v", test.stored, test.asks, r.VoteGranted)
		}
	}
}

// TestVoteChecks has the checks before, in their order, as a real 4.4.0 leader answered.
func TestVoteChecks(t *testing.T) {
	other, empty, ours := "other", "", "C"
	good := func() *VoteRequest {
		return &VoteRequest{ClusterID: &ours, Voter: ReplicaKey{1, dirID(1, 1)}, ReplicaEpoch: 3, Replica: ReplicaKey{2, dirID(2, 1)}, LastEpoch: 2, LastOffset: 10, PreVote: true}
	}
	for _, test := range []struct {
		reason         string
		change         func(*VoteRequest)
		top, partition Code
	}{
		{"good", func(*VoteRequest) {}, 0, 0},
		{"null cluster id", func(r *VoteRequest) { r.ClusterID = nil }, 0, 0},
		{"empty cluster id", func(r *VoteRequest) { r.ClusterID = &empty }, InconsistentClusterID, 0},
		{"another cluster id, before all", func(r *VoteRequest) { r.ClusterID = &other; r.ReplicaEpoch = 1 }, InconsistentClusterID, 0},
		{"lower epoch", func(r *VoteRequest) { r.ReplicaEpoch = 2 }, 0, FencedLeaderEpoch},
		{"lower epoch, before the rest", func(r *VoteRequest) { r.ReplicaEpoch = 2; r.LastEpoch = 9 }, 0, FencedLeaderEpoch},
		{"pre-vote, last epoch above its epoch", func(r *VoteRequest) { r.LastEpoch = 4 }, 0, InvalidRequest},
		{"pre-vote, last epoch its epoch", func(r *VoteRequest) { r.LastEpoch = 3 }, 0, 0},
		{"vote, last epoch its epoch", func(r *VoteRequest) { r.LastEpoch = 3; r.PreVote = false }, 0, InvalidRequest},
		{"negative offset", func(r *VoteRequest) { r.LastOffset = -1 }, 0, InvalidRequest},
		{"negative last epoch", func(r *VoteRequest) { r.LastEpoch = -1 }, 0, InvalidRequest},
		{"negative replica id", func(r *VoteRequest) { r.Replica.NodeID = -1 }, 0, InvalidRequest},
		{"another voter id", func(r *VoteRequest) { r.Voter.NodeID = 2 }, 0, InvalidVoterKey},
		{"another voter directory", func(r *VoteRequest) { r.Voter.DirectoryID = dirID(1, 9) }, 0, InvalidVoterKey},
		{"no voter directory", func(r *VoteRequest) { r.Voter.DirectoryID = dirID(0, 0) }, 0, 0},
		{"no voter id (v0)", func(r *VoteRequest) { r.Voter = noReplica }, 0, 0},
	} {
		l := inRole(t, "leader")
		q := good()
		test.change(q)
		r := l.ask(q).(*VoteResponse)
		if r.Code != test.top || r.Partition != test.partition || r.VoteGranted {
			t.Errorf("%s: %+v", test.reason, r)
		}
		if r.Code == NoError && (r.LeaderID != 1 || r.Epoch != 3 || r.Endpoint != testEndpoint(1)) {
			t.Errorf("%s: view %+v", test.reason, r.LeaderView)
		}
		if l.core.Status().Role != Leader {
			t.Errorf("%s: the leader steps down", test.reason)
		}
	}
}

// A higher epoch is taken in before the rest is looked at, also from a pre-vote, also if the key is wrong.
func TestHigherEpoch(t *testing.T) {
	for name := range roles {
		for _, preVote := range []bool{true, false} {
			l := inRole(t, name)
			r := l.ask(&VoteRequest{Voter: ReplicaKey{NodeID: 9}, ReplicaEpoch: 7, Replica: ReplicaKey{2, dirID(2, 1)}, LastEpoch: 3, LastOffset: 99, PreVote: preVote}).(*VoteResponse)
			if s := l.core.Status(); s.Role != Unattached || s.Epoch != 7 || s.LeaderID != None || s.Voted.NodeID != None {
				t.Errorf("%s: %v of epoch %d, leader %d, vote %v", name, s.Role, s.Epoch, s.LeaderID, s.Voted)
			}
			if r.Partition != InvalidVoterKey || r.Epoch != 7 || r.LeaderID != None {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// The last epoch of all: nobody can be elected in the next one, and no counter overflows.
func TestLastEpochOfAll(t *testing.T) {
	l := inRole(t, "unattached")
	l.ask(&VoteRequest{Voter: noReplica, ReplicaEpoch: 1<<31 - 1, Replica: ReplicaKey{2, dirID(2, 1)}, LastEpoch: 3, LastOffset: 1, PreVote: true})
	l.after(1005)
	for _, id := range []NodeID{2, 3} {
		l.step(Answered{l.sentVote(id), &VoteResponse{LeaderView: view(1<<31-1, None), VoteGranted: true}})
	}
	if _, ok := effect[Fatal](l); !ok && l.core.Status().Fatal == "" {
		t.Errorf("%v", l.core.Status())
	}
}

func (l *lone) sentVote(to NodeID) RequestID {
	for _, o := range l.core.out.inFlight {
		if _, ok := o.request.(*VoteRequest); ok && o.to == to {
			return o.id
		}
	}
	return 0
}

// Answers name the leader's address on the listener that was asked.
func TestListener(t *testing.T) {
	l := newLone(t, func(cfg *Config, r *Recovered) {
		cfg.Listeners = append(cfg.Listeners, Endpoint{"OTHER", "n1", 9094})
		cfg.StaticVoters = cfg.StaticVoters[:1]
	})
	l.step(Tick{})
	for listener, port := range map[string]uint16{"": 9093, "CONTROLLER": 9093, "other": 9094, "THIRD": 0} {
		l.nextID++
		l.step(Received{ID: l.nextID, Listener: listener, Request: &VoteRequest{Voter: noReplica, ReplicaEpoch: 1, Replica: ReplicaKey{NodeID: 2}}})
		if r := l.answerTo(l.nextID).(*VoteResponse); r.Endpoint.Port != port {
			t.Errorf("%q: %+v", listener, r.Endpoint)
		}
	}
}
