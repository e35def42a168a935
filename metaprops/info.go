package metaprops

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
)

// Report is what `info` tells about an ensemble.
type Report struct {
	Found    []string // the directories that exist, sorted
	Metadata string   // the content of the first readable file: {cluster.id=…, node.id=1, version=1}; "": none
	Problems []string // lines; with a problem `info` exits 1
	Warnings []string // lines about what Kafka's tool does not see
	// Unreadable is the files that are there and give no properties at all (*DirError, joined). Kafka's
	// tool ends at the first and prints no report.
	Unreadable error
}

// Report compares the files of all directories, in the order of their paths, with each other. nodeID is the configured
// one (NoNode: none). The problems are Kafka's, with its blind spots: the files are
// compared with the first readable one, the node ids only where the cluster ids are equal. Unlike Kafka: a
// directory id that is there twice is a problem; a directory that cannot be searched is not called unformatted; a file
// of version 2 without cluster.id, which will learn it, is no mismatch.
func (e Ensemble) Report(nodeID int32) Report {
	var r Report
	dirs := slices.Clone(e.Dirs)
	slices.SortStableFunc(dirs, func(a, b Dir) int { return strings.Compare(a.Path, b.Path) })
	problem := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	warning := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	var first *Dir
	owners := map[uuid.UUID]string{}
	for i, d := range dirs {
		path := javaPath(d.Path)
		if !d.Missing && (d.State != Failed || d.Err.Op != opStat && d.Err.Op != opOpen) {
			r.Found = append(r.Found, path)
		}
		p := d.Properties
		switch {
		case d.Missing:
			problem("%s does not exist", path)
		case d.State == Empty:
			problem("%s is not formatted.", path)
		case d.State == Failed:
			r.failed(d, path)
		case first == nil:
			first = &dirs[i]
		case clusterIDsDiffer(p, first.Properties):
			problem("Mismatched cluster IDs between storage directories.")
		case p.NodeID != first.Properties.NodeID:
			problem("Mismatched node IDs between storage directories.")
		}
		if d.State != Formatted {
			continue
		}
		if p.Blank() {
			warning("%s is empty", d.File())
		}
		if p.NodeID != NoNode && nodeID != NoNode && p.NodeID != nodeID {
			warning("%s has node id %d, but %d is configured: a server refuses to start", d.File(), p.NodeID, nodeID)
		}
		if p.ReservedDirectoryID() {
			warning("%s has the reserved directory id %s: a server refuses to start", d.File(), kafkaid.String(p.DirectoryID))
		} else if owner, found := owners[p.DirectoryID]; found {
			problem("Duplicate directory ID %s found. It is the ID of %s and of %s.", kafkaid.String(p.DirectoryID), owner, path)
		} else if p.DirectoryID != uuid.Nil {
			owners[p.DirectoryID] = path
		}
	}
	if first != nil {
		r.Metadata = first.Properties.text()
		if first.Properties.Version == V0 {
			problem("The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for legacy mode.")
		}
	}
	return r
}

// failed reports a directory that cannot be used: as a problem, or as a file that Kafka's tool fails at.
func (r *Report) failed(d Dir, path string) {
	_, isValue := errors.AsType[*ValueError](d.Err)
	switch {
	case d.Err.Op == opStat && errors.Is(d.Err, syscall.ENOTDIR):
		r.Problems = append(r.Problems, path+" does not exist")
	case d.Err.Op == opOpen:
		r.Problems = append(r.Problems, path+" is not a directory")
	case isValue:
		r.Problems = append(r.Problems, fmt.Sprintf("Error loading %s: %v", d.Err.Path, d.Err.Err))
	case d.Err.Path == d.Path:
		r.Problems = append(r.Problems, fmt.Sprintf("%s is not readable: %v", path, d.Err.Err))
	default:
		r.Unreadable = errors.Join(r.Unreadable, d.Err)
	}
}

func clusterIDsDiffer(a, b Properties) bool {
	if a.Version == V2 && a.ClusterID == "" || b.Version == V2 && b.ClusterID == "" {
		return false
	}
	return a.ClusterID != b.ClusterID || a.hasClusterID() != b.hasClusterID()
}

// text is the properties as Java prints a sorted map.
func (p Properties) text() string {
	var pairs []string
	for _, property := range p.properties() {
		pairs = append(pairs, property.key+"="+property.value)
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ", ") + "}"
}
