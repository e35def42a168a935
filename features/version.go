package features

import (
	"strconv"
	"strings"
)

// MetadataVersion is a level of metadata.version.
type MetadataVersion int16

// Levels with a meaning.
const (
	Minimum                MetadataVersion = 7  // 3.3-IV3, the lowest that exists
	scram                  MetadataVersion = 11 // 3.5-IV2, KIP-900
	controllerRegistration MetadataVersion = 15 // 3.7-IV0
	cordonedDirectories    MetadataVersion = 30 // 4.3-IV0
	zeroCheckpoint         MetadataVersion = 31 // 4.4-IV0, the release whose servers implement KIP-1170
	LatestKafka            MetadataVersion = 33 // 4.4-IV2, the newest that released Apache Kafka reads
	latestKafkaUnstable    MetadataVersion = 34 // 4.5-IV0, the same with unstable.feature.versions.enable
	clusterIDRecord        MetadataVersion = 35 // 4.5-IV1, KIP-1262: ours until Apache Kafka publishes its own
	LatestProduction                       = clusterIDRecord
)

// version is what the registry knows about a level of metadata.version.
type version struct {
	name           string
	production     bool // else it needs unstable.feature.versions.enable
	metadataChange bool // the level changed the metadata, so that there is no way back over it
}

// versions are the levels from Minimum up.
var versions = [...]version{
	{"3.3-IV3", true, true},
	{"3.4-IV0", true, true},
	{"3.5-IV0", true, false},
	{"3.5-IV1", true, false},
	{"3.5-IV2", true, true},
	{"3.6-IV0", true, false},
	{"3.6-IV1", true, true},
	{"3.6-IV2", true, true},
	{"3.7-IV0", true, true},
	{"3.7-IV1", true, false},
	{"3.7-IV2", true, true},
	{"3.7-IV3", true, false},
	{"3.7-IV4", true, false},
	{"3.8-IV0", true, false},
	{"3.9-IV0", true, false},
	{"4.0-IV0", true, false},
	{"4.0-IV1", true, true},
	{"4.0-IV2", true, false},
	{"4.0-IV3", true, false},
	{"4.1-IV0", true, false},
	{"4.1-IV1", true, false},
	{"4.2-IV0", true, false},
	{"4.2-IV1", true, false},
	{"4.3-IV0", true, true},
	{"4.4-IV0", true, false},
	{"4.4-IV1", true, true},
	{"4.4-IV2", true, true},
	{"4.5-IV0", false, false},
	{"4.5-IV1", true, true},
}

// Versions returns every level that exists, ascending. The slice is the caller's.
func Versions() []MetadataVersion {
	all := make([]MetadataVersion, len(versions))
	for i := range all {
		all[i] = Minimum + MetadataVersion(i)
	}
	return all
}

// Known reports whether the level exists. What the other methods say about a level that doesn't is false, or "level N".
func (v MetadataVersion) Known() bool {
	return v >= Minimum && int(v-Minimum) < len(versions)
}

// entry returns the registry's line for v, an empty one if there is none.
func (v MetadataVersion) entry() version {
	if !v.Known() {
		return version{}
	}
	return versions[v-Minimum]
}

// String returns the name, such as 4.4-IV2.
func (v MetadataVersion) String() string {
	if name := v.entry().name; name != "" {
		return name
	}
	return "level " + strconv.Itoa(int(v))
}

// Release returns the release that brought the level, such as 4.4.
func (v MetadataVersion) Release() string {
	release, _, _ := strings.Cut(v.String(), "-")
	return release
}

// Production reports whether the level may be used without unstable.feature.versions.enable.
func (v MetadataVersion) Production() bool { return v.entry().production }

// DidMetadataChange reports whether the step to this level changed the metadata, so that it can't be undone (KIP-778).
func (v MetadataVersion) DidMetadataChange() bool { return v.entry().metadataChange }

// SupportsScram reports whether UserScramCredentialRecord may be written (KIP-900).
func (v MetadataVersion) SupportsScram() bool { return v.Known() && v >= scram }

// SupportsZeroCheckpoint reports whether every server that reads the level also reads metadata records from the zero
// checkpoint (KIP-1170).
func (v MetadataVersion) SupportsZeroCheckpoint() bool { return v.Known() && v >= zeroCheckpoint }

// SupportsClusterID reports whether ClusterIdRecord may be written (KIP-1262).
func (v MetadataVersion) SupportsClusterID() bool { return v.Known() && v >= clusterIDRecord }

// ParseVersion reads a release as --release-version takes it: the name of a level (4.0-IV3), or a release (4.0), which
// stands for its newest production level. Only the first two of its dot-separated parts count, so 4.0.1 is 4.0 and
// 4.0-IV3.1 is 4.0-IV3; blanks and case count too. With unstable the names of levels that aren't in production are
// known as well: in Kafka's tools always for version-mapping, for format under unstable.feature.versions.enable.
// Error: *UnknownVersionError.
func ParseVersion(release string, unstable bool) (MetadataVersion, error) {
	name := release
	// As in Java, empty parts at the end are none: "4.0." has two and is taken whole, which no level matches.
	if parts := strings.Split(strings.TrimRight(release, "."), "."); len(parts) > 2 {
		name = parts[0] + "." + parts[1]
	}
	for i := len(versions) - 1; i >= 0; i-- {
		v := Minimum + MetadataVersion(i)
		switch {
		case versions[i].production && v.Release() == name, // the newest comes first
			versions[i].name == name && (versions[i].production || unstable):
			return v, nil
		}
	}
	return 0, &UnknownVersionError{Release: release, Unstable: unstable}
}

// DefaultVersion returns the metadata.version that a node is formatted with if nobody chooses one: the newest that fits.
//
//   - A node with a cluster id gets the newest level that released Kafka reads, so that Kafka's servers boot from it and
//     scripts of today get what they got. With unstable.feature.versions.enable that is 4.5-IV0: it is what Kafka 4.4's
//     own tool takes then, and Kafka 4.4 reads it under the same setting.
//   - A node without one needs a level that brings the id in a record (KIP-1262), which no released Kafka reads.
func DefaultVersion(clusterIDKnown, unstable bool) MetadataVersion {
	switch {
	case !clusterIDKnown:
		return clusterIDRecord
	case unstable:
		return latestKafkaUnstable
	default:
		return LatestKafka
	}
}

// SupportsControllerRegistration reports whether controllers register with the active one (KIP-919).
func (v MetadataVersion) SupportsControllerRegistration() bool { return v >= controllerRegistration }

// SupportsCordonedDirectories reports whether brokers may report log directories that take no new replicas (KIP-1066).
func (v MetadataVersion) SupportsCordonedDirectories() bool { return v >= cordonedDirectories }
