package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kstorage/checkpoint"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// recordings are folders of testdata, each with a log that Kafka wrote, and the snapshot that it made of it at some
// offset. How they were made stands in testdata/README.md.
var recordings = []struct {
	name string
	// leftOver is the resource of configurations that Kafka's snapshot has and ours doesn't: a topic that was created
	// and removed before Kafka published the first of both (it was replaying the log after a restart).
	leftOver string
}{
	{"kafka-4.4", "t3"},
	{"kafka-4.4-at-3.6", ""},
}

// TestKafkasSnapshots replays what Kafka wrote up to the offset of each of its snapshots, and compares ours record for
// record; then loads Kafka's and goes on from there.
func TestKafkasSnapshots(t *testing.T) {
	for _, c := range recordings {
		dir := filepath.Join("testdata", c.name)
		log, err := os.ReadFile(filepath.Join(dir, "00000000000000000000.log"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"+checkpoint.Suffix))
		if err != nil || len(files) != 2 {
			t.Fatal(files, err)
		}
		whole := newTestLoader()
		if err := whole.Replay(log); err != nil {
			t.Fatal(err)
		}
		final, _ := snapshotRecords(t, snapshotOf(t, whole.Image()))
		for _, file := range files {
			t.Run(c.name+"/"+filepath.Base(file), func(t *testing.T) {
				kafkas, err := os.ReadFile(file)
				parsed, ok := checkpoint.ParseName(filepath.Base(file))
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				id := raft.SnapshotID{EndOffset: raft.Offset(parsed.EndOffset), Epoch: raft.Epoch(parsed.Epoch)}

				l := newTestLoader()
				rest := log
				for l.NextOffset() < id.EndOffset {
					b, err := record.DecodeBatch(rest)
					if err == nil {
						err = l.Replay(rest[:b.Size])
					}
					if err != nil {
						t.Fatal(err)
					}
					rest = rest[b.Size:]
				}
				if got := (raft.SnapshotID{EndOffset: l.NextOffset(), Epoch: l.Image().Epoch}); got != id {
					t.Fatalf("the image is that of %v, Kafka's snapshot %v", got, id)
				}
				want, order := snapshotRecords(t, kafkas)
				if c.leftOver != "" {
					all := len(want[record.Config.Type])
					want[record.Config.Type] = slices.DeleteFunc(want[record.Config.Type], func(line string) bool {
						return strings.Contains(line, `"resourceName":"`+c.leftOver+`"`)
					})
					if len(want[record.Config.Type]) != all-1 {
						t.Errorf("Kafka's snapshot has no configuration of %s", c.leftOver)
					}
				}
				got, ourOrder := snapshotRecords(t, snapshotOf(t, l.Image()))
				if !slices.Equal(ourOrder, order) {
					t.Errorf("kinds of records in the order\n%v\nKafka's\n%v", ourOrder, order)
				}
				compareRecords(t, got, want)

				again := newTestLoader()
				if err := again.LoadSnapshot(bytes.NewReader(kafkas), "kafka", id, 0); err != nil {
					t.Fatal(err)
				}
				if c.leftOver != "" {
					delete(again.image.configs.rows, configResource{TopicConfig, c.leftOver})
				}
				if err := again.Replay(rest); err != nil {
					t.Fatal(err)
				}
				got, _ = snapshotRecords(t, snapshotOf(t, again.Image()))
				compareRecords(t, got, final)
			})
		}
	}
}

func compareRecords(t *testing.T, got, want map[string][]string) {
	t.Helper()
	kinds := map[string]bool{}
	for _, m := range []map[string][]string{got, want} {
		for kind := range m {
			kinds[kind] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !slices.Equal(got[kind], want[kind]) {
			t.Errorf("%s\n%s\nwant\n%s", kind, strings.Join(got[kind], "\n"), strings.Join(want[kind], "\n"))
		}
	}
}

// snapshotRecords returns the records of a snapshot as JSON, those of a kind sorted, as are arrays that Kafka takes out of
// hash maps; and the kinds in their order.
func snapshotRecords(t *testing.T, file []byte) (byKind map[string][]string, order []string) {
	t.Helper()
	reader, err := checkpoint.NewReader(bytes.NewReader(file), "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	byKind = map[string][]string{}
	topic := ""
	for c, err := range reader.Records() {
		if err != nil {
			t.Fatal(err)
		}
		r, err := record.Decode(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(r.AppendJSON(nil), &doc); err != nil {
			t.Fatal(err)
		}
		data := doc["data"].(map[string]any)
		for _, field := range []string{"endPoints", "features", "entity"} {
			if list, ok := data[field].([]any); ok {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		line, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		byKind[c.Type] = append(byKind[c.Type], string(line))
		switch c.Type {
		case record.Topic.Type:
			topic = fmt.Sprint(data["topicId"])
		case record.Partition.Type:
			if data["topicId"] != topic {
				t.Errorf("a partition of another topic stands behind topic %s: %s", topic, line)
			}
			continue // it doesn't count for the order
		}
		if len(order) == 0 || order[len(order)-1] != c.Type {
			order = append(order, c.Type)
		}
	}
	for _, lines := range byKind {
		slices.Sort(lines)
	}
	return byKind, order
}
