package features

import (
	"fmt"
	"slices"
	"strings"

	"kstorage/internal/javatext"
)

// Release is a release of Apache Kafka, as a server that is to read what is formatted: the levels that it knows. The
// levels that both have mean the same to each release, so that what the registry says of them holds.
type Release struct {
	name       string // such as 4.0
	metadata   newest
	features   map[string]newest // those other than metadata.version
	kraftNeeds MetadataVersion   // the metadata.version that kraft.version 1 requires
}

// newest are the highest levels of a feature that servers of a release take.
type newest struct {
	production int16
	unstable   int16 // with unstable.feature.versions.enable
}

func (n newest) level(unstable bool) int16 {
	if unstable {
		return n.unstable
	}
	return n.production
}

// releases are those that are known, ascending.
var releases = [...]Release{
	{"3.9", newest{21, 23}, map[string]newest{KRaftVersionName: {1, 1}, "transaction.version": {0, 2}}, 21},
	{"4.0", newest{25, 26}, map[string]newest{KRaftVersionName: {1, 1}, "transaction.version": {2, 2}, "group.version": {1, 1},
		"eligible.leader.replicas.version": {1, 1}}, 21},
	{"4.1", newest{27, 29}, since41(newest{1, 1}, newest{0, 1}), Minimum},
	{"4.2", newest{29, 30}, since41(newest{1, 1}, newest{1, 1}), Minimum},
	{"4.3", newest{30, 31}, since41(newest{1, 1}, newest{1, 1}), Minimum},
	{zeroCheckpointRelease, newest{int16(LatestKafka), int16(latestKafkaUnstable)}, since41(newest{2, 2}, newest{1, 1}), Minimum},
}

// since41 are the features of the releases from 4.1 on.
func since41(share, streams newest) map[string]newest {
	return map[string]newest{KRaftVersionName: {1, 1}, "transaction.version": {2, 2}, "group.version": {1, 1},
		"eligible.leader.replicas.version": {1, 1}, "share.version": share, "streams.version": streams}
}

// zeroCheckpointRelease is the first release whose servers read metadata records from the zero checkpoint (KIP-1170).
const zeroCheckpointRelease = "4.4"

// ParseRelease reads the version of a server, such as 4.0.1 or 4.0. The third number has no effect, as patch releases
// bring no levels. Error: *UnknownReleaseError.
func ParseRelease(version string) (*Release, error) {
	parts := strings.Split(version, ".")
	if len(parts) == 3 {
		if _, err := javatext.ParseInt(parts[2], 16); err == nil && !strings.ContainsAny(parts[2], "+-") {
			parts = parts[:2]
		}
	}
	name := strings.Join(parts, ".")
	for i := range releases {
		if releases[i].name == name {
			return &releases[i], nil
		}
	}
	return nil, &UnknownReleaseError{version}
}

// String returns the first two numbers of the release, such as 4.0.
func (r *Release) String() string { return r.name }

// DefaultVersion returns the metadata.version that the release's own tool formats with if nobody chooses one: the newest
// that its servers take.
func (r *Release) DefaultVersion(unstable bool) MetadataVersion {
	return MetadataVersion(r.metadata.level(unstable))
}

// ReadsZeroCheckpoint reports whether servers of the release find the bootstrap metadata in the zero checkpoint
// (KIP-1170). Those of older releases find them in bootstrap.checkpoint.
func (r *Release) ReadsZeroCheckpoint() bool { return r.name == zeroCheckpointRelease }

// check returns what servers of the release do not take of the levels. given are those that somebody chose, final all.
func (r *Release) check(unstable bool, given, final map[string]int16) (errs []error) {
	limit := func(name string, n newest) {
		if highest := n.level(unstable); final[name] > highest {
			errs = append(errs, &NewerThanReleaseError{Level{name, final[name]}, Level{name, highest}, r})
		}
	}
	limit(MetadataVersionName, r.metadata)
	if v := final[MetadataVersionName]; final[KRaftVersionName] == 1 && v < int16(r.kraftNeeds) {
		errs = append(errs, &RequirementError{Level{KRaftVersionName, 1}, Level{MetadataVersionName, int16(r.kraftNeeds)}, v})
	}
	for _, f := range registry {
		if _, ok := given[f.name]; !ok || final[f.name] > f.LatestLevel() {
			continue // the default fits, and what no release has is an error already
		}
		if n, ok := r.features[f.name]; ok {
			limit(f.name, n)
		} else {
			errs = append(errs, &UnsupportedFeatureError{f.name, r})
		}
	}
	return errs
}

// supportedNames lists the features of the release alphabetically, those of the registry for nil.
func (r *Release) supportedNames() string {
	var names []string
	for _, f := range registry {
		if r != nil {
			if _, ok := r.features[f.name]; !ok {
				continue
			}
		}
		names = append(names, f.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// UnknownReleaseError says that a version of a server is of no release that the registry knows.
type UnknownReleaseError struct{ Version string }

func (e *UnknownReleaseError) Error() string {
	return fmt.Sprintf("%q is no release of Apache Kafka that is known here: those from %s to %s are, such as %[3]s.0", e.Version, releases[0].name, releases[len(releases)-1].name)
}

// NewerThanReleaseError says that servers of a release do not know a level.
type NewerThanReleaseError struct {
	Level  Level
	Newest Level // that the release has of the feature
	Server *Release
}

func (e *NewerThanReleaseError) Error() string {
	return fmt.Sprintf("%v is newer than servers of Kafka %v know, whose newest is %v", e.Level, e.Server, e.Newest)
}
