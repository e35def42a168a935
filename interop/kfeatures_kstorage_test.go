//go:build interop

package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kstorage/metaprops"
)

// TestFeaturesOfKstorage lets kafka-features and kfeatures ask and change a cluster of kstorage controllers: directly,
// through a broker of Kafka's, which forwards a change in an Envelope, and through one of kstorage's. Never are both
// brokers up, since kafka-features asks any of those that are.
func TestFeaturesOfKstorage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	controllers := quorumOf(t, folder, 3, noElections)
	for _, c := range controllers {
		byKafka.format(t, c.write(t, staticVoters(controllers...)), "-r", "4.3-IV0")
	}
	servers := startAll(t, ofKstorage, controllers...)
	theirs := newNode(t, folder, 4, "broker", []string{"d1"}).write(t, staticVoters(controllers...))
	ours := newNode(t, folder, 5, "broker", []string{"d1"}).plaintext().write(t, staticVoters(controllers...))
	for _, b := range []*node{theirs, ours} {
		byKafka.format(t, b, "-r", "4.3-IV0")
	}
	direct, envelope, broker := toControllers(controllers...), toBroker(theirs), toBroker(ours)

	b := startServer(t, theirs)
	b.wait(t, started)
	checkLevels(t, direct, "metadata.version=4.3-IV0 kraft.version=0 group.version=1 share.version=1")
	checkLevels(t, envelope, "metadata.version=4.3-IV0 kraft.version=0 group.version=1 share.version=1")
	waitUpgradable(t, direct, "--feature", "kraft.version=1")
	play(t,
		step{envelope, "upgrade --metadata 4.4-IV0 --dry-run", 0, "metadata.version can be upgraded to 31.", "metadata.version=4.3-IV0"},
		step{envelope, "upgrade --metadata 4.4-IV0", 0, "metadata.version was upgraded to 31.", "metadata.version=4.4-IV0"},
		step{envelope, "downgrade --metadata 4.3", 0, "metadata.version was downgraded to 30.", "metadata.version=4.3-IV0"},
		step{direct, "upgrade --metadata 4.4-IV0 --feature share.version=2", 0, "share.version was upgraded to 2.", "metadata.version=4.4-IV0 share.version=2"},
		step{envelope, "disable --feature group.version --dry-run", 0, "group.version can be disabled.", "group.version=1"},
		step{envelope, "disable --feature group.version", 0, "group.version was disabled.", "group.version=0"},
		step{direct, "upgrade --feature group.version=1", 0, "group.version was upgraded to 1.", "group.version=1"},
		step{envelope, "upgrade --feature kraft.version=1 --dry-run", 0, "kraft.version can be upgraded to 1.", "kraft.version=0"},
		step{envelope, "upgrade --feature kraft.version=1", 0, "kraft.version was upgraded to 1.", "kraft.version=1"},
		step{direct, "downgrade --feature kraft.version=0 --unsafe", 1, "Can't downgrade the version of this feature.", "kraft.version=1"},
		step{envelope, "upgrade --feature metadata.version=35", 1, "Broker 4 only supports versions 7-33", ""},
		step{direct, "upgrade --feature metadata.version=34", 1, "only supports version 34 with unstable.feature.versions.enable=true", ""},
		step{envelope, "downgrade --release-version 4.0 --unsafe", 1, "Unsafe metadata downgrade is not supported", ""},
	)
	stopServers(t, b)
	checkDumps(t, theirs)

	servers = append(servers, startAll(t, ofKstorage, ours)...)
	checkLevels(t, broker, "metadata.version=4.4-IV0 kraft.version=1 group.version=1 share.version=2")
	play(t,
		step{broker, "downgrade --feature metadata.version=30 --feature share.version=1", 0, "share.version was downgraded to 1.", "metadata.version=4.3-IV0 share.version=1"},
		step{broker, "disable --feature group.version --unsafe", 0, "group.version was disabled.", "group.version=0"},
		step{broker, "upgrade --release-version 4.4 --dry-run", 0, "group.version can be upgraded to 1.", "metadata.version=4.3-IV0 group.version=0"},
		step{broker, "upgrade --release-version 4.4", 0, "metadata.version was upgraded to 33.", "metadata.version=4.4-IV2 group.version=1 share.version=2"},
		step{broker, "downgrade --metadata 4.3", 1, "Refusing to perform the requested downgrade", "metadata.version=4.4-IV2"},
		step{broker, "upgrade --feature unknown.version=1", 1, "does not support this feature.", ""},
		step{direct, "upgrade --feature transaction.version=3 --feature group.version=1", 1, "Could not upgrade group.version to 1.", ""},
	)
	checkLevels(t, direct, "metadata.version=4.4-IV2 kraft.version=1 group.version=1 share.version=2")
	c := cluster{level: "4.4-IV2", admin: broker.args}
	c.checkQuorum(t, []int{1, 2, 3}, []int{4, 5}) // who is gone counts for five minutes more
	checkVoters(t, c, controllers...)
	killServers(servers...)
	for _, s := range servers {
		checkDumps(t, s.node)
	}
	checkSameLogs(t, append(controllers, ours, theirs)...)
}

// waitUpgradable waits until all nodes have told the active controller that they support what args name, which they do a
// moment behind its election.
func waitUpgradable(t *testing.T, w way, args ...string) {
	t.Helper()
	eventually(t, "all nodes support the upgrade", func() error {
		if r := kfeatures(t, slices.Concat(w.args, []string{"upgrade", "--dry-run"}, args)...); r.exit != 0 {
			return errors.New(r.String())
		}
		return nil
	})
}

// checkVoters compares the directory ids of the voters with those of the nodes.
func checkVoters(t *testing.T, c cluster, nodes ...*node) {
	t.Helper()
	status := c.quorumStatus(t)
	for _, n := range nodes {
		if id := directoriesOf(t, n)[0]; !strings.Contains(status, id) {
			t.Errorf("node %d, directory id %s, should be a voter:\n%s", n.id, id, status)
		}
	}
}

// TestKRaftVersionOfMixed raises kraft.version in quorums of both kinds of controllers, where each kind leads once, and
// lets the other kind lead behind that.
func TestKRaftVersionOfMixed(t *testing.T) {
	t.Parallel()
	for _, leading := range []engine{ofKstorage, ofKafka} {
		t.Run(leading.name+" leads", func(t *testing.T) {
			t.Parallel()
			m := startMixed(t, true, ofKstorage, ofKafka, ofKstorage)
			direct := toControllers(m.nodes...)
			if q := waitQuorum(t, "a leader", m.nodes, anyLeader); m.engines[q.leader-1].name != leading.name {
				m.killLeader(t)
			}
			waitUpgradable(t, direct, "--feature", "kraft.version=1")
			play(t,
				step{direct, "upgrade --feature kraft.version=1 --dry-run", 0, "kraft.version can be upgraded to 1.", "kraft.version=0"},
				step{direct, "upgrade --feature kraft.version=1", 0, "kraft.version was upgraded to 1.", "kraft.version=1"},
				step{direct, "upgrade --feature metadata.version=35", 1, "only supports versions 7-33", "metadata.version=4.4-IV2"},
			)
			if q := waitQuorum(t, "a leader", m.nodes, anyLeader); m.engines[q.leader-1].name != leading.name {
				t.Errorf("node %d leads, which is another kind", q.leader)
			}
			m.killLeader(t)
			c := cluster{admin: direct.args}
			c.checkQuorum(t, []int{1, 2, 3}, []int{4})
			checkVoters(t, c, m.nodes...)
			killServers(append(m.servers, m.broker)...)
			for _, s := range append(m.servers, m.broker) {
				checkDumps(t, s.node)
			}
			checkSameLogs(t, append(m.nodes, m.broker.node)...)
		})
	}
}

// TestUpgradeCommitsClusterID raises three kstorage controllers and a broker to the level that has the cluster's id,
// and waits for all of them.
func TestUpgradeCommitsClusterID(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	controllers := quorumOf(t, folder, 3, noElections)
	broker := newNode(t, folder, 4, "broker", []string{"d1", "d2"}).plaintext().write(t, bootstrapServers(controllers...))
	nodes := append(controllers, broker)
	for _, c := range controllers {
		byKafka.format(t, c, "-r", "4.4-IV2", "-I", initialControllers(controllers...))
	}
	byKafka.format(t, broker, "-r", "4.4-IV2")
	servers := startAll(t, ofKstorage, nodes...)
	before := map[int]string{}
	for _, n := range nodes {
		before[n.id] = metaProperties(t, n)
	}
	direct := toControllers(controllers...)
	waitUpgradable(t, direct, "--release-version", "4.5-IV1")
	for _, test := range []struct {
		way  way
		want []*node
	}{{direct, controllers}, {toBroker(broker), []*node{broker}}} {
		r := kfeatures(t, slices.Concat(test.way.args, []string{"upgrade", "--release-version", "4.5-IV1", "--wait", "--json"})...)
		var document struct {
			ReportedBy []struct{ NodeID int }
		}
		if err := json.Unmarshal([]byte(r.stdout), &document); err != nil || r.exit != 0 || slow.ReplaceAllString(r.stderr, "") != "" {
			t.Fatalf("%v: %s", err, r)
		}
		var reported, want []int
		for _, n := range document.ReportedBy {
			reported = append(reported, n.NodeID)
		}
		for _, n := range test.want {
			want = append(want, n.id)
		}
		if !slices.Equal(reported, want) {
			t.Errorf("reported by %v, not %v: %s", reported, want, r)
		}
		// What Kafka's tool makes of it.
		play(t,
			step{test.way, "upgrade --feature metadata.version=35", 0, "metadata.version was upgraded to 35.", "metadata.version=4.5-IV1 kraft.version=1"},
			step{test.way, "downgrade --feature metadata.version=33", 1, "Refusing to perform the requested downgrade", "metadata.version=4.5-IV1"},
		)
	}
	waitFollowing(t, controllers, nodes...)
	killServers(servers...)
	for _, n := range nodes {
		if after := metaProperties(t, n); after != before[n.id] || !strings.Contains(after, "cluster.id="+clusterID+"\n") {
			t.Errorf("node %d: meta.properties was\n%sand is\n%s", n.id, before[n.id], after)
		}
		checkPair(t, n)
	}
	checkSameLogs(t, nodes...)
}

// metaProperties is the text of all meta.properties of n.
func metaProperties(t *testing.T, n *node) string {
	t.Helper()
	var all []string
	for _, d := range n.dirs {
		all = append(all, readFile(t, filepath.Join(d, metaprops.FileName)))
	}
	return strings.Join(all, "\n")
}

// checkPair looks for the record of the cluster's id in the log of n: it stands there once, in the same batch as that
// of the level.
func checkPair(t *testing.T, n *node) {
	t.Helper()
	var batch, found []string
	level := fmt.Sprintf(`{"name":"metadata.version","featureLevel":%d}`, 35)
	for _, e := range kstorageDump(t, filepath.Join(n.metadataDir(), "00000000000000000000.log")) {
		switch {
		case e.Kind == "batch":
			batch = nil
		default:
			batch = append(batch, e.Kind+" "+e.Data)
		}
		if e.Kind == "CLUSTER_ID_RECORD" {
			found = append(found, e.Data)
			if want := `{"clusterId":"` + clusterID + `"}`; e.Data != want || !slices.Contains(batch, "FEATURE_LEVEL_RECORD "+level) {
				t.Errorf("node %d: want %s behind %s, in this batch there is %q", n.id, want, level, batch)
			}
		}
	}
	if len(found) != 1 {
		t.Errorf("node %d has %d records with the cluster's id", n.id, len(found))
	}
}
