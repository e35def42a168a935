//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shortClient is a client configuration with which a call that can't succeed ends soon.
func shortClient(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "short.properties")
	writeFile(t, path, "default.api.timeout.ms=6000\nrequest.timeout.ms=3000\n")
	return path
}

// brokerStates are the states of a broker by the records in the log of a running controller.
func brokerStates(t *testing.T, controller *node, id int) []string {
	t.Helper()
	var states []string
	for _, e := range kstorageDump(t, filepath.Join(controller.metadataDir(), "00000000000000000000.log")) {
		var data struct {
			BrokerID             int
			Fenced               any
			InControlledShutdown any
		}
		if !strings.HasPrefix(e.Kind, "REGISTER_BROKER") && !strings.HasPrefix(e.Kind, "BROKER_REGISTRATION_CHANGE") {
			continue
		}
		if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
			t.Fatal(err)
		}
		if data.BrokerID != id {
			continue
		}
		switch {
		case strings.HasPrefix(e.Kind, "REGISTER_BROKER"):
			states = append(states, "registered")
		case data.Fenced == 1.0:
			states = append(states, "fenced")
		case data.Fenced == -1.0:
			states = append(states, "unfenced")
		case data.InControlledShutdown == 1.0:
			states = append(states, "shutting down")
		}
	}
	return states
}

// TestKafkaBrokerOnStarted lets a real broker live on three kstorage controllers: it runs, is refused what they don't
// serve, survives the loss of their leader, is fenced when it is killed, comes back, and gets leave to go.
func TestKafkaBrokerOnStarted(t *testing.T) {
	t.Parallel()
	const level = "4.4-IV2"
	const session = 9 * time.Second
	folder := t.TempDir()
	controllers := quorumOf(t, folder, 3, fmt.Sprintf("broker.session.timeout.ms=%d", session.Milliseconds()), "broker.heartbeat.interval.ms=300",
		"metadata.max.idle.interval.ms=50", "metadata.log.max.record.bytes.between.snapshots=1500")
	broker := newNode(t, folder, 4, "broker", []string{"d1", "d2"}, "broker.heartbeat.interval.ms=300")
	for _, c := range controllers {
		byKstorage.format(t, c, slices.Concat([]string{"-r", level, "-I", initialControllers(controllers...)}, scram)...)
	}
	byKstorage.format(t, broker.write(t, bootstrapServers(controllers...)), "-r", level)
	servers := startAll(t, ofKstorage, controllers...)
	for _, c := range controllers {
		waitSnapshots(t, c, 1) // so that the broker begins with one
	}
	b := startServer(t, broker)
	running := func() {
		t.Helper()
		b.wait(t, `Transitioning from RECOVERY to RUNNING`)
		b.wait(t, started)
	}
	running()
	if len(snapshots(t, broker)) == 0 {
		t.Error("the broker should have fetched a snapshot")
	}
	states := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the states of broker %d", broker.id), func() error {
			if got := brokerStates(t, controllers[0], broker.id); !slices.Equal(got, want) {
				return fmt.Errorf("they are %q, not %q", got, want)
			}
			return nil
		})
	}
	states("registered", "unfenced")
	c := cluster{level: level, admin: []string{"--bootstrap-server", broker.brokerAddress()}}
	c.checkQuorum(t, []int{1, 2, 3}, []int{4})
	c.checkFeatures(t, "1")
	c.checkLogins(t, broker)
	checkReplication(t, c, 1, 2, 3, 4)

	refused := func(class string, args ...string) {
		t.Helper()
		r := kafkaTool(t, class, slices.Concat(c.admin, []string{"--command-config", shortClient(t)}, args)...)
		if text := r.stdout + r.stderr; r.exit == 0 || !strings.Contains(text, "not support") || r.took > 5*time.Second {
			t.Errorf("it should be refused at once, not after %v: %s", r.took, r)
		}
	}
	refused(topicTool, "--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "1")
	refused(configTool, "--alter", "--entity-type", "brokers", "--entity-name", "4", "--add-config", "log.cleaner.threads=2")
	mustKafkaTool(t, topicTool, append(c.admin, "--list")...)
	mustKafkaTool(t, featureTool, slices.Concat(c.admin, []string{"upgrade", "--release-version", level})...)

	// The leader is gone; the broker finds the next one.
	before := waitQuorum(t, "a leader", controllers, anyLeader)
	lost := servers[before.leader-1]
	lost.kill()
	begin := time.Now()
	waitQuorum(t, "another leader", controllers, func(q quorumState) bool { return q.epoch > before.epoch })
	t.Logf("another leader %v after the first was killed", time.Since(begin).Round(time.Millisecond))
	servers[before.leader-1] = ofKstorage.start(t, lost.node)
	waitFollowing(t, controllers, append(controllers, broker)...)
	c.checkQuorum(t, []int{1, 2, 3}, []int{4})
	states("registered", "unfenced")

	begin = time.Now()
	b.kill()
	states("registered", "unfenced", "fenced")
	if took := time.Since(begin); took < session/2 || took > 3*session {
		t.Errorf("a killed broker was fenced after %v, its session lasts %v", took, session)
	}
	b = startServer(t, broker)
	running()
	states("registered", "unfenced", "fenced", "registered", "unfenced")
	b.signal(syscall.SIGTERM)
	b.wait(t, `The controller has asked us to exit controlled shutdown`)
	stopServers(t, b)
	states("registered", "unfenced", "fenced", "registered", "unfenced", "fenced")
	killServers(servers...)
	for _, s := range servers {
		checkDumps(t, s.node)
	}
	checkDumps(t, broker)
}
