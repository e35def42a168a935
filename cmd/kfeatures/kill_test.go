package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/dump"
	"kstorage/internal/nodetest"
	"kstorage/internal/wire"
)

// TestKill raises metadata.version of fifty quorums of three to the level that commits the cluster id (KIP-1262), and kills the
// leader with SIGKILL before the request, behind the answer, and at moments in between. FeatureLevelRecord and ClusterIdRecord
// are there together or not at all, on each node and in what is committed; what was acknowledged is there; and
// where it was lost, it can be done again.
func TestKill(t *testing.T) {
	const rounds, quorums = 50, 3 // quorums at a time
	var counts killCounts
	t.Run("quorums", func(t *testing.T) {
		for i := range quorums {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				q := newKillQuorum(t, &counts)
				random := rand.New(rand.NewPCG(uint64(i), 1)) // all else is up to the machine
				for round := i; round < rounds && !t.Failed(); round += quorums {
					q.round(round, random)
				}
			})
		}
	})
	t.Logf("%d rounds: %d acknowledged, %d there of the others, %d pairs in the victim's log alone", counts.rounds, counts.acknowledged, counts.there, counts.awaited)
	if counts.awaited == 0 && !t.Failed() {
		t.Error("no leader was killed with the pair in its log alone")
	}
}

// killCounts says whether a run has seen all there is.
type killCounts struct {
	sync.Mutex
	rounds, acknowledged, there int
	awaited                     int // pairs that were in the victim's log before it was killed
}

// killQuorum is three nodes that have run at the level before, each time anew.
type killQuorum struct {
	t         *testing.T
	dir       string
	program   string
	addresses []string
	nodes     []*nodetest.Process
	counts    *killCounts
}

const killClusterID = "Wq9rPWnzQ4uv0sRyMKXc1w"

func newKillQuorum(t *testing.T, counts *killCounts) *killQuorum {
	t.Helper()
	program, err := kstorage()
	must(t, err)
	q := &killQuorum{t: t, dir: nodetest.Scratch(t), program: program, nodes: make([]*nodetest.Process, 3), counts: counts}
	t.Cleanup(q.kill)
	var list []string
	for i, directory := range []string{"IPSRFnY5RtqEmJV5clXmdA", "FJAGa3eJRbC7SSXj2xUcWw", "xsFQqRJSSxy8acINSMRk4w"} {
		address := nodetest.Loopback() + ":" + strconv.Itoa(nodetest.FreshPort())
		q.addresses = append(q.addresses, address)
		list = append(list, fmt.Sprintf("%d@%s:%s", i+1, address, directory))
	}
	for i, address := range q.addresses {
		q.configure(i, "process.roles=controller", "listeners=CONTROLLER://"+address)
		format := q.launch(i, "format", "-c", "server.properties", "-t", killClusterID, "-r", features.LatestKafka.String(), "-I", strings.Join(list, ","))
		if code, err := format.End(); err != nil || code != 0 {
			t.Fatal(format.Fault("ends with exit code %d, %v", code, err))
		}
	}
	for i := range q.nodes {
		q.start(i)
	}
	must(t, nodetest.AwaitControllers(q.addresses, 1, 2, 3))
	q.kill()
	for i := range q.nodes {
		must(t, os.Rename(q.path(i, "data"), q.path(i, "before")))
	}
	return q
}

func (q *killQuorum) path(i int, name string) string {
	return filepath.Join(q.dir, strconv.Itoa(i+1), name)
}

// configure writes the configuration of a node in a new folder.
func (q *killQuorum) configure(i int, lines ...string) {
	q.t.Helper()
	must(q.t, os.RemoveAll(q.path(i, "")))
	must(q.t, os.Mkdir(q.path(i, ""), 0o755))
	lines = append(lines,
		"node.id="+strconv.Itoa(i+1),
		"controller.listener.names=CONTROLLER",
		"controller.quorum.bootstrap.servers="+strings.Join(q.addresses, ","),
		"log.dirs=data",
		"controller.quorum.election.timeout.ms=200",
		"controller.quorum.election.backoff.max.ms=200",
		"controller.quorum.fetch.timeout.ms=500",
		"controller.quorum.request.timeout.ms=500",
	)
	must(q.t, os.WriteFile(q.path(i, "server.properties"), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

func (q *killQuorum) launch(i int, args ...string) *nodetest.Process {
	q.t.Helper()
	p, err := nodetest.Launch(q.program, "n"+strconv.Itoa(i+1), q.path(i, ""), q.path(i, "stderr"), os.Environ(), args...)
	must(q.t, err)
	return p
}

func (q *killQuorum) start(i int) {
	q.t.Helper()
	q.nodes[i] = q.launch(i, "start", "-c", "server.properties")
}

func (q *killQuorum) kill() {
	for _, p := range q.nodes {
		if p != nil {
			p.Kill()
		}
	}
}

// active waits for the active controller, which is not but (-1: any).
func (q *killQuorum) active(but int) int {
	q.t.Helper()
	var last *nodetest.Process
	if but >= 0 {
		last = q.nodes[but]
	}
	active, err := nodetest.AwaitActive(q.nodes, last)
	if err != nil {
		for _, p := range q.nodes {
			q.t.Log(p.Fault("was there"))
		}
		q.t.Fatal(err)
	}
	for i, p := range q.nodes {
		if p == active {
			return i
		}
	}
	panic("a node of another quorum")
}

// round is one upgrade, in which the leader is killed.
func (q *killQuorum) round(round int, random *rand.Rand) {
	q.t.Helper()
	for i := range q.nodes {
		must(q.t, os.RemoveAll(q.path(i, "data")))
		must(q.t, os.CopyFS(q.path(i, "data"), os.DirFS(q.path(i, "before"))))
		q.start(i)
	}
	victim := q.active(-1)
	others := []int{(victim + 1) % 3, (victim + 2) % 3}
	acknowledged := true
	switch round / 3 % 5 {
	case 0: // before the request
		must(q.t, q.nodes[victim].Crash())
		q.upgrade()
	case 1: // behind the answer
		q.upgrade()
		must(q.t, q.nodes[victim].Crash())
	case 2: // at some moment in between
		answered := q.ask(victim)
		time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
		must(q.t, q.nodes[victim].Crash())
		acknowledged = <-answered
	case 3: // when it has written and sent the pair, which the others may find later on
		for _, i := range others {
			must(q.t, q.nodes[i].Signal(syscall.SIGSTOP))
		}
		answered := q.ask(victim)
		q.awaitPair(victim, answered)
		must(q.t, q.nodes[victim].Crash())
		for _, i := range others {
			must(q.t, q.nodes[i].Signal(syscall.SIGCONT))
		}
		acknowledged = <-answered
	case 4: // when it alone has the pair, which is never committed
		for _, i := range others {
			must(q.t, q.nodes[i].Crash())
		}
		answered := q.ask(victim)
		q.awaitPair(victim, answered)
		must(q.t, q.nodes[victim].Crash())
		for _, i := range others {
			q.start(i)
		}
		acknowledged = <-answered
	}
	q.pairs(victim, true)

	// All that was committed before, and nothing else of it, is what the next active controller has when it begins.
	leader := q.active(victim)
	there := q.pairs(leader, true) > 0
	if acknowledged && !there {
		q.t.Errorf("round %d: an upgrade that was acknowledged is lost", round)
	}
	level := features.LatestKafka
	if there {
		level = features.LatestProduction
	}
	got := line("--bootstrap-controller %s describe --node-id %d", q.addresses[leader], leader+1)
	if !regexp.MustCompile(`(?m)^Feature: metadata\.version .* FinalizedVersionLevel: ` + level.String() + ` `).MatchString(got.stdout) {
		q.t.Errorf("round %d: the pair is in the log: %v, and %+v", round, there, got)
	}
	q.counts.add(acknowledged, there)

	// The victim comes back. What was lost is done again; a broker that was never formatted learns the id.
	q.start(victim)
	q.upgrade("--wait")
	const broker = 3
	q.configure(broker, "process.roles=broker", "listeners=PLAINTEXT://"+nodetest.Loopback()+":0")
	b := q.launch(broker, "start", "-c", "server.properties")
	defer b.Kill()
	must(q.t, b.Await(regexp.MustCompile(`msg="Cluster id learned" clusterId=`+killClusterID)))
	for i, p := range q.nodes {
		must(q.t, p.Crash())
		if n := q.pairs(i, false); n != 1 {
			q.t.Errorf("round %d: the log of node %d has %d cluster ids", round, i+1, n)
		}
	}
}

func (c *killCounts) add(acknowledged, there bool) {
	c.Lock()
	defer c.Unlock()
	c.rounds++
	switch {
	case acknowledged:
		c.acknowledged++
	case there:
		c.there++
	}
}

// upgrade runs kfeatures, which asks until it is done.
func (q *killQuorum) upgrade(more ...string) {
	q.t.Helper()
	got := call(nil, append([]string{"--bootstrap-controller", strings.Join(q.addresses, ","), "upgrade", "--metadata", features.LatestProduction.String()}, more...)...)
	if got.exit != 0 {
		q.t.Fatalf("%+v", got)
	}
}

// awaitPair waits until the pair is in the log of a node. On a busy machine the node may have given up its leadership before it
// was asked; then it answers so, and the round has no pair.
func (q *killQuorum) awaitPair(i int, answered chan bool) {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	defer cancel()
	for q.pairs(i, true) == 0 {
		select {
		case acknowledged := <-answered:
			answered <- acknowledged
			return
		default:
			must(q.t, nodetest.Pause(ctx))
		}
	}
	q.counts.Lock()
	q.counts.awaited++
	q.counts.Unlock()
}

// ask asks a node once. The result is whether it has acknowledged the upgrade.
func (q *killQuorum) ask(i int) chan bool {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = features.MetadataVersionName, int16(features.LatestProduction), 1
	r.FeatureUpdates = append(r.FeatureUpdates, u)
	answered := make(chan bool, 1)
	go func() {
		c := wire.NewClient(q.addresses[i], wire.Self{ClientID: "test"}, nil)
		defer c.Close()
		answer, err := c.Do(context.Background(), r)
		answered <- err == nil && answer.(*kmsg.UpdateFeaturesResponse).ErrorCode == 0
	}()
	return answered
}

// pairs counts the cluster ids in the log of a node. Each is in one batch with the level, and no level of its kind stands before
// the first. Of a node that runs, or was just killed, the last batch may be torn.
func (q *killQuorum) pairs(i int, torn bool) (pairs int) {
	q.t.Helper()
	var out bytes.Buffer
	err := dump.File(&out, q.path(i, "data/__cluster_metadata-0/00000000000000000000.log"), dump.Options{JSON: true})
	if corrupt := (*checkpoint.CorruptError)(nil); !torn || !errors.As(err, &corrupt) {
		must(q.t, err)
	}
	levels := 0 // in this batch
	for text := range bytes.Lines(out.Bytes()) {
		var d struct {
			Batch *struct{}
			Type  string
			Data  struct {
				Name         string
				FeatureLevel int16
				ClusterID    string
			}
		}
		must(q.t, json.Unmarshal(text, &d))
		switch {
		case d.Batch != nil && levels > 0 && pairs == 0:
			q.t.Errorf("node %d has the level without the cluster id:\n%s", i+1, out.String())
		case d.Batch != nil:
			levels = 0
		case d.Type == "FEATURE_LEVEL_RECORD" && d.Data.Name == features.MetadataVersionName && features.MetadataVersion(d.Data.FeatureLevel).SupportsClusterID():
			levels++
		case d.Type == "CLUSTER_ID_RECORD":
			if pairs++; levels != 1 || d.Data.ClusterID != killClusterID {
				q.t.Errorf("node %d has the cluster id without the level:\n%s", i+1, out.String())
			}
		}
	}
	if levels > 0 && pairs == 0 {
		q.t.Errorf("node %d has the level without the cluster id:\n%s", i+1, out.String())
	}
	return pairs
}
