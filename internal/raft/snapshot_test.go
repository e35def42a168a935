package raft

import (
	"slices"
	"testing"
)

// downloading is a follower that has been told to fetch the snapshot 20-3, and has the first 1000 of 1500 bytes.
func downloading(t *testing.T) *lone {
	l := inRole(t, "follower, fetched")
	l.step(Answered{l.sentFetch(), &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5, SnapshotID: &SnapshotID{20, 3}}})
	if q := l.sent(2).Request.(*FetchSnapshotRequest); q.SnapshotID != (SnapshotID{20, 3}) || q.Position != 0 || q.Epoch != 3 || q.MaxBytes != 1<<20 {
		t.Fatalf("%+v", q)
	}
	l.step(Answered{l.sentFetch(), chunk(0, 1000)})
	if w, ok := effect[WriteSnapshotChunk](l); !ok || w.Position != 0 || len(w.Bytes) != 1000 {
		t.Fatalf("%+v", w)
	}
	if q := l.sent(2).Request.(*FetchSnapshotRequest); q.Position != 1000 {
		t.Fatalf("%+v", q)
	}
	return l
}

func chunk(position int64, bytes int) *FetchSnapshotResponse {
	return &FetchSnapshotResponse{LeaderView: view(3, 2), SnapshotID: SnapshotID{20, 3}, SizeBytes: 1500, Position: position, Bytes: make([]byte, bytes)}
}

// TestDownload has what ends a download, and what doesn't (KIP-630).
func TestDownload(t *testing.T) {
	for _, test := range []struct {
		reason  string
		answer  func(*FetchSnapshotResponse)
		dropped bool
		install bool
	}{
		{"the rest", func(*FetchSnapshotResponse) {}, false, true},
		{"a part of the rest", func(r *FetchSnapshotResponse) { r.Bytes = r.Bytes[:100] }, false, false},
		{"more than there is", func(r *FetchSnapshotResponse) { r.Bytes = make([]byte, 501) }, true, false},
		{"nothing", func(r *FetchSnapshotResponse) { r.Bytes = nil }, true, false},
		{"another place", func(r *FetchSnapshotResponse) { r.Position = 999 }, true, false},
		{"another size", func(r *FetchSnapshotResponse) { r.SizeBytes = 1600 }, true, false},
		{"another snapshot", func(r *FetchSnapshotResponse) { r.SnapshotID.EndOffset = 21 }, true, false},
		{"no snapshot", func(r *FetchSnapshotResponse) { r.SnapshotID.EndOffset = -1 }, true, false},
		{"it is gone", func(r *FetchSnapshotResponse) { r.Partition = SnapshotNotFound }, true, false},
		{"position out of range", func(r *FetchSnapshotResponse) { r.Partition = PositionOutOfRange }, true, false},
		{"Kafka 4.4.0 cannot say why", func(r *FetchSnapshotResponse) { r.Code = UnknownServerError }, true, false},
		{"busy", func(r *FetchSnapshotResponse) { r.Partition = BrokerNotAvailable }, false, false},
		{"of another epoch", func(r *FetchSnapshotResponse) { r.Epoch = 2 }, false, false},
	} {
		l := downloading(t)
		r := chunk(1000, 500)
		test.answer(r)
		l.step(Answered{l.sentFetch(), r})
		_, dropped := effect[DropSnapshotChunks](l)
		_, install := effect[InstallSnapshot](l)
		if dropped != test.dropped || install != test.install || l.core.Status().Fatal != "" {
			t.Errorf("%s: %v", test.reason, l.effects)
		}
		f := l.core.role.(*follower)
		if goesOn := !test.dropped && !test.install; (f.download != nil) != goesOn {
			t.Errorf("%s: the download goes on: %v", test.reason, !goesOn)
		}
		l.after(20)
		if asks := len(l.core.out.inFlight) > 0; asks == test.install {
			t.Errorf("%s: asks for more: %v", test.reason, asks)
		}
	}
}

// A leader's download is worthless with the next leader, and dropped. The wish for another snapshot too.
func TestDownloadEnds(t *testing.T) {
	l := downloading(t)
	l.ask(&BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 4})
	if _, ok := effect[DropSnapshotChunks](l); !ok {
		t.Errorf("%v", l.effects)
	}
	if _, ok := l.sent(3).Request.(*FetchRequest); !ok {
		t.Errorf("%v", l.effects)
	}

	// A pre-vote of the first kind keeps it: the same follower may go on.
	l = downloading(t)
	l.step(SendFailed{l.sentFetch(), Refused})
	l.after(5)
	l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, 2)}})
	if q, ok := l.sent(2).Request.(*FetchSnapshotRequest); !ok || q.Position != 1000 {
		t.Errorf("%v", l.effects)
	}
}

// TestInstall: the snapshot replaces the log, whatever the role has become meanwhile.
func TestInstall(t *testing.T) {
	s := Snapshot{ID: SnapshotID{20, 3}, SizeBytes: 1500, KRaftVersion: 1, Voters: []Voter{testVoter(1), testVoter(2)}}
	for _, newLeader := range []bool{false, true} {
		l := downloading(t)
		l.step(Answered{l.sentFetch(), chunk(1000, 500)})
		if l.after(10_000); l.core.Status().Role != Follower {
			t.Fatalf("it stands for election with a log that is about to go: %v", l.core.Status().Role)
		}
		if newLeader {
			l.ask(&VoteRequest{Voter: noReplica, Replica: ReplicaKey{NodeID: 3}, ReplicaEpoch: 4, LastEpoch: 3, LastOffset: 50})
		}
		l.step(SnapshotInstalled{Snapshot{ID: SnapshotID{19, 3}}}) // of nobody's asking
		if l.core.Status().LogEnd != 10 {
			t.Fatal("another snapshot counts")
		}
		l.step(SnapshotInstalled{s})
		var order []string
		for _, e := range l.effects {
			order = append(order, effectName(e))
		}
		if want := []string{"WriteEpochStarts", "ResetLog", "VotersChanged", "LoadSnapshot", "Committed"}; !slices.Equal(order[:len(want)], want) {
			t.Errorf("%v", order)
		}
		st := l.core.Status()
		if st.LogStart != 20 || st.LogEnd != 20 || st.SyncedEnd != 20 || st.HighWatermark != 20 || st.LastEpoch != 3 || st.KRaftVersion != 1 || st.VotersOffset != 19 || len(st.Voters) != 2 {
			t.Errorf("%+v", st)
		}
	}
	l := downloading(t)
	l.step(Answered{l.sentFetch(), chunk(1000, 500)})
	l.step(SnapshotRejected{s.ID})
	l.after(20) // not at once
	if q, ok := l.sent(2).Request.(*FetchRequest); !ok || q.FetchOffset != 10 {
		t.Errorf("damaged: %v", l.effects)
	}
	l = newLone(t, func(cfg *Config, r *Recovered) { r.QuorumState.LeaderID = 2 })
	l.step(Tick{})
	l.core.installing = s.ID
	s.KRaftVersion = 2
	if l.step(SnapshotInstalled{s}); l.core.Status().Fatal == "" {
		t.Error("it goes on with a kraft.version that it doesn't know")
	}
}

// A leader that has nothing but a damaged snapshot is replaced: what comes of it is no success. Another snapshot is.
func TestDamagedSnapshot(t *testing.T) {
	for _, test := range []struct {
		reason string
		next   Offset // the end of each next snapshot is so much higher
		want   Role
	}{
		{"the same again and again", 0, Prospective},
		{"another one each time", 1, Follower},
	} {
		l := inRole(t, "follower, fetched")
		offered := SnapshotID{20, 3}
		downloads := 0
		for end := l.now + 2100; l.now < end && l.core.Status().Role == Follower; l.after(1) {
			for _, o := range slices.Clone(l.core.out.inFlight) {
				switch q := o.request.(type) {
				case *FetchRequest:
					if o.to == 2 {
						l.step(Answered{o.id, &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5, SnapshotID: &offered}})
					}
				case *FetchSnapshotRequest:
					l.step(Answered{o.id, &FetchSnapshotResponse{LeaderView: view(3, 2), SnapshotID: q.SnapshotID, SizeBytes: 10, Bytes: make([]byte, 10)}})
					l.step(SnapshotRejected{q.SnapshotID})
					downloads++
					offered.EndOffset += test.next
				}
			}
		}
		if role := l.core.Status().Role; role != test.want || downloads < 2 || downloads > 110 {
			t.Errorf("%s: %v after %d downloads", test.reason, role, downloads)
		}
	}
}

// An early pre-vote that comes to anything but its follower's return ends its download.
func TestDownloadOfAnEarlyPreVote(t *testing.T) {
	for reason, do := range map[string]func(*lone){
		"won": func(l *lone) {
			l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(3, 2), VoteGranted: true}})
		},
		"a newer epoch":    func(l *lone) { l.step(Answered{l.sentVote(3), &VoteResponse{LeaderView: view(4, None)}}) },
		"the leader calls": func(l *lone) { l.ask(&BeginQuorumEpochRequest{Voter: noReplica, LeaderID: 3, Epoch: 4}) },
	} {
		l := downloading(t)
		l.step(SendFailed{l.sentFetch(), Refused})
		l.after(5)
		if l.core.Status().Role != Prospective {
			t.Fatalf("%s: %v", reason, l.core.Status().Role)
		}
		do(l)
		if _, dropped := effect[DropSnapshotChunks](l); !dropped {
			t.Errorf("%s: %v", reason, l.effects)
		}
	}
}

// A leader that crashed before its first append has its epoch in the checkpoint, at the end of a snapshot. The
// next leader knows no such epoch there, and offers the very snapshot: what is here already is not fetched
// again.
func TestOwnSnapshotIsOffered(t *testing.T) {
	l := newLone(t, func(_ *Config, r *Recovered) {
		r.LogStart, r.LogEnd, r.EpochStarts = 10, 10, []EpochStart{{3, 10}}
		r.Snapshots = []Snapshot{{ID: SnapshotID{10, 2}, SizeBytes: 500}}
		r.QuorumState.Epoch, r.QuorumState.LeaderID = 4, 2
	})
	l.step(Tick{})
	offer := &FetchResponse{LeaderView: view(4, 2), HighWatermark: 10, SnapshotID: &SnapshotID{10, 2}}
	l.step(Answered{l.sentFetch(), offer})
	if q := l.sent(2).Request.(*FetchRequest); q.FetchOffset != 10 || q.LastFetchedEpoch != 2 {
		t.Errorf("%+v", q)
	}
	// A second time it would be nonsense.
	l.step(Answered{l.sentFetch(), offer})
	if _, ok := effect[Notice](l); !ok {
		t.Errorf("%v", l.effects)
	}
}

// TestServeSnapshot has the answers of a leader (KIP-630): errors go out as what they are.
func TestServeSnapshot(t *testing.T) {
	other := "other"
	for _, test := range []struct {
		reason         string
		change         func(*FetchSnapshotRequest)
		top, partition Code
		read           int32
	}{
		{"the beginning", func(*FetchSnapshotRequest) {}, 0, 0, 100},
		{"the end", func(r *FetchSnapshotRequest) { r.Position = 450 }, 0, 0, 50},
		{"nothing asked for", func(r *FetchSnapshotRequest) { r.MaxBytes = -1 }, 0, 0, 0},
		{"behind the end", func(r *FetchSnapshotRequest) { r.Position = 500 }, 0, PositionOutOfRange, 0},
		{"negative position", func(r *FetchSnapshotRequest) { r.Position = -1 }, 0, PositionOutOfRange, 0},
		{"unknown", func(r *FetchSnapshotRequest) { r.SnapshotID.EndOffset = 8 }, 0, SnapshotNotFound, 0},
		{"the zero checkpoint", func(r *FetchSnapshotRequest) { r.SnapshotID = SnapshotID{} }, 0, SnapshotNotFound, 0},
		{"another cluster", func(r *FetchSnapshotRequest) { r.ClusterID = &other }, InconsistentClusterID, 0, 0},
		{"lower epoch", func(r *FetchSnapshotRequest) { r.Epoch = 2 }, 0, FencedLeaderEpoch, 0},
		{"higher epoch", func(r *FetchSnapshotRequest) { r.Epoch = 4 }, 0, UnknownLeaderEpoch, 0},
	} {
		l := inRole(t, "leader")
		l.core.log.snapshots = []Snapshot{{SizeBytes: 300}, {ID: SnapshotID{7, 2}, SizeBytes: 500}}
		q := &FetchSnapshotRequest{Replica: ReplicaKey{NodeID: 2}, MaxBytes: 100, Epoch: 3, SnapshotID: SnapshotID{7, 2}}
		test.change(q)
		r := l.ask(q).(*FetchSnapshotResponse)
		if r.Code != test.top || r.Partition != test.partition || r.Read != test.read {
			t.Errorf("%s: %+v", test.reason, r)
		}
		if test.top == 0 && test.partition == 0 && (r.SnapshotID != q.SnapshotID || r.Position != q.Position || r.SizeBytes != 500 || r.LeaderID != 1) {
			t.Errorf("%s: %+v", test.reason, r)
		}
	}
}

// TestSnapshotHeader has what snapshots there may be (KIP-630).
func TestSnapshotHeader(t *testing.T) {
	l := dynamicLeader(t)
	l.ask(&AppendRequest{Batch{BaseOffset: 3, LastOffset: 9, Epoch: 1, Bytes: []byte("x")}})
	l.syncAll()
	l.fetchAll(2)
	l.core.appendControl(Voters{[]Voter{testVoter(1), testVoter(2)}}) // at 10, not committed
	l.step(Tick{})
	for _, test := range []struct {
		reason string
		id     SnapshotID
		voters int // -1: refused
	}{
		{"before the voters record", SnapshotID{2, 1}, -2}, // the zero checkpoint's voters
		{"the high watermark", SnapshotID{10, 1}, 3},
		{"beyond it", SnapshotID{11, 1}, -1},
		{"another epoch", SnapshotID{5, 2}, -1},
		{"nothing", SnapshotID{0, 0}, -1},
		{"negative", SnapshotID{-5, 0}, -1},
	} {
		s, err := l.core.SnapshotHeader(test.id)
		if test.voters == -2 {
			test.voters = 3
		}
		if (err != nil) != (test.voters == -1) || err == nil && (len(s.Voters) != test.voters || s.KRaftVersion != 1 || s.ID != test.id) {
			t.Errorf("%s: %+v, %v", test.reason, s, err)
		}
	}
	s, _ := l.core.SnapshotHeader(SnapshotID{8, 1})
	l.step(SnapshotCreated{s})
	for _, id := range []SnapshotID{{8, 1}, {7, 1}} {
		if _, err := l.core.SnapshotHeader(id); err == nil {
			t.Errorf("%v is allowed after %v", id, s.ID)
		}
	}
	l.step(SnapshotCreated{s})                               // twice
	l.step(SnapshotCreated{Snapshot{ID: SnapshotID{99, 1}}}) // of nobody's asking
	if got := l.core.Status().Snapshots; len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestClean has what retention drops (KIP-630).
func TestClean(t *testing.T) {
	day := int64(24 * 3600 * 1000)
	for _, test := range []struct {
		reason    string
		snapshots []Snapshot
		log       int64
		hw        Offset
		start     Offset // afterwards; 0: nothing is dropped
	}{
		{"small and young", []Snapshot{{SizeBytes: 10, LastContainedLogTime: 9 * day}, {ID: SnapshotID{7, 2}, SizeBytes: 10}}, 10, 10, 0},
		{"too old", []Snapshot{{SizeBytes: 10, LastContainedLogTime: day}, {ID: SnapshotID{7, 2}, SizeBytes: 10}}, 10, 10, 7},
		{"too large, by the log", []Snapshot{{SizeBytes: 10, LastContainedLogTime: 9 * day}, {ID: SnapshotID{7, 2}, SizeBytes: 10}}, 100<<20 - 19, 10, 7},
		{"just not too large", []Snapshot{{SizeBytes: 10, LastContainedLogTime: 9 * day}, {ID: SnapshotID{7, 2}, SizeBytes: 10}}, 100<<20 - 20, 10, 0},
		{"the last one stays", []Snapshot{{SizeBytes: 10}}, 1 << 40, 10, 0},
		{"one at a time", []Snapshot{{SizeBytes: 10}, {ID: SnapshotID{5, 1}, SizeBytes: 10}, {ID: SnapshotID{7, 2}, SizeBytes: 10}}, 1 << 40, 10, 5},
		{"the next is not known to be committed", []Snapshot{{SizeBytes: 10}, {ID: SnapshotID{7, 2}, SizeBytes: 10}}, 1 << 40, Unknown, 0},
	} {
		l := inRole(t, "follower")
		l.core.log.snapshots, l.core.hw = test.snapshots, test.hw
		l.step(Clean{WallMillis: 10 * day, LogSizeBytes: test.log})
		d, ok := effect[DeletePrefix](l)
		if ok != (test.start > 0) || d.LogStart != test.start || l.core.Status().LogStart != test.start {
			t.Errorf("%s: %v", test.reason, l.effects)
		}
		if w, _ := effect[WriteEpochStarts](l); ok && (len(w.Entries) == 0 || w.Entries[0].Start != test.start) {
			t.Errorf("%s: %v", test.reason, w)
		}
	}
}
