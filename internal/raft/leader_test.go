package raft

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

// fetch is a Fetch of a voter that has all that the leader of inRole("leader") has.
func fetch(id NodeID, offset Offset) *FetchRequest {
	return &FetchRequest{Replica: ReplicaKey{id, dirID(id, 1)}, MaxWaitMillis: 500, MaxBytes: 1000, Epoch: 3, FetchOffset: offset, LastFetchedEpoch: 3, HighWatermark: NoHighWatermark}
}

// TestFetchChecks has the checks of a Fetch, as a real 4.4.0 leader answered. The log is 0-10 and its LeaderChange.
func TestFetchChecks(t *testing.T) {
	other := "other"
	for _, test := range []struct {
		reason         string
		role           string
		change         func(*FetchRequest)
		top, partition Code
		diverging      *EpochEnd
		read           LogRange
	}{
		{"good", "leader", func(r *FetchRequest) {}, 0, 0, nil, LogRange{10, 11, 1000}},
		{"from the beginning", "leader", func(r *FetchRequest) { r.FetchOffset, r.LastFetchedEpoch = 0, 0 }, 0, 0, nil, LogRange{0, 11, 1000}},
		{"another cluster", "leader", func(r *FetchRequest) { r.ClusterID = &other; r.Epoch = 9 }, InconsistentClusterID, 0, nil, LogRange{}},
		{"lower epoch", "leader", func(r *FetchRequest) { r.Epoch, r.LastFetchedEpoch = 2, 2 }, 0, FencedLeaderEpoch, nil, LogRange{}},
		{"higher epoch, which changes nothing", "leader", func(r *FetchRequest) { r.Epoch = 4 }, 0, UnknownLeaderEpoch, nil, LogRange{}},
		{"last fetched epoch above its epoch", "leader", func(r *FetchRequest) { r.LastFetchedEpoch = 4 }, 0, InvalidRequest, nil, LogRange{}},
		{"negative last fetched epoch", "leader", func(r *FetchRequest) { r.LastFetchedEpoch = -1 }, 0, InvalidRequest, nil, LogRange{}},
		{"negative offset", "leader", func(r *FetchRequest) { r.FetchOffset = -1 }, 0, InvalidRequest, nil, LogRange{}},
		{"negative wait", "leader", func(r *FetchRequest) { r.MaxWaitMillis = -1 }, 0, InvalidRequest, nil, LogRange{}},
		{"the leader's own id", "leader", func(r *FetchRequest) { r.Replica.NodeID = 1 }, 0, UnknownServerError, nil, LogRange{}},
		{"no replica", "leader", func(r *FetchRequest) { r.Replica.NodeID, r.MaxWaitMillis = -1, 0 }, 0, 0, nil, LogRange{10, 11, 1000}},
		{"beyond the end", "leader", func(r *FetchRequest) { r.FetchOffset = 99 }, 0, 0, &EpochEnd{2, 10}, LogRange{}},
		{"an epoch that ended", "leader", func(r *FetchRequest) { r.FetchOffset, r.LastFetchedEpoch = 7, 1 }, 0, 0, &EpochEnd{1, 5}, LogRange{}},
		{"not the leader", "follower", func(r *FetchRequest) {}, 0, NotLeaderOrFollower, nil, LogRange{}},
		{"not the leader any more", "resigned", func(r *FetchRequest) {}, 0, NotLeaderOrFollower, nil, LogRange{}},
	} {
		l := inRole(t, test.role)
		q := fetch(2, 10)
		q.LastFetchedEpoch = 2
		test.change(q)
		r, ok := l.ask(q).(*FetchResponse)
		if !ok {
			t.Errorf("%s: no answer", test.reason)
			continue
		}
		if r.Code != test.top || r.Partition != test.partition || !equal(r.Diverging, test.diverging) || r.Read != test.read || r.SnapshotID != nil || r.HighWatermark != Unknown {
			t.Errorf("%s: %+v", test.reason, r)
		}
		if s := l.core.Status(); s.Epoch != 3 {
			t.Errorf("%s: epoch %d", test.reason, s.Epoch)
		}
	}
}

// A Fetch that has nothing to bring waits (KIP-595).
func TestDelayedFetch(t *testing.T) {
	waiting := func() *lone {
		l := inRole(t, "leader")
		l.syncAll()
		if r := l.ask(fetch(2, 11)); r != nil {
			t.Fatalf("%+v", r)
		}
		return l
	}
	t.Run("records end it", func(t *testing.T) {
		l := waiting()
		id := l.nextID
		l.ask(&AppendRequest{Batch{BaseOffset: 11, LastOffset: 12, Epoch: 3, Bytes: []byte("x")}})
		if r, ok := l.answerTo(id).(*FetchResponse); !ok || r.Read != (LogRange{11, 13, 1000}) {
			t.Errorf("%v", l.effects)
		}
	})
	t.Run("time ends it", func(t *testing.T) {
		l := waiting()
		id := l.nextID
		if l.after(499); l.answerTo(id) != nil {
			t.Error("too early")
		}
		l.after(1)
		if r, ok := l.answerTo(id).(*FetchResponse); !ok || r.Read.From < r.Read.End || r.Partition != NoError {
			t.Errorf("%v", l.effects)
		}
	})
	t.Run("the high watermark ends it", func(t *testing.T) {
		l := inRole(t, "leader") // its own append is not synced
		q := fetch(2, 11)
		q.HighWatermark = 5
		if r := l.ask(q); r != nil {
			t.Fatalf("%+v", r)
		}
		id := l.nextID
		l.step(Synced{11, 0})
		if r, ok := l.answerTo(id).(*FetchResponse); !ok || r.HighWatermark != 11 {
			t.Errorf("%v", l.effects)
		}
	})
	t.Run("a later one with the next record", func(t *testing.T) {
		l := waiting()
		l.ask(&AppendRequest{Batch{BaseOffset: 11, LastOffset: 11, Epoch: 3, Bytes: []byte("x")}})
		l.syncAll()
		q := fetch(2, 12)
		q.HighWatermark = 11
		if r := l.ask(q); r != nil || l.core.Status().HighWatermark != 12 {
			t.Fatalf("%+v", r)
		}
		id := l.nextID
		l.after(commitAloneMillis - 1)
		l.ask(&AppendRequest{Batch{BaseOffset: 12, LastOffset: 12, Epoch: 3, Bytes: []byte("x")}})
		if r, ok := l.answerTo(id).(*FetchResponse); !ok || r.Read.End != 13 || r.HighWatermark != 12 {
			t.Errorf("%v", l.effects)
		}
	})
	t.Run("a later one alone when none comes", func(t *testing.T) {
		l := waiting()
		l.ask(&AppendRequest{Batch{BaseOffset: 11, LastOffset: 11, Epoch: 3, Bytes: []byte("x")}})
		l.syncAll()
		q := fetch(2, 12)
		q.HighWatermark = 11
		l.ask(q)
		id := l.nextID
		if l.after(commitAloneMillis - 1); l.answerTo(id) != nil {
			t.Error("too early")
		}
		l.after(1)
		if r, ok := l.answerTo(id).(*FetchResponse); !ok || r.Read.From < r.Read.End || r.HighWatermark != 12 {
			t.Errorf("%v", l.effects)
		}
	})
	t.Run("unless it is not wanted", func(t *testing.T) {
		l := inRole(t, "leader")
		l.ask(fetch(2, 11))
		id := l.nextID
		l.step(Synced{11, 0})
		if l.core.Status().HighWatermark != 11 || l.answerTo(id) != nil {
			t.Errorf("%v", l.effects)
		}
	})
	t.Run("the end of the term ends it", func(t *testing.T) {
		l := waiting()
		id := l.nextID
		l.step(Resign{3})
		if r, ok := l.answerTo(id).(*FetchResponse); !ok || r.Partition != NotLeaderOrFollower || r.LeaderID != 1 {
			t.Errorf("%v", l.effects)
		}
	})
}

// TestCommit: what is needed for the high watermark to move (KIP-595).
func TestCommit(t *testing.T) {
	l := inRole(t, "leader")
	check := func(reason string, want Offset) {
		t.Helper()
		if hw := l.core.Status().HighWatermark; hw != want {
			t.Errorf("%s: high watermark %d, want %d", reason, hw, want)
		}
	}
	old := fetch(2, 10)
	old.LastFetchedEpoch = 2
	l.ask(old)
	check("entries of an older epoch are on a majority, but none of this one", Unknown)
	l.ask(fetch(2, 11))
	check("one follower has all, but the leader's own fsync is not done", Unknown)
	l.ask(fetch(3, 11))
	check("two followers are a majority without the leader", 11)

	l = inRole(t, "leader")
	l.ask(fetch(2, 11))
	l.step(Synced{11, 7})
	check("an fsync of another generation", Unknown)
	l.step(Synced{11, 0})
	check("a follower and the leader", 11)
	l.ask(&AppendRequest{Batch{BaseOffset: 11, LastOffset: 11, Epoch: 3, Bytes: []byte("x")}})
	l.step(Synced{12, 0})
	check("the leader alone", 11)
	l.ask(fetch(9, 12))
	check("an observer doesn't count", 11)
	l.ask(fetch(3, 12))
	check("the other follower", 12)
	l.ask(fetch(3, 11))
	check("it never goes back", 12)
}

// The leader is heard by enough voters, or resigns (KIP-595).
func TestCheckQuorum(t *testing.T) {
	l := inRole(t, "leader")
	l.after(2999)
	l.ask(fetch(2, 11)) // one of two is enough, and restarts the timer
	if l.after(2999); l.core.Status().Role != Leader {
		t.Fatal("too early")
	}
	if l.after(1); l.core.Status().Role != Resigned {
		t.Fatalf("%v", l.core.Status().Role)
	}
	for reason, r := range map[string]Request{
		"an observer":         fetch(9, 11),
		"a diverging fetch":   fetch(2, 99),
		"a fetch too high":    &FetchRequest{Replica: ReplicaKey{NodeID: 2}, Epoch: 4, LastFetchedEpoch: 3},
		"a snapshot unknown":  &FetchSnapshotRequest{Replica: ReplicaKey{NodeID: 2}, Epoch: 3, SnapshotID: SnapshotID{5, 1}},
		"a vote":              &VoteRequest{Voter: noReplica, Replica: ReplicaKey{NodeID: 2}, ReplicaEpoch: 3, PreVote: true},
		"the leader's own id": fetch(1, 11),
	} {
		l := inRole(t, "leader")
		l.after(2999)
		l.ask(r)
		if l.after(1); l.core.Status().Role != Resigned {
			t.Errorf("%s counts", reason)
		}
	}
}

// BeginQuorumEpoch goes to voters that don't fetch, at once and every second.
func TestBeginQuorumEpochIsRepeated(t *testing.T) {
	l := inRole(t, "leader")
	begin := l.sent(2)
	if r := begin.Request.(*BeginQuorumEpochRequest); r.LeaderID != 1 || r.Epoch != 3 || r.Voter != (ReplicaKey{NodeID: 2}) || len(r.Endpoints) != 1 {
		t.Fatalf("%+v", r)
	}
	l.step(Answered{begin.ID, &BeginQuorumEpochResponse{LeaderView: view(3, 1)}})
	l.after(900)
	l.ask(fetch(3, 11))
	l.after(100)
	l.sent(2)
	for _, e := range l.effects {
		if s, ok := e.(Send); ok && s.To.NodeID == 3 {
			t.Error("a voter that fetches is told again")
		}
	}
}

// A voter whose process is gone is told once in each period, not after each backoff.
func TestBeginQuorumEpochToNobody(t *testing.T) {
	for _, reason := range []SendFailure{Disconnected, Refused, TimedOut, Unsupported, Corrupt} {
		l := inRole(t, "leader")
		sent := 0
		for end := l.now + 2500; l.now < end; {
			for _, o := range slices.Clone(l.core.out.inFlight) {
				if o.to == 3 {
					sent++
					l.step(SendFailed{o.id, reason})
				}
			}
			l.after(10)
		}
		if sent != 3 {
			t.Errorf("reason %d: %d times in 2.5 s", reason, sent)
		}
	}
}

// What a peer asks for doesn't decide on this node's memory.
func TestFetchBounds(t *testing.T) {
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11))
	l.ask(fetch(3, 11))
	q := fetch(9, 0)
	q.LastFetchedEpoch, q.MaxBytes = 0, 1<<31-1
	if r := l.ask(q).(*FetchResponse); r.Read.MaxBytes != 8<<20 {
		t.Errorf("%+v", r.Read)
	}
	l.core.log.snapshots = []Snapshot{{ID: SnapshotID{7, 2}, SizeBytes: 1 << 40}}
	if r := l.ask(&FetchSnapshotRequest{Epoch: 3, SnapshotID: SnapshotID{7, 2}, MaxBytes: 1<<31 - 1}).(*FetchSnapshotResponse); r.Read != 8<<20 {
		t.Errorf("%+v", r)
	}
	q = fetch(9, 11)
	q.MaxWaitMillis = 1<<31 - 1
	l.ask(q)
	id := l.nextID
	for range 10 {
		l.after(500)
		l.ask(fetch(2, 11))
	}
	if l.step(Tick{}); len(l.core.role.(*leader).fetches.list) != 1 {
		t.Errorf("the Fetch %d waits still", id)
	}
}

// A replica has one Fetch at the leader: the older one is answered with nothing.
func TestFetchIsReplaced(t *testing.T) {
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11))
	l.ask(fetch(3, 11))
	first := l.nextID
	l.ask(fetch(3, 11))
	r, ok := l.answerTo(first).(*FetchResponse)
	if !ok || r.Partition != NoError || r.Read.From < r.Read.End {
		t.Errorf("%v", l.effects)
	}
	waits := func() int { return len(l.core.role.(*leader).fetches.list) }
	if waits() != 2 {
		t.Errorf("%d wait", waits())
	}
	other := fetch(3, 11)
	other.Replica.DirectoryID[15]++
	l.ask(other)
	nobody := fetch(3, 11)
	nobody.Replica = noReplica
	l.ask(nobody)
	l.ask(nobody)
	if waits() != 5 {
		t.Errorf("%d wait", waits())
	}
}

// A voter gets a record at once. An observer gets it when it is committed, or when it has waited enough.
func TestObserverWaitsForCommit(t *testing.T) {
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11))
	ask := func(id NodeID) RequestID {
		q := fetch(id, l.core.log.end)
		q.HighWatermark = l.core.hw
		l.ask(q)
		return l.nextID
	}
	got := func(id RequestID) (r FetchResponse) {
		if answer := l.answerTo(id); answer != nil {
			r = *answer.(*FetchResponse)
		}
		return r
	}
	voter, observer := ask(3), ask(9)
	l.ask(&AppendRequest{Batch{BaseOffset: 11, LastOffset: 11, Epoch: 3, Bytes: []byte("x")}})
	if r := got(voter); r.Read.From != 11 || r.Read.End != 12 || r.HighWatermark != 11 {
		t.Errorf("the voter gets %+v", r)
	}
	if l.answerTo(observer) != nil {
		t.Errorf("the observer gets %+v", got(observer))
	}
	l.syncAll()
	l.ask(fetch(2, 12))
	if r := got(observer); r.Read.From != 11 || r.Read.End != 12 || r.HighWatermark != 12 {
		t.Errorf("the observer gets %+v after the commit", r)
	}
	observer = ask(9)
	l.ask(&AppendRequest{Batch{BaseOffset: 12, LastOffset: 12, Epoch: 3, Bytes: []byte("x")}})
	if l.after(499); l.answerTo(observer) != nil {
		t.Errorf("the observer gets %+v", got(observer))
	}
	if l.after(1); got(observer).Read.End != 13 || got(observer).HighWatermark != 12 {
		t.Errorf("the observer gets %+v after its wait", got(observer))
	}
}

// Many observers are told of commits in rounds, so that there is time for commits.
func TestObserversInRounds(t *testing.T) {
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11))
	const observers, roundMillis = 98, 4 // there are two other voters
	waiting := map[RequestID]bool{}
	ask := func(hw Offset) {
		for i := range NodeID(observers) {
			q := fetch(100+i, hw)
			q.HighWatermark = hw
			l.ask(q)
			waiting[l.nextID] = true
		}
	}
	commit := func() {
		end := l.core.log.end
		l.ask(&AppendRequest{Batch{BaseOffset: end, LastOffset: end, Epoch: 3, Bytes: []byte("x")}})
		l.syncAll()
		if l.ask(fetch(2, end+1)); l.core.hw != end+1 {
			t.Fatalf("the high watermark is %d", l.core.hw)
		}
	}
	told := func(when string, count int) {
		t.Helper()
		answers := 0
		for id := range waiting {
			if r, ok := l.answerTo(id).(*FetchResponse); ok {
				answers++
				delete(waiting, id)
				if r.HighWatermark != l.core.hw || r.Read.End != l.core.hw {
					t.Errorf("%s an observer gets %+v", when, r)
				}
			}
		}
		if answers != count || len(waiting) != observers-count {
			t.Errorf("%s %d observers are told, %d wait", when, answers, len(waiting))
		}
	}
	ask(11)
	commit()
	told("after the first commit", observers)
	ask(12)
	l.after(1)
	commit()
	told("after the second", 0)
	l.after(roundMillis - 2)
	commit()
	told("after the third", 0)
	if at, ok := l.core.Deadline(); !ok || at != l.now+1 {
		t.Errorf("it wants to be woken at %d, it is %d", at, l.now)
	}
	l.after(1)
	told("in the second round", observers)
	ask(13) // one that is behind doesn't come in between
	told("between two rounds", 0)
	l.after(roundMillis)
	told("in the third round", observers)
	l.after(roundMillis)
	if at, _ := l.core.Deadline(); at <= l.now {
		t.Errorf("it wants to be woken at %d, it is %d", at, l.now)
	}
}

// Keys that somebody makes up are served, and neither remembered nor kept waiting without end; voters always are.
func TestManyObservers(t *testing.T) {
	l := inRole(t, "leader")
	l.syncAll()
	leader := l.core.role.(*leader)
	for i := range maxObservers + 100 {
		q := fetch(NodeID(100+i), 11)
		q.HighWatermark = Unknown
		l.ask(q)
	}
	if len(leader.replicas) != maxObservers || len(leader.fetches.list) != maxObservers {
		t.Errorf("%d are remembered, %d wait", len(leader.replicas), len(leader.fetches.list))
	}
	if l.ask(fetch(2, 11)); l.core.Status().HighWatermark != 11 || len(leader.replicas) != maxObservers {
		t.Errorf("high watermark %d, %d are remembered", l.core.Status().HighWatermark, len(leader.replicas))
	}
	// Without a DescribeQuorum, too, they are forgotten.
	for range 600 {
		l.after(1000)
		l.ask(fetch(2, 11))
	}
	if len(leader.replicas) != 2 || len(leader.fetches.list) != 1 || l.core.Status().Role != Leader {
		t.Errorf("%d are remembered, %d wait", len(leader.replicas), len(leader.fetches.list))
	}
}

// Appends of the layer above: the place and the epoch must be those that it made the batch for.
func TestAppend(t *testing.T) {
	good := Batch{BaseOffset: 11, LastOffset: 12, Epoch: 3, Bytes: []byte("x")}
	for _, test := range []struct {
		reason string
		role   string
		change func(*Batch)
		code   Code
		next   Offset
	}{
		{"good", "leader", func(*Batch) {}, NoError, 13},
		{"another epoch", "leader", func(b *Batch) { b.Epoch = 2 }, NotLeaderOrFollower, 11},
		{"not the leader", "follower", func(*Batch) {}, NotLeaderOrFollower, 10},
		{"behind the end", "leader", func(b *Batch) { b.BaseOffset, b.LastOffset = 12, 13 }, InvalidRequest, 11},
		{"before the end", "leader", func(b *Batch) { b.BaseOffset = 10 }, InvalidRequest, 11},
		{"no records", "leader", func(b *Batch) { b.LastOffset = 10 }, InvalidRequest, 11},
		{"no bytes", "leader", func(b *Batch) { b.Bytes = nil }, InvalidRequest, 11},
		{"control records are the core's own", "leader", func(b *Batch) { b.Control = []ControlRecord{LeaderChange{}} }, InvalidRequest, 11},
	} {
		l := inRole(t, test.role)
		b := good
		test.change(&b)
		r := l.ask(&AppendRequest{b}).(*AppendResponse)
		if r.Code != test.code || r.NextOffset != test.next {
			t.Errorf("%s: %+v", test.reason, r)
		}
		if _, ok := effect[AppendLog](l); ok != (test.code == NoError) {
			t.Errorf("%s: appended %v", test.reason, ok)
		}
	}
}

// DescribeQuorum has the ends and times of all (KIP-595).
func TestDescribeQuorum(t *testing.T) {
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11))
	start := l.now
	l.after(100)
	l.ask(&AppendRequest{Batch{BaseOffset: 11, LastOffset: 12, Epoch: 3, Bytes: []byte("x")}})
	l.ask(fetch(2, 11)) // it had all there was at its last fetch
	l.ask(fetch(9, 11))
	r := l.ask(&DescribeQuorumRequest{}).(*DescribeQuorumResponse)
	own := uuid.Nil
	want := []ReplicaState{{ReplicaKey{1, own}, 13, l.now, l.now}, {ReplicaKey{2, own}, 11, l.now, start}, {ReplicaKey{3, own}, Unknown, -1, -1}}
	for i, v := range want {
		if r.Voters[i] != v {
			t.Errorf("voter %+v, want %+v", r.Voters[i], v)
		}
	}
	if len(r.Observers) != 1 || r.Observers[0] != (ReplicaState{ReplicaKey{9, dirID(9, 1)}, 11, l.now, -1}) {
		t.Errorf("observers %+v", r.Observers)
	}
	l.after(3000) // nobody has fetched: it resigns
	if r := l.ask(&DescribeQuorumRequest{}).(*DescribeQuorumResponse); r.Partition != NotLeaderOrFollower {
		t.Errorf("%+v", r)
	}
}

// A leader forgets an observer after five minutes.
func TestForgetObservers(t *testing.T) {
	l := newLone(t, func(cfg *Config, r *Recovered) { cfg.StaticVoters = cfg.StaticVoters[:1] })
	l.step(Tick{})
	q := fetch(9, 10)
	q.Epoch, q.LastFetchedEpoch = 4, 2
	l.ask(q)
	l.after(299_999)
	if r := l.ask(&DescribeQuorumRequest{}).(*DescribeQuorumResponse); len(r.Observers) != 1 {
		t.Errorf("%+v", r.Observers)
	}
	l.after(1)
	if r := l.ask(&DescribeQuorumRequest{}).(*DescribeQuorumResponse); len(r.Observers) != 0 {
		t.Errorf("%+v", r.Observers)
	}
}
