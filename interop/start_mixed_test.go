//go:build interop

package interop

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
	"kstorage/metaprops"
)

// mixed is a quorum of both kinds of controllers. Their ids are 1, 2, 3.
type mixed struct {
	engines []engine
	nodes   []*node
	servers []*server
	broker  *server // a kstorage broker

	committed []quorumState // what leaders said just before they were killed
}

// startMixed starts controllers of engines and the broker. static: the controllers are the voters by their configuration,
// so at kraft.version 0.
func startMixed(t *testing.T, static bool, engines ...engine) *mixed {
	t.Helper()
	const level = "4.4-IV2"
	folder := t.TempDir()
	m := &mixed{engines: engines, nodes: quorumOf(t, folder, len(engines), "metadata.max.idle.interval.ms=50")}
	quorum, voters := bootstrapServers(m.nodes...), []string{"-I", initialControllers(m.nodes...)}
	if static {
		quorum, voters = staticVoters(m.nodes...), nil
	}
	for i, n := range m.nodes {
		engines[i].format(t, n.write(t, quorum), append([]string{"-r", level}, voters...)...)
		m.servers = append(m.servers, engines[i].start(t, n))
	}
	broker := newNode(t, folder, 4, "broker", []string{"d1"}).plaintext().write(t, quorum)
	byKstorage.format(t, broker, "-r", level)
	m.broker = startKstorage(t, broker)
	for _, s := range append(m.servers, m.broker) {
		s.wait(t, started)
	}
	return m
}

// killLeader kills the leader in such a way that one of the other kind leads then: the third node lacks a committed record
// when it takes part again.
func (m *mixed) killLeader(t *testing.T) {
	t.Helper()
	before, thaw := m.freezeThird(t)
	m.committed = append(m.committed, before)
	begin := time.Now()
	m.servers[before.leader-1].kill()
	thaw()
	if m.next(t, "killed", begin, before) == m.engines[before.leader-1].name {
		t.Errorf("node %d was killed, one of its kind should not lead then: it lacks a record", before.leader)
	}
}

// freezeThird freezes the node that is of the leader's kind, if there is one, until it lacks a committed record. It returns
// what the leader says then.
func (m *mixed) freezeThird(t *testing.T) (quorumState, func()) {
	t.Helper()
	for {
		before := waitFollowing(t, m.nodes, m.nodes...)
		third := slices.IndexFunc(m.nodes, func(n *node) bool {
			return n.id != before.leader && m.engines[n.id-1].name == m.engines[before.leader-1].name
		})
		if third < 0 {
			return before, func() {}
		}
		m.servers[third].signal(syscall.SIGSTOP)
		thaw := func() { m.servers[third].signal(syscall.SIGCONT) }
		others := slices.Delete(slices.Clone(m.nodes), third, third+1)
		// A Fetch that waits at the leader is answered with whatever the leader appends first, and is in the frozen node's
		// socket then. It lacks what comes behind that.
		waitCommit(t, others)
		after := waitCommit(t, others)
		if after.epoch == before.epoch {
			return after, thaw
		}
		t.Logf("node %d did not stay the leader, once more", before.leader)
		thaw()
	}
}

// waitCommit waits until a record is committed that was in no log when this was called.
func waitCommit(t *testing.T, nodes []*node) quorumState {
	t.Helper()
	begin := waitQuorum(t, "a leader", nodes, anyLeader)
	leader, _ := begin.replica(begin.leader)
	return waitQuorum(t, "a record more", nodes, func(q quorumState) bool { return q.highWatermark > leader.end })
}

// stopLeader lets the leader hand over.
func (m *mixed) stopLeader(t *testing.T) {
	t.Helper()
	before := waitFollowing(t, m.nodes, m.nodes...)
	limit := serverLimit
	if m.engines[before.leader-1].name == ofKstorage.name {
		limit = unhindered
	}
	begin := time.Now()
	stopInOrder(t, limit, m.servers[before.leader-1])
	m.next(t, "stopped", begin, before)
}

// next waits for the leader after the one of before, which is gone since begin, starts that again, and returns the kind of
// the new one.
func (m *mixed) next(t *testing.T, what string, begin time.Time, before quorumState) string {
	t.Helper()
	after := waitQuorum(t, "another leader", m.nodes, func(q quorumState) bool { return q.epoch > before.epoch })
	from, to := m.engines[before.leader-1], m.engines[after.leader-1]
	t.Logf("a leader of %s was %s, one of %s leads %v later", from.name, what, to.name, time.Since(begin).Round(time.Millisecond))
	again := from.start(t, m.nodes[before.leader-1])
	again.wait(t, started)
	m.servers[before.leader-1] = again
	waitFollowing(t, m.nodes, append(m.nodes, m.broker.node)...)
	return to.name
}

// swap stops a node and lets the other kind go on with its files.
func (m *mixed) swap(t *testing.T, id int) {
	t.Helper()
	i := id - 1
	stopServers(t, m.servers[i])
	if m.engines[i].name == ofKafka.name {
		m.engines[i] = ofKstorage
	} else {
		m.engines[i] = ofKafka
	}
	m.servers[i] = m.engines[i].start(t, m.nodes[i])
	m.servers[i].wait(t, started)
	waitFollowing(t, m.nodes, append(m.nodes, m.broker.node)...)
}

// TestMixedQuorum holds elections between kstorage and Kafka controllers, each kind in the majority once, and then
// lets each node become one of the other kind.
func TestMixedQuorum(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		engines []engine
		minor   int // the id of the one in the minority
	}{
		{"two kstorage and a Kafka", []engine{ofKstorage, ofKafka, ofKstorage}, 2},
		{"two Kafka and a kstorage", []engine{ofKafka, ofKstorage, ofKafka}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := startMixed(t, false, test.engines...)
			m.killLeader(t)
			m.killLeader(t)
			if waitQuorum(t, "a leader", m.nodes, anyLeader).leader != test.minor {
				m.killLeader(t)
			}
			m.stopLeader(t) // the other kind takes over
			m.stopLeader(t)
			for _, n := range m.nodes {
				m.swap(t, n.id)
			}
			direct := cluster{level: "4.4-IV2", admin: controllerAdmin(m.nodes...)}
			direct.checkQuorum(t, []int{1, 2, 3}, []int{4})
			direct.checkFeatures(t, "1")
			checkReplication(t, direct, 1, 2, 3, 4)
			killServers(append(m.servers, m.broker)...)
			checkSameLogs(t, append(m.nodes, m.broker.node)...)
			m.checkKept(t)
		})
	}
}

// checkKept checks that what a killed leader had committed is in the logs that the nodes have left: a later epoch begins
// behind it.
func (m *mixed) checkKept(t *testing.T) {
	t.Helper()
	for _, n := range m.nodes {
		w := openLog(t, n)
		for _, c := range m.committed {
			if int64(w.found.LogEnd) < c.highWatermark {
				t.Errorf("node %d: the log ends at %d, but epoch %d had committed all below %d", n.id, w.found.LogEnd, c.epoch, c.highWatermark)
			}
			for _, e := range w.found.EpochStarts {
				if int(e.Epoch) > c.epoch && int64(e.Start) < c.highWatermark {
					t.Errorf("node %d: epoch %d begins at offset %d, but epoch %d had committed all below %d", n.id, e.Epoch, e.Start, c.epoch, c.highWatermark)
				}
			}
		}
		w.must(w.log.Close())
	}
}

// checkSameLogs compares the logs that killed nodes have left, each with each: where both have something, and that is
// somewhere, it is the same.
func checkSameLogs(t *testing.T, nodes ...*node) {
	t.Helper()
	type nodeLog struct {
		start, end raft.Offset
		batches    map[raft.Offset][]byte // by base offset
	}
	var logs []nodeLog
	for _, n := range nodes {
		w := openLog(t, n)
		mine := nodeLog{w.found.LogStart, w.found.LogEnd, map[raft.Offset][]byte{}}
		for all := w.logBytes(); len(all) > 0; {
			base, size := binary.BigEndian.Uint64(all), 12+binary.BigEndian.Uint32(all[8:])
			mine.batches[raft.Offset(base)] = all[:size]
			all = all[size:]
		}
		w.must(w.log.Close())
		for j, other := range logs {
			start, end := max(mine.start, other.start), min(mine.end, other.end)
			if start >= end {
				t.Errorf("the logs of nodes %d and %d have nothing in common", n.id, nodes[j].id)
			}
			for base := start; base < end; base++ {
				if !bytes.Equal(mine.batches[base], other.batches[base]) {
					t.Errorf("the logs of nodes %d and %d differ at offset %d", n.id, nodes[j].id, base)
				}
			}
		}
		logs = append(logs, mine)
	}
}

// TestStartedInKafkaQuorum lets kstorage nodes come late to a quorum of Kafka's.
func TestStartedInKafkaQuorum(t *testing.T) {
	t.Parallel()
	const level = "4.4-IV2"
	folder := t.TempDir()
	controller := newNode(t, folder, 1, "controller", []string{"d1"}, manySnapshots...)
	broker := newNode(t, folder, 2, "broker", []string{"d1", "d2"}).plaintext()
	joining := newNode(t, folder, 3, "controller", []string{"d1"}, append(manySnapshots, "controller.quorum.auto.join.enable=true")...)
	unformatted := newNode(t, folder, 4, "broker", []string{"d1"}).plaintext()
	quorum := bootstrapServers(controller, joining)
	byKafka.format(t, controller.write(t, quorum), "-r", level, "-s")
	byKafka.format(t, broker.write(t, quorum), "-r", level)
	byKafka.format(t, joining.write(t, quorum), "-r", level, "-N")
	properties := readFile(t, filepath.Join(broker.dirs[1], "meta.properties"))
	c := startServer(t, controller)
	c.wait(t, started)
	waitSnapshots(t, controller, 1)

	waiting := startKstorage(t, unformatted.write(t, quorum))
	late := startAll(t, ofKstorage, broker, joining)
	for _, n := range []*node{broker, joining} {
		if len(snapshots(t, n)) == 0 {
			t.Errorf("node %d should have fetched a snapshot", n.id)
		}
	}
	waitQuorum(t, "a second voter", []*node{controller}, func(q quorumState) bool { return len(q.voters) == 2 })
	waitFollowing(t, []*node{controller, joining}, broker, joining)
	if after := readFile(t, filepath.Join(broker.dirs[1], "meta.properties")); after != properties {
		t.Errorf("meta.properties was written again, though there is nothing to learn:\n%s", after)
	}
	eventually(t, "cordoned directories", func() error {
		for _, e := range slices.Backward(kstorageDump(t, filepath.Join(controller.metadataDir(), "00000000000000000000.log"))) {
			if e.Kind == "BROKER_REGISTRATION_CHANGE_RECORD" && strings.Contains(e.Data, `"cordonedLogDirs"`) {
				var data struct{ CordonedLogDirs []string }
				if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
					return err
				}
				if slices.Equal(slices.Sorted(slices.Values(data.CordonedLogDirs)), directoriesOf(t, broker)) {
					return nil
				}
				return fmt.Errorf("%s", e.Data)
			}
		}
		return fmt.Errorf("none is reported")
	})
	waiting.wait(t, `the cluster id: the cluster is at metadata.version 4.4-IV2, which carries none`)
	if _, err := os.Stat(filepath.Join(unformatted.dirs[0], "meta.properties")); err != nil {
		t.Error(err)
	}
	waiting.kill()

	// The second voter keeps what the first does, and leads without it as soon as the first is removed.
	stopInOrder(t, unhindered, late[0])
	for _, n := range []*node{controller, joining} {
		waitSnapshotOfAll(t, n, controller, joining)
	}
	checkContents(t, "kstorage's snapshot beside Kafka's", contents(t, joining), contents(t, controller))
	admin := controllerAdmin(controller, joining)
	state := waitQuorum(t, "a leader", []*node{controller, joining}, anyLeader)
	first, _ := state.replica(controller.id)
	mustKafkaTool(t, quorumTool, slices.Concat(admin, []string{"remove-controller", "--controller-id", "1", "--controller-directory-id", kafkaid.String(first.directoryID)})...)
	waitQuorum(t, "kstorage leads", []*node{controller, joining}, func(q quorumState) bool { return q.leader == joining.id && len(q.voters) == 1 })
	waitFollowing(t, []*node{joining}, controller)
	killServers(c, late[1])
	checkSameLogs(t, controller, joining)
}

// directoriesOf are the ids of the log directories of n, sorted.
func directoriesOf(t *testing.T, n *node) []string {
	t.Helper()
	var ids []string
	for _, d := range metaprops.Load(n.dirs, n.metadata, nil).Dirs {
		ids = append(ids, kafkaid.String(d.Properties.DirectoryID))
	}
	slices.Sort(ids)
	return ids
}
