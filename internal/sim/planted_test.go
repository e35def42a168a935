package sim

import (
	"slices"
	"strings"
	"testing"

	"kstorage/internal/raft"
)

// Each bug is caught within so many seeds of a scenario, by a violation that says so.
func TestPlantedBugs(t *testing.T) {
	tests := []struct {
		bug      string
		scenario string
		seeds    uint64
		caught   string // one of these, by |
		plant    func() tamper
	}{
		{"vote not persisted", "election", 100, "votes in epoch|leads epoch", voteNotPersisted},
		{"high watermark from the leader alone", "calm", 5, "voters have on disk", leaderAlone},
		{"acknowledgement before fsync", "calm", 5, "voters have on disk", earlySynced},
		{"votes asked for with an unsynced log", "election", 300, "leader completeness", unsyncedCandidate},
		{"no log check in votes", "crash", 100, "leader completeness", noLogCheck},
		{"commit of an older epoch by count", "crash", 50, "by count", commitByCount},
		{"truncation below the high watermark", "partition", 100, "below its high watermark", truncateTooMuch},
		{"two voter changes at once", "members", 30, "voters at once", twoChanges},
		{"two voter changes on their way", "members", 100, "is not committed|voters at once", changesOnTheirWay},
		{"a stale quorum-state accepted", "crash", 50, "goes back|votes in epoch|leads epoch", staleQuorumState},
		{"a snapshot newer than the high watermark", "snapshot", 30, "above its high watermark", earlySnapshot},
	}
	for _, tt := range tests {
		t.Run(tt.bug, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == tt.scenario })
			for seed := range tt.seeds {
				r := run(scenarios[i], seed, tt.plant(), nil)
				if r.violation == "" {
					continue
				}
				line, _, _ := strings.Cut(r.violation, "\n")
				if !slices.ContainsFunc(strings.Split(tt.caught, "|"), func(s string) bool { return strings.Contains(line, s) }) {
					t.Fatalf("seed %d is caught by: %s", seed, r.violation)
				}
				t.Logf("caught with seed %d: %s", seed, line)
				return
			}
			t.Errorf("not caught with %d seeds", tt.seeds)
		})
	}
}

// The vote goes out, but not to the disk.
func voteNotPersisted() tamper {
	return tamper{effect: func(_ *process, e raft.Effect) raft.Effect {
		if w, ok := e.(raft.WriteQuorumState); ok {
			w.State.Voted = raft.NoQuorumState().Voted
			return w
		}
		return e
	}}
}

// The leader takes each fetch for one at its log's end.
func leaderAlone() tamper {
	return tamper{input: func(p *process, in raft.Input) raft.Input {
		r, ok := in.(raft.Received)
		if !ok || p.status.Role != raft.Leader {
			return in
		}
		if f, ok := r.Request.(*raft.FetchRequest); ok && f.Epoch == p.status.Epoch {
			fake := *f
			fake.FetchOffset, fake.LastFetchedEpoch = p.status.LogEnd, p.status.LastEpoch
			r.Request = &fake
		}
		return r
	}}
}

// The core hears of an fsync as soon as something is appended.
func earlySynced() tamper {
	return tamper{effect: func(p *process, e raft.Effect) raft.Effect {
		if a, ok := e.(raft.AppendLog); ok {
			p.driver.inbox = append(p.driver.inbox, raft.Synced{EndOffset: a.EndOffset, Generation: a.Generation})
		}
		return e
	}}
}

// A follower stands for election with what its disk does not have yet. It does not acknowledge it.
func unsyncedCandidate() tamper {
	return tamper{effect: func(p *process, e raft.Effect) raft.Effect {
		switch e := e.(type) {
		case raft.AppendLog:
			if p.driver.core.Status().Role != raft.Leader {
				p.driver.inbox = append(p.driver.inbox, raft.Synced{EndOffset: e.EndOffset, Generation: e.Generation})
			}
		case raft.Send:
			if _, ok := e.Request.(*raft.FetchRequest); ok && (p.driver.syncing || p.driver.appended) {
				p.driver.inbox = append(p.driver.inbox, raft.SendFailed{ID: e.ID, Reason: raft.TimedOut})
				return raft.Notice{Text: "a Fetch is held back"}
			}
		}
		return e
	}}
}

// Whoever asks for a vote has a log that beats all.
func noLogCheck() tamper {
	return tamper{input: func(_ *process, in raft.Input) raft.Input {
		if r, ok := in.(raft.Received); ok {
			if v, ok := r.Request.(*raft.VoteRequest); ok {
				fake := *v
				fake.LastOffset = 1 << 40
				if fake.LastEpoch = fake.ReplicaEpoch; !fake.PreVote {
					fake.LastEpoch--
				}
				r.Request = &fake
				return r
			}
		}
		return in
	}}
}

// A leader commits what a majority of all voters, itself included, has fetched, whatever its epoch.
func commitByCount() tamper {
	type place struct {
		epoch raft.Epoch
		ends  map[raft.NodeID]raft.Offset
	}
	leaders := map[*process]*place{}
	return tamper{input: func(p *process, in raft.Input) raft.Input {
		r, ok := in.(raft.Received)
		f, isFetch := r.Request.(*raft.FetchRequest)
		s := p.status
		if !ok || !isFetch || s.Role != raft.Leader || f.Epoch != s.Epoch || s.HighWatermark == raft.Unknown {
			return in
		}
		l := leaders[p]
		if l == nil || l.epoch != s.Epoch {
			l = &place{s.Epoch, map[raft.NodeID]raft.Offset{}}
			leaders[p] = l
		}
		if _, ok := p.directory.chainAt(f.FetchOffset); ok && f.FetchOffset <= s.LogEnd {
			l.ends[f.Replica.NodeID] = f.FetchOffset
		}
		var ends []raft.Offset
		for _, v := range s.Voters {
			end := l.ends[v.Key.NodeID]
			if v.Key.NodeID == p.machine.id {
				end = s.SyncedEnd
			}
			ends = append(ends, end)
		}
		slices.Sort(ends)
		if end := ends[(len(ends)-1)/2]; end > p.highWatermark && end > p.w.check.committedEnd() {
			p.above(raft.Committed{HighWatermark: end}) // as if it came out of the core
		}
		return in
	}}
}

// A follower cuts one batch more than it should, and more.
func truncateTooMuch() tamper {
	return tamper{effect: func(p *process, e raft.Effect) raft.Effect {
		if t, ok := e.(raft.TruncateLog); ok {
			for i := len(p.directory.batches) - 1; i >= 0; i-- {
				if b := p.directory.batches[i]; b.end() <= p.highWatermark && b.base < t.EndOffset {
					t.EndOffset = b.base
					return t
				}
			}
		}
		return e
	}}
}

// When a leader removes a voter, another one goes too.
func twoChanges() tamper {
	return tamper{effect: func(p *process, e raft.Effect) raft.Effect {
		a, ok := e.(raft.AppendLog)
		if !ok || p.driver.core.Status().Role != raft.Leader {
			return e
		}
		before, _ := p.directory.voterSet()
		for i, b := range a.Batches {
			if len(b.Control) != 1 {
				continue
			}
			if v, ok := b.Control[0].(raft.Voters); ok && len(v.Voters) > 1 && changed(before, v.Voters) == 1 {
				a.Batches = slices.Clone(a.Batches)
				a.Batches[i].Control = []raft.ControlRecord{raft.Voters{Voters: v.Voters[1:]}}
			}
		}
		return a
	}}
}

// A leader makes another change of voters while one is on its way.
func changesOnTheirWay() tamper {
	return tamper{effect: func(p *process, e raft.Effect) raft.Effect {
		a, ok := e.(raft.AppendLog)
		if !ok || p.driver.core.Status().Role != raft.Leader {
			return e
		}
		for _, b := range a.Batches {
			for _, r := range b.Control {
				if v, ok := r.(raft.Voters); ok && len(b.Control) == 1 && len(v.Voters) > 2 {
					next := raft.Batch{BaseOffset: a.EndOffset, LastOffset: a.EndOffset, Epoch: b.Epoch}
					next.Control = []raft.ControlRecord{raft.Voters{Voters: v.Voters[1:]}}
					a.Batches = append(slices.Clone(a.Batches), next)
					a.EndOffset++
					return a
				}
			}
		}
		return a
	}}
}

// A node that starts finds the quorum-state of its first start with an epoch.
func staleQuorumState() tamper {
	first := map[*machine]raft.QuorumState{}
	return tamper{recovered: func(m *machine, r *raft.Recovered) {
		if s, ok := first[m]; ok {
			r.QuorumState = s
		} else if r.QuorumState.Epoch > 0 {
			first[m] = r.QuorumState
		}
	}}
}

// A node makes snapshots of its whole log.
func earlySnapshot() tamper {
	return tamper{snapshot: func(p *process) raft.SnapshotID {
		if n := len(p.directory.batches); n > 0 {
			b := p.directory.batches[n-1]
			return raft.SnapshotID{EndOffset: b.end(), Epoch: b.epoch}
		}
		return raft.SnapshotID{EndOffset: p.directory.start, Epoch: p.directory.startEpoch}
	}}
}
