package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"kstorage/internal/cli"
)

func TestMain(m *testing.M) {
	// A program with the race detector sleeps a second before it ends; the tests run some two thousand of them.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	dropPowerOverFiles()
	syscall.Umask(0o022)
	testscript.Main(m, map[string]func(){
		"kstorage": func() { os.Exit(run(os.Args[1:], testWorld())) },
		lockHolder: holdLock,
	})
}

// testWorld is the machine with the knobs of the tests: KSTORAGE_TEST_SEED fixes ids and salts,
// KSTORAGE_TEST_TIME the clock, in seconds since 1970. The machine's own name is left out.
func testWorld() cli.World {
	w := cli.Machine()
	w.LocalHostName = func() string { return "localhost" }
	if seed, err := strconv.ParseUint(os.Getenv("KSTORAGE_TEST_SEED"), 10, 8); err == nil {
		w.Random = rand.NewChaCha8([32]byte{byte(seed)})
	}
	if seconds, err := strconv.ParseInt(os.Getenv("KSTORAGE_TEST_TIME"), 10, 64); err == nil {
		w.Now = func() time.Time { return time.Unix(seconds, 0).UTC() }
	}
	return w
}

// powerDropped is set in the environment of a process for which dropPowerOverFiles has nothing left to do.
const powerDropped = "KSTORAGE_TEST_POWER_DROPPED"

// scratch is t.TempDir in memory, where there is such a place: the tests format some two thousand nodes, each with a
// dozen syncs, and what is on disk after a crash is tested elsewhere.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "kstorage-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// dropPowerOverFiles makes root subject to file modes like anybody else, so that the tests of
// unreadable files test something. Capabilities belong to a thread and go with exec, hence
// the process starts itself again.
func dropPowerOverFiles() {
	if os.Geteuid() != 0 || os.Getenv(powerDropped) != "" {
		return
	}
	runtime.LockOSThread()
	for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			fmt.Fprintln(os.Stderr, "cannot give up root's power over file modes:", err)
			os.Exit(1)
		}
	}
	os.Setenv(powerDropped, "1")
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "cannot start again without root's power over file modes:", err)
	os.Exit(1)
}
