package raft

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
)

// NodeID is the id of a node; -1 is none.
type NodeID int32

// None is the node id that names no node.
const None NodeID = -1

// Epoch is a leader epoch.
type Epoch int32

// Offset is a position in the log. End offsets are exclusive.
type Offset int64

// Unknown is the offset of what is not known, such as a high watermark before the first commit.
const Unknown Offset = -1

// Millis is a time on the driver's monotonic clock, in milliseconds.
type Millis int64

// ReplicaKey names a replica: a node and the directory of its metadata log (KIP-853). A key with the zero
// directory id is that of a node whose directory is not known, or does not count.
type ReplicaKey struct {
	NodeID      NodeID
	DirectoryID uuid.UUID
}

func (k ReplicaKey) String() string {
	if k.DirectoryID == uuid.Nil {
		return fmt.Sprint(k.NodeID)
	}
	return fmt.Sprintf("%d:%s", k.NodeID, kafkaid.String(k.DirectoryID))
}

// SnapshotID names a snapshot: the state of the log up to EndOffset, exclusive; Epoch is that of the record
// before it.
type SnapshotID struct {
	EndOffset Offset
	Epoch     Epoch
}

// Compare orders snapshots as their files are: by end offset, then by epoch.
func (id SnapshotID) Compare(other SnapshotID) int {
	return cmp.Or(cmp.Compare(id.EndOffset, other.EndOffset), cmp.Compare(id.Epoch, other.Epoch))
}

// EpochStart is an entry of leader-epoch-checkpoint: the epoch began at Start.
type EpochStart struct {
	Epoch Epoch
	Start Offset
}

// Endpoint is where a listener of a node can be reached.
type Endpoint struct {
	Listener string
	Host     string
	Port     uint16
}

// Voter is a member of the quorum.
type Voter struct {
	Key             ReplicaKey
	Endpoints       []Endpoint // the default controller listener first
	MinKRaftVersion int16
	MaxKRaftVersion int16
}

// noReplica is the key that names nobody.
var noReplica = ReplicaKey{NodeID: None}

// zeroSnapshot is the id of the zero checkpoint, which the formatter writes.
var zeroSnapshot = SnapshotID{}
