package raft

import (
	"fmt"
	"slices"
	"testing"
)

func data(base, last Offset, epoch Epoch) Batch {
	return Batch{BaseOffset: base, LastOffset: last, Epoch: epoch, Bytes: []byte("x")}
}

// records is an answer with one control batch at offset 10.
func records(control ...ControlRecord) FetchResponse {
	b := Batch{BaseOffset: 10, LastOffset: 9 + Offset(len(control)), Epoch: 3, Control: control, Bytes: []byte("x")}
	return FetchResponse{HighWatermark: 5, Batches: []Batch{b}}
}

// TestFetched has what a follower does with the answer to a Fetch (KIP-595). Its log ends at 10 with epoch 2,
// it is in epoch 3 and knows that 5 are committed.
func TestFetched(t *testing.T) {
	four := Batch{BaseOffset: 10, LastOffset: 13, Epoch: 3, Control: make([]ControlRecord, 2), Bytes: []byte("x")}
	for _, test := range []struct {
		reason  string
		answer  FetchResponse
		end     Offset // of the log afterwards
		hw      Offset
		fatal   bool
		success bool // the fetch timer begins anew
	}{
		{"nothing", FetchResponse{HighWatermark: 5}, 10, 5, false, true},
		{"records", FetchResponse{HighWatermark: 5, Batches: []Batch{data(10, 11, 2), data(12, 12, 3)}}, 13, 5, false, true},
		{"the high watermark is bounded by the log", FetchResponse{HighWatermark: 99, Batches: []Batch{data(10, 11, 3)}}, 12, 12, false, true},
		{"the high watermark is all that the leader has", FetchResponse{HighWatermark: 12, Batches: []Batch{data(10, 11, 3)}}, 12, 12, false, true},
		{"a new leader doesn't know it", FetchResponse{HighWatermark: Unknown}, 10, 5, false, true},
		{"it goes back", FetchResponse{HighWatermark: 4}, 10, 5, true, false},
		{"records of a later epoch are left out", FetchResponse{HighWatermark: 5, Batches: []Batch{data(10, 11, 3), data(12, 12, 4)}}, 12, 5, false, true},
		{"a gap", FetchResponse{HighWatermark: 5, Batches: []Batch{data(11, 11, 3)}}, 10, 5, false, false},
		{"an overlap", FetchResponse{HighWatermark: 5, Batches: []Batch{data(9, 11, 3)}}, 10, 5, false, false},
		{"a gap behind good records: nothing counts", FetchResponse{HighWatermark: 9, Batches: []Batch{data(10, 10, 3), data(12, 12, 3)}}, 10, 5, false, false},
		{"an epoch that goes back", FetchResponse{HighWatermark: 5, Batches: []Batch{data(10, 10, 1)}}, 10, 5, false, false},
		{"an empty batch", FetchResponse{HighWatermark: 5, Batches: []Batch{data(10, 9, 3)}}, 10, 5, false, false},
		{"a batch to the end of all offsets", FetchResponse{HighWatermark: 5, Batches: []Batch{data(10, NoHighWatermark, 3)}}, 10, 5, false, false},
		{"fewer control records than offsets", FetchResponse{HighWatermark: 5, Batches: []Batch{four}}, 10, 5, false, false},
		{"voters under kraft.version 0", FetchResponse{HighWatermark: 5, Batches: []Batch{{BaseOffset: 10, LastOffset: 10, Epoch: 3, Control: []ControlRecord{Voters{}}}}}, 10, 5, false, false},
		{"no voters", records(KRaftVersion{1}, Voters{}), 10, 5, false, false},
		{"a voter twice", records(KRaftVersion{1}, Voters{[]Voter{testVoter(1), testVoter(2), testVoter(1)}}), 10, 5, false, false},
		{"a voter with a negative id", records(KRaftVersion{1}, Voters{[]Voter{{Key: ReplicaKey{NodeID: -1}}}}), 10, 5, false, false},
		{"good voters", records(KRaftVersion{1}, Voters{[]Voter{testVoter(1), testVoter(2)}}), 12, 5, false, true},
		{"kraft.version goes back", records(KRaftVersion{1}, KRaftVersion{0}), 10, 5, false, false},
		{"kraft.version again", records(KRaftVersion{1}, KRaftVersion{1}), 12, 5, false, true},
		{"a kraft.version that this node doesn't know", records(KRaftVersion{2}), 10, 5, true, false},
		{"divergence", FetchResponse{HighWatermark: 5, Diverging: &EpochEnd{2, 7}}, 7, 5, false, true},
		{"divergence in an epoch that is not here", FetchResponse{HighWatermark: 5, Diverging: &EpochEnd{1, 9}}, 5, 5, false, true},
		{"divergence below the high watermark", FetchResponse{HighWatermark: 5, Diverging: &EpochEnd{1, 4}}, 10, 5, true, false},
		{"divergence with nothing to cut", FetchResponse{HighWatermark: 5, Diverging: &EpochEnd{2, 10}}, 10, 5, false, false},
		{"divergence of no epoch", FetchResponse{HighWatermark: 5, Diverging: &EpochEnd{-1, 7}}, 10, 5, false, false},
		{"a snapshot", FetchResponse{HighWatermark: 5, SnapshotID: &SnapshotID{20, 3}}, 10, 5, false, true},
		{"a snapshot below the high watermark", FetchResponse{HighWatermark: 5, SnapshotID: &SnapshotID{4, 1}}, 10, 5, true, false},
		{"the zero checkpoint", FetchResponse{HighWatermark: 5, SnapshotID: &SnapshotID{0, 0}}, 10, 5, false, false},
		{"a snapshot of a later epoch", FetchResponse{HighWatermark: 5, SnapshotID: &SnapshotID{20, 4}}, 10, 5, false, false},
		{"another leader", FetchResponse{HighWatermark: 5, LeaderView: view(3, None)}, 10, 5, false, false},
	} {
		l := inRole(t, "follower, fetched")
		l.after(1)
		r := test.answer
		if r.LeaderView == (LeaderView{}) {
			r.LeaderView = view(3, 2)
		}
		l.step(Answered{l.sentFetch(), &r})
		if told, ok := effect[Committed](l); ok && told.Behind != (r.HighWatermark > test.end) {
			t.Errorf("%s: %+v", test.reason, told)
		}
		s := l.core.Status()
		if s.LogEnd != test.end || s.HighWatermark != test.hw || (s.Fatal != "") != test.fatal {
			t.Errorf("%s: log ends at %d, high watermark %d, fatal %q", test.reason, s.LogEnd, s.HighWatermark, s.Fatal)
		}
		if f := l.core.role.(*follower); (f.fetchBy == l.now+2000) != test.success {
			t.Errorf("%s: the fetch timer ends in %d ms", test.reason, f.fetchBy-l.now)
		}
	}
}

// An epoch that was led without a record makes way for the records of the next leaders, of older epochs too.
func TestEpochWithoutRecords(t *testing.T) {
	for _, test := range []struct {
		reason  string
		end     Offset // of the log
		starts  []EpochStart
		epoch   Epoch
		batches []Batch
		want    []EpochStart
	}{
		{"an older one", 0, []EpochStart{{2, 0}}, 3, []Batch{data(0, 0, 1), data(1, 1, 3)}, []EpochStart{{1, 0}, {3, 1}}},
		{"a newer one", 0, []EpochStart{{2, 0}}, 3, []Batch{data(0, 0, 3)}, []EpochStart{{3, 0}}},
		{"the same", 0, []EpochStart{{2, 0}}, 2, []Batch{data(0, 0, 2)}, []EpochStart{{2, 0}}},
		{"the one before goes on", 10, []EpochStart{{1, 0}, {2, 10}}, 3, []Batch{data(10, 10, 1), data(11, 11, 3)}, []EpochStart{{1, 0}, {3, 11}}},
	} {
		l := newLone(t, func(_ *Config, r *Recovered) {
			r.LogEnd, r.EpochStarts = test.end, test.starts
			r.QuorumState = QuorumState{Epoch: test.epoch, LeaderID: 2, Voted: noReplica}
		})
		l.step(Tick{})
		l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(test.epoch, 2), HighWatermark: Unknown, Batches: test.batches}})
		if !slices.Equal(l.core.log.epochs, test.want) {
			t.Errorf("%s: %v", test.reason, l.core.log.epochs)
		}
	}
}

// The next Fetch acknowledges what has been appended: it waits for the fsync.
func TestAcknowledgement(t *testing.T) {
	l := inRole(t, "follower, fetched")
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5, Batches: []Batch{data(10, 11, 3)}}})
	l.after(100)
	for _, e := range l.effects {
		if _, ok := e.(Send); ok {
			t.Fatalf("%+v", e)
		}
	}
	l.step(Synced{11, 0})
	if len(l.core.out.inFlight) != 0 {
		t.Fatal("a part of it is enough")
	}
	l.step(Synced{12, 0})
	if r := l.sent(2).Request.(*FetchRequest); r.FetchOffset != 12 || r.LastFetchedEpoch != 3 || r.HighWatermark != 5 || r.MaxWaitMillis != 500 {
		t.Errorf("%+v", r)
	}
}

// So does an election: the votes are for the log that is named in the request.
func TestStandsWithDurableLog(t *testing.T) {
	l := inRole(t, "follower, fetched")
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5, Batches: []Batch{data(10, 11, 3)}}})
	if l.after(10_000); l.core.Status().Role != Follower {
		t.Fatalf("%v", l.core.Status().Role)
	}
	l.step(Synced{12, 0})
	if l.core.Status().Role != Prospective {
		t.Fatalf("%v", l.core.Status().Role)
	}
}

// A truncation makes the fsyncs of before worthless: they are of other records.
func TestSyncedOfBefore(t *testing.T) {
	l := inRole(t, "leader") // appends 10-11, which is not synced
	before, _ := effect[AppendLog](l)
	if before.EndOffset != 11 {
		l.t.Fatalf("%+v", before)
	}
	l.ask(&BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 2, Epoch: 4})
	if len(l.core.out.inFlight) != 0 {
		t.Fatal("it fetches with an end that is not durable")
	}
	l.step(Synced{11, 0})
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(4, 2), HighWatermark: Unknown, Diverging: &EpochEnd{2, 10}}})
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(4, 2), HighWatermark: Unknown, Batches: []Batch{data(10, 10, 4)}}})
	l.step(Synced{11, 0})
	if s := l.core.Status(); s.SyncedEnd != 10 {
		t.Errorf("synced up to %d", s.SyncedEnd)
	}
	l.step(Synced{11, 1})
	if s := l.core.Status(); s.SyncedEnd != 11 {
		t.Errorf("synced up to %d", s.SyncedEnd)
	}
}

// One AppendLog has one epoch, and is behind the epoch's start and before the next one's.
func TestAppendOrder(t *testing.T) {
	l := inRole(t, "follower, fetched")
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5, Batches: []Batch{data(10, 11, 2), data(12, 12, 2), data(13, 13, 3)}}})
	var order []string
	for _, e := range l.effects {
		switch e := e.(type) {
		case AppendLog:
			order = append(order, fmt.Sprintf("append to %d", e.EndOffset))
		case WriteEpochStarts:
			order = append(order, fmt.Sprint("epochs ", e.Entries))
		}
	}
	if want := []string{"append to 13", "epochs [{1 0} {2 5} {3 13}]", "append to 14"}; !slices.Equal(order, want) {
		t.Errorf("%v", order)
	}
	if l.step(Synced{14, 0}); l.core.Status().SyncedEnd != 14 {
		t.Errorf("synced to %d", l.core.Status().SyncedEnd)
	}
}

// The order of truncation: the epoch starts before the log, so that an epoch never outlives its records.
func TestTruncationOrder(t *testing.T) {
	l := inRole(t, "follower, fetched")
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5, Diverging: &EpochEnd{1, 5}}})
	var order []string
	for _, e := range l.effects {
		order = append(order, effectName(e))
	}
	if len(order) < 3 || order[0] != "WriteEpochStarts" || order[1] != "TruncateLog" || order[2] != "Send" {
		t.Errorf("%v", order)
	}
}

// A follower whose leader's host refuses stands early, once.
func TestRefused(t *testing.T) {
	fail := func(l *lone, reason SendFailure) { l.step(SendFailed{l.sentFetch(), reason}) }
	t.Run("a broken connection is made anew at once, once", func(t *testing.T) {
		l := inRole(t, "follower, fetched")
		fail(l, Disconnected)
		l.sent(2)
		fail(l, Disconnected)
		for _, o := range l.core.out.inFlight {
			if o.to == 2 {
				t.Error("again at once")
			}
		}
		if l.after(100); l.core.Status().Role != Follower {
			t.Errorf("%v", l.core.Status().Role)
		}
	})
	t.Run("refused: a pre-vote in its turn, in the same epoch", func(t *testing.T) {
		l := inRole(t, "follower, fetched")
		fail(l, Disconnected)
		fail(l, Refused)
		if l.after(4); l.core.Status().Role != Follower {
			t.Error("too early")
		}
		if l.after(1); l.core.Status().Role != Prospective || l.core.Status().Epoch != 3 {
			t.Errorf("%v", l.core.Status())
		}
	})
	early := func() *lone {
		l := inRole(t, "follower, fetched, refused")
		l.after(5)
		return l
	}
	t.Run("one rejection ends it, and the fetch timer goes on", func(t *testing.T) {
		l := early()
		l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, 2)}})
		s := l.core.Status()
		if f, ok := l.core.role.(*follower); !ok || f.fetchBy != 3000 || s.LeaderID != 2 {
			t.Errorf("%v, leader %d", s.Role, s.LeaderID)
		}
		// Refused again: nothing but the fetch timer.
		for l.core.Status().Role == Follower && l.now < 5000 {
			for _, o := range l.core.out.inFlight {
				if o.to == 2 {
					l.step(SendFailed{o.id, Refused})
				}
			}
			l.after(10)
		}
		if l.now != 3005 && l.now != 3000 {
			t.Errorf("the next pre-vote comes at %d", l.now)
		}
	})
	t.Run("a success makes the next refusal count", func(t *testing.T) {
		l := early()
		l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, 2)}})
		l.after(20)
		l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		if l.core.role.(*follower).grantsPreVote() {
			t.Error("it still grants pre-votes")
		}
		fail(l, Refused)
		if l.after(5); l.core.Status().Role != Prospective {
			t.Errorf("%v", l.core.Status().Role)
		}
	})
	t.Run("nobody answers: the fetch timer", func(t *testing.T) {
		l := early()
		l.after(3000 - l.now)
		if p, ok := l.core.role.(*prospective); !ok || p.early != nil {
			t.Errorf("%v", l.core.Status().Role)
		}
	})
	t.Run("a peer that knows no pre-vote doesn't make it raise the epoch", func(t *testing.T) {
		l := early()
		l.step(SendFailed{l.sentVote(3), Unsupported})
		if s := l.core.Status(); s.Role != Follower || s.Epoch != 3 {
			t.Errorf("%v of epoch %d", s.Role, s.Epoch)
		}
	})
	t.Run("granted: a candidate at once", func(t *testing.T) {
		l := early()
		l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, 2), VoteGranted: true}})
		if s := l.core.Status(); s.Role != Candidate || s.Epoch != 4 {
			t.Errorf("%v of epoch %d", s.Role, s.Epoch)
		}
	})
	t.Run("an observer doesn't stand", func(t *testing.T) {
		l := newLone(t, func(cfg *Config, r *Recovered) {
			cfg.NodeID = 9
			cfg.DirectoryID = dirID(9, 1)
			r.QuorumState.LeaderID = 2
		})
		l.step(Tick{})
		fail(l, Refused)
		if l.after(10_000); l.core.Status().Role != Follower {
			t.Errorf("%v", l.core.Status().Role)
		}
	})
}

// The connection to the leader is the same, whatever goes over it.
func TestRefusedRequests(t *testing.T) {
	observer := func(change func(*Config)) func(*Config, *Recovered) {
		return func(cfg *Config, r *Recovered) {
			dynamic(3)(cfg, r)
			change(cfg)
		}
	}
	for _, test := range []struct {
		request string
		change  func(*Config, *Recovered)
		voter   bool
	}{
		{"UpdateVoter", nil, true},
		{"AddVoter", observer(func(cfg *Config) { cfg.NodeID, cfg.DirectoryID, cfg.AutoJoin = 4, dirID(4, 1), true }), false},
		{"RemoveVoter", observer(func(cfg *Config) { cfg.DirectoryID, cfg.AutoJoin = dirID(1, 9), true }), false},
	} {
		start := func() *lone {
			l := newLone(t, func(cfg *Config, r *Recovered) {
				if test.change != nil {
					test.change(cfg, r)
				}
				r.QuorumState.LeaderID = 2
			})
			l.step(Tick{})
			answer := func() {
				l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: Unknown}})
			}
			l.now += 1999
			answer()
			l.now++
			answer()
			if got := requestName(l.sent(2).Request); got != test.request {
				t.Fatalf("%s is sent, not %s", got, test.request)
			}
			return l
		}
		l := start()
		l.step(SendFailed{l.sent(2).ID, Disconnected})
		if got := requestName(l.sent(2).Request); got != "Fetch" {
			t.Errorf("%s: %s", test.request, got)
		}
		l = start()
		l.step(SendFailed{l.sent(2).ID, Refused})
		if l.after(5); (l.core.Status().Role == Prospective) != test.voter {
			t.Errorf("%s: %v", test.request, l.core.Status().Role)
		}
	}
}

// A bootstrap server that doesn't answer is not in the leader's way, and when both answer, the first one counts.
func TestTwoFetches(t *testing.T) {
	both := func() (l *lone, leader, bootstrap RequestID) {
		l = inRole(t, "follower, fetched")
		l.after(1)
		l.step(SendFailed{l.sentFetch(), TimedOut})
		bootstrap = l.sentFetch()
		l.after(20)
		return l, l.sent(2).ID, bootstrap
	}
	records := &FetchResponse{LeaderView: view(3, 2), HighWatermark: 12, Batches: []Batch{data(10, 11, 3)}}
	old := &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}
	for _, leaderFirst := range []bool{true, false} {
		l, first, second := both()
		if !leaderFirst {
			first, second = second, first
		}
		l.step(Answered{first, records})
		l.step(Answered{second, old}) // a high watermark of before, which must not go back
		if s := l.core.Status(); s.LogEnd != 12 || s.HighWatermark != 12 || s.Fatal != "" {
			t.Errorf("leader first %v: %+v", leaderFirst, s)
		}
	}
	l, _, bootstrap := both()
	l.step(Answered{bootstrap, &FetchResponse{Partition: FencedLeaderEpoch, LeaderView: view(4, 3), HighWatermark: Unknown}})
	if s := l.core.Status(); s.LeaderID != 3 {
		t.Errorf("the next leader is not heard of: %+v", s)
	}
}

// A leader keeps a Fetch for less than what makes it seem dead.
func TestFetchWait(t *testing.T) {
	for _, test := range []struct{ request, fetch, want Millis }{
		{2000, 2000, 500}, {1000, 1000, 500}, {800, 2000, 400}, {2000, 300, 150}, {0, 0, 1},
	} {
		c := &Core{cfg: Config{RequestTimeoutMillis: test.request, FetchTimeoutMillis: test.fetch}}
		if got := c.fetchWaitMillis(); got != test.want {
			t.Errorf("timeouts of %d and %d ms: %d", test.request, test.fetch, got)
		}
	}
}

// A node that has been removed and doesn't know whether that is committed raises no epoch for want of pre-votes.
func TestRemovedIsNoShortcut(t *testing.T) {
	for _, removed := range []bool{true, false} {
		l := newLone(t, func(cfg *Config, r *Recovered) {
			dynamic(3)(cfg, r)
			set := []Voter{testVoter(2), testVoter(3)}
			if !removed {
				set = append(set, testVoter(1))
			}
			r.Control = []Batch{{BaseOffset: 0, LastOffset: 0, Epoch: 1, Control: []ControlRecord{Voters{set}}}}
			r.LogEnd, r.EpochStarts = 1, []EpochStart{{1, 0}}
		})
		l.step(Tick{})
		l.after(1005)
		if l.core.Status().Role != Prospective {
			t.Fatalf("%v", l.core.Status().Role)
		}
		l.step(SendFailed{l.sentVote(2), Unsupported})
		if s := l.core.Status(); (s.Role == Candidate) == removed || (s.Epoch == 4) == removed {
			t.Errorf("removed %v: %v of epoch %d", removed, s.Role, s.Epoch)
		}
	}
}

// Elections: the ends of Prospective and Candidate (KIP-595, KIP-996).
func TestElection(t *testing.T) {
	for _, test := range []struct {
		reason string
		role   string
		do     func(*lone)
		want   Role
		epoch  Epoch
		leader NodeID
	}{
		{"a pre-vote is won", "prospective", func(l *lone) {
			l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, None), VoteGranted: true}})
		}, Candidate, 4, None},
		{"a pre-vote is lost", "prospective", func(l *lone) { l.reject(2); l.reject(3) }, Unattached, 3, None},
		{"a pre-vote is lost, the leader of before is followed again", "prospective, leader 2 known", func(l *lone) { l.reject(2); l.reject(3) }, Follower, 3, 2},
		{"a pre-vote comes to nothing: again", "prospective", func(l *lone) { l.after(1005) }, Prospective, 3, None},
		{"a pre-vote comes to nothing, with a leader of before", "prospective, leader 2 known", func(l *lone) { l.after(1005) }, Follower, 3, 2},
		{"peers know no pre-vote", "prospective", func(l *lone) { l.step(SendFailed{l.sentVote(2), Unsupported}) }, Candidate, 4, None},
		{"an election is won", "candidate", func(l *lone) {
			l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, None), VoteGranted: true}})
		}, Leader, 3, 1},
		{"an election is lost: it waits", "candidate", func(l *lone) { l.reject(2); l.reject(3); l.after(1004) }, Candidate, 3, None},
		{"until its timer, in the same epoch", "candidate", func(l *lone) { l.reject(2); l.reject(3); l.after(1005) }, Prospective, 3, None},
		{"a pre-vote's answer that comes to a candidate", "prospective", func(l *lone) {
			late := l.sentVote(2)
			l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, None), VoteGranted: true}})
			l.step(Answered{late, &VoteResponse{LeaderView: view(3, None), VoteGranted: true}})
		}, Candidate, 4, None},
		{"resigned: the next epoch, and a pre-vote at once", "resigned", func(l *lone) { l.after(1005) }, Prospective, 4, None},
	} {
		l := inRole(t, test.role)
		test.do(l)
		if s := l.core.Status(); s.Role != test.want || s.Epoch != test.epoch || s.LeaderID != test.leader {
			t.Errorf("%s: %v of epoch %d, leader %d", test.reason, s.Role, s.Epoch, s.LeaderID)
		}
	}
}

func (l *lone) reject(from NodeID) {
	l.step(Answered{l.sentVote(from), &VoteResponse{LeaderView: view(3, l.core.Status().LeaderID)}})
}

// A vote is asked for again after a failure, and once only while it is under way.
func TestVoteIsRepeated(t *testing.T) {
	l := inRole(t, "candidate")
	q := l.sent(2).Request.(*VoteRequest)
	if q.ReplicaEpoch != 3 || q.Replica != l.core.ownKey() || q.Voter != (ReplicaKey{NodeID: 2}) || q.LastEpoch != 2 || q.LastOffset != 10 || q.PreVote {
		t.Errorf("%+v", q)
	}
	l.step(SendFailed{l.sentVote(2), TimedOut})
	if l.after(19); l.sentVote(2) != 0 {
		t.Error("too early")
	}
	if l.after(1); l.sentVote(2) == 0 {
		t.Error("not again")
	}
}

// Voters whose record is cut are the voters no more.
func TestVotersAreTruncated(t *testing.T) {
	l := newLone(t, dynamic(3))
	l.core.recovered.QuorumState = QuorumState{Version: 1, Epoch: 3, LeaderID: 2, Voted: noReplica}
	l.step(Tick{})
	two := []Voter{testVoter(1), testVoter(2)}
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: Unknown, Batches: []Batch{
		{BaseOffset: 0, LastOffset: 0, Epoch: 1, Control: []ControlRecord{LeaderChange{}}},
		{BaseOffset: 1, LastOffset: 1, Epoch: 1, Control: []ControlRecord{Voters{two}}},
	}}})
	if v, ok := effect[VotersChanged](l); !ok || len(v.Voters) != 2 || l.core.Status().VotersOffset != 1 {
		t.Fatalf("%v", l.effects)
	}
	l.step(Synced{2, 0})
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: Unknown, Diverging: &EpochEnd{1, 1}}})
	if v, ok := effect[VotersChanged](l); !ok || len(v.Voters) != 3 || l.core.Status().VotersOffset != Unknown {
		t.Fatalf("%v", l.effects)
	}
}
