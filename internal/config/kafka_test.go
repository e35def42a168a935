package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kafkaCase is a line of the files in testdata, all about Apache Kafka 4.4.0: golden.jsonl has the configurations of
// recorded runs of kafka-storage, the others what Record.java recorded from KafkaConfig. The properties are
// those of the file Base, without the keys Without, and Lines. $WORK is the folder testdata/providers.
type kafkaCase struct {
	Name    string            `json:"name"`
	Base    string            `json:"base"`
	Without []string          `json:"without"`
	Lines   string            `json:"lines"`
	Key     string            `json:"key"`
	Env     map[string]string `json:"env"`
	OK      *string           `json:"ok"`      // value of Key, or a summary
	Refused string            `json:"refused"` // Kafka's message
}

// recordedEnv is the environment in which Record.java ran.
var recordedEnv = map[string]string{
	"PROBE_DIR": "fromenv", "PROBE_NUM": "6", "PROBE_ONE": "1", "PROBE_ROLES": "broker,controller",
	"PROBE_EMPTY": "", "PROBE_SP": " 6 ", "PROBE_VAR": "${env:PROBE_DIR}", "PROBE_UNI": "dé",
}

func kafkaCases[T any](t testing.TB, name string) []T {
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []T
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c T
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

func workDir(t testing.TB) string {
	dir, err := filepath.Abs("testdata/providers")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (c kafkaCase) file(t testing.TB) []byte {
	var text strings.Builder
	if c.Base != "" {
		base, err := os.ReadFile(filepath.Join("testdata", c.Base+".properties"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(base)) {
			key, _, _ := strings.Cut(line, "=")
			if !slices.Contains(c.Without, key) {
				text.WriteString(line)
			}
		}
	}
	text.WriteString(c.Lines)
	return []byte(strings.ReplaceAll(text.String(), "$WORK", workDir(t)))
}

func (c kafkaCase) load(t testing.TB) (*Config, error) {
	env := recordedEnv
	if c.Name != "" {
		env = c.Env
	}
	return parse("server.properties", c.file(t), func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
}

// id names a case: as it is called, or by its last line.
func (c kafkaCase) id() string {
	if c.Name != "" {
		return c.Name
	}
	lines := strings.TrimSuffix(c.Lines, "\n")
	return lines[strings.LastIndexByte(lines, '\n')+1:]
}

// unlikeKafka are the cases with another verdict on purpose.
var unlikeKafka = map[string]string{
	"metadata.log.dir=":          "an empty directory is refused",
	"format-dirs-trailing-slash": "two spellings of a directory are refused",

	`principal.builder.class=\ java.lang.String `:                                         "classes cannot be looked for",
	"principal.builder.class=java.util.Map$Entry":                                         "classes cannot be looked for",
	"group.consumer.assignors=org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "classes cannot be looked for",
	"group.share.assignors=org.apache.kafka.coordinator.group.assignor.UniformAssignor":   "classes cannot be looked for",
	"group.streams.assignors=org.apache.kafka.coordinator.group.assignor.SimpleAssignor":  "classes cannot be looked for",
	"group.streams.assignors=org.apache.kafka.coordinator.group.assignor.UniformAssignor": "classes cannot be looked for",

	`config.providers.env.param.allowlist.pattern=(?!X)PROBE.*`:    "RE2 has no look-around",
	`config.providers.env.param.allowlist.pattern=PROBE_DIR++`:     "RE2 has no possessive quantifiers",
	`config.providers.env.param.allowlist.pattern=[A-Z&&[^Q]_]+`:   "RE2 has no class intersections",
	`config.providers.env.param.allowlist.pattern=\\p{Upper}*_DIR`: "RE2 has other names of classes",
	`config.providers.env.param.allowlist.pattern=.*{`:             "RE2 takes a brace for itself",
}

// TestVerdictsOfKafka loads what Kafka took, with the values that it saw, and refuses what Kafka refused.
func TestVerdictsOfKafka(t *testing.T) {
	different := map[string]bool{}
	for _, name := range []string{"golden.jsonl", "values.jsonl", "files.jsonl"} {
		t.Run(name, func(t *testing.T) {
			for _, c := range kafkaCases[kafkaCase](t, name) {
				config, err := c.load(t)
				refused := c.Refused != ""
				if refused != (err != nil) {
					different[c.id()] = true
					if unlikeKafka[c.id()] == "" {
						t.Errorf("%s %s %q\n here: %v\nKafka: %s", c.Name, c.Base, c.Lines, err, c.Refused)
					}
				} else if c.OK != nil {
					compareWithKafka(t, c, config)
				}
			}
		})
	}
	for id, reason := range unlikeKafka {
		if !different[id] {
			t.Errorf("%s is no different, though %s", id, reason)
		}
	}
}

func compareWithKafka(t *testing.T, c kafkaCase, config *Config) {
	got := summary(config)
	if c.Key != "" {
		got = valueText(config, c.Key)
	}
	want := strings.ReplaceAll(*c.OK, "$WORK", workDir(t))
	if got != want && !sameNumber(got, want) {
		t.Errorf("%s %q\n got %q\nwant %q", c.Base, c.Lines, got, want)
	}
}

// TestDefaultsOfKafka has the table say the same as Kafka's.
func TestDefaultsOfKafka(t *testing.T) {
	type setting struct {
		Key   string  `json:"key"`
		Value *string `json:"value"`
	}
	config, err := kafkaCase{Base: "combined"}.load(t)
	if err != nil {
		t.Fatal(err)
	}
	defaults := kafkaCases[setting](t, "defaults.jsonl")
	for _, d := range defaults {
		if d.Value == nil {
			if !config.Null(d.Key) {
				t.Errorf("%s has a default, which Kafka has not", d.Key)
			}
			continue
		}
		got := valueText(config, d.Key)
		// The order of this one is that of a Java hash table.
		if d.Key == "listener.security.protocol.map" {
			got, *d.Value = sorted(got), sorted(*d.Value)
		}
		if config.Null(d.Key) || got != *d.Value && !sameNumber(got, *d.Value) {
			t.Errorf("default of %s: %q, want %q", d.Key, got, *d.Value)
		}
	}
	if len(settings)-len(defaults) != len(config.Keys())+1 { // broker.id goes with node.id
		t.Errorf("%d settings, of which %d are at their defaults and %d are set", len(settings), len(defaults), len(config.Keys()))
	}
}

func sorted(list string) string {
	entries := strings.Split(list, ",")
	slices.Sort(entries)
	return strings.Join(entries, ",")
}

// sameNumber compares the texts of a double, which Java and Go write differently.
func sameNumber(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseFloat(b, 64)
	return err == nil && (x == y || x != x && y != y)
}

// valueText writes a value as Record.java does.
func valueText(c *Config, key string) string {
	v, k := c.lookup(key)
	switch k {
	case listKind:
		return strings.Join(v.list, "|")
	case booleanKind:
		return strconv.FormatBool(v.number == 1)
	case doubleKind:
		return fmt.Sprint(v.double)
	case stringKind, classKind, passwordKind:
		return v.text
	}
	return strconv.FormatInt(v.number, 10)
}

// summary writes a configuration as Record.java does.
func summary(c *Config) string {
	listeners := func(list []Listener) string {
		return join(list, func(e Listener) string { return fmt.Sprintf("%s/%s/%s/%d", e.Name, e.Protocol, e.Host, e.Port) })
	}
	roles := ""
	if c.IsBroker {
		roles += "b"
	}
	if c.IsController {
		roles += "c"
	}
	return fmt.Sprintf("node=%d roles=%s dirs=%s metadata=%s cordoned=%s listeners=%s advertised=%s controllers=%s names=%s voters=%s bootstrap=%s interBroker=%s",
		c.NodeID, roles, strings.Join(c.LogDirs, "|"), c.MetadataLogDir, strings.Join(c.CordonedLogDirs, "|"),
		listeners(c.Listeners), listeners(c.AdvertisedListeners), listeners(c.AdvertisedControllerListeners), strings.Join(c.ControllerListenerNames, "|"),
		join(c.QuorumVoters, func(v Voter) string { return fmt.Sprintf("%d@%s:%d", v.NodeID, v.Host, v.Port) }),
		join(c.BootstrapServers, func(a Address) string { return fmt.Sprintf("%s:%d", a.Host, a.Port) }), c.InterBrokerListenerName)
}

func join[T any](list []T, text func(T) string) string {
	var texts []string
	for _, e := range list {
		texts = append(texts, text(e))
	}
	return strings.Join(texts, "|")
}
