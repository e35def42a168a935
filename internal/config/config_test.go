package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// base is a combined node; tests append to it.
const base = `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:21093
listeners=PLAINTEXT://localhost:21092,CONTROLLER://localhost:21093
controller.listener.names=CONTROLLER
`

func noEnv(string) (string, bool) { return "", false }

func mustParse(t testing.TB, text string) *Config {
	t.Helper()
	c, err := parse("server.properties", []byte(text), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems takes a joined error apart.
func problems(t testing.TB, err error) []*Error {
	t.Helper()
	if err == nil {
		return nil
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	var out []*Error
	for _, err := range all {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%v is no *Error", err)
		}
		out = append(out, e)
	}
	return out
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // parts of the warnings
	}{
		{"nothing to say", base + "log.dirs=a,b\nmetadata.log.dir=m\n", nil},
		{"a comment behind a directory", base + "log.dirs=a # data\n", []string{`line 6: log.dirs: the directory is "a # data"`}},
		{"UTF-8", base + "log.dirs=a,d\xc3\xa9\n", []string{`log.dirs: the directory is "dÃ©"`}},
		{"ISO-8859-1 is what Kafka reads", base + "log.dirs=d\xe9\n", nil},
		{"escapes are what they say", base + `log.dirs=d\u00e9\u4e2d` + "\n", nil},
		{"a backslash that was meant as one", base + `log.dirs=D:\temp` + "\n", []string{`"D:\temp" has a control character`}},
		{"a byte order mark before a comment", "\xef\xbb\xbf# x\n" + base + "log.dirs=a\n", []string{"line 1: the file begins with a byte order mark"}},
		{"a variable of a shell", base + "log.dirs=${HOME}/data\n", []string{"${HOME} is not replaced"}},
		{"a provider that is none", base + "log.dirs=${env:HOME}\n", []string{`as there is no config provider "env"`}},
		{"a variable that is not set", base + "log.dirs=${env:HOME}\nconfig.providers=env\nconfig.providers.env.class=" + envProviderClass + "\n",
			[]string{"${env:HOME} is not replaced, as nothing of that name was found"}},
		{"an entry again", base + "log.dirs=a,b,a\nssl.cipher.suites=x,x\n", []string{`log.dirs: ["a"] stands there more than once`, `line 7: ssl.cipher.suites: ["x"]`}},
		{"addresses may stand there again", base + "log.dirs=a\ncontroller.quorum.bootstrap.servers=a:1,a:1\n", nil},
		{"metadata within a log directory", base + "log.dirs=a,b\nmetadata.log.dir=./b/meta\n", []string{"metadata.log.dir: ./b/meta is inside of the log directory b"}},
		{"metadata in a directory of almost that name", base + "log.dirs=a,b\nmetadata.log.dir=bb\n", nil},
		{"a controller never looks for topics", strings.Replace(strings.ReplaceAll(base, "broker,", ""), "PLAINTEXT://localhost:21092,", "", 1) +
			"log.dirs=a\nmetadata.log.dir=a/meta\n", nil},
		{"heartbeats that come too late", base + "log.dirs=a\nbroker.session.timeout.ms=3000\n", []string{"broker.heartbeat.interval.ms (2000, the default) is more than half"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse("server.properties", []byte(tt.text), noEnv)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Warnings) != len(tt.want) {
				t.Fatalf("warnings %v, want %q", c.Warnings, tt.want)
			}
			for i, w := range c.Warnings {
				if !strings.Contains(w.String(), tt.want[i]) || strings.HasPrefix(w.String(), "WARNING") {
					t.Errorf("warning %q, want %q", w, tt.want[i])
				}
			}
		})
	}
}

// Sentences that Kafka's users know open the line; what is wrong, where, and the way out.
func TestErrors(t *testing.T) {
	tests := []struct {
		name, text       string
		what, where, fix string
		verbatim         bool
	}{
		{"a comment behind a number", base + "log.dirs=a\nnode.id=1 # x\n",
			`node.id: "1 # x" is no whole number of 32 bits`, "server.properties line 7: node.id=1 # x", "write digits only", false},
		{"an empty entry", base + "log.dirs=a,\n",
			"Configuration 'log.dirs' values must not be empty.", "server.properties line 6: log.dirs=a,", "remove the comma", true},
		{"any address", strings.Replace(base, "localhost", "0.0.0.0", 2) + "log.dirs=a\n",
			"advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
			"server.properties line 4: listeners=PLAINTEXT://0.0.0.0:21092", "set advertised.listeners", true},
		{"a file without node.id", strings.Replace(base, "node.id=1\n", "", 1),
			"node.id: it has no default, and the file does not set it", "server.properties", "node.id=1", false},
		{"a broken escape, which may be in a password", base + "ssl.key.password=\\useriously\n",
			`\u is not followed by four hexadecimal digits (a backslash itself is written \\)`, "server.properties line 6", "two backslashes", false},
		{"a control character", base + `num.io.threads=5\ta` + "\n", "num.io.threads: ", `num.io.threads="5\ta"`, "write digits only", false},
		{"two directories in one", base + "log.dirs=d1/,d1\n", `log.dirs: "d1/" and "d1" are one directory`, "line 6", "remove one", false},
		{"the metadata in a log directory by another name", base + "log.dirs=d1\nmetadata.log.dir=./d1\n", `metadata.log.dir: "./d1" and "d1" of log.dirs are one directory`, "line 7", "as log.dirs has it", false},
		{"no metadata directory", base + "log.dirs=d1\nmetadata.log.dir=\n", "metadata.log.dir: the value is empty", "line 7", "remove the line", false},
		{"two names of the id", base + "broker.id=2\n", "broker.id: 2 is not the node.id 1 (server.properties line 2)", "line 6", "remove broker.id", false},
		{"only the old name", strings.Replace(base, "node.id=1", "broker.id=-1", 1), "broker.id: -1 is less than 0", "line 2", "[0,...]", false},
		{"a limit against a default", base + "replica.socket.timeout.ms=499\n",
			"replica.socket.timeout.ms: replica.socket.timeout.ms (499, server.properties line 6) is less than replica.fetch.wait.max.ms (500, the default)", "line 6", "raise", false},
		{"a provider of another make", base + "config.providers=vault\nconfig.providers.vault.class=com.example.Vault\n",
			`config.providers.vault.class: there is no provider "com.example.Vault" here`, "line 7", fileProviderClass, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse("server.properties", []byte(tt.text), noEnv)
			all := problems(t, err)
			if len(all) != 1 {
				t.Fatalf("problems %v, want one", err)
			}
			e := all[0]
			if !strings.HasPrefix(e.What(), tt.what) || !strings.Contains(e.Where(), tt.where) || !strings.Contains(e.Fix, tt.fix) || e.Verbatim != tt.verbatim {
				t.Errorf("got\n%s\n%s\n%s (verbatim %v)\nwant\n%s\n%s\n%s", e.What(), e.Where(), e.Fix, e.Verbatim, tt.what, tt.where, tt.fix)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := parse("f", []byte(base+`num.io.threads=0
log.dirs=a,,b
group.consumer.session.timeout.ms=1
unstable.feature.versions.enable=yes
broker.id=x
controller.quorum.voters=2@h:1
`), noEnv)
	var lines []int
	for _, e := range problems(t, err) {
		lines = append(lines, e.Line)
	}
	if want := []int{6, 7, 8, 9, 10, 11}; !slices.Equal(lines, want) {
		t.Errorf("problems in lines %v, want %v: %v", lines, want, err)
	}
}

func TestByteOrderMarkIsNamedWithTheHarmItDid(t *testing.T) {
	_, err := parse("f", []byte("\xef\xbb\xbf"+base+"log.dirs=a\n"), noEnv)
	all := problems(t, err)
	if len(all) != 2 || !strings.Contains(all[0].Reason, "byte order mark") || all[1].Key != "process.roles" {
		t.Errorf("problems %v, want the mark and the missing process.roles", err)
	}
}

func TestSecretsStayHidden(t *testing.T) {
	const secret = "swordfish"
	env := func(name string) (string, bool) { return secret, name == "SECRET" }
	providers := "config.providers=env\nconfig.providers.env.class=" + envProviderClass + "\n"
	for _, line := range []string{
		"ssl.key.password=" + secret,
		"ssl.key.password=${env:SECRET}",
		"listener.name.internal.ssl.keystore.password=" + secret,
		"listener.name.internal.plain.sasl.jaas.config=" + secret,
		"my.plugin.token=" + secret,
		"my.plugin.token=" + secret + "${env:some:PATH}",
		"config.providers.vault.param.token=" + secret,
		"ssl.key.password=" + secret + `\u12`,
	} {
		for _, text := range []string{base + "log.dirs=a\n", base + "log.dirs=a,\nnum.io.threads=0\n"} {
			c, err := parse("f", []byte(text+providers+line+"\n"), env)
			if c != nil {
				text = fmt.Sprintf("%v %+v %#v", c, *c, c)
			} else {
				text = fmt.Sprintf("%v %+v", err, problems(t, err))
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s is shown: %s", line, text)
			}
		}
	}
}

func TestTypedAccess(t *testing.T) {
	c := mustParse(t, base+`log.dirs=a , b
num.io.threads=+012
log.retention.bytes=-1
offsets.topic.replication.factor=2
log.cleaner.min.cleanable.ratio=0x1p-1
delete.topic.enable=FALSE
broker.rack= r1
my.plugin.x=1
num.io.threads=7
`)
	if got := c.Int("num.io.threads"); got != 7 {
		t.Errorf("num.io.threads = %d: the last line counts", got)
	}
	if got := c.Long("log.retention.bytes"); got != -1 {
		t.Errorf("log.retention.bytes = %d", got)
	}
	if got := c.Int("offsets.topic.replication.factor"); got != 2 {
		t.Errorf("offsets.topic.replication.factor = %d", got)
	}
	if got := c.Double("log.cleaner.min.cleanable.ratio"); got != 0.5 {
		t.Errorf("log.cleaner.min.cleanable.ratio = %v", got)
	}
	if c.Bool("delete.topic.enable") || !c.Bool("auto.create.topics.enable") {
		t.Error("booleans: a set false or a default true is wrong")
	}
	if got := c.String("broker.rack"); got != "r1" {
		t.Errorf("broker.rack = %q", got)
	}
	if got := c.List("log.dirs"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("log.dirs = %q", got)
	}
	if got := c.Int("controller.quorum.fetch.timeout.ms"); got != 2000 {
		t.Errorf("default of controller.quorum.fetch.timeout.ms = %d", got)
	}
	if !c.Null("log.roll.ms") || c.Null("log.roll.hours") || c.Long("log.roll.ms") != 0 {
		t.Error("log.roll.ms has no value, log.roll.hours has")
	}
	if !c.Has("my.plugin.x") || c.Has("log.roll.hours") || !slices.Contains(c.Keys(), "my.plugin.x") {
		t.Error("the file sets my.plugin.x, but not log.roll.hours")
	}
	if got := c.Source("num.io.threads"); got != "server.properties line 14" {
		t.Errorf("source of num.io.threads: %q", got)
	}
	if got := c.Source("log.roll.hours"); got != "the default" {
		t.Errorf("source of log.roll.hours: %q", got)
	}
}

func TestNodeIDHasTwoNames(t *testing.T) {
	for _, name := range []string{"node.id", "broker.id"} {
		c := mustParse(t, strings.Replace(base, "node.id=1", name+"=5", 1)+"log.dirs=a\n")
		if c.NodeID != 5 || c.Int("node.id") != 5 || c.Int("broker.id") != 5 || c.Source("node.id") != "server.properties line 2" {
			t.Errorf("%s=5 gives %d, %d, %d from %s", name, c.NodeID, c.Int("node.id"), c.Int("broker.id"), c.Source("node.id"))
		}
	}
}

func TestAccessOfAnotherTypePanics(t *testing.T) {
	c := mustParse(t, base+"log.dirs=a\n")
	for name, access := range map[string]func(){
		"no such key":  func() { c.Int("num.io.thread") },
		"another type": func() { c.Long("num.io.threads") },
		"a password":   func() { c.String("ssl.key.password") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			access()
		})
	}
}

func TestProvidersAreNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "node.properties")
	if err := os.WriteFile(file, []byte("threads=none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := base + "log.dirs=${env:DIRS}\nnum.io.threads=${file:" + file + ":threads}\nconfig.providers=env,file\n" +
		"config.providers.env.class=" + envProviderClass + "\nconfig.providers.file.class=" + fileProviderClass + "\n"
	env := func(name string) (string, bool) { return "a,b", name == "DIRS" }
	_, err := parse("f", []byte(text), env)
	all := problems(t, err)
	if len(all) != 1 || all[0].Where() != "f line 7: num.io.threads=${file:"+file+":threads} (from file "+file+")" || !strings.Contains(all[0].What(), `"none"`) {
		t.Fatalf("problems %v, want the file named", err)
	}
	c, err := parse("f", []byte(strings.Replace(text, "num.io.threads", "broker.rack", 1)), env)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Source("log.dirs"); got != "f line 6, from environment variable DIRS" || !slices.Equal(c.LogDirs, []string{"a", "b"}) {
		t.Errorf("log.dirs are %q, source %q", c.LogDirs, got)
	}
	if c.String("broker.rack") != "none" {
		t.Errorf("broker.rack = %q", c.String("broker.rack"))
	}
}

func TestLoadNamesTheFileThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		filepath.Join(dir, "none.properties"): "no such file or directory",
		dir:                                   "is a directory",
		"":                                    "is empty",
	} {
		_, err := Load(name, noEnv)
		all := problems(t, err)
		if len(all) != 1 || !strings.Contains(all[0].What(), want) || all[0].File != name {
			t.Errorf("Load(%q): %v, want %q", name, err, want)
		}
	}
}

func TestPermissionNamesTheUser(t *testing.T) {
	err := &fs.PathError{Op: "open", Path: "f", Err: fs.ErrPermission}
	if got := systemReason(err); got != fmt.Sprintf("permission denied (user id %d)", os.Getuid()) {
		t.Errorf("reason %q", got)
	}
}

func TestSettingsAreSorted(t *testing.T) {
	if !slices.IsSortedFunc(settings[:], func(a, b setting) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the table is not in the order of the names")
	}
	for _, s := range settings {
		s.defaultValue() // panics where a default is not allowed
	}
}

// The pattern is Kafka's for lists.
func TestSplitListIsThePattern(t *testing.T) {
	pattern := regexp.MustCompile(`[ \t\n\v\f\r]*,[ \t\n\v\f\r]*`)
	rapid.Check(t, func(t *rapid.T) {
		text := trim(rapid.StringOf(rapid.SampledFrom([]rune("ab,, \t\n\v\x01\u00a0\u2003"))).Draw(t, "text"))
		want := pattern.Split(text, -1)
		if text == "" {
			want = nil
		}
		if got := splitList(text); !slices.Equal(got, want) {
			t.Fatalf("%q is split into %q, want %q", text, got, want)
		}
	})
}

func TestEndpointsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"", "localhost", "node-1.example.com", "10.0.0.1", "::1", "fe80::1%eth0"}).Draw(t, "host")
		written := host
		if strings.Contains(host, ":") {
			written = "[" + host + "]"
		}
		name := rapid.StringMatching(`[A-Z][A-Z0-9_]*`).Draw(t, "name")
		port := rapid.Uint16().Draw(t, "port")
		listener, problem := parseListener(fmt.Sprintf("%s://%s:%d", name, written, port))
		if problem != nil || listener != (Listener{Name: name, Host: host, Port: int(port)}) {
			t.Fatalf("listener %+v, %v", listener, problem)
		}
		id := rapid.Int32().Draw(t, "id")
		voters, problem := parseVoters([]string{fmt.Sprintf("%d@%s:%d", id, written, port)})
		if problem != nil || !slices.Equal(voters, []Voter{{id, Address{host, port}}}) {
			t.Fatalf("voters %+v, %v", voters, problem)
		}
	})
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"golden.jsonl", "files.jsonl"} {
		for _, c := range kafkaCases[kafkaCase](f, name) {
			f.Add(c.file(f))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// These read whatever the input names.
		if strings.Contains(string(data), "FileConfigProvider") || strings.Contains(string(data), "DirectoryConfigProvider") {
			return
		}
		c, err := parse("f", data, noEnv)
		if err != nil {
			for _, e := range problems(t, err) {
				if e.Reason == "" || e.Fix == "" || e.File != "f" {
					t.Errorf("%+v does not say what, where and how to go on", e)
				}
			}
			return
		}
		if len(c.LogDirs) == 0 || c.MetadataLogDir == "" || c.NodeID < 0 || !c.IsBroker && !c.IsController || len(c.Listeners) == 0 ||
			len(c.QuorumVoters) == 0 && len(c.BootstrapServers) == 0 {
			t.Errorf("%q gives %s", data, summary(c))
		}
		if c.IsController && len(c.AdvertisedControllerListeners) == 0 || c.IsBroker && len(c.AdvertisedListeners) == 0 {
			t.Errorf("%q advertises nothing: %s", data, summary(c))
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "server.properties")
	text := base + `log.dirs=/var/lib/kafka/data-1,/var/lib/kafka/data-2
advertised.listeners=PLAINTEXT://node1.example.com:9092,CONTROLLER://node1.example.com:9093
# a comment, as the file of the distribution has many
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(path, noEnv); err != nil {
			b.Fatal(err)
		}
	}
}
