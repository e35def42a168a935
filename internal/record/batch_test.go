package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// noOp is the value of a NoOpRecord.
var noOp = []byte{1, 20, 0, 0}

// A batch of one NoOpRecord, as a Kafka 4.4.0 leader wrote it into its log.
const noOpBatch = "000000000000000c0000003c0000000102c1f1c35c000000000000000001a22af4a434000001a22af4a434ffffffffffffffffffffffffffff00000001140000000108" + "0114000000"

// A control batch with LeaderChange, KRaftVersion and KRaftVoters, the first of a log of Kafka 4.4.0.
const leaderBatch = "0000000000000000000000a20000000102ebda1eb3002000000002000001a22af4beac000001a22af4beacffffffffffffffffffffffffffff000000033a0000" +
	"0008000000022600000000000102000000010002000000010000001e00000208000000050a000000010000820100000408000000066e00000200000001684f55" +
	"1bcd64452cb1bb392125ad0878020b434f4e54524f4c4c45520a3132372e302e302e315605000000000100000000"

func someBatches() [][]byte {
	control, _ := hex.DecodeString(leaderBatch)
	data, _ := hex.DecodeString(noOpBatch)
	return [][]byte{control, data, append(bytes.Clone(control), AppendBatch(nil, BatchHeader{BaseOffset: 3}, Entry{Value: noOp}, Entry{Value: noOp})...)}
}

func TestBatchesOfKafka(t *testing.T) {
	tests := []struct {
		why, hex string
		header   BatchHeader
		records  []string
	}{
		{"metadata", noOpBatch, BatchHeader{12, 1, 1796017005620, false}, []string{`{"type":"NO_OP_RECORD","version":0,"data":{}}`}},
		{"control", leaderBatch, BatchHeader{0, 1, 1796017012396, true}, []string{
			`{"type":"LeaderChange","version":0,"data":{"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}}`,
			`{"type":"KRaftVersion","version":0,"data":{"version":0,"kRaftVersion":1}}`,
			`{"type":"KRaftVoters","version":0,"data":{"version":0,"voters":[{"voterId":1,"voterDirectoryId":"aE9VG81kRSyxuzkhJa0IeA","endpoints":[{"name":"CONTROLLER","host":"127.0.0.1","port":22021}],"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}}`,
		}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			data := unhex(t, test.hex)
			b, err := DecodeBatch(data)
			if err != nil {
				t.Fatal(err)
			}
			if b.BatchHeader != test.header || b.Size != len(data) || b.Count != len(test.records) || b.LastOffset() != test.header.BaseOffset+int64(b.Count)-1 {
				t.Errorf("got %+v", b)
			}
			var entries []Entry
			for e, err := range b.Entries() {
				if err != nil {
					t.Fatal(err)
				}
				var r Record
				if b.Control {
					r, err = DecodeControl(e.Key, e.Value)
				} else {
					r, err = Decode(e.Value)
				}
				if got := string(r.AppendJSON(nil)); err != nil || got != test.records[len(entries)] || e.Offset != b.BaseOffset+int64(len(entries)) {
					t.Errorf("offset %d: %v\n got %s\nwant %s", e.Offset, err, got, test.records[len(entries)])
				}
				if b.Control {
					if e, err = ControlEntry(r); err != nil {
						t.Fatal(err)
					}
				}
				entries = append(entries, e)
			}
			if again := AppendBatch([]byte("x"), b.BatchHeader, entries...); !bytes.Equal(again[1:], data) {
				t.Errorf("encoded again\n got %x\nwant %x", again[1:], data)
			}
		})
	}
}

func TestBuilder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Builder
		for range 2 { // the second batch in the memory of the first
			var entries []Entry
			for range rapid.IntRange(1, 150).Draw(t, "records") {
				e := Entry{Value: make([]byte, rapid.IntRange(1, 200).Draw(t, "size"))}
				if size := b.SizeWith(e); size != len(AppendBatch(nil, BatchHeader{}, append(entries, e)...)) {
					t.Fatalf("size %d with %d records", size, len(entries)+1)
				}
				entries = append(entries, e)
				b.Add(e)
			}
			if b.Len() != len(entries) {
				t.Fatalf("%d records", b.Len())
			}
			h := BatchHeader{BaseOffset: 7, LeaderEpoch: 3, Timestamp: 5}
			if got := b.Finish(h); !bytes.Equal(got, AppendBatch(nil, h, entries...)) || b.Len() != 0 {
				t.Fatalf("got %x", got)
			}
		}
	})
}

// change returns a batch of three records after edit, with length and checksum made right again unless it says otherwise.
func change(edit func([]byte) []byte) []byte {
	b := edit(AppendBatch(nil, BatchHeader{BaseOffset: 5, LeaderEpoch: 2, Timestamp: 9}, Entry{Value: noOp}, Entry{Value: noOp}, Entry{Value: noOp}))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestBatchErrors(t *testing.T) {
	set := func(at int, bytes ...byte) []byte {
		return change(func(b []byte) []byte { copy(b[at:], bytes); return b })
	}
	sum := func(b []byte) []byte { b[17]++; return b }
	length := func(n uint32) []byte {
		b := change(func(b []byte) []byte { return b })
		binary.BigEndian.PutUint32(b[8:], n)
		return b
	}
	const records, recordSize = 61, 11 // noOp: length, attributes, two deltas, key length, value length, value, headers
	tests := []struct {
		why    string
		data   []byte
		offset int64
		reason string
	}{
		{"length negative", length(1<<31 + 100), 8, "batch length -2147483548"},
		{"length below the header", length(48), 8, "batch length 48"},
		{"length without limit", length(1<<31 - 1), 8, "batch length 2147483647"},
		{"older format", set(16, 1), 16, "magic byte 1"},
		{"checksum", sum(set(0)), 0, "its checksum is"},
		{"transactional", set(22, 0x10), 21, "attributes 0x0010"},
		{"time of the append", set(22, 0x08), 21, "attributes 0x0008"},
		{"codec unknown", set(22, 0x05), 61, "codec 5"},
		{"several timestamps", set(42, 10), 35, "timestamps from 9 to 10"},
		{"producer", set(43, 0, 0, 0, 0, 0, 0, 0, 1), 43, "producer id 1"},
		{"no records", set(57, 0, 0, 0, 0), 57, "batch of 0 records"},
		{"negative count", set(57, 0xff), 57, "batch of -16777213 records"},
		{"count and last offset disagree", set(60, 2), 23, "last offset delta 2 with 2 records"},
		{"offset negative", set(0, 0xff), 0, "base offset -"},
		{"offset at the end of numbers", set(0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), 0, "base offset 9223372036854775807"},
		{"more records announced", set(23, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 4), records + 3*recordSize, "cut"},
		{"fewer records announced", set(23, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 2), records + 2*recordSize, "11 bytes behind the last record"},
		{"record longer than the batch", set(records, 0x7e), records, "record of 63 bytes, but 32 are left"},
		{"record negative", set(records, 0x7f), records, "record of -64 bytes"},
		{"record attributes", set(records+1, 1), records + 1, "record attributes 0x01"},
		{"record with a time of its own", set(records+2, 2), records, "timestamp of its own (+1 ms)"},
		{"offset delta skips", set(records+recordSize+3, 4), records + recordSize, "offset delta 2 at place 1"},
		{"key", change(func(b []byte) []byte { return AppendBatch(nil, BatchHeader{}, Entry{Key: []byte{}, Value: noOp}) }), records, "record with a key"},
		{"control record without key", change(func(b []byte) []byte { return AppendBatch(nil, BatchHeader{Control: true}, Entry{Value: noOp}) }), records, "key of 0 bytes"},
		{"no value", change(func(b []byte) []byte { return AppendBatch(nil, BatchHeader{}, Entry{Value: nil}) }), records, "without a value"},
		{"value longer than the record", set(records+5, 0x20), records + 5, "length 16, but 5 bytes are left"},
		{"value shorter than the record", set(records+5, 0x06), records + 10, "1 bytes behind the end of the record"},
		{"headers", set(records+10, 2), records, "record with 1 headers"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			for _, before := range []int64{0, 100} {
				stream := AppendBatch(nil, BatchHeader{}, Entry{Value: make([]byte, 32)}) // 100 bytes
				stream = append(stream[:before], test.data...)
				err := readAll(NewBatchReader(iotest.HalfReader(bytes.NewReader(stream))))
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || corrupt.Offset != before+test.offset || !strings.Contains(corrupt.Reason, test.reason) {
					t.Errorf("got %v, want byte %d: …%s…", err, before+test.offset, test.reason)
				}
			}
		})
	}
}

// readAll reads to the end; nil is a clean one.
func readAll(r *BatchReader) error {
	for {
		b, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, err := range b.Entries() {
			if err != nil {
				return err
			}
		}
	}
}

// TestCutStream cuts a log at every byte: what is whole is read, and the rest reported at the byte where its batch begins.
func TestCutStream(t *testing.T) {
	var log []byte
	starts := map[int]bool{0: true}
	for _, b := range someBatches()[:2] {
		log = append(log, b...)
		starts[len(log)] = true
	}
	last := 0
	for n := range len(log) + 1 {
		r := NewBatchReader(bytes.NewReader(log[:n]))
		err := readAll(r)
		if starts[n] {
			last = n
			if err != nil || r.ZeroBytes() != 0 {
				t.Errorf("cut at %d: %v", n, err)
			}
			continue
		}
		if rest := log[last:n]; bytes.Count(rest, []byte{0}) == len(rest) { // a batch begins with zeros
			if err != nil || r.ZeroBytes() != int64(len(rest)) {
				t.Errorf("cut at %d: %v, %d zero bytes", n, err, r.ZeroBytes())
			}
			continue
		}
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !corrupt.Cut || corrupt.Offset != int64(last) {
			t.Errorf("cut at %d: %v, want a batch cut at %d", n, err, last)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("cut at %d: then %v", n, again)
		}
		if _, err := DecodeBatch(log[last:n]); !errors.As(err, &corrupt) || !corrupt.Cut || corrupt.Offset != 0 {
			t.Errorf("cut at %d: alone %v", n, err)
		}
	}
}

func TestZeroBytes(t *testing.T) {
	batch := someBatches()[1]
	tests := []struct {
		why    string
		tail   []byte
		zeros  int64
		offset int64 // of the error; -1: none
	}{
		{"a few", make([]byte, 3), 3, -1},
		{"many", make([]byte, 3<<20), 3 << 20, -1},
		{"then something", append(make([]byte, 1<<20), 1), 0, int64(len(batch))},
		{"then something, soon", append(make([]byte, 15), 1), 0, int64(len(batch))},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			r := NewBatchReader(bytes.NewReader(append(bytes.Clone(batch), test.tail...)))
			err := readAll(r)
			var corrupt *CorruptError
			if errors.As(err, &corrupt) {
				if corrupt.Offset != test.offset || !strings.Contains(corrupt.Reason, "zero bytes instead of a batch, and "+strconv.Itoa(len(test.tail)-1)) {
					t.Errorf("got %v", err)
				}
			} else if err != nil || test.offset != -1 || r.ZeroBytes() != test.zeros || r.Position() != int64(len(batch)) {
				t.Errorf("got %v, %d zero bytes at %d", err, r.ZeroBytes(), r.Position())
			}
		})
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("disk")
	batch := someBatches()[1]
	for n := range len(batch) + 1 {
		in := io.MultiReader(bytes.NewReader(batch), bytes.NewReader(batch[:n]), iotest.ErrReader(broken))
		if err := readAll(NewBatchReader(in)); err != broken {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// TestClaimedSize has a batch that claims more than is there: no memory is taken for it.
func TestClaimedSize(t *testing.T) {
	data := make([]byte, 100)
	binary.BigEndian.PutUint32(data[8:], maxReadBytes-12)
	data[16] = magic
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := readAll(NewBatchReader(bytes.NewReader(data)))
	runtime.ReadMemStats(&after)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || !corrupt.Cut {
		t.Errorf("got %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("%d bytes for a file of %d", used, len(data))
	}
}

type compressedBatch struct {
	codec   string
	records int
	data    []byte
}

func compressedBatches(tb testing.TB) []compressedBatch {
	text, err := os.ReadFile("testdata/compressed.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	var list []compressedBatch
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		n, _ := strconv.Atoi(f[1])
		list = append(list, compressedBatch{f[0], n, unhex(tb, f[2])})
	}
	return list
}

func TestCompressedByKafka(t *testing.T) {
	for _, c := range compressedBatches(t) {
		t.Run(c.codec+"/"+strconv.Itoa(c.records), func(t *testing.T) {
			b, err := DecodeBatch(c.data)
			if err != nil {
				t.Fatal(err)
			}
			if b.Compression.String() != c.codec || b.Count != c.records || b.BaseOffset != 10 || b.LeaderEpoch != 4 {
				t.Errorf("got %+v", b.BatchHeader)
			}
			i := 0
			for e, err := range b.Entries() {
				if err != nil {
					t.Fatal(err)
				}
				r, err := Decode(e.Value)
				if err != nil || r.Text("ResourceName") != "t"+strconv.Itoa(i) || e.Offset != int64(10+i) {
					t.Fatalf("record %d: %v", i, err)
				}
				i++
			}
			if i != c.records {
				t.Errorf("%d records", i)
			}
		})
	}
}

// compressed makes a batch whose records are content, compressed as attributes say.
func compressed(codec Compression, content []byte) []byte {
	return change(func(b []byte) []byte {
		b[22] = byte(codec)
		return append(b[:batchHeaderBytes], content...)
	})
}

func TestDecompressErrors(t *testing.T) {
	bomb := make([]byte, maxReadBytes+1)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(bomb)
	z.Close()
	zst, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	xerial := func(blocks ...[]byte) []byte {
		out := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
		for _, b := range blocks {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(b))), b...)
		}
		return out
	}
	half := snappy.Encode(nil, bomb[:len(bomb)/2])
	wrongRecord := AppendBatch(nil, BatchHeader{}, Entry{Value: noOp}, Entry{Value: noOp}, Entry{Value: noOp})[batchHeaderBytes:]
	wrongRecord[1] = 1
	tests := []struct {
		why, reason string
		codec       Compression
		content     []byte
	}{
		{"gzip bomb", "more than", Gzip, zipped.Bytes()},
		{"zstd bomb", "more than", Zstd, zst.EncodeAll(bomb, nil)},
		{"snappy bomb", "more than", Snappy, snappy.Encode(nil, bomb)},
		{"snappy bomb in blocks", "more than", Snappy, xerial(half, half, half)},
		{"snappy claim", "claims", Snappy, binary.AppendUvarint(nil, 1<<24)},
		{"snappy block cut", "EOF", Snappy, xerial(half)[:100]},
		{"snappy length cut", "EOF", Snappy, append(xerial(), 0, 0)},
		{"snappy header cut", "a number is cut", Snappy, []byte(snappyHeader)},
		{"no gzip", "gzip", Gzip, []byte("plain")},
		{"no snappy", "snappy", Snappy, []byte("plain")},
		{"no lz4", "lz4", LZ4, []byte("plain")},
		{"no zstd", "zstd", Zstd, []byte("plain")},
		{"empty", "gzip", Gzip, nil},
		{"record in it is wrong", "byte 1 of the decompressed records: record attributes", Snappy, snappy.Encode(nil, wrongRecord)},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			err := readAll(NewBatchReader(bytes.NewReader(compressed(test.codec, test.content))))
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Reason, test.reason) {
				t.Errorf("got %v, want …%s…", err, test.reason)
			}
		})
	}
}
