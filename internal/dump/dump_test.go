package dump

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"

	"kstorage/checkpoint"
	"kstorage/internal/record"
)

type kafkaFile struct {
	name  string
	data  []byte
	lines []string // of Kafka's tool
}

// kafkaFiles reads testdata, see README.md there.
func kafkaFiles(tb testing.TB) map[string]kafkaFile {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		tb.Fatal(paths, err)
	}
	files := map[string]kafkaFile{}
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		data, err := hex.DecodeString(strings.ReplaceAll(string(a.Files[1].Data), "\n", ""))
		if err != nil {
			tb.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".txtar")] = kafkaFile{
			name:  strings.TrimSpace(string(a.Files[0].Data)),
			data:  data,
			lines: strings.Split(strings.TrimSpace(string(a.Files[2].Data)), "\n"),
		}
	}
	return files
}

func dumped(data []byte, path string, o Options) (string, error) {
	var out bytes.Buffer
	err := stream(&out, bytes.NewReader(data), path, o)
	return out.String(), err
}

// document is any line of the JSON form.
type document struct {
	Version  *int16
	Kind     string
	Batch    *batchDocument
	Offset   *int64
	Time     int64 `json:"timestamp"`
	Control  bool
	Type     string
	Data     json.RawMessage
	Error    string
	Value    []byte
	End      *endDocument
	Quorum   json.RawMessage `json:"quorumState"`
	MetaProp json.RawMessage `json:"metaProperties"`
}

type batchDocument struct {
	BaseOffset, LastOffset, Count, PartitionLeaderEpoch int64
	IsControl                                           bool
	Position, Timestamp, Size                           int64
	Compression                                         string
	CRC                                                 uint32
}

type endDocument struct {
	Batches, Records, Bytes, ZeroBytes int64
	Error                              *struct {
		Offset *int64
		Reason string
	}
}

// asKafka turns a document into the line that Kafka's tool prints.
func (d document) asKafka() string {
	switch {
	case d.Batch != nil:
		b := d.Batch
		return fmt.Sprintf("batch %d %d %d %d %v %d %d %d %s %d", b.BaseOffset, b.LastOffset, b.Count, b.PartitionLeaderEpoch, b.IsControl, b.Position, b.Timestamp, b.Size, b.Compression, b.CRC)
	case d.Control:
		return fmt.Sprintf("%d %d %s %s", *d.Offset, d.Time, d.Type, d.Data)
	}
	return fmt.Sprintf(`%d %d {"type":"%s","version":%d,"data":%s}`, *d.Offset, d.Time, d.Type, *d.Version, d.Data)
}

func parse(tb testing.TB, out string) []document {
	var list []document
	for line := range strings.Lines(out) {
		var d document
		in := json.NewDecoder(strings.NewReader(line))
		if err := in.Decode(&d); err != nil || in.InputOffset() != int64(len(line)-1) {
			tb.Fatalf("line %q: %v", line, err)
		}
		list = append(list, d)
	}
	return list
}

// TestAsKafka compares each line with that of Kafka's own tool.
func TestAsKafka(t *testing.T) {
	for name, file := range kafkaFiles(t) {
		t.Run(name, func(t *testing.T) {
			out, err := dumped(file.data, file.name, Options{JSON: true})
			if err != nil {
				t.Fatal(err)
			}
			docs := parse(t, out)
			for i, d := range docs[1 : len(docs)-1] {
				line := d.asKafka()
				// Kafka's tool puts a colon behind this name alone.
				line = strings.Replace(line, " LeaderChange {", " LeaderChange: {", 1)
				if line != file.lines[i] {
					t.Errorf("line %d\n got %s\nwant %s", i, line, file.lines[i])
				}
			}
			end := docs[len(docs)-1].End
			if len(docs)-2 != len(file.lines) || end.Batches+end.Records != int64(len(file.lines)) || end.Bytes != int64(len(file.data)) || end.Error != nil {
				t.Errorf("%d lines, want %d; end %+v", len(docs)-2, len(file.lines), end)
			}
			text, err := dumped(file.data, file.name, Options{})
			if n := strings.Count(text, "\n"); err != nil || n != len(docs) {
				t.Errorf("text has %d lines, JSON %d; %v", n, len(docs), err)
			}
		})
	}
}

const zeroName = "00000000000000000000-0000000000.checkpoint"

func TestText(t *testing.T) {
	file := kafkaFiles(t)["format-combined-static-no-flags"]
	got, err := dumped(file.data, "d1/"+zeroName, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `d1/00000000000000000000-0000000000.checkpoint: zero checkpoint
batch at byte 0: offsets 0 to 0, 1 control record, epoch 0, 2026-11-30T05:41:41.258Z, 83 bytes, checksum 4b8cbfd5
  0 SnapshotHeader v0 {"version":0,"lastContainedLogTimestamp":1796017301241}  # 2026-11-30T05:41:41.241Z
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("\n got %s\nwant %s…", got, want)
	}
	for _, line := range []string{
		"\n" + `  1 FEATURE_LEVEL_RECORD v0 {"name":"metadata.version","featureLevel":33}  # 4.4-IV2` + "\n",
		"\n" + `  2 FEATURE_LEVEL_RECORD v0 {"name":"eligible.leader.replicas.version","featureLevel":1}` + "\n",
		"\nend: 3 batches, 8 records, 411 bytes\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

func TestJSON(t *testing.T) {
	file := kafkaFiles(t)["format-combined-static-no-flags"]
	got, err := dumped(file.data, "d\n1/"+zeroName, Options{JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got, "\n")
	for i, want := range map[int]string{
		0: `{"version":1,"file":"d\n1/00000000000000000000-0000000000.checkpoint","kind":"checkpoint","endOffset":0,"epoch":0}`,
		2: `{"offset":0,"timestamp":1796017301258,"control":true,"type":"SnapshotHeader","version":0,"data":{"version":0,"lastContainedLogTimestamp":1796017301241}}`,
		4: `{"offset":1,"timestamp":1796017301269,"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":33}}`,
	} {
		if lines[i] != want {
			t.Errorf("line %d\n got %s\nwant %s", i, lines[i], want)
		}
	}
	if end := `{"end":{"batches":3,"records":8,"bytes":411,"zeroBytes":0,"error":null}}`; lines[len(lines)-2] != end {
		t.Errorf("end %s", lines[len(lines)-2])
	}
}

func TestKinds(t *testing.T) {
	files := kafkaFiles(t)
	snapshot, log := files["snapshot"].data, files["log"].data
	quorum := `{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`
	meta := "#\n#Mon Nov 30 05:46:19 UTC 2026\nnode.id=1\ndirectory.id=QQExn6cCTReE6Nl6XJFAJQ\nversion=1\ncluster.id=XcZZOzUqS4yHOjhMQB6JLQ\n"
	tests := []struct {
		why, path string
		data      []byte
		head      string // "": a FileError
	}{
		{"snapshot", "d/00000000000000000045-0000000001.checkpoint", snapshot, "snapshot of the metadata with end offset 45, epoch 1"},
		{"zero checkpoint", zeroName, snapshot, "zero checkpoint"},
		{"older release", "bootstrap.checkpoint", snapshot, "first metadata records, as releases before 4.4 format"},
		{"copy of a snapshot", "copy", snapshot, "snapshot of the metadata"},
		{"snapshot being written", "00000000000000000045-0000000001-77.checkpoint.part", snapshot, "snapshot of the metadata"},
		{"segment", "00000000000000000000.log", log, "segment of the metadata log from offset 0 on"},
		{"copy of a segment", "x.bin", log, "segment of the metadata log"},
		{"segment being deleted", "00000000000000000000.log.deleted", log, "segment of the metadata log"},
		{"quorum-state", "d/quorum-state", []byte(quorum), "quorum-state"},
		{"copy of quorum-state", "state.json", []byte(" " + quorum), "quorum-state"},
		{"meta.properties", "meta.properties", []byte(meta), "meta.properties"},
		{"copy of meta.properties", "meta.properties.tmp", []byte(meta), "meta.properties"},
		{"index", "00000000000000000000.index", make([]byte, 8), ""},
		{"time index", "00000000000000000000.timeindex", make([]byte, 12), ""},
		{"snapshot of producers", "00000000000000000046.snapshot", []byte("\x00\x01"), ""},
		{"another file", "leader-epoch-checkpoint", []byte("0\n1\n1 0\n"), ""},
		{"empty file of another name", "x", nil, ""},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			out, err := dumped(test.data, test.path, Options{})
			var wrong *FileError
			if test.head == "" {
				if !errors.As(err, &wrong) || wrong.File != test.path || out != "" {
					t.Errorf("got %v, output %q", err, out)
				}
				return
			}
			if first, _, _ := strings.Cut(out, "\n"); err != nil || first != test.path+": "+test.head {
				t.Errorf("got %v, %q", err, first)
			}
		})
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quorum-state")
	if err := File(io.Discard, path, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var corrupt *checkpoint.CorruptError
	if err := File(io.Discard, path, Options{}); !errors.As(err, &corrupt) || corrupt.File != path || corrupt.Offset != 1 {
		t.Errorf("cut: %v", err)
	}
	if err := File(io.Discard, t.TempDir(), Options{}); err == nil {
		t.Error("a directory")
	}
}

func batch(offset int64, epoch int32, values ...[]byte) []byte {
	var entries []record.Entry
	for _, v := range values {
		entries = append(entries, record.Entry{Value: v})
	}
	return record.AppendBatch(nil, record.BatchHeader{BaseOffset: offset, LeaderEpoch: epoch}, entries...)
}

func TestDamage(t *testing.T) {
	files := kafkaFiles(t)
	snapshot, log := files["snapshot"].data, files["log"].data
	const footer = 1528 // of the snapshot
	const logName, snapshotName = "00000000000000000000.log", "00000000000000000045-0000000001.checkpoint"
	level := checkpoint.FeatureLevel("a", 1) // 8 bytes; a batch of one has 76
	unknown := []byte{1, 99, 0, 0}
	flipped := bytes.Clone(log)
	flipped[1300]++ // in the batch at byte 1221
	ofTopic, err := hex.DecodeString("00000000000000000000003d00000000029d26cfd7000000000000000001a22b890a1c000001a22b890a1c00000000000000000000000000000000000116000000010a68656c6c6f00")
	if err != nil {
		t.Fatal(err)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	tests := []struct {
		why, path string
		data      []byte
		offset    int64 // -1: no error
		reason    string
		records   int64 // that are printed
	}{
		{"empty segment", logName, nil, -1, "", 0},
		{"zero bytes behind a segment", logName, join(log, make([]byte, 1<<20)), -1, "", 76},
		{"zero bytes alone", logName, make([]byte, 1<<20), -1, "", 0},
		{"segment cut", logName, log[:1300], 1221, "cut", 15},
		{"segment damaged", logName, flipped, 1221, "checksum", 15},
		{"zero bytes in a segment", logName, join(log[:1221], make([]byte, 500), log[1721:]), 1221, "zero bytes instead of a batch", 15},
		{"text in a segment's place", logName, []byte("hello, world: this is no batch"), 8, "batch length", 0},
		{"batch missing", logName, join(log[:620], log[906:]), 620, "a batch with offset 14 where 13 is next", 75},
		{"segment under another's name", "00000000000000000007.log", log, 0, "a batch with offset 0 where 7 is next", 76},
		{"copy whose name has no offset", "x.log", log[174:], -1, "", 73},
		{"epoch goes back", logName, join(batch(0, 2, level), batch(1, 1, level)), 76, "leader epoch 1 behind one of epoch 2", 2},
		{"record that nobody knows", logName, join(batch(0, 2, level, unknown, level, unknown), batch(4, 2, level)), 61 + 15 + 6, "record with offset 1, in its value byte 1: unknown apiKey 99: no metadata record up to Apache Kafka 4.4 has it; 2 records in all", 5},
		{"batch of another topic with a producer", logName, ofTopic, 43, "has no producer", 0},
		{"records of another topic", logName, batch(0, 0, []byte("hello"), level), 61 + 6, "segments of other topics", 0},
		{"empty snapshot", snapshotName, nil, 0, "empty", 0},
		{"snapshot of zero bytes", snapshotName, make([]byte, 100), 0, "without a SnapshotFooter", 0},
		{"snapshot cut", snapshotName, snapshot[:footer+30], footer, "cut", 20},
		{"footer missing", snapshotName, snapshot[:footer], footer, "without a SnapshotFooter", 20},
		{"zero bytes behind a snapshot", snapshotName, join(snapshot, make([]byte, 10)), int64(len(snapshot)), "10 zero bytes", 21},
		{"batch behind the footer", snapshotName, join(snapshot, batch(21, 1, level)), int64(len(snapshot)), "behind the SnapshotFooter", 22},
		{"batch of another snapshot", snapshotName, join(snapshot[:footer], batch(20, 2, level)), footer, "leader epoch 2 behind one of epoch 1", 21},
		{"log in a snapshot's place", snapshotName, log, 0, "begins with one SnapshotHeader", 76},
		{"records in a snapshot's place", snapshotName, batch(0, 1, level), 0, "does not begin with a SnapshotHeader", 1},
		{"quorum-state is no JSON", "quorum-state", []byte(`{"leaderId":1,}`), 15, "invalid character", 0},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			out, err := dumped(test.data, test.path, Options{JSON: true})
			docs := parse(t, out)
			end := docs[len(docs)-1].End
			var corrupt *checkpoint.CorruptError
			switch {
			case test.offset < 0:
				if err != nil || end.Error != nil {
					t.Errorf("got %v", err)
				}
			case !errors.As(err, &corrupt) || corrupt.File != test.path || corrupt.Offset != test.offset || !strings.Contains(corrupt.Reason, test.reason):
				t.Errorf("got %v, want byte %d: …%s…", err, test.offset, test.reason)
			case end.Error == nil || *end.Error.Offset != test.offset || end.Error.Reason != corrupt.Reason:
				t.Errorf("end %+v", end)
			}
			var records int64
			for _, d := range docs {
				if d.Offset != nil && (d.Type != "" || d.Error != "") {
					records++
				}
			}
			if records != test.records {
				t.Errorf("%d records are printed, want %d", records, test.records)
			}
			text, textErr := dumped(test.data, test.path, Options{})
			if fmt.Sprint(textErr) != fmt.Sprint(err) || strings.Contains(text, "; damaged\n") != (err != nil) {
				t.Errorf("text: %v\n%s", textErr, text)
			}
		})
	}
}

func TestNotDecoded(t *testing.T) {
	data := batch(5, 1, []byte{1, 99, 0, 0})
	out, _ := dumped(data, "00000000000000000005.log", Options{JSON: true})
	const reason = "byte 1: unknown apiKey 99: no metadata record up to Apache Kafka 4.4 has it"
	if want := `{"offset":5,"timestamp":0,"error":"` + reason + `","value":"AWMAAA=="}` + "\n"; !strings.Contains(out, want) {
		t.Errorf("no line %s in\n%s", want, out)
	}
	out, _ = dumped(data, "00000000000000000005.log", Options{})
	if want := "\n  5 not decoded (" + reason + "): 01630000\n"; !strings.Contains(out, want) {
		t.Errorf("no line %s in\n%s", want, out)
	}
}

func TestTimes(t *testing.T) {
	for millis, want := range map[int64]string{0: "1970-01-01T00:00:00.000Z", 253402300799999: "9999-12-31T23:59:59.999Z", 253402300800000: "253402300800000", -1: "-1"} {
		if got := string(appendTime(nil, millis)); got != want {
			t.Errorf("%d: %s, want %s", millis, got, want)
		}
	}
}

func TestState(t *testing.T) {
	tests := []struct{ why, path, data, text, json, fails string }{
		{"kraft.version 1", "quorum-state", `{"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`,
			"  data_version 1\n  leaderId 1\n  leaderEpoch 7\n  votedId -1\n  votedDirectoryId \"AAAAAAAAAAAAAAAAAAAAAA\"\n",
			`{"quorumState":{"dataVersion":1,"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}}`, ""},
		{"kraft.version 0", "quorum-state", `{"clusterId": "","leaderId": 1,"leaderEpoch": 5,"votedId": -1,"appliedOffset": 0,"currentVoters": [{"voterId": 1}],"data_version": 0}` + "\n",
			"  data_version 0\n  clusterId \"\"\n  leaderId 1\n  leaderEpoch 5\n  votedId -1\n  appliedOffset 0\n  currentVoters [{\"voterId\":1}]\n",
			`{"quorumState":{"dataVersion":0,"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}]}}`, ""},
		{"unknown version", "quorum-state", `{"leaderId":1,"leaderEpoch":7,"votedId":-1,"data_version":2}`, "", "", `data_version is "2"`},
		{"no version", "quorum-state", `{"leaderId":1}`, "", "", `data_version is ""`},
		{"field missing", "quorum-state", `{"leaderId":1,"leaderEpoch":7,"votedId":-1,"data_version":1}`, "", "", "votedDirectoryId is missing"},
		{"number too large", "quorum-state", `{"leaderId":4294967296,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"","data_version":1}`, "", "", "leaderId is 4294967296"},
		{"too large", "quorum-state", `{"leaderEpoch":` + strings.Repeat(" ", 1<<20), "", "", "more than 1048576 bytes"},
		{"version 1", "meta.properties", "node.id=1\ndirectory.id=QQExn6cCTReE6Nl6XJFAJQ\nversion=1\ncluster.id=XcZZOzUqS4yHOjhMQB6JLQ\n",
			"  version 1\n  cluster.id XcZZOzUqS4yHOjhMQB6JLQ\n  node.id 1\n  directory.id QQExn6cCTReE6Nl6XJFAJQ\n",
			`{"metaProperties":{"version":1,"clusterId":"XcZZOzUqS4yHOjhMQB6JLQ","nodeId":1,"directoryId":"QQExn6cCTReE6Nl6XJFAJQ"}}`, ""},
		{"version 2 without ids", "meta.properties", "node.id=1\nversion=2\n",
			"  version 2\n  cluster.id (none)\n  node.id 1\n  directory.id (none)\n",
			`{"metaProperties":{"version":2,"clusterId":null,"nodeId":1,"directoryId":null}}`, ""},
		{"unknown meta.properties", "meta.properties", "version=9\n", "", "", "9"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			for _, o := range []Options{{}, {JSON: true}} {
				want := test.text
				if o.JSON {
					want = test.json + "\n"
				}
				out, err := dumped([]byte(test.data), test.path, o)
				if test.fails != "" {
					var wrong *FileError
					if !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, test.fails) || strings.Count(out, "\n") != 2 {
						t.Errorf("got %v, want …%s…; output\n%s", err, test.fails, out)
					}
					continue
				}
				if err != nil || !strings.Contains(out, "\n"+want) {
					t.Errorf("got %v, %s\nwant %s", err, out, want)
				}
			}
		})
	}
}

func TestIOErrors(t *testing.T) {
	log := kafkaFiles(t)["log"].data
	full := writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })
	if err := stream(full, bytes.NewReader(log), "00000000000000000000.log", Options{}); err != io.ErrShortWrite {
		t.Errorf("full disk: %v", err)
	}
	for _, n := range []int{0, 10, 5000, len(log)} {
		in := io.MultiReader(bytes.NewReader(log[:n]), iotest.ErrReader(iotest.ErrTimeout))
		if err := stream(io.Discard, in, "00000000000000000000.log", Options{JSON: true}); err != iotest.ErrTimeout {
			t.Errorf("disk that fails behind %d bytes: %v", n, err)
		}
	}
}

// TestFullDiskStops has a long file and a disk that is full at once: most of the file is not read.
func TestFullDiskStops(t *testing.T) {
	path, size := writeSnapshot(t, 200_000)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	full := writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })
	if err := stream(full, f, path, Options{}); err != io.ErrShortWrite {
		t.Errorf("got %v", err)
	}
	if read, _ := f.Seek(0, io.SeekCurrent); read == size {
		t.Errorf("all %d bytes were read", read)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestMemory dumps a snapshot four times as large as another: it takes no more memory.
func TestMemory(t *testing.T) {
	used := func(records int) uint64 {
		path, _ := writeSnapshot(t, records)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := File(io.Discard, path, Options{JSON: true}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := used(100_000), used(400_000)
	if large > small+1<<20 || large > 32<<20 {
		t.Errorf("%d bytes for 100,000 records, %d for 400,000", small, large)
	}
}
