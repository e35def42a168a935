package raft

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// dynamicLeader is node 1, the leader of epoch 1 of the dynamic voters 1, 2 and 3, with its epoch committed;
// node 4 is an observer that has caught up. The log is its three control records.
func dynamicLeader(t *testing.T) *lone {
	l := newLone(t, dynamic(3))
	l.core.recovered.QuorumState = QuorumState{Version: 1, Epoch: 1, LeaderID: None, Voted: ReplicaKey{1, dirID(1, 1)}}
	l.step(Tick{})
	l.step(Answered{l.sentVote(2), &VoteResponse{LeaderView: view(1, None), VoteGranted: true}})
	l.syncAll()
	l.fetchAll(2, 4)
	if s := l.core.Status(); s.Role != Leader || s.HighWatermark != 3 {
		t.Fatalf("%+v", s)
	}
	return l
}

// fetchAll lets replicas fetch from the log's end.
func (l *lone) fetchAll(ids ...NodeID) {
	for _, id := range ids {
		s := l.core.Status()
		l.ask(&FetchRequest{Replica: ReplicaKey{id, dirID(id, 1)}, Epoch: s.Epoch, FetchOffset: s.LogEnd, LastFetchedEpoch: s.LastEpoch, HighWatermark: NoHighWatermark})
	}
}

// tooLong is a text that cannot be encoded.
var tooLong = strings.Repeat("x", 1<<15)

func addRequest(id NodeID) *AddVoterRequest {
	return &AddVoterRequest{Voter: ReplicaKey{id, dirID(id, 1)}, Endpoints: []Endpoint{testEndpoint(id)}, AckWhenCommitted: true}
}

// TestAddVoterChecks has the checks before the new voter is asked, in their order (KIP-853).
func TestAddVoterChecks(t *testing.T) {
	other := "other"
	for _, test := range []struct {
		reason  string
		prepare func(*lone)
		change  func(*AddVoterRequest)
		code    Code // NoError: it is asked
	}{
		{"good", nil, nil, NoError},
		{"another cluster, before all", func(l *lone) { l.step(Resign{1}) }, func(r *AddVoterRequest) { r.ClusterID = &other }, InconsistentClusterID},
		{"not the leader, before the rest", func(l *lone) { l.step(Resign{1}) }, func(r *AddVoterRequest) { r.Voter.NodeID = -1 }, NotLeaderOrFollower},
		{"negative id", nil, func(r *AddVoterRequest) { r.Voter.NodeID = -1 }, InvalidRequest},
		{"no directory id", nil, func(r *AddVoterRequest) { r.Voter.DirectoryID = uuid.Nil }, InvalidRequest},
		{"no endpoint of the default listener", nil, func(r *AddVoterRequest) { r.Endpoints[0].Listener = "OTHER" }, InvalidRequest},
		{"a host that no record can have", nil, func(r *AddVoterRequest) { r.Endpoints[0].Host = tooLong }, InvalidRequest},
		{"a listener that no record can have", nil, func(r *AddVoterRequest) {
			r.Endpoints = append(r.Endpoints, Endpoint{Listener: tooLong})
		}, InvalidRequest},
		{"a listener in lower case", nil, func(r *AddVoterRequest) { r.Endpoints[0].Listener = "controller" }, NoError},
		{"another add is under way", func(l *lone) { l.ask(addRequest(4)) }, func(r *AddVoterRequest) { r.Voter.NodeID = 2 }, RequestTimedOut},
		{"nothing committed in this epoch", func(l *lone) { l.core.role.(*leader).hwKnown = false }, nil, RequestTimedOut},
		{"the last set is not committed", func(l *lone) { l.core.appendControl(Voters{l.core.voters()}) }, nil, RequestTimedOut},
		{"a voter already", nil, func(r *AddVoterRequest) { r.Voter.NodeID = 2 }, DuplicateVoter},
		{"a voter already, with another disk", nil, func(r *AddVoterRequest) { r.Voter = ReplicaKey{2, dirID(2, 9)} }, DuplicateVoter},
		{"its connection is backing off", func(l *lone) { l.core.backOff(4) }, nil, RequestTimedOut},
	} {
		l := dynamicLeader(t)
		if test.prepare != nil {
			test.prepare(l)
		}
		q := addRequest(4)
		if test.change != nil {
			test.change(q)
		}
		r, ok := l.ask(q).(*ChangeVoterResponse)
		if test.code == NoError {
			if ok {
				t.Errorf("%s: %+v", test.reason, r)
			} else {
				l.sent(4)
			}
			continue
		}
		if !ok || r.Code != test.code || r.Message == "" {
			t.Errorf("%s: %+v", test.reason, r)
		}
	}
	l := inRole(t, "leader")
	l.syncAll()
	l.ask(fetch(2, 11))
	if r := l.ask(addRequest(4)).(*ChangeVoterResponse); r.Code != UnsupportedVersion {
		t.Errorf("kraft.version 0: %+v", r)
	}
}

// TestAddVoter goes on from there: what the new voter says, and the commit.
func TestAddVoter(t *testing.T) {
	good := &ApiVersionsResponse{HasKRaftVersion: true, MaxKRaftVersion: 1}
	for _, test := range []struct {
		reason string
		voter  NodeID
		do     func(*lone)
		code   Code // of the answer; -2: none
		added  bool
	}{
		{"committed", 4, func(l *lone) {
			l.step(Answered{l.sent(4).ID, good})
			l.syncAll()
			l.fetchAll(2, 4)
		}, NoError, true},
		{"the old majority alone doesn't commit it", 4, func(l *lone) {
			l.step(Answered{l.sent(4).ID, good})
			l.syncAll()
			l.fetchAll(2)
		}, -2, true},
		{"not reachable", 4, func(l *lone) { l.step(SendFailed{l.sent(4).ID, Refused}) }, RequestTimedOut, false},
		{"no answer in time", 4, func(l *lone) { l.after(2000) }, RequestTimedOut, false},
		{"an error", 4, func(l *lone) { l.step(Answered{l.sent(4).ID, &ApiVersionsResponse{Code: InvalidRequest}}) }, RequestTimedOut, false},
		{"no kraft.version", 4, func(l *lone) { l.step(Answered{l.sent(4).ID, &ApiVersionsResponse{MaxKRaftVersion: 1}}) }, InvalidRequest, false},
		{"only kraft.version 0", 4, func(l *lone) { l.step(Answered{l.sent(4).ID, &ApiVersionsResponse{HasKRaftVersion: true}}) }, InvalidRequest, false},
		{"never fetched", 5, func(l *lone) { l.step(Answered{l.sent(5).ID, good}) }, RequestTimedOut, false},
		{"not committed in time", 4, func(l *lone) {
			l.step(Answered{l.sent(4).ID, good})
			l.after(2000)
		}, RequestTimedOut, true},
		{"the leader resigns", 4, func(l *lone) {
			l.step(Answered{l.sent(4).ID, good})
			l.step(Resign{1})
		}, NotLeaderOrFollower, true},
	} {
		l := dynamicLeader(t)
		l.ask(addRequest(test.voter))
		id := l.nextID
		test.do(l)
		if r, ok := l.answerTo(id).(*ChangeVoterResponse); ok != (test.code != -2) || ok && r.Code != test.code {
			t.Errorf("%s: %+v", test.reason, r)
		}
		if added := voterByID(l.core.voters(), test.voter) != nil; added != test.added {
			t.Errorf("%s: added %v", test.reason, added)
		}
	}
}

// Without AckWhenCommitted the answer comes with the append; the next change still waits for the commit.
func TestAddVoterEarlyAnswer(t *testing.T) {
	l := dynamicLeader(t)
	q := addRequest(4)
	q.AckWhenCommitted = false
	l.ask(q)
	id := l.nextID
	l.step(Answered{l.sent(4).ID, &ApiVersionsResponse{HasKRaftVersion: true, MaxKRaftVersion: 1}})
	if r, ok := l.answerTo(id).(*ChangeVoterResponse); !ok || r.Code != NoError || r.Message != "" {
		t.Fatalf("%+v", r)
	}
	if r := l.ask(&RemoveVoterRequest{Voter: ReplicaKey{4, dirID(4, 1)}}).(*ChangeVoterResponse); r.Code != RequestTimedOut {
		t.Errorf("%+v", r)
	}
}

func TestRemoveVoter(t *testing.T) {
	for _, test := range []struct {
		reason string
		voter  ReplicaKey
		code   Code
	}{
		{"negative id", ReplicaKey{-1, dirID(1, 1)}, InvalidRequest},
		{"no directory id", ReplicaKey{NodeID: 2}, InvalidRequest},
		{"another directory id", ReplicaKey{2, dirID(2, 9)}, VoterNotFound},
		{"an observer", ReplicaKey{4, dirID(4, 1)}, VoterNotFound},
	} {
		if r := dynamicLeader(t).ask(&RemoveVoterRequest{Voter: test.voter}).(*ChangeVoterResponse); r.Code != test.code {
			t.Errorf("%s: %+v", test.reason, r)
		}
	}

	l := dynamicLeader(t)
	if r := l.ask(&RemoveVoterRequest{Voter: ReplicaKey{3, dirID(3, 1)}}); r != nil {
		t.Fatalf("%+v", r)
	}
	id := l.nextID
	l.syncAll()
	l.fetchAll(2)
	if r, ok := l.answerTo(id).(*ChangeVoterResponse); !ok || r.Code != NoError {
		t.Errorf("%+v", r)
	}

	// The leader itself: it leads on until that is committed by the others, then resigns.
	l = dynamicLeader(t)
	l.ask(&RemoveVoterRequest{Voter: ReplicaKey{1, dirID(1, 1)}})
	id = l.nextID
	l.syncAll()
	l.fetchAll(2)
	if s := l.core.Status(); s.Role != Leader || s.HighWatermark != 3 {
		t.Errorf("%v, high watermark %d: it counts itself", s.Role, s.HighWatermark)
	}
	l.fetchAll(3)
	if s := l.core.Status(); s.Role != Resigned || s.HighWatermark != 4 {
		t.Errorf("%v, high watermark %d", s.Role, s.HighWatermark)
	}
	if r, ok := l.answerTo(id).(*ChangeVoterResponse); !ok || r.Code != NoError {
		t.Errorf("%+v", r)
	}

	only := newLone(t, dynamic(1))
	only.step(Tick{})
	only.syncAll()
	if r := only.ask(&RemoveVoterRequest{Voter: ReplicaKey{1, dirID(1, 1)}}).(*ChangeVoterResponse); r.Code != VoterNotFound {
		t.Errorf("the only voter: %+v", r)
	}
}

func updateRequest(id NodeID) *UpdateVoterRequest {
	return &UpdateVoterRequest{Epoch: 1, Voter: ReplicaKey{id, dirID(id, 1)}, Endpoints: []Endpoint{testEndpoint(id)}, MaxKRaftVersion: 1}
}

// TestUpdateVoter has the checks of UpdateRaftVoter in their order (KIP-853).
func TestUpdateVoter(t *testing.T) {
	other := "other"
	for _, test := range []struct {
		reason   string
		change   func(*UpdateVoterRequest)
		code     Code
		appended bool
	}{
		{"nothing new", func(r *UpdateVoterRequest) {}, NoError, false},
		{"another port", func(r *UpdateVoterRequest) { r.Endpoints[0].Port++ }, NoError, true},
		{"another range", func(r *UpdateVoterRequest) { r.MinKRaftVersion = 1 }, NoError, true},
		{"another cluster", func(r *UpdateVoterRequest) { r.ClusterID = &other; r.Epoch = 0 }, InconsistentClusterID, false},
		{"lower epoch", func(r *UpdateVoterRequest) { r.Epoch = 0; r.Voter.NodeID = -1 }, FencedLeaderEpoch, false},
		{"higher epoch", func(r *UpdateVoterRequest) { r.Epoch = 2 }, UnknownLeaderEpoch, false},
		{"negative id", func(r *UpdateVoterRequest) { r.Voter.NodeID = -1 }, InvalidRequest, false},
		{"no directory id", func(r *UpdateVoterRequest) { r.Voter.DirectoryID = uuid.Nil }, InvalidRequest, false},
		{"no default listener", func(r *UpdateVoterRequest) { r.Endpoints = nil }, InvalidRequest, false},
		{"a host that no record can have", func(r *UpdateVoterRequest) { r.Endpoints[0].Host = tooLong }, InvalidRequest, false},
		{"a range that is none", func(r *UpdateVoterRequest) { r.MinKRaftVersion = 2 }, InvalidRequest, false},
		{"a range without the finalized level", func(r *UpdateVoterRequest) { r.MaxKRaftVersion = 0 }, InvalidRequest, false},
		{"unknown voter", func(r *UpdateVoterRequest) { r.Voter = ReplicaKey{4, dirID(4, 1)} }, VoterNotFound, false},
		{"another directory", func(r *UpdateVoterRequest) { r.Voter.DirectoryID = dirID(2, 9) }, VoterNotFound, false},
	} {
		l := dynamicLeader(t)
		q := updateRequest(2)
		test.change(q)
		r := l.ask(q).(*UpdateVoterResponse)
		_, appended := effect[AppendLog](l)
		if r.Code != test.code || appended != test.appended {
			t.Errorf("%s: %+v, appended %v", test.reason, r, appended)
		}
		if r.Code != InconsistentClusterID && (r.LeaderID != 1 || r.Epoch != 1 || r.Endpoint != testEndpoint(1)) {
			t.Errorf("%s: %+v", test.reason, r)
		}
	}
}

// TestUpgrade: kraft.version 0 to 1 needs to hear from each voter in the leader's epoch (KIP-853).
func TestUpgrade(t *testing.T) {
	l := inRole(t, "leader")
	upgrade := func(version int16, validate bool) Code {
		return l.ask(&UpgradeRequest{3, version, validate}).(*UpgradeResponse).Code
	}
	update := func(id NodeID, most int16) {
		q := updateRequest(id)
		q.Epoch, q.MaxKRaftVersion = 3, most
		if r := l.ask(q).(*UpdateVoterResponse); r.Code != NoError {
			t.Fatalf("%+v", r)
		}
	}
	if code := upgrade(1, false); code != InvalidUpdateVersion {
		t.Errorf("before a commit of the epoch: %d", code)
	}
	l.syncAll()
	l.step(Synced{11, 0})
	l.ask(fetch(2, 11))
	l.ask(&FetchRequest{Replica: ReplicaKey{3, dirID(3, 9)}, Epoch: 3, FetchOffset: 11, LastFetchedEpoch: 3, HighWatermark: NoHighWatermark})
	if code := l.ask(&UpgradeRequest{2, 1, false}).(*UpgradeResponse).Code; code != NotLeaderOrFollower {
		t.Errorf("another epoch: %d", code)
	}
	if code := upgrade(0, false); code != NoError {
		t.Errorf("the same level: %d", code)
	}
	if code := upgrade(1, false); code != InvalidUpdateVersion {
		t.Errorf("nobody has said anything: %d", code)
	}
	update(2, 1)
	update(3, 0)
	if code := upgrade(1, false); code != InvalidUpdateVersion {
		t.Errorf("one supports 0 only: %d", code)
	}
	update(3, 1)
	if code := upgrade(2, false); code != InvalidUpdateVersion {
		t.Errorf("a level that nobody knows: %d", code)
	}
	if code := upgrade(1, true); code != NoError || l.core.history.version() != 0 {
		t.Errorf("validate only: %d, kraft.version %d", code, l.core.history.version())
	}
	if code := upgrade(1, false); code != NoError || l.core.history.version() != 1 {
		t.Errorf("%d, kraft.version %d", code, l.core.history.version())
	}
	a, _ := effect[AppendLog](l)
	if len(a.Batches) != 1 || len(a.Batches[0].Control) != 2 {
		t.Errorf("%+v", a)
	}
	for _, v := range l.core.voters() {
		if v.Key != (ReplicaKey{v.Key.NodeID, dirID(v.Key.NodeID, 1)}) || v.MaxKRaftVersion != 1 {
			t.Errorf("%+v", v)
		}
	}
	if code := upgrade(0, false); code != InvalidUpdateVersion {
		t.Errorf("back: %d", code)
	}
	// What it knows of a voter goes on under its directory id, if it was of that disk.
	d := l.ask(&DescribeQuorumRequest{}).(*DescribeQuorumResponse)
	if len(d.Observers) != 0 || d.Voters[1].LogEnd != 11 || d.Voters[1].LastFetch < 0 || d.Voters[2].LogEnd != Unknown {
		t.Errorf("after the upgrade: %+v", d)
	}
	// The leader counts voters by their directories now.
	l.step(Synced{13, 0})
	l.ask(&FetchRequest{Replica: ReplicaKey{2, dirID(2, 9)}, Epoch: 3, FetchOffset: 13, LastFetchedEpoch: 3, HighWatermark: NoHighWatermark})
	if hw := l.core.Status().HighWatermark; hw != 11 {
		t.Errorf("another disk counts: %d", hw)
	}
	l.ask(fetch(2, 13))
	if hw := l.core.Status().HighWatermark; hw != 13 {
		t.Errorf("high watermark %d", hw)
	}
}

// A leader whose set comes from the zero checkpoint, or has it at other endpoints, writes the set with its
// first batch (KIP-595).
func TestFirstBatch(t *testing.T) {
	voters := func(n NodeID) (list []Voter) {
		for id := NodeID(1); id <= n; id++ {
			list = append(list, testVoter(id))
		}
		return list
	}
	inLog := func(_ *Config, r *Recovered) {
		r.LogEnd, r.EpochStarts = 3, []EpochStart{{1, 0}}
		r.Control = []Batch{{LastOffset: 2, Epoch: 1, Control: []ControlRecord{LeaderChange{}, KRaftVersion{1}, Voters{voters(1)}}}}
	}
	for _, test := range []struct {
		reason string
		change func(*Config, *Recovered)
		want   int
	}{
		{"from the zero checkpoint", func(*Config, *Recovered) {}, 3},
		{"in the log", inLog, 1},
		{"in the log, with another port", func(cfg *Config, r *Recovered) {
			inLog(cfg, r)
			cfg.Listeners = []Endpoint{{"CONTROLLER", "n1", 9999}}
		}, 3},
	} {
		l := newLone(t, func(cfg *Config, r *Recovered) {
			dynamic(1)(cfg, r)
			test.change(cfg, r)
		})
		l.step(Tick{})
		a, ok := effect[AppendLog](l)
		if !ok || len(a.Batches[0].Control) != test.want {
			t.Errorf("%s: %+v", test.reason, a)
		}
		if v := l.core.voters()[0]; v.Endpoints[0] != l.core.cfg.Listeners[0] {
			t.Errorf("%s: %+v", test.reason, v)
		}
	}
}
