//go:build interop

package interop

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wantTypes are the records that the servers of TestKstorageReadsKafka write, with their versions.
var wantTypes = []string{
	"ACCESS_CONTROL_ENTRY_RECORD v0",
	"BROKER_REGISTRATION_CHANGE_RECORD v0",
	"BROKER_REGISTRATION_CHANGE_RECORD v1",
	"BROKER_REGISTRATION_CHANGE_RECORD v3",
	"CLIENT_QUOTA_RECORD v0",
	"CONFIG_RECORD v0",
	"DELEGATION_TOKEN_RECORD v0",
	"FEATURE_LEVEL_RECORD v0",
	"KRaftVersion v0",
	"KRaftVoters v0",
	"LeaderChange v0",
	"NO_OP_RECORD v0",
	"PARTITION_CHANGE_RECORD v2",
	"PARTITION_RECORD v0",
	"PARTITION_RECORD v2",
	"PRODUCER_IDS_RECORD v0",
	"REGISTER_BROKER_RECORD v1",
	"REGISTER_BROKER_RECORD v4",
	"REGISTER_CONTROLLER_RECORD v0",
	"REMOVE_ACCESS_CONTROL_ENTRY_RECORD v0",
	"REMOVE_DELEGATION_TOKEN_RECORD v0",
	"REMOVE_TOPIC_RECORD v0",
	"REMOVE_USER_SCRAM_CREDENTIAL_RECORD v0",
	"SnapshotFooter v0",
	"SnapshotHeader v0",
	"TOPIC_RECORD v0",
	"UNREGISTER_BROKER_RECORD v0",
	"USER_SCRAM_CREDENTIAL_RECORD v0",
}

// TestKstorageReadsKafka lets a running Kafka write all kinds of records, first at the oldest level and then at the
// newest, and compares what kstorage makes of the files with what Kafka's own tools do.
func TestKstorageReadsKafka(t *testing.T) {
	folder := t.TempDir()
	first := newNode(t, folder, 1, "broker,controller", []string{"d1"})
	second := newNode(t, folder, 2, "broker", []string{"d1", "d2"})
	nodes := []*node{first, second}
	for _, n := range nodes {
		n.properties = append(n.properties,
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users=User:ANONYMOUS;User:alice",
			"delegation.token.secret.key=secret",
			"metadata.log.max.record.bytes.between.snapshots=500",
			"unclean.leader.election.enable=false",
		)
		n.write(t, bootstrapServers(first))
	}
	byKafka.format(t, first, "-s", "-r", "3.3-IV3")
	byKafka.format(t, second, "-r", "3.3-IV3")
	checkInfo(t, nodes...)

	c := boot(t, "3.3-IV3", nodes...)
	admin := func(class string, args ...string) {
		t.Helper()
		retryKafkaTool(t, class, append([]string{"--bootstrap-server", first.brokerAddress()}, args...)...)
	}

	// The oldest level.
	admin(topicTool, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "2", "--config", "retention.ms=60000")
	admin(topicTool, "--create", "--topic", "gone", "--partitions", "1", "--replication-factor", "1")
	admin(topicTool, "--delete", "--topic", "gone")
	admin(topicTool, "--alter", "--topic", "orders", "--partitions", "4")
	admin(configTool, "--alter", "--entity-type", "topics", "--entity-name", "orders", "--add-config", "max.message.bytes=2000,cleanup.policy=compact")
	admin(configTool, "--alter", "--entity-type", "topics", "--entity-name", "orders", "--delete-config", "cleanup.policy")
	admin(configTool, "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.cleaner.threads=2")
	admin(configTool, "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.threads=2")
	admin(configTool, "--alter", "--entity-type", "users", "--entity-name", "dora", "--entity-type", "clients", "--entity-name", "app", "--add-config", "producer_byte_rate=1024")
	admin(configTool, "--alter", "--entity-type", "users", "--entity-default", "--add-config", "request_percentage=12.5,consumer_byte_rate=2048")
	admin(configTool, "--alter", "--entity-type", "ips", "--entity-name", "10.0.0.1", "--add-config", "connection_creation_rate=7")
	admin(configTool, "--alter", "--entity-type", "ips", "--entity-name", "10.0.0.1", "--delete-config", "connection_creation_rate")
	admin(aclTool, "--add", "--allow-principal", "User:dora", "--operation", "Read", "--operation", "Write", "--topic", "orders", "--allow-host", "10.0.0.1")
	admin(aclTool, "--add", "--deny-principal", "User:mallory", "--operation", "All", "--topic", "ord", "--resource-pattern-type", "prefixed")
	admin(aclTool, "--add", "--allow-principal", "User:*", "--operation", "Describe", "--cluster")
	admin(aclTool, "--remove", "--force", "--allow-principal", "User:dora", "--operation", "Write", "--topic", "orders", "--allow-host", "10.0.0.1")

	// The newest.
	mustKafkaTool(t, featureTool, slices.Concat(c.admin, []string{"upgrade", "--release-version", "4.4-IV2"})...)
	admin(topicTool, "--create", "--topic", "payments", "--partitions", "2", "--replication-factor", "2")
	moves := filepath.Join(folder, "moves.json")
	writeFile(t, moves, fmt.Sprintf(`{"version":1,"partitions":[{"topic":"payments","partition":0,"replicas":[2],"log_dirs":["%s"]}]}`, second.dirs[1]))
	admin(partitionsTool, "--reassignment-json-file", moves, "--execute")
	for _, user := range []string{"alice", "carol"} {
		admin(configTool, "--alter", "--entity-type", "users", "--entity-name", user, "--add-config", "SCRAM-SHA-256=[password=wonderland]")
	}
	admin(configTool, "--alter", "--entity-type", "users", "--entity-name", "carol", "--add-config", "SCRAM-SHA-512=[iterations=5000,password=x]")
	admin(configTool, "--alter", "--entity-type", "users", "--entity-name", "carol", "--delete-config", "SCRAM-SHA-256")
	admin(configTool, "--alter", "--entity-type", "client-metrics", "--entity-name", "all", "--add-config", "interval.ms=1000,metrics=[org.apache.kafka.]")
	admin(configTool, "--alter", "--entity-type", "groups", "--entity-name", "workers", "--add-config", "consumer.session.timeout.ms=50000")
	admin(aclTool, "--add", "--allow-principal", "User:dora", "--operation", "All", "--transactional-id", "tx")
	admin(performanceTool, "--topic", "payments", "--num-records", "10", "--record-size", "10", "--throughput", "-1")

	alice := scramClient(t, "SCRAM-SHA-256", "alice", "wonderland")
	token := func(args ...string) result {
		t.Helper()
		return retryKafkaTool(t, tokenTool, append([]string{"--bootstrap-server", first.saslAddress(), "--command-config", alice}, args...)...)
	}
	hmac := regexp.MustCompile(`\S+==? `)
	for _, what := range [][]string{{"--renew", "--renew-time-period", "1000000"}, {"--expire", "--expiry-time-period", "-1"}} {
		created := token("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:carol")
		found := hmac.FindString(created.stdout)
		if found == "" {
			t.Fatalf("no hmac: %s", created)
		}
		token(append(what, "--hmac", found[:len(found)-1])...)
	}
	mustKafkaTool(t, featureTool, slices.Concat(c.admin, []string{"downgrade", "--feature", "transaction.version=1"})...)

	// The second broker goes for good, the first controller leads again.
	stopServers(t, c.brokers...)
	mustKafkaTool(t, clusterTool, "unregister", "--bootstrap-server", first.brokerAddress(), "--id", "2")
	stopServers(t, c.controllers...)
	c = boot(t, "4.4-IV2", first)
	admin(topicTool, "--delete", "--topic", "orders")
	admin(topicTool, "--create", "--topic", "last", "--partitions", "1", "--replication-factor", "1")
	eventually(t, "a snapshot of all this", func() error {
		snapshots, err := filepath.Glob(filepath.Join(first.metadataDir(), "*.checkpoint"))
		if err != nil {
			return err
		}
		newest := slices.Max(snapshots)
		if !slices.ContainsFunc(kafkaDump(t, newest), func(e entry) bool { return strings.Contains(e.Data, `"name":"last"`) }) {
			return errors.New("not yet in " + newest)
		}
		return nil
	})
	c.stop(t)

	checkInfo(t, nodes...)
	types := checkDumps(t, first)
	maps.Copy(types, checkDumps(t, second))
	for _, want := range wantTypes {
		if types[want] == 0 {
			t.Errorf("no %s was written: this test lost a part of what it is for", want)
		}
	}
}
