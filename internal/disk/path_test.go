package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestSplit(t *testing.T) {
	for path, want := range map[string][2]string{
		"a":       {".", "a"},
		"a/":      {".", "a"},
		"a/b":     {"a", "b"},
		"a//b//":  {"a", "b"},
		"/a":      {"/", "a"},
		"/":       {"/", ""},
		"//a":     {"/", "a"},
		"a/../b":  {"a/..", "b"},
		"lk/..":   {"lk", ".."},
		"/a/b/c/": {"/a/b", "c"},
	} {
		if parent, name := Split(path); parent != want[0] || name != want[1] {
			t.Errorf("Split(%q) = %q, %q, want %q", path, parent, name, want)
		}
	}
}

// Behind a link ".." is the parent of what the link points to.
func TestPathsBehindLinks(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"else/x", "bb"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("else/x", filepath.Join(root, "lk")); err != nil {
		t.Fatal(err)
	}
	dir := root + "/lk/../bb" // else/bb
	if err := OS.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/else/bb"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(Join(Parent(dir), "bb")); err != nil {
		t.Error(err)
	}
	same, err := sameFile(Parent(dir), root+"/else")
	if err != nil || !same {
		t.Errorf("Parent(%q) = %q is not the folder behind the link: %v", dir, Parent(dir), err)
	}
}

func sameFile(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), err
}

func TestReason(t *testing.T) {
	user := fmt.Sprintf(" for user id %d", os.Geteuid())
	for err, want := range map[error]string{
		&fs.PathError{Op: "open", Path: "d", Err: syscall.ENOSPC}:               "no space left on device",
		&fs.PathError{Op: "open", Path: "d", Err: syscall.EACCES}:               "permission denied" + user,
		&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EROFS}:     "read-only file system" + user,
		fmt.Errorf("wrapped: %w", &fs.PathError{Op: "x", Err: syscall.ENOTDIR}): "not a directory",
	} {
		if got := Reason(err); got != want {
			t.Errorf("Reason(%v) = %q, want %q", err, got, want)
		}
	}
}
