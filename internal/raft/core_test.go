package raft

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// lone is one core whose peers are the test.
type lone struct {
	t    *testing.T
	core *Core
	now  Millis
	// The effects of the last step.
	effects []Effect
	nextID  RequestID
}

// newLone returns node 1 of three static voters in epoch 3, not started yet. Its log has epoch 1 from 0 and
// epoch 2 from 5, and ends at 10.
func newLone(t *testing.T, change func(*Config, *Recovered)) *lone {
	cl := newCluster(t.Fatalf)
	n := cl.addNode(1, 3, nil, false)
	n.cfg.Random = fixedRandom(5) // election timeouts are 1005 ms
	r := Recovered{
		QuorumState: QuorumState{Epoch: 3, LeaderID: None, Voted: noReplica},
		LogEnd:      10,
		EpochStarts: []EpochStart{{1, 0}, {2, 5}},
	}
	if change != nil {
		change(&n.cfg, &r)
	}
	return &lone{t: t, core: New(n.cfg, r), now: 1000}
}

// dynamic makes it one of the dynamic voters 1 to n, of a zero checkpoint.
func dynamic(n int) func(*Config, *Recovered) {
	return func(cfg *Config, r *Recovered) {
		cfg.StaticVoters = nil
		var voters []Voter
		for id := 1; id <= n; id++ {
			voters = append(voters, testVoter(NodeID(id)))
		}
		r.Snapshots = []Snapshot{{KRaftVersion: 1, Voters: voters}}
		r.LogEnd, r.EpochStarts = 0, nil
	}
}

func (l *lone) step(in Input) { l.effects = slices.Clone(l.core.Step(l.now, in)) }

func (l *lone) after(millis Millis) {
	l.now += millis
	l.step(Tick{})
}

// ask hands in a request and returns its answer, nil if there is none yet.
func (l *lone) ask(r Request) Response {
	l.nextID++
	l.step(Received{ID: l.nextID, Request: r})
	return l.answerTo(l.nextID)
}

func (l *lone) answerTo(id RequestID) Response {
	for _, e := range l.effects {
		if reply, ok := e.(Reply); ok && reply.ID == id {
			return reply.Response
		}
	}
	return nil
}

// sent returns the request to a node among the last effects.
func (l *lone) sent(to NodeID) *Send {
	for _, e := range l.effects {
		if s, ok := e.(Send); ok && s.To.NodeID == to {
			return &s
		}
	}
	l.t.Fatalf("nothing is sent to node %d: %v", to, l.effects)
	return nil
}

func effect[E Effect](l *lone) (found E, ok bool) {
	for _, e := range l.effects {
		if e, is := e.(E); is {
			found, ok = e, true
		}
	}
	return found, ok
}

// syncAll answers the last append.
func (l *lone) syncAll() {
	if a, ok := effect[AppendLog](l); ok {
		l.step(Synced{a.EndOffset, a.Generation})
	}
}

func view(epoch Epoch, leader NodeID) LeaderView { return LeaderView{LeaderID: leader, Epoch: epoch} }

// The roles, each in epoch 3 (Candidate and Leader too).
var roles = map[string]func(*testing.T) *lone{
	"unattached": func(t *testing.T) *lone {
		l := newLone(t, nil)
		l.step(Tick{})
		return l
	},
	"unattached, voted for 2": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.Voted = ReplicaKey{NodeID: 2} })
		l.step(Tick{})
		return l
	},
	"unattached, leader 9 known": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.LeaderID = 9 })
		l.step(Tick{})
		return l
	},
	"follower": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.LeaderID = 2 })
		l.step(Tick{})
		return l
	},
	"follower, fetched": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.LeaderID = 2 })
		l.step(Tick{})
		l.step(Answered{l.sent(2).ID, &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		return l
	},
	"follower, fetched, refused": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.LeaderID = 2 })
		l.step(Tick{})
		l.step(Answered{l.sent(2).ID, &FetchResponse{LeaderView: view(3, 2), HighWatermark: 5}})
		l.step(SendFailed{l.sent(2).ID, Refused})
		return l
	},
	"prospective": func(t *testing.T) *lone {
		l := newLone(t, nil)
		l.step(Tick{})
		l.after(1005)
		return l
	},
	"prospective, leader 2 known": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.LeaderID = 2 })
		l.step(Tick{})
		l.after(2000)
		return l
	},
	"candidate": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.Voted = ReplicaKey{1, dirID(1, 1)} })
		l.step(Tick{})
		return l
	},
	"leader": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.Voted = ReplicaKey{1, dirID(1, 1)} })
		l.step(Tick{})
		l.step(Answered{l.sent(2).ID, &VoteResponse{LeaderView: view(3, None), VoteGranted: true}})
		return l
	},
	"resigned": func(t *testing.T) *lone {
		l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState.LeaderID = 1 })
		l.step(Tick{})
		return l
	},
}

func inRole(t *testing.T, name string) *lone {
	l := roles[name](t)
	if got := strings.ToLower(l.core.Status().Role.String()); got != strings.Split(name, ",")[0] {
		t.Fatalf("%s is a %s", name, got)
	}
	if e := l.core.Status().Epoch; e != 3 {
		t.Fatalf("%s is in epoch %d", name, e)
	}
	return l
}

// TestStart has the roles in which a node starts, by what its disk has (KIP-595).
func TestStart(t *testing.T) {
	own := ReplicaKey{1, dirID(1, 1)}
	for _, test := range []struct {
		reason string
		quorum QuorumState
		role   Role
		epoch  Epoch
		leader NodeID
		voted  NodeID
	}{
		{"no file: the epoch of the log", NoQuorumState(), Unattached, 2, None, None},
		{"a file older than the log: its vote counts no more", QuorumState{Epoch: 1, LeaderID: None, Voted: ReplicaKey{NodeID: 3}}, Unattached, 2, None, None},
		{"a file as old as the log", QuorumState{Epoch: 2, LeaderID: None, Voted: ReplicaKey{NodeID: 3}}, Unattached, 2, None, 3},
		{"a vote", QuorumState{Epoch: 3, LeaderID: None, Voted: ReplicaKey{NodeID: 3}}, Unattached, 3, None, 3},
		{"the own vote", QuorumState{Epoch: 3, LeaderID: None, Voted: ReplicaKey{NodeID: 1}}, Candidate, 3, None, 1},
		{"the own vote, in an epoch of which the log has a record: it has been led", QuorumState{Epoch: 2, LeaderID: None, Voted: own}, Unattached, 2, None, 1},
		{"the own vote with the directory id", QuorumState{Epoch: 3, LeaderID: None, Voted: own}, Candidate, 3, None, 1},
		{"the vote of this node before its disk was replaced", QuorumState{Epoch: 3, LeaderID: None, Voted: ReplicaKey{1, dirID(1, 9)}}, Unattached, 3, None, 1},
		{"it led", QuorumState{Epoch: 3, LeaderID: 1, Voted: noReplica}, Resigned, 3, 1, None},
		{"a leader in the voter set", QuorumState{Epoch: 3, LeaderID: 2, Voted: ReplicaKey{NodeID: 3}}, Follower, 3, 2, 3},
		{"a leader without an address", QuorumState{Epoch: 3, LeaderID: 9, Voted: noReplica}, Unattached, 3, 9, None},
	} {
		t.Run(test.reason, func(t *testing.T) {
			l := newLone(t, func(_ *Config, r *Recovered) { r.QuorumState = test.quorum })
			l.step(Tick{})
			s := l.core.Status()
			if s.Role != test.role || s.Epoch != test.epoch || s.LeaderID != test.leader || s.Voted.NodeID != test.voted {
				t.Errorf("%v of epoch %d, leader %d, vote %v", s.Role, s.Epoch, s.LeaderID, s.Voted)
			}
			if w, ok := effect[WriteQuorumState](l); !ok || w.State.Epoch != test.epoch {
				t.Errorf("writes %v", w)
			}
		})
	}
}

// The only voter leads at once, whatever its disk has.
func TestOnlyVoter(t *testing.T) {
	for _, leader := range []NodeID{None, 1} {
		l := newLone(t, func(cfg *Config, r *Recovered) {
			cfg.StaticVoters = cfg.StaticVoters[:1]
			r.QuorumState.LeaderID = leader
		})
		l.step(Tick{})
		if s := l.core.Status(); s.Role != Leader || s.Epoch != 4 {
			t.Fatalf("%v of epoch %d", s.Role, s.Epoch)
		}
		for _, e := range l.effects {
			if e, ok := e.(LeaderChanged); ok && e.LeaderID == 1 && e.StartOffset == Unknown {
				t.Errorf("told as the leader of epoch %d, which it leads no more", e.Epoch)
			}
		}
		if l.core.Status().HighWatermark != Unknown {
			t.Fatal("something is committed before the fsync")
		}
		l.syncAll()
		if hw := l.core.Status().HighWatermark; hw != 11 {
			t.Fatalf("high watermark %d", hw)
		}
	}
}

// A damaged recovery ends in a Fatal, and nothing after it has an effect.
func TestFatal(t *testing.T) {
	voter := func(change func(*Voter)) func(*Config, *Recovered) {
		return func(cfg *Config, _ *Recovered) { change(&cfg.StaticVoters[1]) }
	}
	for reason, change := range map[string]func(*Config, *Recovered){
		"no directory id":                       func(cfg *Config, _ *Recovered) { cfg.DirectoryID = uuid.Nil },
		"no snapshot":                           func(_ *Config, r *Recovered) { r.LogStart = 3 },
		"a negative id":                         func(cfg *Config, _ *Recovered) { cfg.NodeID = -1 },
		"no randomness":                         func(cfg *Config, _ *Recovered) { cfg.Random = nil },
		"no listener":                           func(cfg *Config, _ *Recovered) { cfg.Listeners = nil },
		"no default listener":                   func(cfg *Config, _ *Recovered) { cfg.DefaultListener = "OTHER" },
		"no range":                              func(cfg *Config, _ *Recovered) { cfg.MinKRaftVersion, cfg.MaxKRaftVersion = 1, 0 },
		"a negative range":                      func(cfg *Config, _ *Recovered) { cfg.MinKRaftVersion = -1 },
		"no bytes of a Fetch":                   func(cfg *Config, _ *Recovered) { cfg.FetchMaxBytes = 0 },
		"no bytes of a FetchSnapshot":           func(cfg *Config, _ *Recovered) { cfg.SnapshotMaxBytes = 0 },
		"a negative time":                       func(cfg *Config, _ *Recovered) { cfg.RetryBackoffMillis = -1 },
		"a time that adds up to a negative one": func(cfg *Config, _ *Recovered) { cfg.FetchTimeoutMillis = 1 << 62 },
		"a voter twice":                         voter(func(v *Voter) { v.Key.NodeID = 1 }),
		"a negative voter":                      voter(func(v *Voter) { v.Key.NodeID = -2 }),
		"a static voter with a directory id":    voter(func(v *Voter) { v.Key.DirectoryID = dirID(2, 1) }),
		"a voter that cannot be dialled":        voter(func(v *Voter) { v.Endpoints = nil }),
		"a kraft.version that is not known":     func(_ *Config, r *Recovered) { r.Snapshots = []Snapshot{{KRaftVersion: 2}} },
	} {
		l := newLone(t, change)
		l.step(Tick{})
		if _, ok := effect[Fatal](l); !ok || l.core.Status().Fatal == "" || len(l.effects) != 1 {
			t.Errorf("%s: %v", reason, l.effects)
		}
		if l.after(10_000); len(l.effects) != 0 {
			t.Errorf("%s: %v", reason, l.effects)
		}
		if _, ok := l.core.Deadline(); ok {
			t.Errorf("%s: a deadline", reason)
		}
	}
}

// A node runs with times of 0, and a broker without a listener.
func TestSparseConfig(t *testing.T) {
	l := newLone(t, func(cfg *Config, r *Recovered) {
		cfg.NodeID, cfg.DirectoryID, cfg.CanBeVoter, cfg.Listeners = 9, dirID(9, 1), false, nil
		cfg.ElectionTimeoutMillis, cfg.ElectionBackoffMaxMillis, cfg.FetchTimeoutMillis, cfg.RequestTimeoutMillis, cfg.RetryBackoffMillis = 0, 0, 0, 0, 0
		r.QuorumState.LeaderID = 2
	})
	l.step(Tick{})
	if q := l.sent(2).Request.(*FetchRequest); q.MaxWaitMillis != 1 || l.core.Status().Fatal != "" {
		t.Errorf("%+v", q)
	}
}

// A notice that repeats itself is told once in ten seconds.
func TestNotices(t *testing.T) {
	l := inRole(t, "leader")
	said := func(id NodeID) bool {
		l.ask(&BeginQuorumEpochRequest{Voter: noReplica, LeaderID: id, Epoch: 3})
		return slices.ContainsFunc(l.effects, func(e Effect) bool {
			n, ok := e.(Notice)
			return ok && strings.HasPrefix(n.Text, "node ")
		})
	}
	for i, want := range []bool{true, false, false} {
		if said(2) != want {
			t.Errorf("%d: %v", i, !want)
		}
	}
	if !said(3) {
		t.Error("another one is not told")
	}
	for id := range NodeID(100) {
		said(10 + id)
	}
	if len(l.core.told) != maxTold {
		t.Errorf("%d are remembered", len(l.core.told))
	}
	said(2)
	l.now += toldMillis - 1
	if said(2) {
		t.Error("too early")
	}
	if l.now++; !said(2) {
		t.Error("never again")
	}
}

// An answer with a top-level error says nothing of a leader: node 0 may be one.
func TestNoView(t *testing.T) {
	other := "other"
	for _, q := range []Request{
		&VoteRequest{ClusterID: &other}, &BeginQuorumEpochRequest{ClusterID: &other}, &EndQuorumEpochRequest{ClusterID: &other},
		&FetchRequest{ClusterID: &other}, &FetchSnapshotRequest{ClusterID: &other}, &UpdateVoterRequest{ClusterID: &other},
	} {
		var code Code
		var view LeaderView
		switch r := inRole(t, "leader").ask(q).(type) {
		case *VoteResponse:
			code, view = r.Code, r.LeaderView
		case *BeginQuorumEpochResponse:
			code, view = r.Code, r.LeaderView
		case *EndQuorumEpochResponse:
			code, view = r.Code, r.LeaderView
		case *FetchResponse:
			code, view = r.Code, r.LeaderView
		case *FetchSnapshotResponse:
			code, view = r.Code, r.LeaderView
		case *UpdateVoterResponse:
			code, view = r.Code, r.LeaderView
		}
		if code != InconsistentClusterID || view != noView {
			t.Errorf("%T: code %d, %+v", q, code, view)
		}
	}
}

// Effects that make a promise to a peer come behind the write that keeps it.
func TestWritesComeFirst(t *testing.T) {
	l := inRole(t, "unattached")
	l.ask(&VoteRequest{Voter: noReplica, ReplicaEpoch: 4, Replica: ReplicaKey{2, dirID(2, 1)}, LastEpoch: 2, LastOffset: 10})
	want := []string{"WriteQuorumState", "LeaderChanged", "Reply"}
	var got []string
	for _, e := range l.effects {
		if n := effectName(e); slices.Contains(want, n) {
			got = append(got, n)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	l = inRole(t, "candidate")
	l.step(Answered{l.core.out.inFlight[0].id, &VoteResponse{LeaderView: view(3, None), VoteGranted: true}})
	got = nil
	for _, e := range l.effects {
		got = append(got, effectName(e))
	}
	if !slices.Equal(got, []string{"WriteQuorumState", "LeaderChanged", "WriteEpochStarts", "AppendLog", "Send", "Send"}) {
		t.Errorf("%v", got)
	}
}

// TestImports: nothing of the outside can be reached from the core. Chance comes by Config, time by Step, bytes
// by the codec.
func TestImports(t *testing.T) {
	allowed := []string{"bytes", "cmp", "errors", "fmt", "slices", "strings", "github.com/google/uuid", "kstorage/internal/kafkaid", "kstorage/internal/record"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", f.Name(), path)
			}
			if strings.HasPrefix(path, "kstorage/internal/record") && f.Name() != "control.go" {
				t.Errorf("%s imports %s: only control.go knows bytes", f.Name(), path)
			}
		}
	}
}
