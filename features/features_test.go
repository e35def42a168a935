package features

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
)

// The registry is the one of Apache Kafka 4.4.0 (testdata/features.json, read from its classes) and 4.5-IV1.
func TestRegistryOfKafka(t *testing.T) {
	var facts struct {
		MetadataVersion struct {
			Feature                                  string
			Minimum, LatestProduction, LatestTesting MetadataVersion
			Levels                                   []struct {
				Level                           MetadataVersion
				Name, Release                   string
				IsProduction, DidMetadataChange bool
			}
			ShortNameResolvesTo map[string]string
			BooleanCapabilities map[string][]struct {
				FromLevel MetadataVersion
				Value     bool
			}
		}
		Features []struct {
			Name                            string
			Production                      bool
			LatestProduction, LatestTesting int16
			HasUnstableLevels               bool
			Levels                          []struct {
				Level                         int16
				BootstrapMetadataVersionLevel MetadataVersion
				Dependencies                  map[string]int16
			}
			DefaultLevelFromMetadataVersion map[string]int16
		}
	}
	text, err := os.ReadFile("testdata/features.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &facts); err != nil {
		t.Fatal(err)
	}

	kafka := facts.MetadataVersion
	if kafka.Feature != MetadataVersionName || kafka.Minimum != Minimum || kafka.LatestProduction != LatestKafka || kafka.LatestTesting != latestKafkaUnstable {
		t.Errorf("Kafka has %s %d to %d, unstable to %d", kafka.Feature, kafka.Minimum, kafka.LatestProduction, kafka.LatestTesting)
	}
	all := Versions()
	if len(all) != len(kafka.Levels)+1 || all[len(all)-1] != LatestProduction {
		t.Fatalf("levels are %d, Kafka's and one more are %d", len(all), len(kafka.Levels)+1)
	}
	for i, l := range kafka.Levels {
		v := all[i]
		if v != l.Level || v.String() != l.Name || v.Release() != l.Release || v.Production() != l.IsProduction || v.DidMetadataChange() != l.DidMetadataChange {
			t.Errorf("level %d is %v of %s, production %v, change %v; Kafka has %+v", v, v, v.Release(), v.Production(), v.DidMetadataChange(), l)
		}
	}
	for _, v := range all {
		for name, has := range map[string]bool{"isScramSupported": v.SupportsScram()} {
			want := false
			for _, step := range kafka.BooleanCapabilities[name] {
				if step.FromLevel <= v {
					want = step.Value
				}
			}
			if has != want {
				t.Errorf("%s of %v is %v", name, v, has)
			}
		}
	}
	for release, name := range kafka.ShortNameResolvesTo {
		if release == "4.5" {
			name = "4.5-IV1" // Kafka has no production level of 4.5
		}
		if v, err := ParseVersion(release, false); err != nil || v.String() != name {
			t.Errorf("%s stands for %v, %v; Kafka has %s", release, v, err, name)
		}
	}

	var names []string
	for _, k := range facts.Features {
		f, ok := Lookup(k.Name)
		if ok != k.Production {
			t.Errorf("%s: known %v, in production %v", k.Name, ok, k.Production)
		}
		if !ok {
			continue
		}
		names = append(names, k.Name)
		if k.HasUnstableLevels || f.LatestLevel() != k.LatestProduction || f.LatestLevel() != k.LatestTesting {
			t.Errorf("%s: latest level %d, Kafka has %+v", k.Name, f.LatestLevel(), k)
		}
		for i, l := range k.Levels {
			if since := f.levels[i].since; l.Level != int16(i) || l.BootstrapMetadataVersionLevel != since {
				t.Errorf("%s %d: since %v, Kafka has %+v", k.Name, i, since, l)
			}
			requires := make(map[string]int16)
			for _, r := range f.levels[i].requires {
				requires[r.Name] = r.Level
			}
			if !maps.Equal(requires, l.Dependencies) {
				t.Errorf("%s %d: requires %v, Kafka has %v", k.Name, i, requires, l.Dependencies)
			}
		}
	}
	var have []string
	for _, f := range All() {
		have = append(have, f.Name())
	}
	if !slices.Equal(have, names) {
		t.Errorf("features are %v, Kafka has %v", have, names)
	}
}

func TestOwnLevel(t *testing.T) {
	for _, v := range append(Versions(), 0, -1, Minimum-1, LatestProduction+1, 32767) {
		own := v == 35
		if v.SupportsClusterID() != own {
			t.Errorf("SupportsClusterID of %v is %v", v, v.SupportsClusterID())
		}
		if v.SupportsZeroCheckpoint() != (v >= 31 && v <= 35) {
			t.Errorf("SupportsZeroCheckpoint of %v is %v", v, v.SupportsZeroCheckpoint())
		}
		if own && (v.String() != "4.5-IV1" || v.Release() != "4.5" || !v.Production() || !v.DidMetadataChange()) {
			t.Errorf("level 35 is %v of %s, production %v, change %v", v, v.Release(), v.Production(), v.DidMetadataChange())
		}
		if v.Known() != (v >= 7 && v <= 35) {
			t.Errorf("level %d is known: %v", v, v.Known())
		}
	}
	if text := MetadataVersion(36).String(); text != "level 36" {
		t.Errorf("level 36 is called %q", text)
	}
}

// jsonLines decodes a file of JSON documents, one a line.
func jsonLines[T any](t *testing.T, path string) []T {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []T
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d lines, %v", path, len(all), err)
	}
	return all
}
