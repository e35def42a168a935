package metaprops

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// State says what a log directory is.
type State int8

const (
	Formatted State = iota + 1 // it has a meta.properties that can be read
	Empty                      // it has none, or does not exist yet
	Failed                     // it cannot be used
)

// Dir is one log directory.
type Dir struct {
	Path       string
	State      State
	Missing    bool       // Empty: there is no such directory
	Properties Properties // Formatted
	Err        *DirError  // Failed
}

// File returns the path of the directory's meta.properties. As in Java, slashes that mean nothing are dropped, but
// no "." and no "..", which symbolic links may give a meaning.
func (d Dir) File() string { return javaPath(d.Path + "/" + FileName) }

// Ensemble is the log directories of one node.
type Ensemble struct {
	Dirs        []Dir // in the given order, the metadata directory last if it is none of them
	MetadataDir string
}

// Files is the file system from which an ensemble is loaded.
type Files interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
}

type osFiles struct{}

func (osFiles) ReadFile(name string) ([]byte, error)  { return os.ReadFile(name) }
func (osFiles) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Load reads meta.properties in each of dirs and in metadataDir ("" or one of dirs: no other). files nil is the
// operating system. What cannot be read is in the result: one failed disk does not hide the others.
func Load(dirs []string, metadataDir string, files Files) Ensemble {
	if files == nil {
		files = osFiles{}
	}
	e := Ensemble{MetadataDir: metadataDir}
	for _, path := range dirs {
		e.Dirs = append(e.Dirs, loadDir(path, files))
	}
	if metadataDir != "" && !slices.Contains(dirs, metadataDir) {
		e.Dirs = append(e.Dirs, loadDir(metadataDir, files))
	}
	return e
}

func loadDir(path string, files Files) Dir {
	d := Dir{Path: path}
	b, err := files.ReadFile(d.File())
	if err == nil {
		if d.Properties, err = Decode(b); err != nil {
			return d.failed(opDecode, d.File(), err)
		}
		d.State = Formatted
		return d
	}
	// The reason may lie with the directory: one that cannot be searched may be formatted.
	info, statErr := files.Stat(path)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		d.State, d.Missing = Empty, true
		return d
	case statErr != nil:
		return d.failed(opStat, path, statErr)
	case !info.IsDir():
		return d.failed(opOpen, path, syscall.ENOTDIR)
	case errors.Is(err, fs.ErrNotExist):
		d.State = Empty
		return d
	}
	if _, statErr = files.Stat(d.File()); statErr != nil {
		return d.failed(opSearch, path, statErr)
	}
	return d.failed(opRead, d.File(), err)
}

func (d Dir) failed(op, path string, err error) Dir {
	// Its text has the path already.
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	d.State, d.Properties, d.Err = Failed, Properties{}, &DirError{op, path, err}
	return d
}

// In returns the directories that are in a state.
func (e Ensemble) In(s State) []Dir {
	var dirs []Dir
	for _, d := range e.Dirs {
		if d.State == s {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// ClusterID returns the cluster id that the files have, and the first file that has it; "" where none has one.
func (e Ensemble) ClusterID() (id, file string) {
	for _, d := range e.In(Formatted) {
		if d.Properties.ClusterID != "" {
			return d.Properties.ClusterID, d.File()
		}
	}
	return "", ""
}

// Expect is what the files are compared with.
type Expect struct {
	ClusterID     string // as it was given, see SameClusterID; "": the files must agree with each other
	ClusterIDFrom string // who says so, for the error: an option or a variable
	NodeID        int32  // NoNode: the files must agree with each other
	NodeIDFrom    string // who says so: a configuration key and its place
	Formatted     bool   // at least one directory must be formatted
}

// Verify checks that the readable files belong to one node of one cluster, as Kafka does: the cluster id
// (a file without one fits any), the node id, and that no directory id is reserved or is there twice. Errors are joined:
// ErrNotFormatted, *ClusterIDError, *NodeIDError, *DirectoryIDError.
func (e Ensemble) Verify(expect Expect) error {
	formatted := e.In(Formatted)
	if len(formatted) == 0 && expect.Formatted {
		return ErrNotFormatted
	}
	sameClusterID := SameClusterID
	if expect.ClusterID != "" && expect.ClusterIDFrom == "" {
		expect.ClusterIDFrom = "expected"
	}
	if expect.NodeID != NoNode && expect.NodeIDFrom == "" {
		expect.NodeIDFrom = "the caller"
	}
	var errs []error
	owners := map[uuid.UUID][]string{}
	var ids []uuid.UUID // the keys of owners in the order of the directories
	for _, d := range formatted {
		p := d.Properties
		switch {
		case !p.hasClusterID():
		case expect.ClusterIDFrom == "":
			expect.ClusterID, expect.ClusterIDFrom = p.ClusterID, d.File()
			sameClusterID = func(stored, expected string) bool { return stored == expected }
		case !sameClusterID(p.ClusterID, expect.ClusterID):
			errs = append(errs, &ClusterIDError{d.File(), p.ClusterID, expect.ClusterID, expect.ClusterIDFrom})
		}
		switch {
		case p.NodeID == NoNode && p.Version == V0:
		case expect.NodeIDFrom == "":
			expect.NodeID, expect.NodeIDFrom = p.NodeID, d.File()
		case p.NodeID != expect.NodeID:
			errs = append(errs, &NodeIDError{d.File(), p.NodeID, expect.NodeID, expect.NodeIDFrom})
		}
		switch {
		case p.ReservedDirectoryID():
			errs = append(errs, &DirectoryIDError{p.DirectoryID, []string{d.Path}, true})
		case p.DirectoryID != uuid.Nil:
			if owners[p.DirectoryID] == nil {
				ids = append(ids, p.DirectoryID)
			}
			owners[p.DirectoryID] = append(owners[p.DirectoryID], d.Path)
		}
	}
	for _, id := range ids {
		if dirs := owners[id]; len(dirs) > 1 {
			errs = append(errs, &DirectoryIDError{ID: id, Dirs: dirs})
		}
	}
	return errors.Join(errs...)
}

// javaPath drops the slashes from a path that Java's Path drops: repeated ones and one at the end.
func javaPath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if path[i] != '/' || !strings.HasSuffix(b.String(), "/") {
			b.WriteByte(path[i])
		}
	}
	if s := b.String(); len(s) > 1 {
		return strings.TrimSuffix(s, "/")
	}
	return b.String()
}
