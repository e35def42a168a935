package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
	"kstorage/metaprops"
)

const (
	clusterA = "Wq9rPWnzQ4uv0sRyMKXc1w"
	clusterB = "AAAAAAAAQ4uv0sRyMKXc1w"
	dirA     = "IPSRFnY5RtqEmJV5clXmdA"
	dirB     = "JEXY6aqzQY-32P5TStzaFg"
	dirC     = "MvDxzVmcRsaTz33bUuRU6A"
)

func dirID(text string) uuid.UUID {
	id, err := kafkaid.Parse(text)
	if err != nil {
		panic(err)
	}
	return id
}

// metaProperties is a file of node 1; "" stands for what it lacks.
func metaProperties(version int, clusterID, directoryID string) string {
	text := fmt.Sprintf("version=%d\nnode.id=1\n", version)
	if clusterID != "" {
		text += "cluster.id=" + clusterID + "\n"
	}
	if directoryID != "" {
		text += "directory.id=" + directoryID + "\n"
	}
	return text
}

// files are a disk's, by path; a name that ends with a slash is a folder.
type files map[string]string

func (f files) disk(t testing.TB) *crashdisk.Disk {
	t.Helper()
	d := crashdisk.New()
	for name, content := range f {
		dir := name[:strings.LastIndexByte(name, '/')]
		if err := d.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir+"/" == name {
			continue
		}
		if err := disk.Temp(d, name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, content); return err }); err != nil {
			t.Fatal(err)
		}
	}
	return d.Restart(crashdisk.Kept)
}

// roles of the node under test, which is node 1.
func brokerOn(dirs ...string) settings {
	return settings{File: "conf/server.properties", NodeID: 1, NodeIDFrom: "node.id (conf/server.properties line 2)", IsBroker: true, LogDirs: dirs, MetadataDir: dirs[0]}
}

func controllerOn(dirs ...string) settings {
	s := brokerOn(dirs...)
	s.IsBroker, s.IsController, s.Raft.NodeID = false, true, 1
	return s
}

func voterOn(dirs ...string) settings {
	s := controllerOn(dirs...)
	s.Raft.StaticVoters = []raft.Voter{{Key: raft.ReplicaKey{NodeID: 1}}}
	return s
}

func (s settings) metadataOn(dir string) settings {
	s.MetadataDir = dir
	return s
}

// opens makes the random ids of each start differ from those of the others.
var opens byte

// openOn opens the storage of a node and returns what it logged.
func openOn(fsys disk.FS, s settings) (*storage, string, error) {
	opens++
	var log bytes.Buffer
	now := func() time.Time { return time.Unix(1_796_017_003, 0).UTC() }
	st, err := openStorage(fsys, &s, rand.NewChaCha8([32]byte{opens}), now, slog.New(slog.NewTextHandler(&log, nil)))
	return st, log.String(), err
}

// stored reads the file of a directory.
func stored(t testing.TB, fsys disk.FS, dir string) metaprops.Properties {
	t.Helper()
	b, err := fsys.ReadFile(disk.Join(dir, metaprops.FileName))
	if err != nil {
		t.Fatal(err)
	}
	p, err := metaprops.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// captureLog returns what st logs from now on.
func captureLog(st *storage) *bytes.Buffer {
	var log bytes.Buffer
	st.log = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

func TestStorageIsRefused(t *testing.T) {
	formatted := metaProperties(1, clusterA, dirA)
	const notFormatted, noFile = "No readable meta.properties files found.", "No `meta.properties` found in "
	const zero = "/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
	tests := []struct {
		reason string
		s      settings
		files  files
		broken map[string]error
		want   []string // parts of the error with its way out
	}{
		{"a static voter that was never formatted", voterOn("/d1", "/d2"), nil, nil,
			[]string{notFormatted, "/d1, /d2", "kstorage format --config conf/server.properties --cluster-id ID"}},
		{"a voter of which the zero checkpoint is left", controllerOn("/d1", "/d2"), files{"/d1" + zero: "x"}, nil,
			[]string{notFormatted, "/d1, /d2", "/d1/__cluster_metadata-0", "kstorage format --config conf/server.properties --standalone"}},
		{"a voter of which a later snapshot is left", controllerOn("/d1", "/d2").metadataOn("/d2"), files{"/d2/__cluster_metadata-0/00000000000000000175-0000000002.checkpoint": "x"}, nil,
			[]string{notFormatted, "/d1, /d2", "/d2/__cluster_metadata-0"}},
		{"a voter whose format was killed", controllerOn("/d1"), files{"/d1/__cluster_metadata-0/x.checkpoint.part": ""}, nil, []string{notFormatted, "/d1"}},
		{"a broker that lost the file of its metadata", brokerOn("/d1"), files{"/d1" + zero: "x"}, nil, []string{noFile + "/d1", "/d1/__cluster_metadata-0"}},
		{"a broker that lost the file of its partitions", brokerOn("/d1", "/d2"), files{"/d2/topic-0/x.log": ""}, nil, []string{noFile + "/d2", "/d2/topic-0"}},
		{"another folder in a new directory", brokerOn("/d1"), files{"/d1/backup/": ""}, nil, []string{noFile + "/d1", "/d1/backup"}},
		{"a data file in a new directory", brokerOn("/d1"), files{"/d1/recovery-point-offset-checkpoint": "0\n0\n"}, nil, []string{noFile + "/d1", "/d1/recovery-point-offset-checkpoint"}},
		{"a segment in a new directory", brokerOn("/d1"), files{"/d1/00000000000000000000.log": ""}, nil, []string{noFile + "/d1", "/d1/00000000000000000000.log"}},
		{"several problems of a first start", brokerOn("/d1", "/d2"), files{"/d1/backup/": "", "/d2/topic-0/": ""}, nil, []string{noFile + "/d1", noFile + "/d2"}},
		{"a first start with a disk that fails", brokerOn("/d1", "/d2"), files{"/d2/": ""}, map[string]error{"/d2": syscall.EIO}, []string{notFormatted, "/d2", "input/output error"}},
		{"a first start where nothing may be written", brokerOn("/d1"), files{"/d1/": ""}, map[string]error{"/d1": syscall.EROFS},
			[]string{"/d1", "read-only file system", fmt.Sprintf("user id %d", os.Geteuid())}},

		{"a controller without its metadata directory", controllerOn("/d1", "/d2"), files{"/d2/meta.properties": formatted}, nil,
			[]string{noFile + "/d1", "/d2", "is the disk mounted?", "kstorage format --config conf/server.properties --ignore-formatted --no-initial-controllers"}},
		{"a static voter without its metadata directory", voterOn("/d1", "/d2"), files{"/d2/meta.properties": formatted, "/d1/": ""}, nil,
			[]string{noFile + "/d1", "--ignore-formatted\n"}},
		{"a controller with its log, but without the file", controllerOn("/d1", "/d2"), files{"/d2/meta.properties": formatted, "/d1" + zero: "x"}, nil,
			[]string{noFile + "/d1", "/d1/__cluster_metadata-0", "directory.id"}},
		{"a data directory with partitions, but without the file", brokerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/topic-0/": ""}, nil, []string{noFile + "/d2", "/d2/topic-0"}},
		{"the metadata log elsewhere", controllerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/meta.properties": metaProperties(1, clusterA, dirB), "/d2" + zero: "x"}, nil,
			[]string{"/d2/__cluster_metadata-0", "the metadata directory is /d1", "set metadata.log.dir to /d2"}},
		{"the metadata log elsewhere, nothing formatted", controllerOn("/d1", "/d2"), files{"/d2/__cluster_metadata-0/": ""}, nil, []string{"the metadata directory is /d1"}},
		{"a partition of a topic", brokerOn("/d1"), files{"/d1/meta.properties": formatted, "/d1/my-topic-12/": ""}, nil, []string{"/d1/my-topic-12", "has no topics"}},
		{"a partition that was to be deleted", brokerOn("/d1"), files{"/d1/meta.properties": formatted, "/d1/t-0.0123456789abcdef0123456789abcdef-delete/": ""}, nil, []string{"-delete", "has no topics"}},
		{"another folder", brokerOn("/d1"), files{"/d1/meta.properties": formatted, "/d1/.snapshots/": ""}, nil, []string{"/d1/.snapshots", "no partition"}},

		{"a file that has lost a line", controllerOn("/d1"), files{"/d1/meta.properties": "version=1\nnode.id=1\ndirectory.id=" + dirA + "\n"}, nil,
			[]string{"cannot decode /d1/meta.properties: cluster.id was not found.", "correct cluster.id in /d1/meta.properties"}},
		{"another node", brokerOn("/d1"), files{"/d1/meta.properties": "version=1\nnode.id=7\ncluster.id=" + clusterA + "\n"}, nil,
			[]string{"Stored node id 7 doesn't match previous node id 1 in /d1/meta.properties.", "conf/server.properties line 2"}},
		{"two clusters", brokerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/meta.properties": metaProperties(2, clusterB, dirB)}, nil,
			[]string{"Invalid cluster.id in: /d2/meta.properties. Expected " + clusterA + ", but read " + clusterB}},
		{"a cloned disk", brokerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/meta.properties": formatted}, nil, []string{"Duplicate directory ID " + dirA, "/d1 and /d2"}},
		{"a reserved directory id", brokerOn("/d1"), files{"/d1/meta.properties": metaProperties(1, clusterA, "AAAAAAAAAAAAAAAAAAAAAQ")}, nil, []string{"Invalid reserved directory ID"}},
		{"a file from before KRaft", brokerOn("/d1"), files{"/d1/meta.properties": "version=0\nbroker.id=1\ncluster.id=" + clusterA + "\n"}, nil, []string{"/d1/meta.properties is of version 0", "migrate"}},
		{"an empty file", brokerOn("/d1"), files{"/d1/meta.properties": ""}, nil, []string{"/d1/meta.properties is empty", "restore"}},
		{"an empty cluster id", brokerOn("/d1"), files{"/d1/meta.properties": "version=1\nnode.id=1\ncluster.id=\n"}, nil, []string{"/d1/meta.properties has an empty cluster.id"}},
		{"a version of the future in the metadata directory", brokerOn("/d1"), files{"/d1/meta.properties": "version=9\n"}, nil, []string{"/d1/meta.properties", "Unknown meta.properties version number 9"}},
		{"a metadata directory that cannot be searched", brokerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/meta.properties": metaProperties(1, clusterA, dirB)},
			map[string]error{"/d1": syscall.EACCES}, []string{"metadata directory", "/d1", "permission denied for user id"}},
		{"a broker none of whose log directories works", brokerOn("/d1").metadataOn("/meta"), files{"/meta/meta.properties": formatted, "/d1/": ""},
			map[string]error{"/d1": syscall.EIO}, []string{"none of the log directories can be used", "/d1"}},
		{"a directory that is a file", brokerOn("/d1"), files{"/d1": "x"}, nil, []string{"/d1", "not a directory"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			d := test.files.disk(t)
			st, _, err := openOn(&brokenDisk{d, test.broken}, test.s)
			if err == nil {
				st.Close()
				t.Fatal("it starts")
			}
			text := ""
			for _, err := range unjoin(err) {
				e, ok := errors.AsType[*Error](err)
				if !ok || e.Fix == "" {
					t.Fatalf("%#v is no *Error with a way out", err)
				}
				text += e.Error() + "\n" + e.Fix + "\n"
			}
			for _, part := range test.want {
				if !strings.Contains(text, part) {
					t.Errorf("the error lacks %q:\n%s", part, text)
				}
			}
			for _, dir := range test.s.LogDirs {
				if _, had := test.files[dir+"/meta.properties"]; !had {
					if _, err := d.Stat(dir + "/meta.properties"); err == nil {
						t.Errorf("%s has got a file", dir)
					}
				}
			}
		})
	}
}

// brokenDisk fails in all that concerns some directories.
type brokenDisk struct {
	disk.FS
	broken map[string]error
}

func (d *brokenDisk) check(op, name string) error {
	for dir, err := range d.broken {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return nil
}

func (d *brokenDisk) ReadFile(name string) ([]byte, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	return d.FS.ReadFile(name)
}

func (d *brokenDisk) Access(name string) error {
	if err := d.check("access", name); err != nil {
		return err
	}
	return d.FS.Access(name)
}

func (d *brokenDisk) Create(name string, perm fs.FileMode) (disk.File, error) {
	if err := d.check("create", name); err != nil {
		return nil, err
	}
	return d.FS.Create(name, perm)
}

func (d *brokenDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	return d.FS.ReadDir(name)
}

func TestStorageOpens(t *testing.T) {
	formatted := metaProperties(1, clusterA, dirA)
	waiting := metaProperties(2, "", dirA)
	type want struct {
		version   metaprops.Version
		clusterID string
		id        string // "": a fresh one
	}
	tests := []struct {
		reason string
		s      settings
		files  files
		broken map[string]error
		want   map[string]want // nil: as it was
		log    []string
	}{
		{"a formatted node", controllerOn("/d1"), files{"/d1/meta.properties": formatted, "/d1/__cluster_metadata-0/x": ""}, nil, nil,
			[]string{`msg="Found meta.properties" file=/d1/meta.properties version=1 nodeId=1 directoryId=` + dirA + " clusterId=" + clusterA}},
		{"a broker's first start", brokerOn("/var/d1", "/d2"), nil, nil, map[string]want{"/var/d1": {version: 2}, "/d2": {version: 2}},
			[]string{`msg="Wrote meta.properties" file=/d2/meta.properties version=2 nodeId=1 directoryId=`}},
		{"an observer controller's first start, metadata elsewhere", controllerOn("/d1").metadataOn("/meta"), nil, nil, map[string]want{"/d1": {version: 2}, "/meta": {version: 2}}, nil},
		{"leftovers in a new directory", brokerOn("/d1"), files{"/d1/lost+found/": "", "/d1/.lock": "", "/d1/meta.properties.tmp": "torn", "/d1/notes": "", "/d1/__cluster_metadata-0/": ""}, nil,
			map[string]want{"/d1": {version: 2}}, []string{"lost+found"}},
		{"plain files and lost+found in a formatted directory", brokerOn("/d1"), files{"/d1/meta.properties": formatted, "/d1/lost+found/": "", "/d1/notes": "", "/d1/recovery-point-offset-checkpoint": ""}, nil, nil,
			[]string{`msg="Ignoring lost+found; a Kafka broker refuses to start with it" dirs=/d1`}},
		{"a disk is added", controllerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted}, nil, map[string]want{"/d1": {1, clusterA, dirA}, "/d2": {1, clusterA, ""}},
			[]string{"level=WARN", "dir=/d2", "mounted"}},
		{"a disk is added before the id is known", brokerOn("/d1", "/d2"), files{"/d2/meta.properties": waiting}, nil, map[string]want{"/d2": {2, "", dirA}, "/d1": {version: 2}}, nil},
		{"a file without a directory id", brokerOn("/d1"), files{"/d1/meta.properties": metaProperties(1, clusterA, "")}, nil, map[string]want{"/d1": {1, clusterA, ""}}, nil},
		{"an id that stands in some files", brokerOn("/d1", "/d2", "/d3"), files{"/d1/meta.properties": waiting, "/d2/meta.properties": metaProperties(2, clusterA, dirB), "/d3/meta.properties": metaProperties(2, "", dirC)}, nil,
			map[string]want{"/d1": {2, clusterA, dirA}, "/d2": {2, clusterA, dirB}, "/d3": {2, clusterA, dirC}}, nil},
		{"a failed data disk", brokerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/meta.properties": metaProperties(1, clusterA, dirB)}, map[string]error{"/d2": syscall.EIO},
			map[string]want{"/d1": {1, clusterA, dirA}}, []string{"level=WARN", "offline", "dir=/d2", "input/output error"}},
		{"a data directory of the future", brokerOn("/d1", "/d2"), files{"/d1/meta.properties": formatted, "/d2/meta.properties": "version=9\n"}, nil,
			map[string]want{"/d1": {1, clusterA, dirA}}, []string{"offline", "dir=/d2", "Unknown meta.properties version number 9"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			d := test.files.disk(t)
			st, log, err := openOn(&brokenDisk{d, test.broken}, test.s)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			for dir, want := range test.want {
				p := stored(t, d, dir)
				if p.Version != want.version || p.ClusterID != want.clusterID || p.NodeID != 1 || p.ClusterID != st.ClusterID() {
					t.Errorf("%s has %+v, expected %+v; the node's cluster id is %q", dir, p, want, st.ClusterID())
				}
				if p.DirectoryID == uuid.Nil || want.id != "" && p.DirectoryID != dirID(want.id) {
					t.Errorf("%s has the directory id %v, expected %s", dir, p.DirectoryID, want.id)
				}
			}
			for name, content := range test.files {
				if b, _ := d.ReadFile(name); test.want == nil && string(b) != content {
					t.Errorf("%s has changed: %s", name, b)
				}
			}
			for _, part := range test.log {
				if !strings.Contains(log, part) {
					t.Errorf("the log lacks %q:\n%s", part, log)
				}
			}
			if got, want := st.DirectoryID(), stored(t, d, test.s.MetadataDir).DirectoryID; got != want {
				t.Errorf("DirectoryID is %v, the file has %v", got, want)
			}
			var registered []uuid.UUID
			for _, dir := range test.s.LogDirs {
				if test.broken[dir] == nil && (test.want == nil || test.want[dir].version > 0) {
					registered = append(registered, stored(t, d, dir).DirectoryID)
				}
			}
			if got, _ := st.LogDirIDs(); !slices.Equal(got, registered) {
				t.Errorf("a broker registers %v, expected %v", got, registered)
			}
			for dir := range test.want {
				if _, err := d.Stat(dir + "/.lock"); err != nil {
					t.Errorf("%s: %v", dir, err)
				}
				if _, err := d.Stat(dir + "/meta.properties.tmp"); err == nil {
					t.Errorf("%s has a file with its temporary name", dir)
				}
			}
		})
	}
}

func TestPersistClusterID(t *testing.T) {
	d := files{
		"/d1/meta.properties": metaProperties(2, "", dirA), "/d2/meta.properties": metaProperties(2, "", dirB), "/d3/meta.properties": metaProperties(2, "", dirC),
	}.disk(t)
	fsys := &brokenDisk{FS: d}
	st, _, err := openOn(fsys, brokerOn("/d1", "/d2", "/d3"))
	if err != nil {
		t.Fatal(err)
	}
	if online, _ := st.LogDirIDs(); st.ClusterID() != "" || len(online) != 3 {
		t.Fatalf("the node has the id %q and the directories %v", st.ClusterID(), online)
	}
	fsys.broken = map[string]error{"/d3": syscall.EIO}
	if err := st.PersistClusterID(clusterA); err != nil || st.ClusterID() != clusterA {
		t.Fatalf("%v, the id is %q", err, st.ClusterID())
	}
	if p := stored(t, d, "/d2"); p != (metaprops.Properties{Version: 2, NodeID: 1, ClusterID: clusterA, DirectoryID: dirID(dirB)}) {
		t.Errorf("/d2 has %+v", p)
	}
	if online, offline := st.LogDirIDs(); len(offline) != 1 || offline[0] != dirID(dirC) || len(online) != 2 {
		t.Errorf("offline is %v, online %v; /d3 failed", offline, online)
	}
	steps := d.Steps()
	if err := st.PersistClusterID(clusterA); err != nil || d.Steps() != steps {
		t.Errorf("the same id again: %v, %d steps", err, d.Steps()-steps)
	}
	err = st.PersistClusterID(clusterB)
	if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Error(), clusterA) || !strings.Contains(e.Error(), clusterB) || !strings.Contains(e.Error(), "/d1/meta.properties") {
		t.Errorf("another id: %v", err)
	}
	if p := stored(t, d, "/d1"); p.ClusterID != clusterA {
		t.Errorf("/d1 has %q", p.ClusterID)
	}
}

func TestPersistClusterIDWithoutMetadataDirectory(t *testing.T) {
	d := files{"/d1/meta.properties": metaProperties(2, "", dirA), "/d2/meta.properties": metaProperties(2, "", dirB)}.disk(t)
	fsys := &brokenDisk{FS: d}
	st, _, err := openOn(fsys, brokerOn("/d1", "/d2").metadataOn("/d2"))
	if err != nil {
		t.Fatal(err)
	}
	fsys.broken = map[string]error{"/d2": syscall.ENOSPC}
	err = st.PersistClusterID(clusterA)
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(e, syscall.ENOSPC) || !strings.Contains(e.What, "/d2/meta.properties.tmp") {
		t.Errorf("%v", err)
	}
	if p := stored(t, d, "/d1"); p.ClusterID != "" || st.ClusterID() != "" {
		t.Errorf("/d1 has %q, the node %q: nothing may have changed", p.ClusterID, st.ClusterID())
	}
}

func TestWipeMetadataLog(t *testing.T) {
	folder := "/d1/__cluster_metadata-0/"
	zero := folder + "00000000000000000000-0000000000.checkpoint"
	gone := []string{
		"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", "00000000000000000024.snapshot",
		"00000000000000000175-0000000002.checkpoint", "x.checkpoint.part", "leader-epoch-checkpoint", "partition.metadata", "quorum-state", "quorum-state.tmp",
	}
	f := files{"/d1/meta.properties": metaProperties(2, "", dirA), zero: "zero", folder + "notes": "mine"}
	for _, name := range gone {
		f[folder+name] = "x"
	}
	d := f.disk(t)
	st, _, err := openOn(d, controllerOn("/d1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.WipeMetadataLog(); err != nil {
		t.Fatal(err)
	}
	left := d.Restart(crashdisk.Lost)
	entries, err := left.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 || entries[0].Name() != "00000000000000000000-0000000000.checkpoint" || entries[1].Name() != "notes" {
		t.Errorf("left is %v, expected the zero checkpoint and what is none of ours", entries)
	}
	stored(t, left, "/d1")
	if err := st.WipeMetadataLog(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// One directory under two paths is only known to the operating system.
func TestStorageOfLinkedDirectory(t *testing.T) {
	dir := t.TempDir()
	d1, d2 := filepath.Join(dir, "d1"), filepath.Join(dir, "d2")
	if err := errors.Join(os.Mkdir(d1, 0o755), os.Symlink(d1, d2)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openOn(disk.OS, brokerOn(d1, d2)); err == nil || !strings.Contains(err.Error(), d1+" and "+d2+" are one directory") {
		t.Errorf("%v", err)
	}
	// A folder behind a link is a folder.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "t"), 0o755), os.Symlink(filepath.Join(dir, "t"), filepath.Join(d1, "topic-0"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openOn(disk.OS, brokerOn(d1)); err == nil || !strings.Contains(err.Error(), "topic-0") {
		t.Errorf("%v", err)
	}
}

const holdVariable = "KSTORAGE_TEST_HOLD"

// TestHoldStorage is the other process of TestStorageIsLocked; alone it does nothing.
func TestHoldStorage(t *testing.T) {
	dir := os.Getenv(holdVariable)
	if dir == "" {
		return
	}
	st, _, err := openOn(disk.OS, brokerOn(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	fmt.Println("holding")
	io.Copy(io.Discard, os.Stdin)
}

func TestStorageIsLocked(t *testing.T) {
	held, free := t.TempDir(), t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHoldStorage$", "-test.v")
	cmd.Env = append(os.Environ(), holdVariable+"="+held)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []byte
	for buf := make([]byte, 100); !bytes.Contains(said, []byte("holding")); {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		said = append(said, buf[:n]...)
	}
	_, _, err = openOn(disk.OS, brokerOn(free, held))
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, disk.ErrLocked) || !strings.Contains(e.What, held) || !strings.Contains(e.What, fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("%v: expected the directory and the process %d", err, cmd.Process.Pid)
	}
	in.Close()
	go io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	st, _, err := openOn(disk.OS, brokerOn(held))
	if err != nil {
		t.Fatalf("after its end: %v", err)
	}
	st.Close()
}
