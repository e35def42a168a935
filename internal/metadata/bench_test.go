package metadata

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/record"
)

func benchTopic(n int) (id uuid.UUID, r record.Record) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	r = record.New(record.Topic, 0)
	r.SetUUID("TopicId", id)
	r.SetText("Name", fmt.Sprintf("topic-%06d", n))
	return id, r
}

func benchPartition(m *record.Message, topic uuid.UUID, n int) record.Record {
	r := record.New(m, m.Latest)
	r.SetUUID("TopicId", topic)
	r.SetInt("PartitionId", int64(n))
	r.SetInt32s("Isr", []int32{1, 2, 3})
	if m == record.Partition {
		r.SetInt32s("Replicas", []int32{1, 2, 3})
		r.SetUUIDs("Directories", []uuid.UUID{{1}, {2}, {3}})
	}
	return r
}

func benchBroker(n int) record.Record {
	b := &Broker{ID: int32(n), Epoch: 1, IncarnationID: uuid.UUID{1}, LogDirs: []uuid.UUID{{1}, {2}},
		Endpoints: []Endpoint{{"PLAINTEXT", fmt.Sprintf("broker-%d.example.org", n), 9092, 0}}}
	for _, f := range []string{
		"metadata.version", "kraft.version", "group.version", "share.version", "streams.version", "transaction.version",
	} {
		b.Features = append(b.Features, FeatureRange{f, 0, 35})
	}
	return b.Record(35)
}

// benchLog is a log of 100,000 records: 10,000 topics with 3 partitions, each changed twice.
func benchLog() (batches [][]byte, bytes int64) {
	log := &logBuilder{}
	var records []record.Record
	flush := func() {
		if len(records) > 0 {
			batches = append(batches, log.batch(records...))
			bytes += int64(len(batches[len(batches)-1]))
			records = nil
		}
	}
	records = append(records, version(35), clusterID("x"))
	for n := range 10_000 {
		id, topic := benchTopic(n)
		records = append(records, topic)
		for p := range 9 {
			m := record.Partition
			if p >= 3 {
				m = record.PartitionChange
			}
			records = append(records, benchPartition(m, id, p%3))
		}
		if n%100 == 99 {
			flush()
		}
	}
	flush()
	return batches, bytes
}

func BenchmarkReplay100000Records(b *testing.B) {
	batches, bytes := benchLog()
	b.SetBytes(bytes)
	b.ReportAllocs()
	for b.Loop() {
		l := newTestLoader()
		for _, batch := range batches {
			if err := l.Replay(batch); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkWriteSnapshot(b *testing.B) {
	l := newTestLoader()
	batches, _ := benchLog()
	for _, batch := range batches {
		if err := l.Replay(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		w, err := checkpoint.NewWriter(io.Discard, checkpoint.Header{})
		if err == nil {
			err = l.Image().WriteSnapshot(w)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	l := newTestLoader()
	batches, _ := benchLog()
	for _, batch := range batches {
		if err := l.Replay(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Image().Clone()
	}
}

// BenchmarkMemory reports how many bytes of the image a broker, a topic with its partition, and a further partition take.
func BenchmarkMemory(b *testing.B) {
	const count = 20_000
	for _, c := range []struct {
		name    string
		records func(n int) []record.Record
	}{
		{"broker", func(n int) []record.Record { return []record.Record{benchBroker(n)} }},
		{"topic", func(n int) []record.Record {
			id, topic := benchTopic(n)
			return []record.Record{topic, benchPartition(record.Partition, id, 0)}
		}},
		{"partition", func(n int) []record.Record {
			id, topic := benchTopic(0)
			r := []record.Record{topic, benchPartition(record.Partition, id, n)}
			if n > 0 {
				r = r[1:]
			}
			return r
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var before, after runtime.MemStats
			for b.Loop() {
				i := NewImage()
				runtime.GC()
				runtime.ReadMemStats(&before)
				for n := range count {
					for _, r := range c.records(n) {
						if err := i.Replay(r, 0); err != nil {
							b.Fatal(err)
						}
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(i)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "bytes/"+c.name)
		})
	}
}
