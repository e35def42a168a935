//go:build interop

package interop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const clusterID = "Wq9rPWnzQ4uv0sRyMKXc1w"

// host is an address of this process alone. Linux has all of 127/8 on its loopback device.
var host = fmt.Sprintf("127.%d.%d.%d", 64|os.Getpid()>>16&0x3f, os.Getpid()>>8&0xff, os.Getpid()&0xff)

// node is one server.properties and what is in it. Its log directories are below the folder of that file.
type node struct {
	id         int
	controller bool
	broker     bool
	dirs       []string // log.dirs
	metadata   string   // the one of them with the metadata log
	config     string   // the path of server.properties
	properties []string

	controllerPort, brokerPort, saslPort int
}

// newNode makes a node in a new folder. roles is process.roles. The listeners of a broker are PLAINTEXT and SASL,
// where a client logs in with SCRAM. extra are lines for server.properties.
func newNode(t *testing.T, folder string, id int, roles string, dirs []string, extra ...string) *node {
	t.Helper()
	n := &node{id: id, controller: strings.Contains(roles, "controller"), broker: strings.Contains(roles, "broker")}
	n.config = filepath.Join(folder, fmt.Sprintf("node%d", id), "server.properties")
	for _, d := range dirs {
		n.dirs = append(n.dirs, filepath.Join(filepath.Dir(n.config), d))
	}
	n.metadata = n.dirs[0]
	ports := freePorts(t, 3)
	n.controllerPort, n.brokerPort, n.saslPort = ports[0], ports[1], ports[2]
	var listeners []string
	if n.broker {
		listeners = append(listeners, "PLAINTEXT://"+n.brokerAddress(), "SASL://"+n.saslAddress())
	}
	if n.controller {
		listeners = append(listeners, "CONTROLLER://"+n.controllerAddress())
	}
	n.properties = append([]string{
		"process.roles=" + roles,
		fmt.Sprintf("node.id=%d", id),
		"listeners=" + strings.Join(listeners, ","),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + strings.Join(n.dirs, ","),
		"listener.name.sasl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.num.partitions=1",
		"group.initial.rebalance.delay.ms=0",
	}, extra...)
	return n
}

func (n *node) controllerAddress() string { return fmt.Sprintf("%s:%d", host, n.controllerPort) }
func (n *node) brokerAddress() string     { return fmt.Sprintf("%s:%d", host, n.brokerPort) }
func (n *node) saslAddress() string       { return fmt.Sprintf("%s:%d", host, n.saslPort) }
func (n *node) folder() string            { return filepath.Dir(n.config) }
func (n *node) metadataDir() string       { return filepath.Join(n.metadata, "__cluster_metadata-0") }

// putMetadataLast makes the last log directory the metadata directory; without it the first one is.
func (n *node) putMetadataLast() *node {
	n.metadata = n.dirs[len(n.dirs)-1]
	n.properties = append(n.properties, "metadata.log.dir="+n.metadata)
	return n
}

// write writes server.properties with two ways to name the quorum: voters that are in the configuration, or
// controllers to ask.
func (n *node) write(t *testing.T, quorum string) *node {
	t.Helper()
	if err := os.MkdirAll(n.folder(), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, n.config, strings.Join(append(n.properties, quorum), "\n")+"\n")
	return n
}

func staticVoters(controllers ...*node) string {
	var voters []string
	for _, c := range controllers {
		voters = append(voters, fmt.Sprintf("%d@%s", c.id, c.controllerAddress()))
	}
	return "controller.quorum.voters=" + strings.Join(voters, ",")
}

func bootstrapServers(controllers ...*node) string {
	var servers []string
	for _, c := range controllers {
		servers = append(servers, c.controllerAddress())
	}
	return "controller.quorum.bootstrap.servers=" + strings.Join(servers, ",")
}

// directoryIDs are those of the initial controllers 1, 2 and 3.
var directoryIDs = []string{"JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA"}

func initialControllers(controllers ...*node) string {
	var voters []string
	for i, c := range controllers {
		voters = append(voters, fmt.Sprintf("%d@%s:%s", c.id, c.controllerAddress(), directoryIDs[i]))
	}
	return strings.Join(voters, ",")
}

// lastPort is the newest port of freePorts.
var lastPort atomic.Int32

// freePorts returns ports of host that nobody was given before. They are below those from which Linux takes the ports of
// outgoing connections, so a server that starts again finds its own still free.
func freePorts(t *testing.T, count int) []int {
	t.Helper()
	var ports []int
	for len(ports) < count {
		port := 10000 + int(lastPort.Add(1))
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			continue // somebody listens on all addresses
		}
		l.Close()
		ports = append(ports, port)
	}
	return ports
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// formatter is kstorage or kafka-storage.
type formatter struct {
	name string
	// run is `NAME COMMAND -c server.properties args…`
	run func(t *testing.T, n *node, command string, args ...string) result
}

var (
	byKstorage = formatter{"kstorage", func(t *testing.T, n *node, command string, args ...string) result {
		t.Helper()
		return kstorage(t, n.folder(), nil, append([]string{command, "-c", n.config}, args...)...)
	}}
	byKafka = formatter{"kafka-storage", func(t *testing.T, n *node, command string, args ...string) result {
		t.Helper()
		return kafkaTool(t, storageTool, append([]string{command, "-c", n.config}, args...)...)
	}}
)

// format formats n and fails the test if that fails.
func (f formatter) format(t *testing.T, n *node, args ...string) {
	t.Helper()
	if r := f.run(t, n, "format", append([]string{"-t", clusterID}, args...)...); r.exit != 0 {
		t.Fatal(r)
	}
}
