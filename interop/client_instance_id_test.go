//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
	"kstorage/interop/kafkajars"
)

// oldClients is the oldest Kafka whose clients are tried.
const oldClients = "4.0.0"

// startLogging is startKstorage with a request log.
func startLogging(t *testing.T, n *node, requestLog string) *server {
	t.Helper()
	cmd := exec.Command(lab.kstorage, "start", "--config", n.config, "--request-log", requestLog)
	cmd.Dir = lab.scratch
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return runServer(t, n, cmd)
}

// loggedRequest is a line of a request log.
type loggedRequest struct {
	API, Listener              string
	Version                    int16
	ClientID, ClientInstanceID *string
	Error                      *string
}

func (r loggedRequest) failed() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

func readRequestLog(t *testing.T, path string) (out []loggedRequest) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r loggedRequest
		if bytes.HasSuffix(line, []byte("\n")) {
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			out = append(out, r)
		}
	}
	return out
}

// telemetryOf are the requests of a client about its metrics, and how they ended.
func telemetryOf(t *testing.T, path, clientID string) (out []string) {
	t.Helper()
	for _, r := range readRequestLog(t, path) {
		if (r.API == "PushTelemetry" || r.API == "GetTelemetrySubscriptions") && r.ClientID != nil && *r.ClientID == clientID {
			out = append(out, strings.TrimSpace(r.API+" "+r.failed()))
		}
	}
	return out
}

// TestClientsOfKstorage lets clients without a client instance id work on a kstorage broker as before, and push their metrics, by
// subscriptions that Kafka's tools wrote: Java clients of two versions, and franz-go.
func TestClientsOfKstorage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	controller := newNode(t, folder, 1, "controller", []string{"d1"})
	broker := newNode(t, folder, 2, "broker", []string{"d1"}).plaintext()
	byKafka.format(t, controller.write(t, bootstrapServers(controller)), "-r", "4.4-IV2", "--standalone")
	byKstorage.format(t, broker.write(t, bootstrapServers(controller)), "-r", "4.4-IV2")
	startServer(t, controller).wait(t, started)
	requests := filepath.Join(folder, "requests.log")
	b := startLogging(t, broker, requests)
	b.wait(t, started)

	subscribe := func(name, config string) {
		t.Helper()
		mustKafkaTool(t, configTool, append(controllerAdmin(controller), "--alter", "--entity-type", "client-metrics", "--entity-name", name, "--add-config", config)...)
	}
	subscribe("java", "metrics=[*],interval.ms=500,match=[client_software_name=apache-kafka-java,client_id=j.*]")
	subscribe("go", "metrics=[org.apache.kafka.producer.],interval.ms=500,match=[client_software_name=kgo]")

	jars, err := kafkajars.Version("pom.xml", oldClients)
	if err != nil {
		t.Fatal(err)
	}
	var clients []string
	for version, classPath := range map[string]string{oldClients: filepath.Join(jars, "*"), "4.4": lab.classPath} {
		java := func(args ...string) *exec.Cmd {
			cmd := javaCommand("warn", args...)
			cmd.Args[slices.Index(cmd.Args, "-cp")+1] = classPath
			return cmd
		}
		for _, tool := range [][]string{
			{featureTool, "--bootstrap-server", broker.brokerAddress(), "describe"},
			{quorumTool, "--bootstrap-server", broker.brokerAddress(), "describe", "--status"},
			{clusterTool, "cluster-id", "--bootstrap-server", broker.brokerAddress()},
		} {
			if out, err := java(tool...).CombinedOutput(); err != nil {
				t.Errorf("%s of %s: %v\n%s", tool[0], version, err, out)
			}
		}
		client := "j" + version
		clients = append(clients, client)
		consumer, err := startProcess(java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.brokerAddress(),
			"--topic", "none", "--partition", "0", "--offset", "0", "--consumer-property", "client.id="+client))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(consumer.kill)
		eventually(t, "three pushes of "+client, func() error {
			if got := telemetryOf(t, requests, client); strings.Count(strings.Join(got, "\n"), "PushTelemetry") < 3 {
				return fmt.Errorf("%q\n%s", got, consumer.log.tail())
			}
			return nil
		})
		consumer.signal(syscall.SIGTERM)
		consumer.waitEnd(t)
	}

	k, err := kgo.NewClient(kgo.SeedBrokers(broker.brokerAddress()), kgo.ClientID("franz"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It pushes by itself only once it has produced or fetched, so it is asked to.
	get := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	subscriptions, err := get.RequestWith(t.Context(), k)
	if err != nil || subscriptions.ErrorCode != 0 || !slices.Equal(subscriptions.RequestedMetrics, []string{"org.apache.kafka.producer."}) {
		t.Fatalf("%+v, %v", subscriptions, err)
	}
	push := kmsg.NewPtrPushTelemetryRequest()
	push.ClientInstanceID, push.SubscriptionID, push.Terminating = subscriptions.ClientInstanceID, subscriptions.SubscriptionID, true
	if pushed, err := push.RequestWith(t.Context(), k); err != nil || pushed.ErrorCode != 0 {
		t.Errorf("%+v, %v", pushed, err)
	}
	// All requests are in the log only when the broker is gone.
	stopInOrder(t, unhindered, b)
	for _, client := range clients {
		got := telemetryOf(t, requests, client)
		if slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, " ") }) || got[0] != "GetTelemetrySubscriptions" {
			t.Errorf("client %s: %q", client, got)
		}
		t.Logf("%s: %d requests", client, len(got))
	}
	// None of them has an id.
	for _, r := range readRequestLog(t, requests) {
		if r.ClientInstanceID != nil {
			t.Errorf("%+v", r)
		}
		if r.failed() == "INVALID_REQUEST" {
			t.Errorf("refused: %+v", r)
		}
	}
}

// exchange sends a request and returns the payload of its answer behind the correlation id.
func exchange(t *testing.T, address string, q kmsg.Request, id uuid.UUID) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(serverLimit))
	if _, err := c.Write(wire.AppendRequest(nil, q, wire.Self{ClientID: "interop", InstanceID: id}, 7)); err != nil {
		t.Fatal(err)
	}
	payload, err := wire.ReadFrame(bufio.NewReader(c), wire.MaxFrame, nil)
	if err != nil {
		t.Fatalf("%s v%d: %v", kmsg.NameForKey(q.Key()), q.GetVersion(), err)
	}
	return string(payload[4:])
}

// TestKafkaSkipsTheClientInstanceID asks a real Kafka all that our clients ask, with an id and without: the answers are the same.
// Then our commands, which send one, work there.
func TestKafkaSkipsTheClientInstanceID(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	n := newNode(t, folder, 1, "broker,controller", []string{"d1"})
	byKafka.format(t, n.write(t, bootstrapServers(n)), "-r", "4.4-IV2", "--standalone")
	startServer(t, n).wait(t, started)

	ask := func(address string, apis []wire.API) {
		t.Helper()
		for _, api := range apis {
			for version := api.Min; version <= api.Max; version++ {
				q := kmsg.RequestForKey(api.Key)
				q.SetVersion(version)
				if !q.IsFlexible() {
					continue
				}
				switch q := q.(type) {
				case *kmsg.ApiVersionsRequest:
					q.ClientSoftwareName, q.ClientSoftwareVersion = "interop", "1"
				case *kmsg.DescribeClusterRequest:
					if q.EndpointType = 1; address == n.controllerAddress() {
						q.EndpointType = 2
					}
				case *kmsg.BrokerHeartbeatRequest: // of a broker that is none
					q.BrokerID = 99
				}
				// Some answers change with time: a broker's ApiVersions with each record.
				var plain, tagged string
				eventually(t, "the same answer twice", func() error {
					plain, tagged = exchange(t, address, q, uuid.Nil), exchange(t, address, q, uuid.UUID{0xa})
					if again := exchange(t, address, q, uuid.Nil); plain != again {
						return fmt.Errorf("%s v%d: %x, then %x", kmsg.NameForKey(api.Key), version, plain, again)
					}
					return nil
				})
				if plain != tagged {
					t.Errorf("%s v%d: without an id\n%x\nwith one\n%x", kmsg.NameForKey(api.Key), version, plain, tagged)
				}
			}
		}
	}
	api := func(k kmsg.Key, newest int16) wire.API { return wire.API{Key: int16(k), Max: newest} }
	ask(n.controllerAddress(), append([]wire.API{api(kmsg.ApiVersions, 5), api(kmsg.DescribeCluster, 2), api(kmsg.UpdateFeatures, 2), api(kmsg.BrokerHeartbeat, 2)},
		slices.DeleteFunc(slices.Clone(wire.RaftAPIs), func(a wire.API) bool {
			// Those that change the voters, and those of a leader, which it takes for news.
			return slices.Contains([]kmsg.Key{kmsg.AddRaftVoter, kmsg.RemoveRaftVoter, kmsg.UpdateRaftVoter}, kmsg.Key(a.Key))
		})...))
	ask(n.brokerAddress(), []wire.API{api(kmsg.ApiVersions, 5), api(kmsg.DescribeCluster, 2), api(kmsg.DescribeQuorum, 2), api(kmsg.Metadata, 13)})

	ctx, cancel := context.WithTimeout(t.Context(), serverLimit)
	defer cancel()
	run := func(binary string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
			t.Errorf("%s %q: %v\n%s", binary, args, err, out)
		}
	}
	run(lab.kstorage, "quorum", "--bootstrap-controller", n.controllerAddress(), "describe", "--status")
	run(lab.kstorage, "quorum", "--bootstrap-server", n.brokerAddress(), "describe", "--replication")
	run(lab.kfeatures, "--bootstrap-controller", n.controllerAddress(), "describe")
	run(lab.kfeatures, "--bootstrap-server", n.brokerAddress(), "describe")
}
