package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

// storage is the log directories of a running node: their locks, their meta.properties, and which of them have failed.
// It is for concurrent use.
//
// A meta.properties is written under its temporary name in all directories first, and then the renames come back to
// back, that of the metadata directory first. So wherever a start or PersistClusterID is killed, the
// directories that have their file are those of a node which the next start completes:
//
//   - a node that makes its first start has the file in its metadata directory, before it has one in any other;
//   - a node that learns its cluster id has it in some files and not yet in others, never two ids;
//   - an id that a start has used is durable: what an earlier process has renamed and not synced is synced before it is used.
type storage struct {
	fs     disk.FS
	s      *settings
	random io.Reader
	now    func() time.Time
	log    *slog.Logger

	release []func() // the locks
	first   bool     // this is the first start of the node: all directories must be usable

	mu        sync.Mutex
	dirs      []*logDir // the metadata directory last if it is none of log.dirs
	clusterID string
}

// logDir is a log directory.
type logDir struct {
	metaprops.Dir
	isMetadata bool
	offline    error                // why it cannot be used; then nothing else counts
	next       metaprops.Properties // that write gives it
	contents   contents
}

// openStorage locks the log directories, reads their meta.properties, checks that they belong together, and writes those
// that are missing or lack an id (KIP-1262). It holds the locks until Close. Errors are *Error, perhaps joined, and those of random.
func openStorage(fsys disk.FS, s *settings, random io.Reader, now func() time.Time, log *slog.Logger) (*storage, error) {
	if random == nil {
		random = rand.Reader
	}
	st := &storage{fs: fsys, s: s, random: random, now: now, log: log}
	for _, step := range []func() error{st.lockAll, st.read, st.verify, st.settle, st.look, st.complete} {
		if err := step(); err != nil {
			st.Close()
			return nil, err
		}
	}
	return st, nil
}

// Close lets go of the locks.
func (st *storage) Close() {
	for _, release := range st.release {
		release()
	}
	st.release = nil
}

// ClusterID is the id that the files have, "" while the node has none.
func (st *storage) ClusterID() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.clusterID
}

// learnedID tells whether the metadata directory has an id that this node learned from the metadata: the file of one that was
// formatted with an id is of version 1.
func (st *storage) learnedID() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	p := st.metadata().Properties
	return p.Version == metaprops.V2 && p.ClusterID != ""
}

// DirectoryID is the id of the metadata directory, which is that of the replica.
func (st *storage) DirectoryID() uuid.UUID {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.metadata().Properties.DirectoryID
}

// LogDirIDs are the ids of log.dirs as a broker registers them: those that are in use, and those that have failed since
// the start. Of one that had failed before nobody knows the id.
func (st *storage) LogDirIDs() (online, offline []uuid.UUID) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, d := range st.dirs {
		id := d.Properties.DirectoryID
		switch {
		case id == uuid.Nil || !slices.Contains(st.s.LogDirs, d.Path):
		case d.offline == nil:
			online = append(online, id)
		default:
			offline = append(offline, id)
		}
	}
	return online, offline
}

// LogFolder is the folder of the metadata log.
func (st *storage) LogFolder() string {
	return disk.Join(st.s.MetadataDir, checkpoint.MetadataDir)
}

func (st *storage) metadata() *logDir {
	return st.dirs[slices.IndexFunc(st.dirs, func(d *logDir) bool { return d.isMetadata })]
}

// online are the directories that can be used and are in a state.
func (st *storage) online(state metaprops.State) []*logDir {
	var out []*logDir
	for _, d := range st.dirs {
		if d.offline == nil && d.State == state {
			out = append(out, d)
		}
	}
	return out
}

// fail takes a directory out of use. Without its metadata directory a node cannot run, and it cannot make its first start
// without any of them: that is an error.
func (st *storage) fail(d *logDir, op, path string, err error) error {
	if dirErr, ok := errors.AsType[*metaprops.DirError](err); ok {
		op, path, err = dirErr.Op, dirErr.Path, dirErr.Err
	}
	e := &Error{What: fmt.Sprintf("cannot %s %s: %s", op, path, disk.Reason(err)), Err: err,
		Fix: "make the directory readable and writable for the user of this node, or name another in " + st.s.File}
	if value, ok := errors.AsType[*metaprops.ValueError](err); ok {
		e.Fix = fmt.Sprintf("correct %s in %s; cluster.id is the same on every node, node.id that of the configuration", value.Key, path)
	}
	if d.isMetadata {
		e.What = "the metadata directory cannot be used: " + e.What
		return e
	}
	if st.first {
		return e
	}
	if d.offline == nil {
		d.offline = e
		st.log.Warn("A log directory is offline; the node runs without it", "dir", d.Path, "error", e.What)
	}
	return nil
}

// lockAll takes the locks of the directories that exist.
func (st *storage) lockAll() error {
	paths := slices.Clone(st.s.LogDirs)
	if !slices.Contains(paths, st.s.MetadataDir) {
		paths = append(paths, st.s.MetadataDir)
	}
	for _, path := range paths {
		st.dirs = append(st.dirs, &logDir{Dir: metaprops.Dir{Path: path}, isMetadata: path == st.s.MetadataDir})
	}
	if err := st.checkDistinct(); err != nil {
		return err
	}
	var errs []error
	for _, d := range st.dirs {
		if info, err := st.fs.Stat(d.Path); err == nil && info.IsDir() { // what is not will be told by read
			errs = append(errs, st.lock(d))
		}
	}
	return errors.Join(errs...)
}

// lock takes the lock of a running node, as Kafka does, and that of a run of format, which knows no
// .lock in a directory that never had a running node.
func (st *storage) lock(d *logDir) error {
	name := disk.Join(d.Path, lockFile)
	if err := st.fs.Access(d.Path); err != nil {
		return st.fail(d, "use", d.Path, err)
	}
	if _, err := st.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
		f, err := st.fs.Create(name, propertiesPerm)
		if err == nil {
			err = f.Close() // before the lock is taken: closing it afterwards would lose the lock
		}
		if err != nil {
			return st.fail(d, "create", name, err)
		}
	}
	for _, take := range []func() (func(), error){
		func() (func(), error) { return st.fs.Lock(name) },
		func() (func(), error) { return st.fs.LockDir(d.Path) },
	} {
		release, err := take()
		if errors.Is(err, disk.ErrLocked) {
			return &Error{What: fmt.Sprintf("the log directory %s is in use: %s", d.Path, disk.Reason(err)), Where: name, Err: err,
				Fix: "stop the node or the other command that works on it, or give this node log directories of its own"}
		}
		if err != nil {
			return st.fail(d, "lock", name, err)
		}
		st.release = append(st.release, release)
	}
	return nil
}

// read reads all meta.properties.
func (st *storage) read() error {
	var errs []error
	for i, found := range metaprops.Load(st.s.LogDirs, st.s.MetadataDir, st.fs).Dirs {
		d := st.dirs[i]
		d.Dir = found
		if d.State == metaprops.Failed {
			errs = append(errs, st.fail(d, "", "", found.Err))
		}
		if d.State != metaprops.Formatted || d.offline != nil {
			continue
		}
		attrs := []any{"file", d.File(), "version", int(d.Properties.Version), "nodeId", d.Properties.NodeID}
		if d.Properties.DirectoryID != uuid.Nil {
			attrs = append(attrs, "directoryId", kafkaid.String(d.Properties.DirectoryID))
		}
		if d.Properties.ClusterID != "" {
			attrs = append(attrs, "clusterId", d.Properties.ClusterID)
		}
		st.log.Info("Found meta.properties", attrs...)
	}
	return errors.Join(errs...)
}

// verify checks that the files belong to this node and to one cluster.
func (st *storage) verify() error {
	e := metaprops.Ensemble{MetadataDir: st.s.MetadataDir}
	var errs []error
	for _, d := range st.online(metaprops.Formatted) {
		e.Dirs = append(e.Dirs, d.Dir)
		switch p := d.Properties; {
		case p.Blank():
			errs = append(errs, &Error{What: d.File() + " is empty", Fix: "a crash or a full disk left it so: restore it from a copy, or " +
				"if the directory holds nothing of worth remove the file and format again"})
		case p.Version == metaprops.V0:
			errs = append(errs, &Error{What: d.File() + " is of version 0, from before KRaft", Fix: "migrate its cluster to KRaft with Apache Kafka 3.9, " +
				"or if the directory holds nothing of worth empty it and format it"})
		case p.Version == metaprops.V1 && p.ClusterID == "":
			errs = append(errs, &Error{What: d.File() + " has an empty cluster.id", Fix: "write the id there that the other nodes of the cluster have"})
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, err := range unjoin(e.Verify(metaprops.Expect{NodeID: st.s.NodeID, NodeIDFrom: st.s.NodeIDFrom})) {
		out := &Error{What: err.Error(), Err: err}
		switch err := err.(type) {
		case *metaprops.ClusterIDError:
			out.Verbatim, out.Fix = true, "the directories are of two clusters: name those of one in "+st.s.File
		case *metaprops.NodeIDError:
			out.Verbatim, out.Fix = true, "configure the node id that is on disk; a new node needs empty directories"
		case *metaprops.DirectoryIDError:
			out.Fix = "remove the copy, or its meta.properties, from the log directories"
			if err.Reserved {
				out.Fix = "no directory has a reserved id: give it the one that the cluster knows it by, or format it again without its meta.properties"
			}
		}
		errs = append(errs, out)
	}
	st.clusterID, _ = e.ClusterID()
	return errors.Join(errs...)
}

// settle makes durable what earlier processes have done.
//
//  1. A process gave a file its name, and was killed before the folder was synced.
//  2. This one finds the file, joins the quorum under its directory id, and the power goes.
//  3. The next one would find no file, and would draw another id.
func (st *storage) settle() error {
	var errs []error
	for _, d := range st.online(metaprops.Formatted) {
		for _, folder := range []string{d.Path, disk.Parent(d.Path)} {
			// A folder that is closed to us was not made by an earlier process.
			if err := st.fs.SyncDir(folder); err != nil && !errors.Is(err, fs.ErrPermission) {
				errs = append(errs, st.fail(d, "sync", folder, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// formatCommand is how the directories of this node are formatted.
func (st *storage) formatCommand(options ...string) string {
	return strings.Join(append([]string{"kstorage format --config", st.s.File}, options...), " ")
}
