//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// contents are the metadata records of the newest snapshot of n, sorted, as `kstorage dump` shows them, which must be
// what DumpLogSegments shows. The registrations of controllers are left out: each start is another incarnation.
func contents(t *testing.T, n *node) []string {
	t.Helper()
	var records []string
	for _, e := range checkDump(t, slices.Max(snapshots(t, n))) {
		// Batches and control records are about the file.
		if strings.HasSuffix(e.Kind, "_RECORD") && e.Kind != "REGISTER_CONTROLLER_RECORD" {
			records = append(records, fmt.Sprintf("%s v%d %s", e.Kind, e.Version, sortedLists(t, e.Data)))
		}
	}
	slices.Sort(records)
	return records
}

// sortedLists sorts what is in the lists of a registration: Kafka's order is that of a hash map.
func sortedLists(t *testing.T, data string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &fields); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	for _, name := range []string{"features", "endPoints"} {
		var list []json.RawMessage
		if json.Unmarshal(fields[name], &list) == nil {
			slices.SortFunc(list, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
			fields[name], _ = json.Marshal(list) // what was decoded
		}
	}
	sorted, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}

// checkContents compares what a snapshot has with what it should have.
func checkContents(t *testing.T, what string, got, want []string) {
	t.Helper()
	missing := slices.DeleteFunc(slices.Clone(want), func(r string) bool { return slices.Contains(got, r) })
	added := slices.DeleteFunc(slices.Clone(got), func(r string) bool { return slices.Contains(want, r) })
	if len(missing)+len(added) > 0 || len(got) != len(want) {
		t.Errorf("%s: other records\nmissing: %s\n  added: %s", what, strings.Join(missing, "\n"), strings.Join(added, "\n"))
	}
}

// TestDirectoryChangesHands lets kstorage and Kafka run a controller on the same directory in turns, while a broker of
// Kafka's keeps its topics. Each begins where the other has ended, and its next snapshot has all that the other's had.
func TestDirectoryChangesHands(t *testing.T) {
	t.Parallel()
	const level = "4.4-IV2"
	folder := t.TempDir()
	controller := newNode(t, folder, 1, "controller", []string{"d1"}, manySnapshots...)
	broker := newNode(t, folder, 2, "broker", []string{"d1", "d2"})
	// With ACLs, which kstorage keeps but does not take part in.
	kafkasOwn := []string{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS"}
	broker.properties = append(broker.properties, kafkasOwn...)
	for _, n := range []*node{controller, broker} {
		n.properties = append(n.properties, "broker.heartbeat.interval.ms=300", "broker.session.timeout.ms=3000")
		n.write(t, bootstrapServers(controller))
		byKstorage.format(t, n, slices.Concat([]string{"-r", level}, map[bool][]string{true: append([]string{"-s"}, scram...)}[n.controller])...)
	}
	admin := func(class string, args ...string) result {
		t.Helper()
		return retryKafkaTool(t, class, append([]string{"--bootstrap-server", broker.brokerAddress()}, args...)...)
	}
	// The broker goes in order, and then a snapshot says what there is.
	quiet := func(servers ...*server) []string {
		t.Helper()
		stopServers(t, servers[1:]...)
		waitSnapshotOfAll(t, controller, controller)
		found := contents(t, controller)
		stopServers(t, servers[0])
		checkInfo(t, controller)
		return found
	}

	startBoth := func() []*server {
		t.Helper()
		secured := *controller
		secured.properties = slices.Concat(controller.properties, kafkasOwn)
		secured.write(t, bootstrapServers(controller))
		servers := []*server{startServer(t, controller), startServer(t, broker)}
		for _, s := range servers {
			s.wait(t, started)
		}
		return servers
	}

	// kstorage founds the cluster.
	c := startAll(t, ofKstorage, controller)
	founded := quiet(c...)

	// Kafka takes over and fills it.
	c = startBoth()
	waitSnapshotOfAll(t, controller, controller)
	found := contents(t, controller)
	for _, r := range founded {
		if !slices.Contains(found, r) {
			t.Errorf("Kafka has lost %s", r)
		}
	}
	admin(topicTool, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=60000")
	admin(topicTool, "--create", "--topic", "gone", "--partitions", "1", "--replication-factor", "1")
	admin(topicTool, "--delete", "--topic", "gone")
	admin(configTool, "--alter", "--entity-type", "topics", "--entity-name", "orders", "--add-config", "max.message.bytes=2000,cleanup.policy=compact")
	admin(configTool, "--alter", "--entity-type", "topics", "--entity-name", "orders", "--delete-config", "cleanup.policy")
	admin(configTool, "--alter", "--entity-type", "users", "--entity-name", "dora", "--entity-type", "clients", "--entity-name", "app", "--add-config", "producer_byte_rate=1024")
	admin(configTool, "--alter", "--entity-type", "users", "--entity-name", "carol", "--add-config", "SCRAM-SHA-512=[iterations=5000,password=x]")
	admin(aclTool, "--add", "--allow-principal", "User:dora", "--operation", "Read", "--operation", "Write", "--topic", "orders", "--allow-host", "10.0.0.1")
	produce := func() { // by an idempotent producer, which needs an id of a block that the active controller gives the broker
		t.Helper()
		admin(performanceTool, "--topic", "orders", "--num-records", "10", "--record-size", "10", "--throughput", "-1",
			"--command-property", "enable.idempotence=true", "delivery.timeout.ms=60000", "request.timeout.ms=5000")
	}
	produce()
	filled := quiet(c...)
	checkProducerIDs(t, filled, 1000)
	if len(filled) < len(founded)+10 {
		t.Fatalf("the snapshot lacks something: %s", strings.Join(filled, "\n"))
	}
	// kstorage takes over.
	controller.write(t, bootstrapServers(controller))
	c = startAll(t, ofKstorage, controller)
	waitSnapshotOfAll(t, controller, controller)
	checkContents(t, "kstorage behind Kafka", contents(t, controller), filled)
	b := startServer(t, broker)
	b.wait(t, started)
	checkAll := func() {
		t.Helper()
		eventually(t, "the broker leads all partitions", func() error {
			if r := admin(topicTool, "--describe", "--topic", "orders"); strings.Count(r.stdout, "Leader: 2") != 3 {
				return errors.New(r.String())
			}
			return nil
		})
		if r := admin(aclTool, "--list"); !strings.Contains(r.stdout, "principal=User:dora, host=10.0.0.1, operation=READ") {
			t.Errorf("the ACL is gone: %s", r)
		}
		(&cluster{level: "4.4-IV2"}).checkLogins(t, broker)
	}
	checkAll()
	produce()
	taken := quiet(c[0], b)
	checkProducerIDs(t, taken, 2000)
	checkContents(t, "kstorage behind Kafka and with a broker", lasting(taken), lasting(filled))

	// And Kafka again.
	c = startBoth()
	checkAll()
	produce()
	back := quiet(c...)
	checkProducerIDs(t, back, 3000)
	checkContents(t, "Kafka behind kstorage", lasting(back), lasting(taken))
}

// checkProducerIDs checks which producer ids the brokers have got: a broker takes a new block in each run.
func checkProducerIDs(t *testing.T, contents []string, next int) {
	t.Helper()
	want := fmt.Sprintf(`"nextProducerId":%d`, next)
	if !slices.ContainsFunc(contents, func(r string) bool { return strings.HasPrefix(r, "PRODUCER_IDS_RECORD") && strings.Contains(r, want) }) {
		t.Errorf("no PRODUCER_IDS_RECORD with %s: %s", want, strings.Join(contents, "\n"))
	}
}

var partitionEpochs = regexp.MustCompile(`"(leaderEpoch|partitionEpoch)":\d+`)

// lasting leaves out of contents what changes when a broker has come and gone.
func lasting(contents []string) []string {
	var out []string
	for _, r := range contents {
		if !strings.HasPrefix(r, "REGISTER_BROKER_RECORD") && !strings.HasPrefix(r, "PRODUCER_IDS_RECORD") {
			out = append(out, partitionEpochs.ReplaceAllString(r, `"$1":_`))
		}
	}
	return out
}
