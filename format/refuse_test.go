package format

import (
	"errors"
	"strings"
	"testing"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/disk/crashdisk"
	"kstorage/metaprops"
)

func diskWith(t testing.TB, files map[string]string) *crashdisk.Disk {
	t.Helper()
	d := crashdisk.New()
	for name, content := range files {
		put(t, d, name, content)
	}
	return d
}

// metadataLog is the folder of the metadata log in /d1.
const metadataLog = "/d1/" + checkpoint.MetadataDir + "/"

// refusals has a case for each rule; some have several.
var refusals = []struct {
	name   string
	rule   Rule
	files  map[string]string
	change func(*Options) // of a standalone controller with /d1 and /d2 and the stored cluster id
	hint   string
}{
	{name: "standalone with static voters", rule: StaticQuorum,
		change: func(o *Options) { o.StaticVoters = true }},
	{name: "initial controllers with static voters", rule: StaticQuorum,
		change: func(o *Options) {
			o.StaticVoters, o.Standalone, o.InitialControllers = true, false, ptr("1@c1:9093:"+idA)
		}},
	{name: "standalone broker", rule: StandaloneBroker,
		change: func(o *Options) { o.Controller = false }},
	{name: "nobody says what the quorum begins with", rule: NoFirstVoters,
		change: func(o *Options) { o.Standalone = false }},
	{name: "users before KIP-900", rule: ScramUnsupported, hint: "metadata.version is 3.5-IV1",
		change: func(o *Options) {
			o.Release, o.Scram = 10, []ScramArgument{NewScramArgument("SCRAM-SHA-256=[name=alice,password=x]")}
		}},
	{name: "users in another form", rule: BadCredential,
		change: func(o *Options) { o.Scram = []ScramArgument{NewScramArgument("alice:x")} }},
	{name: "no user", rule: BadCredential,
		change: func(o *Options) { o.Scram = []ScramArgument{{}} }},
	{name: "no cluster id", rule: ClusterIDRequired,
		change: func(o *Options) { o.ClusterID, o.Release = nil, features.LatestKafka }},
	{name: "empty cluster id", rule: EmptyClusterID,
		change: func(o *Options) { o.ClusterID = ptr("") }},
	{name: "empty cluster id in a file", rule: EmptyClusterID, files: map[string]string{"/d1/meta.properties": v1EmptyID},
		change: func(o *Options) { o.ClusterID, o.IgnoreFormatted = nil, true }, hint: "give it the id that the other nodes of the cluster have"},
	{name: "cluster id with a blank", rule: BadClusterID, change: func(o *Options) { o.ClusterID = ptr(" " + otherID) }},
	{name: "cluster id with a line break", rule: BadClusterID, change: func(o *Options) { o.ClusterID = ptr(otherID + "\r") }},
	{name: "cluster id with DEL", rule: BadClusterID, change: func(o *Options) { o.ClusterID = ptr(otherID + "\x7f") }},
	{name: "cluster id with a no-break space", rule: BadClusterID, change: func(o *Options) { o.ClusterID = ptr("\u00a0" + otherID) }},
	{name: "cluster id that is nothing but a blank", rule: BadClusterID, change: func(o *Options) { o.ClusterID = ptr(" ") }},
	{name: "cluster id that is not UTF-8", rule: BadClusterID, change: func(o *Options) { o.ClusterID = ptr("a\xffb") }},
	{name: "cluster id given to a controller without one", rule: ClusterIDNotStored, files: map[string]string{"/d1/meta.properties": v2WithoutID},
		change: func(o *Options) { o.IgnoreFormatted = true }},
	{name: "empty meta.properties", rule: EmptyProperties, files: map[string]string{"/d2/meta.properties": ""},
		change: func(*Options) {}},
	{name: "metadata log without meta.properties", rule: LostProperties, files: map[string]string{metadataLog + "quorum-state": "{}"},
		change: func(*Options) {}},
	{name: "metadata log without meta.properties, with -g, in a data directory of a broker", rule: LostProperties,
		files: map[string]string{metadataLog + "00000000000000000000.log": "", "/d2/meta.properties": v1},
		change: func(o *Options) {
			o.Controller, o.Standalone, o.IgnoreFormatted, o.MetadataLogDir = false, false, true, "/d2"
		}},
	{name: "standalone with lost metadata", rule: LostMetadata, files: map[string]string{"/d2/meta.properties": v1},
		change: func(o *Options) { o.IgnoreFormatted = true }},
	{name: "standalone with lost metadata, without a cluster id", rule: LostMetadata, files: map[string]string{"/d2/meta.properties": v2WithoutID},
		change: func(o *Options) { o.ClusterID, o.IgnoreFormatted = nil, true }},
	{name: "metadata directory moved", rule: LostMetadata,
		files:  map[string]string{"/d2/meta.properties": v1, "/d2/__cluster_metadata-0/quorum-state": "{}"},
		change: func(o *Options) { o.IgnoreFormatted = true },
		hint:   "the metadata log is in /d2/__cluster_metadata-0: metadata.log.dir should be /d2"},
	{name: "directory id of the voter is that of another directory", rule: DirectoryIDTaken, files: map[string]string{"/d2/meta.properties": v1 + "directory.id=" + idA + "\n"},
		change: func(o *Options) {
			o.IgnoreFormatted, o.Standalone, o.InitialControllers = true, false, ptr("1@c1:9093:"+idA+",2@c2:9093:"+idB)
		}},
}

func ptr(s string) *string { return &s }

func TestRefusals(t *testing.T) {
	// These have tests of their own: the one needs links, the other a second run.
	seen := map[Rule]bool{OneDirectory: true, ReplacedMeanwhile: true}
	for _, tt := range refusals {
		seen[tt.rule] = true
		t.Run(tt.name, func(t *testing.T) {
			d := diskWith(t, tt.files)
			o := standaloneOptions("/d1", "/d2")
			o.ClusterID = ptr(storedID)
			tt.change(&o)
			steps := d.Steps()
			_, err := newPlan(o, d)
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Rule != tt.rule || refusal.Hint != tt.hint || refusal.Error() == "" || strings.Contains(refusal.Error(), "\n") {
				t.Errorf("got %#v, want the rule %d with the hint %q", err, tt.rule, tt.hint)
			}
			if d.Steps() != steps {
				t.Errorf("something was written: %s", d.LastStep())
			}
		})
	}
	for rule := StaticQuorum; rule <= ReplacedMeanwhile; rule++ {
		if !seen[rule] {
			t.Errorf("no case for the rule %d", rule)
		}
	}
}

// Independent problems are told together.
func TestRefusalsJoined(t *testing.T) {
	d := diskWith(t, map[string]string{"/d1/__cluster_metadata-0/quorum-state": "{}", "/d2/__cluster_metadata-0/quorum-state": "{}"})
	_, err := newPlan(standaloneOptions("/d1", "/d2"), d)
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 2 {
		t.Errorf("got %v, want two refusals", err)
	}
	o := standaloneOptions("/d1")
	for _, text := range []string{"a", "SCRAM-SHA-256=[name=alice,password=x]", "b"} {
		o.Scram = append(o.Scram, NewScramArgument(text))
	}
	_, err = newPlan(o, crashdisk.New())
	for _, part := range []string{"SCRAM credential 1 of 3: ", "SCRAM credential 3 of 3: "} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
}

// What other packages find wrong stops the run too.
func TestErrorsOfOtherPackages(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
		is     func(error) bool
	}{
		{"a bad list of voters", func(o *Options) { o.Standalone, o.InitialControllers = false, ptr("1") }, isA[*VoterError]},
		{"a feature that is none", func(o *Options) { o.Features = []features.Level{{Name: "x", Level: 1}} }, isA[*features.UnsupportedFeatureError]},
		{"a level given twice", func(o *Options) {
			o.Release, o.Features = features.LatestKafka, []features.Level{{Name: features.MetadataVersionName, Level: 33}}
		}, isA[*features.AmbiguousVersionError]},
	}
	for _, tt := range tests {
		o := standaloneOptions("/d1")
		tt.change(&o)
		if _, err := newPlan(o, crashdisk.New()); err == nil || !tt.is(err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// What an interrupted format leaves in the folder of the metadata log is no live log.
func TestNotLive(t *testing.T) {
	d := diskWith(t, map[string]string{
		metadataLog + zeroCheckpoint: "torn", metadataLog + "00000000000000000000-0000000000-format.checkpoint.part": "torn",
		metadataLog + "quorum-state.tmp": "torn",
	})
	if err := formatOn(d, standaloneOptions("/d1")); err != nil {
		t.Error(err)
	}
}

// Where meta.properties is lost, the voters in the metadata log say which directory id it had.
func TestStoredVoter(t *testing.T) {
	o := standaloneOptions("/d1")
	o.Standalone, o.InitialControllers = false, ptr("1@c1:9093:"+idA)
	older := zeroCheckpointOf(t, o)
	o.InitialControllers = ptr("1@c1:9093:" + idB)
	newer := zeroCheckpointOf(t, o)
	o.InitialControllers = ptr("2@c2:9093:" + idB)
	others := zeroCheckpointOf(t, o)
	o.InitialControllers, o.NoInitialControllers = nil, true
	none := zeroCheckpointOf(t, o)

	const snapshot, segment = metadataLog + "00000000000000000007-0000000001.checkpoint", metadataLog + "00000000000000000000.log"
	later := metadataLog + "00000000000000000009.log"
	tests := []struct {
		name  string
		files map[string]string
		want  string // the directory id, "" for no hint
	}{
		{"in the zero checkpoint", map[string]string{metadataLog + zeroCheckpoint: older, segment: ""}, idA},
		{"the newest snapshot counts", map[string]string{metadataLog + zeroCheckpoint: older, snapshot: newer}, idB},
		{"a segment is newer than a snapshot", map[string]string{snapshot: older, segment: newer}, idB},
		{"the newest segment counts", map[string]string{segment: older, later: newer}, idB},
		{"the last voters of a file count", map[string]string{segment: older + newer}, idB},
		{"a segment without voters is passed over", map[string]string{segment: newer, later: none}, idB},
		{"a damaged segment counts up to the damage", map[string]string{segment: older + newer[:len(newer)/4]}, idA},
		{"a file that is no log is passed over", map[string]string{segment: "no log at all", snapshot: newer}, idB},
		{"other files are no log", map[string]string{snapshot: newer, metadataLog + "00000000000000000000.index": older}, idB},
		{"no voters at all", map[string]string{segment: none}, ""},
		{"the node is no voter", map[string]string{segment: others, snapshot: older}, ""},
		{"nothing can be read", map[string]string{segment + "/": "", "/d1/notes": ""}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newPlan(standaloneOptions("/d1"), diskWith(t, tt.files))
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Rule != LostProperties {
				t.Fatalf("got %v", err)
			}
			if tt.want == "" {
				if refusal.Hint != "" {
					t.Errorf("got the hint %q", refusal.Hint)
				}
				return
			}
			want := "in /d1/meta.properties: version=1, node.id=1, the cluster.id of the cluster, and directory.id=" + tt.want + ", which the stored voters have for node 1"
			if refusal.Hint != want {
				t.Errorf("got  %q\nwant %q", refusal.Hint, want)
			}
		})
	}
}

func zeroCheckpointOf(t *testing.T, o Options) string {
	t.Helper()
	d := crashdisk.New()
	if err := formatOn(d, o); err != nil {
		t.Fatal(err)
	}
	b, err := d.ReadFile(metadataLog + zeroCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAlreadyFormattedTellsWhatIsNot(t *testing.T) {
	d := diskWith(t, map[string]string{"/d2/meta.properties": v1})
	_, err := newPlan(nodeOptions("/d1", "/d2", "/d3"), d)
	already, ok := errors.AsType[*AlreadyFormattedError](err)
	if !ok || already.Dir != "/d2" || strings.Join(already.Unformatted, " ") != "/d1 /d3" ||
		already.Error() != "Log directory /d2 is already formatted. Use --ignore-formatted to ignore this directory and format the others." {
		t.Errorf("got %#v", err)
	}
}

// The files that are there are compared with the options and with each other.
func TestFilesThatDoNotBelongTogether(t *testing.T) {
	tests := []struct {
		name   string
		d1, d2 string
		is     func(error) bool
	}{
		{"another node", strings.Replace(v1, "node.id=1", "node.id=2", 1), "", isA[*metaprops.NodeIDError]},
		{"two clusters", v1, strings.Replace(v1, escapedID, otherID, 1), isA[*metaprops.ClusterIDError]},
		{"a copy", v1 + "directory.id=" + idA, v1 + "directory.id=" + idA, isA[*metaprops.DirectoryIDError]},
		{"a reserved directory id", v1 + "directory.id=AAAAAAAAAAAAAAAAAAAAAA", "", isA[*metaprops.DirectoryIDError]},
	}
	for _, tt := range tests {
		files := map[string]string{"/d1/meta.properties": tt.d1}
		if tt.d2 != "" {
			files["/d2/meta.properties"] = tt.d2
		}
		o := nodeOptions("/d1", "/d2")
		o.IgnoreFormatted = true
		if _, err := newPlan(o, diskWith(t, files)); err == nil || !tt.is(err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
