package features

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kstorage/internal/javatext"
)

// ParseLevels reads arguments of the form name=level in the given order, duplicates included. Errors are collected, one
// *SyntaxError for each argument that isn't of that form; names and levels are not looked up.
func ParseLevels(args []string) ([]Level, error) {
	levels := make([]Level, 0, len(args))
	var errs []error
	for _, arg := range args {
		l, err := ParseLevel(arg)
		if err != nil {
			errs = append(errs, err)
		}
		levels = append(levels, l)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return levels, nil
}

// ParseLevel reads name=level. Blanks around both are dropped; the level is a decimal number of 16 bits, which may have
// a sign, leading zeros and, as in Java, digits of any script. Error: *SyntaxError.
func ParseLevel(arg string) (Level, error) {
	name, text, ok := strings.Cut(arg, "=")
	if !ok {
		return Level{}, &SyntaxError{arg, "there is no equals sign, the form is name=level"}
	}
	text = javatext.Trim(text)
	n, err := javatext.ParseInt(text, 16)
	switch {
	case err == nil:
		return Level{javatext.Trim(name), int16(n)}, nil
	case strings.Contains(text, ","):
		return Level{}, &SyntaxError{arg, "the level is not a number; each feature needs an option of its own"}
	case javatext.Trim(name) == MetadataVersionName:
		if v, err := ParseVersion(text, true); err == nil {
			return Level{}, &SyntaxError{arg, fmt.Sprintf("the level is not a number: that of %s is %d", text, v)}
		}
	}
	return Level{}, &SyntaxError{arg, "the level is not a number of 16 bits; version-mapping shows those of a release"}
}

// Choice says which levels a node is to be formatted with.
type Choice struct {
	Release      MetadataVersion // from --release-version, 0: not given
	Default      MetadataVersion // taken if neither Release nor Features say which, see DefaultVersion
	Features     []Level         // from --feature; the last one for a feature counts
	StaticVoters bool            // controller.quorum.voters is set
	Unstable     bool            // unstable.feature.versions.enable
	Server       *Release        // the release of the server that has to know the levels; nil: any
}

// Resolved are the levels that a Choice comes to.
type Resolved struct {
	MetadataVersion MetadataVersion
	KRaftVersion    int16   // stands in a control record
	Records         []Level // the FeatureLevelRecords in their order: metadata.version, then the others by name; none has level 0
}

// Resolve completes c with the default levels and checks it: names and levels exist, requirements hold, kraft.version
// goes with the kind of quorum. Errors are collected in the order in which Kafka finds them: *AmbiguousVersionError or,
// for metadata.version, *UnknownLevelError or *UnstableVersionError; *UnsupportedFeatureError by name;
// *KRaftVersionError; *UnknownLevelError and *RequirementError by name; *NewerThanReleaseError, *RequirementError and
// *UnsupportedFeatureError for what the server does not take.
func Resolve(c Choice) (Resolved, error) {
	given := make(map[string]int16, len(c.Features))
	for _, l := range c.Features {
		given[l.Name] = l.Level
	}
	var errs []error
	v, versionErr := c.version(given)
	if versionErr != nil {
		errs = append(errs, versionErr)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := Lookup(name); !ok && name != MetadataVersionName {
			errs = append(errs, &UnsupportedFeatureError{name, c.Server})
		}
	}

	resolved := Resolved{MetadataVersion: v, KRaftVersion: 1, Records: []Level{{MetadataVersionName, int16(v)}}}
	if c.StaticVoters {
		resolved.KRaftVersion = 0
	}
	if l, ok := given[KRaftVersionName]; ok && l != resolved.KRaftVersion {
		if c.StaticVoters || l == 0 {
			errs = append(errs, &KRaftVersionError{l, c.StaticVoters})
		} else {
			errs = append(errs, &UnknownLevelError{Level{KRaftVersionName, l}})
		}
	}

	features := slices.DeleteFunc(All(), func(f Feature) bool { return f.name == KRaftVersionName })
	slices.SortFunc(features, func(a, b Feature) int { return strings.Compare(a.name, b.name) })
	final := map[string]int16{MetadataVersionName: int16(v), KRaftVersionName: resolved.KRaftVersion}
	for _, f := range features {
		l, ok := given[f.name]
		if !ok {
			l = f.DefaultLevel(v)
			if c.Server != nil {
				l = min(l, c.Server.features[f.name].level(c.Unstable))
			}
		}
		final[f.name] = l
	}
	for _, f := range features {
		l := Level{f.name, final[f.name]}
		requires, err := Requirements(l)
		if err != nil {
			errs = append(errs, err)
		}
		for _, r := range requires {
			// Without a metadata.version there is nothing to compare with.
			if have := final[r.Name]; have < r.Level && versionErr == nil {
				errs = append(errs, &RequirementError{l, r, have})
			}
		}
		if l.Level > 0 {
			resolved.Records = append(resolved.Records, l)
		}
	}
	if c.Server != nil && versionErr == nil {
		errs = append(errs, c.Server.check(c.Unstable, given, final)...)
	}
	if len(errs) > 0 {
		return Resolved{}, errors.Join(errs...)
	}
	return resolved, nil
}

// version returns the metadata.version of c.
func (c Choice) version(given map[string]int16) (MetadataVersion, error) {
	v := c.Default
	if c.Release != 0 {
		v = c.Release
	}
	if l, ok := given[MetadataVersionName]; ok {
		if c.Release != 0 {
			return 0, &AmbiguousVersionError{}
		}
		v = MetadataVersion(l)
	}
	if !v.Known() {
		return 0, &UnknownLevelError{Level{MetadataVersionName, int16(v)}}
	}
	if !v.Production() && !c.Unstable {
		return 0, &UnstableVersionError{v}
	}
	return v, nil
}
