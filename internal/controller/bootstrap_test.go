package controller

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

func feature(name string, level int64) record.Record {
	r := record.New(record.FeatureLevel, 0)
	r.SetText("Name", name)
	r.SetInt("FeatureLevel", level)
	return r
}

func clusterID(id string) record.Record {
	r := record.New(record.ClusterID, 0)
	r.SetText("ClusterId", id)
	return r
}

func scramUser(name string) record.Record {
	r := record.New(record.UserScramCredential, 0)
	r.SetText("Name", name)
	return r
}

// short shows records in few words.
func short(records []record.Record) string {
	var words []string
	for _, r := range records {
		w := strings.TrimSuffix(r.Message.Name, "Record")
		switch r.Message {
		case record.FeatureLevel:
			w = r.Text("Name") + "=" + string(rune('0'+r.Int("FeatureLevel")/10)) + string(rune('0'+r.Int("FeatureLevel")%10))
		case record.ClusterID:
			w = "id:" + r.Text("ClusterId")
		case record.Config:
			w = r.Text("ResourceName") + r.Text("Name") + "=" + r.Text("Value")
		case record.BeginTransaction:
			w = "begin:" + r.Text("Name")
		case record.AbortTransaction:
			w = "abort:" + r.Text("Reason")
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func TestChooseBootstrap(t *testing.T) {
	file := func(name string, records ...record.Record) *BootstrapFile { return &BootstrapFile{name, records} }
	v33, v35 := feature("metadata.version", 33), feature("metadata.version", 35)
	for _, test := range []struct {
		reason    string
		zero, old *BootstrapFile
		hasID     bool
		want      string // source, records, proposal
		broken    string // file
	}{
		{"neither file, node with an id", nil, nil, true, "the default bootstrap: metadata.version=33, ", ""},
		{"neither file, node without an id", nil, nil, false, "the default bootstrap: metadata.version=35, ", ""},
		{"zero checkpoint", file("zero", v33, feature("group.version", 1)), nil, true, "zero: metadata.version=33 group.version=01, ", ""},
		{"both: the zero checkpoint wins", file("zero", v33), file("old", v35), true, "zero: metadata.version=33, ", ""},
		{"a zero checkpoint of 4.0 has control records only", file("zero"), file("old", v33), true, "old: metadata.version=33, ", ""},
		{"no metadata records at all", file("zero"), nil, false, "the default bootstrap: metadata.version=35, ", ""},
		{"bootstrap.checkpoint alone", nil, file("old", v33, scramUser("a")), true, "old: metadata.version=33 UserScramCredential, ", ""},
		{"the id is a proposal", file("zero", v35, clusterID("x"), scramUser("a")), nil, false, "zero: metadata.version=35 UserScramCredential, x", ""},
		{"no metadata.version in the zero checkpoint", file("zero", scramUser("a")), file("old", v33), true, "", "zero"},
		{"no metadata.version in bootstrap.checkpoint", nil, file("old", feature("group.version", 1)), true, "", "old"},
		{"no records in bootstrap.checkpoint", nil, file("old"), true, "", "old"},
		{"a level to come", file("zero", feature("metadata.version", 99)), nil, true, "", "zero"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			b, err := ChooseBootstrap(test.zero, test.old, test.hasID)
			if test.broken != "" {
				var broken *BootstrapError
				if !errors.As(err, &broken) || broken.File != test.broken {
					t.Fatalf("%v, want an error of file %s", err, test.broken)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Source + ": " + short(b.Records) + ", " + b.ClusterIDProposal; got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}

func imageOf(t testing.TB, records ...record.Record) *metadata.Image {
	t.Helper()
	image := metadata.NewImage()
	for i, r := range records {
		if err := image.Replay(r, raft.Offset(i)); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

func TestActivate(t *testing.T) {
	const random = "AAAAAAAAQACAAAAAAAAAAA" // of zeros
	for _, test := range []struct {
		reason string
		log    []record.Record
		open   bool
		ownID  string
		boot   Bootstrap
		want   []string
	}{
		{"the log has a level", []record.Record{feature("metadata.version", 33)}, false, "own", Bootstrap{}, nil},
		{
			"the leader before has left a transaction", []record.Record{feature("metadata.version", 33)}, true, "own", Bootstrap{},
			[]string{"abort:Controller failover"},
		},
		{
			"a bootstrap that another leader began", nil, true, "own", Bootstrap{Records: []record.Record{feature("metadata.version", 33)}},
			[]string{"abort:Controller failover", "begin:Bootstrap records metadata.version=33 EndTransaction"},
		},
		{"no transactions yet", nil, false, "own", Bootstrap{Records: []record.Record{feature("metadata.version", 12)}}, []string{"metadata.version=12"}},
		{
			"eligible leader replicas need a minimum", nil, false, "own",
			Bootstrap{Records: []record.Record{feature("metadata.version", 33), feature(elrVersion, 1), scramUser("a")}},
			[]string{"begin:Bootstrap records metadata.version=33 eligible.leader.replicas.version=01 UserScramCredential min.insync.replicas=2 EndTransaction"},
		},
		{
			"a level without cluster ids ignores a proposal", nil, false, "own",
			Bootstrap{Records: []record.Record{feature("metadata.version", 34)}, ClusterIDProposal: "x"},
			[]string{"begin:Bootstrap records metadata.version=34 EndTransaction"},
		},
		{
			"own id before the proposal, behind the last feature", nil, false, "own",
			Bootstrap{Records: []record.Record{feature("metadata.version", 35), feature("group.version", 1), scramUser("a")}, ClusterIDProposal: "x"},
			[]string{"begin:Bootstrap records metadata.version=35 group.version=01 id:own UserScramCredential EndTransaction"},
		},
		{
			"no own id: the proposal", nil, false, "", Bootstrap{Records: []record.Record{feature("metadata.version", 35)}, ClusterIDProposal: "x"},
			[]string{"begin:Bootstrap records metadata.version=35 id:x EndTransaction"},
		},
		{
			"no id at all: a random one", nil, false, "", Bootstrap{Records: []record.Record{feature("metadata.version", 35)}},
			[]string{"begin:Bootstrap records metadata.version=35 id:" + random + " EndTransaction"},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			c := New(Config{ClusterID: test.ownID, MinInSyncReplicas: "2", Random: bytes.NewReader(make([]byte, 16))}, imageOf(t, test.log...), 1, 0, test.open)
			appends, err := c.Activate(test.boot)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, records := range appends {
				got = append(got, short(records))
				if err := c.Appended(c.Image().Offset+1, records); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if err := c.Image().Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestActivateWithoutChance(t *testing.T) {
	c := New(Config{Random: bytes.NewReader(nil)}, metadata.NewImage(), 1, 0, false)
	if _, err := c.Activate(Bootstrap{Records: []record.Record{feature("metadata.version", 35)}}); err == nil {
		t.Error("an id without a source of chance")
	}
	if _, err := c.Activate(Bootstrap{Records: []record.Record{scramUser("a")}}); err == nil {
		t.Error("a log without a level")
	}
}

func TestActivateInPortions(t *testing.T) {
	b := Bootstrap{Records: []record.Record{feature("metadata.version", 33)}}
	for range 2*maxAppendRecords - 3 {
		b.Records = append(b.Records, scramUser("a"))
	}
	appends, err := New(Config{}, metadata.NewImage(), 1, 0, false).Activate(b)
	if err != nil || len(appends) != 2 || len(appends[0]) != maxAppendRecords || len(appends[1]) != maxAppendRecords {
		t.Errorf("%d appends, %v", len(appends), err)
	}
}

// TestActivateAsKafka writes the records with which the recorded logs begin.
func TestActivateAsKafka(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var zero BootstrapFile
			var want []record.Record
			for _, r := range readExchanges(t, file)[0].records(t) {
				if r.Message == record.RegisterController {
					continue
				}
				want = append(want, r)
				if r.Message == record.FeatureLevel {
					zero.Records = append(zero.Records, r)
				}
			}
			b, err := ChooseBootstrap(&zero, nil, true)
			if err != nil {
				t.Fatal(err)
			}
			appends, err := New(Config{ClusterID: "x", MinInSyncReplicas: "1"}, metadata.NewImage(), 1, 0, false).Activate(b)
			if err != nil {
				t.Fatal(err)
			}
			if len(appends) != 1 || !slices.Equal(texts(appends[0]), texts(want)) {
				t.Errorf("%d appends, the first %q\nwant %q", len(appends), texts(appends[0]), texts(want))
			}
		})
	}
}
