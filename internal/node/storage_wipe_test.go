package node

import (
	"errors"
	"log/slog"
	"testing"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
	"kstorage/internal/record"
)

// TestLogOfStaticVoterStays: a voter that has not learned its cluster's id yet, and whose voters were taken out of its
// configuration, is refused with its log: it may be one of a majority that has committed what is in there.
func TestLogOfStaticVoterStays(t *testing.T) {
	d := files{"/d1/meta.properties": metaProperties(2, "", dirA)}.disk(t)
	log, _, err := raftlog.Open(d, "/d1/__cluster_metadata-0", raftlog.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	elected := raft.Batch{Epoch: 1, Control: []raft.ControlRecord{raft.LeaderChange{LeaderID: 1, Voters: []raft.NodeID{1, 2}}}}
	if err := log.Append(raft.AppendLog{Batches: []raft.Batch{elected}, EndOffset: 1}, 0); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := controllerOn("/d1")
		s.Log = raftlog.DefaultConfig()
		st, _, err := openOn(d, s)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{Options: Options{FS: d, Log: slog.New(slog.DiscardHandler)}, settings: s, storage: st}
		if _, _, err := n.openLog(); err == nil {
			t.Error("the node starts")
		} else if e, ok := errors.AsType[*Error](err); !ok {
			t.Error(e)
		}
		n.close()
	}
}

// TestLogOfRemovedVoterStays: a voter without an id whose removal is in its log may yet be one: the removal need not be
// committed.
func TestLogOfRemovedVoterStays(t *testing.T) {
	d := files{"/d1/meta.properties": metaProperties(2, "", dirA)}.disk(t)
	log, _, err := raftlog.Open(d, "/d1/__cluster_metadata-0", raftlog.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	voters := []raft.Voter{
		{Key: raft.ReplicaKey{NodeID: 1, DirectoryID: dirID(dirA)}, MaxKRaftVersion: 1},
		{Key: raft.ReplicaKey{NodeID: 2, DirectoryID: dirID(dirB)}, MaxKRaftVersion: 1},
	}
	batches := []raft.Batch{
		{Epoch: 1, LastOffset: 1, Control: []raft.ControlRecord{raft.KRaftVersion{Version: 1}, raft.Voters{Voters: voters}}},
		{Epoch: 1, BaseOffset: 2, LastOffset: 2, Control: []raft.ControlRecord{raft.Voters{Voters: voters[1:]}}},
	}
	if err := errors.Join(log.Append(raft.AppendLog{Batches: batches, EndOffset: 3}, 0), log.Close()); err != nil {
		t.Fatal(err)
	}
	s := controllerOn("/d1")
	s.Log = raftlog.DefaultConfig()
	st, _, err := openOn(d, s)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Options: Options{FS: d, Log: slog.New(slog.DiscardHandler)}, settings: s, storage: st}
	defer n.close()
	if r, isVoter, err := n.openLog(); err != nil || isVoter || r.LogEnd != 3 {
		t.Errorf("%+v, voter %v, %v", r, isVoter, err)
	}
}

// TestKilledWipeGoesOn: what a killed wipe has left of a log of several segments is none, but it is no damaged one either.
func TestKilledWipeGoesOn(t *testing.T) {
	const dir = "/d1/__cluster_metadata-0"
	s := controllerOn("/d1")
	s.Log = raftlog.Config{SegmentBytes: 100, SegmentMillis: 1 << 40}
	prepared := func() *crashdisk.Disk {
		d := files{"/d1/meta.properties": metaProperties(2, "", dirA)}.disk(t)
		log, _, err := raftlog.Open(d, dir, s.Log)
		if err != nil {
			t.Fatal(err)
		}
		for i := range raft.Offset(4) {
			b := record.AppendBatch(nil, record.BatchHeader{BaseOffset: int64(i), LeaderEpoch: 1}, record.Entry{Value: make([]byte, 60)})
			if err := log.Append(raft.AppendLog{Batches: []raft.Batch{{BaseOffset: i, LastOffset: i, Epoch: 1, Bytes: b}}, EndOffset: i + 1}, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := log.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	start := func(d *crashdisk.Disk) (raft.Recovered, error) {
		st, _, err := openOn(d, s)
		if err != nil {
			return raft.Recovered{}, err
		}
		n := &node{Options: Options{FS: d, Log: slog.New(slog.DiscardHandler)}, settings: s, storage: st}
		defer n.close()
		r, _, err := n.openLog()
		return r, err
	}
	whole := prepared()
	before := whole.Steps()
	if r, err := start(whole); err != nil || !blank(r) {
		t.Fatal(r, err)
	}
	for step := before + 1; step <= whole.Steps(); step++ {
		d := prepared()
		d.CrashAt(step)
		if _, err := start(d); err == nil {
			continue // in close
		}
		for seed := range uint64(16) {
			if r, err := start(d.Restart(seed)); err != nil || !blank(r) {
				t.Fatalf("killed at step %d, %s, seed %d: %+v, %v", step, d.LastStep(), seed, r, err)
			}
		}
	}
}
