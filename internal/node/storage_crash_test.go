package node

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/metaprops"
)

// storageCrashCase is a start, after which the node learns an id, on a disk on which anything may go wrong.
type storageCrashCase struct {
	reason string
	s      settings
	files  files
	learn  string // the id that the node learns; "": none
	want   string // the id that it has in the end
}

var storageCrashCases = []storageCrashCase{
	{"first start of a broker, metadata directory in the middle", brokerOn("/d1", "/d2", "/var/lib/d3").metadataOn("/d2"), files{"/d1/lost+found/": ""}, "", ""},
	{"first start of an observer controller, metadata directory of its own", controllerOn("/d1", "/d2").metadataOn("/var/meta"), nil, "", ""},
	{"first start, and the id is learned", brokerOn("/d1", "/d2"), files{"/d2/meta.properties.tmp": "torn"}, clusterA, clusterA},
	{"the id is learned", controllerOn("/d1", "/d2", "/d3").metadataOn("/d3"), files{
		"/d1/meta.properties": metaProperties(2, "", dirA), "/d2/meta.properties": metaProperties(2, "", dirB), "/d3/meta.properties": metaProperties(2, "", dirC)}, clusterA, clusterA},
	{"the id is in one file", brokerOn("/d1", "/d2"), files{
		"/d1/meta.properties": metaProperties(2, "", dirA), "/d2/meta.properties": metaProperties(2, clusterA, dirB)}, "", clusterA},
	{"a directory has no id", controllerOn("/d1", "/d2"), files{
		"/d1/meta.properties": metaProperties(1, clusterA, ""), "/d2/meta.properties": metaProperties(1, clusterA, dirB)}, "", clusterA},
	{"a disk is added", controllerOn("/d1", "/d2", "/d3"), files{
		"/d1/meta.properties": metaProperties(1, clusterA, dirA), "/d2/meta.properties": metaProperties(1, clusterA, dirB)}, "", clusterA},
}

func (c *storageCrashCase) run(fsys disk.FS) (*storage, error) {
	st, _, err := openOn(fsys, c.s)
	if err != nil || c.learn == "" {
		return st, err
	}
	return st, st.PersistClusterID(c.learn)
}

func (c *storageCrashCase) dirs() []string {
	dirs := c.s.LogDirs
	if c.s.MetadataDir != dirs[0] && c.s.MetadataDir[:2] != "/d" {
		dirs = append([]string{c.s.MetadataDir}, dirs...)
	}
	return dirs
}

// ids are the directory ids that a disk has.
func (c *storageCrashCase) ids(t *testing.T, d *crashdisk.Disk, at string) map[string]uuid.UUID {
	t.Helper()
	ids := map[string]uuid.UUID{}
	for _, dir := range metaprops.Load(c.dirs(), "", d).In(metaprops.Formatted) {
		ids[dir.Path] = dir.Properties.DirectoryID
		if id := dir.Properties.ClusterID; id != "" && id != clusterA {
			t.Fatalf("%s: %s has the cluster id %q", at, dir.Path, id)
		}
	}
	return ids
}

// check checks that all is there, and that the directory ids of before are.
func (c *storageCrashCase) check(t *testing.T, d *crashdisk.Disk, before map[string]uuid.UUID, at string) {
	t.Helper()
	ensemble := metaprops.Load(c.dirs(), "", d)
	if err := ensemble.Verify(metaprops.Expect{NodeID: 1}); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	for _, dir := range ensemble.Dirs {
		p := dir.Properties
		if dir.State != metaprops.Formatted || p.ClusterID != c.want || p.DirectoryID == uuid.Nil {
			t.Fatalf("%s: %s is %+v, expected the cluster id %q", at, dir.Path, dir, c.want)
		}
		if id := before[dir.Path]; id != uuid.Nil && id != p.DirectoryID {
			t.Fatalf("%s: %s had the directory id %v, and has %v", at, dir.Path, id, p.DirectoryID)
		}
	}
}

// again starts the node on what a crash has left. What was there stays, and what the node then uses survives any loss of power.
func (c *storageCrashCase) again(t *testing.T, d *crashdisk.Disk, at string) {
	t.Helper()
	before := c.ids(t, d, at)
	for dir, b := range c.files {
		p, err := metaprops.Decode([]byte(b))
		if parent := disk.Parent(dir); err == nil && p.DirectoryID != uuid.Nil && before[parent] != p.DirectoryID {
			t.Fatalf("%s: %s had the directory id %v, and has %v", at, parent, p.DirectoryID, before[parent])
		}
	}
	if _, err := c.run(d); err != nil {
		t.Fatalf("%s: the next start: %v", at, err)
	}
	c.check(t, d, before, at)
	c.check(t, d.Restart(crashdisk.Lost), c.ids(t, d, at), at+", and the power goes after the next start")
}

func TestStorageIsKilledAnywhere(t *testing.T) {
	for _, c := range storageCrashCases {
		t.Run(c.reason, func(t *testing.T) {
			whole := c.files.disk(t)
			if _, err := c.run(whole); err != nil {
				t.Fatal(err)
			}
			c.again(t, whole.Restart(crashdisk.Lost), "undisturbed")
			for step := 1; step <= whole.Steps(); step++ {
				d := c.files.disk(t)
				d.CrashAt(step)
				c.run(d) // behind the metadata directory's rename a crash looks like failing data directories
				at := fmt.Sprintf("killed at step %d, %s", step, d.LastStep())
				c.again(t, d.Kill(), at)
				for seed := range uint64(16) {
					c.again(t, d.Restart(seed), fmt.Sprintf("%s, power lost with seed %d", at, seed))
				}
			}
		})
	}
}

// A step that fails stops the node with an *Error, or takes a data directory offline; the next start completes it.
func TestStorageFailsAnywhere(t *testing.T) {
	for _, c := range storageCrashCases {
		t.Run(c.reason, func(t *testing.T) {
			whole := c.files.disk(t)
			if _, err := c.run(whole); err != nil {
				t.Fatal(err)
			}
			for step := 1; step <= whole.Steps(); step++ {
				d := c.files.disk(t)
				d.FailAt(step, syscall.EIO)
				st, err := c.run(d)
				at := fmt.Sprintf("failed at step %d, %s", step, d.LastStep())
				for _, dir := range c.dirs() {
					temp := disk.Join(dir, metaprops.TempName)
					if _, err := d.Stat(temp); err == nil && c.files[temp] == "" {
						t.Fatalf("%s: it has left %s", at, temp)
					}
				}
				if err == nil && len(metaprops.Load(c.dirs(), "", c.files.disk(t)).In(metaprops.Formatted)) == 0 {
					if _, offline := st.LogDirIDs(); len(offline) == 0 {
						t.Fatalf("%s: it makes its first start without one of its directories", at)
					}
				}
				if err != nil {
					e, ok := errors.AsType[*Error](err)
					if !ok || !errors.Is(err, syscall.EIO) || e.What == "" || e.Fix == "" {
						t.Fatalf("%s: %v", at, err)
					}
				} else if p := stored(t, d, c.s.MetadataDir); p.ClusterID != st.ClusterID() || p.DirectoryID != st.DirectoryID() {
					t.Fatalf("%s: it runs with %+v, and the node takes itself for %q", at, p, st.ClusterID())
				}
				c.again(t, d.Kill(), at)
				c.again(t, d.Restart(crashdisk.Lost), at+", power lost")
			}
		})
	}
}

// A killed start that wipes is repeated: what is left of the log is no log that a node would go on with.
func TestWipeIsKilledAnywhere(t *testing.T) {
	folder := "/d1/__cluster_metadata-0/"
	f := files{"/d1/meta.properties": metaProperties(2, "", dirA), folder + "00000000000000000000-0000000000.checkpoint": "zero",
		folder + "00000000000000000000.log": "x", folder + "leader-epoch-checkpoint": "x", folder + "quorum-state": "x"}
	run := func(d *crashdisk.Disk) error {
		st, _, err := openOn(d, controllerOn("/d1"))
		if err != nil {
			return err
		}
		return st.WipeMetadataLog()
	}
	whole := f.disk(t)
	if err := run(whole); err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= whole.Steps(); step++ {
		d := f.disk(t)
		d.CrashAt(step)
		if err := run(d); err == nil {
			t.Fatalf("all went well, but it was killed at step %d, %s", step, d.LastStep())
		}
		for seed := range uint64(16) {
			left := d.Restart(seed)
			_, segment := left.Stat(folder + "00000000000000000000.log")
			_, epochs := left.Stat(folder + "leader-epoch-checkpoint")
			if segment != nil && epochs == nil {
				t.Fatalf("killed at step %d, %s, seed %d: epochs without a segment look like a lost log", step, d.LastStep(), seed)
			}
			if err := run(left); err != nil {
				t.Fatal(err)
			}
			if entries, err := left.ReadDir(folder); err != nil || len(entries) != 1 {
				t.Fatalf("killed at step %d, %s, seed %d: left is %v, %v", step, d.LastStep(), seed, entries, err)
			}
		}
	}
}
