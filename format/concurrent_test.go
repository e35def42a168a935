package format

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/metaprops"
)

// The test binary, started with this variable, is another process that formats. It reads runs from its standard input.
const otherProcess = "FORMAT_TEST_OTHER_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(otherProcess) == "" {
		os.Exit(m.Run())
	}
	for in := json.NewDecoder(os.Stdin); ; {
		var r race
		if err := in.Decode(&r); err != nil {
			return // the end of the tests
		}
		fmt.Println(r.run(disk.OS))
	}
}

// race is a run of format on a standalone controller with three directories, which another run wants to format too.
type race struct {
	Dir    string // the three are in it
	Ignore bool   // --ignore-formatted
}

func (r race) options() Options {
	o := standaloneOptions(filepath.Join(r.Dir, "d1"), filepath.Join(r.Dir, "d2"), filepath.Join(r.Dir, "d3"))
	o.MetadataLogDir, o.IgnoreFormatted = o.LogDirs[1], r.Ignore
	o.Random = nil // each run draws other ids
	return o
}

// What becomes of a run. Everything else is an error of ours.
const (
	formatted = "formatted"
	late      = "the other was first"
	kept      = "the other keeps it out"
)

func (r race) run(fsys disk.FS) string {
	p, err := newPlan(r.options(), fsys)
	if err == nil {
		_, err = p.Apply()
	}
	switch {
	case err == nil && len(p.Format) == 3:
		return formatted
	case err == nil && len(p.Format) == 0, isA[*AlreadyFormattedError](err), refused(ReplacedMeanwhile)(err):
		return late
	case errors.Is(err, disk.ErrLocked):
		return kept
	}
	return strings.ReplaceAll(fmt.Sprintf("error: %v", err), "\n", "; ")
}

// check demands that one of two runs has formatted the node, that the other one knows, and that the files are of one run.
func (r race) check(t *testing.T, at, first, second string) {
	t.Helper()
	switch [2]string{first, second} {
	case [2]string{formatted, late}, [2]string{formatted, kept}, [2]string{late, formatted}, [2]string{kept, formatted}:
	default:
		t.Errorf("%s: one run: %s; the other: %s", at, first, second)
	}
	o := r.options()
	e := metaprops.Load(o.LogDirs, o.MetadataLogDir, nil)
	if err := e.Verify(metaprops.Expect{NodeID: 1, NodeIDFrom: "test", Formatted: true}); err != nil || len(e.In(metaprops.Formatted)) != 3 {
		t.Fatalf("%s: %+v, %v", at, e.Dirs, err)
	}
	b, err := os.ReadFile(filepath.Join(o.MetadataLogDir, checkpoint.MetadataDir, zeroCheckpoint))
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	in, err := checkpoint.NewReader(bytes.NewReader(b), zeroCheckpoint)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	for _, err := range in.Records() {
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
	}
	if own := e.Dirs[1].Properties.DirectoryID; len(in.Header.Voters) != 1 || in.Header.Voters[0].DirectoryID != own {
		t.Errorf("%s: the voters are %v, the metadata directory has the id %v", at, in.Header.Voters, own)
	}
	filepath.WalkDir(r.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(path, ".tmp") || strings.HasSuffix(path, ".part") {
			t.Errorf("%s: %s is left over, %v", at, path, err)
		}
		return nil
	})
}

// start is where a race begins.
func (r race) start(t *testing.T, exist bool) {
	t.Helper()
	if !exist {
		return
	}
	for _, dir := range r.options().LogDirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// races gives n races, in turn with and without --ignore-formatted, with directories that exist and such that do not.
func races(t *testing.T, n int, f func(r race, at string)) {
	dir := t.TempDir()
	for i := range n {
		r := race{filepath.Join(dir, fmt.Sprint(i)), i%2 == 1}
		exist := i/2%2 == 1
		r.start(t, exist)
		f(r, fmt.Sprintf("race %d (-g: %v, directories exist: %v)", i, r.Ignore, exist))
		if err := os.RemoveAll(r.Dir); err != nil {
			t.Fatal(err)
		}
	}
}

// The second run comes between any two steps of the first, as a whole.
func TestOtherRunInBetween(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		exist := !ignore
		dir := t.TempDir()
		for step := 1; ; step++ {
			r := race{filepath.Join(dir, fmt.Sprint(step)), ignore}
			r.start(t, exist)
			at, second := "", ""
			calls := 0
			first := r.run(hookedDisk{unsynced{disk.OS}, func(call string) {
				if calls++; calls == step {
					at, second = fmt.Sprintf("-g: %v, directories exist: %v, before %s", ignore, exist, strings.ReplaceAll(call, r.Dir+"/", "")), r.run(unsynced{disk.OS})
				}
			}})
			if second == "" {
				break // the first run has fewer steps
			}
			r.check(t, at, first, second)
		}
	}
}

// Two goroutines share the locks of fcntl, but not those of flock.
func TestTwoGoroutines(t *testing.T) {
	races(t, 60, func(r race, at string) {
		results, ready := make(chan string), make(chan bool)
		for range 2 {
			go func() {
				<-ready
				results <- r.run(unsynced{disk.OS})
			}()
		}
		close(ready)
		r.check(t, at, <-results, <-results)
	})
}

func TestTwoProcesses(t *testing.T) {
	var in []io.Writer
	var out []*bufio.Reader
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), otherProcess+"=1")
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			stdin.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}()
		in, out = append(in, stdin), append(out, bufio.NewReader(stdout))
	}
	both := io.MultiWriter(in...)
	races(t, 60, func(r race, at string) {
		if err := json.NewEncoder(both).Encode(r); err != nil {
			t.Fatal(err)
		}
		var results [2]string
		for i := range out {
			line, err := out[i].ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			results[i] = strings.TrimSpace(line)
		}
		r.check(t, at, results[0], results[1])
	})
}

// unsynced is a disk that is fast because it makes nothing durable.
type unsynced struct{ disk.FS }

func (unsynced) SyncDir(string) error { return nil }

func (u unsynced) Create(name string, perm fs.FileMode) (disk.File, error) {
	f, err := u.FS.Create(name, perm)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ disk.File }

func (unsyncedFile) Sync() error { return nil }

// hookedDisk calls a function before each call.
type hookedDisk struct {
	disk.FS
	before func(call string)
}

func (h hookedDisk) ReadFile(name string) ([]byte, error) {
	h.before("ReadFile " + name)
	return h.FS.ReadFile(name)
}

func (h hookedDisk) Open(name string) (disk.Reader, error) {
	h.before("Open " + name)
	return h.FS.Open(name)
}

func (h hookedDisk) Stat(name string) (fs.FileInfo, error) {
	h.before("Stat " + name)
	return h.FS.Stat(name)
}

func (h hookedDisk) Lstat(name string) (fs.FileInfo, error) {
	h.before("Lstat " + name)
	return h.FS.Lstat(name)
}

func (h hookedDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	h.before("ReadDir " + name)
	return h.FS.ReadDir(name)
}

func (h hookedDisk) MkdirAll(name string, perm fs.FileMode) error {
	h.before("MkdirAll " + name)
	return h.FS.MkdirAll(name, perm)
}

func (h hookedDisk) Create(name string, perm fs.FileMode) (disk.File, error) {
	h.before("Create " + name)
	return h.FS.Create(name, perm)
}

func (h hookedDisk) Rename(oldName, newName string) error {
	h.before("Rename " + oldName)
	return h.FS.Rename(oldName, newName)
}

func (h hookedDisk) Remove(name string) error {
	h.before("Remove " + name)
	return h.FS.Remove(name)
}

func (h hookedDisk) SyncDir(name string) error {
	h.before("SyncDir " + name)
	return h.FS.SyncDir(name)
}

func (h hookedDisk) Access(name string) error {
	h.before("Access " + name)
	return h.FS.Access(name)
}

func (h hookedDisk) Lock(name string) (func(), error) {
	h.before("Lock " + name)
	return h.FS.Lock(name)
}

func (h hookedDisk) LockDir(name string) (func(), error) {
	h.before("LockDir " + name)
	return h.FS.LockDir(name)
}
