package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"kstorage/internal/config/javaprops"
)

// Config is a configuration that Kafka 4.4.0 would take. Its fields are what the settings mean together; a single
// setting comes, with Kafka's default where the file is silent, from the method of its type. It holds no
// passwords, and it does not change after Load.
type Config struct {
	File string

	NodeID       int32
	IsBroker     bool
	IsController bool

	// LogDirs are the log directories as the file spells them, distinct, in its order. MetadataLogDir is the one for
	// the metadata log; it need not be one of them. CordonedLogDirs are some of them.
	LogDirs         []string
	MetadataLogDir  string
	CordonedLogDirs []string

	Listeners               []Listener // those to bind, in the order of the file
	ControllerListenerNames []string   // the first is the one that Raft uses
	// AdvertisedListeners are what a broker tells clients and brokers, AdvertisedControllerListeners what a controller tells
	// voters, in the order of ControllerListenerNames. A Host "" in them stands for the local host's name.
	AdvertisedListeners           []Listener
	AdvertisedControllerListeners []Listener
	InterBrokerListenerName       string

	QuorumVoters            []Voter // controller.quorum.voters, in the order of the ids; none: a dynamic quorum
	BootstrapServers        []Address
	AutoJoin                bool
	UnstableFeatureVersions bool

	// Warnings are in the order of the file.
	Warnings []Warning

	properties []property     // what the file sets, each key once
	index      map[string]int // of a key in properties
	values     map[string]value
}

// property is one setting of the file: the last line that has its key.
type property struct {
	javaprops.Property        // Value is as the file has it
	resolved           string // Value with what config providers put in
	from               string // what they took that from
}

// Load reads the configuration of a node. env is where config providers look up environment
// variables (os.LookupEnv). overrides, of the form key=value, come before what the file says, as those of Kafka's server do.
//
// Errors: all problems that were found, joined, each an *Error, in the order of their lines.
func Load(path string, env func(string) (string, bool), overrides ...string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return parse(path, data, env, overrides...)
}

func unreadable(path string, err error) *Error {
	if path == "" {
		return &Error{Reason: "the name of the configuration file is empty", Fix: "pass the file that the node is started with"}
	}
	return &Error{File: path, Reason: "cannot read the configuration: " + systemReason(err), Fix: "pass the file that the node is started with"}
}

// systemReason is err without the operation and the file, and for lack of permission with the user.
func systemReason(err error) string {
	reason := err.Error()
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		reason = pathError.Err.Error()
	}
	if errors.Is(err, fs.ErrPermission) {
		reason += " (user id " + strconv.Itoa(os.Getuid()) + ")"
	}
	return reason
}

func parse(path string, data []byte, env func(string) (string, bool), overrides ...string) (*Config, error) {
	l := &loader{Config: &Config{File: path, index: map[string]int{}, values: map[string]value{}}, failed: map[string]bool{}}
	lines, err := javaprops.Parse(data)
	if syntax := (*javaprops.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, &Error{File: path, Line: syntax.Line, Reason: syntax.Reason(), Fix: "write two backslashes for one"}
	}
	for _, line := range lines {
		l.add(property{Property: line, resolved: line.Value})
	}
	for _, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, &Error{Key: fromOverride, Reason: fmt.Sprintf("%q sets nothing", o), Fix: "write it as key=value, for example --override log.dirs=/var/lib/kafka"}
		}
		l.add(property{Property: javaprops.Property{Key: key, Value: value}, resolved: value, from: fromOverride})
	}
	l.resolve(env)
	l.parseValues()
	l.interpret()
	l.warnOfFile(data)
	if l.problems != nil {
		return nil, l.failure()
	}
	l.warn()
	slices.SortStableFunc(l.Warnings, func(a, b Warning) int { return cmp.Compare(a.Line, b.Line) })
	for i := range l.properties {
		if p := &l.properties[i]; isSecret(p.Key) {
			p.Value, p.resolved = "", ""
		}
	}
	return l.Config, nil
}

// loader builds a Config and collects what is wrong with it.
type loader struct {
	*Config
	problems []*Error
	failed   map[string]bool // settings with a problem of their own
}

// fromOverride is where a property is from that stands in no line.
const fromOverride = "--override"

// add makes p the setting of its key: the last one counts.
func (l *loader) add(p property) {
	if i, ok := l.index[p.Key]; ok {
		l.properties[i] = p
		return
	}
	l.index[p.Key] = len(l.properties)
	l.properties = append(l.properties, p)
}

// parseValues parses each setting of the file, and names the required ones that are missing.
func (l *loader) parseValues() {
	for _, p := range l.properties {
		// Keys that Kafka does not define are those of plugins, or nobody's: it takes them.
		if s, ok := find(p.Key); ok && !l.failed[p.Key] {
			l.parseValue(s, p)
		}
	}
	// Two names of one setting.
	if broker, ok := l.given("broker.id"); ok && !l.Has("node.id") {
		s, _ := find("node.id")
		l.parseValue(s, broker)
	}
	if id, ok := l.values["node.id"]; ok && !l.Has("broker.id") {
		l.values["broker.id"] = id
	}
	for i := range settings {
		s := &settings[i]
		if _, ok := l.values[s.name]; s.fallback == required && !ok && !l.failed[s.name] {
			l.fail(s.name, "it has no default, and the file does not set it", "add a line such as "+s.name+"="+example(s.name))
		}
	}
}

// parseValue makes the value of s what p has, which may stand under another name of s.
func (l *loader) parseValue(s *setting, p property) {
	v, problem := s.parse(p.resolved)
	if problem == nil {
		l.values[s.name] = v
		return
	}
	if !l.failed[p.Key] {
		l.report(p.Key, problem)
	}
	l.failed[p.Key], l.failed[s.name] = true, true
}

// example is a value of a setting that has no default.
func example(name string) string {
	switch name {
	case "process.roles":
		return "broker,controller"
	case "node.id":
		return "1"
	}
	return "CONTROLLER"
}

// fail reports a problem of a setting and leaves it out of the checks to come.
func (l *loader) fail(key, reason, fix string) {
	l.report(key, &problem{reason: reason, fix: fix})
	l.failed[key] = true
}

func (l *loader) report(key string, p *problem) {
	e := &Error{File: l.File, Key: key, Reason: p.reason, Fix: p.fix, Verbatim: p.verbatim}
	if given, ok := l.given(key); ok {
		e.Line, e.From = given.Line, given.from
		e.Setting = key + "=" + printable(given.Value)
		if isSecret(key) {
			e.Setting = key + "=(hidden)"
		}
		if hint := l.unresolved(given); hint != "" {
			e.Fix = hint + "; " + e.Fix
		}
	}
	l.problems = append(l.problems, e)
}

// usable reports whether none of these settings has a problem of its own.
func (l *loader) usable(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return l.failed[key] })
}

// failure is what Load returns: the problems in the order of their lines, those of no line behind them.
func (l *loader) failure() error {
	slices.SortStableFunc(l.problems, func(a, b *Error) int { return cmp.Compare(uint(a.Line-1), uint(b.Line-1)) })
	joined := make([]error, len(l.problems))
	for i, e := range l.problems {
		joined[i] = e
	}
	return errors.Join(joined...)
}

// printable quotes text that a terminal would not show as it is.
func printable(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}
