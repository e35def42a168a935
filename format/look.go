package format

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/metaprops"
)

// directory is what New sees of a log directory.
type directory struct {
	metaprops.Dir
	info      fs.FileInfo // of the directory, nil if it does not exist
	metadata  []string    // what is in its folder of the metadata log
	bootstrap bool        // it has a bootstrap.checkpoint
	unusable  *DirError
}

// look gathers the facts of all log directories; it changes nothing. What keeps a directory from
// being formatted is a fact too.
func look(fsys disk.FS, e metaprops.Ensemble) []directory {
	dirs := make([]directory, len(e.Dirs))
	for i, d := range e.Dirs {
		dirs[i] = lookAt(fsys, d)
	}
	return dirs
}

func lookAt(fsys disk.FS, dir metaprops.Dir) directory {
	d := directory{Dir: dir}
	if d.State == metaprops.Failed {
		d.unusable = &DirError{Dir: d.Path, Op: d.Err.Op, Path: d.Err.Path, Err: d.Err.Err}
		return d
	}
	if d.Missing {
		parent := filepath.Dir(d.Path)
		for {
			info, err := fsys.Stat(parent)
			if err == nil && !info.IsDir() {
				d.unusable = &DirError{Dir: d.Path, Op: "create", Path: d.Path, Err: errors.New(parent + " is not a directory")}
				return d
			}
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				d.unusable = &DirError{Dir: d.Path, Op: "create", Path: d.Path, Err: err}
				return d
			}
			parent = filepath.Dir(parent)
		}
		if err := fsys.Access(parent); err != nil {
			d.unusable = &DirError{Dir: d.Path, Op: "create", Path: d.Path, Err: err}
		}
		return d
	}
	info, err := fsys.Stat(d.Path)
	if err != nil {
		d.unusable = &DirError{Dir: d.Path, Op: "read", Path: d.Path, Err: err}
		return d
	}
	d.info = info
	entries, err := fsys.ReadDir(d.Path)
	if err != nil {
		d.unusable = &DirError{Dir: d.Path, Op: "read", Path: d.Path, Err: err}
		return d
	}
	for _, entry := range entries {
		switch entry.Name() {
		case checkpoint.BootstrapName:
			d.bootstrap = true
		case checkpoint.MetadataDir:
			d.unusable = d.lookAtMetadata(fsys)
		}
	}
	if d.State == metaprops.Empty && d.unusable == nil {
		if err := fsys.Access(d.Path); err != nil {
			d.unusable = &DirError{Dir: d.Path, Op: "write to", Path: d.Path, Err: err}
		}
	}
	return d
}

func (d *directory) lookAtMetadata(fsys disk.FS) *DirError {
	path := child(d.Path, checkpoint.MetadataDir)
	entries, err := fsys.ReadDir(path)
	if err != nil {
		return &DirError{Dir: d.Path, Op: "read", Path: path, Err: err}
	}
	for _, entry := range entries {
		d.metadata = append(d.metadata, entry.Name())
	}
	if d.State == metaprops.Empty {
		if err := fsys.Access(path); err != nil {
			return &DirError{Dir: d.Path, Op: "write to", Path: path, Err: err}
		}
	}
	return nil
}

// live reports whether the folder of the metadata log has more than an interrupted run of format
// leaves there: the zero checkpoint and files that have no final name yet.
func (d *directory) live() bool {
	for _, name := range d.metadata {
		if name != zeroCheckpoint && !strings.HasSuffix(name, ".part") && !strings.HasSuffix(name, ".tmp") {
			return true
		}
	}
	return false
}

// child is the path of a file in dir. Unlike filepath.Join it leaves dir as it is written: behind
// a symbolic link ".." means something.
func child(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}
