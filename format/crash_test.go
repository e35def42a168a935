package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/metaprops"
)

// crashCase is a run of format on a disk on which anything may go wrong.
type crashCase struct {
	name    string
	before  map[string]string // files that are there, besides what setUp does
	setUp   func(*testing.T, disk.FS)
	options func() Options
}

func crashCases() []crashCase {
	id := "Wq9rPWnzQ4uv0sRyMKXc1w"
	node := func(o Options) Options {
		o.NodeID, o.NodeIDFrom, o.ClusterIDFrom = 1, "node.id", "--cluster-id"
		o.ControllerListener = checkpoint.Endpoint{Name: "CONTROLLER", Host: "c1", Port: 9093}
		o.Now = func() time.Time { return time.Unix(1_796_017_003, 0).UTC() }
		o.LocalHostName = func() string { return "c1" }
		if o.MetadataLogDir == "" {
			o.MetadataLogDir = o.LogDirs[0]
		}
		return o
	}
	list := "1@c1:9093:JEXY6aqzQY-32P5TStzaFg,2@c2:9093:MvDxzVmcRsaTz33bUuRU6A"
	kafka40, err := features.ParseRelease("4.0.0")
	if err != nil {
		panic(err)
	}
	topic := map[string]string{"/d2/topic-0/00000000000000000000.log": "data", "/d1/notes": "mine"}
	return []crashCase{
		{name: "standalone, one directory below missing parents", options: func() Options {
			return node(Options{Controller: true, LogDirs: []string{"/var/lib/kafka"}, Standalone: true, ClusterID: &id})
		}},
		{name: "no cluster id, metadata directory in the middle", before: topic, options: func() Options {
			return node(Options{Controller: true, LogDirs: []string{"/d1", "/d2", "/d3"}, MetadataLogDir: "/d2", Standalone: true,
				Scram: []ScramArgument{NewScramArgument(`SCRAM-SHA-256=[name=alice,salt="c2FsdA==",saltedpassword="c2FsdA=="]`)}})
		}},
		{name: "initial controllers, metadata directory of its own, leftovers of an older version", options: func() Options {
			return node(Options{Controller: true, LogDirs: []string{"/d1", "/d2"}, MetadataLogDir: "/meta", InitialControllers: &list, ClusterID: &id})
		}, before: map[string]string{"/d1/bootstrap.checkpoint": "old", "/meta/bootstrap.checkpoint": "old", "/d2/meta.properties.tmp": "torn",
			"/meta/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint": "torn"}},
		{name: "broker with two directories", before: topic, options: func() Options {
			return node(Options{LogDirs: []string{"/d1", "/d2"}, ClusterID: &id})
		}},
		{name: "server of Kafka 4.0, standalone, leftovers of a newer and an older version", options: func() Options {
			return node(Options{Controller: true, LogDirs: []string{"/d1", "/d2", "/d3"}, MetadataLogDir: "/d2", Standalone: true, ClusterID: &id, Server: kafka40,
				Scram: []ScramArgument{NewScramArgument(`SCRAM-SHA-256=[name=alice,salt="c2FsdA==",saltedpassword="c2FsdA=="]`)}})
		}, before: map[string]string{"/d1/bootstrap.checkpoint": "old", "/d2/bootstrap.checkpoint": "old", "/d3/bootstrap.checkpoint.tmp": "torn",
			"/d2/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint": "torn"}},
		{name: "server of Kafka 4.0, static voters, a zero checkpoint of another run", options: func() Options {
			return node(Options{Controller: true, StaticVoters: true, LogDirs: []string{"/d1", "/d2"}, ClusterID: &id, Server: kafka40})
		}, before: map[string]string{"/d1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint": "torn"}},
		{name: "server of Kafka 4.0, broker", before: topic, options: func() Options {
			return node(Options{LogDirs: []string{"/d1", "/d2"}, ClusterID: &id, Server: kafka40})
		}},
		{name: "directory added", options: func() Options {
			return node(Options{Controller: true, LogDirs: []string{"/d1", "/d2"}, Standalone: true, IgnoreFormatted: true})
		}, setUp: func(t *testing.T, fsys disk.FS) {
			o := node(Options{Controller: true, LogDirs: []string{"/d1"}, Standalone: true, ClusterID: &id})
			if err := formatOn(fsys, o); err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// runs makes the random ids of each run of format differ from those of the others.
var runs byte

func formatOn(fsys disk.FS, o Options) error {
	runs++
	o.Random = rand.NewChaCha8([32]byte{runs})
	p, err := newPlan(o, fsys)
	if err != nil {
		return err
	}
	_, err = p.Apply()
	return err
}

// disk returns the disk before the run.
func (c crashCase) disk(t *testing.T) *crashdisk.Disk {
	t.Helper()
	d := crashdisk.New()
	for name, content := range c.before {
		dir := name[:strings.LastIndexByte(name, '/')]
		if err := d.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := disk.Temp(d, name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, content); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if c.setUp != nil {
		c.setUp(t, d)
	}
	return d.Restart(crashdisk.Kept)
}

// The same command with --ignore-formatted ends formatted, wherever the run before it was killed.
func TestKilledAnywhere(t *testing.T) {
	for _, c := range crashCases() {
		t.Run(c.name, func(t *testing.T) {
			whole := c.disk(t)
			if err := formatOn(whole, c.options()); err != nil {
				t.Fatal(err)
			}
			c.check(t, whole, "undisturbed")
			for step := 1; step <= whole.Steps()+1; step++ {
				d := c.disk(t)
				d.CrashAt(step)
				err := formatOn(d, c.options())
				if step <= whole.Steps() && err == nil {
					t.Fatalf("the run says that all went well, but it was killed at step %d, %s", step, d.LastStep())
				}
				at := fmt.Sprintf("killed at step %d, %s", step, d.LastStep())
				c.checkAfterCrash(t, d.Kill(), at)
				for seed := range uint64(16) {
					c.checkAfterCrash(t, d.Restart(seed), fmt.Sprintf("%s, power lost with seed %d", at, seed))
				}
			}
		})
	}
}

// The same for a step that fails: the run says what failed, tidies up, and can be repeated.
func TestFailingAnywhere(t *testing.T) {
	for _, c := range crashCases() {
		t.Run(c.name, func(t *testing.T) {
			whole := c.disk(t)
			if err := formatOn(whole, c.options()); err != nil {
				t.Fatal(err)
			}
			for _, cause := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EACCES} {
				for step := 1; step <= whole.Steps(); step++ {
					d := c.disk(t)
					d.FailAt(step, cause)
					err := formatOn(d, c.options())
					at := fmt.Sprintf("%v at step %d of %d", cause, step, whole.Steps())
					var dirErr *DirError
					if err == nil && cause == syscall.EACCES {
						c.check(t, d, at) // a folder above that cannot be read is not ours to sync
						continue
					}
					if !errors.As(err, &dirErr) || !errors.Is(err, cause) || dirErr.Path == "" {
						t.Fatalf("%s: %v", at, err)
					}
					c.noTemporaries(t, d, at)
					c.checkAfterCrash(t, d, at)
				}
			}
		})
	}
}

// checkAfterCrash checks what an interrupted run left, runs the command again and checks that too.
func (c crashCase) checkAfterCrash(t *testing.T, d *crashdisk.Disk, at string) {
	t.Helper()
	o := c.options()
	// A node whose metadata directory alone is missing looks like one that lost a disk.
	e := metaprops.Load(o.LogDirs, o.MetadataLogDir, d)
	for _, dir := range e.Dirs {
		if dir.State == metaprops.Failed {
			t.Fatalf("%s: %v", at, dir.Err)
		}
	}
	if formatted := e.In(metaprops.Formatted); len(formatted) > 0 && !formattedDir(e, o.MetadataLogDir) {
		t.Fatalf("%s: %s is formatted, the metadata directory is not", at, formatted[0].Path)
	}
	if formattedDir(e, o.MetadataLogDir) && o.Controller {
		c.checkCheckpoint(t, d, at)
	}
	for _, dir := range e.In(metaprops.Formatted) {
		c.checkBootstrap(t, d, dir.Path, at)
	}
	o.IgnoreFormatted = true
	if err := formatOn(d, o); err != nil {
		t.Fatalf("%s: the next run: %v", at, err)
	}
	c.check(t, d, at)
	// What that run found done is durable too, though it was perhaps only in memory.
	for seed := range uint64(3) {
		c.check(t, d.Restart(seed), fmt.Sprintf("%s, next run, power lost with seed %d", at, seed))
	}
}

func formattedDir(e metaprops.Ensemble, path string) bool {
	for _, d := range e.In(metaprops.Formatted) {
		if d.Path == path {
			return true
		}
	}
	return false
}

// check demands a formatted node: files that agree, a zero checkpoint, nothing left over, nothing lost.
func (c crashCase) check(t *testing.T, d *crashdisk.Disk, at string) {
	t.Helper()
	o := c.options()
	e := metaprops.Load(o.LogDirs, o.MetadataLogDir, d)
	if n := len(e.In(metaprops.Formatted)); n != len(e.Dirs) {
		t.Fatalf("%s: %d of %d directories are formatted", at, n, len(e.Dirs))
	}
	if err := e.Verify(metaprops.Expect{NodeID: 1, NodeIDFrom: "test", Formatted: true}); err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	id, _ := e.ClusterID()
	if o.ClusterID != nil && id != *o.ClusterID {
		t.Fatalf("%s: cluster id %q", at, id)
	}
	for _, dir := range e.Dirs {
		if dir.Properties.ClusterID != id {
			t.Fatalf("%s: %s has the cluster id %q, another has %q", at, dir.Path, dir.Properties.ClusterID, id)
		}
		c.checkBootstrap(t, d, dir.Path, at)
	}
	if o.Controller {
		c.checkCheckpoint(t, d, at)
	}
	c.noTemporaries(t, d, at)
	for name, content := range c.before {
		if strings.Contains(name, "topic-0") || strings.Contains(name, "notes") {
			if b, err := d.ReadFile(name); string(b) != content {
				t.Fatalf("%s: %s has %q, %v", at, name, b, err)
			}
		}
	}
}

// checkBootstrap demands a whole bootstrap.checkpoint in a formatted directory where the server reads one, else none.
func (c crashCase) checkBootstrap(t *testing.T, d *crashdisk.Disk, dir, at string) {
	t.Helper()
	o := c.options()
	b, err := d.ReadFile(dir + "/" + checkpoint.BootstrapName)
	if o.Server == nil {
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: %s has still a bootstrap.checkpoint, %v", at, dir, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	got, err := checkpoint.ReadBootstrap(bytes.NewReader(b), dir)
	if err != nil || got.Header.Voters != nil || len(got.Features) != 3 || got.Records != 3+len(o.Scram) {
		t.Fatalf("%s: the bootstrap.checkpoint of %s has %+v, %v", at, dir, got, err)
	}
}

// checkCheckpoint demands a whole zero checkpoint whose voter is this node with the directory id of its metadata directory.
func (c crashCase) checkCheckpoint(t *testing.T, d *crashdisk.Disk, at string) {
	t.Helper()
	o := c.options()
	b, err := d.ReadFile(o.MetadataLogDir + "/" + checkpoint.MetadataDir + "/" + zeroCheckpoint)
	if o.Server != nil && !o.Standalone {
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: the server would begin with the zero checkpoint of another run, %v", at, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	in, err := checkpoint.NewReader(bytes.NewReader(b), "zero checkpoint")
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	types := map[string]int{}
	for r, err := range in.Records() {
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		types[r.Type]++
	}
	wantIDs := 1
	if o.ClusterID != nil || c.setUp != nil {
		wantIDs = 0
	}
	if o.Server != nil {
		if len(types) > 0 || len(in.Header.Voters) != 1 {
			t.Fatalf("%s: a zero checkpoint for an older server has voters only, not %v", at, types)
		}
	} else if types["FEATURE_LEVEL_RECORD"] == 0 || types["CLUSTER_ID_RECORD"] != wantIDs || types["USER_SCRAM_CREDENTIAL_RECORD"] != len(o.Scram) {
		t.Fatalf("%s: records %v", at, types)
	}
	var own uuid.UUID
	for _, dir := range metaprops.Load(o.LogDirs, o.MetadataLogDir, d).Dirs {
		if dir.Path == o.MetadataLogDir {
			own = dir.Properties.DirectoryID
		}
	}
	for _, v := range in.Header.Voters {
		if v.NodeID == 1 && v.DirectoryID != own {
			t.Fatalf("%s: the voter has the directory id %v, meta.properties %v", at, v.DirectoryID, own)
		}
	}
}

func (c crashCase) noTemporaries(t *testing.T, d *crashdisk.Disk, at string) {
	t.Helper()
	o := c.options()
	for _, dir := range append([]string{o.MetadataLogDir + "/" + checkpoint.MetadataDir, o.MetadataLogDir}, o.LogDirs...) {
		entries, err := d.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if _, was := c.before[name]; !was && (strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".part")) {
				t.Fatalf("%s: %s is left over", at, name)
			}
		}
	}
}

// BenchmarkFormat counts what a format costs on a disk that costs nothing.
func BenchmarkFormat(b *testing.B) {
	o := crashCases()[0].options()
	b.ReportAllocs()
	for b.Loop() {
		d := crashdisk.New()
		if err := formatOn(d, o); err != nil {
			b.Fatal(err)
		}
	}
}
