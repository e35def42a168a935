// Package chaos does harm to clusters of real kstorage processes while clients use them, and checks that nothing
// comes of it. It has tests only. A cluster is three or five controllers, the last one a broker too, and two
// brokers that were never formatted.
//
//	clients, nodes  ->  proxies  ->  controllers      the proxies are the network: links are cut, silent or slow, ports closed
//	                                     |
//	                                  volumes         file systems that can be full
//
// In each round a minority of the controllers, or a broker, or now and then all nodes get a fault: see faults.
// The others must go on, and all of them when it is mended. Which fault hits whom is drawn from a seed; time is
// the machine's, so a seed does not give the same run again. Waiting is for events, and the clock is left alone.
//
// At the end: the histories of the clients are linearizable (model); what was acknowledged is committed; what is
// committed is the same on all nodes, batch by batch, and so are the records of snapshots, as kstorage dump shows
// them (ledger); an epoch has one leader; there is one cluster id; no node has ended by itself but for its disk;
// and all shut down when they are told to.
package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"kstorage/internal/nodetest"
)

var (
	rounds = flag.Int("rounds", 15, "of faults, for each size of a cluster")
	seed   = flag.Uint64("seed", 1, "of the choice of faults")
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else a program with the race detector sleeps a second before it ends
	if code, ran := withOwnMounts(); ran {
		os.Exit(code)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// built is the folder of the program, once it is there.
var built string

var kstorage = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "kstorage-chaos-"); err != nil {
		return "", err
	}
	return nodetest.Build(built)
})

func TestChaos(t *testing.T) {
	for _, controllers := range []int{3, 5} {
		t.Run(fmt.Sprint(controllers), func(t *testing.T) {
			t.Parallel()
			run(t, controllers)
		})
	}
}

func run(t *testing.T, controllers int) {
	began := time.Now()
	t.Logf("replay: go test ./internal/chaos -run 'TestChaos/%d$' -rounds=%d -seed=%d", controllers, *rounds, *seed)
	c := newCluster(t, controllers)
	if !c.nodes[0].disk.owned {
		t.Log("no disk gets full: this user may not make a namespace in which it can mount file systems (sysctl user.max_user_namespaces)")
	}
	ledger := newLedger()
	load := newLoad(c)
	load.start(*seed)
	defer load.stop()
	f := &faults{cluster: c, load: load, ledger: ledger, random: rand.New(rand.NewPCG(*seed, uint64(controllers))), counts: map[string]int{}, removed: map[int32]bool{}}
	for round := range *rounds {
		f.round()
		if t.Failed() {
			c.fatalf("in round %d", round+1)
		}
	}
	f.mendAll()
	load.await(enough)
	load.stop()
	c.alive()

	mark := load.mark()
	c.caughtUp(mark.epoch + 1)
	for _, n := range c.nodes {
		must(t, n.Await(started))
		if n.broker {
			must(t, n.Await(running))
		}
	}
	c.shutDown()
	for _, n := range c.nodes {
		own := ledger.check(c, n, 0, false)
		if !ledger.commit(c, own, mark) {
			t.Errorf("%s does not have what was committed last", n.name)
		}
		ledger.compareSnapshots(c, n)
	}
	if id := c.sameID(); id != c.id {
		t.Errorf("cluster id %s, it was %s", id, c.id)
	}
	ledger.checkAcknowledged(c, load.history)
	checkHistory(t, load.history)
	unknown := len(load.history) - load.acked
	t.Logf("%d rounds in %v: %d requests acknowledged, %d without an answer; %d batches, %d epochs, %d snapshots; faults: %s",
		*rounds, time.Since(began).Round(time.Second), load.acked, unknown, len(ledger.committed.batches), len(ledger.leaders), len(ledger.snapshots), f)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(strings.TrimSpace(err.Error()))
	}
}
