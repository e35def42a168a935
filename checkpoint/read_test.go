package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"kstorage/internal/record"
)

// values reads a snapshot to its end.
func values(data []byte) ([][]byte, error) {
	r, err := NewReader(iotest.HalfReader(bytes.NewReader(data)), "file")
	if err != nil {
		return nil, err
	}
	var list [][]byte
	for rec, err := range r.Records() {
		if err != nil {
			return list, err
		}
		list = append(list, bytes.Clone(rec.Value))
	}
	return list, nil
}

func TestReader(t *testing.T) {
	want := Header{LeaderEpoch: 7, AppendTime: 100, LastContainedLogTime: 50, KRaftVersion: 1, Voters: []Voter{}}
	data, _ := write(t, want, func(w *Writer) {
		appendAll(t, w, FeatureLevel("metadata.version", 35), ClusterID("c"))
	})
	r, err := NewReader(bytes.NewReader(data), "file")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Header, want) {
		t.Errorf("got %+v", r.Header)
	}
	var got []Record
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		rec.Value = bytes.Clone(rec.Value)
		got = append(got, rec)
	}
	if want := []Record{
		{3, 100, "FEATURE_LEVEL_RECORD", 0, FeatureLevel("metadata.version", 35)},
		{4, 100, "CLUSTER_ID_RECORD", 0, ClusterID("c")},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	for range r.Records() {
		break // leaving the loop early is allowed
	}
}

func control(t *testing.T, offset int64, epoch int32, records ...record.Record) []byte {
	var entries []record.Entry
	for _, r := range records {
		e, err := record.ControlEntry(r)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return record.AppendBatch(nil, record.BatchHeader{BaseOffset: offset, LeaderEpoch: epoch, Control: true}, entries...)
}

func TestCorrupt(t *testing.T) {
	header, footer := record.New(record.SnapshotHeader, 0), record.New(record.SnapshotFooter, 0)
	version, voters := record.New(record.KRaftVersion, 0), record.New(record.KRaftVoters, 0)
	version.SetInt("KRaftVersion", 1)
	data := func(offset int64, epoch int32, values ...[]byte) []byte {
		var entries []record.Entry
		for _, v := range values {
			entries = append(entries, record.Entry{Value: v})
		}
		return record.AppendBatch(nil, record.BatchHeader{BaseOffset: offset, LeaderEpoch: epoch}, entries...)
	}
	batches := func(b ...[]byte) []byte { return bytes.Join(b, nil) }
	first := control(t, 0, 2, header) // 83 bytes
	level := FeatureLevel("a", 1)
	damaged := data(1, 2, level)
	damaged[70]++
	tests := []struct {
		why    string
		file   []byte
		offset int64
		reason string
	}{
		{"empty", nil, 0, "empty"},
		{"zero bytes", make([]byte, 500), 0, "zero bytes alone"},
		{"text", []byte("#\nnode.id=1\ncluster.id=x\n"), 8, "batch length"},
		{"header cut", first[:80], 0, "cut: 80 of its bytes are there, 3 are missing"},
		{"log instead of a snapshot", data(0, 2, level), 0, "no snapshot"},
		{"control records of a log", control(t, 0, 2, record.New(record.LeaderChange, 0)), 0, "LeaderChange at offset 0"},
		{"header twice", control(t, 0, 2, header, header), 0, "SnapshotHeader at offset 1"},
		{"footer in the first batch", control(t, 0, 2, header, footer), 0, "SnapshotFooter at offset 1"},
		{"voters without kraft.version", control(t, 0, 2, header, voters), 0, "KRaftVoters without"},
		{"first offset", control(t, 1, 2, header), 0, "first offset is 1"},
		{"no footer", first, 83, "ends without a SnapshotFooter"},
		{"zero bytes instead of the footer", batches(first, make([]byte, 100)), 83, "ends without a SnapshotFooter"},
		{"batch missing", batches(first, data(2, 2, level)), 83, "offset 2 follows offset 0"},
		{"batch twice", batches(first, data(1, 2, level), data(1, 2, level)), 83 + 76, "offset 1 follows offset 1"},
		{"batch of another snapshot", batches(first, data(1, 3, level)), 83, "leader epoch 3 in a snapshot of epoch 2"},
		{"batch damaged", batches(first, damaged, control(t, 2, 2, footer)), 83, "checksum"},
		{"unknown record", batches(first, data(1, 2, level, []byte{1, 99, 0, 0}), control(t, 3, 2, footer)), 83 + 61 + 15 + 6, "offset 2, in its value byte 1: unknown apiKey 99"},
		{"record cut", batches(first, data(1, 2, level[:4])), 83 + 61 + 6, "offset 1, in its value byte 3: Name has length 1"},
		{"header in the middle", batches(first, control(t, 1, 2, header)), 83, "SnapshotHeader at offset 1"},
		{"voters in the middle", batches(first, control(t, 1, 2, version, voters)), 83, "KRaftVersion at offset 1"},
		{"footer twice in a batch", batches(first, control(t, 1, 2, footer, footer)), 83, "SnapshotFooter at offset 1"},
		{"records behind the footer", batches(first, control(t, 1, 2, footer), data(2, 2, level)), 83 + 75, "behind the SnapshotFooter"},
		{"zero bytes behind the footer", batches(first, control(t, 1, 2, footer), make([]byte, 4096)), 83 + 75, "behind the SnapshotFooter"},
		{"one byte behind the footer", batches(first, control(t, 1, 2, footer), []byte{1}), 83 + 75, "behind the SnapshotFooter"},
		{"unknown control record", batches(first, record.AppendBatch(nil, record.BatchHeader{BaseOffset: 1, LeaderEpoch: 2, Control: true}, record.Entry{Key: []byte{0, 0, 0, 9}, Value: []byte{0, 0, 0}})), 83 + 61 + 10, "unknown control record type 9"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			_, err := values(test.file)
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != "file" || corrupt.Offset != test.offset || !strings.Contains(corrupt.Reason, test.reason) {
				t.Errorf("got %v, want byte %d: …%s…", err, test.offset, test.reason)
			}
		})
	}
}

// TestAnyDamage cuts a snapshot of Kafka at every byte, and changes every byte: no such file is taken for whole.
func TestAnyDamage(t *testing.T) {
	for _, g := range goldens(t) {
		if g.name != "format-everything" {
			continue
		}
		for n := range g.data {
			var corrupt *CorruptError
			if _, err := values(g.data[:n]); !errors.As(err, &corrupt) || corrupt.Offset > int64(n) {
				t.Errorf("cut at %d: %v", n, err)
			}
			damaged := bytes.Clone(g.data)
			damaged[n] ^= 0x41
			_, err := values(damaged)
			// The leader epoch, bytes 12 to 15 of each batch, is in no checksum, but must be the same in all.
			if !errors.As(err, &corrupt) {
				t.Errorf("byte %d changed: %v", n, err)
			}
		}
	}
}

// TestReadErrors has a disk that fails behind byte n.
func TestReadErrors(t *testing.T) {
	data, _ := write(t, Header{}, func(w *Writer) { appendAll(t, w, ClusterID("c")) })
	for n := range len(data) + 1 {
		r, err := NewReader(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(iotest.ErrTimeout)), "file")
		if err == nil {
			for _, err = range r.Records() {
			}
		}
		if err != iotest.ErrTimeout {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestAnySnapshot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := Header{
			LeaderEpoch:          rapid.Int32Range(0, 1<<31-1).Draw(rt, "epoch"),
			AppendTime:           rapid.Int64().Draw(rt, "append time"),
			LastContainedLogTime: rapid.Int64().Draw(rt, "log time"),
			KRaftVersion:         rapid.Int16Range(0, 1).Draw(rt, "kraft.version"),
		}
		if h.KRaftVersion > 0 {
			for id := range rapid.Int32Range(0, 4).Draw(rt, "voters") {
				h.Voters = append(h.Voters, Voter{NodeID: id, Endpoints: []Endpoint{{"C", rapid.String().Draw(rt, "host"), rapid.Uint16().Draw(rt, "port")}}})
			}
		}
		var want [][]byte
		data, _ := write(t, h, func(w *Writer) {
			for range rapid.IntRange(0, 5).Draw(rt, "calls") {
				var call [][]byte
				for range rapid.IntRange(0, 50).Draw(rt, "records") {
					call = append(call, FeatureLevel(rapid.String().Draw(rt, "name"), rapid.Int16().Draw(rt, "level")))
				}
				appendAll(t, w, call...)
				want = append(want, call...)
			}
		})
		r, err := NewReader(bytes.NewReader(data), "file")
		if err != nil || !reflect.DeepEqual(r.Header, h) {
			rt.Fatalf("%v\n got %+v\nwant %+v", err, r.Header, h)
		}
		if got, err := values(data); err != nil || !reflect.DeepEqual(got, want) {
			rt.Fatalf("%v\n got %x\nwant %x", err, got, want)
		}
	})
}

// FuzzReader reads any bytes as a snapshot. What is accepted has the same header and records when it is written again. Not
// canonical, and so not the same to the byte, may be: the order of voters, and in the first and the last batch
// records of later versions, unknown tagged fields, and a KRaftVersion of 0.
func FuzzReader(f *testing.F) {
	for _, g := range goldens(f) {
		f.Add(g.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzReader(t, data)
		fuzzReader(t, repaired(data))
	})
}

func fuzzReader(t *testing.T, data []byte) {
	r, err := NewReader(bytes.NewReader(data), "file")
	if err == nil {
		for _, e := range r.Records() {
			err = e
		}
	}
	if err != nil {
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Offset < 0 || corrupt.Offset > int64(len(data)) {
			t.Fatalf("error %#v", err)
		}
		return
	}
	again, err := rewrite(data)
	if err != nil {
		t.Fatal(err)
	}
	twin, err := NewReader(bytes.NewReader(again), "file")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(r.Header.Voters, func(a, b Voter) int { return cmp.Compare(a.NodeID, b.NodeID) })
	if !reflect.DeepEqual(twin.Header, r.Header) {
		t.Fatalf("header\n got %+v\nwant %+v", twin.Header, r.Header)
	}
	got, err := values(again)
	want, _ := values(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: records\n got %x\nwant %x", err, got, want)
	}
}

// repaired returns data with the checksums of its batches made right, so that what lies behind them is tried too.
func repaired(data []byte) []byte {
	data = bytes.Clone(data)
	for rest := data; len(rest) > 61; {
		size := 12 + int64(int32(binary.BigEndian.Uint32(rest[8:])))
		if size < 61 || size > int64(len(rest)) {
			break
		}
		binary.BigEndian.PutUint32(rest[17:], crc32.Checksum(rest[21:size], crc32.MakeTable(crc32.Castagnoli)))
		rest = rest[size:]
	}
	return data
}
