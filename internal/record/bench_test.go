package record

import (
	"testing"

	"github.com/google/uuid"
)

// benchValues are values of partitions, as a snapshot of a cluster with many topics has most.
func benchValues(tb testing.TB, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		r := New(Partition, 1)
		r.SetInt("PartitionId", int64(i))
		r.SetInt32s("Replicas", []int32{1, 2, 3})
		r.SetInt32s("Isr", []int32{1, 2, 3})
		r.SetInt("Leader", 1)
		r.SetUUIDs("Directories", []uuid.UUID{{1}, {2}, {3}})
		value, err := r.AppendValue(nil)
		if err != nil {
			tb.Fatal(err)
		}
		entries[i].Value = value
	}
	return entries
}

func BenchmarkAppendBatch(b *testing.B) {
	entries := benchValues(b, 1000)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBatch(buf[:0], BatchHeader{}, entries...)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkReadBatch(b *testing.B) {
	data := AppendBatch(nil, BatchHeader{}, benchValues(b, 1000)...)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		batch, err := DecodeBatch(data)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range batch.Entries() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	value := benchValues(b, 1)[0].Value
	b.Run("reused", func(b *testing.B) {
		var d Decoder
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Decode(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(value); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendValue(b *testing.B) {
	r, err := Decode(benchValues(b, 1)[0].Value)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = r.AppendValue(buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r, err := Decode(benchValues(b, 1)[0].Value)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendJSON(buf[:0])
	}
}
