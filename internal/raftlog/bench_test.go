package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
)

// groups are what one fsync covers: batches, bytes of each.
var groups = []struct{ batches, size int }{{1, 10}, {1, 1000}, {100, 1000}, {1000, 1000}}

// BenchmarkAppendSync appends and syncs groups of batches.
func BenchmarkAppendSync(b *testing.B) {
	for _, g := range groups {
		b.Run(fmt.Sprintf("%dx%d", g.batches, g.size), func(b *testing.B) {
			l, _, err := Open(disk.OS, filepath.Join(b.TempDir(), testDir), DefaultConfig())
			must(b, err)
			defer l.Close()
			template := batch(0, 1, 1, g.size).Bytes
			// The bytes of a group are made outside of the time, as by a leader or a connection.
			group := make([]raft.Batch, g.batches)
			buf := make([]byte, g.batches*len(template))
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			end := raft.Offset(0)
			for b.Loop() {
				b.StopTimer()
				for i := range group {
					bytes := buf[i*len(template) : (i+1)*len(template)]
					copy(bytes, template)
					Place(bytes, end, 1)
					group[i] = raft.Batch{BaseOffset: end, LastOffset: end, Epoch: 1, Bytes: bytes}
					end++
				}
				b.StartTimer()
				if err := l.Append(raft.AppendLog{Batches: group, EndOffset: end}, 0); err != nil {
					b.Fatal(err)
				}
				if _, err := l.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRawWriteSync writes the same bytes with one write and fdatasync a group: what the disk gives.
func BenchmarkRawWriteSync(b *testing.B) {
	for _, g := range groups {
		b.Run(fmt.Sprintf("%dx%d", g.batches, g.size), func(b *testing.B) {
			f, err := disk.OS.Create(filepath.Join(b.TempDir(), "raw"), 0o644)
			must(b, err)
			defer f.Close()
			data := make([]byte, g.batches*len(batch(0, 1, 1, g.size).Bytes))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Write(data); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppend is what an append costs without the disk.
func BenchmarkAppend(b *testing.B) {
	l, _, err := Open(crashdisk.New(), testDir, DefaultConfig())
	must(b, err)
	data := batch(0, 1, 1, 1000).Bytes
	batches := []raft.Batch{{Epoch: 1, Bytes: data}}
	b.ReportAllocs()
	for i := raft.Offset(0); b.Loop(); i++ {
		batches[0].BaseOffset, batches[0].LastOffset = i, i
		if err := l.Append(raft.AppendLog{Batches: batches, EndOffset: i + 1}, 0); err != nil {
			b.Fatal(err)
		}
		if len(l.pending) == 1000 { // as if synced
			l.active().end, l.pending = i+1, l.pending[:0]
		}
	}
}

// largeLog is a log of 100 MB in 64 KB writes of 1000-byte batches.
func largeLog(b *testing.B) (dir string, end raft.Offset) {
	b.Helper()
	dir = filepath.Join(b.TempDir(), testDir)
	must(b, os.MkdirAll(dir, 0o755))
	f, err := os.Create(filepath.Join(dir, "00000000000000000000.log"))
	must(b, err)
	defer f.Close()
	data := batch(0, 1, 1, 1000).Bytes
	for end < 100_000 {
		var write []byte
		for range 64 {
			Place(data, end, 1)
			write = append(write, data...)
			end++
		}
		_, err := f.Write(write)
		must(b, err)
	}
	return dir, end
}

// BenchmarkRead reads from random places, as followers do that catch up or are up to date.
func BenchmarkRead(b *testing.B) {
	dir, end := largeLog(b)
	l, _, err := Open(disk.OS, dir, DefaultConfig())
	must(b, err)
	defer l.Close()
	for _, maxBytes := range []int32{1000, 1 << 20} {
		b.Run(fmt.Sprint(maxBytes), func(b *testing.B) {
			b.ReportAllocs()
			at := raft.Offset(0)
			for b.Loop() {
				at = (at + 70_001) % (end - 1100)
				data, err := l.Read(raft.LogRange{From: at, End: end, MaxBytes: maxBytes})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(data)))
			}
		})
	}
}

// BenchmarkOpen recovers a log of 100 MB.
func BenchmarkOpen(b *testing.B) {
	dir, _ := largeLog(b)
	b.ReportAllocs()
	for b.Loop() {
		l, _, err := Open(disk.OS, dir, DefaultConfig())
		must(b, err)
		b.SetBytes(l.SizeBytes())
		must(b, l.Close())
	}
}

// BenchmarkOpenSmall recovers what a simulation has.
func BenchmarkOpenSmall(b *testing.B) {
	d := crashdisk.New()
	l, _ := open(b, d)
	for i := range raft.Offset(50) {
		appendSync(b, l, batch(i, 1, 1, 50))
	}
	must(b, l.Close())
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Open(d, testDir, small); err != nil {
			b.Fatal(err)
		}
	}
}
