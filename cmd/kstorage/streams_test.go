package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"kstorage/internal/cli"
	"kstorage/internal/nodetest"
)

// realMain is set in the environment of a process that is the program itself, with what main does about signals.
const realMain = "KSTORAGE_TEST_REAL_MAIN"

func init() {
	if os.Getenv(realMain) != "" {
		main()
	}
}

// combined is the configuration of a broker and controller.
const combined = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=c:9093\n" +
	"listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\nlog.dirs=d1\n"

// runInProcess returns what the program prints on both streams.
func runInProcess(argv []string, env map[string]string) (out string, rc int) {
	var stdout, stderr bytes.Buffer
	rc = run(argv, cli.World{
		Stdout: &stdout, Stderr: &stderr,
		Env:           func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		Now:           func() time.Time { return time.Unix(1_796_017_003, 0).UTC() },
		Random:        rand.NewChaCha8([32]byte{1}),
		LocalHostName: func() string { return "c" },
	})
	return stdout.String() + stderr.String(), rc
}

// shell runs a script in which kstorage is the program, and returns the exit code of its last command.
func shell(t *testing.T, script string) (stdout, stderr string, rc int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command("/bin/sh", "-c", `kstorage() { "$SELF" "$@"; }`+"\n"+script)
	cmd.Env = append(os.Environ(), realMain+"=1", "SELF="+self)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// formattedNode makes a working folder with the node F, which is formatted with the cluster id C, and G, which is not.
func formattedNode(t *testing.T) {
	t.Helper()
	t.Chdir(nodetest.Scratch(t))
	conf := strings.ReplaceAll(combined, "://:", "://c:")
	must(t, os.WriteFile("F", []byte(conf), 0o600))
	must(t, os.WriteFile("G", []byte(strings.Replace(conf, "log.dirs=d1", "log.dirs=d2,d3", 1)), 0o600))
	if out, rc := runInProcess([]string{"format", "-c", "F", "-s", "-t", "K1hPz5rNQ3ODiMrn4pLjMA"}, nil); rc != 0 {
		t.Fatal(out)
	}
}

// formatG formats G.
const formatG = "kstorage format -s -c G -t K1hPz5rNQ3ODiMrn4pLjMA"

// Each command with a stdout to which it cannot write. A reader that has gone has seen enough.
func TestStdout(t *testing.T) {
	commands := []string{
		formatG, formatG + " --json", formatG + " --dry-run", "kstorage info -c F", "kstorage info -c F --json",
		"kstorage dump d1/meta.properties", "kstorage dump --json d1/__cluster_metadata-0/*.checkpoint", "kstorage dump d1/__cluster_metadata-0/*.checkpoint d1/meta.properties",
		"kstorage random-uuid", "kstorage random-uuid --json", "kstorage version-mapping", "kstorage feature-dependencies -f streams.version=1",
		"kstorage version", "kstorage completion bash", "kstorage --help", "kstorage format --help",
	}
	streams := []struct {
		name, script string // X is the command
		rc           int
		stderr       string // a part of it, if the command fails
	}{
		// The reader closes its end before it opens the pipe for which the command waits.
		{"a reader that has gone", "mkfifo gone; { cat gone; X; echo $? >rc; } | { exec <&-; : >gone; }; exit $(cat rc)", 0, ""},
		{"a full disk", "X >/dev/full", 1, "no space left on device"},
		{"none", "X >&-", 0, ""},
	}
	for _, s := range streams {
		for _, command := range commands {
			t.Run(s.name+"/"+command, func(t *testing.T) {
				formattedNode(t)
				script := strings.ReplaceAll(s.script, "X", command)
				_, stderr, rc := shell(t, script)
				if rc != s.rc || strings.Contains(stderr, "goroutine ") || s.stderr != "" && !strings.Contains(stderr, s.stderr) {
					t.Errorf("%s exits %d, want %d, and says %s", script, rc, s.rc, stderr)
				}
				_, err := os.Stat("d3/meta.properties")
				if want := strings.HasPrefix(command, formatG) && !strings.Contains(command, "dry"); (err == nil) != want {
					t.Errorf("formatted: %v, want %v; stderr: %s", err == nil, want, stderr)
				}
			})
		}
	}
}

// A stderr to which nothing can be written changes nothing.
func TestStderr(t *testing.T) {
	tests := []struct {
		command string
		rc      int
		stdout  string
	}{
		{"kstorage format -s -c G", 0, "Formatting "}, // with a note about the level
		{"kstorage format -s -c G -t x", 0, "Formatting "},
		{"kstorage format -s -c G -t x --json", 0, `"formatted"`},
		{"kstorage format -s -c F -t K1hPz5rNQ3ODiMrn4pLjMA", 1, ""},
		{"kstorage format -s -c F -t K1hPz5rNQ3ODiMrn4pLjMA --json", 1, ""},
		{"kstorage format", 1, ""},
		{"kstorage info -c nothing", 1, ""},
		{"kstorage info -c G", 1, "Found "},
		{"kstorage dump nothing d1/meta.properties", 1, "node.id"},
		{"kstorage random-uuid", 0, "-"},
	}
	for _, redirect := range []string{" 2>&-", " 2>/dev/full", " >out 2>&- <&-; rc=$?; cat out; exit $rc"} {
		for _, tt := range tests {
			t.Run(tt.command+redirect, func(t *testing.T) {
				formattedNode(t)
				stdout, stderr, rc := shell(t, tt.command+redirect)
				if rc != tt.rc || stderr != "" || !strings.Contains(stdout, tt.stdout) && tt.stdout != "-" || (stdout == "") != (tt.stdout == "") {
					t.Errorf("exits %d, want %d, stdout %q, stderr %q", rc, tt.rc, stdout, stderr)
				}
				for _, dir := range []string{"d2", "d3"} {
					if _, err := os.Stat(dir + "/meta.properties"); (err == nil) != strings.HasPrefix(tt.stdout, "Formatting") && tt.stdout != `"formatted"` {
						t.Errorf("%s: formatted: %v", dir, err == nil)
					}
				}
			})
		}
	}
}
