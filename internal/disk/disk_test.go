package disk_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
)

func writeString(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func TestTemp(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for _, perm := range []fs.FileMode{0o400, 0o600, 0o644} {
		name := filepath.Join(t.TempDir(), "a")
		if err := disk.Temp(disk.OS, name, perm, writeString("text")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode() != perm {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, perm)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != "text" {
			t.Errorf("content %q, %v", b, err)
		}
	}
}

func TestTempUnderUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	name := filepath.Join(t.TempDir(), "a")
	if err := disk.Temp(disk.OS, name, 0o644, writeString("text")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; the umask leaves 0600", info.Mode(), err)
	}
}

// A crash after the Chmod of an earlier run leaves a file that its owner can't open for writing.
func TestTempReplacesLeftOver(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(name, []byte("longer than the new text"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := disk.Temp(disk.OS, name, 0o644, writeString("text")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if b, _ := os.ReadFile(name); err != nil || string(b) != "text" || info.Mode()&0o200 == 0 {
		t.Errorf("%q, %v, %v", b, info.Mode(), err)
	}
}

func TestTempFails(t *testing.T) {
	wantErr := errors.New("no more text")
	dir := t.TempDir()
	err := disk.Temp(disk.OS, filepath.Join(dir, "a"), 0o400, func(w io.Writer) error {
		if err := writeString("some text")(w); err != nil {
			return err
		}
		return wantErr
	})
	if err != wantErr {
		t.Errorf("error %v, want that of write", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := disk.Temp(disk.OS, filepath.Join(dir, "none", "a"), 0o400, writeString("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// Whatever step fails, Temp reports it and leaves nothing behind, and Replace changes the file as a whole or not.
func TestTempReplaceFailAtEachStep(t *testing.T) {
	replace := func(d disk.FS) error {
		if err := disk.Temp(d, "a.tmp", 0o400, writeString("new text")); err != nil {
			return err
		}
		return disk.Replace(d, "a.tmp", "a")
	}
	prepare := func() *crashdisk.Disk {
		d := crashdisk.New()
		if err := disk.Temp(d, "a", 0o400, writeString("old")); err != nil {
			t.Fatal(err)
		}
		return d.Restart(crashdisk.Kept)
	}
	whole := prepare()
	if err := replace(whole); err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= whole.Steps(); step++ {
		d := prepare()
		d.FailAt(step, syscall.EIO)
		if err := replace(d); !errors.Is(err, syscall.EIO) {
			t.Errorf("step %d (%s): error %v", step, d.LastStep(), err)
		}
		b, err := d.ReadFile("a")
		if err != nil || string(b) != "old" && string(b) != "new text" {
			t.Errorf("step %d: content %q, %v", step, b, err)
		}
		if _, err := d.Stat("a.tmp"); err == nil && d.Steps() < whole.Steps()-1 { // Replace leaves it to its caller
			t.Errorf("step %d: a.tmp is left behind", step)
		}
	}
}

func TestReplaceIsAtomic(t *testing.T) {
	dir := t.TempDir()
	temp, name := filepath.Join(dir, "a.tmp"), filepath.Join(dir, "a")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(name) // whoever reads the old file goes on with it
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := disk.Temp(disk.OS, temp, 0o400, writeString("new")); err != nil {
		t.Fatal(err)
	}
	if err := disk.Replace(disk.OS, temp, name); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(old); err != nil || string(b) != "old" {
		t.Errorf("the open file reads %q, %v", b, err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "new" {
		t.Errorf("content %q, %v", b, err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
	if err := disk.Replace(disk.OS, temp, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to rename: %v", err)
	}
}

func TestOS(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "x", "y")
	if err := disk.OS.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := disk.OS.Create(filepath.Join(deep, "a"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), disk.OS.SyncDir(deep)); err != nil {
		t.Fatal(err)
	}
	r, err := disk.OS.Open(filepath.Join(deep, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "text" {
		t.Errorf("read %q, %v", b, err)
	}
	if entries, err := disk.OS.ReadDir(deep); err != nil || len(entries) != 1 || entries[0].Name() != "a" {
		t.Errorf("entries %v, %v", entries, err)
	}
	if err := disk.OS.Remove(filepath.Join(deep, "a")); err != nil {
		t.Error(err)
	}
	if _, err := disk.OS.ReadFile(filepath.Join(deep, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read after Remove: %v", err)
	}
	if err := disk.OS.SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync of no directory: %v", err)
	}
}
