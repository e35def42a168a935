// Package checkpoint reads and writes snapshot files of the KRaft metadata log (KIP-630): the snapshots
// of a running node, the zero checkpoint with which a formatted controller begins (KIP-853, KIP-1170),
// and bootstrap.checkpoint of releases before 4.4. All have one format:
//
//	control batch   SnapshotHeader, then KRaftVersion if kraft.version is known, KRaftVoters if the voters are
//	data batches    metadata records, any number of batches
//	control batch   SnapshotFooter
//
// Offsets count from 0 through the file and mean nothing else; the leader epoch of each batch is that of
// the snapshot. A snapshot's file is named by its end offset and epoch, as in
// 00000000000000000175-0000000002.checkpoint, and lies in the directory __cluster_metadata-0.
//
// Reader and Writer stream and keep one batch in memory. What records mean is not known here; FeatureLevel,
// ScramCredential and ClusterID make those that a formatter needs. Files are not touched: mode 0400, syncing
// and renaming are the caller's.
package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Names of files and of the directory of the metadata log.
const (
	// MetadataDir is the directory in metadata.log.dir that holds the log and its snapshots.
	MetadataDir = "__cluster_metadata-0"
	// BootstrapName is the file in which releases before 4.4 left the first metadata records, in each log directory.
	BootstrapName = "bootstrap.checkpoint"
	// Suffix ends the name of a snapshot.
	Suffix = ".checkpoint"
)

// Digits of the two numbers in a file's name.
const (
	offsetDigits = 20
	epochDigits  = 10
)

// ID names a snapshot: it holds the state of the log up to EndOffset, exclusive, and Epoch is that of the
// record before EndOffset. The zero value names the zero checkpoint.
type ID struct {
	EndOffset int64
	Epoch     int32
}

// String returns the name of the snapshot's file, as 00000000000000000000-0000000000.checkpoint.
func (id ID) String() string {
	return fmt.Sprintf("%0*d-%0*d%s", offsetDigits, id.EndOffset, epochDigits, id.Epoch, Suffix)
}

// ParseName returns the ID for which String gives name. ok tells whether there is one.
func ParseName(name string) (id ID, ok bool) {
	offset, epoch, found := strings.Cut(strings.TrimSuffix(name, Suffix), "-")
	if !found {
		return ID{}, false
	}
	n, err1 := strconv.ParseInt(offset, 10, 64)
	e, err2 := strconv.ParseInt(epoch, 10, 32)
	id = ID{EndOffset: n, Epoch: int32(e)}
	if err1 != nil || err2 != nil || id.String() != name {
		return ID{}, false
	}
	return id, true
}

// Header is what the first batch of a snapshot says.
type Header struct {
	LeaderEpoch          int32   // of all batches: the epoch of the snapshot's ID, 0 in the zero checkpoint
	AppendTime           int64   // when the batch was written, in milliseconds since the Unix epoch
	LastContainedLogTime int64   // time of the last record that the snapshot covers; of formatting, in the zero checkpoint
	KRaftVersion         int16   // 0: no record, as in clusters with static voters
	Voters               []Voter // nil: no record
}

// Voter is a member of the quorum. KIP-853.
type Voter struct {
	NodeID          int32
	DirectoryID     uuid.UUID
	Endpoints       []Endpoint // of the controller listeners, the default one first
	MinKRaftVersion int16
	MaxKRaftVersion int16
}

// Endpoint is where a listener of a voter can be reached.
type Endpoint struct {
	Name string // of the listener
	Host string
	Port uint16
}

// CorruptError says that a file is no whole snapshot, and where.
type CorruptError struct {
	File   string // as given to NewReader
	Offset int64  // of the byte in the file
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: byte %d: %s", e.File, e.Offset, e.Reason)
}
