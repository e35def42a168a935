//go:build bench && linux

// Command hashicorpraft is a node of a quorum of github.com/hashicorp/raft with its own transport over TCP and raft-wal,
// with the defaults of both, apart from BatchApplyCh, with which more clients share an fsync. It takes orders of a load.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"

	"kstorage/bench/load"
	"kstorage/bench/rivals/members"
)

func main() { members.Main(run) }

func run(id uint64, dir string, all members.Members) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log, err := raftwal.Open(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, 1, hclog.NewNullLogger())
	if err != nil {
		return err
	}
	transport, err := raft.NewTCPTransport(all.Of(id), nil, 3, 10*time.Second, io.Discard)
	if err != nil {
		return err
	}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(fmt.Sprint(id))
	config.BatchApplyCh = true
	config.Logger = hclog.NewNullLogger()
	var quorum raft.Configuration
	for i, address := range all {
		quorum.Servers = append(quorum.Servers, raft.Server{ID: raft.ServerID(fmt.Sprint(i + 1)), Address: raft.ServerAddress(address)})
	}
	known, err := raft.HasExistingState(log, log, snapshots)
	if err != nil {
		return err
	}
	if !known {
		if err := raft.BootstrapCluster(config, log, log, snapshots, transport, quorum); err != nil {
			return err
		}
	}
	node, err := raft.NewRaft(config, nothing{}, log, log, snapshots, transport)
	if err != nil {
		return err
	}
	return load.Serve(os.Stdin, os.Stdout, func(context.Context, int) error {
		return node.Apply(make([]byte, load.PayloadBytes), 0).Error()
	})
}

// nothing is a state machine without a state.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) ApplyBatch(logs []*raft.Log) []any   { return make([]any, len(logs)) }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }
func (nothing) Restore(r io.ReadCloser) error       { return r.Close() }
func (nothing) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (nothing) Release()                            {}
