// Package crashdisk is a disk.FS in memory that fails or crashes at a chosen step, for tests of
// programs that must survive it.
//
// # Steps
//
// Each operation that changes the disk or makes a change durable is a step; steps have the numbers 1, 2, …
// in the order of the calls: Create, Write, Extend, Truncate, Chmod, Sync, SyncData, Close, Rename, Remove, SyncDir, and
// MkdirAll once for each directory that it makes. Reading, OpenAppend, Stat, Access and Lock are no steps, nor is a call that the state of the disk
// refuses. So a test runs its program once, asks for Steps, and then runs it again with a fault at each of them:
//
//	FailAt   the step returns an error, as the system would, and does nothing; a Write or Extend has written the first half.
//	         The program goes on and can clean up.
//	CrashAt  the same, but nothing works from then on: every call returns ErrCrashed.
//
// A crash after the last step is tested by CrashAt(Steps()+1), or without a fault.
//
// # After a crash
//
// Kill gives the disk after the death of the process alone: all that was done is there; what was not synced
// still is not. Restart gives the disk that the machine may find after a loss of power. What survives is chosen:
//
//   - The content of a file that was synced is there. Of what was done to it since (written, emptied by Create, cut by
//     Truncate) a prefix is there, which may end within a write. A file that was never synced may so be empty. Zero
//     bytes may stand in the place of some of the rest, and of sectors of the prefix: a disk writes sectors in any order.
//     Behind them stand as many of the zeros of Extend as the disk likes.
//   - The changes of a directory's entries (a file or directory created, renamed or removed) are
//     durable once SyncDir of that directory has run. Of those since, a prefix is there: they reach the disk in order,
//     but each directory for itself. A rename is there as a whole or not at all. What lies in a directory whose own
//     entry is lost is lost, whatever was synced in it.
//   - Modes are kept.
//
// The choice follows from a seed; Lost and Kept are the two extremes. The same disk may be restarted with
// many seeds.
//
// # Left out
//
// Symbolic and hard links (so ".." is resolved in the text of a path), renaming from one directory to another, the
// umask, other users (a file without the owner's write bit cannot be opened for writing, all else is allowed), locks
// (nobody else is there), times, old blocks in place of unsynced content, a Sync that fails and drops what it was to write.
// A Disk is not for concurrent use.
package crashdisk

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"kstorage/internal/disk"
)

// ErrCrashed is the error of every call after a crash.
var ErrCrashed = errors.New("the disk has crashed")

// Seeds of Restart with a meaning.
const (
	Lost uint64 = 0 // nothing is there that was not synced
	Kept uint64 = 1 // all is there that was done
)

// Disk is the disk of one machine.
type Disk struct {
	root     *node
	steps    int
	lastOp   string
	lastName string
	faultAt  int
	faultErr error // ErrCrashed: a crash
	crashed  bool
}

var _ disk.FS = (*Disk)(nil)

// New returns an empty disk. Paths that are not absolute begin at its root.
func New() *Disk { return &Disk{root: newDir(0o755)} }

// FailAt lets a step return err (best a syscall.Errno) wrapped as the system wraps it.
func (d *Disk) FailAt(step int, err error) { d.faultAt, d.faultErr = step, err }

// CrashAt lets the disk crash at a step.
func (d *Disk) CrashAt(step int) { d.FailAt(step, ErrCrashed) }

// Steps returns the number of the last step.
func (d *Disk) Steps() int { return d.steps }

// LastStep returns the last step as text such as "rename /d1/a.tmp", for the message of a failed test.
func (d *Disk) LastStep() string { return d.lastOp + " " + d.lastName }

// Kill returns the disk as the next process finds it when this one is killed.
func (d *Disk) Kill() *Disk { return &Disk{root: d.root.clone()} }

// Restart returns the disk as the machine may find it after a loss of power. All that is found is durable.
func (d *Disk) Restart(seed uint64) *Disk {
	return &Disk{root: d.root.restart(seed, rand.New(rand.NewPCG(seed, uint64(d.steps))))}
}

// step counts a step. An error is the fault that was ordered for it.
func (d *Disk) step(op, name string) error {
	if d.crashed {
		return ErrCrashed
	}
	d.steps++
	d.lastOp, d.lastName = op, name
	if d.steps != d.faultAt {
		return nil
	}
	d.crashed = d.faultErr == ErrCrashed
	return d.faultErr
}

// lookup returns the node name, and the directory in which it is or could be (nil for the root). It fails as
// the system does.
func (d *Disk) lookup(name string) (dir, n *node, err error) {
	if d.crashed {
		return nil, nil, ErrCrashed
	}
	n = d.root
	for rest := clean(name)[1:]; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if n == nil {
			return nil, nil, syscall.ENOENT
		}
		if !n.isDir() {
			return nil, nil, syscall.ENOTDIR
		}
		dir, n = n, n.entries[part]
	}
	return dir, n, nil
}

// existing is lookup of what must be there.
func (d *Disk) existing(name string) (dir, n *node, err error) {
	dir, n, err = d.lookup(name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return dir, n, err
}

func clean(name string) string { return path.Clean("/" + name) }

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (d *Disk) ReadFile(name string) ([]byte, error) {
	n, err := d.openable(name)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(n.content()), nil
}

func (d *Disk) Open(name string) (disk.Reader, error) {
	n, err := d.openable(name)
	if err != nil {
		return nil, err
	}
	return reader{bytes.NewReader(n.content())}, nil
}

// reader reads the content that a file had when it was opened.
type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// openable returns the file name.
func (d *Disk) openable(name string) (*node, error) {
	_, n, err := d.existing(name)
	if err == nil && n.isDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return n, nil
}

func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	_, n, err := d.existing(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return info{path.Base(clean(name)), n.mode, int64(len(n.data) + n.zeros)}, nil
}

// Lstat is Stat: there are no links.
func (d *Disk) Lstat(name string) (fs.FileInfo, error) { return d.Stat(name) }

func (d *Disk) ReadDir(name string) ([]fs.DirEntry, error) {
	_, n, err := d.existing(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	var entries []fs.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		child := n.entries[name]
		entries = append(entries, fs.FileInfoToDirEntry(info{name, child.mode, int64(len(child.data) + child.zeros)}))
	}
	return entries, nil
}

func (d *Disk) MkdirAll(name string, perm fs.FileMode) error {
	if d.crashed {
		return pathError("mkdir", name, ErrCrashed)
	}
	dir, at := d.root, "/"
	for part := range strings.SplitSeq(clean(name)[1:], "/") {
		if part == "" { // the root
			break
		}
		at = path.Join(at, part)
		child := dir.entries[part]
		if child == nil {
			if err := d.step("mkdir", at); err != nil {
				return pathError("mkdir", at, err)
			}
			child = newDir(perm)
			dir.change(change{name: part, node: child})
		}
		if !child.isDir() {
			return pathError("mkdir", at, syscall.ENOTDIR)
		}
		dir = child
	}
	return nil
}

func (d *Disk) Create(name string, perm fs.FileMode) (disk.File, error) {
	dir, n, err := d.lookup(name)
	switch {
	case err != nil:
	case n != nil && n.isDir():
		err = syscall.EISDIR
	case n != nil && n.mode&0o200 == 0:
		err = syscall.EACCES
	default:
		err = d.step("create", name)
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if n == nil {
		n = &node{mode: perm.Perm()}
		dir.change(change{name: path.Base(clean(name)), node: n})
	}
	n.cut(0)
	return &file{d, n, name, false}, nil
}

func (d *Disk) OpenAppend(name string) (disk.File, error) {
	n, err := d.openable(name)
	if err != nil {
		return nil, err
	}
	if n.mode&0o200 == 0 {
		return nil, pathError("open", name, syscall.EACCES)
	}
	n.data, n.zeros = n.content(), 0
	return &file{d, n, name, false}, nil
}

func (d *Disk) Rename(oldName, newName string) error {
	oldDir, n, err := d.existing(oldName)
	if err == nil {
		var newDir, target *node
		newDir, target, err = d.lookup(newName)
		switch {
		case err != nil:
		case oldDir == nil:
			err = syscall.EBUSY
		case target != nil && target.isDir():
			err = syscall.EEXIST
		case target != nil && n.isDir():
			err = syscall.ENOTDIR
		case oldDir != newDir:
			err = syscall.EXDEV
		default:
			err = d.step("rename", oldName)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	oldDir.change(change{name: path.Base(clean(newName)), node: n, from: path.Base(clean(oldName))})
	return nil
}

func (d *Disk) Remove(name string) error {
	dir, n, err := d.existing(name)
	if err == nil {
		switch {
		case dir == nil:
			err = syscall.EBUSY
		case len(n.entries) > 0:
			err = syscall.ENOTEMPTY
		default:
			err = d.step("remove", name)
		}
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	dir.change(change{name: path.Base(clean(name))})
	return nil
}

func (d *Disk) SyncDir(name string) error {
	_, n, err := d.existing(name)
	if err == nil {
		err = d.step("syncdir", name)
	}
	if err != nil {
		return pathError("sync", name, err)
	}
	for _, c := range n.pending {
		c.apply(n.durable)
	}
	n.pending = nil
	return nil
}

func (d *Disk) Access(name string) error {
	_, n, err := d.existing(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("access", name, err)
	}
	return nil
}

func (d *Disk) LockDir(name string) (release func(), err error) { return d.Lock(name) }

func (d *Disk) Lock(name string) (release func(), err error) {
	if d.crashed {
		return nil, pathError("lock", name, ErrCrashed)
	}
	return func() {}, nil
}

// file is a node that is open for writing.
type file struct {
	disk   *Disk
	node   *node
	name   string
	closed bool
}

// step counts a step on the open file.
func (f *file) step(op string) error {
	err := fs.ErrClosed
	if !f.closed || f.disk.crashed {
		err = f.disk.step(op, f.name)
	}
	if err != nil {
		return pathError(op, f.name, err)
	}
	return nil
}

func (f *file) Write(b []byte) (int, error) {
	dead := f.closed || f.disk.crashed
	err := f.step("write")
	switch {
	case dead:
		return 0, err
	case err != nil:
		b = b[:len(b)/2]
	}
	f.node.data = append(f.node.data, b...)
	f.node.zeros = max(0, f.node.zeros-len(b))
	return len(b), err
}

func (f *file) Chmod(perm fs.FileMode) error {
	if err := f.step("chmod"); err != nil {
		return err
	}
	f.node.mode = perm.Perm()
	return nil
}

func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	switch {
	case f.disk.crashed:
		return 0, pathError("read", f.name, ErrCrashed)
	case f.closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	}
	return bytes.NewReader(f.node.content()).ReadAt(b, offset)
}

func (f *file) Extend(size int) error {
	dead := f.closed || f.disk.crashed
	err := f.step("extend")
	switch {
	case dead:
		return err
	case err != nil:
		size = max(f.node.zeros, size/2)
	}
	f.node.zeros = size
	return err
}

func (f *file) Truncate(size int64) error {
	if err := f.step("truncate"); err != nil {
		return err
	}
	f.node.cut(int(size))
	return nil
}

func (f *file) Sync() error     { return f.sync("sync") }
func (f *file) SyncData() error { return f.sync("syncdata") }

func (f *file) sync(op string) error {
	if err := f.step(op); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

func (f *file) Close() error {
	err := f.step("close")
	f.closed = true // also where it fails, as on Linux
	return err
}
