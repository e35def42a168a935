package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kstorage/internal/cli"
	"kstorage/internal/nodetest"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else a program with the race detector sleeps a second before it ends
	nodetest.DropPowerOverFiles()
	flag.Set("test.parallel", "16") // they wait for timeouts, most of the time
	testscript.Main(programs{m}, map[string]func(){program: main})
}

// programs are the tests, and what they have built is gone behind them.
type programs struct{ tests *testing.M }

func (p programs) Run() int {
	defer func() { os.RemoveAll(built) }()
	return p.tests.Run()
}

// built is the folder of the program of kstorage, once it is there.
var built string

// kstorage builds that program and returns its file.
var kstorage = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "kfeatures-test-"); err != nil {
		return "", err
	}
	return nodetest.Build(built)
})

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
