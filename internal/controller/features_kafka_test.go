package controller

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// featureExchange is an exchange whose answer is written out.
type featureExchange struct {
	exchange
	Asks         string
	Shows        json.RawMessage
	KRaftVersion *int16 // a control record has set it
}

func readFeatureExchanges(t *testing.T, file string) (list []featureExchange) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(f); d.More(); {
		var e featureExchange
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// showFeatures is an answer as the recordings have it, from its error on.
func showFeatures(t *testing.T, r *kmsg.UpdateFeaturesResponse) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.ReplaceAll(string(b), `,"UnknownTags":{}`, "")
	return "{" + s[strings.Index(s, `"ErrorCode"`):]
}

// votersLack is what a real controller says of an upgrade of kraft.version while a voter has not told that it supports it.
const votersLack = "not all of the voters support it"

// updateLike decides about q. The consensus layer is like the real one was.
func updateLike(c *Controller, q *kmsg.UpdateFeaturesRequest, e featureExchange) FeatureUpdate {
	u := c.UpdateFeatures(q)
	if u.KRaftVersion > 0 && strings.Contains(string(e.Shows), votersLack) {
		u.FailKRaftVersion(invalidUpdateVersion, votersLack)
	}
	return u
}

// TestFeaturesOfKafka sends a Controller the UpdateFeatures requests that a real one was sent, and compares answers
// and records.
func TestFeaturesOfKafka(t *testing.T) {
	files, err := filepath.Glob("testdata/features/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			list := readFeatureExchanges(t, file)
			c := New(Config{NodeID: 100, ClusterID: "MkU3OEVBNTcwNTJENDM2Qg", MinInSyncReplicas: "1", StaticVoters: []int32{100}},
				metadata.NewImage(), 1, 0, false)
			switch quorum, _, _ := strings.Cut(filepath.Base(file), "-"); quorum {
			case "voters":
				c.cfg.StaticVoters = []int32{100, 101, 102}
			case "dynamic":
				c.cfg.StaticVoters = nil
			case "static":
				c.cfg.MinInSyncReplicas = "2"
			case "unstable":
				c.cfg.Unstable = true
			}
			c.cfg.Supported = kafkaSupports(t, list[0])
			for _, e := range list {
				replayFeatures(t, c, e)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// kafkaSupports is what the node itself has registered with in the beginning of its log, or what 4.4 registers with if
// the log is too old for that.
func kafkaSupports(t *testing.T, first featureExchange) []metadata.FeatureRange {
	for _, r := range first.records(t) {
		if r.Message == record.RegisterController && r.Int("ControllerId") == 100 {
			return imageOf(t, r).Controller(100).Features
		}
	}
	list := []metadata.FeatureRange{{Name: features.MetadataVersionName, Min: int16(features.Minimum), Max: int16(features.LatestKafka)}}
	for _, f := range features.All() {
		list = append(list, metadata.FeatureRange{Name: f.Name(), Max: f.LatestLevel()})
	}
	return list
}

func replayFeatures(t *testing.T, c *Controller, e featureExchange) {
	t.Helper()
	want := e.records(t)
	quorum := func() {
		if e.KRaftVersion != nil {
			c.SetQuorum(*e.KRaftVersion, c.cfg.StaticVoters)
		}
	}
	if e.Foreign {
		quorum()
		if err := c.Appended(e.Base, want); err != nil {
			t.Fatalf("%s: %v", e.Step, err)
		}
		return
	}
	// Kafka looks at the features in the order of a hash map.
	q := e.request(t).(*kmsg.UpdateFeaturesRequest)
	var got FeatureUpdate
	for range max(len(q.FeatureUpdates), 1) {
		got = updateLike(c, q, e)
		if len(q.FeatureUpdates) < 2 || !got.Failed() || showFeatures(t, got.Response) == string(e.Shows) {
			break
		}
		q.FeatureUpdates = append(q.FeatureUpdates[1:], q.FeatureUpdates[0])
	}
	if g := showFeatures(t, got.Response); g != string(e.Shows) {
		t.Errorf("%s: %s\n got %s\nwant %s", e.Step, e.Asks, g, e.Shows)
	}
	if raised := got.KRaftVersion > 0 && !got.ValidateOnly; raised != (e.KRaftVersion != nil) {
		t.Errorf("%s: %s: kraft.version %d, want %v", e.Step, e.Asks, got.KRaftVersion, e.KRaftVersion)
	}
	g, w := texts(got.Records), texts(want)
	if len(q.FeatureUpdates) > 1 || len(g) > 2 { // likewise, and brokers are in the order of one, too
		slices.Sort(g)
		slices.Sort(w)
	}
	if !slices.Equal(g, w) {
		t.Errorf("%s: %s\n got %s\nwant %s", e.Step, e.Asks, strings.Join(g, "\n     "), strings.Join(w, "\n     "))
	}
	quorum()
	if err := c.Appended(e.Base, want); err != nil {
		t.Fatalf("%s: %v", e.Step, err)
	}
}
