//go:build bench && linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

const (
	observerCount = 1000
	firstObserver = 1000 // its node id
	observerIdle  = 5 * time.Second

	fetchVersion = 18  // of Kafka from 4.1 on
	fetchWait    = 500 // milliseconds

	reconnectBackoff = 50 * time.Millisecond
)

var (
	observerRounds = []rounds{{ours, 3}, {kafka, 2}}
	observerVoters = []int{1, 3}
)

// The loads under which propagation is measured: commits a second, and for how long.
var observerLoads = []struct {
	name     string
	interval time.Duration
	count    int
}{
	{"5 commits/s", 200 * time.Millisecond, 25},
	{"100 commits/s", 10 * time.Millisecond, 500},
}

// observer is a node that fetches and has no vote, on a connection of its own. It speaks as the node of `kstorage start`
// does, byte for byte, with long polls: it checks and appends what it gets, and the next Fetch says that it has it. It is less
// than a node: no process, no files, and no consensus core, since a thousand of those on the same CPUs would be what
// is measured.
type observer struct {
	fetch raft.FetchRequest // the next one

	mu    sync.Mutex
	heard []heard
}

// heard is what an observer knew to be committed at a time.
type heard struct {
	at        time.Time
	committed int64 // all below, and the observer has it
}

// observers are those of one leader.
type observers struct {
	all     []*observer
	running sync.WaitGroup
	ended   chan error // why one of them ended before close
	closing chan struct{}
}

// observe lets count observers connect to the leader at once. It returns when all know all that was committed before.
func observe(leader *node, count int) (*observers, error) {
	var committed int64
	var epoch raft.Epoch
	err := leader.until(func(ctx context.Context) error {
		q, err := leader.quorum(ctx)
		if err == nil {
			committed, epoch = q.HighWatermark, raft.Epoch(q.LeaderEpoch)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	id := clusterID
	all := &observers{ended: make(chan error, count), closing: make(chan struct{})}
	for i := range count {
		o := &observer{fetch: raft.FetchRequest{
			ClusterID: &id, Replica: raft.ReplicaKey{NodeID: raft.NodeID(firstObserver + i), DirectoryID: uuid.New()},
			MaxWaitMillis: fetchWait, MaxBytes: raft.DefaultConfig().FetchMaxBytes, Epoch: epoch, HighWatermark: raft.Unknown,
		}}
		all.all = append(all.all, o)
		all.running.Go(func() {
			if err := o.run(leader.address, all.closing); err != nil {
				all.ended <- fmt.Errorf("observer %d: %w", o.fetch.Replica.NodeID, err)
			}
		})
	}
	if err := all.await(committed); err != nil {
		all.close()
		return nil, err
	}
	return all, nil
}

func (o *observers) close() {
	close(o.closing)
	o.running.Wait()
}

// await waits until all observers know that all below end is committed.
func (o *observers) await(end int64) error {
	deadline := time.Now().Add(limit)
	for _, one := range o.all {
		for one.committed() < end {
			select {
			case err := <-o.ended:
				return err
			case <-time.After(time.Millisecond):
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("not within %s: observer %d knows %d to be committed, not %d", limit, one.fetch.Replica.NodeID, one.committed(), end)
			}
		}
	}
	return nil
}

func (o *observer) committed() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.heard) == 0 {
		return 0
	}
	return o.heard[len(o.heard)-1].committed
}

// run fetches until closing. A server that is asked by too many at once resets connections, and a node comes back then.
func (o *observer) run(address string, closing <-chan struct{}) error {
	for {
		err := o.connection(address, closing)
		if o.committed() > 0 || !errors.Is(err, syscall.ECONNRESET) {
			return err
		}
		time.Sleep(reconnectBackoff)
	}
}

func (o *observer) connection(address string, closing <-chan struct{}) error {
	conn, err := wire.Dial(context.Background(), address)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-closing:
		case <-done:
		}
		conn.Close()
	}()
	err = o.loop(conn)
	select {
	case <-closing:
		return nil
	default:
		return err
	}
}

func (o *observer) loop(conn net.Conn) error {
	self := wire.Self{ClientID: fmt.Sprintf("raft-client-%d", o.fetch.Replica.NodeID), InstanceID: uuid.New()}
	reader := bufio.NewReader(conn)
	var request, frame []byte
	exchange := func(q kmsg.Request) (kmsg.Response, error) {
		request = wire.AppendRequest(request[:0], q, self, 0)
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		var err error
		if frame, err = wire.ReadFrame(reader, wire.MaxFrame, frame); err != nil {
			return nil, err
		}
		r, _, err := wire.DecodeResponse(q, frame)
		return r, err
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, "bench", "1"
	if _, err := exchange(versions); err != nil {
		return err
	}
	for {
		q, err := wire.EncodeRaftRequest(&o.fetch, fetchVersion)
		if err != nil {
			return err
		}
		r, err := exchange(q)
		if err != nil {
			return err
		}
		answer, payload, err := wire.DecodeRaftResponse(r)
		if err != nil {
			return err
		}
		if err := o.take(answer.(*raft.FetchResponse), payload); err != nil {
			return err
		}
	}
}

// take appends what an answer brings.
func (o *observer) take(r *raft.FetchResponse, payload []byte) error {
	if r.Code != raft.NoError || r.Partition != raft.NoError || r.Diverging != nil || r.SnapshotID != nil {
		return fmt.Errorf("a Fetch from offset %d is answered with %+v", o.fetch.FetchOffset, r)
	}
	batches, err := raft.DecodeBatches(payload) // with their checksums
	if err != nil {
		return err
	}
	for _, b := range batches {
		if b.BaseOffset != o.fetch.FetchOffset {
			return fmt.Errorf("a batch begins at offset %d where %d is due", b.BaseOffset, o.fetch.FetchOffset)
		}
		o.fetch.FetchOffset, o.fetch.LastFetchedEpoch = b.LastOffset+1, b.Epoch
	}
	if r.HighWatermark < o.fetch.HighWatermark {
		return fmt.Errorf("the high watermark goes back from %d to %d", o.fetch.HighWatermark, r.HighWatermark)
	}
	o.fetch.HighWatermark = min(r.HighWatermark, o.fetch.FetchOffset)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = append(o.heard, heard{time.Now(), int64(o.fetch.HighWatermark)})
	return nil
}

// commit is a record that a client had written.
type commit struct {
	sent     time.Time // the request, when it was due
	answered time.Time
	offset   int64
	err      error
}

// commits has count brokers registered, from first on, one each interval, whether those before are answered or not.
func commits(leader *node, first, count int, interval time.Duration) ([]commit, error) {
	all := make([]commit, count)
	due := make(chan int, count)
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() {
			client := wire.NewClient(leader.address, wire.Self{ClientID: "bench"}, nil)
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			for i := range due {
				c := &all[i]
				c.offset, c.err = register(ctx, client, int32(first+i))
				c.answered = time.Now()
			}
		})
	}
	began := time.Now()
	for i := range all {
		all[i].sent = began.Add(time.Duration(i) * interval)
		time.Sleep(time.Until(all[i].sent))
		due <- i
	}
	close(due)
	clients.Wait()
	var err error
	for _, c := range all {
		err = errors.Join(err, c.err)
	}
	return all, err
}

// answers returns in milliseconds how long the clients waited for their answers.
func answers(all []commit) (took []float64) {
	for _, c := range all {
		took = append(took, milliseconds(c.answered.Sub(c.sent)))
	}
	return took
}

// propagation returns in milliseconds how long it took from the request of each commit until each observer knew of it.
func (o *observers) propagation(all []commit) ([]float64, error) {
	last := slices.MaxFunc(all, func(a, b commit) int { return int(a.offset - b.offset) })
	if err := o.await(last.offset + 1); err != nil {
		return nil, err
	}
	var took []float64
	for _, one := range o.all {
		one.mu.Lock()
		for _, c := range all {
			i, _ := slices.BinarySearchFunc(one.heard, c.offset+1, func(h heard, end int64) int { return int(h.committed - end) })
			took = append(took, milliseconds(one.heard[i].at.Sub(c.sent)))
		}
		one.mu.Unlock()
	}
	return took, nil
}

func measureObservers(l *lab) ([]*figure, error) {
	var figures []*figure
	for _, voters := range observerVoters {
		byName := map[string]*figure{}
		for _, r := range observerRounds {
			for range r.count {
				err := l.observed(r.system, voters, func(name, unit string, limit, sample float64) {
					f := byName[name]
					if f == nil {
						f = &figure{name: fmt.Sprintf("%d voters, %d observers: %s", voters, observerCount, name), unit: unit, limit: limit, rivals: []rival{{kafka, 0}}}
						byName[name], figures = f, append(figures, f)
					}
					f.add(r.system, sample)
				})
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.system, err)
				}
			}
		}
	}
	return figures, nil
}

// observed measures the leader of so many voters once.
func (l *lab) observed(s system, voters int, add func(name, unit string, limit, sample float64)) error {
	nodes, err := l.startCluster(s, voters)
	if err != nil {
		return err
	}
	defer removeAll(nodes)
	leader, err := caughtUp(nodes)
	if err != nil {
		return err
	}
	time.Sleep(time.Second) // whatever a node does behind its start

	began := time.Now()
	all, err := observe(leader, observerCount)
	if err != nil {
		return err
	}
	defer all.close()
	add("all connect at once, until they have the log", "ms", 0, milliseconds(time.Since(began)))

	broker := 1000
	for _, load := range observerLoads {
		done, err := commits(leader, broker, load.count, load.interval)
		if err != nil {
			return err
		}
		broker += load.count
		took, err := all.propagation(done)
		if err != nil {
			return err
		}
		p99 := quantile(took, 0.99)
		add(fmt.Sprintf("p99 until an observer knows of a commit, at %s", load.name), "ms", 100, p99)
		fmt.Fprintf(os.Stderr, "bench: %s, %d voters, %s: an observer knows after %.3g ms (median), %.3g (p99), %.3g (worst), the client after %.3g (median), %.3g (p99)\n",
			s, voters, load.name, quantile(took, 0.5), p99, slices.Max(took), quantile(answers(done), 0.5), quantile(answers(done), 0.99))
	}

	before, err := leader.cpuTime()
	if err != nil {
		return err
	}
	time.Sleep(observerIdle)
	after, err := leader.cpuTime()
	if err != nil {
		return err
	}
	add("CPU time of the leader when idle, a second", "ms", 0, milliseconds(after-before)/observerIdle.Seconds())
	rss, _, err := leader.memory()
	if err != nil {
		return err
	}
	add("memory of the leader, RSS", "MiB", 0, rss)

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began = time.Now()
	q, err := leader.quorum(ctx)
	if err != nil {
		return err
	}
	add("DescribeQuorum", "ms", 0, milliseconds(time.Since(began)))
	if len(q.Observers) != observerCount {
		return fmt.Errorf("%d observers are described", len(q.Observers))
	}
	return nil
}
