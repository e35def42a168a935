package raft

import (
	"strings"
	"testing"
)

// TestResponses has what an answer does by its error and its view of the leader (KIP-595). The node is in epoch 3.
func TestResponses(t *testing.T) {
	for _, test := range []struct {
		reason string
		role   string
		code   Code
		view   LeaderView
		// The state afterwards; fatal: the node stops.
		want   Role
		epoch  Epoch
		leader NodeID
		fatal  bool
	}{
		{"an older epoch is ignored", "prospective", NoError, view(2, 3), Prospective, 3, None, false},
		{"as is a request from the future", "prospective", UnknownLeaderEpoch, view(3, 3), Prospective, 3, None, false},
		{"a newer epoch with a leader", "candidate", FencedLeaderEpoch, view(5, 3), Follower, 5, 3, false},
		{"a newer epoch with a leader, without an error", "candidate", NoError, view(5, 3), Follower, 5, 3, false},
		{"a newer epoch without a leader", "candidate", FencedLeaderEpoch, view(5, None), Unattached, 5, None, false},
		{"a newer epoch of a leader without an address", "candidate", FencedLeaderEpoch, view(5, 8), Unattached, 5, 8, false},
		{"the leader of this epoch", "candidate", NoError, view(3, 2), Follower, 3, 2, false},
		{"the leader of this epoch, by an error", "prospective", NotLeaderOrFollower, view(3, 2), Follower, 3, 2, false},
		{"what is known already", "prospective, leader 2 known", NoError, view(3, 2), Prospective, 3, 2, false},
		{"another leader of this epoch", "prospective, leader 2 known", NoError, view(3, 3), Prospective, 3, 2, true},
		{"this node as the leader of this epoch: its disk forgot", "candidate", NoError, view(3, 1), Resigned, 3, 1, false},
		{"this node as the leader of a newer epoch", "candidate", NoError, view(5, 1), Resigned, 5, 1, false},
		{"busy", "prospective", BrokerNotAvailable, view(3, None), Prospective, 3, None, false},
		{"a wrong voter key", "prospective", InvalidVoterKey, view(3, None), Prospective, 3, None, false},
		{"invalid", "prospective", InvalidRequest, view(3, None), Prospective, 3, None, true},
	} {
		l := inRole(t, test.role)
		l.step(Answered{l.sentVote(2), &VoteResponse{Partition: test.code, LeaderView: test.view}})
		s := l.core.Status()
		if s.Role != test.want || s.Epoch != test.epoch || s.LeaderID != test.leader || (s.Fatal != "") != test.fatal {
			t.Errorf("%s: %v of epoch %d, leader %d, fatal %q", test.reason, s.Role, s.Epoch, s.LeaderID, s.Fatal)
		}
	}
}

// A node that is told that it led an epoch it forgot must not vote in it: it did, for itself. And not lead it again,
// also after a crash.
func TestForgottenEpoch(t *testing.T) {
	for _, name := range []string{"unattached", "prospective", "candidate"} {
		for _, epoch := range []Epoch{3, 5} {
			l := inRole(t, name)
			if !l.core.learn(epoch, 1, nil) {
				t.Fatalf("%s: refused", name)
			}
			l.step(Tick{})
			if s := l.core.Status(); s.Role != Resigned || s.Epoch != epoch || s.LeaderID != 1 || l.core.written.LeaderID != 1 {
				t.Errorf("%s: %v of epoch %d, leader %d, written %v", name, s.Role, s.Epoch, s.LeaderID, l.core.written)
			}
			r := l.ask(&VoteRequest{Voter: noReplica, ReplicaEpoch: epoch, Replica: ReplicaKey{3, dirID(3, 1)}, LastEpoch: 2, LastOffset: 10}).(*VoteResponse)
			if r.VoteGranted {
				t.Errorf("%s: granted", name)
			}
		}
	}
	for _, name := range []string{"unattached, voted for 2", "follower"} {
		if inRole(t, name).core.learn(3, 1, nil) {
			t.Errorf("%s: believes that it led", name)
		}
	}
}

// Errors of the whole answer change nothing, whatever else stands in it.
func TestTopLevelErrors(t *testing.T) {
	for code, fatal := range map[Code]bool{InconsistentClusterID: false, BrokerNotAvailable: false, UnknownServerError: false, InvalidRequest: false, ClusterAuthorization: true} {
		l := inRole(t, "follower")
		l.step(Answered{l.sentFetch(), &FetchResponse{Code: code, LeaderView: LeaderView{LeaderID: 3, Epoch: 9}}})
		s := l.core.Status()
		if s.Epoch != 3 || (s.Fatal != "") != fatal {
			t.Errorf("code %d: epoch %d, fatal %q", code, s.Epoch, s.Fatal)
		}
		notice, ok := effect[Notice](l)
		want := !fatal && code != BrokerNotAvailable
		if said := (Notice{"node 2 answers Fetch with an error", 2, code}); ok != want || want && notice != said {
			t.Errorf("code %d: notice %+v", code, notice)
		}
	}
}

func (l *lone) sentFetch() RequestID {
	for _, o := range l.core.out.inFlight {
		switch o.request.(type) {
		case *FetchRequest, *FetchSnapshotRequest:
			return o.id
		}
	}
	l.t.Fatal("no fetch is under way")
	return 0
}

// Answers that are late, come twice or belong to another API don't matter.
func TestStrayAnswers(t *testing.T) {
	l := inRole(t, "candidate")
	id := l.sentVote(2)
	grant := &VoteResponse{LeaderView: view(3, None), VoteGranted: true}
	l.step(Answered{999, grant})
	l.step(Answered{id, &FetchResponse{LeaderView: view(3, 2)}})
	if s := l.core.Status(); s.Role != Candidate {
		t.Fatalf("%v", s.Role)
	}
	l.step(Answered{id, grant}) // it was ended by the wrong answer
	if s := l.core.Status(); s.Role != Candidate {
		t.Fatalf("%v", s.Role)
	}
	l.after(20)
	id = l.sentVote(2)
	l.step(Answered{id, grant})
	if s := l.core.Status(); s.Role != Leader {
		t.Fatalf("%v", s.Role)
	}
	l.step(Answered{id, &VoteResponse{LeaderView: view(3, None)}})
	if s := l.core.Status(); s.Role != Leader {
		t.Fatalf("%v", s.Role)
	}
}

// One request a destination, and a pause after a failure.
func TestRequests(t *testing.T) {
	var r requests
	r.inFlight = []outgoing{{id: 1, to: 2, by: 100, request: &VoteRequest{}}}
	r.backOff(3, 50)
	for _, test := range []struct {
		to   NodeID
		now  Millis
		want bool
	}{{2, 0, false}, {3, 49, false}, {3, 50, true}, {4, 0, true}} {
		if got := r.ready(test.to, test.now); got != test.want {
			t.Errorf("node %d at %d: %v", test.to, test.now, got)
		}
	}
	if r.deadline() != 50 {
		t.Errorf("deadline %d", r.deadline())
	}
	if late := r.expire(99); len(late) != 0 || r.deadline() != 100 {
		t.Errorf("%v, deadline %d", late, r.deadline())
	}
	if late := r.expire(100); len(late) != 1 || r.deadline() != never {
		t.Errorf("%v, deadline %d", late, r.deadline())
	}
}

// BeginQuorumEpoch and EndQuorumEpoch (KIP-595).
func TestBeginAndEnd(t *testing.T) {
	other := "other"
	endpoints := []Endpoint{testEndpoint(3), {"OTHER", "n3", 9094}}
	for _, test := range []struct {
		reason    string
		role      string
		request   Request
		code      Code // top level if cluster
		cluster   bool
		want      Role
		epoch     Epoch
		leader    NodeID
		endpoints int
	}{
		{"the leader of this epoch", "candidate", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 3, Endpoints: endpoints}, 0, false, Follower, 3, 3, 2},
		{"v0 names no endpoints: those of the voter set", "candidate", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 3}, 0, false, Follower, 3, 3, 1},
		{"a newer epoch", "leader", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 5, Endpoints: endpoints}, 0, false, Follower, 5, 3, 2},
		{"an address at last", "unattached, leader 9 known", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 9, Epoch: 3, Endpoints: endpoints}, 0, false, Follower, 3, 9, 2},
		{"still no address", "unattached, leader 9 known", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 9, Epoch: 3}, 0, false, Unattached, 3, 9, 0},
		{"more endpoints", "follower", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 2, Epoch: 3, Endpoints: endpoints}, 0, false, Follower, 3, 2, 2},
		{"an older epoch", "follower", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 2}, FencedLeaderEpoch, false, Follower, 3, 2, 1},
		{"another leader of this epoch", "follower", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 3}, InvalidRequest, false, Follower, 3, 2, 1},
		{"the leader itself hears itself", "leader", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 1, Epoch: 3}, 0, false, Leader, 3, 1, 0},
		{"somebody has this node's id", "follower", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 1, Epoch: 9}, InvalidRequest, false, Follower, 3, 2, 1},
		{"a negative id", "follower", &BeginQuorumEpochRequest{Voter: noReplica, LeaderID: -1, Epoch: 3}, InvalidRequest, false, Follower, 3, 2, 1},
		{"another voter's key, after the leader is taken in", "candidate", &BeginQuorumEpochRequest{Voter: ReplicaKey{NodeID: 2}, LeaderID: 3, Epoch: 3}, InvalidVoterKey, false, Follower, 3, 3, 1},
		{"another cluster", "candidate", &BeginQuorumEpochRequest{ClusterID: &other, Voter: noReplica, LeaderID: 3, Epoch: 5}, InconsistentClusterID, true, Candidate, 3, None, 0},
		{"an end of an older epoch", "follower", &EndQuorumEpochRequest{LeaderID: 3, Epoch: 2}, FencedLeaderEpoch, false, Follower, 3, 2, 1},
		{"an end of a newer epoch", "follower", &EndQuorumEpochRequest{LeaderID: 3, Epoch: 4}, 0, false, Follower, 4, 3, 1},
		{"an end in this node's name", "leader", &EndQuorumEpochRequest{LeaderID: 1, Epoch: 3}, InvalidRequest, false, Leader, 3, 1, 0},
		{"an end by another leader of this epoch", "follower", &EndQuorumEpochRequest{LeaderID: 3, Epoch: 3}, InvalidRequest, false, Follower, 3, 2, 1},
		{"an end in another cluster", "follower", &EndQuorumEpochRequest{ClusterID: &other, LeaderID: 2, Epoch: 3}, InconsistentClusterID, true, Follower, 3, 2, 1},
	} {
		l := inRole(t, test.role)
		var top, partition Code
		switch r := l.ask(test.request).(type) {
		case *BeginQuorumEpochResponse:
			top, partition = r.Code, r.Partition
		case *EndQuorumEpochResponse:
			top, partition = r.Code, r.Partition
		}
		if test.cluster {
			partition, top = top, partition
		}
		if n, _ := effect[Notice](l); test.cluster != (n.Code == InconsistentClusterID && n.From == None && strings.Contains(n.Text, other)) {
			t.Errorf("%s: notice %+v", test.reason, n)
		}
		s := l.core.Status()
		if partition != test.code || top != NoError || s.Role != test.want || s.Epoch != test.epoch || s.LeaderID != test.leader || len(l.core.state.endpoints) != test.endpoints {
			t.Errorf("%s: codes %d and %d, %v of epoch %d, leader %d at %v", test.reason, top, partition, s.Role, s.Epoch, s.LeaderID, l.core.state.endpoints)
		}
	}
}

// Who is named first by a leader that resigned stands at once; others wait their turn.
func TestSuccessors(t *testing.T) {
	own := ReplicaKey{1, dirID(1, 1)}
	for _, test := range []struct {
		reason     string
		successors []ReplicaKey
		wait       Millis
	}{
		{"first", []ReplicaKey{own, {NodeID: 3}}, 0},
		{"second", []ReplicaKey{{NodeID: 3}, own}, 500},
		{"second, without directory ids", []ReplicaKey{{NodeID: 3}, {NodeID: 1}}, 500},
		{"with another disk: not named", []ReplicaKey{{1, dirID(1, 9)}}, 1000},
		{"nobody named", nil, 1000},
	} {
		l := inRole(t, "follower, fetched")
		l.ask(&EndQuorumEpochRequest{LeaderID: 2, Epoch: 3, Successors: test.successors})
		if test.wait > 0 {
			if l.after(test.wait - 1); l.core.Status().Role != Follower {
				t.Errorf("%s: too early", test.reason)
			}
			l.after(1)
		}
		if l.core.Status().Role != Prospective {
			t.Errorf("%s: %v", test.reason, l.core.Status().Role)
		}
	}
}
