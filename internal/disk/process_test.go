package disk_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kstorage/internal/disk"
)

// The test binary, started with this variable, is another process: it does what the variable says, prints the
// result, and ends when its standard input does.
const otherProcess = "DISK_TEST_OTHER_PROCESS"

func TestMain(m *testing.M) {
	task, name, _ := strings.Cut(os.Getenv(otherProcess), " ")
	switch task {
	case "":
		os.Exit(m.Run())
	case "lock":
		_, err := disk.OS.Lock(name)
		fmt.Println(err)
		io.Copy(io.Discard, os.Stdin)
	case "access":
		// Modes mean nothing to root. Only the effective user changes: it is the one that counts.
		if os.Geteuid() == 0 {
			if err := syscall.Setreuid(-1, nobody); err != nil {
				fmt.Println(err)
				return
			}
		}
		fmt.Println(disk.OS.Access(name))
	}
}

const nobody = 65534

// start starts another process and returns the line that it prints and a function that ends it.
func start(t *testing.T, task string) (line string, pid int, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherProcess+"="+task)
	cmd.Stderr = os.Stderr
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
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	end = func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	return strings.TrimSpace(line), cmd.Process.Pid, end
}

func lockFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), ".lock")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLockHeldByAnotherProcess(t *testing.T) {
	name := lockFile(t)
	line, pid, end := start(t, "lock "+name)
	if line != "<nil>" {
		t.Fatalf("the other process: %s", line)
	}
	_, err := disk.OS.Lock(name)
	if !errors.Is(err, disk.ErrLocked) {
		t.Errorf("error %v, want ErrLocked", err)
	}
	if want := fmt.Sprintf("lock %s: locked by another process (%d)", name, pid); err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	end()
	release, err := disk.OS.Lock(name)
	if err != nil {
		t.Fatalf("after the other process: %v", err)
	}
	release()
}

func TestLockKeepsAnotherProcessOut(t *testing.T) {
	name := lockFile(t)
	release, err := disk.OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	line, _, end := start(t, "lock "+name)
	if !strings.Contains(line, disk.ErrLocked.Error()) {
		t.Errorf("the other process: %s", line)
	}
	end()
	release()
	line, _, end = start(t, "lock "+name)
	if line != "<nil>" {
		t.Errorf("the other process, after release: %s", line)
	}
	end()
}

func TestLockWithoutFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	release, err := disk.OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was created: %v", err)
	}
	if _, err := disk.OS.Lock(filepath.Dir(name)); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
}

func TestAccess(t *testing.T) {
	dir := t.TempDir()
	if err := disk.OS.Access(dir); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("a probe file was left: %v, %v", entries, err)
	}
	if err := disk.OS.Access(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestAccessByMode(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = nobody
	}
	// t.TempDir is below a directory that only we may search.
	parent, err := os.MkdirTemp("", "access")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "d")
	if err := os.Mkdir(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o700, 0o600, 0o500, 0o300, 0} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		want := "<nil>"
		if mode != 0o700 {
			want = fmt.Sprintf("access %s: permission denied", dir)
		}
		line, _, end := start(t, "access "+dir)
		if line != want {
			t.Errorf("mode %v: %s, want %s", mode, line, want)
		}
		end()
	}
}
