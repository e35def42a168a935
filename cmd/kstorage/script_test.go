package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the texts that scripts compare with, and docs/cli.md")

// TestScript runs the scenarios in testdata/script, which are the specification of the command. Beside the
// commands of testscript they have:
//
//	exits N kstorage ARG...   run it, and demand the exit code N; stdout and stderr are compared as after exec
//	node FILE [KEY=VALUE...]  write a configuration of a combined node 1 with the log directory d1; KEY= drops a key
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("KSTORAGE_TEST_SEED", "1")
			e.Setenv("KSTORAGE_TEST_TIME", "1796017003")
			e.Defer(func() { exec.Command("chmod", "-R", "u+rwX", e.WorkDir).Run() })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"node":  node,
		},
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
}

func node(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: node FILE [KEY=VALUE...]")
	}
	keys := []string{"process.roles", "node.id", "controller.quorum.bootstrap.servers", "listeners", "controller.listener.names", "log.dirs"}
	values := map[string]string{
		"process.roles":                       "broker,controller",
		"node.id":                             "1",
		"controller.quorum.bootstrap.servers": "127.0.0.1:9093",
		"listeners":                           "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
		"controller.listener.names":           "CONTROLLER",
		"log.dirs":                            "d1",
	}
	for _, arg := range args[1:] {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			ts.Fatalf("%s: an equals sign is expected", arg)
		}
		if _, known := values[key]; !known {
			keys = append(keys, key)
		}
		values[key] = value
	}
	var b strings.Builder
	for _, key := range keys {
		if values[key] != "" {
			b.WriteString(key + "=" + values[key] + "\n")
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o644))
}

// TestDocs keeps docs/cli.md what the program says of itself.
func TestDocs(t *testing.T) {
	s := &session{world: testWorld()}
	g := s.grammar()
	var b strings.Builder
	b.WriteString("# kstorage: commands and options\n\nMade from the help texts by `make docs`.\n\n```\n" + g.Help("") + "```\n")
	for _, c := range g.App.Commands {
		b.WriteString("\n## kstorage " + c.Name + "\n\n```\n" + g.Help(c.Name) + "```\n")
	}
	file := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/cli.md is not what the help texts say (%v): run make docs", err)
	}
}
