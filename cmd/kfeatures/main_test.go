package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"kstorage/internal/cli"
)

// TestMain runs the tests as one who is subject to file modes, also where that is root: the capabilities go with exec.
func TestMain(m *testing.M) {
	const dropped = "KFEATURES_TEST_POWER_DROPPED"
	if os.Geteuid() == 0 && os.Getenv(dropped) == "" {
		runtime.LockOSThread()
		for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
				fmt.Fprintln(os.Stderr, "cannot give up root's power over file modes:", err)
				os.Exit(1)
			}
		}
		self, err := os.Executable()
		if err == nil {
			err = syscall.Exec(self, os.Args, append(os.Environ(), dropped+"=1"))
		}
		fmt.Fprintln(os.Stderr, "cannot start again without root's power over file modes:", err)
		os.Exit(1)
	}
	flag.Set("test.parallel", "16") // they wait for timeouts, most of the time
	testscript.Main(m, map[string]func(){program: main})
}

// outcome is what a call left behind.
type outcome struct {
	exit           int
	stdout, stderr string
	took           time.Duration
}

// call runs the program in this process.
func call(env map[string]string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	w := cli.Machine()
	w.Stdout, w.Stderr = &stdout, &stderr
	w.Env = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	start := time.Now()
	exit := run(args, w)
	return outcome{exit, stdout.String(), stderr.String(), time.Since(start)}
}

// line is call with the arguments in a line.
func line(format string, args ...any) outcome {
	return call(nil, strings.Fields(fmt.Sprintf(format, args...))...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
