package features

import (
	"fmt"
	"strings"
)

// UnknownVersionError says that a release or a name of a metadata.version is none that the registry knows.
type UnknownVersionError struct {
	Release  string // as given
	Unstable bool   // whether levels that aren't in production were allowed
}

// Error is Kafka's sentence: the versions that can be given, ascending.
func (e *UnknownVersionError) Error() string {
	var names []string
	for _, v := range Versions() {
		if v.Production() || e.Unstable {
			names = append(names, v.String())
		}
	}
	return "Unknown metadata.version '" + e.Release + "'. Supported metadata.version are: " + strings.Join(names, ", ")
}

// SyntaxError says that a text is not of the form name=level.
type SyntaxError struct {
	Text   string
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("feature %q: %s", e.Text, e.Reason)
}

// AmbiguousVersionError says that metadata.version was given as a release and as a level too.
type AmbiguousVersionError struct{}

// Error is Kafka's sentence.
func (*AmbiguousVersionError) Error() string {
	return "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
}

// UnsupportedFeatureError says that there is no feature of that name.
type UnsupportedFeatureError struct {
	Name   string
	Server *Release // that does not have it; nil: nor does the registry
}

// Error is Kafka's sentence.
func (e *UnsupportedFeatureError) Error() string {
	return "Unsupported feature: " + e.Name + ". Supported features are: " + e.Server.supportedNames()
}

// UnknownLevelError says that a feature, or metadata.version, has no such level.
type UnknownLevelError struct{ Level Level }

func (e *UnknownLevelError) Error() string {
	if e.Level.Name == MetadataVersionName {
		return fmt.Sprintf("metadata.version has no level %d, its levels are %d (%v) to %d (%v)", e.Level.Level,
			Minimum, Minimum, LatestProduction, LatestProduction)
	}
	f, _ := Lookup(e.Level.Name)
	return fmt.Sprintf("%s has no level %d, its levels are 0 to %d", e.Level.Name, e.Level.Level, f.LatestLevel())
}

// UnstableVersionError says that a metadata.version isn't in production and wasn't allowed.
type UnstableVersionError struct{ Version MetadataVersion }

func (e *UnstableVersionError) Error() string {
	return fmt.Sprintf("metadata.version %d (%v) is unstable: it needs unstable.feature.versions.enable=true", e.Version, e.Version)
}

// KRaftVersionError says that a level of kraft.version doesn't go with the kind of quorum.
type KRaftVersionError struct {
	Level        int16
	StaticVoters bool // controller.quorum.voters is set
}

// Error begins with Kafka's words, up to the colon.
func (e *KRaftVersionError) Error() string {
	if e.StaticVoters {
		return fmt.Sprintf("Cannot set kraft.version to %d unless controller.quorum.voters is empty: a quorum of static voters has level 0", e.Level)
	}
	return fmt.Sprintf("Cannot set kraft.version to %d if controller.quorum.voters is empty: a quorum of dynamic voters has level 1", e.Level)
}

// RequirementError says that a level lacks another one that it requires.
type RequirementError struct {
	Level    Level
	Requires Level
	Have     int16 // the level that the required feature was going to have
}

func (e *RequirementError) Error() string {
	return fmt.Sprintf("%v requires %v or higher, not %v", e.Level, e.Requires, Level{e.Requires.Name, e.Have})
}
