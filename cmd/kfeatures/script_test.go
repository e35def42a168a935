package main

import (
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kstorage/internal/cli"
	"kstorage/internal/dump"
	"kstorage/internal/nodetest"
)

var update = flag.Bool("update", false, "rewrite the texts that scripts compare with, and docs/cli-kfeatures.md")

// TestScript runs the scenarios in testdata/script/kfeatures, which are the specification of the command. Beside the commands of
// testscript they have:
//
//	exits N PROGRAM ARG...      run kfeatures or kstorage, and demand the exit code N and no stack trace
//	refuses kfeatures ARG...    the same with the exit code 1, stdout is empty, and a reason is on stderr
//	records FILE DIR...         FILE becomes the records, without offsets, that each of the log directories has: all the same. Those
//	                            are left out by which the quorum shows that it lives
//
// and those of nodetest, for the cluster. CID is a cluster id, and LIST are three voters at P1 to P3 for kstorage format.
func TestScript(t *testing.T) {
	node, err := kstorage()
	must(t, err)
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits,
		"refuses": func(ts *testscript.TestScript, neg bool, args []string) {
			exits(ts, neg, append([]string{"1"}, args...))
			if ts.ReadFile("stdout") != "" || ts.ReadFile("stderr") == "" {
				ts.Fatalf("a refused command has a reason on stderr, and nothing on stdout")
			}
		},
		"records": records,
	}
	maps.Copy(commands, nodetest.Commands)
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script/kfeatures",
		WorkdirRoot:         nodetest.Scratch(t),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     true, // one run tells all that differs
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("PATH", filepath.Dir(node)+string(filepath.ListSeparator)+e.Getenv("PATH"))
			nodetest.Setup(e, node)
			e.Setenv("CID", "Wq9rPWnzQ4uv0sRyMKXc1w")
			e.Setenv("LIST", os.Expand("1@$HOST:$P1:IPSRFnY5RtqEmJV5clXmdA,2@$HOST:$P2:FJAGa3eJRbC7SSXj2xUcWw,3@$HOST:$P3:xsFQqRJSSxy8acINSMRk4w", e.Getenv))
			return nil
		},
		Cmds: commands,
	})
}

// lasting are the lines of a list of records without registrations.
func lasting(list string) string {
	return registration.ReplaceAllString(list, "")
}

func records(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: records FILE DIR...")
	}
	have := ""
	for i, dir := range args[1:] {
		var out strings.Builder
		files, err := filepath.Glob(filepath.Join(ts.MkAbs(dir), "__cluster_metadata-0", "*.log"))
		ts.Check(err)
		for _, file := range files {
			ts.Check(dump.File(&out, file, dump.Options{}))
		}
		list := ""
		for line := range strings.Lines(out.String()) {
			if m := recordLine.FindStringSubmatch(line); m != nil && m[1] != "NO_OP_RECORD" {
				list += m[0] + "\n"
			}
		}
		// Registrations come at any time, so one log may end with some that the others lack.
		if i > 0 && (!strings.HasPrefix(list, have) && !strings.HasPrefix(have, list) || lasting(list) != lasting(have)) {
			ts.Fatalf("%s has other records than the directories before:\n%s\nthere are:\n%s", dir, list, have)
		}
		have = list
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(have), 0o644))
}

// recordLine is the line of a record from its type on.
var recordLine = regexp.MustCompile(`\b([A-Z_]+_RECORD) .*`)

var registration = regexp.MustCompile(`(?m)^[A-Z_]*REGIST[A-Z_]* .*\n`)

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
	output := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	if nodetest.Trace.MatchString(output) || strings.Contains(output, "geheim") {
		ts.Fatalf("a stack trace, or a secret")
	}
}

// TestDocs keeps docs/cli-kfeatures.md and the manual page what the program says of itself.
func TestDocs(t *testing.T) {
	g := (&session{world: cli.Machine()}).grammar()
	nodetest.CheckDocs(t, *update, map[string]string{"cli-kfeatures.md": g.Markdown(), "man/kfeatures.1": g.Man("kstorage(1)")})
}

// A reader that has gone has seen enough; a stdout that is full is a failure.
func TestStdout(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for script, want := range map[string]int{
		"mkfifo gone; { cat gone; X; echo $? >rc; } | { exec <&-; : >gone; }; exit $(cat rc)": 0,
		"X >/dev/full": 1,
	} {
		dir := t.TempDir()
		must(t, os.Symlink(self, filepath.Join(dir, program)))
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(script, "X", "./"+program+" version-mapping"))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || strings.Contains(string(out), "goroutine ") {
			t.Errorf("%s exits %d, want %d: %v, %s", script, got, want, err, out)
		}
	}
}
