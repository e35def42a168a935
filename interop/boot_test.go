//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kstorage/features"
)

// levels are formatted and booted: the newest, the oldest that Kafka 4 writes by default somewhere, and one below 4.0.
var levels = []string{"4.4-IV2", "4.0-IV3", "3.9-IV0"}

// all reports whether every level and every release is tested, which takes half an hour.
func all() bool { return os.Getenv("INTEROP_ALL") != "" }

// testedLevels are all that Kafka 4.4 reads if INTEROP_ALL is set, else levels.
func testedLevels() []string {
	if !all() {
		return levels
	}
	var names []string
	for _, v := range features.Versions() {
		if v <= features.LatestKafka {
			names = append(names, v.String())
		}
	}
	return names
}

// scramAt returns scram for a level that has records for users, else nothing.
func scramAt(t *testing.T, level string) []string {
	t.Helper()
	v, err := features.ParseVersion(level, false)
	if err != nil {
		t.Fatal(err)
	}
	if !v.SupportsScram() {
		return nil
	}
	return scram
}

// scram are the users that format stores, one for each mechanism.
var scram = []string{
	"-S", "SCRAM-SHA-256=[name=alice,password=wonderland]",
	"-S", "SCRAM-SHA-512=[name=bob,password=builder]",
}

// TestServersBoot lets real servers start on what kstorage formatted, in each mode and at each level, and asks them
// for everything that format put there.
func TestServersBoot(t *testing.T) {
	for _, level := range testedLevels() {
		t.Run(level, func(t *testing.T) {
			t.Run("initial controllers with an observer and a broker", func(t *testing.T) {
				bootInitialControllers(t, level)
			})
			t.Run("standalone with two directories", func(t *testing.T) { bootStandalone(t, level) })
			t.Run("static voters with a broker by kafka-storage", func(t *testing.T) { bootStatic(t, level) })
		})
	}
}

// Three voters found the quorum; a controller formatted with -N and a broker find it. Node 1 has two log directories.
func bootInitialControllers(t *testing.T, level string) {
	folder := t.TempDir()
	var voters []*node
	for id := 1; id <= 3; id++ {
		dirs := []string{"d1", "d2"}[:1+id%2]
		voters = append(voters, newNode(t, folder, id, "controller", dirs))
	}
	joining := newNode(t, folder, 4, "controller", []string{"d1"}, autoJoin)
	broker := newNode(t, folder, 5, "broker", []string{"d1", "d2"})
	quorum := bootstrapServers(voters...)
	for _, v := range voters {
		byKstorage.format(t, v.write(t, quorum), slices.Concat([]string{"-r", level, "-I", initialControllers(voters...)}, scramAt(t, level))...)
	}
	byKstorage.format(t, joining.write(t, quorum), "-r", level, "-N")
	byKstorage.format(t, broker.write(t, quorum), "-r", level)

	c := boot(t, level, append(voters, joining, broker)...)
	c.checkQuorum(t, []int{1, 2, 3, 4}, []int{5})
	for i := range voters {
		// The voters are those of -I, with their directory ids.
		if status := c.quorumStatus(t); !strings.Contains(status, directoryIDs[i]) {
			t.Errorf("no voter with directory id %s:\n%s", directoryIDs[i], status)
		}
	}
	c.checkFeatures(t, "1")
	c.checkLogins(t, broker)
	c.stop(t)
	c.checkFiles(t)
}

// One node is controller and broker, its metadata directory is not the first of its log directories.
func bootStandalone(t *testing.T, level string) {
	n := newNode(t, t.TempDir(), 1, "broker,controller", []string{"data", "metadata"}).putMetadataLast()
	byKstorage.format(t, n.write(t, bootstrapServers(n)), slices.Concat([]string{"-r", level, "-s"}, scramAt(t, level))...)

	c := boot(t, level, n)
	c.checkQuorum(t, []int{1}, nil)
	c.checkFeatures(t, "1")
	c.checkLogins(t, n)
	c.stop(t)
	c.checkFiles(t)
}

// The controller stands in controller.quorum.voters and is formatted by kstorage, the broker by kafka-storage.
func bootStatic(t *testing.T, level string) {
	folder := t.TempDir()
	controller := newNode(t, folder, 1, "controller", []string{"d1"})
	broker := newNode(t, folder, 2, "broker", []string{"d1"})
	quorum := staticVoters(controller)
	byKstorage.format(t, controller.write(t, quorum), slices.Concat([]string{"-r", level}, scramAt(t, level))...)
	byKafka.format(t, broker.write(t, quorum), "-r", level)

	c := boot(t, level, controller, broker)
	c.checkQuorum(t, []int{1}, []int{2})
	c.checkFeatures(t, "0")
	c.checkLogins(t, broker)
	c.stop(t)
	c.checkFiles(t)
}

const autoJoin = "controller.quorum.auto.join.enable=true"

// cluster is a set of running servers of the level that they were formatted at.
type cluster struct {
	level       string
	controllers []*server
	brokers     []*server // those that are no controllers
	admin       []string  // how a tool reaches it
}

// boot starts the voters, then the others, and waits until each says that it is up; a broker says so only when the cluster
// has a leader and lets it take part.
//
// The others come behind the first election: where two leaders follow each other at once, a node without a checkpoint may
// have read kraft.version and the voters from the log, and truncates that. Kafka, as of 4.4.0, does not read there again
// (KRaftControlRecordStateMachine.truncateNewEntries leaves nextOffset where it was), and shows kraft.version 0 until it restarts.
func boot(t *testing.T, level string, nodes ...*node) *cluster {
	t.Helper()
	return bootBy(t, startServer, level, nodes...)
}

// bootBy is boot with servers of another kind.
func bootBy(t *testing.T, start func(*testing.T, *node) *server, level string, nodes ...*node) *cluster {
	t.Helper()
	c := &cluster{level: level, admin: controllerAdmin(nodes[0])}
	for _, voters := range []bool{true, false} {
		var wave []*server
		for _, n := range nodes {
			if voter := n.controller && !slices.Contains(n.properties, autoJoin); voter != voters {
				continue
			}
			s := start(t, n)
			wave = append(wave, s)
			if n.controller {
				c.controllers = append(c.controllers, s)
			} else {
				c.brokers = append(c.brokers, s)
			}
			if n.broker {
				c.admin = []string{"--bootstrap-server", n.brokerAddress()}
			}
		}
		for _, s := range wave {
			s.wait(t, `Kafka Server started`)
		}
	}
	return c
}

// stop stops the brokers first: one that can't reach a controller any more waits long for a good end.
func (c *cluster) stop(t *testing.T) {
	t.Helper()
	stopServers(t, c.brokers...)
	stopServers(t, c.controllers...)
}

// checkFiles lets kstorage read what the servers left, and compares it with what Kafka's tools read.
func (c *cluster) checkFiles(t *testing.T) {
	t.Helper()
	for _, s := range slices.Concat(c.controllers, c.brokers) {
		checkInfo(t, s.node)
		checkDumps(t, s.node)
	}
}

func (c *cluster) quorumStatus(t *testing.T) string {
	t.Helper()
	return mustKafkaTool(t, quorumTool, slices.Concat(c.admin, []string{"describe", "--status"})...).stdout
}

// checkQuorum asks for the cluster id, a leader, the voters, and waits for the observers.
func (c *cluster) checkQuorum(t *testing.T, voters, observers []int) {
	t.Helper()
	if r := mustKafkaTool(t, clusterTool, slices.Concat([]string{"cluster-id"}, c.admin)...); r.stdout != "Cluster ID: "+clusterID+"\n" {
		t.Error(r)
	}
	eventually(t, "the quorum of the configuration", func() error {
		status := c.quorumStatus(t)
		if !regexp.MustCompile(`(?m)^ClusterId: +` + clusterID + `$`).MatchString(status) {
			return fmt.Errorf("not cluster id %s:\n%s", clusterID, status)
		}
		if !regexp.MustCompile(`(?m)^LeaderId: +\d+$`).MatchString(status) {
			return fmt.Errorf("no leader:\n%s", status)
		}
		for _, group := range []struct {
			name string
			want []int
		}{{"CurrentVoters", voters}, {"CurrentObservers", observers}} {
			line := regexp.MustCompile(`(?m)^` + group.name + `: +(.*)$`).FindString(status)
			got := regexp.MustCompile(`"id": \d+`).FindAllString(line, -1)
			slices.Sort(got)
			var want []string
			for _, id := range group.want {
				want = append(want, fmt.Sprintf(`"id": %d`, id))
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s should have %v:\n%s", group.name, want, status)
			}
		}
		return nil
	})
}

// checkFeatures compares the finalized levels with those that kafka-storage names for the release.
func (c *cluster) checkFeatures(t *testing.T, kraftVersion string) {
	t.Helper()
	want := map[string]string{}
	for line := range strings.Lines(mustKafkaTool(t, storageTool, "version-mapping", "-r", c.level).stdout) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		want[name] = value
	}
	want["metadata.version"] = c.level
	want["kraft.version"] = kraftVersion
	// A broker that has just started may not know kraft.version yet, which comes to it from its own log.
	eventually(t, "the features", func() error {
		described := kafkaTool(t, featureTool, slices.Concat(c.admin, []string{"describe"})...)
		got := map[string]string{} // nothing from a broker that could not answer yet
		for _, m := range regexp.MustCompile(`(?m)^Feature: (\S+).*FinalizedVersionLevel: (\S+)`).FindAllStringSubmatch(described.stdout, -1) {
			got[m[1]] = m[2]
		}
		for name, level := range want {
			// A server of an older release does not name the features that came after it.
			if got[name] != level && !(level == "0" && got[name] == "") {
				return fmt.Errorf("feature %s is at %q, should be at %q: %v", name, got[name], level, described)
			}
		}
		return nil
	})
}

// checkLogins logs in with both users at the SASL listener of a broker, and with a wrong password, which must fail.
func (c *cluster) checkLogins(t *testing.T, broker *node) {
	t.Helper()
	if scramAt(t, c.level) == nil {
		return
	}
	for _, login := range []struct {
		mechanism, user, password string
		good                      bool
	}{
		{"SCRAM-SHA-256", "alice", "wonderland", true},
		{"SCRAM-SHA-512", "bob", "builder", true},
		{"SCRAM-SHA-256", "alice", "builder", false},
		{"SCRAM-SHA-512", "alice", "wonderland", false}, // alice has the other mechanism only
	} {
		config := scramClient(t, login.mechanism, login.user, login.password)
		r := kafkaTool(t, clusterTool, "cluster-id", "--bootstrap-server", broker.saslAddress(), "--config", config)
		switch {
		case login.good && (r.exit != 0 || !strings.Contains(r.stdout, clusterID)):
			t.Errorf("%+v: login failed: %s", login, r)
		case !login.good && (r.exit == 0 || !strings.Contains(r.stdout+r.stderr, "SaslAuthenticationException")):
			t.Errorf("%+v: login should be refused: %s", login, r)
		}
	}
}

// scramClient writes a client configuration that logs in with SCRAM.
func scramClient(t *testing.T, mechanism, user, password string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.properties")
	writeFile(t, path, fmt.Sprintf("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=%s\n"+
		"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";\n",
		mechanism, user, password))
	return path
}
