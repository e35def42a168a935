package controller

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// ourRange is what this release registers with.
func ourRange(min, max int16) []metadata.FeatureRange {
	list := []metadata.FeatureRange{{Name: features.MetadataVersionName, Min: min, Max: max}}
	for _, f := range features.All() {
		list = append(list, metadata.FeatureRange{Name: f.Name(), Max: f.LatestLevel()})
	}
	return list
}

func controllerOf(id int32, ranges []metadata.FeatureRange) record.Record {
	return (&metadata.Controller{ID: id, Features: ranges}).Record()
}

func update(level int16, kind int8, name string) kmsg.UpdateFeaturesRequestFeatureUpdate {
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, kind
	return f
}

func updates(list ...kmsg.UpdateFeaturesRequestFeatureUpdate) *kmsg.UpdateFeaturesRequest {
	q := kmsg.NewPtrUpdateFeaturesRequest()
	q.Version = 2
	q.FeatureUpdates = list
	return q
}

// TestUpdateToUnstable asks for each level, with and without unstable.feature.versions.enable: by it alone one that is not
// in production is a level to go to. Kafka 4.4.0 refuses it with the same code (testdata/features/4.4.jsonl) and takes it
// with the setting (unstable-4.4.jsonl).
func TestUpdateToUnstable(t *testing.T) {
	newest := int16(features.LatestProduction)
	for _, v := range features.Versions() {
		for _, unstable := range []bool{false, true} {
			for _, validate := range []bool{false, true} {
				for kind := upgrade; kind <= unsafeDowngrade; kind++ {
					w := newWorld(t, feature(features.MetadataVersionName, int64(v))) // the step itself is no hindrance
					w.c.cfg.Supported, w.c.cfg.Unstable = ourRange(7, newest), unstable
					q := updates(update(int16(v), kind, features.MetadataVersionName))
					q.ValidateOnly = validate
					u := w.c.UpdateFeatures(q)
					if good := v.Production() || unstable; u.Failed() == good {
						t.Errorf("%v, unstable %v, validate %v, type %d: %s", v, unstable, validate, kind, *u.Response.ErrorMessage)
					} else if !good && (u.Response.ErrorCode != invalidUpdateVersion || len(u.Records) > 0 || !strings.HasSuffix(*u.Response.ErrorMessage,
						"Invalid update version 34 for feature metadata.version. Local controller 100 only supports version 34 with unstable.feature.versions.enable=true")) {
						t.Errorf("%v: %d %s, records %v", v, u.Response.ErrorCode, *u.Response.ErrorMessage, u.Records)
					}
				}
			}
		}
	}
}

// TestUpdateToClusterID is the step to the level that commits the cluster's id (KIP-1262), which Kafka doesn't have.
func TestUpdateToClusterID(t *testing.T) {
	const (
		newest = int16(features.LatestProduction)
		before = newest - 1
	)
	level := func(n int16) record.Record { return feature(features.MetadataVersionName, int64(n)) }
	all, old := ourRange(7, newest), ourRange(7, 33)
	for _, test := range []struct {
		reason string
		log    []record.Record
		voters []int32
		static []int32
		noID   bool
		level  int16
		kind   int8
		other  kmsg.UpdateFeaturesRequestFeatureUpdate
		want   string // records
		err    string // the end of the message
	}{
		{reason: "a lone voter", log: []record.Record{level(33)}, voters: []int32{100}, level: newest, kind: upgrade,
			want: "metadata.version=35 id:the id"},
		{reason: "from the level before", log: []record.Record{level(before)}, voters: []int32{100}, level: newest, kind: upgrade,
			want: "metadata.version=35 id:the id"},
		{reason: "from the lowest level, where controllers don't register", log: []record.Record{level(7)}, voters: []int32{100}, level: newest, kind: upgrade,
			want: "metadata.version=35 id:the id"},
		{reason: "all voters are registered", log: []record.Record{level(33), controllerOf(101, all), controllerOf(102, all)},
			voters: []int32{100, 101, 102}, level: newest, kind: upgrade, want: "metadata.version=35 id:the id"},
		{reason: "another feature behind it", log: []record.Record{level(33)}, voters: []int32{100}, level: newest, kind: upgrade,
			other: update(1, upgrade, "group.version"), want: "metadata.version=35 id:the id group.version=01"},
		{reason: "the same level again", log: []record.Record{level(newest), clusterID("of the log")}, voters: []int32{100}, level: newest, kind: upgrade,
			want: "metadata.version=35"},
		{reason: "the same level again, while a voter is not registered", log: []record.Record{level(newest), clusterID("of the log")},
			voters: []int32{100, 101}, level: newest, kind: upgrade, want: "metadata.version=35"},
		{reason: "the leader has not registered anew since its own upgrade", log: []record.Record{level(33), controllerOf(100, old)}, voters: []int32{100},
			level: newest, kind: upgrade, want: "metadata.version=35 id:the id"},
		{reason: "the same level again, at a node that has no id of its own", log: []record.Record{level(newest), clusterID("of the log")}, noID: true,
			voters: []int32{100}, level: newest, kind: safeDowngrade, want: "metadata.version=35"},
		{reason: "the level before needs no id", log: []record.Record{level(33)}, noID: true, voters: []int32{100, 101}, level: before, kind: upgrade,
			want: "metadata.version=34"},

		{reason: "a leader without an id", log: []record.Record{level(33)}, noID: true, voters: []int32{100}, level: newest, kind: upgrade,
			err: "This controller does not know the id of the cluster, which has to be committed with it."},
		{reason: "a dynamic voter is not registered", log: []record.Record{level(33), controllerOf(101, all)}, voters: []int32{100, 101, 102}, level: newest,
			kind: upgrade, err: "controller 102 has not registered, and may not support this feature"},
		{reason: "a static voter is not registered", log: []record.Record{level(33), controllerOf(101, all)}, voters: []int32{100, 101, 102},
			static: []int32{100, 101, 102}, level: newest, kind: upgrade, err: "controller 102 has not registered, and may not support this feature"},
		{reason: "two voters, where controllers don't register", log: []record.Record{level(14)}, voters: []int32{100, 101}, level: newest,
			kind: upgrade, err: "controller 101 has not registered, and may not support this feature"},
		{reason: "a voter is too old", log: []record.Record{level(33), controllerOf(101, all), controllerOf(102, old)}, voters: []int32{100, 101, 102},
			level: newest, kind: upgrade, err: "Controller 102 only supports versions 7-33"},
		{reason: "a controller that is no voter is too old", log: []record.Record{level(33), controllerOf(103, old)}, voters: []int32{100},
			level: newest, kind: upgrade, err: "Controller 103 only supports versions 7-33"},
		{reason: "a broker is too old", log: []record.Record{level(33), (&metadata.Broker{ID: 1, Features: old}).Record(33)}, voters: []int32{100},
			level: newest, kind: upgrade, err: "Broker 1 only supports versions 7-33"},
		{reason: "another feature is refused", log: []record.Record{level(33)}, voters: []int32{100}, level: newest, kind: upgrade,
			other: update(9, upgrade, "group.version"), err: "Local controller 100 only supports versions 0-1"},
		{reason: "there is no newer one", log: []record.Record{level(33)}, voters: []int32{100}, level: newest + 1, kind: upgrade,
			err: "Local controller 100 only supports versions 7-35"},

		{reason: "back over the record, safely", log: []record.Record{level(newest), clusterID("the id")}, voters: []int32{100}, level: before, kind: safeDowngrade,
			err: "Unsupported metadata.version downgrade from 35 to 34. Refusing to perform the requested downgrade because it might delete metadata information."},
		{reason: "back over the record, unsafely", log: []record.Record{level(newest), clusterID("the id")}, voters: []int32{100}, level: before, kind: unsafeDowngrade,
			err: "Unsupported metadata.version downgrade from 35 to 34. Unsafe metadata downgrade is not supported in this version."},
		{reason: "disabled", log: []record.Record{level(newest), clusterID("the id")}, voters: []int32{100}, level: 0, kind: unsafeDowngrade,
			err: "Local controller 100 only supports versions 7-35"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, test.log...)
			w.c.cfg.Supported, w.c.cfg.StaticVoters, w.c.cfg.Unstable = all, test.static, true
			w.c.SetQuorum(1, test.voters)
			if test.noID {
				w.c.cfg.ClusterID = ""
			}
			list := []kmsg.UpdateFeaturesRequestFeatureUpdate{update(test.level, test.kind, features.MetadataVersionName)}
			if test.other.Feature != "" {
				list = append(list, test.other)
			}
			q := updates(list...)
			q.ValidateOnly = true
			dry := w.c.UpdateFeatures(q)
			q.ValidateOnly = false
			u := w.c.UpdateFeatures(q)
			if dry.Records != nil || dry.Failed() != u.Failed() {
				t.Errorf("validated only: %+v", dry)
			}
			if got := short(u.Records); got != test.want {
				t.Errorf("records %q, want %q", got, test.want)
			}
			if u.Failed() != (test.err != "") || u.Failed() && !strings.HasSuffix(*u.Response.ErrorMessage, test.err) {
				t.Errorf("error %d %s, want %q", u.Response.ErrorCode, text(u.Response.ErrorMessage), test.err)
			}
			w.append(u.Records)
			if err := w.c.Image().Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// TestRaisingEligibleReplicas: values of min.insync.replicas that go away stand in front of the level that forbids them.
func TestRaisingEligibleReplicas(t *testing.T) {
	set := func(resource string) record.Record {
		r := record.New(record.Config, 0)
		r.SetInt("ResourceType", int64(metadata.BrokerConfig))
		r.SetText("ResourceName", resource)
		r.SetText("Name", minInSyncReplicas)
		r.SetText("Value", "2")
		return r
	}
	w := newWorld(t, feature(features.MetadataVersionName, 33), set("1"), set("2"))
	w.c.cfg.Supported = ourRange(7, 35)
	u := w.c.UpdateFeatures(updates(update(1, upgrade, elrVersion)))
	if got, want := short(u.Records), "min.insync.replicas=1 1min.insync.replicas= 2min.insync.replicas= eligible.leader.replicas.version=01"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestKRaftVersionUpdate: the consensus layer goes first, and what it says against it refuses all.
func TestKRaftVersionUpdate(t *testing.T) {
	w := newWorld(t, feature(features.MetadataVersionName, 33))
	w.c.cfg.Supported = ourRange(7, 35)
	q := updates(update(1, upgrade, features.KRaftVersionName), update(1, upgrade, "group.version"))
	q.Version = 1
	u := w.c.UpdateFeatures(q)
	if u.Failed() || u.KRaftVersion != 1 || short(u.Records) != "NoOp group.version=01" || len(u.Response.Results) != 2 {
		t.Fatalf("%+v", u)
	}
	u.FailKRaftVersion(invalidUpdateVersion, "of this.")
	want := "The update failed for all features since the following feature had an error: Invalid upgrade of kraft.version to KRAFT_VERSION_1 because of this."
	if !u.Failed() || u.KRaftVersion != 0 || u.Records != nil || u.Response.Results != nil || text(u.Response.ErrorMessage) != want {
		t.Errorf("%+v: %s", u, text(u.Response.ErrorMessage))
	}
}

// TestUpdates: whatever is asked for, the image is one that may be published, a refused request writes nothing, one
// that is validated only neither, and what it says is what happens.
func TestUpdates(t *testing.T) {
	names := []string{features.MetadataVersionName, features.KRaftVersionName, "no.such.version"}
	for _, f := range features.All() {
		names = append(names, f.Name())
	}
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.Int16Range(7, 34).Draw(t, "level")
		image := metadata.NewImage()
		if err := image.Replay(feature(features.MetadataVersionName, int64(level)), 0); err != nil {
			t.Fatal(err)
		}
		cfg := Config{NodeID: 100, MinInSyncReplicas: "1", Supported: ourRange(7, 35)}
		cfg.ClusterID = rapid.SampledFrom([]string{"", "the id"}).Draw(t, "cluster id")
		c := New(cfg, image, 1, 0, false)
		c.SetQuorum(0, rapid.SampledFrom([][]int32{{100}, {100, 101}}).Draw(t, "voters"))
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			if rapid.IntRange(0, 4).Draw(t, "a registration") == 0 {
				if v, _ := c.Image().MetadataVersion(); v >= controllerRegistration {
					r := controllerOf(101, ourRange(7, rapid.SampledFrom([]int16{33, 35}).Draw(t, "newest")))
					mustAppend(t, c, []record.Record{r})
				}
			}
			q := kmsg.NewPtrUpdateFeaturesRequest()
			q.Version = rapid.Int16Range(0, 2).Draw(t, "version")
			for range rapid.IntRange(0, 3).Draw(t, "updates") {
				f := update(rapid.Int16Range(-1, 3).Draw(t, "to"), rapid.Int8Range(0, 4).Draw(t, "kind"), rapid.SampledFrom(names).Draw(t, "feature"))
				if f.Feature == features.MetadataVersionName {
					f.MaxVersionLevel = rapid.Int16Range(5, 36).Draw(t, "to level")
				}
				q.FeatureUpdates = append(q.FeatureUpdates, f)
			}
			q.ValidateOnly = true
			dry := c.UpdateFeatures(q)
			q.ValidateOnly = false
			u := c.UpdateFeatures(q)
			if dry.Failed() != u.Failed() || dry.Records != nil || u.Failed() && (u.Records != nil || u.KRaftVersion != 0) {
				t.Fatalf("%+v\nvalidated only %+v", u, dry)
			}
			if u.KRaftVersion > 0 {
				c.SetQuorum(u.KRaftVersion, c.voters)
			}
			mustAppend(t, c, u.Records)
			if err := c.Image().Check(); err != nil {
				t.Fatal(err)
			}
			for name, level := range last(q) {
				if got := c.Image().FeatureLevel(name); !u.Failed() && name != features.KRaftVersionName && got != level {
					t.Fatalf("%s is at %d, not at %d", name, got, level)
				}
			}
		}
	})
}

// last has the level of each feature that counts.
func last(q *kmsg.UpdateFeaturesRequest) map[string]int16 {
	levels := map[string]int16{}
	for _, f := range q.FeatureUpdates {
		levels[f.Feature] = f.MaxVersionLevel
	}
	return levels
}

func mustAppend(t *rapid.T, c *Controller, records []record.Record) {
	if err := c.Appended(c.Image().Offset+1, records); err != nil {
		t.Fatal(err)
	}
}
