// Package format makes log directories of a node, as kafka-storage format does and as KIP-1262 and
// KIP-1170 extend it. Formatting has two steps: New looks at the directories and decides, and
// writes nothing; Plan.Apply carries the plan out.
//
// What a formatted node has on disk (L a log directory, M the one for the metadata log):
//
//	L/meta.properties    each; version 1 with a cluster id, version 2 without one (KIP-1262)
//	M/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint
//	                     controllers only; the voters of a dynamic quorum (KIP-853), then the
//	                     bootstrap metadata: levels of features, ClusterIdRecord, users (KIP-1170)
//
// # The cluster id
//
// A cluster id is what the node's other directories say, or what is given; both must agree. Where
// neither is known the files get none, which the level of metadata.version must support. The
// ClusterIdRecord in the zero checkpoint is a proposal: it counts only if this node, as the leader
// of an empty log, writes the bootstrap records; nobody else learns an id from it.
//
// # Crashes
//
// Apply writes in this order, and each step is durable before the next: the directories, the zero
// checkpoint, all meta.properties under a temporary name; then the old bootstrap.checkpoint files go, and the
// meta.properties get their names, that of the metadata directory first. So whenever it
// stops, a directory without meta.properties is one that the next run formats, and a node's
// metadata directory is never the one that is missing. Nothing that was formatted before is touched.
package format

import (
	"io"
	"time"

	"kstorage/checkpoint"
	"kstorage/features"
)

// zeroCheckpoint is the file that format writes into the folder of the metadata log.
var zeroCheckpoint = checkpoint.ID{}.String()

const lockFile = ".lock"

// Options say what to format. Names in brackets are the keys of server.properties and the options
// of the command they come from.
type Options struct {
	NodeID         int32    // [node.id]
	NodeIDFrom     string   // who says so, for errors
	Controller     bool     // [process.roles] has the controller
	LogDirs        []string // [log.dirs]
	MetadataLogDir string   // [metadata.log.dir], or the first of LogDirs
	StaticVoters   bool     // [controller.quorum.voters] is set

	// ControllerListener is the endpoint that a controller advertises under the first of
	// [controller.listener.names]; nodes without that role need only the name. A host that is
	// empty or a wildcard stands for the local host's name.
	ControllerListener checkpoint.Endpoint

	ClusterID       *string // [--cluster-id], nil: not given
	ClusterIDFrom   string  // who says so, for errors
	IgnoreFormatted bool    // [--ignore-formatted]

	// At most one of these says which voters a dynamic quorum begins with.
	Standalone           bool    // [--standalone]: this node alone
	NoInitialControllers bool    // [--no-initial-controllers]: it joins a quorum that exists
	InitialControllers   *string // [--initial-controllers]: id@host:port:directory-id, ...

	Release  features.MetadataVersion // [--release-version], 0: not given
	Features []features.Level         // [--feature]
	Unstable bool                     // [unstable.feature.versions.enable]
	Scram    []ScramArgument          // [--add-scram]

	Random        io.Reader        // nil: crypto/rand
	Now           func() time.Time // nil: time.Now
	LocalHostName func() string    // nil: os.Hostname
}

// ScramArgument is an argument of --add-scram. It has a password, so it does not print itself.
type ScramArgument string

// String hides the argument.
func (ScramArgument) String() string { return "SCRAM credential (hidden)" }

// GoString hides the argument.
func (ScramArgument) GoString() string { return "SCRAM credential (hidden)" }

// Kind says what a directory is to its node; the words are those of Kafka's tool.
type Kind string

// The kinds of directories.
const (
	DataDirectory                 Kind = "data directory"
	MetadataDirectory             Kind = "metadata directory"
	DynamicMetadataDirectory      Kind = "dynamic metadata directory"
	DynamicMetadataVoterDirectory Kind = "dynamic metadata voter directory"
)
