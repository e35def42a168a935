package nodetest

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

// Commands are for scripts with nodes that run. HOST is a loopback address, and P1 to P9 are ports
// of it that no other script has. kstorage is the program that Setup was given.
//
//	node FILE [KEY=VALUE...]            write a configuration of a combined node 1 with the log directory d1; KEY= drops a key
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
//	registered ID...                    wait until these controllers are registered
//	register ID FEATURE MIN MAX         register a controller that supports this only, in the name of one that does not run
//	upgrade FEATURE LEVEL               the active controller must do that
//	get URL CODE REGEXP...              wait until an HTTP GET is answered like that
//	property VAR KEY FILE...            VAR becomes the value that KEY has in each of the properties FILEs
//
// What still runs at the end of a script is killed.
var Commands = map[string]func(*testscript.TestScript, bool, []string){
	"node":     nodeConfig,
	"member":   member,
	"run":      runNode,
	"await":    await,
	"logged":   logged,
	"quit":     quit,
	"crash":    crash,
	"dies":     dies,
	"declines": declines,
	"property": property,
	"get":      get,
	"voters":   awaitVoters,
	"upgrade":  upgrade,

	"registered": registered,
	"register":   register,
}

// nodes are those of a script.
type nodes struct {
	kstorage  string // the program
	processes map[string]*Process
}

// nodesKey is where a script keeps its nodes.
type nodesKey struct{}

// Setup is for the Setup of scripts that have the Commands: kstorage is the file of the program.
func Setup(e *testscript.Env, kstorage string) {
	n := &nodes{kstorage, map[string]*Process{}}
	e.Values[nodesKey{}] = n
	e.Defer(n.kill)
	e.Setenv("HOST", Loopback())
	for i := 1; i <= 9; i++ {
		e.Setenv("P"+strconv.Itoa(i), strconv.Itoa(FreshPort()))
	}
}

func nodesOf(ts *testscript.TestScript) *nodes { return ts.Value(nodesKey{}).(*nodes) }

func (n *nodes) kill() {
	for _, p := range n.processes {
		p.Kill()
	}
}

func nodeConfig(ts *testscript.TestScript, neg bool, args []string) {
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

func find(ts *testscript.TestScript, name string) *Process {
	p := nodesOf(ts).processes[name]
	if p == nil {
		ts.Fatalf("no node %s has been run", name)
	}
	return p
}

// check ends a script that waits in vain: with the nodes gone, what comes behind fails at once.
func check(ts *testscript.TestScript, err error) {
	if err != nil {
		nodesOf(ts).kill()
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
	name, nodes := args[0], nodesOf(ts)
	if old := nodes.processes[name]; old != nil {
		select {
		case <-old.ended:
		default:
			ts.Fatalf("%s is running already", name)
		}
	}
	var env []string
	for _, variable := range []string{"HOME", "PATH", "TMPDIR", "TZ", "GORACE", PowerDropped, "KSTORAGE_CONFIG"} {
		env = append(env, variable+"="+ts.Getenv(variable))
	}
	p, err := Launch(nodes.kstorage, name, ts.MkAbs("."), ts.MkAbs(name+".log"), env, args[2:]...)
	ts.Check(err)
	nodes.processes[name] = p
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await NAME REGEXP")
	}
	check(ts, find(ts, args[0]).Await(compile(ts, args[1])))
}

func logged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] logged NAME REGEXP")
	}
	p := find(ts, args[0])
	if log, _ := p.Read(); compile(ts, args[1]).Match(log) == neg {
		check(ts, p.Fault("and %q: a match is %v", args[1], neg))
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
	check(ts, find(ts, args[0]).Quit(signal))
}

func crash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: crash NAME")
	}
	check(ts, find(ts, args[0]).Crash())
}

func dies(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: dies NAME REGEXP...")
	}
	p := find(ts, args[0])
	code, err := p.End()
	check(ts, err)
	if code != 1 {
		check(ts, p.Fault("has ended with exit code %d", code))
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

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: get URL CODE REGEXP...")
	}
	var patterns []*regexp.Regexp
	for _, p := range args[2:] {
		patterns = append(patterns, compile(ts, p))
	}
	check(ts, Get(args[0], func(code int, body []byte) bool {
		return strconv.Itoa(code) == args[1] && !slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return !re.Match(body) })
	}))
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
	check(ts, QuorumState(controllers(ts), func(s *kmsg.DescribeQuorumResponseTopicPartition) bool {
		var ids []string
		for _, v := range s.CurrentVoters {
			ids = append(ids, strconv.Itoa(int(v.ReplicaID)))
		}
		slices.Sort(ids)
		return slices.Equal(ids, args)
	}))
}

func registered(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: registered ID...")
	}
	var ids []int32
	for _, arg := range args {
		ids = append(ids, int32(number(ts, arg)))
	}
	check(ts, AwaitControllers(controllers(ts), ids...))
}

func register(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: register ID FEATURE MIN MAX")
	}
	check(ts, registerController(controllers(ts), int32(number(ts, args[0])), args[1], number(ts, args[2]), number(ts, args[3])))
}

func upgrade(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: upgrade FEATURE LEVEL")
	}
	check(ts, upgradeFeature(controllers(ts), args[0], number(ts, args[1])))
}

func number(ts *testscript.TestScript, arg string) int16 {
	n, err := strconv.ParseInt(arg, 10, 16)
	ts.Check(err)
	return int16(n)
}
