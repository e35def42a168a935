package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/nodetest"
	"kstorage/internal/wire"
)

// TestKill kills nodes of a quorum of three with SIGKILL, most often the leader, while clients register and unregister
// brokers. Whatever a client was told to have been done is in the log of each node at the end; no epoch has
// two leaders; the logs are the same as far as they are committed; and there is one cluster id.
func TestKill(t *testing.T) {
	const rounds, connections, requests = 30, 8, 250 // requests a round
	q := newKillQuorum(t)
	for _, n := range q.nodes {
		q.run(n)
	}
	for _, n := range q.nodes {
		must(t, n.Await(q.started))
	}
	q.clusterID = q.sameClusterID()

	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); clients.Wait() })
	defer stop()
	workers := make([]*registrar, connections)
	for i := range workers {
		workers[i] = newRegistrar(q, int32(100+i))
		clients.Go(func() { workers[i].work(ctx) })
	}

	random := rand.New(rand.NewPCG(1, 2)) // the choice of the victims; all else is up to the machine
	for round := range rounds {
		q.wait(20+random.IntN(100), requests)
		leader := q.leader(nil)
		victim := leader
		if random.IntN(3) == 0 {
			victim = q.nodes[random.IntN(len(q.nodes))]
		}
		must(t, victim.Crash())
		q.history.check(t, victim.name, victim.logDir(), true)
		if victim == leader {
			q.leader(victim)
		}
		q.wait(10, 20) // by the two that are left
		q.run(victim)
		if round%2 == 0 {
			must(t, victim.Await(q.started)) // else the next kill may find it on its way
		}
		if t.Failed() {
			q.fatalf("in round %d, after %s was killed", round, victim.name)
		}
	}

	q.wait(10, 20)
	stop()
	for _, w := range workers {
		must(t, w.failure)
	}
	for _, n := range q.nodes {
		must(t, n.Await(q.started))
	}
	must(t, q.nodes[2].Await(regexp.MustCompile(`Transitioning from RECOVERY to RUNNING`)))
	last := newRegistrar(q, 99)
	must(t, last.register(context.Background()))
	end := last.done[0].epoch + 1
	must(t, nodetest.QuorumState(q.addresses, func(s *kmsg.DescribeQuorumResponseTopicPartition) bool {
		behind := slices.ContainsFunc(s.CurrentVoters, func(v kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool { return v.LogEndOffset < end })
		return len(s.CurrentVoters) == 3 && !behind
	}))
	for _, n := range q.nodes {
		must(t, n.Crash())
	}

	var logs []*nodeLog
	for _, n := range q.nodes {
		logs = append(logs, q.history.check(t, n.name, n.logDir(), false))
	}
	sameUpTo(t, logs, end)
	if id := q.sameClusterID(); id != q.clusterID {
		t.Errorf("cluster id %s, it was %s", id, q.clusterID)
	}
	count := 0
	for _, l := range logs {
		count = 0
		for _, w := range append(workers, last) {
			for _, a := range w.done {
				l.find(t, a)
				count++
			}
		}
	}
	t.Logf("%d acknowledged requests, %d records, %d epochs", count, len(logs[0].records), len(q.history.leaders))
}

// killQuorum is three nodes.
type killQuorum struct {
	t         *testing.T
	program   string
	dir       string
	addresses []string
	nodes     []*killNode
	clusterID string
	acked     *counter
	tokens    chan struct{} // one for each request that clients may begin
	history   *history
	started   *regexp.Regexp
}

// killNode is one of them, and the process that it is at the moment.
type killNode struct {
	*nodetest.Process
	name, dir string
}

func (n *killNode) logDir() string { return filepath.Join(n.dir, "data", "__cluster_metadata-0") }

func newKillQuorum(t *testing.T) *killQuorum {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	q := &killQuorum{t: t, program: self, dir: nodetest.Scratch(t), acked: newCounter(), tokens: make(chan struct{}, 1<<16), history: newHistory(), started: regexp.MustCompile("Kafka Server started")}
	directories := []string{"IPSRFnY5RtqEmJV5clXmdA", "FJAGa3eJRbC7SSXj2xUcWw", "xsFQqRJSSxy8acINSMRk4w"}
	var list []string
	for i, d := range directories {
		address := nodetest.Loopback() + ":" + strconv.Itoa(nodetest.FreshPort())
		q.addresses = append(q.addresses, address)
		list = append(list, fmt.Sprintf("%d@%s:%s", i+1, address, d))
	}
	for i, address := range q.addresses {
		id := strconv.Itoa(i + 1)
		n := &killNode{name: "n" + id, dir: filepath.Join(q.dir, "n"+id)}
		roles, listeners := "controller", "CONTROLLER://"+address
		if i == 2 {
			roles, listeners = "broker,controller", listeners+",PLAINTEXT://"+nodetest.Loopback()+":0"
		}
		must(t, os.Mkdir(n.dir, 0o755))
		conf := []string{
			"process.roles=" + roles,
			"node.id=" + id,
			"listeners=" + listeners,
			"controller.listener.names=CONTROLLER",
			"controller.quorum.bootstrap.servers=" + strings.Join(q.addresses, ","),
			"log.dirs=data,more",
			"controller.quorum.election.timeout.ms=200",
			"controller.quorum.election.backoff.max.ms=200",
			"controller.quorum.fetch.timeout.ms=500",
			"controller.quorum.request.timeout.ms=500",
			"broker.session.timeout.ms=1000",
			"broker.heartbeat.interval.ms=100",
			"metadata.log.max.record.bytes.between.snapshots=100000",
		}
		must(t, os.WriteFile(filepath.Join(n.dir, "server.properties"), []byte(strings.Join(conf, "\n")+"\n"), 0o644))
		format, err := nodetest.Launch(q.program, n.name, n.dir, filepath.Join(n.dir, "format.log"), os.Environ(), "format", "-c", "server.properties", "-I", strings.Join(list, ","))
		must(t, err)
		if code, err := format.End(); err != nil || code != 0 {
			t.Fatal(format.Fault("ends with exit code %d, %v", code, err))
		}
		q.nodes = append(q.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range q.nodes {
			if n.Process != nil {
				n.Kill()
			}
		}
	})
	return q
}

func (q *killQuorum) run(n *killNode) {
	q.t.Helper()
	var err error
	n.Process, err = nodetest.Launch(q.program, n.name, n.dir, filepath.Join(n.dir, "stderr"), os.Environ(), "start", "-c", "server.properties")
	must(q.t, err)
}

// wait allows more requests and waits until n were acknowledged.
func (q *killQuorum) wait(n, allowed int) {
	q.t.Helper()
	timeout := time.After(nodetest.Patience)
	start, _ := q.acked.read()
	for range allowed {
		q.tokens <- struct{}{}
	}
	for {
		now, more := q.acked.read()
		if now >= start+n {
			return
		}
		select {
		case <-more:
		case <-timeout:
			q.fatalf("%d acknowledged requests in %v, %d were waited for", now-start, nodetest.Patience, n)
		}
	}
}

// fatalf ends the test and shows what the nodes have to say.
func (q *killQuorum) fatalf(format string, args ...any) {
	q.t.Helper()
	for _, n := range q.nodes {
		q.t.Log(n.Fault("was there"))
	}
	q.t.Fatalf(format, args...)
}

// leader waits for the node that became the active controller last, and is not but.
func (q *killQuorum) leader(but *killNode) *killNode {
	q.t.Helper()
	var processes []*nodetest.Process
	for _, n := range q.nodes {
		processes = append(processes, n.Process)
	}
	var last *nodetest.Process
	if but != nil {
		last = but.Process
	}
	active, err := nodetest.AwaitActive(processes, last)
	if err != nil {
		q.fatalf("%v", err)
	}
	return q.nodes[slices.Index(processes, active)]
}

// sameClusterID returns the id that all directories of all nodes have.
func (q *killQuorum) sameClusterID() string {
	ids := map[string]bool{}
	for _, n := range q.nodes {
		for _, d := range []string{"data", "more"} {
			content, err := os.ReadFile(filepath.Join(n.dir, d, "meta.properties"))
			must(q.t, err)
			id := ""
			for line := range strings.Lines(string(content)) {
				if value, ok := strings.CutPrefix(line, "cluster.id="); ok {
					id = strings.TrimSpace(value)
				}
			}
			ids[id] = true
		}
	}
	if len(ids) != 1 || ids[""] {
		q.t.Fatalf("not one cluster id: %v", ids)
	}
	for id := range ids {
		return id
	}
	return ""
}

// counter counts what was acknowledged.
type counter struct {
	mu   sync.Mutex
	n    int
	more chan struct{} // closed when there is more
}

func newCounter() *counter { return &counter{more: make(chan struct{})} }

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	close(c.more)
	c.more = make(chan struct{})
}

func (c *counter) read() (int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.more
}

// acknowledged is what a client was told to be done.
type acknowledged struct {
	broker      int32
	incarnation uuid.UUID // zero: unregistered
	epoch       int64     // of the registration that began, or ended
}

// registrar registers and unregisters one broker, each time as a new incarnation.
type registrar struct {
	quorum  *killQuorum
	broker  int32
	clients []*wire.Client
	next    int // of clients
	done    []acknowledged
	failure error
}

func newRegistrar(q *killQuorum, broker int32) *registrar {
	w := &registrar{quorum: q, broker: broker, next: int(broker)}
	for _, a := range q.addresses {
		c := wire.NewClient(a, wire.Self{ClientID: fmt.Sprintf("broker-%d", broker)}, nil)
		q.t.Cleanup(c.Close)
		w.clients = append(w.clients, c)
	}
	return w
}

// work goes on until ctx ends, or until an answer cannot be right.
func (w *registrar) work(ctx context.Context) {
	registered := false
	for i := 0; w.failure == nil; i++ {
		select {
		case <-ctx.Done():
			return
		case <-w.quorum.tokens:
		}
		var err error
		if registered && i%4 != 3 { // else the next incarnation takes its place
			err = w.unregister(ctx)
			registered = false
		} else {
			err = w.register(ctx)
			registered = true
		}
		if err != nil && ctx.Err() == nil {
			w.failure = err
		}
	}
}

func (w *registrar) register(ctx context.Context) error {
	q := kmsg.NewPtrBrokerRegistrationRequest()
	q.BrokerID, q.ClusterID, q.IncarnationID = w.broker, w.quorum.clusterID, uuid.New()
	q.PreviousBrokerEpoch = -1
	q.LogDirs = [][16]byte{uuid.New()}
	for name, latest := range map[string]int16{
		"metadata.version": 99, "eligible.leader.replicas.version": 9, "group.version": 9, "share.version": 9,
		"streams.version": 9, "transaction.version": 9, "kraft.version": 9,
	} {
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MaxSupportedVersion = name, latest
		q.Features = append(q.Features, f)
	}
	r, _, err := w.ask(ctx, q, func(r kmsg.Response) int16 { return r.(*kmsg.BrokerRegistrationResponse).ErrorCode })
	if err != nil {
		return err
	}
	resp := r.(*kmsg.BrokerRegistrationResponse)
	if resp.ErrorCode != 0 {
		return fmt.Errorf("broker %d registers: %s", w.broker, wire.ErrorName(resp.ErrorCode))
	}
	w.note(acknowledged{w.broker, q.IncarnationID, resp.BrokerEpoch})
	return nil
}

func (w *registrar) unregister(ctx context.Context) error {
	q := kmsg.NewPtrUnregisterBrokerRequest()
	q.BrokerID = w.broker
	r, again, err := w.ask(ctx, q, func(r kmsg.Response) int16 { return r.(*kmsg.UnregisterBrokerResponse).ErrorCode })
	if err != nil {
		return err
	}
	const notRegistered = 102
	if code := r.(*kmsg.UnregisterBrokerResponse).ErrorCode; code != 0 && !(again && code == notRegistered) {
		return fmt.Errorf("broker %d unregisters: %s", w.broker, wire.ErrorName(code))
	}
	w.note(acknowledged{broker: w.broker, epoch: w.done[len(w.done)-1].epoch})
	return nil
}

func (w *registrar) note(a acknowledged) {
	w.done = append(w.done, a)
	w.quorum.acked.add()
}

// ask sends a request until the active controller has answered it. again reports whether one that was sent before may have
// been done. Errors: that of ctx.
func (w *registrar) ask(ctx context.Context, q kmsg.Request, code func(kmsg.Response) int16) (r kmsg.Response, again bool, err error) {
	const requestTimedOut, notController = 7, 41
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		r, err := w.clients[w.next%len(w.clients)].Do(once, q)
		cancel()
		if err == nil {
			switch code(r) {
			default:
				return r, again, nil
			case requestTimedOut, notController: // also when leadership was lost behind the append
			}
		}
		again = again || !errors.Is(err, wire.ErrRefused)
		w.next++
		if err := nodetest.Pause(ctx); err != nil {
			return nil, false, err
		}
	}
}
