package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startCommands are for scripts with nodes that run. HOST is a loopback address, and P1 to P9 are ports
// of it that no other script has.
//
//	member FILE N ROLES [KEY=VALUE...]  as node: a configuration of node N with the log directory dN. The controller of node 1 is the
//	                                    bootstrap server; that of node N has the port PN. The timeouts are short
//	run NAME kstorage start ARG...      start it, with true randomness and time; its stderr is appended to NAME.log
//	await NAME REGEXP                   wait for a line since its start
//	[!] logged NAME REGEXP              there is such a line by now, or not
//	quit NAME [SIGINT]                  SIGTERM, or this: it must end with the exit code 0
//	crash NAME                          SIGKILL
//	dies NAME REGEXP...                 it must end by itself with the exit code 1, for these reasons
//	declines REGEXP kstorage start ARG...  run and dies; no file has changed (.lock aside)
//	voters ID...                        wait until these are the voters, as the leader among the controllers at P1 to P9 says
//	upgrade FEATURE LEVEL               the active controller must do that
//	property VAR KEY FILE...            VAR becomes the value that KEY has in each of the properties FILEs
//
// What still runs at the end of a script is killed.
var startCommands = map[string]func(*testscript.TestScript, bool, []string){
	"member":   member,
	"run":      runNode,
	"await":    await,
	"logged":   logged,
	"quit":     quit,
	"crash":    crash,
	"dies":     dies,
	"declines": declines,
	"property": property,
	"voters":   awaitVoters,
	"upgrade":  upgrade,
}

// running is the key of the processes of a script, by name.
type running struct{}

func setupStart(e *testscript.Env) {
	processes := map[string]*process{}
	e.Values[running{}] = processes
	e.Defer(func() {
		for _, p := range processes {
			p.kill()
		}
	})
	e.Setenv("HOST", loopback())
	for i := 1; i <= 9; i++ {
		e.Setenv("P"+strconv.Itoa(i), strconv.Itoa(freshPort()))
	}
}

func member(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: member FILE N ROLES [KEY=VALUE...]")
	}
	host, n, roles := ts.Getenv("HOST"), args[1], args[2]
	var listeners []string
	if strings.Contains(roles, "broker") {
		listeners = append(listeners, "PLAINTEXT://"+host+":0")
	}
	if strings.Contains(roles, "controller") {
		listeners = append(listeners, "CONTROLLER://"+host+":"+ts.Getenv("P"+n))
	}
	nodeConfig(ts, false, append([]string{
		args[0],
		"process.roles=" + roles,
		"node.id=" + n,
		"listeners=" + strings.Join(listeners, ","),
		"controller.quorum.bootstrap.servers=" + host + ":" + ts.Getenv("P1"),
		"log.dirs=d" + n,
		"controller.quorum.election.timeout.ms=200",
		"controller.quorum.election.backoff.max.ms=100",
		"broker.session.timeout.ms=1000",
		"broker.heartbeat.interval.ms=100",
	}, args[3:]...))
}

func find(ts *testscript.TestScript, name string) *process {
	p := ts.Value(running{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("no node %s has been run", name)
	}
	return p
}

// check ends a script that waits in vain: with the nodes gone, what comes behind fails at once.
func check(ts *testscript.TestScript, err error) {
	if err != nil {
		for _, p := range ts.Value(running{}).(map[string]*process) {
			p.kill()
		}
	}
	ts.Check(err)
}

func compile(ts *testscript.TestScript, pattern string) *regexp.Regexp {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return re
}

func runNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[1] != program {
		ts.Fatalf("usage: run NAME kstorage start ARG...")
	}
	name, processes := args[0], ts.Value(running{}).(map[string]*process)
	if old := processes[name]; old != nil {
		select {
		case <-old.ended:
		default:
			ts.Fatalf("%s is running already", name)
		}
	}
	var env []string
	for _, variable := range []string{"HOME", "PATH", "TMPDIR", "TZ", "GORACE", powerDropped, "KSTORAGE_CONFIG"} {
		env = append(env, variable+"="+ts.Getenv(variable))
	}
	p, err := launch(name, ts.MkAbs("."), ts.MkAbs(name+".log"), env, args[2:]...)
	ts.Check(err)
	processes[name] = p
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await NAME REGEXP")
	}
	check(ts, find(ts, args[0]).await(compile(ts, args[1])))
}

func logged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] logged NAME REGEXP")
	}
	p := find(ts, args[0])
	if log, _ := p.read(); compile(ts, args[1]).Match(log) == neg {
		check(ts, p.fault("and %q: a match is %v", args[1], neg))
	}
}

func quit(ts *testscript.TestScript, neg bool, args []string) {
	signal := syscall.SIGTERM
	if len(args) == 2 && args[1] == "SIGINT" {
		signal, args = syscall.SIGINT, args[:1]
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: quit NAME [SIGINT]")
	}
	check(ts, find(ts, args[0]).quit(signal))
}

func crash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: crash NAME")
	}
	check(ts, find(ts, args[0]).crash())
}

func dies(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: dies NAME REGEXP...")
	}
	p := find(ts, args[0])
	code, err := p.end()
	check(ts, err)
	if code != 1 {
		check(ts, p.fault("has ended with exit code %d", code))
	}
	for _, pattern := range args[1:] {
		logged(ts, false, []string{args[0], pattern})
	}
}

// declining is the name of the node of declines.
const declining = "declining"

func declines(ts *testscript.TestScript, neg bool, args []string) {
	i := 0
	for i < len(args) && args[i] != program {
		i++
	}
	if neg || i == 0 || i == len(args) {
		ts.Fatalf("usage: declines REGEXP... kstorage start ARG...")
	}
	before := files(ts)
	runNode(ts, false, append([]string{declining}, args[i:]...))
	dies(ts, false, append([]string{declining}, args[:i]...))
	after := files(ts)
	maps.DeleteFunc(after, func(path, content string) bool {
		return content == before[path] || filepath.Base(path) == ".lock" || path == declining+".log"
	})
	if len(after) > 0 {
		ts.Fatalf("changed by a start that was refused: %q", after)
	}
}

// files has the content of each file of the script.
func files(ts *testscript.TestScript) map[string]string {
	out := map[string]string{}
	root := ts.MkAbs(".")
	filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error { //nolint:errcheck // what cannot be read stays hidden
		if err == nil && entry.Type().IsRegular() {
			content, _ := os.ReadFile(path)
			path, _ = filepath.Rel(root, path)
			out[path] = " " + string(content)
		}
		return nil
	})
	return out
}

func property(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: property VAR KEY FILE...")
	}
	key, value := args[1], ""
	for i, file := range args[2:] {
		found := ""
		for line := range strings.Lines(ts.ReadFile(file)) {
			if rest, ok := strings.CutPrefix(line, key+"="); ok {
				found = strings.TrimSpace(rest)
			}
		}
		if found == "" {
			ts.Fatalf("%s has no %s", file, key)
		}
		if i > 0 && found != value {
			ts.Fatalf("%s: %s is %s, and it is %s in the files before", file, key, found, value)
		}
		value = found
	}
	ts.Setenv(args[0], value)
}

// controllers are the addresses at which the controllers of a script may be.
func controllers(ts *testscript.TestScript) []string {
	var addresses []string
	for i := 1; i <= 9; i++ {
		addresses = append(addresses, ts.Getenv("HOST")+":"+ts.Getenv("P"+strconv.Itoa(i)))
	}
	return addresses
}

func awaitVoters(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: voters ID...")
	}
	check(ts, quorumState(controllers(ts), func(s *kmsg.DescribeQuorumResponseTopicPartition) bool {
		var ids []string
		for _, v := range s.CurrentVoters {
			ids = append(ids, strconv.Itoa(int(v.ReplicaID)))
		}
		slices.Sort(ids)
		return slices.Equal(ids, args)
	}))
}

func upgrade(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: upgrade FEATURE LEVEL")
	}
	level, err := strconv.ParseInt(args[1], 10, 16)
	ts.Check(err)
	check(ts, upgradeFeature(controllers(ts), args[0], int16(level)))
}
