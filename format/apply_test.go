package format

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/metaprops"
)

// tree has the content of all files below dir; folders have names that end with a slash.
func tree(t testing.TB, d disk.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := d.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := disk.Join(dir, e.Name())
		if e.IsDir() {
			out[name+"/"] = ""
			for name, content := range tree(t, d, name) {
				out[name] = content
			}
			continue
		}
		b, err := d.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// unchanged demands that all that was there is there as it was.
func unchanged(t testing.TB, d disk.FS, before map[string]string) {
	t.Helper()
	after := tree(t, d, "/")
	for name, content := range before {
		if got, ok := after[name]; !ok || got != content {
			t.Errorf("%s has changed: %q, it was %q", name, got, content)
		}
	}
}

func mustPlan(t testing.TB, o Options, d disk.FS) *Plan {
	t.Helper()
	p, err := newPlan(o, d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAppliedTwice(t *testing.T) {
	d := crashdisk.New()
	p := mustPlan(t, standaloneOptions("/d1", "/d2"), d)
	if _, err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	before, steps := tree(t, d, "/"), d.Steps()
	if removed, err := p.Apply(); err == nil || removed != nil || d.Steps() != steps {
		t.Errorf("applied twice: %v, %v", removed, err)
	}
	unchanged(t, d, before)
}

// Nothing that another run has formatted since the plan was made is overwritten.
func TestReplacedMeanwhile(t *testing.T) {
	tests := []struct {
		name  string
		other func(t *testing.T, d *crashdisk.Disk) // what happens between New and Apply
	}{
		{"the same node", func(t *testing.T, d *crashdisk.Disk) {
			if _, err := mustPlan(t, standaloneOptions("/d1", "/d2"), d).Apply(); err != nil {
				t.Fatal(err)
			}
		}},
		{"one of the directories", func(t *testing.T, d *crashdisk.Disk) { put(t, d, "/d2/meta.properties", v1) }},
		{"the metadata directory", func(t *testing.T, d *crashdisk.Disk) { put(t, d, "/d1/meta.properties", v2WithoutID) }},
		{"a node that runs already", func(t *testing.T, d *crashdisk.Disk) { put(t, d, metadataLog+"quorum-state", "{}") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := crashdisk.New()
			o := standaloneOptions("/d1", "/d2")
			o.Scram = []ScramArgument{NewScramArgument(`SCRAM-SHA-256=[name=alice,salt="c2FsdA==",saltedpassword="c2FsdA=="]`)}
			p := mustPlan(t, o, d)
			tt.other(t, d)
			before, locks := tree(t, d, "/"), 0
			p.disk = countingDisk{d, &locks}
			_, err := p.Apply()
			if !refused(ReplacedMeanwhile)(err) || !strings.HasSuffix(err.Error(), "has been formatted by somebody else meanwhile") {
				t.Errorf("got %v", err)
			}
			unchanged(t, d, before)
			for name := range tree(t, d, "/") {
				if _, was := before[name]; !was && !strings.HasSuffix(name, "/") {
					t.Errorf("%s is new", name)
				}
			}
			if locks != 0 {
				t.Errorf("%d locks are still held", locks)
			}
		})
	}
	// A disk that has failed since is told as such.
	d := crashdisk.New()
	p := mustPlan(t, standaloneOptions("/d1"), d)
	p.disk = brokenDisk{d, map[string]error{"ReadDir /d1": syscall.EIO}}
	if _, err := p.Apply(); !isA[*DirError](err) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
}

// countingDisk counts the locks that are held.
type countingDisk struct {
	disk.FS
	held *int
}

func (c countingDisk) count(release func(), err error) (func(), error) {
	if err != nil {
		return nil, err
	}
	*c.held++
	return func() { *c.held--; release() }, nil
}

func (c countingDisk) Lock(name string) (func(), error)    { return c.count(c.FS.Lock(name)) }
func (c countingDisk) LockDir(name string) (func(), error) { return c.count(c.FS.LockDir(name)) }

// bootstrapOptions are those of a run that removes the bootstrap.checkpoint in /d1 and /d3.
func bootstrapOptions() (Options, map[string]string) {
	o := standaloneOptions("/d1", "/d2", "/d3")
	o.MetadataLogDir = "/d2"
	return o, map[string]string{"/d1/bootstrap.checkpoint": "old", "/d3/bootstrap.checkpoint": "old", "/d2/": ""}
}

// Whatever step fails, removed has the files that are gone, Done the directories that are formatted, the metadata directory
// first, and no lock is left.
func TestRemovedAndDone(t *testing.T) {
	o, files := bootstrapOptions()
	whole := diskWith(t, files)
	before := whole.Steps()
	removed, err := mustPlan(t, o, whole).Apply()
	if err != nil || !slices.Equal(removed, []string{"/d1/bootstrap.checkpoint", "/d3/bootstrap.checkpoint"}) {
		t.Fatalf("removed %v, %v", removed, err)
	}
	most := 0
	for step := before + 1; step <= whole.Steps(); step++ {
		o, files := bootstrapOptions()
		d, locks := diskWith(t, files), 0
		p := mustPlan(t, o, d)
		p.disk = countingDisk{d, &locks}
		d.FailAt(step, syscall.ENOSPC)
		removed, err := p.Apply()
		at := "step " + d.LastStep()
		dirErr, ok := errors.AsType[*DirError](err)
		if !ok || !strings.HasPrefix(dirErr.Error(), "cannot "+dirErr.Op+" "+dirErr.Path+": no space left on device") || !strings.HasPrefix(dirErr.Path+"/", dirErr.Dir+"/") && dirErr.Op != "create" {
			t.Fatalf("%s: %#v", at, err)
		}
		if locks != 0 {
			t.Errorf("%s: %d locks are still held", at, locks)
		}
		var gone, done []string
		for _, dir := range []string{"/d2", "/d1", "/d3"} {
			_, was := files[dir+"/bootstrap.checkpoint"]
			if _, err := d.Stat(dir + "/bootstrap.checkpoint"); was && err != nil {
				gone = append(gone, dir+"/bootstrap.checkpoint")
			}
			if _, err := d.Stat(dir + "/meta.properties"); err == nil {
				done = append(done, dir)
			}
		}
		if !slices.Equal(removed, gone) {
			t.Errorf("%s: removed %v, but %v are gone", at, removed, gone)
		}
		// A file whose name is not durable yet may be there: the step that failed is the one that makes it so.
		if !slices.Equal(dirErr.Done, done) && !slices.Equal(append(slices.Clone(dirErr.Done), dirErr.Dir), done) {
			t.Errorf("%s: done %v, but %v are formatted", at, dirErr.Done, done)
		}
		most = max(most, len(dirErr.Done))
	}
	if most != 2 {
		t.Errorf("never more than %d directories were formatted before a failure", most)
	}
}

// As in Kafka, an empty folder in the place of the zero checkpoint is replaced. One that is not empty stays.
func TestFolderNamedLikeTheZeroCheckpoint(t *testing.T) {
	d := diskWith(t, map[string]string{metadataLog + zeroCheckpoint + "/": ""})
	if _, err := mustPlan(t, standaloneOptions("/d1", "/d2"), d).Apply(); err != nil {
		t.Fatal(err)
	}
	if info, err := d.Stat(metadataLog + zeroCheckpoint); err != nil || info.IsDir() {
		t.Errorf("it is still a folder, %v", err)
	}

	d = diskWith(t, map[string]string{metadataLog + zeroCheckpoint + "/notes": "mine", "/d2/": ""})
	before := tree(t, d, "/")
	_, err := mustPlan(t, standaloneOptions("/d1", "/d2"), d).Apply()
	if dirErr, ok := errors.AsType[*DirError](err); !ok || dirErr.Op != "replace" || dirErr.Path != metadataLog+zeroCheckpoint || !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("got %v", err)
	}
	unchanged(t, d, before)
	if after := tree(t, d, "/"); len(after) != len(before) {
		t.Errorf("there is %v, there was %v", after, before)
	}
}

// Where nothing is to be done, what earlier runs have left is made durable, as far as that goes.
func TestNothingToDo(t *testing.T) {
	d := diskWith(t, map[string]string{"/d1/meta.properties": v1})
	o := standaloneOptions("/d1")
	o.IgnoreFormatted = true
	p := mustPlan(t, o, d)
	before := d.Steps()
	if removed, err := p.Apply(); err != nil || removed != nil || d.Steps() == before || !strings.HasPrefix(d.LastStep(), "syncdir ") {
		t.Errorf("removed %v, %v, %d steps, the last is %s", removed, err, d.Steps()-before, d.LastStep())
	}
	p = mustPlan(t, o, d)
	d.FailAt(d.Steps()+1, syscall.EIO)
	if _, err := p.Apply(); err != nil {
		t.Errorf("got %v, though nothing was to be done", err)
	}
}

// chdir makes a working folder, in which it puts folders, files and links ("name -> target").
func chdir(t *testing.T, entries ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, e := range entries {
		var err error
		if name, target, ok := strings.Cut(e, " -> "); ok {
			err = os.Symlink(target, name)
		} else if strings.HasSuffix(e, "/") {
			err = os.MkdirAll(e, 0o755)
		} else {
			err = os.WriteFile(e, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// names has all that is in the working folder.
func names(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestOneDirectoryUnderTwoPaths(t *testing.T) {
	tests := []struct {
		name    string
		entries []string
		a, b    string
		one     bool
	}{
		{"a dot", []string{"d1/"}, "d1", "./d1", true},
		{"a dot at the end", []string{"d1/"}, "d1", "d1/.", true},
		{"two slashes", []string{"a/d1/"}, "a/d1", "a//d1", true},
		{"a link", []string{"d1/", "link -> d1"}, "d1", "link", true},
		{"a link above", []string{"a/d1/", "link -> a"}, "a/d1", "link/d1", true},
		{"dots", []string{"a/", "d1/"}, "d1", "a/../d1", true},
		{"dots behind a link", []string{"x/y/", "x/d1/", "d1/", "link -> x/y"}, "x/d1", "link/../d1", true},
		{"dots behind a link lead elsewhere", []string{"x/y/", "x/d1/", "d1/", "link -> x/y"}, "d1", "link/../d1", false},
		{"a name that begins alike", []string{"d1/", "d11/"}, "d1", "d11", false},
		{"missing: a dot", nil, "d1", "./d1", true},
		{"missing: a dot at the end", nil, "d1", "d1/.", true},
		{"missing: a dot between", nil, "a/d1", "a/./d1", true},
		{"missing: two slashes", nil, "a/d1", "a//d1", true},
		{"missing: a slash at the end", nil, "a/d1", "a/d1/", true},
		{"missing: a link above", []string{"a/", "link -> a"}, "a/d1", "link/d1", true},
		{"missing: a link far above", []string{"a/", "link -> a"}, "a/b/c/d1", "link/b/c/d1", true},
		{"missing: dots", []string{"a/"}, "d1", "a/../d1", true},
		{"missing: dots behind what is missing", nil, "d1", "a/../d1", true},
		{"missing: dots behind a link", []string{"x/y/", "link -> x/y"}, "x/d1", "link/../d1", true},
		{"missing: dots behind a link lead elsewhere", []string{"x/y/", "link -> x/y"}, "d1", "link/../d1", false},
		{"missing: of one name", []string{"a/", "b/"}, "a/d1", "b/d1", false},
		{"missing: one in the other", nil, "d1", "d1/d1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chdir(t, tt.entries...)
			before := names(t)
			p, err := New(nodeOptions(tt.a, tt.b))
			if tt.one {
				if want := tt.a + " and " + tt.b + " are one directory"; !refused(OneDirectory)(err) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v", err)
				}
				if after := names(t); !slices.Equal(after, before) {
					t.Errorf("there is %v, there was %v", after, before)
				}
				return
			}
			if err == nil {
				_, err = p.Apply()
			}
			e := metaprops.Load([]string{tt.a, tt.b}, "", nil)
			if err != nil || len(e.In(metaprops.Formatted)) != 2 || e.Dirs[0].Properties.DirectoryID == e.Dirs[1].Properties.DirectoryID {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

// Links are followed, but to nothing.
func TestLinks(t *testing.T) {
	tests := []struct {
		name    string
		entries []string
		dir     string
		real    string // where the files are, "" for an error
	}{
		{"to a directory", []string{"x/d1/", "link -> x/d1"}, "link", "x/d1"},
		{"above a directory", []string{"x/", "link -> x"}, "link/a/d1", "x/a/d1"},
		{"dots behind a link", []string{"x/y/", "link -> x/y"}, "link/../d1", "x/d1"},
		{"dots behind a link, deeper", []string{"x/y/", "link -> x/y"}, "link/../a/b/d1", "x/a/b/d1"},
		{"to nothing", []string{"link -> nothing"}, "link", ""},
		{"to itself", []string{"link -> link"}, "link", ""},
		{"to a file", []string{"file", "link -> file"}, "link", ""},
		{"above, to nothing", []string{"link -> nothing"}, "link/d1", ""},
		{"far above, to nothing", []string{"link -> nothing"}, "link/a/b/d1", ""},
		{"above, to itself", []string{"link -> link"}, "link/d1", ""},
		{"above, to a file", []string{"file", "link -> file"}, "link/d1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chdir(t, tt.entries...)
			p, err := New(standaloneOptions("first", tt.dir))
			if tt.real == "" {
				if dirErr, ok := errors.AsType[*DirError](err); !ok || dirErr.Dir != tt.dir || strings.Contains(dirErr.Error(), "exists") {
					t.Errorf("got %v", err)
				}
				if _, err := os.Lstat("first"); err == nil {
					t.Error("another directory was made")
				}
				return
			}
			if err == nil {
				_, err = p.Apply()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(tt.real, "meta.properties")); err != nil {
				t.Error(err)
			}
		})
	}
}
