//go:build bench && linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/kafkaid"
	"kstorage/internal/wire"
)

const (
	clusterID = "Wq9rPWnzQ4uv0sRyMKXc1w"

	// limit is how long a node may take for anything. Only a run that fails waits so long.
	limit = 5 * time.Minute
	// pause is between two questions.
	pause = 500 * time.Microsecond
)

// node is a controller, or a node of another system.
type node struct {
	id      int32
	address string
	folder  string
	command func(config string) *exec.Cmd
	active  func(context.Context) error // no error: there is a leader, which has written to its log
	commit  func(context.Context) error // writes a record; without an error it is committed
	client  *wire.Client                // nil: it does not speak Kafka's protocol
	running *exec.Cmd                   // nil: none

	takesOrders bool // of a load, on the standard input of its process
	orders      *json.Encoder
	results     *json.Decoder
}

// startCluster makes a quorum and starts its nodes. removeAll ends them.
func (l *lab) startCluster(s system, count int) ([]*node, error) {
	nodes, err := l.newCluster(s, count)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if err := n.start(); err != nil {
			removeAll(nodes)
			return nil, err
		}
	}
	return nodes, nil
}

// newCluster makes a quorum of count nodes in a new folder. Controllers are formatted as its voters.
func (l *lab) newCluster(s system, count int) ([]*node, error) {
	switch s {
	case etcd, etcdRaft, hashicorp:
		return l.newRivals(s, count)
	}
	l.clusters++
	addresses, err := freeAddresses(count)
	if err != nil {
		return nil, err
	}
	var nodes []*node
	var servers, voters []string
	for i, address := range addresses {
		n := &node{id: int32(i + 1), address: address}
		n.folder = filepath.Join(l.scratch, fmt.Sprint(l.clusters), fmt.Sprint(n.id))
		n.client = wire.NewClient(n.address, wire.Self{ClientID: "bench"}, nil)
		n.active, n.commit, n.command = n.tellsVersion, n.registerBroker, l.commands[s]
		if s == oursInside {
			n.takesOrders, n.commit = true, n.commitOne
		}
		nodes = append(nodes, n)
		servers = append(servers, n.address)
		voters = append(voters, fmt.Sprintf("%d@%s:%s", n.id, n.address, kafkaid.String(uuid.New())))
	}
	for _, n := range nodes {
		properties := []string{
			"process.roles=controller",
			fmt.Sprintf("node.id=%d", n.id),
			"listeners=CONTROLLER://" + n.address,
			"controller.listener.names=CONTROLLER",
			"listener.security.protocol.map=CONTROLLER:PLAINTEXT",
			"controller.quorum.bootstrap.servers=" + strings.Join(servers, ","),
			"log.dirs=" + filepath.Join(n.folder, "data"),
			"",
		}
		if s == kafkaNow {
			properties = append(properties, "controller.quorum.append.linger.ms=0", "")
		}
		if err := os.MkdirAll(n.folder, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(n.config(), []byte(strings.Join(properties, "\n")), 0o644); err != nil {
			return nil, err
		}
		format := exec.Command(l.kstorage, "format", "--config", n.config(), "--cluster-id", clusterID, "--initial-controllers", strings.Join(voters, ","))
		if out, err := format.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format: %w\n%s", err, out)
		}
	}
	return nodes, nil
}

func (n *node) config() string { return filepath.Join(n.folder, "server.properties") }
func (n *node) log() string    { return filepath.Join(n.folder, "log") }

// configure adds a line to the configuration of the node.
func (n *node) configure(line string) error {
	f, err := os.OpenFile(n.config(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, line)
	return err
}

// start spawns the process of the node.
func (n *node) start() error {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := n.command(n.config())
	cmd.Stderr = log
	if !n.takesOrders {
		cmd.Stdout = log
	} else if err := n.connectOrders(cmd); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it doesn't outlive this process
	if err := cmd.Start(); err != nil {
		return err
	}
	n.running = cmd
	return nil
}

// kill is kill -9. It does not wait.
func (n *node) kill() { n.running.Process.Kill() }

// gone waits for the end of a process that was killed.
func (n *node) gone() {
	n.running.Wait()
	n.running = nil
}

// removeAll kills all nodes and removes their folder.
func removeAll(nodes []*node) {
	for _, n := range nodes {
		if n.running != nil {
			n.kill()
			n.gone()
		}
		if n.client != nil {
			n.client.Close()
		}
	}
	os.RemoveAll(filepath.Dir(nodes[0].folder))
}

// until asks until done has no error.
func (n *node) until(done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			log, _ := os.ReadFile(n.log())
			lines := bytes.Split(log, []byte("\n"))
			return fmt.Errorf("node %d: not within %s: %w; the end of its log:\n%s", n.id, limit, err, bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
		}
		time.Sleep(pause)
	}
}

var errNotYet = errors.New("not yet")

func (n *node) untilActive() error { return n.until(n.active) }

// tellsVersion asks for the metadata.version of the cluster, which an active controller has committed.
func (n *node) tellsVersion(ctx context.Context) error {
	levels, err := n.levels(ctx)
	if err != nil {
		return err
	}
	if _, ok := levels[features.MetadataVersionName]; !ok {
		return errNotYet
	}
	return nil
}

// levels asks for the finalized features.
func (n *node) levels(ctx context.Context) (map[string]int16, error) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "bench", "1"
	r, err := n.client.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	levels := make(map[string]int16)
	for _, f := range r.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	return levels, nil
}

// quorum asks the node for the state of the quorum. It is an error if the node does not lead it.
func (n *node) quorum(ctx context.Context) (*kmsg.DescribeQuorumResponseTopicPartition, error) {
	q := kmsg.NewPtrDescribeQuorumRequest()
	topic, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic, topic.Partitions = "__cluster_metadata", append(topic.Partitions, partition)
	q.Topics = append(q.Topics, topic)
	r, err := n.client.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	topics := r.(*kmsg.DescribeQuorumResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 || topics[0].Partitions[0].ErrorCode != 0 {
		return nil, errNotYet
	}
	return &topics[0].Partitions[0], nil
}

// registerBroker writes a record through the node, which is an error if it is not the active controller.
func (n *node) registerBroker(ctx context.Context) error {
	_, err := register(ctx, n.client, 100)
	return err
}

// register has a broker registered, of an id from 100 on, by the active controller. It returns the offset of the record.
func register(ctx context.Context, client *wire.Client, broker int32) (offset int64, err error) {
	q := kmsg.NewPtrBrokerRegistrationRequest()
	q.BrokerID, q.ClusterID, q.PreviousBrokerEpoch = broker, clusterID, -1
	q.IncarnationID, q.LogDirs = uuid.UUID{15: 200}, [][16]byte{{14: byte(broker >> 8), 15: byte(broker)}}
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Name, listener.Host, listener.Port = "PLAINTEXT", "127.0.0.1", 9092
	q.Listeners = append(q.Listeners, listener)
	supports := func(name string, least, most int16) {
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = name, least, most
		q.Features = append(q.Features, f)
	}
	supports(features.MetadataVersionName, int16(features.Minimum), int16(features.LatestProduction))
	for _, f := range features.All() {
		supports(f.Name(), 0, f.LatestLevel())
	}
	r, err := client.Do(ctx, q)
	if err != nil {
		return 0, err
	}
	answer := r.(*kmsg.BrokerRegistrationResponse)
	if answer.ErrorCode != 0 {
		return 0, fmt.Errorf("BrokerRegistration: %s", wire.ErrorName(answer.ErrorCode))
	}
	return answer.BrokerEpoch, nil
}
