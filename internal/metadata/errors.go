package metadata

import (
	"fmt"

	"kstorage/internal/raft"
)

// ReplayError says which record, or batch, can't be replayed.
type ReplayError struct {
	File   string // of the snapshot, "" for the log
	Offset raft.Offset
	Epoch  raft.Epoch
	Record string // Kafka's name of the record, "" if it is the batch, or a record that can't be decoded
	Err    error
}

func (e *ReplayError) Error() string {
	place := fmt.Sprintf("metadata at offset %d, epoch %d", e.Offset, e.Epoch)
	if e.File != "" {
		place = fmt.Sprintf("%s: record %d", e.File, e.Offset)
	}
	if e.Record != "" {
		place += ", " + e.Record
	}
	return place + ": " + e.Err.Error()
}

func (e *ReplayError) Unwrap() error { return e.Err }

// InvariantError says that a published image is one that must not be. KIP-1262.
type InvariantError struct {
	Offset raft.Offset
	Epoch  raft.Epoch
	Reason string
}

func (e *InvariantError) Error() string {
	return fmt.Sprintf("metadata image at offset %d, epoch %d: %s", e.Offset, e.Epoch, e.Reason)
}

// ClusterIDError says that the cluster has another id than this node.
type ClusterIDError struct {
	Stored    string // in meta.properties
	Committed string // in the metadata
	Offset    raft.Offset
}

func (e *ClusterIDError) Error() string {
	return fmt.Sprintf("cluster id %q stands in meta.properties, %q in the metadata of the cluster as of offset %d",
		e.Stored, e.Committed, e.Offset)
}
