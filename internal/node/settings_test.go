package node

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"kstorage/internal/config"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
)

// combined is the file of a node with both roles; tests append to it.
const combined = `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=c1:9093,:9094
listeners=PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093
advertised.listeners=PLAINTEXT://kafka.example.com:9092
controller.listener.names=CONTROLLER
log.dirs=/d1,/d2
`

func loadSettings(t *testing.T, text string) (settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return newSettings(c, func() string { return "host1" })
}

func mustLoadSettings(t *testing.T, text string) settings {
	t.Helper()
	s, err := loadSettings(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSettingsAreRefused(t *testing.T) {
	controller := strings.NewReplacer("broker,controller", "controller", "PLAINTEXT://:9092,", "", "advertised.listeners=PLAINTEXT://kafka.example.com:9092\n", "").Replace(combined)
	broker := strings.NewReplacer("broker,controller", "broker", ",CONTROLLER://0.0.0.0:9093", "").Replace(combined)
	sasl := "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL\n"
	tests := []struct {
		reason, text string
		want         []string // one error each
	}{
		{"nothing to refuse", combined, nil},
		{"a listener with TLS", strings.NewReplacer("PLAINTEXT:", "SSL:").Replace(combined) + "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=SSL\n",
			[]string{"listeners: listener SSL has the security protocol SSL"}},
		{"the controllers' listener with SASL", controller + sasl, []string{"listeners: listener CONTROLLER has the security protocol SASL_SSL"}},
		{"a broker whose controllers have one with SASL", broker + sasl, []string{"controller.listener.names: listener CONTROLLER has the security protocol SASL_SSL"}},
		{"a broker whose controllers have none", broker, nil},
		{"an authorizer", combined + "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n", []string{"authorizer.class.name: requests are not authorized"}},
		{"no authorizer, in so many words", combined + "authorizer.class.name=\n", nil},
		{"policies", combined + "create.topic.policy.class.name=a.B\nalter.config.policy.class.name=a.C\n",
			[]string{"alter.config.policy.class.name: ", "create.topic.policy.class.name: "}},
		{"clients with certificates", combined + "ssl.client.auth=required\n", []string{"ssl.client.auth: clients are not authenticated"}},
		{"clients without certificates", combined + "ssl.client.auth=none\n", nil},
		{"a listener in use with TLS", combined + "listener.name.plaintext.ssl.client.auth=required\n", []string{"listener.name.plaintext.ssl.client.auth: listener PLAINTEXT"}},
		{"a listener in use with SASL", combined + "listener.name.controller.plain.sasl.jaas.config=secret\n", []string{"listener.name.controller.plain.sasl.jaas.config: listener CONTROLLER"}},
		{"a listener that is not in use", combined + "listener.name.internal.sasl.enabled.mechanisms=PLAIN\n", nil},
		{"a port that is none, once", strings.Replace(controller, ":9093\nc", ":70000\nc", 1), []string{"listeners: listener CONTROLLER has the port 70000"}},
		{"an advertised port that is none", strings.Replace(combined, "com:9092", "com:-1", 1), []string{"advertised.listeners: listener PLAINTEXT has the port -1"}},
		{"all together", combined + "ssl.client.auth=requested\nauthorizer.class.name=a.B\n", []string{"authorizer.class.name: ", "ssl.client.auth: "}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			_, err := loadSettings(t, test.text)
			errs := unjoin(err)
			if len(errs) != len(test.want) {
				t.Fatalf("%d errors, %d expected: %v", len(errs), len(test.want), err)
			}
			for i, err := range errs {
				e, ok := errors.AsType[*Error](err)
				if !ok || !strings.HasPrefix(e.What, test.want[i]) || !strings.Contains(e.Where, "server.properties line ") || e.Fix == "" {
					t.Errorf("%#v, expected %q with its line and a way out", err, test.want[i])
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("a password is shown: %v", err)
				}
			}
		})
	}
}

func TestSettingsOfCombinedNode(t *testing.T) {
	s := mustLoadSettings(t, combined+`
controller.quorum.voters=1@c1:9093,2@:9094
controller.quorum.auto.join.enable=true
controller.quorum.election.timeout.ms=1
controller.quorum.election.backoff.max.ms=2
controller.quorum.fetch.timeout.ms=3
controller.quorum.request.timeout.ms=4
controller.quorum.retry.backoff.ms=5
controller.quorum.fetch.max.bytes=6
controller.quorum.fetch.snapshot.max.bytes=7
controller.quorum.append.linger.ms=8
metadata.max.retention.ms=9
metadata.max.retention.bytes=10
metadata.log.segment.bytes=8388609
metadata.log.segment.ms=12
metadata.log.max.record.bytes.between.snapshots=13
metadata.log.max.snapshot.interval.ms=14
metadata.max.idle.interval.ms=15
broker.heartbeat.interval.ms=16
broker.session.timeout.ms=32
initial.broker.registration.timeout.ms=18
max.connections=19
max.connections.per.ip=20
connections.max.idle.ms=9223372036854775807
socket.request.max.bytes=22
telemetry.max.bytes=23
min.insync.replicas=2
broker.rack=r1
unstable.feature.versions.enable=true
metadata.log.dir=/meta
`)
	ms := time.Millisecond
	rack := "r1"
	c1, local := raft.Endpoint{Listener: "CONTROLLER", Host: "c1", Port: 9093}, raft.Endpoint{Listener: "CONTROLLER", Host: "localhost", Port: 9094}
	want := settings{
		File: s.File, NodeID: 1, NodeIDFrom: "node.id (" + s.File + " line 2)", IsBroker: true, IsController: true,
		LogDirs: []string{"/d1", "/d2"}, MetadataDir: "/meta",
		Listeners:  []listen{{"PLAINTEXT", "", 9092, false}, {"CONTROLLER", "0.0.0.0", 9093, true}},
		Advertised: []raft.Endpoint{{Listener: "PLAINTEXT", Host: "kafka.example.com", Port: 9092}},
		Rack:       &rack,
		Raft: raft.Config{
			NodeID: 1, CanBeVoter: true, DefaultListener: "CONTROLLER", MaxKRaftVersion: 1,
			Listeners: []raft.Endpoint{c1}, // as the voters have it, since it binds all interfaces
			StaticVoters: []raft.Voter{
				{Key: raft.ReplicaKey{NodeID: 1}, Endpoints: []raft.Endpoint{c1}},
				{Key: raft.ReplicaKey{NodeID: 2}, Endpoints: []raft.Endpoint{local}},
			},
			BootstrapServers: []raft.Endpoint{c1, local}, AutoJoin: true,
			ElectionTimeoutMillis: 1, ElectionBackoffMaxMillis: 2, FetchTimeoutMillis: 3, RequestTimeoutMillis: 4, RetryBackoffMillis: 5,
			FetchMaxBytes: 6, SnapshotMaxBytes: 7, RetentionMillis: 9, RetentionBytes: 10,
		},
		Log:          raftlog.Config{SegmentBytes: 8388609, SegmentMillis: 12},
		AppendLinger: 8 * ms, SnapshotBytes: 13, SnapshotInterval: 14 * ms, NoOpInterval: 15 * ms,
		HeartbeatInterval: 16 * ms, SessionTimeout: 32 * ms, RegistrationTimeout: 18 * ms,
		MaxConnections: 19, MaxConnectionsPerIP: 20, MaxIdle: math.MaxInt64, MaxRequestBytes: 22, MaxTelemetryBytes: 23,
		MinInSyncReplicas: "2", UnstableFeatures: true,
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("settings are\n%+v, expected\n%+v", s, want)
	}
}

func TestSettingsOfBroker(t *testing.T) {
	s := mustLoadSettings(t, "process.roles=broker\nnode.id=4\ncontroller.quorum.voters=1@c1:9093\ncontroller.listener.names=ctl,other\nlisteners=PLAINTEXT://:0,X://h:0\n"+
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,X:PLAINTEXT,CTL:PLAINTEXT,OTHER:PLAINTEXT\nconnections.max.idle.ms=-1\n")
	r := s.Raft
	c1 := raft.Endpoint{Listener: "CTL", Host: "c1", Port: 9093}
	if r.CanBeVoter || r.Listeners != nil || r.DefaultListener != "CTL" || !reflect.DeepEqual(r.BootstrapServers, []raft.Endpoint{c1}) {
		t.Errorf("raft.Config of a broker is %+v; the voters are its bootstrap servers", r)
	}
	if s.MaxIdle != 0 || s.AppendLinger != 0 || s.IsController || !s.IsBroker || s.Rack != nil {
		t.Errorf("settings are %+v", s)
	}
	s.bound("PLAINTEXT", 4711)
	want := []raft.Endpoint{{Listener: "PLAINTEXT", Host: "host1", Port: 4711}, {Listener: "X", Host: "h"}}
	if !reflect.DeepEqual(s.Advertised, want) {
		t.Errorf("advertised is %v, expected %v: the name of the host, the port that was bound", s.Advertised, want)
	}
}

func TestSettingsWarnings(t *testing.T) {
	tests := []struct {
		reason, text string
		want         []string
	}{
		{"nothing to say", combined, nil},
		{"settings without effect, in one line", combined + "num.io.threads=3\nzoo.keeper=1\nauto.create.topics.enable=false\nsasl.enabled.mechanisms=PLAIN\nssl.client.auth=none\n",
			[]string{"has settings without effect here: auto.create.topics.enable, num.io.threads, sasl.enabled.mechanisms, zoo.keeper"}},
		{"a key that goes on without a backslash", combined + "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvQgeheim\nabcgeheim==\n",
			[]string{"has settings without effect here: ssl.keystore.key, what "}},
		{"a provider of values has its effect", combined + "config.providers=env\nconfig.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n", nil},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			got := mustLoadSettings(t, test.text).Warnings
			if len(got) != len(test.want) {
				t.Fatalf("warnings are %q, expected %q", got, test.want)
			}
			for i := range got {
				if !strings.Contains(got[i], test.want[i]) || strings.Contains(got[i], "geheim") {
					t.Errorf("warning %q lacks %q, or shows a secret", got[i], test.want[i])
				}
			}
		})
	}
}

// A key that Kafka does not define would make config panic.
func TestSettingsAreThoseOfKafka(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(combined), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range honoured {
		c.Null(key)
	}
	for _, s := range refused {
		c.String(s.key)
	}
}
