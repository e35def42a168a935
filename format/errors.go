package format

import (
	"fmt"

	"kstorage/internal/disk"
)

// AlreadyFormattedError says that a directory was formatted before, and that nobody asked to
// leave such directories alone. Its text is Kafka's; container entrypoints look for it.
type AlreadyFormattedError struct {
	Dir         string
	Unformatted []string    // the directories that are still to be formatted
	Unusable    []*DirError // the directories that cannot be
}

func (e *AlreadyFormattedError) Error() string {
	return fmt.Sprintf("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", e.Dir)
}

// Rule is a rule that forbids what the options ask for.
type Rule int

// The rules. Those from EmptyClusterID on are Unlike Kafka, whose tool goes on.
const (
	StaticQuorum         Rule = iota + 1 // first voters are given, but the quorum is one of static voters
	StandaloneBroker                     // only a controller can be the only one
	NoFirstVoters                        // a controller of a dynamic quorum must be told what it begins with
	ScramUnsupported                     // the metadata.version has no records for users
	BadCredential                        // an argument of --add-scram has another form
	ClusterIDRequired                    // none is known, and the metadata.version has no record for one
	EmptyClusterID                       // the one given, or one in a file, is empty
	BadClusterID                         // it begins or ends with a blank or a control character, or is not UTF-8
	ClusterIDNotStored                   // the controller was formatted without one: it gets its id from the quorum
	EmptyProperties                      // a meta.properties says nothing
	OneDirectory                         // two paths lead to one directory
	LostProperties                       // a directory has a metadata log but no meta.properties
	LostMetadata                         // a node that others know would begin an empty cluster
	DirectoryIDTaken                     // another directory of the node has the id of the voter
	ReplacedMeanwhile                    // a directory has been formatted since the plan was made
	ServerNeedsClusterID                 // none is known, and servers of the release do not start without one
)

// Refusal says that a Rule forbids to format.
type Refusal struct {
	Rule   Rule
	Reason string // one line; where scripts know a sentence of Kafka's, that
	Hint   string // what was found that helps to go on
}

func (e *Refusal) Error() string { return e.Reason }

// DirError is a directory that cannot be formatted, or the step in which that failed.
type DirError struct {
	Dir  string // the log directory
	Op   string // the step: read, lock, create, write, ...
	Path string // the file or folder it concerns
	Err  error

	// Done has the directories that were formatted before the step failed.
	Done []string
}

// Error has the path, the reason of the system and, where it is about permissions, the number of the user.
func (e *DirError) Error() string {
	return fmt.Sprintf("cannot %s %s: %s", e.Op, e.Path, disk.Reason(e.Err))
}

func (e *DirError) Unwrap() error { return e.Err }

// UnusableError says that none of the log directories can be used. Its text is Kafka's.
type UnusableError struct{ Dirs []*DirError }

func (e *UnusableError) Error() string { return "No available log directories to format." }

// Unwrap returns the errors of the directories.
func (e *UnusableError) Unwrap() []error {
	errs := make([]error, len(e.Dirs))
	for i, d := range e.Dirs {
		errs[i] = d
	}
	return errs
}
