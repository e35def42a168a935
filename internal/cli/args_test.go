package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// storageGrammar has the options of kafka-storage and some of our own beside them.
func storageGrammar() *Grammar {
	config := &cli.StringFlag{Name: "config", Aliases: []string{"c"}, Required: true}
	release := &cli.StringFlag{Name: "release-version", Aliases: []string{"r"}}
	feature := &cli.StringSliceFlag{Name: "feature", Aliases: []string{"f"}}
	own := "own"
	json := &cli.BoolFlag{Name: "json", Category: own}
	return &Grammar{
		EnvPrefix:     "KSTORAGE_",
		ArgumentFiles: true,
		Exclusive:     [][]string{{"standalone", "no-initial-controllers", "initial-controllers"}},
		EmptyCounts:   []string{"cluster-id"},
		App: &cli.App{Name: "kstorage", Commands: []*cli.Command{
			{Name: "info", Flags: []cli.Flag{config, json}},
			{Name: "format", Flags: []cli.Flag{
				config,
				&cli.StringFlag{Name: "cluster-id", Aliases: []string{"t"}},
				&cli.StringSliceFlag{Name: "add-scram", Aliases: []string{"S"}},
				&cli.BoolFlag{Name: "ignore-formatted", Aliases: []string{"g"}},
				release, feature,
				&cli.BoolFlag{Name: "standalone", Aliases: []string{"s"}},
				&cli.BoolFlag{Name: "no-initial-controllers", Aliases: []string{"N"}},
				&cli.StringFlag{Name: "initial-controllers", Aliases: []string{"I"}},
				&cli.BoolFlag{Name: "dry-run", Category: own},
				&cli.StringFlag{Name: "config-check", Category: own},
				json,
			}},
			{Name: "version-mapping", Flags: []cli.Flag{release, json}},
			{Name: "feature-dependencies", Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "feature", Aliases: []string{"f"}, Required: true}, json}},
			{Name: "random-uuid"},
			{Name: "dump", Category: own, Args: true, Flags: []cli.Flag{json}},
			{Name: "version", Category: own},
		}},
	}
}

func noEnv(string) (string, bool) { return "", false }

// unlikeKafka has the argument lists that are taken in another way on purpose.
var unlikeKafka = map[string]string{
	`format -c F`: "the cluster id is optional (KIP-1262)",
	`format --config F --cluster-id -Yh6XyBIQ9CeAlMwJ8f7Hg`: "a cluster id may begin with a dash",
	`version`: "a command of our own",
}

func TestCanonicalAsKafka(t *testing.T) {
	t.Chdir("testdata/args")
	f, err := os.Open("../argparse.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		cases++
		words, want, _ := strings.Cut(line, "\t")
		var argv []string
		if err := json.Unmarshal([]byte(words), &argv); err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		got := verdict(argv)
		if reason, ok := unlikeKafka[strings.Join(argv, " ")]; ok {
			if got == want {
				t.Errorf("%q is as Kafka takes it, but should not be: %s", argv, reason)
			}
			continue
		}
		if got != want {
			t.Errorf("%q\n got %s\nwant %s", argv, got, want)
		}
	}
	if cases == 0 {
		t.Fatal("no cases")
	}
}

// verdict renders what Canonical makes of argv as the recording does.
func verdict(argv []string) string {
	a, err := storageGrammar().Canonical(argv, noEnv)
	if err != nil {
		return "refused"
	}
	if a.Help {
		return "help"
	}
	set := map[string]any{"command": a.Command}
	for _, word := range a.Argv[1:] {
		if word == "--" {
			break
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case !ok:
			set[name] = "true"
		case name == "feature" || name == "add-scram":
			list, _ := set[name].([]string)
			set[name] = append(list, value)
		default:
			set[name] = value
		}
	}
	b, _ := json.Marshal(set)
	return "ok " + strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(string(b))
}

func TestCanonicalOwn(t *testing.T) {
	env := func(pairs ...string) func(string) (string, bool) {
		return func(name string) (string, bool) {
			for _, p := range pairs {
				if k, v, _ := strings.Cut(p, "="); k == name {
					return v, true
				}
			}
			return "", false
		}
	}
	tests := []struct {
		name string
		argv string
		env  func(string) (string, bool)
		want string // the canonical words, or "error: " and a part of the reason
	}{
		{"own option by prefix where Kafka has none", "format -c F --dry", noEnv, "format --config=F --dry-run --"},
		{"own option is not in the way of one of Kafka's", "format --conf F", noEnv, "format --config=F --"},
		{"own command by prefix", "dum x", noEnv, "dump -- x"},
		{"options between arguments", "dump x --json y", noEnv, "dump --json -- x y"},
		{"arguments behind the separator", "dump -- --json", noEnv, "dump -- --json"},
		{"all missing options in one message", "feature-dependencies", noEnv, "error: --feature/-f (or KSTORAGE_FEATURE) is required"},
		{"hint at the version command", "--version", noEnv, "error: unrecognized"},
		{"value from the environment", "format", env("KSTORAGE_CONFIG=F"), "format --config=F --"},
		{"option before variable", "format -c G", env("KSTORAGE_CONFIG=F"), "format --config=G --"},
		{"empty variable counts as unset", "format", env("KSTORAGE_CONFIG="), "error: is required"},
		{"empty cluster id counts", "format -c F", env("KSTORAGE_CLUSTER_ID="), "format --config=F --cluster-id= --"},
		{"switch on", "format -c F", env("KSTORAGE_STANDALONE=true"), "format --config=F --standalone --"},
		{"switch off", "format -c F", env("KSTORAGE_STANDALONE=false"), "format --config=F --"},
		{"switch that is neither", "format -c F", env("KSTORAGE_STANDALONE=yes"), "error: KSTORAGE_STANDALONE"},
		{"exclusive option switches the variables off", "format -c F -N", env("KSTORAGE_STANDALONE=true"), "format --config=F --no-initial-controllers --"},
		{"exclusive variables", "format -c F", env("KSTORAGE_STANDALONE=true", "KSTORAGE_NO_INITIAL_CONTROLLERS=true"), "error: KSTORAGE_STANDALONE and KSTORAGE_NO_INITIAL_CONTROLLERS"},
		{"list with one value a line", "format -c F", env("KSTORAGE_FEATURE=a=1\nb=2\n"), "format --config=F --feature=a=1 --feature=b=2 --"},
		{"variable of another command's option", "info -c F", env("KSTORAGE_RELEASE_VERSION=4.0"), "info --config=F --"},
		{"file that includes itself", "@loop", noEnv, "error: includes itself"},
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("loop", []byte("format\n@loop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := storageGrammar().Canonical(strings.Fields(tt.argv), tt.env)
			if part, ok := strings.CutPrefix(tt.want, "error: "); ok {
				var usage *UsageError
				if !errors.As(err, &usage) || !strings.Contains(usage.Reason, part) {
					t.Fatalf("got %v, %v; want a usage error with %q", a.Argv, err, part)
				}
				return
			}
			if err != nil || !slices.Equal(a.Argv, strings.Fields(tt.want)) {
				t.Errorf("got %q, %v; want %q", a.Argv, err, tt.want)
			}
		})
	}
}

func TestCanonicalTellsTheVariable(t *testing.T) {
	a, err := storageGrammar().Canonical([]string{"format", "-t", "X"}, func(name string) (string, bool) {
		return "v", name == "KSTORAGE_CONFIG" || name == "KSTORAGE_CLUSTER_ID"
	})
	if err != nil || a.FromEnv["config"] != "KSTORAGE_CONFIG" || a.FromEnv["cluster-id"] != "" {
		t.Errorf("FromEnv = %v, %v", a.FromEnv, err)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add("format\x00-c=F\x00-sgr4.0\x00--clust\x00x")
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x00")
		for _, word := range argv {
			if strings.HasPrefix(word, "@") {
				return // names a file of this machine
			}
		}
		a, err := storageGrammar().Canonical(argv, noEnv)
		if err != nil || a.Help {
			return
		}
		// What is canonical stays as it is.
		again, err := storageGrammar().Canonical(a.Argv, noEnv)
		if err != nil || !slices.Equal(again.Argv, a.Argv) {
			t.Errorf("Canonical(%q) = %q, %v", a.Argv, again.Argv, err)
		}
	})
}
