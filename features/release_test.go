package features

import (
	"errors"
	"strings"
	"testing"
)

func TestParseRelease(t *testing.T) {
	for _, tt := range []struct{ version, want string }{
		{"4.0.0", "4.0"}, {"4.0.1", "4.0"}, {"4.0", "4.0"}, {"3.9.1", "3.9"}, {"4.4.0", "4.4"}, {"4.3.12", "4.3"},
		{"3.8.1", ""}, {"4.5.0", ""}, {"4", ""}, {"", ""}, {"4.0.", ""}, {"4.0.x", ""}, {"4.0.+1", ""}, {"4.0.0.0", ""}, {"4.0-IV3", ""}, {" 4.0", ""},
	} {
		r, err := ParseRelease(tt.version)
		if tt.want == "" {
			if !errors.As(err, new(*UnknownReleaseError)) {
				t.Errorf("%q: %v, %v", tt.version, r, err)
			}
		} else if err != nil || r.String() != tt.want {
			t.Errorf("%q: %v, %v", tt.version, r, err)
		}
	}
}

// What is default for a release is something that its servers take, and each release takes what the one before it did.
func TestReleases(t *testing.T) {
	for i := range releases {
		r := &releases[i]
		for _, unstable := range []bool{false, true} {
			got, err := Resolve(Choice{Default: r.DefaultVersion(unstable), Unstable: unstable, Server: r})
			if err != nil || got.MetadataVersion != r.DefaultVersion(unstable) {
				t.Errorf("%v, unstable %v: %+v, %v", r, unstable, got, err)
			}
			for _, l := range got.Records {
				if l.Name != MetadataVersionName && l.Level > r.features[l.Name].level(unstable) {
					t.Errorf("%v, unstable %v: %v is newer than its servers know", r, unstable, l)
				}
			}
		}
		if v := r.DefaultVersion(false); !v.Production() || v.Release() != r.name {
			t.Errorf("%v: default %v", r, v)
		}
		if i == 0 {
			continue
		}
		before := &releases[i-1]
		if before.DefaultVersion(false) >= r.DefaultVersion(false) || before.DefaultVersion(true) >= r.DefaultVersion(true) {
			t.Errorf("%v is not newer than %v", r, before)
		}
		for name, n := range before.features {
			if f, ok := Lookup(name); !ok || r.features[name].production < n.production || n.unstable > f.LatestLevel() {
				t.Errorf("%v: %s is at %+v, in %v at %+v", r, name, r.features[name], before, n)
			}
		}
	}
}

func TestWhatServersDoNotTake(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		choice        Choice
		want          string
	}{
		{"a newer level", "4.0", Choice{Release: 27},
			"metadata.version=27 (4.1-IV1) is newer than servers of Kafka 4.0 know, whose newest is metadata.version=25 (4.0-IV3)"},
		{"a feature that came later", "4.0", Choice{Default: 25, Features: []Level{{"share.version", 0}}},
			"Unsupported feature: share.version. Supported features are: eligible.leader.replicas.version, group.version, kraft.version, transaction.version"},
		{"a newer level of a feature", "4.3", Choice{Default: 30, Features: []Level{{"share.version", 2}}},
			"share.version=2 is newer than servers of Kafka 4.3 know, whose newest is share.version=1"},
		{"a requirement of that time", "4.0", Choice{Release: 14},
			"kraft.version=1 requires metadata.version=21 (3.9-IV0) or higher, not metadata.version=14 (3.6-IV2)"},
		{"not of a later one", "4.1", Choice{Release: 14},
			""},
		{"a level that no release has", "4.0", Choice{Default: 25, Features: []Level{{"group.version", 9}}},
			"group.version has no level 9, its levels are 0 to 1"},
	} {
		c := tt.choice
		var err error
		if c.Server, err = ParseRelease(tt.version); err != nil {
			t.Fatal(err)
		}
		_, err = Resolve(c)
		if got := text(err); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}
