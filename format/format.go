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
// Servers before Kafka 4.4 find the bootstrap metadata elsewhere. For them (Options.Server) the files are those that
// the tool of their release writes, and a cluster id is required:
//
//	L/meta.properties       each; version 1
//	L/bootstrap.checkpoint  each, on brokers too; the bootstrap metadata
//	M/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint
//	                        the voters and nothing else; only where they are given
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
// Apply writes in this order, and each step is durable before the next: the directories, the zero checkpoint,
// all meta.properties under a temporary name; then, directory by directory and that of the metadata first, an old
// bootstrap.checkpoint goes or the new one gets its name, then meta.properties. So wherever it stops, a directory without
// meta.properties is one that the next run formats, and the metadata directory is never the one that is
// missing. What an earlier run may have left in memory only, the next one makes durable first. Nothing that was
// formatted before is touched, also not by another process that formats at the same time.
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
	Server   *features.Release        // [--kafka-version]: that of the server that will run here; nil: 4.4 or newer
	Scram    []ScramArgument          // [--add-scram]

	Random        io.Reader        // nil: crypto/rand
	Now           func() time.Time // nil: time.Now
	LocalHostName func() string    // nil: the canonical name of the host, as Java finds it
}

// ScramArgument is an argument of --add-scram. It has a password, which nothing prints: fmt finds a function
// here, whatever the verb and however deep the argument lies in what is printed.
type ScramArgument struct{ text func() string }

// NewScramArgument wraps the text of an argument, such as SCRAM-SHA-256=[name=alice,password=alice-secret].
func NewScramArgument(text string) ScramArgument {
	return ScramArgument{func() string { return text }}
}

func (a ScramArgument) reveal() string {
	if a.text == nil {
		return ""
	}
	return a.text()
}

// Kind says what a directory is to its node; the words are those of Kafka's tool.
type Kind string

// The kinds of directories.
const (
	DataDirectory                 Kind = "data directory"
	MetadataDirectory             Kind = "metadata directory"
	DynamicMetadataDirectory      Kind = "dynamic metadata directory"
	DynamicMetadataVoterDirectory Kind = "dynamic metadata voter directory"
)
