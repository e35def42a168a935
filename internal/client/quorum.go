package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// Quorum is the state of the metadata quorum, as its leader sees it.
type Quorum struct {
	ClusterID     string
	LeaderID      int32
	LeaderEpoch   int32
	HighWatermark int64
	Voters        []Replica // in the order of the answer
	Observers     []Replica
}

// Replica is a node that has the metadata log.
type Replica struct {
	NodeID       int32
	DirectoryID  uuid.UUID // uuid.Nil: not known, as with static voters
	LogEndOffset int64     // -1: not known
	// LastFetch is when it last fetched, LastCaughtUp when it had all that the leader had: milliseconds since the Unix
	// epoch by the leader's clock. -1: never, or not known.
	LastFetch, LastCaughtUp int64
	Endpoints               []Endpoint // voters only
}

// Endpoint is a controller's address under the name of a listener.
type Endpoint struct {
	Listener, Host string
	Port           uint16
}

// metadataTopic is the topic whose partition 0 is the metadata log.
const metadataTopic = "__cluster_metadata"

// DescribeQuorum asks for the state of the quorum.
func (c *Cluster) DescribeQuorum(ctx context.Context) (*Quorum, error) {
	const doing = "describe the quorum"
	var quorum *Quorum
	err := c.withNode(ctx, doing, func(ctx context.Context, n node) error {
		q := kmsg.NewPtrDescribeQuorumRequest()
		q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: 0}}}}
		answer, err := c.ask(ctx, doing, n, q, false)
		if err != nil {
			return err
		}
		r := answer.(*kmsg.DescribeQuorumResponse)
		code, message := r.ErrorCode, r.ErrorMessage
		if code == 0 {
			if len(r.Topics) != 1 || r.Topics[0].Topic != metadataTopic || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].Partition != 0 {
				return &Error{What: "cannot " + doing, Where: n.address + " answers about another partition than that of the metadata"}
			}
			code, message = r.Topics[0].Partitions[0].ErrorCode, r.Topics[0].Partitions[0].ErrorMessage
		}
		if code != 0 {
			e := refusal(doing, n.address, code, message)
			if passes(e.Code) {
				return &notReady{err: fmt.Errorf("%s", e.Where)}
			}
			return e
		}
		quorum = newQuorum(n.cluster.ClusterID, r)
		return nil
	})
	return quorum, err
}

func newQuorum(clusterID string, r *kmsg.DescribeQuorumResponse) *Quorum {
	p := r.Topics[0].Partitions[0]
	endpoints := map[int32][]Endpoint{}
	for _, n := range r.Nodes {
		for _, l := range n.Listeners {
			endpoints[n.NodeID] = append(endpoints[n.NodeID], Endpoint{l.Name, l.Host, l.Port})
		}
	}
	replicas := func(states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) []Replica {
		out := []Replica{}
		for _, s := range states {
			out = append(out, Replica{
				NodeID: s.ReplicaID, DirectoryID: s.ReplicaDirectoryID, LogEndOffset: s.LogEndOffset,
				LastFetch: s.LastFetchTimestamp, LastCaughtUp: s.LastCaughtUpTimestamp, Endpoints: endpoints[s.ReplicaID],
			})
		}
		return out
	}
	return &Quorum{
		ClusterID: clusterID, LeaderID: p.LeaderID, LeaderEpoch: p.LeaderEpoch, HighWatermark: p.HighWatermark,
		Voters: replicas(p.CurrentVoters), Observers: replicas(p.Observers),
	}
}

// Leader returns the leader. One that has removed itself is an observer until that is committed.
func (q *Quorum) Leader() (Replica, bool) {
	all := slices.Concat(q.Voters, q.Observers)
	i := slices.IndexFunc(all, func(r Replica) bool { return r.NodeID == q.LeaderID })
	if i < 0 {
		return Replica{}, false
	}
	return all[i], true
}

// MaxFollowerLag returns how many records, and how much time, the last of the voters is behind the leader. -1: not known.
func (q *Quorum) MaxFollowerLag() (records, millis int64) {
	leader, ok := q.Leader()
	if !ok || len(q.Voters) == 0 {
		return -1, -1
	}
	last := slices.MinFunc(q.Voters, func(a, b Replica) int { return int(min(max(a.LogEndOffset-b.LogEndOffset, -1), 1)) })
	records = leader.LogEndOffset - last.LogEndOffset
	switch {
	case last.NodeID == leader.NodeID:
		return records, 0
	case leader.LastCaughtUp < 0 || last.LastCaughtUp < 0:
		return records, -1
	}
	return records, leader.LastCaughtUp - last.LastCaughtUp
}

// Row is a replica beside the leader.
type Row struct {
	Replica
	Lag    int64  // in records
	Status string // Leader, Follower or Observer
}

// Rows returns the leader, then the other voters, then the observers.
func (q *Quorum) Rows() []Row {
	var rows []Row
	leader, known := q.Leader()
	add := func(r Replica, status string) {
		rows = append(rows, Row{Replica: r, Lag: leader.LogEndOffset - r.LogEndOffset, Status: status})
	}
	if known {
		add(leader, "Leader")
	}
	for _, group := range []struct {
		replicas []Replica
		status   string
	}{{q.Voters, "Follower"}, {q.Observers, "Observer"}} {
		for _, r := range group.replicas {
			if !known || r.NodeID != leader.NodeID || r.DirectoryID != leader.DirectoryID {
				add(r, group.status)
			}
		}
	}
	return rows
}

// AddController makes a controller that follows the quorum a voter of it (KIP-853).
func (c *Cluster) AddController(ctx context.Context, v Controller) error {
	doing := fmt.Sprintf("add controller %d", v.NodeID)
	err := c.change(ctx, doing, func() kmsg.Request {
		q := kmsg.NewPtrAddRaftVoterRequest()
		if v.ClusterID != "" { // Unlike Kafka's tool: a directory of another cluster is refused
			q.ClusterID = &v.ClusterID
		}
		q.TimeoutMillis = int32(c.options.Settings.RequestTimeout.Milliseconds())
		q.VoterID, q.VoterDirectoryID = v.NodeID, v.DirectoryID
		for _, e := range v.Endpoints {
			q.Listeners = append(q.Listeners, kmsg.AddRaftVoterRequestListener{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		q.AckWhenCommitted = true
		return q
	})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == raft.InvalidRequest && v.ClusterID == "" {
		e.Fix = "the controller does not know the id of its cluster yet, and is no voter before it does: its log says for what it waits"
	}
	return err
}

// RemoveController makes a voter an observer (KIP-853).
func (c *Cluster) RemoveController(ctx context.Context, id int32, directoryID uuid.UUID) error {
	return c.change(ctx, fmt.Sprintf("remove controller %d", id), func() kmsg.Request {
		q := kmsg.NewPtrRemoveRaftVoterRequest()
		q.VoterID, q.VoterDirectoryID = id, directoryID
		return q
	})
}

// UnregisterController makes the cluster forget a controller that is no voter.
func (c *Cluster) UnregisterController(ctx context.Context, id int32) error {
	return c.change(ctx, fmt.Sprintf("unregister controller %d", id), func() kmsg.Request {
		q := kmsg.NewPtrUnregisterControllerRequest()
		q.ControllerID = id
		return q
	})
}

// change makes a change, once.
func (c *Cluster) change(ctx context.Context, doing string, request func() kmsg.Request) error {
	return c.withNode(ctx, doing, func(ctx context.Context, n node) error {
		answer, err := c.ask(ctx, doing, n, request(), true)
		if err != nil {
			return err
		}
		var code int16
		var message *string
		switch r := answer.(type) {
		case *kmsg.AddRaftVoterResponse:
			code, message = r.ErrorCode, r.ErrorMessage
		case *kmsg.RemoveRaftVoterResponse:
			code, message = r.ErrorCode, r.ErrorMessage
		case *kmsg.UnregisterControllerResponse:
			code, message = r.ErrorCode, r.ErrorMessage
		}
		if code == 0 {
			return nil
		}
		e := refusal(doing, n.address, code, message)
		if moved(e.Code) {
			return &notReady{err: fmt.Errorf("%s", e.Where)}
		}
		if e.Fix == "" {
			e.Fix = fixes[e.Code]
		}
		return e
	})
}

// fixes has what to do about the refusal of a change.
var fixes = map[raft.Code]string{
	raft.RequestTimedOut:       "is the controller running, and does it follow the leader (describe --replication)? Then run the command again",
	raft.UnsupportedVersion:    "the voters of this quorum are those of controller.quorum.voters; kraft.version 1 makes them changeable (kafka-features upgrade --feature kraft.version=1)",
	raft.InconsistentClusterID: "the directory of the controller belongs to another cluster than the addresses",
	raft.DuplicateVoter:        "describe --status shows the voters; a voter whose disk was replaced is removed first, with its old directory id",
	raft.VoterNotFound:         "describe --status shows the voters and their directory ids; the last voter cannot be removed",
}
