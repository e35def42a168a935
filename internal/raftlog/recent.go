package raftlog

import (
	"bytes"
	"cmp"
	"slices"

	"kstorage/internal/raft"
)

// maxRecentBytes is how much of the log stays in memory after its fsync.
const maxRecentBytes = 128 << 10

// recent is a copy of the last batches that are synced, in one piece of memory: who follows the end of the log, a leader that
// loads what it has just committed or a follower that fetches, need not read it from the disk.
type recent struct {
	limit   int           // of data
	batches []recentBatch // ascending, without a gap
	data    []byte        // of all of them
}

type recentBatch struct {
	base, last raft.Offset
	position   int // in data
}

// add takes in a group that follows what is there. data has its bytes.
func (r *recent) add(group []pending, data []byte) {
	if len(data) > r.limit {
		r.clear()
		return
	}
	if len(r.data)+len(data) > r.limit {
		r.shorten(min(r.limit-len(data), r.limit/2))
	}
	position := len(r.data)
	for i := range group {
		r.batches = append(r.batches, recentBatch{group[i].base, group[i].last, position})
		position += len(group[i].bytes)
	}
	r.data = append(r.data, data...)
}

// shorten keeps size bytes at most, and the last ones.
func (r *recent) shorten(size int) {
	gone := len(r.data)
	n := slices.IndexFunc(r.batches, func(b recentBatch) bool { return len(r.data)-b.position <= size })
	if n < 0 {
		n = len(r.batches)
	} else {
		gone = r.batches[n].position
	}
	r.batches = slices.Delete(r.batches, 0, n)
	for i := range r.batches {
		r.batches[i].position -= gone
	}
	r.data = slices.Delete(r.data, 0, gone)
}

// clear drops all: the log has lost a part, or goes on without what would not fit.
func (r *recent) clear() { r.batches, r.data = nil, nil }

// has tells whether a read that begins at offset begins here.
func (r *recent) has(offset raft.Offset) bool {
	return len(r.batches) > 0 && offset >= r.batches[0].base
}

// read returns what Log.Read does, up to the last batch that is here. It has r.From.
func (r *recent) read(of raft.LogRange) []byte {
	i, _ := slices.BinarySearchFunc(r.batches, of.From, func(b recentBatch, o raft.Offset) int { return cmp.Compare(b.last, o) })
	from := r.batches[i].position
	end := r.end(i)
	for i++; i < len(r.batches) && r.batches[i].base < of.End && r.end(i)-from <= int(of.MaxBytes); i++ {
		end = r.end(i)
	}
	return bytes.Clone(r.data[from:end])
}

// end is where batch i ends in data.
func (r *recent) end(i int) int {
	if i+1 < len(r.batches) {
		return r.batches[i+1].position
	}
	return len(r.data)
}
