package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ownMounts is set in the environment of a process that may mount file systems, which nobody else sees.
const ownMounts = "KSTORAGE_TEST_OWN_MOUNTS"

// withOwnMounts runs this program again, in a user and a mount namespace of its own, and returns its exit code.
// false: it may not, or it has been done.
func withOwnMounts() (code int, ran bool) {
	if os.Getenv(ownMounts) != "" {
		return 0, false
	}
	self, err := os.Executable()
	if err != nil {
		return 0, false
	}
	again := &exec.Cmd{
		Path: self, Args: os.Args, Env: append(os.Environ(), ownMounts+"=1"), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			Pdeathsig:   syscall.SIGKILL,
		},
	}
	if err := again.Start(); err != nil {
		return 0, false
	}
	if err := again.Wait(); err != nil && again.ProcessState.ExitCode() <= 0 {
		return 1, true
	}
	return again.ProcessState.ExitCode(), true
}

// volume is a folder that may be a file system of its own.
type volume struct {
	path  string
	owned bool
}

// volumeBytes is its size. Memory is taken as far as it is used.
const volumeBytes = 256 << 20

func newVolume(t *testing.T, path string) (volume, error) {
	if err := os.Mkdir(path, 0o755); err != nil {
		return volume{}, err
	}
	v := volume{path: path, owned: os.Getenv(ownMounts) != ""}
	if !v.owned {
		return v, nil
	}
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) }) //nolint:errcheck // it goes with the process
	return v, unix.Mount("kstorage-test", path, "tmpfs", 0, fmt.Sprintf("size=%d", volumeBytes))
}

// fill leaves no room: the file system is as large as what is in it.
func (v volume) fill() error {
	for {
		var s unix.Statfs_t
		if err := unix.Statfs(v.path, &s); err != nil {
			return err
		}
		err := v.resize(int64(s.Blocks-s.Bfree) * s.Bsize)
		if !errors.Is(err, unix.EINVAL) { // else more is in it by now
			return err
		}
	}
}

func (v volume) free() error { return v.resize(volumeBytes) }

func (v volume) resize(bytes int64) error {
	return unix.Mount("", v.path, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}

// limitFiles lets a process make no file larger than the last segment in a folder is, and some bytes more, for
// which there is room: the next batch may be torn. Nobody needs a privilege for that.
func limitFiles(pid int, folder string, more int64) (segment string, err error) {
	segment, err = lastSegment(folder)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(segment)
	if err != nil {
		return "", err
	}
	limit := uint64(info.Size() + more)
	return segment, unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}, nil)
}

func lastSegment(folder string) (string, error) {
	segments, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(segments) == 0 {
		return "", fmt.Errorf("no segment in %s: %w", folder, errors.Join(err, fs.ErrNotExist))
	}
	return segments[len(segments)-1], nil
}
