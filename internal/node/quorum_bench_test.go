package node

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"kstorage/internal/disk"
	"kstorage/internal/raft"
)

// BenchmarkQuorumStep is an input without consequences on its way through the loop.
func BenchmarkQuorumStep(b *testing.B) {
	l := newLab(b)
	n := l.start(labConfig(1, 1), disk.OS, b.TempDir())
	l.leader(n)
	kill(n)
	n.q.box = newMailbox[event]() // the goroutine of the benchmark goes on with it
	var events []event
	b.ReportAllocs()
	for b.Loop() {
		n.q.input(raft.Tick{})
		<-n.q.box.ready
		events = n.q.box.take(events)
		if err := n.q.turn(events); err != nil {
			b.Fatal(err)
		}
		n.q.setAlarm()
	}
}

// BenchmarkQuorumCommit is the way of so many batches from the mailbox to their commit by a quorum of one. ratio
// compares it with a write and an fdatasync of the same bytes, which take turns with it: the disk has its moods.
func BenchmarkQuorumCommit(b *testing.B) {
	for _, batches := range []int{1, 100} {
		b.Run(fmt.Sprint(batches), func(b *testing.B) {
			raw, err := disk.OS.Create(filepath.Join(b.TempDir(), "raw"), 0o644)
			if err != nil {
				b.Fatal(err)
			}
			defer raw.Close()
			data := bytes.Repeat(producerIDs(0, 1, 1).Bytes, batches)
			var rawTime time.Duration

			l := newLab(b)
			n := l.start(labConfig(1, 1), disk.OS, b.TempDir())
			s := l.leader(n).status()
			end := s.LogEnd
			b.ReportAllocs()
			for b.Loop() {
				for range batches {
					n.q.input(raft.Received{Request: &raft.AppendRequest{Batch: producerIDs(end, s.Epoch, 1)}})
					end++
				}
				for n.highWatermark() < end {
					<-n.higher
				}
				b.StopTimer()
				n.forget()
				began := time.Now()
				if _, err := raw.Write(data); err != nil {
					b.Fatal(err)
				}
				if err := raw.SyncData(); err != nil {
					b.Fatal(err)
				}
				rawTime += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(rawTime), "ratio")
			kill(n)
		})
	}
}
