package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/nodetest"
)

// cluster is controllers, of which the last one is a broker too, and brokers that were never formatted.
type cluster struct {
	t         *testing.T
	program   string
	network   *network
	nodes     []*node
	addresses []string // of the controllers, by which all reach them: those of their proxies
	id        string
}

// node is one of them, and the process that it is at the moment.
type node struct {
	*nodetest.Process
	id         int
	name       string
	dir        string
	disk       volume
	controller bool
	broker     bool
	directory  string // id of that of the metadata, of a controller
	mend       func() // ends the fault that it has; nil: it has none
}

func (n *node) logDir() string { return filepath.Join(n.dir, "data", "__cluster_metadata-0") }

const brokers = 2

var (
	started = regexp.MustCompile("Kafka Server started")
	running = regexp.MustCompile("Transitioning from RECOVERY to RUNNING")
)

func newCluster(t *testing.T, controllers int) *cluster {
	t.Helper()
	program, err := kstorage()
	must(t, err)
	c := &cluster{t: t, program: program, network: newNetwork()}
	t.Cleanup(c.network.close)
	dir := nodetest.Scratch(t)
	directories := []string{"IPSRFnY5RtqEmJV5clXmdA", "FJAGa3eJRbC7SSXj2xUcWw", "xsFQqRJSSxy8acINSMRk4w", "L2rLsQ1QTKGv0tXJrCyzWQ", "hJ8yVbFRR7SYzvbMGkBYPw"}
	fresh := func() string { return nodetest.Loopback() + ":" + strconv.Itoa(nodetest.FreshPort()) }
	var voters []string
	for i := range controllers {
		c.addresses = append(c.addresses, fresh())
		voters = append(voters, fmt.Sprintf("%d@%s:%s", i+1, c.addresses[i], directories[i]))
	}
	for i := range controllers + brokers {
		n := &node{id: i + 1, controller: i < controllers, broker: i >= controllers-1}
		n.name = "n" + strconv.Itoa(n.id)
		n.dir = filepath.Join(dir, n.name)
		n.disk, err = newVolume(t, n.dir)
		must(t, err)
		var roles, listeners, advertised []string
		if n.broker {
			address := fresh()
			roles, listeners, advertised = append(roles, "broker"), append(listeners, "PLAINTEXT://"+address), append(advertised, "PLAINTEXT://"+address)
		}
		if n.controller {
			address := fresh()
			roles, listeners, advertised = append(roles, "controller"), append(listeners, "CONTROLLER://"+address), append(advertised, "CONTROLLER://"+c.addresses[i])
			c.network.add(n.id, c.addresses[i], address)
		}
		retention := "1000000000"
		if n.broker {
			retention = "50000" // looked at once a minute: who is behind then, if it leads, fetches a snapshot
		}
		conf := []string{
			"process.roles=" + strings.Join(roles, ","),
			"node.id=" + strconv.Itoa(n.id),
			"listeners=" + strings.Join(listeners, ","),
			"advertised.listeners=" + strings.Join(advertised, ","),
			"controller.listener.names=CONTROLLER",
			"controller.quorum.bootstrap.servers=" + strings.Join(c.addresses, ","),
			"log.dirs=data,more",
			"controller.quorum.election.timeout.ms=200",
			"controller.quorum.election.backoff.max.ms=200",
			"controller.quorum.fetch.timeout.ms=500",
			"controller.quorum.request.timeout.ms=500",
			"broker.session.timeout.ms=1000",
			"broker.heartbeat.interval.ms=100",
			"metadata.log.max.record.bytes.between.snapshots=100000",
			"metadata.log.segment.ms=2000",
			"metadata.max.retention.bytes=" + retention,
		}
		must(t, os.WriteFile(filepath.Join(n.dir, "server.properties"), []byte(strings.Join(conf, "\n")+"\n"), 0o644))
		c.nodes = append(c.nodes, n)
		if n.controller {
			n.directory = directories[i]
			c.launch(n, "format", "-c", "server.properties", "-I", strings.Join(voters, ","))
			if code, err := n.End(); err != nil || code != 0 {
				t.Fatal(n.Fault("ends with exit code %d, %v", code, err))
			}
		}
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			if n.Process != nil {
				n.Kill()
			}
		}
	})
	for _, n := range c.nodes {
		c.start(n)
	}
	for _, n := range c.nodes {
		must(t, n.Await(started))
	}
	c.id = c.sameID()
	return c
}

func (c *cluster) launch(n *node, args ...string) {
	c.t.Helper()
	var err error
	n.Process, err = nodetest.Launch(c.program, n.name, n.dir, n.dir+".stderr", os.Environ(), args...)
	must(c.t, err)
}

// start starts a node, and it can be reached.
func (c *cluster) start(n *node) {
	c.t.Helper()
	c.launch(n, "start", "-c", "server.properties")
	must(c.t, c.network.accept(n.id))
}

// crash kills a node. Its port is closed as soon as it is gone.
func (c *cluster) crash(n *node) {
	c.t.Helper()
	c.network.refuse(n.id)
	c.must(n.Crash())
}

// controllers are those nodes.
func (c *cluster) controllers() []*node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return !n.controller })
}

// leader is the controller that became active last.
func (c *cluster) leader() *node {
	c.t.Helper()
	var processes []*nodetest.Process
	for _, n := range c.controllers() {
		processes = append(processes, n.Process)
	}
	active, err := nodetest.AwaitActive(processes, nil)
	c.must(err)
	return c.nodes[slices.Index(processes, active)]
}

// alive fails if a node has ended that has no fault, or has left a trace.
func (c *cluster) alive() {
	c.t.Helper()
	for _, n := range c.nodes {
		log, _ := n.Read()
		if n.mend == nil && n.Ended() || nodetest.Trace.Match(log) {
			c.fatalf("%v", n.Fault("has ended, or panicked"))
		}
	}
}

// voters runs a command at a node until the voters are as they should. It may fail, and may have been done
// without an answer.
func (c *cluster) voters(n *node, want []int32, args ...string) {
	c.t.Helper()
	args = append([]string{"quorum", "--bootstrap-controller", strings.Join(c.addresses, ",")}, args...)
	var said []byte
	for end := time.Now().Add(nodetest.Patience); time.Now().Before(end); {
		cmd := exec.Command(c.program, args...)
		cmd.Dir = n.dir
		said, _ = cmd.CombinedOutput()
		asked := false
		err := nodetest.QuorumState(c.addresses, func(s *kmsg.DescribeQuorumResponseTopicPartition) bool {
			var have []int32
			for _, v := range s.CurrentVoters {
				have = append(have, v.ReplicaID)
			}
			slices.Sort(have)
			asked = slices.Equal(have, want)
			return true
		})
		if err == nil && asked {
			return
		}
	}
	c.fatalf("the voters don't become %v: %s", want, said)
}

// caughtUp waits until the leader knows that all nodes have what is below end.
func (c *cluster) caughtUp(end int64) {
	c.t.Helper()
	err := nodetest.QuorumState(c.addresses, func(s *kmsg.DescribeQuorumResponseTopicPartition) bool {
		behind := map[int32]bool{}
		for _, n := range c.nodes {
			behind[int32(n.id)] = true
		}
		for _, r := range slices.Concat(s.CurrentVoters, s.Observers) {
			if r.LogEndOffset >= end {
				delete(behind, r.ReplicaID)
			}
		}
		return len(behind) == 0 && len(s.CurrentVoters) == len(c.addresses)
	})
	c.must(err)
}

// shutDown ends the brokers and a minority of the controllers as an operator does. The others would wait for a
// successor.
func (c *cluster) shutDown() {
	c.t.Helper()
	majority := len(c.addresses)/2 + 1
	for i, n := range slices.Backward(c.nodes) {
		if i < majority {
			c.crash(n)
		} else {
			c.must(n.Quit(syscall.SIGTERM))
		}
	}
}

// sameID returns the cluster id that all directories of all nodes have.
func (c *cluster) sameID() string {
	c.t.Helper()
	ids := map[string]bool{}
	for _, n := range c.nodes {
		for _, d := range []string{"data", "more"} {
			content, err := os.ReadFile(filepath.Join(n.dir, d, "meta.properties"))
			must(c.t, err)
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
		c.fatalf("not one cluster id: %v", ids)
	}
	for id := range ids {
		return id
	}
	return ""
}

// must ends the test if something cannot be done.
func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.fatalf("%v", err)
	}
}

// fatalf ends the test and shows what the nodes have to say.
func (c *cluster) fatalf(format string, args ...any) {
	c.t.Helper()
	for _, n := range c.nodes {
		c.t.Log(n.Fault("was there"))
	}
	c.t.Fatalf(format, args...)
}

// eventually waits until ok.
func (c *cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(nodetest.Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.fatalf("not within %v: %s", nodetest.Patience, what)
		}
	}
}
