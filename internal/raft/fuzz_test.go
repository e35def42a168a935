package raft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzCore feeds one core what no honest peer sends: any requests and answers, in any order, with crashes in between.
// There is no panic, and every local invariant holds:
//   - the epoch and the high watermark never go back, the epoch not even over a crash;
//   - at most one vote an epoch, also over a crash, and one leader an epoch, as far as this node says;
//   - nothing committed is cut; what is committed is in the log;
//   - a Fetch acknowledges only what is durable, and votes are asked for with what is durable;
//   - a vote is on disk before its answer leaves, and the own one before others are asked;
//   - epoch starts ascend, none is behind the log's end, and each append is of the last one's epoch;
//   - each request is answered at most once;
//   - the deadline is in the future; nothing comes after the end.
func FuzzCore(f *testing.F) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { newVictim(t, data).run() })
}

// TestCoreByChance runs the fuzz target on more random inputs than its corpus has.
func TestCoreByChance(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 100+r.IntN(1500))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		newVictim(t, data).run()
	}
}

// victim is the core under test with its disk and the rest of the input.
type victim struct {
	t    *testing.T
	data []byte
	cfg  Config
	core *Core
	disk testDisk
	now  Millis

	last     Status
	votes    map[Epoch]NodeID
	leaders  map[Epoch]NodeID
	sends    map[RequestID]Send
	inbound  map[RequestID]Request
	nextID   RequestID
	install  *SnapshotID
	appended *AppendLog
}

func newVictim(t *testing.T, data []byte) *victim {
	v := &victim{t: t, data: data, votes: map[Epoch]NodeID{}, leaders: map[Epoch]NodeID{}}
	kind := v.pick(8)
	n := newCluster(t.Fatalf).addNode(NodeID(1+v.pick(2)*3), 0, nil, false) // a voter, or node 4, an observer
	v.cfg = n.cfg
	v.disk = testDisk{quorum: NoQuorumState()}
	voters := []Voter{testVoter(1), testVoter(2), testVoter(3)}[:1+2*(kind%2)]
	if kind/2%2 == 0 {
		for _, voter := range voters {
			v.cfg.StaticVoters = append(v.cfg.StaticVoters, Voter{Key: ReplicaKey{NodeID: voter.Key.NodeID}, Endpoints: voter.Endpoints})
		}
	} else {
		v.disk.snapshots = []Snapshot{{SizeBytes: 50, KRaftVersion: 1, Voters: voters}}
	}
	v.cfg.BootstrapServers = []Endpoint{testEndpoint(1), testEndpoint(2), testEndpoint(3)}
	v.cfg.AutoJoin = kind >= 4
	v.start()
	return v
}

func (v *victim) start() {
	v.cfg.Random = rand.New(rand.NewPCG(uint64(len(v.data)), 3))
	v.core = New(v.cfg, v.disk.recovered())
	v.sends, v.inbound = map[RequestID]Send{}, map[RequestID]Request{}
	v.install, v.appended = nil, nil
	epoch := v.last.Epoch
	v.last = Status{HighWatermark: Unknown}
	v.step(Tick{})
	if v.last.Epoch < epoch {
		v.t.Fatalf("epoch %d becomes %d in a crash", epoch, v.last.Epoch)
	}
}

// pick takes a byte of the input as a number in [0, n).
func (v *victim) pick(n int) int {
	if len(v.data) == 0 {
		return 0
	}
	b := int(v.data[0])
	v.data = v.data[1:]
	return b % n
}

func (v *victim) flag() bool { return v.pick(2) == 0 }

func (v *victim) run() {
	for len(v.data) > 0 {
		switch v.pick(16) {
		case 0, 1:
			v.now += Millis(v.pick(256)) * 10
			v.step(Tick{})
		case 2:
			if at, ok := v.core.Deadline(); ok {
				v.now = at
			}
			v.step(Tick{})
		case 3, 4:
			if a := v.appended; a != nil {
				v.appended = nil
				v.disk.synced = a.EndOffset
				v.step(Synced{a.EndOffset, a.Generation})
			}
		case 5:
			if id, ok := v.anySend(); ok {
				delete(v.sends, id)
				v.step(SendFailed{id, SendFailure(v.pick(5))})
			}
		case 6, 7, 8:
			if id, ok := v.anySend(); ok {
				r := v.response(v.sends[id].Request)
				delete(v.sends, id)
				v.step(Answered{id, r})
			}
		case 9:
			v.step(Answered{RequestID(v.pick(256)), v.response(v.request())})
		case 10, 11, 12, 13:
			v.nextID++
			r := v.request()
			v.inbound[v.nextID] = r
			v.step(Received{ID: v.nextID, Request: r})
		case 14:
			v.local()
		case 15:
			if v.pick(4) == 0 {
				v.disk.crash()
				v.start()
			}
		}
	}
}

func (v *victim) local() {
	switch v.pick(6) {
	case 0:
		v.step(Resign{v.epoch()})
	case 1:
		if v.pick(8) == 0 {
			v.step(Shutdown{})
		}
	case 2:
		v.step(Clean{WallMillis: 1 << 50, LogSizeBytes: 1 << 50})
	case 3:
		id := SnapshotID{v.offset(), v.epoch()}
		if s, err := v.core.SnapshotHeader(id); err == nil && !v.core.done {
			s.SizeBytes = 100
			v.disk.snapshots = append(v.disk.snapshots, s)
			v.step(SnapshotCreated{s})
		}
	case 4:
		if id := v.install; id != nil {
			v.install = nil
			if v.flag() {
				v.step(SnapshotRejected{*id})
				return
			}
			s := Snapshot{ID: *id, SizeBytes: 100, KRaftVersion: 1, Voters: v.voters()}
			v.disk.snapshots = append(v.disk.snapshots, s)
			v.step(SnapshotInstalled{s})
		}
	case 5:
		v.step(ClusterIDLearned{"C"})
	}
}

func (v *victim) anySend() (RequestID, bool) {
	var ids []RequestID
	for id := range v.sends {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return 0, false
	}
	return ids[v.pick(len(ids))], true
}

// Values that are near to what matters, and some far away.

func (v *victim) epoch() Epoch {
	if x := v.pick(32); x > 3 {
		return v.last.Epoch
	} else if x == 0 && v.pick(16) == 0 {
		return 1<<31 - 1
	} else {
		return v.last.Epoch + Epoch(x) - 1
	}
}

func (v *victim) offset() Offset {
	switch v.pick(6) {
	case 0:
		return Offset(v.pick(20)) - 1
	case 1:
		return v.last.HighWatermark
	case 2:
		return v.last.LogStart
	case 3:
		return v.last.LogEnd + Offset(v.pick(4)) - 1
	case 4:
		if v.pick(16) == 0 {
			return NoHighWatermark
		}
	}
	return v.last.LogEnd
}

func (v *victim) node() NodeID { return NodeID(v.pick(6)) - 1 }

func (v *victim) key() ReplicaKey {
	id := v.node()
	return ReplicaKey{id, dirID(id, byte(v.pick(8)/6+1))}
}

func (v *victim) voters() (voters []Voter) {
	for id := range 1 + v.pick(4) {
		voters = append(voters, testVoter(NodeID(id+1)))
	}
	return voters
}

func (v *victim) endpoints() []Endpoint {
	if v.flag() {
		return nil
	}
	return []Endpoint{testEndpoint(NodeID(v.pick(4) + 1))}
}

func (v *victim) cluster() *string {
	id := []string{"C", "C", "C", "other", ""}[v.pick(5)]
	if v.flag() {
		return nil
	}
	return &id
}

func (v *victim) batch(base Offset) Batch {
	b := Batch{BaseOffset: base, LastOffset: base + Offset(v.pick(3)), Epoch: v.epoch(), Bytes: []byte("x")}
	switch v.pick(8) {
	case 0:
		b.BaseOffset = v.offset()
	case 1:
		b.LastOffset = v.offset()
	case 2:
		b.LastOffset = base
		b.Control = []ControlRecord{Voters{v.voters()}}
	case 3:
		b.LastOffset = base + 1
		b.Control = []ControlRecord{KRaftVersion{[]int16{0, 1, 1, 1, 1, 1, 1, 2}[v.pick(8)]}, Voters{v.voters()}}
	case 4:
		b.Epoch = v.last.LastEpoch
	}
	return b
}

func (v *victim) request() Request {
	switch v.pick(11) {
	case 0, 1:
		return &VoteRequest{v.cluster(), v.key(), v.epoch(), v.key(), v.epoch() - 1, v.offset(), v.flag()}
	case 2:
		return &BeginQuorumEpochRequest{v.cluster(), v.key(), v.node(), v.epoch(), v.endpoints()}
	case 3:
		return &EndQuorumEpochRequest{v.cluster(), v.node(), v.epoch(), []ReplicaKey{v.key(), v.key()}, v.endpoints()}
	case 4, 5:
		return &FetchRequest{v.cluster(), v.key(), Millis(v.pick(3)-1) * 500, int32(v.pick(3)) - 1, v.epoch(), v.offset(), v.epoch(), v.offset()}
	case 6:
		return &FetchSnapshotRequest{v.cluster(), v.key(), int32(v.pick(3)) * 50, v.epoch(), SnapshotID{v.offset(), v.epoch()}, int64(v.pick(120)) - 1}
	case 7:
		return &AddVoterRequest{v.cluster(), 2000, v.key(), v.endpoints(), v.flag()}
	case 8:
		return &RemoveVoterRequest{v.cluster(), v.key()}
	case 9:
		return &UpdateVoterRequest{v.cluster(), v.epoch(), v.key(), v.endpoints(), int16(v.pick(3)) - 1, int16(v.pick(3))}
	default:
		switch v.pick(3) {
		case 0:
			return &DescribeQuorumRequest{}
		case 1:
			return &UpgradeRequest{v.epoch(), int16(v.pick(3)), v.flag()}
		}
		return &AppendRequest{v.batch(v.last.LogEnd)}
	}
}

func (v *victim) code() Code {
	if v.pick(3) > 0 {
		return NoError
	}
	return []Code{UnknownServerError, NotLeaderOrFollower, BrokerNotAvailable, FencedLeaderEpoch, UnknownLeaderEpoch, SnapshotNotFound, InvalidVoterKey,
		InconsistentClusterID, UnsupportedVersion, RequestTimedOut}[v.pick(10)]
}

func (v *victim) view() LeaderView {
	view := LeaderView{v.node(), v.epoch(), Endpoint{}}
	if leader := v.last.LeaderID; v.flag() && leader != None {
		view.LeaderID = leader
	}
	if v.flag() {
		view.Endpoint = testEndpoint(view.LeaderID)
	}
	return view
}

func (v *victim) response(to Request) Response {
	if v.pick(16) == 0 {
		to = v.request() // of another API
	}
	top := NoError
	if v.pick(8) == 0 {
		top = v.code()
	}
	switch q := to.(type) {
	case *VoteRequest:
		return &VoteResponse{top, v.code(), v.view(), v.flag()}
	case *BeginQuorumEpochRequest:
		return &BeginQuorumEpochResponse{top, v.code(), v.view()}
	case *EndQuorumEpochRequest:
		return &EndQuorumEpochResponse{top, v.code(), v.view()}
	case *FetchRequest:
		r := &FetchResponse{Code: top, Partition: v.code(), LeaderView: v.view(), HighWatermark: v.offset(), LogStart: v.offset()}
		switch v.pick(6) {
		case 0:
			r.Diverging = &EpochEnd{v.epoch(), v.offset()}
		case 1:
			r.SnapshotID = &SnapshotID{v.offset() + Offset(v.pick(20)), v.epoch()}
		default:
			base := q.FetchOffset
			for range v.pick(4) {
				b := v.batch(base)
				r.Batches = append(r.Batches, b)
				base = b.LastOffset + 1
			}
		}
		return r
	case *FetchSnapshotRequest:
		r := &FetchSnapshotResponse{Code: top, Partition: v.code(), LeaderView: v.view(), SnapshotID: q.SnapshotID, SizeBytes: 100, Position: q.Position, Bytes: make([]byte, max(0, 100-q.Position)/int64(1+v.pick(2)))}
		switch v.pick(8) {
		case 0:
			r.SizeBytes = int64(v.pick(256)) - 1
		case 1:
			r.SnapshotID.EndOffset = v.offset()
		case 2:
			r.Position++
		}
		return r
	case *AddVoterRequest, *RemoveVoterRequest:
		return &ChangeVoterResponse{v.code(), "m"}
	case *UpdateVoterRequest:
		return &UpdateVoterResponse{v.code(), v.view()}
	case *ApiVersionsRequest:
		return &ApiVersionsResponse{top, v.flag(), int16(v.pick(2)), int16(v.pick(3))}
	case *AppendRequest:
		return nil
	}
	return &DescribeQuorumResponse{}
}

// step makes one step and checks everything.
func (v *victim) step(in Input) {
	done := v.core.done
	effects := slices.Clone(v.core.Step(v.now, in))
	s := v.core.Status()
	if done && len(effects) > 0 {
		v.t.Fatalf("effects after the end: %v", effects)
	}
	if s.Epoch < v.last.Epoch || s.HighWatermark < v.last.HighWatermark || s.HighWatermark > s.LogEnd {
		v.t.Fatalf("epoch %d, high watermark %d become %d, %d in a log to %d", v.last.Epoch, v.last.HighWatermark, s.Epoch, s.HighWatermark, s.LogEnd)
	}
	if at, ok := v.core.Deadline(); ok && at <= v.now {
		v.t.Fatalf("the deadline %d has passed at %d", at, v.now)
	}
	if s.LeaderID != None && s.Fatal == "" {
		if l, ok := v.leaders[s.Epoch]; ok && l != s.LeaderID {
			v.t.Fatalf("the leader of epoch %d is %d, and was %d", s.Epoch, s.LeaderID, l)
		}
		v.leaders[s.Epoch] = s.LeaderID
	}
	hw := v.last.HighWatermark
	v.last = s
	for i, e := range effects {
		v.checkEffect(e, hw)
		if _, ok := e.(Fatal); ok && i != len(effects)-1 {
			v.t.Fatalf("effects after a Fatal: %v", effects[i+1:])
		}
		v.disk.apply(e)
	}
	// What peers have been sent is on disk.
	if v.disk.end != s.LogEnd || v.disk.start != s.LogStart {
		v.t.Fatalf("the log is from %d to %d, on disk from %d to %d", s.LogStart, s.LogEnd, v.disk.start, v.disk.end)
	}
}

func (v *victim) checkEffect(e Effect, hw Offset) {
	switch e := e.(type) {
	case WriteQuorumState:
		if id := e.State.Voted.NodeID; id != None {
			if old, ok := v.votes[e.State.Epoch]; ok && old != id {
				v.t.Fatalf("votes for %d and %d in epoch %d", old, id, e.State.Epoch)
			}
			v.votes[e.State.Epoch] = id
		}
	case WriteEpochStarts:
		for i, s := range e.Entries {
			if i > 0 && (s.Epoch <= e.Entries[i-1].Epoch || s.Start <= e.Entries[i-1].Start) || s.Start > v.disk.end {
				v.t.Fatalf("epoch starts %v of a log to %d", e.Entries, v.disk.end)
			}
		}
	case AppendLog:
		for _, b := range e.Batches {
			if b.BaseOffset != v.disk.end {
				v.t.Fatalf("appends at %d to a log that ends at %d", b.BaseOffset, v.disk.end)
			}
			if s := v.disk.epochs[len(v.disk.epochs)-1]; s.Epoch != b.Epoch || s.Start > b.BaseOffset {
				v.t.Fatalf("appends at %d with epoch %d, and the epoch starts are %v", b.BaseOffset, b.Epoch, v.disk.epochs)
			}
			v.disk.end = b.LastOffset + 1
		}
		v.appended = &e
	case TruncateLog:
		v.appended = nil
		if e.EndOffset < hw || e.EndOffset > v.disk.end {
			v.t.Fatalf("truncates to %d, the high watermark is %d", e.EndOffset, hw)
		}
	case ResetLog:
		v.appended = nil
		if e.ID.EndOffset < hw {
			v.t.Fatalf("begins anew at %d, the high watermark is %d", e.ID.EndOffset, hw)
		}
	case DeletePrefix:
		if e.LogStart > v.last.HighWatermark {
			v.t.Fatalf("deletes up to %d, the high watermark is %d", e.LogStart, v.last.HighWatermark)
		}
	case InstallSnapshot:
		v.install = &e.ID
	case Send:
		if q, ok := e.Request.(*FetchRequest); ok && (q.FetchOffset != v.disk.end || v.appended != nil) {
			v.t.Fatalf("a Fetch from %d, and not all is durable", q.FetchOffset)
		}
		if q, ok := e.Request.(*VoteRequest); ok && (q.LastOffset != v.disk.end || v.appended != nil) {
			v.t.Fatalf("asks for votes with a log to %d, and not all is durable", q.LastOffset)
		}
		if q, ok := e.Request.(*VoteRequest); ok && !q.PreVote && (v.disk.quorum.Epoch != q.ReplicaEpoch || v.disk.quorum.Voted.NodeID != v.cfg.NodeID) {
			v.t.Fatalf("asks for a vote before its own is on disk")
		}
		v.sends[e.ID] = e
	case Reply:
		q, ok := v.inbound[e.ID]
		if !ok {
			v.t.Fatalf("answers request %d, which is not open", e.ID)
		}
		delete(v.inbound, e.ID)
		if r, ok := e.Response.(*VoteResponse); ok && r.VoteGranted && !q.(*VoteRequest).PreVote && v.disk.quorum.Voted.NodeID != q.(*VoteRequest).Replica.NodeID {
			v.t.Fatalf("a vote is granted before it is on disk")
		}
	}
}
