package format

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/metaprops"
)

// directory is what New sees of a log directory.
type directory struct {
	metaprops.Dir
	// anchor is the directory, or the nearest one above it that exists, and below the path from there: two paths to one
	// directory agree in both.
	anchor    fs.FileInfo
	below     string
	metadata  []string // what is in its folder of the metadata log
	bootstrap bool     // it has a bootstrap.checkpoint
	unusable  *DirError
}

// look gathers the facts of all log directories; it changes nothing. What keeps a directory from
// being formatted is a fact too.
func look(fsys disk.FS, e metaprops.Ensemble) []directory {
	dirs := make([]directory, len(e.Dirs))
	for i, d := range e.Dirs {
		dirs[i] = directory{Dir: d}
		dirs[i].unusable = dirs[i].look(fsys, d.Path == e.MetadataDir)
	}
	return dirs
}

func (d *directory) fail(op, name string, err error) *DirError {
	return &DirError{Dir: d.Path, Op: op, Path: name, Err: err}
}

func (d *directory) look(fsys disk.FS, isMetadata bool) *DirError {
	if d.State == metaprops.Failed {
		return d.fail(d.Err.Op, d.Err.Path, d.Err.Err)
	}
	if d.Missing {
		return d.lookAbove(fsys)
	}
	var err error
	if d.anchor, err = fsys.Stat(d.Path); err != nil {
		return d.fail("read", d.Path, err)
	}
	entries, err := fsys.ReadDir(d.Path)
	if err != nil {
		return d.fail("read", d.Path, err)
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == checkpoint.MetadataDir && (entry.IsDir() || isMetadata):
			if err := d.lookAtMetadata(fsys); err != nil {
				return err
			}
		case name != checkpoint.BootstrapName && name != bootstrapTemp && name != metaprops.TempName || d.State != metaprops.Empty:
		case entry.IsDir():
			return d.fail("replace", disk.Join(d.Path, name), syscall.EISDIR)
		case name == checkpoint.BootstrapName:
			d.bootstrap = true
		}
	}
	if d.State == metaprops.Empty {
		if err := fsys.Access(d.Path); err != nil {
			return d.fail("write to", d.Path, err)
		}
	}
	return nil
}

// lookAbove finds the folder in which a missing directory will be made. It must be writable, and readable too: its
// entries are synced.
func (d *directory) lookAbove(fsys disk.FS) *DirError {
	for at := d.Path; ; {
		// What Stat does not find, but Lstat does, is a link to nothing, or has come to be in between.
		if info, err := fsys.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return d.fail("create", d.Path, fmt.Errorf("%s is a link to something that does not exist", at))
		}
		var name string
		at, name = disk.Split(at)
		d.below = disk.Join(name, d.below)
		info, err := fsys.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && at != "." && at != "/" {
			continue
		}
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err == nil {
			err = fsys.Access(at)
		}
		if err != nil {
			return d.fail("create", d.Path, err)
		}
		// The folders will be made, none of them as a link, so ".." behind one is the folder in front of it.
		d.anchor, d.below = info, path.Clean(d.below)
		return nil
	}
}

func (d *directory) lookAtMetadata(fsys disk.FS) *DirError {
	folder := disk.Join(d.Path, checkpoint.MetadataDir)
	entries, err := fsys.ReadDir(folder)
	if err != nil {
		return d.fail("read", folder, err)
	}
	for _, entry := range entries {
		d.metadata = append(d.metadata, entry.Name())
	}
	if d.State == metaprops.Empty {
		if err := fsys.Access(folder); err != nil {
			return d.fail("write to", folder, err)
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

// same reports whether d and other are one directory under two paths.
func (d *directory) same(other *directory) bool {
	return d.anchor != nil && other.anchor != nil && d.below == other.below && os.SameFile(d.anchor, other.anchor)
}
