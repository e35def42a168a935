// Package features is the registry of Kafka's feature levels: which levels of metadata.version and of the other features
// exist, which level a release stands for, and what a level requires.
//
// A cluster keeps one finalized level for each feature (KIP-584). The level of metadata.version (KIP-778) says which
// records and requests its nodes may use; a name such as 4.4-IV2 stands for it, and the name's first part is the release
// that brought it. The other features (KIP-1022) count from 0, which means off and has no record. kraft.version (KIP-853)
// is the odd one: it stands in a control record of the log, not among the metadata records, and follows from the kind of
// quorum:
//
//	metadata.version   7 (3.3-IV3) … 33 (4.4-IV2), 34 (4.5-IV0, unstable), 35 (4.5-IV1, ours)
//	others             0 … newest level; the default is the newest level that is not younger than metadata.version
//	kraft.version      0 with static voters (controller.quorum.voters), 1 without
//
// The levels are those of Apache Kafka 4.4.0 and one of our own: 4.5-IV1, the first that supports ClusterIdRecord
// (KIP-1262). Left out are Kafka's features that exist for its own tests, and unstable levels of features other than
// metadata.version, of which there are none. A Release says which of them servers of an older Kafka know.
package features

import (
	"slices"
	"strconv"
)

// Names of features that stand apart from the others.
const (
	MetadataVersionName = "metadata.version"
	KRaftVersionName    = "kraft.version"
)

// Level is one feature at one level, for example group.version=1.
type Level struct {
	Name  string
	Level int16
}

// String returns the form name=level, and for metadata.version its name behind it: metadata.version=33 (4.4-IV2).
func (l Level) String() string {
	s := l.Name + "=" + strconv.Itoa(int(l.Level))
	if v := MetadataVersion(l.Level); l.Name == MetadataVersionName && v.Known() {
		s += " (" + v.String() + ")"
	}
	return s
}

// Feature is a feature other than metadata.version. Its levels are 0 … LatestLevel.
type Feature struct {
	name   string
	levels []level // from level 0 up
}

// level is what the registry knows about a level of a feature.
type level struct {
	since    MetadataVersion // the first metadata.version that makes this level, or a higher one, the default
	requires []Level         // what must be finalized with it
}

// registry is in the order in which Kafka lists the features.
var registry = [...]Feature{
	{KRaftVersionName, []level{{since: Minimum}, {since: 21}}},
	{"transaction.version", []level{{since: Minimum}, {since: 24}, {since: 24}}},
	{"group.version", []level{{since: Minimum}, {since: 22}}},
	{"eligible.leader.replicas.version", []level{{since: Minimum}, {since: 26, requires: []Level{{MetadataVersionName, 23}}}}},
	{"share.version", []level{{since: Minimum}, {since: 28}, {since: 31}}},
	{"streams.version", []level{{since: Minimum}, {since: 29}}},
}

// Lookup returns the feature of that name. metadata.version is none of them; see MetadataVersion.
func Lookup(name string) (Feature, bool) {
	for _, f := range registry {
		if f.name == name {
			return f, true
		}
	}
	return Feature{}, false
}

// All returns the features other than metadata.version in the order in which Kafka's tools list them. The slice is the
// caller's.
func All() []Feature {
	return slices.Clone(registry[:])
}

// Name returns the feature's name.
func (f Feature) Name() string { return f.name }

// LatestLevel returns the highest level that exists; the lowest is 0.
func (f Feature) LatestLevel() int16 { return int16(len(f.levels) - 1) }

// DefaultLevel returns the level that a cluster of metadata.version v gets if nobody chooses one.
func (f Feature) DefaultLevel(v MetadataVersion) int16 {
	for l := len(f.levels) - 1; l > 0; l-- {
		if f.levels[l].since <= v {
			return int16(l)
		}
	}
	return 0
}

// Mapping returns the levels that a release stands for: metadata.version v, then the default level of each other
// feature, level 0 included, in the order in which Kafka's version-mapping prints them.
func Mapping(v MetadataVersion) []Level {
	levels := []Level{{MetadataVersionName, int16(v)}}
	for _, f := range registry {
		levels = append(levels, Level{f.name, f.DefaultLevel(v)})
	}
	return levels
}

// Requirements returns the levels that must be finalized together with l, none for most levels. The slice is the
// caller's. Errors: *UnsupportedFeatureError, *UnknownLevelError.
func Requirements(l Level) ([]Level, error) {
	if l.Name == MetadataVersionName {
		if !MetadataVersion(l.Level).Known() {
			return nil, &UnknownLevelError{l}
		}
		return nil, nil
	}
	f, ok := Lookup(l.Name)
	if !ok {
		return nil, &UnsupportedFeatureError{Name: l.Name}
	}
	if l.Level < 0 || l.Level > f.LatestLevel() {
		return nil, &UnknownLevelError{l}
	}
	return slices.Clone(f.levels[l.Level].requires), nil
}
