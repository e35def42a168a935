package node

import (
	"errors"
	"log/slog"
	"testing"

	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
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
