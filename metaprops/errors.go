package metaprops

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
)

// ErrNotFormatted says that none of a node's log directories has a meta.properties that can be read.
var ErrNotFormatted error = notFormattedError{}

type notFormattedError struct{}

func (notFormattedError) Error() string { return "No readable meta.properties files found." }

// ValueError is a file whose properties are no meta.properties. Its text is Kafka's.
type ValueError struct {
	Key, Value string // Value is empty where the key is missing
	text       string
}

func (e *ValueError) Error() string { return e.text }

// What failed, in DirError.Op.
const (
	opStat   = "stat"   // the directory: nothing is known about it
	opOpen   = "open"   // the directory: it is none
	opSearch = "search" // the directory: nothing is known about its file
	opRead   = "read"   // the file
	opDecode = "decode" // the file
)

// DirError is a log directory that cannot be used.
type DirError struct {
	Op   string // stat, open, search, read or decode
	Path string // the directory, or its file
	Err  error  // a system error, *ValueError or *javaprops.SyntaxError
}

func (e *DirError) Error() string { return fmt.Sprintf("cannot %s %s: %v", e.Op, e.Path, e.Err) }
func (e *DirError) Unwrap() error { return e.Err }

// ClusterIDError is a file with another cluster id than expected. Its text begins with Kafka's.
type ClusterIDError struct {
	Path             string // the file
	Stored, Expected string
	From             string // who expects: an option, a variable, or another file
}

func (e *ClusterIDError) Error() string {
	return fmt.Sprintf("Invalid cluster.id in: %s. Expected %s, but read %s (on disk: %s; %s: %s)",
		e.Path, e.Expected, e.Stored, e.Stored, e.From, e.Expected)
}

// NodeIDError is a file with another node id than expected. Its text begins with Kafka's.
type NodeIDError struct {
	Path             string // the file
	Stored, Expected int32
	From             string // who expects: a configuration key with its place, or another file
}

func (e *NodeIDError) Error() string {
	return fmt.Sprintf("Stored node id %d doesn't match previous node id %d in %s. %d is on disk, %d comes from %s.",
		e.Stored, e.Expected, e.Path, e.Stored, e.Expected, e.From)
}

// DirectoryIDError is a directory id that must not be: one that Kafka has set aside, or one that
// several directories have.
type DirectoryIDError struct {
	ID       uuid.UUID
	Dirs     []string
	Reserved bool
}

func (e *DirectoryIDError) Error() string {
	dirs := strings.Join(e.Dirs, " and ")
	if e.Reserved {
		return fmt.Sprintf("Invalid reserved directory ID %s found in %s", kafkaid.String(e.ID), dirs)
	}
	return fmt.Sprintf("Duplicate directory ID %s found in %s: one of them is a copy", kafkaid.String(e.ID), dirs)
}
