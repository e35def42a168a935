package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kstorage/internal/nodetest"
)

var update = flag.Bool("update", false, "rewrite the texts that scripts compare with, and docs/cli.md")

// TestScript runs the scenarios in testdata/script, which are the specification of the command. Beside the
// commands of testscript they have:
//
//	exits N kstorage ARG...      run it, and demand the exit code N and what holds for every run (see everyRun);
//	                             stdout and stderr are compared as after exec
//	unchanged N kstorage ARG...  the same, and each file and folder is as it was before
//	refuses kstorage ARG...      the same with the exit code 1, stdout is empty, and a reason is on stderr, none of
//	                             which reads as if the directories were formatted
//	lock FILE...                 hold the lock of a running node, to the end of the script
//
// and those of nodetest. CID is a cluster id.
func TestScript(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"exits":     exits,
		"unchanged": unchanged,
		"refuses":   refuses,
		"lock":      lock,
	}
	maps.Copy(commands, nodetest.Commands)
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		WorkdirRoot:         nodetest.Scratch(t),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     true, // one run tells all that differs
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv(nodetest.PowerDropped, "1")
			e.Setenv("CID", "Wq9rPWnzQ4uv0sRyMKXc1w")
			e.Setenv("KSTORAGE_TEST_SEED", "1")
			e.Setenv("KSTORAGE_TEST_TIME", "1796017003")
			e.Defer(func() { exec.Command("chmod", "-R", "u+rwX", e.WorkDir).Run() })
			nodetest.Setup(e, self)
			return nil
		},
		Cmds: commands,
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command [arg...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	everyRun(ts)
}

var (
	// Entrypoints of containers look for these words and carry on, so they stand in two sentences and nowhere else.
	alreadyFormatted = regexp.MustCompile(`(?i)already formatted`)
	sentences        = regexp.MustCompile(`Log directory .* is already formatted\. Use --ignore-formatted to ignore this directory and format the others\.|All of the log directories are already formatted\.`)
)

// everyRun checks what the specification demands of every run.
func everyRun(ts *testscript.TestScript) {
	output := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	if nodetest.Trace.MatchString(output) {
		ts.Fatalf("a stack trace")
	}
	if alreadyFormatted.MatchString(sentences.ReplaceAllString(output, "")) {
		ts.Fatalf("the words %q stand outside of their sentences", alreadyFormatted)
	}
}

func unchanged(ts *testscript.TestScript, neg bool, args []string) {
	before := tree(ts)
	exits(ts, neg, args)
	after := tree(ts)
	for path, was := range before {
		if after[path] != was {
			ts.Fatalf("%s has changed: %q, it was %q", path, after[path], was)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			ts.Fatalf("%s is new", path)
		}
	}
}

// tree has the mode, the time of change and the content of all that is in the working folder. Where
// modes hide something it stays hidden.
func tree(ts *testscript.TestScript) map[string]string {
	out := map[string]string{}
	filepath.WalkDir(ts.MkAbs("."), func(path string, entry fs.DirEntry, _ error) error {
		if entry == nil {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		out[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if entry.Type().IsRegular() {
			content, _ := os.ReadFile(path)
			out[path] += string(content)
		}
		return nil
	})
	return out
}

func refuses(ts *testscript.TestScript, neg bool, args []string) {
	unchanged(ts, neg, append([]string{"1"}, args...))
	if stdout := ts.ReadFile("stdout"); stdout != "" {
		ts.Fatalf("stdout of a refused command: %s", stdout)
	}
	stderr := ts.ReadFile("stderr")
	if stderr == "" || alreadyFormatted.MatchString(stderr) {
		ts.Fatalf("stderr does not give a reason")
	}
}

// lock has another process hold the locks that a running node holds. It cannot be this one: a process loses such a lock
// when it closes the file, also after it has only read it.
func lock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: lock FILE...")
	}
	self, err := os.Executable()
	ts.Check(err)
	holder := exec.Cmd{Path: self, Args: []string{lockHolder}, Stderr: os.Stderr}
	for _, name := range args {
		holder.Args = append(holder.Args, ts.MkAbs(name))
	}
	stdin, err := holder.StdinPipe()
	ts.Check(err)
	stdout, err := holder.StdoutPipe()
	ts.Check(err)
	ts.Check(holder.Start())
	ts.Defer(func() {
		stdin.Close()
		holder.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		ts.Fatalf("the holder of the lock: %q, %v", line, err)
	}
}

// lockHolder is the name under which the test program holds locks until its standard input ends.
const lockHolder = "hold-lock"

func holdLock() {
	for _, name := range os.Args[1:] {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err == nil {
			err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer f.Close()
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
}

// TestDocs keeps docs/cli.md and the manual page what the program says of itself.
func TestDocs(t *testing.T) {
	s := &session{world: testWorld()}
	g := s.grammar()
	nodetest.CheckDocs(t, *update, map[string]string{"cli.md": g.Markdown(), "man/kstorage.1": g.Man("kfeatures(1)")})
}
