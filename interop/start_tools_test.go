//go:build interop

package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/kafkaid"
)

// TestToolsAskStarted lets Kafka's tools ask and change a cluster of kstorage nodes, its controllers directly and
// through a broker.
func TestToolsAskStarted(t *testing.T) {
	t.Parallel()
	const level = "4.4-IV2"
	folder := t.TempDir()
	voters := quorumOf(t, folder, 3, noElections)
	joining := newNode(t, folder, 4, "controller", []string{"d1"})
	broker := newNode(t, folder, 5, "broker", []string{"d1", "d2"}).plaintext()
	for _, v := range voters {
		byKafka.format(t, v, "-r", level, "-I", initialControllers(voters...))
	}
	byKafka.format(t, joining.write(t, bootstrapServers(voters...)), "-r", level, "-N")
	byKstorage.format(t, broker.write(t, bootstrapServers(voters...)), "-r", level)
	servers := startAll(t, ofKstorage, append(voters, joining, broker)...)

	direct := cluster{level: level, admin: controllerAdmin(voters...)}
	through := cluster{level: level, admin: []string{"--bootstrap-server", broker.brokerAddress()}}
	for _, c := range []cluster{direct, through} {
		c.checkQuorum(t, []int{1, 2, 3}, []int{4, 5})
		c.checkFeatures(t, "1")
		checkReplication(t, c, 1, 2, 3, 4, 5)
	}
	endpoints := func(admin []string, nodes ...*node) {
		t.Helper()
		r := mustKafkaTool(t, clusterTool, append([]string{"list-endpoints"}, admin...)...)
		for _, n := range nodes {
			port := n.controllerPort
			if n.broker {
				port = n.brokerPort
			}
			if found := fields(r.stdout, fmt.Sprint(n.id)); len(found) < 3 || found[1] != host || found[2] != fmt.Sprint(port) {
				t.Errorf("node %d at port %d should be listed: %s", n.id, port, r)
			}
		}
	}
	endpoints(direct.admin, append(voters, joining)...)
	endpoints(through.admin, broker)

	// A voter more, and the leader goes.
	change := func(c cluster, want string, args ...string) {
		t.Helper()
		r := kafkaTool(t, quorumTool, slices.Concat(c.admin, args)...)
		if text := r.stdout + r.stderr; (want == "") != (r.exit == 0) || !strings.Contains(text, want) {
			t.Errorf("want %q: %s", want, r)
		}
	}
	add := []string{"--command-config", joining.config, "add-controller"}
	change(through, "", add...)
	direct.checkQuorum(t, []int{1, 2, 3, 4}, []int{5})
	change(direct, "DuplicateVoterException", add...)
	change(through, "DuplicateVoterException", add...)
	added, _ := waitQuorum(t, "a leader", voters, anyLeader).replica(4)
	removeJoining := []string{"remove-controller", "--controller-id", "4", "--controller-directory-id", kafkaid.String(added.directoryID)}
	change(direct, "", removeJoining...)
	change(through, "VoterNotFoundException", removeJoining...)
	change(direct, "", add...)
	state := waitQuorum(t, "a leader", voters, anyLeader)
	leader, _ := state.replica(state.leader)
	remove := []string{"remove-controller", "--controller-id", fmt.Sprint(leader.id), "--controller-directory-id", kafkaid.String(leader.directoryID)}
	change(through, "", remove...)
	left := slices.DeleteFunc([]int{1, 2, 3, 4}, func(id int) bool { return id == leader.id })
	direct.checkQuorum(t, left, []int{leader.id, 5})
	change(direct, "VoterNotFoundException", remove...)
	through.checkQuorum(t, left, []int{leader.id, 5})

	stopInOrder(t, unhindered, servers[4])
	mustKafkaTool(t, clusterTool, slices.Concat([]string{"unregister"}, direct.admin, []string{"--id", "5"})...)
	state = waitQuorum(t, "a leader", append(voters, joining), anyLeader)
	stopInOrder(t, unhindered, servers[state.leader-1])
	waitQuorum(t, "another leader", append(voters, joining), func(q quorumState) bool { return q.epoch > state.epoch })
	killServers(servers...)
	for _, s := range servers {
		checkInfo(t, s.node)
		checkDumps(t, s.node)
	}
}

// fields are the columns of the first line that begins with name.
func fields(text, name string) []string {
	for line := range strings.Lines(text) {
		if found := strings.Fields(line); len(found) > 0 && found[0] == name {
			return found
		}
	}
	return nil
}

// checkReplication asks for the table of replicas, of which none lags behind for long.
func checkReplication(t *testing.T, c cluster, ids ...int) {
	t.Helper()
	eventually(t, "all replicas without a lag", func() error {
		r := kafkaTool(t, quorumTool, slices.Concat(c.admin, []string{"describe", "--replication"})...)
		for _, id := range ids {
			// NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status
			row := fields(r.stdout, fmt.Sprint(id))
			if len(row) != 7 || row[3] != "0" || row[4] == "-1" || row[5] == "-1" {
				return fmt.Errorf("replica %d: %q of %s", id, row, r)
			}
		}
		return nil
	})
}
