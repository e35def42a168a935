//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

// engine is what runs a node: kstorage or Kafka.
type engine struct {
	name string
	formatter
	start func(t *testing.T, n *node) *server
}

var (
	ofKafka    = engine{"Kafka", byKafka, startServer}
	ofKstorage = engine{"kstorage", byKstorage, startKstorage}
)

// started is the line with which a node of either kind says that it is up.
const started = `Kafka Server started`

// startKstorage is startServer with `kstorage start`.
func startKstorage(t *testing.T, n *node) *server {
	t.Helper()
	cmd := exec.Command(lab.kstorage, "start", "--config", n.config)
	cmd.Dir = lab.scratch
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return runServer(t, n, cmd)
}

// noElections is a setting with which a node that gets no processor or disk for seconds still counts as there.
const noElections = "controller.quorum.fetch.timeout.ms=10000"

// quorumOf makes count controllers with the ids 1, 2, … and writes their server.properties.
func quorumOf(t *testing.T, folder string, count int, extra ...string) []*node {
	t.Helper()
	var nodes []*node
	for id := 1; id <= count; id++ {
		nodes = append(nodes, newNode(t, folder, id, "controller", []string{"d1"}, extra...))
	}
	for _, n := range nodes {
		n.write(t, bootstrapServers(nodes...))
	}
	return nodes
}

// plaintext leaves a broker the listener PLAINTEXT, the only one that kstorage serves.
func (n *node) plaintext() *node {
	n.properties = append(n.properties, "listeners=PLAINTEXT://"+n.brokerAddress())
	return n
}

// controllerAdmin is how a tool reaches controllers without a broker.
func controllerAdmin(controllers ...*node) []string {
	_, addresses, _ := strings.Cut(bootstrapServers(controllers...), "=")
	return []string{"--bootstrap-controller", addresses}
}

// startAll starts the nodes at once and waits until each is up.
func startAll(t *testing.T, e engine, nodes ...*node) []*server {
	t.Helper()
	var servers []*server
	for _, n := range nodes {
		servers = append(servers, e.start(t, n))
	}
	for _, s := range servers {
		s.wait(t, started)
	}
	return servers
}

// unhindered is the limit for a node of kstorage that has nothing to wait for. A broker without leave to go and a leader
// without a successor wait for 5 seconds.
const unhindered = 4500 * time.Millisecond

// stopInOrder stops a server, which must end in order and within limit.
func stopInOrder(t *testing.T, limit time.Duration, s *server) {
	t.Helper()
	begin := time.Now()
	stopServers(t, s)
	took := time.Since(begin)
	if took > limit {
		t.Errorf("node %d ended %v after SIGTERM", s.node.id, took)
	}
	t.Logf("node %d ended %v after SIGTERM", s.node.id, took.Round(time.Millisecond))
}

// replica is a node in the leader's eyes.
type replica struct {
	id          int
	directoryID uuid.UUID
	end         int64
}

// quorumState is what the leader says of its quorum.
type quorumState struct {
	leader, epoch     int
	highWatermark     int64
	voters, observers []replica
}

func (q quorumState) replica(id int) (replica, bool) {
	all := slices.Concat(q.voters, q.observers)
	i := slices.IndexFunc(all, func(r replica) bool { return r.id == id })
	if i < 0 {
		return replica{}, false
	}
	return all[i], true
}

// askQuorum asks the nodes until one says that it leads.
func askQuorum(t *testing.T, nodes ...*node) (quorumState, error) {
	var errs []error
	for _, n := range nodes {
		state, err := askLeader(t, n)
		if err == nil {
			return state, nil
		}
		errs = append(errs, fmt.Errorf("node %d: %w", n.id, err))
	}
	return quorumState{}, errors.Join(errs...)
}

func askLeader(t *testing.T, n *node) (quorumState, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	client := wire.NewClient(n.controllerAddress(), wire.Self{ClientID: "interop"}, nil)
	defer client.Close()
	q := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, topic)
	answer, err := client.Do(ctx, q)
	if err != nil {
		return quorumState{}, err
	}
	resp := answer.(*kmsg.DescribeQuorumResponse)
	if resp.ErrorCode != 0 {
		return quorumState{}, errors.New(wire.ErrorName(resp.ErrorCode))
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return quorumState{}, errors.New(wire.ErrorName(p.ErrorCode))
	}
	state := quorumState{leader: int(p.LeaderID), epoch: int(p.LeaderEpoch), highWatermark: p.HighWatermark}
	replicas := func(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) (out []replica) {
		for _, r := range list {
			out = append(out, replica{int(r.ReplicaID), r.ReplicaDirectoryID, r.LogEndOffset})
		}
		return out
	}
	state.voters, state.observers = replicas(p.CurrentVoters), replicas(p.Observers)
	return state, nil
}

// waitQuorum waits until a leader of the nodes says what is wanted.
func waitQuorum(t *testing.T, what string, nodes []*node, want func(quorumState) bool) quorumState {
	t.Helper()
	var state quorumState
	eventually(t, what, func() error {
		var err error
		if state, err = askQuorum(t, nodes...); err == nil && !want(state) {
			err = fmt.Errorf("%+v", state)
		}
		return err
	})
	return state
}

func anyLeader(quorumState) bool { return true }

// waitFollowing waits until all nodes have what was in the leader's log when this was called.
func waitFollowing(t *testing.T, controllers []*node, nodes ...*node) quorumState {
	t.Helper()
	begin := waitQuorum(t, "a leader", controllers, anyLeader)
	leader, _ := begin.replica(begin.leader)
	return waitQuorum(t, "all nodes up to date", controllers, func(q quorumState) bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool {
			r, known := q.replica(n.id)
			return !known || r.end < leader.end
		})
	})
}
