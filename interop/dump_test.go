//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kstorage/internal/record"
)

// entry is what a dump says about a batch or a record, whoever printed it.
type entry struct {
	Offset    int64 // of a batch: of its first record
	Timestamp int64
	Kind      string // "batch", or the record's type as Kafka prints it: FEATURE_LEVEL_RECORD, LeaderChange
	Version   int64  // of a metadata record
	Data      string // JSON, for a record as Kafka prints it
}

var (
	batchLine = regexp.MustCompile(`^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (-?\d+) .*isControl: (\S+) .*` +
		`position: (\d+) CreateTime: (\d+) size: (\d+) .*compresscodec: (\S+) crc: (\d+) isvalid: (\S+)$`)
	recordLine  = regexp.MustCompile(`^\| offset: (\d+) CreateTime: (\d+) .*headerKeys: \[\] (\w+):? (\{.*\})$`)
	ignoredLine = regexp.MustCompile(`^(Dumping .*|Log starting offset: .*|Snapshot end offset: .*|)$`)
)

// kafkaDump reads a metadata log segment or a snapshot with DumpLogSegments. Behind the last batch of a log whose node was killed it
// meets the zeros that stood ready there, as with log.preallocate, and ends with an error.
func kafkaDump(t *testing.T, path string) []entry {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	batches := record.NewBatchReader(bytes.NewReader(data))
	for err == nil {
		_, err = batches.Next()
	}
	const header = 17 // bytes, of which DumpLogSegments makes something
	zeros := err == io.EOF && batches.ZeroBytes() >= header
	r := kafkaTool(t, dumpTool, "--cluster-metadata-decoder", "--files", path)
	if (r.exit != 0) != zeros || strings.Contains(r.stderr, "Found record size 0 smaller than minimum record overhead") != zeros {
		t.Fatalf("%s, zeros at its end: %v: %s", path, zeros, r)
	}
	var entries []entry
	for line := range strings.Lines(r.stdout) {
		line = strings.TrimSuffix(line, "\n")
		if m := batchLine.FindStringSubmatch(line); m != nil {
			if m[11] != "true" {
				t.Errorf("%s: DumpLogSegments finds a batch invalid: %s", path, line)
			}
			data := fmt.Sprintf(`{"lastOffset":%s,"count":%s,"partitionLeaderEpoch":%s,"isControl":%s,"position":%s,"size":%s,"compression":"%s","crc":%s}`,
				m[2], m[3], m[4], m[5], m[6], m[8], m[9], m[10])
			entries = append(entries, entry{Offset: number(t, m[1]), Timestamp: number(t, m[7]), Kind: "batch", Data: data})
		} else if m := recordLine.FindStringSubmatch(line); m != nil {
			e := entry{Offset: number(t, m[1]), Timestamp: number(t, m[2]), Kind: m[3]}
			data := json.RawMessage(m[4])
			if e.Kind == "payload" {
				var payload struct {
					Type    string
					Version int64
					Data    json.RawMessage
				}
				if err := json.Unmarshal(data, &payload); err != nil {
					t.Fatalf("%s: %v: %s", path, err, line)
				}
				e.Kind, e.Version, data = payload.Type, payload.Version, payload.Data
			}
			e.Data = string(data)
			entries = append(entries, e)
		} else if !ignoredLine.MatchString(line) {
			t.Fatalf("DumpLogSegments printed a line that this test does not know: %q", line)
		}
	}
	if len(entries) == 0 {
		t.Fatalf("DumpLogSegments found nothing in %s:\n%s", path, r)
	}
	return entries
}

// kstorageDump reads it with `kstorage dump --json`.
func kstorageDump(t *testing.T, path string) []entry {
	t.Helper()
	r := kstorage(t, filepath.Dir(path), nil, "dump", "--json", path)
	if r.exit != 0 || r.stderr != "" {
		t.Fatal(r)
	}
	var entries []entry
	ended := false
	for line := range strings.Lines(r.stdout) {
		var document struct {
			File  string
			Batch *struct {
				BaseOffset, LastOffset, Count, PartitionLeaderEpoch, Position, Timestamp, Size, CRC int64
				IsControl                                                                           bool
				Compression                                                                         string
			}
			Offset    *int64
			Timestamp int64
			Type      string
			Version   int64
			Data      json.RawMessage
			End       *struct{ Batches, Records int }
		}
		if err := json.Unmarshal([]byte(line), &document); err != nil {
			t.Fatalf("%s: %v: %s", path, err, line)
		}
		switch b := document.Batch; {
		case b != nil:
			entries = append(entries, entry{Offset: b.BaseOffset, Timestamp: b.Timestamp, Kind: "batch", Data: fmt.Sprintf(
				`{"lastOffset":%d,"count":%d,"partitionLeaderEpoch":%d,"isControl":%t,"position":%d,"size":%d,"compression":"%s","crc":%d}`,
				b.LastOffset, b.Count, b.PartitionLeaderEpoch, b.IsControl, b.Position, b.Size, b.Compression, b.CRC)})
		case document.Offset != nil:
			entries = append(entries, entry{Offset: *document.Offset, Timestamp: document.Timestamp,
				Kind: document.Type, Version: document.Version, Data: string(document.Data)})
		case document.End != nil:
			ended = document.End.Batches+document.End.Records == len(entries)
		case document.File != path:
			t.Errorf("%s: an unknown document: %s", path, line)
		}
	}
	if !ended {
		t.Errorf("%s: the last document should count %d batches and records", path, len(entries))
	}
	return entries
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkInfo asks both tools for the directories of each node: the same text and exit code.
func checkInfo(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		want, got := byKafka.run(t, n, "info"), byKstorage.run(t, n, "info")
		if want.exit != 0 || got.exit != 0 || want.stdout != got.stdout {
			t.Errorf("node %d: the tools don't agree:\n%s\n%s", n.id, want, got)
		}
	}
}

// checkDumps lets both tools read every segment and snapshot of the metadata log of n. It returns how often each type
// of record stands there.
func checkDumps(t *testing.T, n *node) map[string]int {
	t.Helper()
	types := map[string]int{}
	files := 0
	for _, pattern := range []string{"*.log", "*.checkpoint"} {
		paths, err := filepath.Glob(filepath.Join(n.metadataDir(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			files++
			for _, e := range checkDump(t, path) {
				types[fmt.Sprintf("%s v%d", e.Kind, e.Version)]++
			}
		}
	}
	if files == 0 {
		t.Errorf("node %d has no metadata log in %s", n.id, n.metadataDir())
	}
	checkQuorumState(t, filepath.Join(n.metadataDir(), "quorum-state"))
	return types
}

// checkQuorumState compares what kstorage prints with the file, which is JSON.
func checkQuorumState(t *testing.T, path string) {
	t.Helper()
	type state struct {
		LeaderID, LeaderEpoch, VotedID int
		VotedDirectoryID               string
	}
	var want state
	if err := json.Unmarshal([]byte(readFile(t, path)), &want); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	r := kstorage(t, filepath.Dir(path), nil, "dump", "--json", path)
	var got struct{ QuorumState state }
	for line := range strings.Lines(r.stdout) {
		if strings.HasPrefix(line, `{"quorumState":`) {
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	if r.exit != 0 || got.QuorumState != want {
		t.Errorf("quorum-state is %+v: %s", want, r)
	}
}

// checkDump lets both tools read a file and compares what they say, entry by entry. It returns what Kafka says.
func checkDump(t *testing.T, path string) []entry {
	t.Helper()
	want, got := kafkaDump(t, path), kstorageDump(t, path)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Errorf("%s: kstorage dump ends early, DumpLogSegments has %+v", path, want[i])
		case i >= len(want):
			t.Errorf("%s: only kstorage dump has %+v", path, got[i])
		case want[i] != got[i]:
			t.Errorf("%s: entry %d differs\n DumpLogSegments: %+v\n   kstorage dump: %+v", path, i, want[i], got[i])
		default:
			continue
		}
		break // the first difference tells enough
	}
	return want
}
