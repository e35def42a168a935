//go:build bench && linux

// Command etcdraft is a node of a quorum of go.etcd.io/raft with etcd's write-ahead log, driven as etcd drives it: the
// leader sends what is new to its followers while it writes it to its own disk, and what gathers meanwhile is the next
// group. Messages go over TCP, with their lengths in front, all that wait in one write. It takes orders of a load.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"kstorage/bench/load"
	"kstorage/bench/rivals/members"
)

// Times and limits are etcd's defaults.
const (
	heartbeat     = 100 * time.Millisecond
	electionTicks = 10
	maxInflight   = 512
	maxSize       = 512 << 10
)

func main() { members.Main(run) }

func run(id uint64, dir string, all members.Members) error {
	raft.SetLogger(&raft.DefaultLogger{Logger: members.NoLog()})
	log, err := wal.Create(zap.NewNop(), filepath.Join(dir, "wal"), nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", all.Of(id))
	if err != nil {
		return err
	}
	storage := raft.NewMemoryStorage()
	var voters []raft.Peer
	n := &node{id: id, storage: storage, log: log, peers: map[uint64]chan *raftpb.Message{}, waiting: map[uint64]chan struct{}{}}
	for i, address := range all {
		peer := uint64(i + 1)
		voters = append(voters, raft.Peer{ID: peer})
		if peer != id {
			n.peers[peer] = make(chan *raftpb.Message, 4*maxInflight)
			go send(address, n.peers[peer])
		}
	}
	n.raft = raft.StartNode(&raft.Config{
		ID: id, ElectionTick: electionTicks, HeartbeatTick: 1, Storage: storage, MaxSizePerMsg: maxSize, MaxInflightMsgs: maxInflight,
		CheckQuorum: true, PreVote: true,
	}, voters)
	failed := make(chan error, 3)
	go func() { failed <- n.loop() }()
	go func() { failed <- n.accept(listener) }()
	go func() { failed <- load.Serve(os.Stdin, os.Stdout, n.commit) }()
	return <-failed
}

type node struct {
	id      uint64
	raft    raft.Node
	storage *raft.MemoryStorage
	log     *wal.WAL
	peers   map[uint64]chan *raftpb.Message
	leads   atomic.Bool
	last    atomic.Uint64 // proposal

	mu      sync.Mutex
	waiting map[uint64]chan struct{} // by the number of the proposal
}

var errNotLeader = errors.New("not the leader")

func (n *node) commit(ctx context.Context, _ int) error {
	if !n.leads.Load() {
		return errNotLeader
	}
	number := n.last.Add(1)<<8 | n.id
	payload := make([]byte, load.PayloadBytes)
	binary.BigEndian.PutUint64(payload, number)
	done := make(chan struct{})
	n.mu.Lock()
	n.waiting[number] = done
	n.mu.Unlock()
	if err := n.raft.Propose(ctx, payload); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) loop() error {
	ticks := time.NewTicker(heartbeat)
	for {
		select {
		case <-ticks.C:
			n.raft.Tick()
		case ready := <-n.raft.Ready():
			if ready.SoftState != nil {
				n.leads.Store(ready.RaftState == raft.StateLeader)
			}
			n.apply(ready.CommittedEntries)
			leads := n.leads.Load()
			if leads {
				n.send(ready.Messages)
			}
			if err := n.log.Save(ready.HardState, ready.Entries); err != nil {
				return err
			}
			if err := n.storage.Append(ready.Entries); err != nil {
				return err
			}
			if !leads {
				n.send(ready.Messages)
			}
			n.raft.Advance()
		}
	}
}

func (n *node) apply(entries []*raftpb.Entry) {
	for _, e := range entries {
		if e.GetType() == raftpb.EntryConfChange {
			var change raftpb.ConfChange
			if err := proto.Unmarshal(e.Data, &change); err != nil {
				panic(err)
			}
			n.raft.ApplyConfChange(&change)
			continue
		}
		if len(e.Data) == 0 { // a leader's first
			continue
		}
		number := binary.BigEndian.Uint64(e.Data)
		n.mu.Lock()
		done := n.waiting[number]
		delete(n.waiting, number)
		n.mu.Unlock()
		if done != nil {
			close(done)
		}
	}
}

// send hands messages over to the connections. What does not fit is lost, which the library copes with.
func (n *node) send(messages []*raftpb.Message) {
	for _, m := range messages {
		select {
		case n.peers[m.GetTo()] <- m:
		default:
			n.raft.ReportUnreachable(m.GetTo())
		}
	}
}

// send writes messages to a connection, and makes another one when it breaks.
func send(address string, messages <-chan *raftpb.Message) {
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			time.Sleep(heartbeat / 10)
			continue
		}
		w := bufio.NewWriterSize(conn, 64<<10)
		var frame []byte
		for m := range messages {
			frame, err = proto.MarshalOptions{}.MarshalAppend(append(frame[:0], 0, 0, 0, 0), m)
			if err != nil {
				panic(err)
			}
			binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
			_, err = w.Write(frame)
			if err == nil && len(messages) == 0 {
				err = w.Flush()
			}
			if err != nil {
				break
			}
		}
		conn.Close()
	}
}

func (n *node) accept(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			r := bufio.NewReaderSize(conn, 64<<10)
			for {
				var length [4]byte
				if _, err := io.ReadFull(r, length[:]); err != nil {
					return
				}
				frame := make([]byte, binary.BigEndian.Uint32(length[:]))
				if _, err := io.ReadFull(r, frame); err != nil {
					return
				}
				m := &raftpb.Message{}
				if err := proto.Unmarshal(frame, m); err != nil {
					return
				}
				if err := n.raft.Step(context.Background(), m); err != nil {
					return
				}
			}
		}()
	}
}
