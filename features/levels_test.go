package features

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// formatCase is a line of testdata/format-4.4.0.jsonl: what kafka-storage format of Apache Kafka 4.4.0 made of -r and
// -f arguments. Either Records are there, the FeatureLevelRecords in their order (and KRaft where a checkpoint was
// written), or the sentence with which Kafka refused.
type formatCase struct {
	Name     string
	Quorum   string // static or dynamic
	Unstable bool
	Args     []string // -r VALUE, -f VALUE
	Records  string
	KRaft    *int16
	Refused  string
}

// onPurpose are the cases that Kafka refuses and ours take as 4.5-IV1.
var onPurpose = []string{
	"release 4.5",
	"release 4.5, unstable",
	"release 4.5.0",
	"release 4.5.0, unstable",
	"release unstable short with patch",
	"release unstable short with patch, unstable",
	"format-release-unstable-4.5-enabled",
	"metadata.version 35",
	"metadata.version 35, unstable",
	"format-feature-metadata.version-35",
}

// choose does what a command does with its arguments, in Kafka's order.
func choose(c formatCase) (Resolved, error) {
	var choice Choice
	var features []string
	for i := 0; i < len(c.Args); i += 2 {
		if c.Args[i] == "-f" {
			features = append(features, c.Args[i+1])
			continue
		}
		v, err := ParseVersion(c.Args[i+1], c.Unstable)
		if err != nil {
			return Resolved{}, err
		}
		choice.Release = v
	}
	var err error
	if choice.Features, err = ParseLevels(features); err != nil {
		return Resolved{}, err
	}
	choice.Default = DefaultVersion(true, c.Unstable)
	choice.StaticVoters = c.Quorum == "static"
	choice.Unstable = c.Unstable
	return Resolve(choice)
}

func TestFormatOfKafka(t *testing.T) {
	for _, c := range jsonLines[formatCase](t, "testdata/format-4.4.0.jsonl") {
		t.Run(c.Name, func(t *testing.T) {
			got, err := choose(c)
			if slices.Contains(onPurpose, c.Name) {
				if err != nil || got.MetadataVersion != LatestProduction || c.Refused == "" {
					t.Fatalf("resolved %+v, %v; Kafka says: %s", got, err, c.Refused)
				}
				return
			}
			if c.Refused != "" {
				checkRefused(t, err, c.Refused)
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			var records []string
			for _, l := range got.Records {
				records = append(records, fmt.Sprintf("%s=%d", l.Name, l.Level))
			}
			if text := strings.Join(records, " "); text != c.Records {
				t.Errorf("records are %s\nKafka has     %s", text, c.Records)
			}
			if got.Records[0].Level != int16(got.MetadataVersion) {
				t.Errorf("metadata.version is %v, its record has %v", got.MetadataVersion, got.Records[0])
			}
			if c.KRaft != nil && got.KRaftVersion != *c.KRaft {
				t.Errorf("kraft.version is %d, Kafka has %d", got.KRaftVersion, *c.KRaft)
			}
		})
	}
}

// checkRefused compares the first error with Kafka's sentence: literally as far as it is one of the fixed ones, else by
// what it is about.
func checkRefused(t *testing.T, err error, refused string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, Kafka says: %s", refused)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		err = joined.Unwrap()[0]
	}
	text := err.Error()
	switch kafka, _, _ := strings.Cut(refused, " and one of the flags"); {
	case strings.HasPrefix(refused, "Unknown metadata.version"), strings.HasPrefix(refused, "Unsupported feature"),
		strings.HasPrefix(refused, "Use --release-version"):
		// Kafka's list of versions goes on with ours.
		if text != refused && text != refused+", 4.5-IV1" && !strings.HasPrefix(text, refused+" Supported ") {
			t.Errorf("says  %s\nKafka %s", text, refused)
		}
	case strings.HasPrefix(refused, "Cannot set kraft.version"):
		if !strings.HasPrefix(text, kafka) {
			t.Errorf("says  %s\nKafka %s", text, refused)
		}
	case strings.HasPrefix(refused, "Can't parse feature=level string"):
		wantType[*SyntaxError](t, err, refused)
	case strings.HasPrefix(refused, "No feature:"), strings.HasPrefix(refused, "No MetadataVersion"):
		wantType[*UnknownLevelError](t, err, refused)
	case strings.Contains(refused, "could not be set"):
		wantType[*RequirementError](t, err, refused)
	case strings.Contains(refused, "not yet stable"):
		wantType[*UnstableVersionError](t, err, refused)
	default:
		t.Errorf("no rule for: %s", refused)
	}
}

func wantType[E error](t *testing.T, err error, refused string) {
	t.Helper()
	if _, ok := err.(E); !ok {
		t.Errorf("error is %T (%v), Kafka says: %s", err, err, refused)
	}
}

// printCase is a line of testdata/print-4.4.0.jsonl: version-mapping and feature-dependencies as recorded from
// kafka-storage and kafka-features of Apache Kafka 4.4.0.
type printCase struct {
	Name           string
	Args           []string // the command, then -r VALUE or -f VALUE
	Exit           int
	Stdout, Stderr string
}

// printLevels does what the two commands do.
func printLevels(w *strings.Builder, args []string) error {
	if args[0] == "feature-dependencies" {
		for i := 2; i < len(args); i += 2 {
			l, err := ParseLevel(args[i])
			if err != nil {
				return err
			}
			requires, err := Requirements(l)
			if err != nil {
				return err
			}
			if len(requires) == 0 {
				fmt.Fprintf(w, "%v has no dependencies.\n", l)
				continue
			}
			fmt.Fprintf(w, "%v requires:\n", l)
			for _, r := range requires {
				fmt.Fprintf(w, "    %v\n", r)
			}
		}
		return nil
	}
	release := LatestKafka.String()
	if len(args) > 1 {
		release = args[2]
	}
	v, err := ParseVersion(release, true)
	if err != nil {
		return err
	}
	for _, l := range Mapping(v) {
		if l.Name == MetadataVersionName {
			fmt.Fprintf(w, "%s=%d (%s)\n", l.Name, l.Level, release)
		} else {
			fmt.Fprintln(w, l)
		}
	}
	return nil
}

func TestPrintOfKafka(t *testing.T) {
	ours := []string{ // 4.5-IV1
		"features/version-mapping-4.5",
		"features/feature-dependencies-metadata.version-35",
		"storage/feature-dependencies-metadata.version-35",
	}
	for _, c := range jsonLines[printCase](t, "testdata/print-4.4.0.jsonl") {
		t.Run(c.Name, func(t *testing.T) {
			var out strings.Builder
			err := printLevels(&out, c.Args)
			if slices.Contains(ours, c.Name) {
				if err != nil || c.Exit != 1 {
					t.Errorf("error is %v, Kafka says: %s", err, c.Stderr)
				}
				return
			}
			if (err != nil) != (c.Exit != 0) || out.String() != c.Stdout {
				t.Errorf("error is %v, stdout\n%s\nKafka: %s\n%s", err, out.String(), c.Stderr, c.Stdout)
			}
			if strings.HasPrefix(c.Stderr, "Unknown metadata.version '") {
				checkRefused(t, err, c.Stderr)
			}
		})
	}
}

func TestDefaultVersion(t *testing.T) {
	tests := []struct {
		name            string
		known, unstable bool
		want            string
	}{
		{"Kafka 4.4 reads it", true, false, "4.4-IV2"},
		{"Kafka 4.4 reads it under the same setting", true, true, "4.5-IV0"},
		{"the id needs a record", false, false, "4.5-IV1"},
		{"the id needs a record, whatever the setting", false, true, "4.5-IV1"},
	}
	for _, tt := range tests {
		if got := DefaultVersion(tt.known, tt.unstable); got.String() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestResolveCollectsErrors(t *testing.T) {
	_, err := Resolve(Choice{
		Release: 25, StaticVoters: true,
		Features: []Level{{"zzz", 1}, {"aaa", 1}, {KRaftVersionName, 1}, {"group.version", 9}, {MetadataVersionName, 25}},
	})
	want := []error{
		&AmbiguousVersionError{},
		&UnsupportedFeatureError{Name: "aaa"},
		&UnsupportedFeatureError{Name: "zzz"},
		&KRaftVersionError{1, true},
		&UnknownLevelError{Level{"group.version", 9}},
	}
	if !reflect.DeepEqual(err.(interface{ Unwrap() []error }).Unwrap(), want) {
		t.Errorf("errors are\n%v\nwant\n%v", err, errors.Join(want...))
	}
}

func TestResolveNeedsAVersion(t *testing.T) {
	for _, c := range []Choice{{}, {Default: 36}, {Release: 6}, {Default: latestKafkaUnstable}} {
		if r, err := Resolve(c); err == nil {
			t.Errorf("Resolve(%+v) = %+v", c, r)
		}
	}
}

func TestParseLevelsCollectsErrors(t *testing.T) {
	levels, err := ParseLevels([]string{"group.version=1", "x", "y=z", "a=1,b=2",
		"metadata.version=4.4-IV2", " metadata.version = 4.4 ", "metadata.version=4.5-IV0", "metadata.version=4.4-IV9"})
	want := []string{
		`feature "x": there is no equals sign, the form is name=level`,
		`feature "y=z": the level is not a number of 16 bits; version-mapping shows those of a release`,
		`feature "a=1,b=2": the level is not a number; each feature needs an option of its own`,
		`feature "metadata.version=4.4-IV2": the level is not a number: that of 4.4-IV2 is 33`,
		`feature " metadata.version = 4.4 ": the level is not a number: that of 4.4 is 33`,
		`feature "metadata.version=4.5-IV0": the level is not a number: that of 4.5-IV0 is 34`,
		`feature "metadata.version=4.4-IV9": the level is not a number of 16 bits; version-mapping shows those of a release`,
	}
	if err == nil || levels != nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("levels %v, error\n%v\nwant\n%s", levels, err, strings.Join(want, "\n"))
	}
}

func TestErrorTexts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&RequirementError{Level{"eligible.leader.replicas.version", 1}, Level{MetadataVersionName, 23}, 22},
			"eligible.leader.replicas.version=1 requires metadata.version=23 (4.0-IV1) or higher, not metadata.version=22 (4.0-IV0)"},
		{&UnknownLevelError{Level{"share.version", 9}}, "share.version has no level 9, its levels are 0 to 2"},
		{&UnknownLevelError{Level{MetadataVersionName, 6}}, "metadata.version has no level 6, its levels are 7 (3.3-IV3) to 35 (4.5-IV1)"},
		{&UnstableVersionError{34}, "metadata.version 34 (4.5-IV0) is unstable: it needs unstable.feature.versions.enable=true"},
	} {
		if tt.err.Error() != tt.want {
			t.Errorf("%s\nwant %s", tt.err, tt.want)
		}
	}
}

// The default levels of every release can be resolved, grow with it, and hold what Requirements says.
func TestDefaultsAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom(Versions()).Draw(t, "version")
		r, err := Resolve(Choice{Default: v, Unstable: true, StaticVoters: rapid.Bool().Draw(t, "static")})
		if err != nil {
			t.Fatal(err)
		}
		levels := map[string]int16{}
		for _, l := range Mapping(v) {
			levels[l.Name] = l.Level
		}
		for _, l := range r.Records {
			if levels[l.Name] != l.Level || l.Level == 0 {
				t.Fatalf("%v is written, version-mapping has %d", l, levels[l.Name])
			}
			requires, err := Requirements(l)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range requires {
				if levels[q.Name] < q.Level {
					t.Fatalf("%v at %v requires %v", l, v, q)
				}
			}
		}
		if !slices.IsSortedFunc(r.Records[1:], func(a, b Level) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatalf("records are %v", r.Records)
		}
		if v < LatestProduction {
			for i, l := range Mapping(v + 1) {
				if l.Level < Mapping(v)[i].Level {
					t.Fatalf("%s goes down from %v to %v", l.Name, v, v+1)
				}
			}
		}
	})
}

func FuzzParseLevel(f *testing.F) {
	for _, arg := range []string{"group.version=1", " group.version = +001 ", "a=-32768", "a=32768", "=", "", "a=١", "a==1", "a=1,b=2"} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		l, err := ParseLevel(arg)
		if err != nil {
			return
		}
		again, err := ParseLevel(fmt.Sprintf("%s=%d", l.Name, l.Level))
		if err != nil || again != l {
			t.Errorf("%q is %v, and that is %v, %v", arg, l, again, err)
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	for _, release := range []string{"4.0", "4.0.1", "4.0-IV3", "4.5", "", "4.0..", "...", "4.0.0-IV0"} {
		f.Add(release, true)
	}
	f.Fuzz(func(t *testing.T, release string, unstable bool) {
		v, err := ParseVersion(release, unstable)
		if err != nil {
			return
		}
		if again, err := ParseVersion(v.String(), unstable); err != nil || again != v || !strings.HasPrefix(release, v.Release()) {
			t.Errorf("%q is %v, and that is %v, %v", release, v, again, err)
		}
	})
}
