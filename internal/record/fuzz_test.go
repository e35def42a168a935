package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

// FuzzRecord decodes a metadata record (no key) or a control record. What is accepted comes back byte for byte.
func FuzzRecord(f *testing.F) {
	for _, c := range kafkaCases(f) {
		if c.message.Control {
			f.Add(New(c.message, 0).AppendKey(nil), c.value)
		} else {
			f.Add([]byte{}, c.value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		var r Record
		var err error
		if len(key) > 0 {
			r, err = DecodeControl(key, value)
		} else {
			r, err = Decode(value)
		}
		if err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Offset < 0 || corrupt.Offset > int64(len(value)) {
				t.Fatalf("error %#v", err)
			}
			return
		}
		again, err := r.AppendValue(nil)
		if err != nil || !bytes.Equal(again, value) {
			t.Fatalf("encoded again: %v\n got %x\nwant %x", err, again, value)
		}
		if text := r.AppendJSON(nil); !json.Valid(text) {
			t.Fatalf("JSON %s", text)
		}
	})
}

// FuzzBatches reads a stream of batches. What is accepted comes back byte for byte, batches with compression aside.
func FuzzBatches(f *testing.F) {
	for _, c := range compressedBatches(f) {
		if len(c.data) < 1<<10 {
			f.Add(c.data)
		}
	}
	for _, data := range someBatches() {
		f.Add(data)
		f.Add(data[:len(data)-1])
		f.Add(append(data, make([]byte, 20)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzBatches(t, data)
		if len(data) >= batchHeaderBytes {
			fuzzBatches(t, change(func([]byte) []byte { return bytes.Clone(data) })) // past the checksum
		}
	})
}

func fuzzBatches(t *testing.T, data []byte) {
	r := NewBatchReader(bytes.NewReader(data))
	for {
		start := r.Position()
		b, err := r.Next()
		if err == io.EOF {
			if r.Position()+r.ZeroBytes() != int64(len(data)) {
				t.Fatalf("end at %d with %d zero bytes of %d", r.Position(), r.ZeroBytes(), len(data))
			}
			return
		}
		if err != nil {
			checkPlace(t, err, data)
			return
		}
		var entries []Entry
		for e, err := range b.Entries() {
			if err != nil {
				checkPlace(t, err, data)
				return
			}
			if b.Compression == None && !bytes.HasPrefix(data[e.Position:], e.Value) {
				t.Fatalf("value %x is not at %d", e.Value, e.Position)
			}
			entries = append(entries, e)
		}
		again := AppendBatch(nil, b.BatchHeader, entries...)
		if b.Compression == None && !bytes.Equal(again, data[start:r.Position()]) {
			t.Fatalf("encoded again\n got %x\nwant %x", again, data[start:r.Position()])
		}
	}
}

func checkPlace(t *testing.T, err error, data []byte) {
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset < 0 || corrupt.Offset > int64(len(data)) {
		t.Fatalf("error %#v", err)
	}
}
