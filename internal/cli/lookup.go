package cli

import (
	"fmt"
	"runtime"
	"strings"

	"kstorage/features"
)

// What both programs look up without a cluster or a node. Text is that of Kafka's tools where they have the command.

// Level is a feature at a level in a JSON document.
type Level struct {
	Name  string `json:"name"`
	Level int16  `json:"level"`
}

// Levels are features at their levels in a JSON document.
func Levels(from []features.Level) []Level {
	out := make([]Level, len(from))
	for i, l := range from {
		out[i] = Level(l)
	}
	return out
}

// VersionMapping prints the levels that a release stands for, by default those of the latest one. Errors:
// *features.UnknownVersionError, those of stdout.
func (o *Output) VersionMapping(release string, given bool) error {
	version := features.LatestProduction
	if given {
		var err error
		if version, err = features.ParseVersion(release, true); err != nil {
			return err
		}
	} else {
		release = version.String()
	}
	mapping := features.Mapping(version)
	var text strings.Builder
	for _, l := range mapping {
		if l.Name == features.MetadataVersionName {
			fmt.Fprintf(&text, "%s=%d (%s)\n", l.Name, l.Level, release)
		} else {
			fmt.Fprintln(&text, l)
		}
	}
	return o.Result(struct {
		Document
		Release  string  `json:"release"`
		Features []Level `json:"features"`
	}{o.Document(), release, Levels(mapping)}, text.String())
}

// Dependencies are the levels that levels require.
type Dependencies struct {
	text   strings.Builder
	Levels []LevelRequirements
}

// LevelRequirements is a level and those that it requires, in a JSON document.
type LevelRequirements struct {
	Level
	Requires []Level `json:"requires"`
}

// FindDependencies looks up what each of args, name=level, requires. errs are about those that are wrong:
// *features.SyntaxError, *features.UnsupportedFeatureError, *features.UnknownLevelError.
func FindDependencies(args []string) (d *Dependencies, errs []error) {
	d = &Dependencies{Levels: []LevelRequirements{}}
	for _, arg := range args {
		l, err := features.ParseLevel(arg)
		var required []features.Level
		if err == nil {
			required, err = features.Requirements(l)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d.Levels = append(d.Levels, LevelRequirements{Level(l), Levels(required)})
		if len(required) == 0 {
			fmt.Fprintf(&d.text, "%v has no dependencies.\n", l)
			continue
		}
		fmt.Fprintf(&d.text, "%v requires:\n", l)
		for _, r := range required {
			fmt.Fprintf(&d.text, "    %v\n", r)
		}
	}
	return d, errs
}

// Dependencies prints what FindDependencies has found. Errors are those of stdout.
func (o *Output) Dependencies(d *Dependencies) error {
	return o.Result(struct {
		Document
		Features []LevelRequirements `json:"features"`
	}{o.Document(), d.Levels}, d.text.String())
}

// Version prints the version of the program. Errors are those of stdout.
func (o *Output) Version(version string) error {
	return o.Result(struct {
		Document
		Program         string `json:"program"`
		ProgramVersion  string `json:"programVersion"`
		Go              string `json:"go"`
		MetadataVersion string `json:"latestMetadataVersion"`
	}{o.Document(), o.Program, version, runtime.Version(), features.LatestProduction.String()},
		fmt.Sprintf("%s %s (metadata.version up to %s, %s)\n", o.Program, version, features.LatestProduction, runtime.Version()))
}

// Completion prints the script that completes the arguments of g in the shell that args names. Errors: *UsageError, those
// of stdout.
func (o *Output) Completion(g *Grammar, args []string) error {
	if len(args) != 1 {
		return &UsageError{Command: "completion", Reason: "the name of one shell is expected: " + strings.Join(Shells, ", ")}
	}
	script, err := g.Completion(args[0])
	if err != nil {
		return err
	}
	return o.Result(struct {
		Document
		Script string `json:"script"`
	}{o.Document(), script}, script)
}
