package raftlog

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
)

// What is read from memory is what is read from the disk, but may end earlier; and the last group is in memory if it fits.
func TestRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, _ := open(t, crashdisk.New())
		l.recent.limit = rapid.IntRange(0, 3000).Draw(t, "limit")
		end := raft.Offset(0)
		group, last := 0, 0 // bytes of the last append, and of its last batch
		for range rapid.IntRange(1, 20).Draw(t, "groups") {
			var batches []raft.Batch
			group = 0
			for range rapid.IntRange(1, 4).Draw(t, "batches") {
				b := batch(end, 1, rapid.IntRange(1, 3).Draw(t, "records"), rapid.IntRange(10, 400).Draw(t, "bytes"))
				batches = append(batches, b)
				end = b.LastOffset + 1
				last = len(b.Bytes)
				group += last
			}
			appendSync(t, l, batches...)
		}
		if size := len(l.recent.data); size > l.recent.limit || group <= l.recent.limit && size < last {
			t.Fatalf("%d bytes in memory, the limit is %d, the last append had %d", size, l.recent.limit, group)
		}
		for range 20 {
			from := raft.Offset(rapid.IntRange(0, int(end)-1).Draw(t, "from"))
			r := raft.LogRange{From: from, End: raft.Offset(rapid.IntRange(int(from)+1, int(end)).Draw(t, "end")), MaxBytes: int32(rapid.IntRange(0, 2000).Draw(t, "most"))}
			data, err := l.Read(r)
			if err != nil {
				t.Fatal(err)
			}
			kept := l.recent
			l.recent = recent{}
			want, err := l.Read(r)
			l.recent = kept
			if err != nil || len(data) == 0 || !bytes.HasPrefix(data, want) && !bytes.HasPrefix(want, data) {
				t.Fatalf("%+v: %d bytes from memory, %d from the disk, %v", r, len(data), len(want), err)
			}
		}
	})
}
