package status

import (
	"time"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/telemetry"
)

// State is what a node tells of itself. A part that is nil is not there yet, or not at all.
type State struct {
	Now           time.Time
	Started       time.Time
	Version       string // of this program
	NodeID        raft.NodeID
	Roles         string // as process.roles
	ClusterID     string // "" as long as the node does not know it
	ClusterIDFrom string // how it came to know it
	Waits         string // what for; "": for nothing, the node is ready
	Fault         string // why the node does not answer as it should; "": it does

	Quorum     *Quorum
	Metadata   *Metadata
	Controller *Controller // of a node with the role
	Broker     *Broker     // likewise
	Pushes     []telemetry.Push
	Events     []Event // the newest last
	Process    Process
}

// Quorum is the consensus layer as this node sees it.
type Quorum struct {
	raft.Status
	LeaderAddress string
	Replicas      []Replica // voters first; nil: this node does not lead
	Rates         Rates
}

// Observers is how many the leader knows.
func (q *Quorum) Observers() (n int) {
	for _, r := range q.Replicas {
		if !r.Voter {
			n++
		}
	}
	return n
}

// Vote is the node that this one has voted for in the epoch, raft.None for none. A leader has voted for itself.
func (q *Quorum) Vote() raft.NodeID {
	if q.Role == raft.Leader {
		return q.LeaderID
	}
	return q.Voted.NodeID
}

// State is Kafka's name of what the node is in the quorum.
func (q *Quorum) State() string {
	switch q.Role {
	case raft.Leader:
		return "leader"
	case raft.Candidate:
		return "candidate"
	case raft.Prospective:
		return "prospective"
	case raft.Follower:
		if q.IsVoter {
			return "follower"
		}
		return "observer"
	}
	return "unattached" // one that has resigned, too
}

// Replica is a copy of the metadata log, as the leader knows it.
type Replica struct {
	Key          raft.ReplicaKey
	Voter        bool
	LogEnd       raft.Offset // raft.Unknown: it has not fetched yet
	LastFetch    time.Time   // zero: never
	LastCaughtUp time.Time   // likewise
}

// Metadata is what the node has loaded of the cluster's metadata.
type Metadata struct {
	Offset      raft.Offset // of the last record; raft.Unknown: none
	Epoch       raft.Epoch
	Timestamp   int64 // of its batch, in milliseconds since the Unix epoch
	Version     features.MetadataVersion
	Levels      []features.Level // those that are finalized, kraft.version too
	Brokers     []*metadata.Broker
	Controllers []*metadata.Controller
	Topics      int
	Partitions  int
	Loads       int // of snapshots
	Snapshot    Snapshot
}

// Snapshot is the last one that this node has written since it was started; zero: none.
type Snapshot struct {
	SizeBytes int64
	Written   time.Time
}

// Controller is the role of a controller.
type Controller struct {
	Active bool
	Claims int // how often a node has become the active controller, as far as this one has seen it
}

// Broker is the role of a broker.
type Broker struct {
	State     string
	StateCode int // Kafka's number of it
}
