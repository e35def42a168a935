package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"

	"kstorage/internal/record"
)

// config is a ConfigRecord as the probe of Kafka wrote them.
func config(i, valueSize int) []byte {
	r := record.New(record.Config, 0)
	r.SetInt("ResourceType", 2)
	r.SetText("ResourceName", fmt.Sprintf("t%d", i))
	r.SetText("Name", "n")
	r.SetText("Value", strings.Repeat("v", valueSize))
	value, err := r.AppendValue(nil)
	if err != nil {
		panic(err)
	}
	return value
}

// write writes a snapshot and returns a line about its batches: size/records@offset.
func write(t *testing.T, h Header, fill func(*Writer)) (data []byte, layout string) {
	var out bytes.Buffer
	w, err := NewWriter(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	fill(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var list []string
	for r := record.NewBatchReader(bytes.NewReader(out.Bytes())); ; {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.LeaderEpoch != h.LeaderEpoch || b.Control != (b.BaseOffset == 0 || len(out.Bytes()) == int(r.Position())) {
			t.Errorf("batch %+v", b.BatchHeader)
		}
		list = append(list, fmt.Sprintf("%d/%d@%d", b.Size, b.Count, b.BaseOffset))
	}
	return out.Bytes(), strings.Join(list, " ")
}

func appendAll(t *testing.T, w *Writer, values ...[]byte) {
	t.Helper()
	if err := w.Append(values...); err != nil {
		t.Fatal(err)
	}
}

// TestBatchesAsKafkaCuts writes what a probe wrote with RecordsSnapshotWriter and RaftSnapshotWriter of Kafka 4.4.0. The
// sizes are Kafka's.
func TestBatchesAsKafkaCuts(t *testing.T) {
	portions := func(records, valueSize int) func(*Writer) {
		return func(w *Writer) {
			for i := 0; i < records; {
				var portion [][]byte
				for ; i < records && len(portion) < PortionRecords; i++ {
					portion = append(portion, config(i, valueSize))
				}
				appendAll(t, w, portion...)
			}
		}
	}
	tests := []struct {
		why  string
		fill func(*Writer)
		want string
	}{
		{"portions share a batch", portions(3000, 10), "83/1@0 94887/3000@1 75/1@3001"},
		{"all in one call", func(w *Writer) {
			var values [][]byte
			for i := range 3000 {
				values = append(values, config(i, 10))
			}
			appendAll(t, w, values...)
		}, "83/1@0 94887/3000@1 75/1@3001"},
		{"a portion that does not fit has its own batch", portions(300000, 90),
			"83/1@0 8295575/71680@1 117757/1024@71681 8351069/71680@72705 118781/1024@144385 8378365/71680@145409 118781/1024@217089 8378365/71680@218113 118781/1024@289793 1066333/9184@290817 75/1@300001"},
		{"nothing", func(w *Writer) { appendAll(t, w) }, "83/1@0 75/1@1"},
		// Unlike Kafka, which fails here.
		{"one call with more than a batch holds", func(w *Writer) {
			var values [][]byte
			for i := range 1024 {
				values = append(values, config(i, 10000))
			}
			appendAll(t, w, values...)
			appendAll(t, w, config(1, 10))
		}, "83/1@0 8381623/836@1 1884909/188@837 89/1@1025 75/1@1026"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			if _, got := write(t, Header{LeaderEpoch: 7, LastContainedLogTime: 5}, test.fill); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestFullBatch has a batch of 8 MiB to the byte, and of one more.
func TestFullBatch(t *testing.T) {
	values := make([][]byte, 0, 300)
	for size := 0; size < record.MaxBatchBytes-30000; {
		values = append(values, config(0, 5000))
		size += len(values[0]) + 8
	}
	var entries []record.Entry
	for _, v := range values {
		entries = append(entries, record.Entry{Value: v})
	}
	rest := record.MaxBatchBytes - new(record.Builder).SizeWith(append(entries, record.Entry{Value: config(0, 17000)})...)
	for more, batches := range []int{1, 2} {
		_, layout := write(t, Header{}, func(w *Writer) { appendAll(t, w, append(values, config(0, 17000+rest+more))...) })
		if n := len(strings.Fields(layout)) - 2; n != batches {
			t.Errorf("%d bytes: %d batches: %s", record.MaxBatchBytes+more, n, layout)
		}
		if more == 0 && !strings.Contains(layout, " 8388608/") {
			t.Errorf("no full batch: %s", layout)
		}
	}
}

func TestAppendErrors(t *testing.T) {
	good := FeatureLevel("metadata.version", 33)
	long := strings.Repeat("a", 32768)
	tokens := record.New(record.DelegationToken, 0)
	names := make([]string, 300)
	for i := range names {
		names[i] = long[1:]
	}
	tokens.SetTexts("Renewers", names)
	large, err := tokens.AppendValue(nil)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		why    string
		values [][]byte
		index  int
		reason string
	}{
		{"name too long", [][]byte{good, FeatureLevel(long, 1)}, 1, "string Name of 32768 bytes"},
		{"user too long", [][]byte{ScramCredential(long, ScramSHA256, []byte{1}, []byte{2}, []byte{3}, 4096)}, 0, "string Name of 32768 bytes"},
		{"cluster id too long", [][]byte{ClusterID(long)}, 0, "string ClusterId of 32768 bytes"},
		{"no record", [][]byte{good, good, {}}, 2, "cut"},
		{"no metadata record", [][]byte{[]byte("{}")}, 0, "frame version"},
		{"larger than a batch", [][]byte{large}, 0, "its batch would have"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			data, _ := write(t, Header{}, func(w *Writer) {
				var wrong *RecordError
				if err := w.Append(test.values...); !errors.As(err, &wrong) || wrong.Index != test.index || !strings.Contains(wrong.Reason, test.reason) {
					t.Errorf("got %v, want record %d: …%s…", err, test.index, test.reason)
				}
			})
			if list, err := values(data); err != nil || len(list) != 0 {
				t.Errorf("the snapshot has %d records, %v", len(list), err)
			}
		})
	}
}

func TestHeaderErrors(t *testing.T) {
	long := strings.Repeat("h", 32768)
	if _, err := NewWriter(io.Discard, Header{KRaftVersion: 1, Voters: []Voter{{Endpoints: []Endpoint{{Host: long}}}}}); err == nil {
		t.Error("a host of 32768 bytes")
	}
}

// TestWriteErrors fails at each write in turn.
func TestWriteErrors(t *testing.T) {
	for n := range 3 {
		left := n
		w, err := NewWriter(writerFunc(func(b []byte) (int, error) {
			if left == 0 {
				return 0, iotest.ErrTimeout
			}
			left--
			return len(b), nil
		}), Header{})
		if n == 0 {
			if err != iotest.ErrTimeout {
				t.Errorf("header: %v", err)
			}
			continue
		}
		if err := w.Append(ClusterID("x")); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != iotest.ErrTimeout {
			t.Errorf("write %d: %v", n, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRecordValues(t *testing.T) {
	tests := []struct {
		why   string
		value []byte
		json  string
	}{
		{"feature", FeatureLevel("group.version", 1), `{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"group.version","featureLevel":1}}`},
		{"credential", ScramCredential("alice", ScramSHA512, []byte{1}, []byte{2}, []byte{3}, 4096),
			`{"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"alice","mechanism":2,"salt":"AQ==","storedKey":"Ag==","serverKey":"Aw==","iterations":4096}}`},
		{"credential with nothing in it", ScramCredential("", ScramSHA256, nil, nil, nil, 0),
			`{"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"","mechanism":1,"salt":"","storedKey":"","serverKey":"","iterations":0}}`},
		{"cluster id", ClusterID("my-cluster"), `{"type":"CLUSTER_ID_RECORD","version":0,"data":{"clusterId":"my-cluster"}}`},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			r, err := record.Decode(test.value)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.AppendJSON(nil)); got != test.json {
				t.Errorf("\n got %s\nwant %s", got, test.json)
			}
		})
	}
	if got := fmt.Sprintf("%x", ClusterID("ab")); got != "011e000361"+"6200" {
		t.Errorf("ClusterIdRecord is %s", got)
	}
}

// TestVotersByID gives voters in another order than that of their ids.
func TestVotersByID(t *testing.T) {
	voters := []Voter{
		{NodeID: 3, DirectoryID: uuid.UUID{3}, Endpoints: []Endpoint{{"B", "b", 2}, {"A", "a", 65535}}, MaxKRaftVersion: 1},
		{NodeID: 1, DirectoryID: uuid.UUID{1}},
	}
	data, _ := write(t, Header{KRaftVersion: 1, Voters: voters}, func(*Writer) {})
	r, err := NewReader(bytes.NewReader(data), "file")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", r.Header.Voters), fmt.Sprintf("%+v", []Voter{voters[1], voters[0]}); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if voters[0].NodeID != 3 {
		t.Error("the caller's slice is sorted")
	}
}
