package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// strangers finds out that a node is in the wrong place: every server that it asks belongs to another cluster.
type strangers struct {
	servers []raft.Endpoint // those that it asks for the leader, itself aside
	refused map[raft.NodeID]bool
}

// newStrangers leaves the node's own endpoints out.
func newStrangers(cfg raft.Config) *strangers {
	s := &strangers{refused: map[raft.NodeID]bool{}}
	for _, e := range cfg.BootstrapServers {
		if !slices.ContainsFunc(cfg.Listeners, func(own raft.Endpoint) bool { return own.Host == e.Host && own.Port == e.Port }) {
			s.servers = append(s.servers, e)
		}
	}
	return s
}

// noticed takes a notice of the core and tells whether by now all servers, and the leader if one is known, have refused this
// node for its cluster id. A leader may be one that an earlier process has left in quorum-state. Voters do not count
// for servers, though they are the same nodes: one of them that refuses twice is not two.
func (s *strangers) noticed(n raft.Notice, leader raft.NodeID) bool {
	if n.Code != raft.InconsistentClusterID || n.From == raft.None {
		return false
	}
	s.refused[n.From] = true
	servers := 0
	for from := range s.refused {
		if from < raft.None {
			servers++
		}
	}
	return servers >= max(len(s.servers), 1) && (leader == raft.None || s.refused[leader])
}

// reset forgets: there is another leader, or one that takes this node.
func (s *strangers) reset() { clear(s.refused) }

// otherCluster says to which cluster the servers belong, as far as they tell.
func (s *strangers) otherCluster(self wire.Self) (clusterID, address string) {
	for _, e := range s.servers {
		address = addressOf(e)
		client := wire.NewClient(address, self, nil)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		q := kmsg.NewPtrDescribeClusterRequest()
		q.EndpointType = controllerEndpoints
		resp, err := client.Do(ctx, q)
		cancel()
		client.Close()
		if err != nil {
			continue
		}
		if r := resp.(*kmsg.DescribeClusterResponse); r.ErrorCode == 0 {
			return r.ClusterID, address
		}
	}
	return "", address
}

// wrongCluster is the reason to stop.
func (c *cluster) wrongCluster() error {
	theirs, address := c.strangers.otherCluster(c.self)
	other := "another cluster id"
	if theirs != "" {
		other = "the cluster id " + theirs
	}
	return &Error{
		What: fmt.Sprintf("this node has the cluster id %s, but each server of the quorum that answers has %s, for example %s",
			c.clusterID, other, address),
		Where: c.propertiesFile,
		Fix: "point controller.quorum.bootstrap.servers or controller.quorum.voters at the node's own cluster; if the node is to be " +
			"one of the other cluster, it needs empty log directories",
	}
}
