package dump

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/record"
)

// partitionRecord is a record as a cluster with many topics has most.
func partitionRecord(i int) []byte {
	r := record.New(record.Partition, 1)
	r.SetInt("PartitionId", int64(i%100))
	topic := uuid.UUID{0: 0x41, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
	r.SetUUID("TopicId", topic)
	r.SetInt32s("Replicas", []int32{1, 2, 3})
	r.SetInt32s("Isr", []int32{1, 2, 3})
	r.SetInt("Leader", int64(1+i%3))
	r.SetInt("LeaderEpoch", int64(i%7))
	r.SetInt("PartitionEpoch", int64(i%50))
	r.SetUUIDs("Directories", []uuid.UUID{{15: 1}, {15: 2}, {15: 3}})
	value, err := r.AppendValue(nil)
	if err != nil {
		panic(err)
	}
	return value
}

// writeSnapshot writes a snapshot of n records, most of them partitions, as Kafka would.
func writeSnapshot(tb testing.TB, n int) (path string, size int64) {
	path = filepath.Join(tb.TempDir(), checkpoint.ID{EndOffset: 5_000_000, Epoch: 3}.String())
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	out := bufio.NewWriter(f)
	w, err := checkpoint.NewWriter(out, checkpoint.Header{LeaderEpoch: 3, AppendTime: 1796017010942, KRaftVersion: 1})
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < n; {
		var portion [][]byte
		for ; i < n && len(portion) < checkpoint.PortionRecords; i++ {
			if i%8 == 0 {
				portion = append(portion, checkpoint.FeatureLevel("group.version", int16(i%3)))
			} else {
				portion = append(portion, partitionRecord(i))
			}
		}
		if err := w.Append(portion...); err != nil {
			tb.Fatal(err)
		}
	}
	for _, err := range []error{w.Close(), out.Flush(), f.Close()} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return path, info.Size()
}

// BenchmarkMillion dumps a snapshot of a million records.
func BenchmarkMillion(b *testing.B) {
	path, size := writeSnapshot(b, 1_000_000)
	for name, o := range map[string]Options{"json": {JSON: true}, "text": {}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := File(io.Discard, path, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
