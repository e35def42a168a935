package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

const (
	dirPerm        fs.FileMode = 0o777 // less the umask
	propertiesPerm fs.FileMode = 0o666
)

// complete writes the files that are missing, and those that lack an id.
func (st *storage) complete() error {
	missing, err := st.chooseMissing()
	if err != nil {
		return err
	}
	st.first = len(st.online(metaprops.Formatted)) == 0
	defer func() { st.first = false }()
	for _, d := range missing {
		if !st.first {
			st.log.Warn("A log directory is empty and becomes one of this node; is its disk mounted?", "dir", d.Path)
		}
	}
	var changed []*logDir
	for _, d := range st.dirs {
		p, isNew := d.Properties, slices.Contains(missing, d)
		if d.offline != nil {
			continue
		}
		if isNew {
			p = metaprops.Properties{Version: metaprops.V2, NodeID: st.s.NodeID}
			if st.clusterID != "" {
				p.Version = metaprops.V1 // which Apache Kafka reads too
			}
		}
		p.ClusterID = st.clusterID
		if p.DirectoryID == uuid.Nil {
			if p.DirectoryID, err = kafkaid.New(st.random); err != nil {
				return err
			}
		}
		if p == d.Properties {
			continue
		}
		if isNew {
			if err := st.makeDir(d); err != nil {
				return err
			}
			if d.offline != nil {
				continue
			}
		}
		d.next, changed = p, append(changed, d)
	}
	if err := st.write(changed); err != nil {
		return err
	}
	if st.s.IsBroker && !slices.ContainsFunc(st.online(metaprops.Formatted), func(d *logDir) bool { return slices.Contains(st.s.LogDirs, d.Path) }) {
		return &Error{What: "none of the log directories can be used", Where: strings.Join(st.s.LogDirs, ", "), Fix: "a broker needs one at least"}
	}
	return nil
}

// makeDir makes a directory if it does not exist, and takes its lock then.
func (st *storage) makeDir(d *logDir) error {
	if err := st.makeDirs(d.Path); err != nil {
		return st.fail(d, "create", d.Path, err)
	}
	if !d.Missing {
		return nil
	}
	d.Missing = false
	return st.lock(d)
}

// makeDirs makes path and its missing parents, each durable before the next. So of those that are there one at most
// is not durable yet, the deepest, which an earlier process may have made: it is synced too.
func (st *storage) makeDirs(path string) error {
	var missing []string
	dir := path
	for ; ; dir = disk.Parent(dir) {
		if _, err := st.fs.Stat(dir); err == nil || dir == "." || dir == "/" {
			break
		}
		missing = append(missing, dir)
	}
	if err := st.fs.SyncDir(disk.Parent(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		if err := st.fs.MkdirAll(dir, dirPerm); err != nil {
			return err
		}
		if err := st.fs.SyncDir(disk.Parent(dir)); err != nil {
			return err
		}
	}
	return nil
}

// write gives directories their next properties: all under the temporary name, then all renames, that of the metadata
// directory first. A data directory that fails goes offline; if the metadata directory fails nothing else has changed.
func (st *storage) write(dirs []*logDir) error {
	dirs = slices.Clone(dirs)
	slices.SortStableFunc(dirs, func(a, b *logDir) int {
		switch {
		case a.isMetadata && !b.isMetadata:
			return -1
		case b.isMetadata && !a.isMetadata:
			return 1
		}
		return 0
	})
	date := st.now()
	temp := func(d *logDir) string { return disk.Join(d.Path, metaprops.TempName) }
	var written []*logDir
	giveUp := func(err error) error {
		for _, d := range written {
			st.fs.Remove(temp(d)) // it is replaced at the next start, should this fail too
		}
		return err
	}
	for _, d := range dirs {
		err := disk.Temp(st.fs, temp(d), propertiesPerm, func(w io.Writer) error {
			_, err := w.Write(d.next.Encode(date))
			return err
		})
		if err == nil {
			written = append(written, d)
		} else if err := st.fail(d, "write", temp(d), err); err != nil {
			return giveUp(err)
		}
	}
	for _, d := range written {
		if err := disk.Replace(st.fs, temp(d), d.File()); err != nil {
			st.fs.Remove(temp(d))
			if err := st.fail(d, "write", d.File(), err); err != nil {
				return giveUp(err)
			}
			continue
		}
		d.Properties, d.State = d.next, metaprops.Formatted
		attrs := []any{"file", d.File(), "version", int(d.next.Version), "nodeId", d.next.NodeID, "directoryId", kafkaid.String(d.next.DirectoryID)}
		if d.next.ClusterID != "" {
			attrs = append(attrs, "clusterId", d.next.ClusterID)
		}
		st.log.Info("Wrote meta.properties", attrs...)
	}
	return nil
}

// PersistClusterID writes the cluster's id, which the committed metadata has, into the files of all directories that are in use. A data
// directory that fails goes offline. Afterwards ClusterID is id. Errors are *Error: another id is stored, the metadata directory fails.
func (st *storage) PersistClusterID(id string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.clusterID == id {
		return nil
	}
	if st.clusterID != "" {
		return &Error{What: fmt.Sprintf("the cluster's metadata has the cluster id %s, this node has %s", id, st.clusterID), Where: st.metadata().File(),
			Fix: "this node belongs to another cluster: point controller.quorum.bootstrap.servers or controller.quorum.voters to that one's controllers, or give the node empty directories"}
	}
	dirs := st.online(metaprops.Formatted)
	for _, d := range dirs {
		d.next = d.Properties
		d.next.ClusterID = id
	}
	if err := st.write(dirs); err != nil {
		return err
	}
	st.clusterID = id
	return nil
}

// logSuffixes end the names of files of a metadata log, Apache Kafka's among them.
var logSuffixes = []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot", checkpoint.Suffix, ".part", ".deleted", ".tmp"}

// logFiles are the small files beside them. The first one goes first: an entry in it without a segment is taken for a lost log.
var logFiles = []string{"leader-epoch-checkpoint", "quorum-state", "partition.metadata"}

// WipeMetadataLog removes the metadata log, which is not open, with its snapshots and its quorum-state: what a node without a
// cluster id has there may be of another cluster. The zero checkpoint stays. If it is interrupted, the next start does it again, for the node still has no id.
func (st *storage) WipeMetadataLog() error {
	folder := st.LogFolder()
	fail := func(op, path string, err error) error { return st.fail(st.metadata(), op, path, err) }
	entries, err := st.fs.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fail("read", folder, err)
	}
	var names []string
	for _, entry := range entries {
		isLog := func(suffix string) bool { return strings.HasSuffix(entry.Name(), suffix) }
		if entry.Name() != (checkpoint.ID{}).String() && !entry.IsDir() && (slices.Contains(logFiles, entry.Name()) || slices.ContainsFunc(logSuffixes, isLog)) {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	// What a killed wipe leaves must be a log, or the next start takes it for a damaged one: a segment goes after those that
	// follow it, and before the snapshots, of which one may have what was in front of it.
	rank := func(name string) int {
		switch {
		case name == logFiles[0]:
			return 0
		case strings.HasSuffix(name, ".log"):
			return 1
		}
		return 2
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(b, a)) })
	for _, name := range names {
		if err := st.fs.Remove(disk.Join(folder, name)); err != nil {
			return fail("remove", disk.Join(folder, name), err)
		}
	}
	if err := st.fs.SyncDir(folder); err != nil {
		return fail("sync", folder, err)
	}
	st.log.Info("Removed the metadata log of an earlier run: this node has no cluster id, so it may be of another cluster", "dir", folder)
	return nil
}
