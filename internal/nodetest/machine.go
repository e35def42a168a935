package nodetest

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// PowerDropped is set in the environment of a process for which DropPowerOverFiles has nothing left to do.
const PowerDropped = "KSTORAGE_TEST_POWER_DROPPED"

// Scratch is t.TempDir in memory, where there is such a place: the tests format some two thousand nodes, each with a
// dozen syncs, and what is on disk after a crash is tested elsewhere.
func Scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "kstorage-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// DropPowerOverFiles makes root subject to file modes like anybody else, so that the tests of
// unreadable files test something. Capabilities belong to a thread and go with exec, hence
// the process starts itself again.
func DropPowerOverFiles() {
	if os.Geteuid() != 0 || os.Getenv(PowerDropped) != "" {
		return
	}
	runtime.LockOSThread()
	for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			fmt.Fprintln(os.Stderr, "cannot give up root's power over file modes:", err)
			os.Exit(1)
		}
	}
	os.Setenv(PowerDropped, "1")
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "cannot start again without root's power over file modes:", err)
	os.Exit(1)
}
