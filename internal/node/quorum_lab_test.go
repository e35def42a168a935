package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"kstorage/internal/disk"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
	"kstorage/internal/record"
)

// lab is quorums in one process that call each other without a network.
type lab struct {
	t   testing.TB
	log raftlog.Config

	mu    sync.Mutex
	nodes map[raft.NodeID]*labNode // that run
}

// labNode is a running quorum with its disk, and what it told the layer above.
type labNode struct {
	lab   *lab
	q     *quorum
	log   *raftlog.Log
	err   error         // of run
	ended chan struct{} // run has returned

	mu     sync.Mutex
	told   []raft.Effect
	higher chan struct{} // has a token when the high watermark has risen
}

// labConfig is a controller of a quorum with static voters.
func labConfig(id raft.NodeID, voters ...raft.NodeID) raft.Config {
	cfg := raft.DefaultConfig()
	cfg.NodeID = id
	cfg.DirectoryID = uuid.UUID{0: byte(id), 15: 1}
	cfg.ClusterID = "lab"
	cfg.CanBeVoter = true
	cfg.DefaultListener = "CONTROLLER"
	cfg.Listeners = []raft.Endpoint{labEndpoint(id)}
	cfg.Random = rand.New(rand.NewPCG(uint64(id), 0))
	for _, v := range voters {
		cfg.StaticVoters = append(cfg.StaticVoters, raft.Voter{Key: raft.ReplicaKey{NodeID: v}, Endpoints: []raft.Endpoint{labEndpoint(v)}})
		cfg.BootstrapServers = append(cfg.BootstrapServers, labEndpoint(v))
	}
	return cfg
}

// labEndpoint has the node's id as its port.
func labEndpoint(id raft.NodeID) raft.Endpoint {
	return raft.Endpoint{Listener: "CONTROLLER", Host: "lab", Port: uint16(id)}
}

func newLab(t testing.TB) *lab {
	return &lab{t: t, log: raftlog.DefaultConfig(), nodes: map[raft.NodeID]*labNode{}}
}

// start starts a node on a disk. The test ends it.
func (l *lab) start(cfg raft.Config, fsys disk.FS, dir string, change ...func(*raft.Recovered)) *labNode {
	l.t.Helper()
	log, found, err := raftlog.Open(fsys, filepath.Join(dir, "__cluster_metadata-0"), l.log)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, change := range change {
		change(&found)
	}
	n := &labNode{lab: l, log: log, ended: make(chan struct{}), higher: make(chan struct{}, 1)}
	c := clock{start: time.Now(), wall: time.Now}
	peers := &labPeers{node: n, running: map[raft.NodeID]context.CancelFunc{}}
	n.q = newQuorum(cfg, log, found, peers, n.above, c, slog.New(slog.DiscardHandler))
	l.mu.Lock()
	l.nodes[cfg.NodeID] = n
	l.mu.Unlock()
	go func() {
		n.err = n.q.run()
		if !peers.closed {
			l.t.Errorf("node %d leaves its peers open", cfg.NodeID)
		}
		l.mu.Lock()
		delete(l.nodes, cfg.NodeID)
		l.mu.Unlock()
		if n.err == nil { // else it is as if the process had been killed, which flushes nothing
			if err := log.Close(); err != nil {
				l.t.Error(err)
			}
		}
		close(n.ended)
	}()
	return n
}

var errKilled = errors.New("killed")

// kill ends nodes that have not ended yet.
func kill(nodes ...*labNode) {
	for _, n := range nodes {
		n.q.fail(errKilled)
	}
	for _, n := range nodes {
		<-n.ended
	}
}

func (n *labNode) above(e raft.Effect) {
	n.mu.Lock()
	n.told = append(n.told, e)
	n.mu.Unlock()
	if _, ok := e.(raft.Committed); ok {
		select {
		case n.higher <- struct{}{}:
		default:
		}
	}
}

// effects returns what the layer above was told, of one type.
func effects[E raft.Effect](n *labNode) (list []E) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.told {
		if e, ok := e.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

// forget lets go of what the layer above was told.
func (n *labNode) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.told)
	n.told = n.told[:0]
}

func (n *labNode) highWatermark() raft.Offset {
	if c := effects[raft.Committed](n); len(c) > 0 {
		return c[len(c)-1].HighWatermark
	}
	return raft.Unknown
}

func (n *labNode) status() raft.Status {
	n.lab.t.Helper()
	s, err := n.q.status(context.Background())
	if err != nil {
		n.lab.t.Fatal(err)
	}
	return s
}

// until waits for something that is to come about within a minute.
func (l *lab) until(what string, done func() bool) {
	l.t.Helper()
	for range 60_000 {
		if done() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	l.t.Fatal("in vain: ", what)
}

// leader waits for one of nodes to lead, with a commit in its epoch.
func (l *lab) leader(nodes ...*labNode) (leader *labNode) {
	l.t.Helper()
	l.until("a leader", func() bool {
		for _, n := range nodes {
			s := n.status()
			if leads := effects[raft.LeaderChanged](n); s.Role == raft.Leader && leads[len(leads)-1].StartOffset < s.HighWatermark {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// commits waits until all nodes know that what is below end is committed.
func (l *lab) commits(end raft.Offset, nodes ...*labNode) {
	l.t.Helper()
	for _, n := range nodes {
		l.until(fmt.Sprintf("a commit of all below %d", end), func() bool { return n.highWatermark() >= end })
	}
}

// producerIDs is a batch of one record with a number.
func producerIDs(base raft.Offset, epoch raft.Epoch, number int64) raft.Batch {
	r := record.New(record.ProducerIds, 0)
	r.SetInt("NextProducerId", number)
	value, err := r.AppendValue(nil)
	if err != nil {
		panic(err)
	}
	h := record.BatchHeader{BaseOffset: int64(base), LeaderEpoch: int32(epoch)}
	return raft.Batch{BaseOffset: base, LastOffset: base, Epoch: epoch, Bytes: record.AppendBatch(nil, h, record.Entry{Value: value})}
}

// append lets the node, which leads, append a record with each number, and returns the log's end.
func (n *labNode) append(numbers ...int64) raft.Offset {
	n.lab.t.Helper()
	s := n.status()
	end := s.LogEnd
	for _, number := range numbers {
		response, _, err := n.q.call(context.Background(), "", &raft.AppendRequest{Batch: producerIDs(end, s.Epoch, number)})
		if err != nil {
			n.lab.t.Fatal(err)
		}
		r := response.(*raft.AppendResponse)
		if r.Code != raft.NoError {
			n.lab.t.Fatalf("an append at offset %d: %+v", end, r)
		}
		end = r.NextOffset
	}
	return end
}

// content is the log from its beginning to end.
func (n *labNode) content(end raft.Offset) (all []byte) {
	n.lab.t.Helper()
	for from := raft.Offset(0); from < end; {
		data, err := n.log.Read(raft.LogRange{From: from, End: end, MaxBytes: 1 << 20})
		if err != nil {
			n.lab.t.Fatal(err)
		}
		batches, err := raft.DecodeBatches(data)
		if err != nil {
			n.lab.t.Fatal(err)
		}
		from = batches[len(batches)-1].LastOffset + 1
		all = append(all, data...)
	}
	return all
}

// labPeers calls the other quorums of the lab.
type labPeers struct {
	node *labNode
	wg   sync.WaitGroup

	mu      sync.Mutex
	running map[raft.NodeID]context.CancelFunc
	closed  bool
}

func (p *labPeers) Send(s raft.Send) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.TimeoutMillis)*time.Millisecond)
	p.mu.Lock()
	if before := p.running[s.To.NodeID]; before != nil {
		before()
	}
	p.running[s.To.NodeID] = cancel
	p.mu.Unlock()
	p.wg.Go(func() {
		defer cancel()
		p.node.q.input(p.exchange(ctx, s))
	})
}

func (p *labPeers) exchange(ctx context.Context, s raft.Send) raft.Input {
	p.node.lab.mu.Lock()
	to := p.node.lab.nodes[raft.NodeID(s.To.Endpoint.Port)]
	p.node.lab.mu.Unlock()
	if to == nil {
		return raft.SendFailed{ID: s.ID, Reason: raft.Refused}
	}
	response, data, err := to.q.call(ctx, "CONTROLLER", s.Request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return raft.SendFailed{ID: s.ID, Reason: raft.TimedOut}
	case err != nil:
		return raft.SendFailed{ID: s.ID, Reason: raft.Disconnected}
	}
	switch r := response.(type) {
	case *raft.FetchResponse:
		filled := *r
		filled.Read = raft.LogRange{}
		if filled.Batches, err = raft.DecodeBatches(data); err != nil {
			return raft.SendFailed{ID: s.ID, Reason: raft.Corrupt}
		}
		response = &filled
	case *raft.FetchSnapshotResponse:
		filled := *r
		filled.Read, filled.Bytes = 0, data
		response = &filled
	}
	return raft.Answered{ID: s.ID, Response: response}
}

func (p *labPeers) Close() {
	p.mu.Lock()
	p.closed = true
	for _, cancel := range p.running {
		cancel()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// hookedDisk calls before ahead of an operation that makes something durable; an error is that of the operation.
type hookedDisk struct {
	disk.FS
	mu     sync.Mutex
	before func(op, name string) error
}

func (d *hookedDisk) hook(before func(op, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

func (d *hookedDisk) call(op, name string) error {
	d.mu.Lock()
	before := d.before
	d.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(op, filepath.Base(name))
}

func (d *hookedDisk) Rename(from, to string) error {
	if err := d.call("rename", to); err != nil {
		return err
	}
	return d.FS.Rename(from, to)
}

func (d *hookedDisk) OpenAppend(name string) (disk.File, error) {
	f, err := d.FS.OpenAppend(name)
	return &hookedFile{f, d, name}, err
}

func (d *hookedDisk) Create(name string, perm fs.FileMode) (disk.File, error) {
	f, err := d.FS.Create(name, perm)
	return &hookedFile{f, d, name}, err
}

type hookedFile struct {
	disk.File
	disk *hookedDisk
	name string
}

func (f *hookedFile) SyncData() error {
	if err := f.disk.call("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}
