package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kstorage/internal/cli"
	"kstorage/internal/nodetest"
)

func TestMain(m *testing.M) {
	// A program with the race detector sleeps a second before it ends; the tests run some two thousand of them.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	nodetest.DropPowerOverFiles()
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
