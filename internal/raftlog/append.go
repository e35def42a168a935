package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"

	"kstorage/internal/raft"
)

// Append carries out an AppendLog. Control batches without bytes are encoded with timestamp, in milliseconds since the
// Unix epoch. The log keeps the batches' bytes, which must not change. It panics if they do not continue the log.
func (l *Log) Append(e raft.AppendLog, timestamp int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	for _, b := range e.Batches {
		if end := l.end(); b.BaseOffset != end {
			panic(fmt.Sprintf("raftlog: append of offset %d, epoch %d, to a log that ends at %d", b.BaseOffset, b.Epoch, end))
		}
		bytes, err := b.Encode(timestamp)
		if err != nil {
			return err
		}
		l.pending = append(l.pending, pending{base: b.BaseOffset, last: b.LastOffset, bytes: bytes})
	}
	l.appended = raft.Synced{EndOffset: e.EndOffset, Generation: e.Generation}
	return nil
}

// Sync makes durable all that was appended before the call. It returns the input for the core, which covers the last
// AppendLog since the newest Truncate or Reset that is durable. If there is none the input is zero, and need not be handed in.
func (l *Log) Sync() (raft.Synced, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.flush(); err != nil {
		return raft.Synced{}, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.synced, nil
}

// flush is Sync for who holds writing.
func (l *Log) flush() error {
	l.mu.RLock()
	left, upTo, err := len(l.pending), l.appended, l.err
	l.mu.RUnlock()
	for err == nil && left > 0 {
		// Append may move the list elsewhere meanwhile, but whoever takes something out of it holds writing.
		l.mu.RLock()
		list := l.pending[:left]
		l.mu.RUnlock()
		var n int
		n, err = l.writeGroup(list)
		left -= n
	}
	if err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = upTo
	return nil
}

// writeGroup writes and syncs the first batches of list and returns how many.
func (l *Log) writeGroup(list []pending) (int, error) {
	s := l.active()
	if l.full(s, s.size, &list[0]) {
		var err error
		if s, err = l.roll(list[0].base); err != nil {
			return 0, err
		}
	}
	if s.size == 0 {
		l.mu.Lock()
		s.firstTime = batchTime(list[0].bytes)
		l.mu.Unlock()
	}
	n, size := 1, len(list[0].bytes)
	for ; n < len(list); n++ {
		b := &list[n]
		if size+len(b.bytes) > maxGroupBytes || l.full(s, s.size+int64(size), b) {
			break
		}
		size += len(b.bytes)
	}
	group := list[:n]
	data := group[0].bytes
	if n > 1 {
		l.buf = l.buf[:0]
		for i := range group {
			l.buf = append(l.buf, group[i].bytes...)
		}
		data = l.buf
	}
	if l.unused {
		if err := s.file.Truncate(s.size); err != nil {
			return 0, err
		}
		l.reserved, l.unused = 0, false
	}
	if _, err := s.file.Write(data); err != nil {
		return 0, err
	}
	if end := s.size + int64(len(data)); end > l.reserved {
		ahead := min(max(end, minAheadBytes), maxAheadBytes, l.config.SegmentBytes-end)
		if ahead > 0 {
			err := s.file.Extend(int(ahead))
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
				err = s.file.Truncate(end) // there is room for batches all the same, and for the other files
			}
			if err != nil {
				return 0, err
			}
		}
		l.reserved = max(end, end+ahead)
	}
	if err := s.file.SyncData(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range group {
		s.add(group[i].base, group[i].last, len(group[i].bytes))
	}
	l.recent.add(group, data)
	l.pending = slices.Delete(l.pending, 0, n)
	return n, nil
}

// full tells whether b belongs into a new segment when s has size bytes.
func (l *Log) full(s *segment, size int64, b *pending) bool {
	return size > 0 && (size+int64(len(b.bytes)) > l.config.SegmentBytes ||
		batchTime(b.bytes)-s.firstTime > l.config.SegmentMillis ||
		b.last-s.base > math.MaxInt32)
}

// roll begins a segment. The older ones are synced, as all that was written, and end with their last batch.
func (l *Log) roll(base raft.Offset) (*segment, error) {
	if l.reserved > l.active().size {
		if err := l.cut(); err != nil {
			return nil, err
		}
	}
	l.reserved = 0
	s := l.newSegment(base)
	var err error
	if s.file, err = l.createSegment(s); err != nil {
		return nil, err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		s.file.Close()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// Read returns a part of the log; it ends early at the end of a segment. The caller must not change the bytes. Errors:
// *RangeError, and those of reading.
func (l *Log) Read(r raft.LogRange) ([]byte, error) {
	for {
		data, s, drops, err := l.find(r)
		if s == nil {
			return data, err
		}
		// Without mu: an Append must not wait for the disk. What was dropped meanwhile may be half of what was read, so it
		// is read anew.
		data, err = s.read(r)
		if l.dropped() == drops {
			return data, err
		}
	}
}

// find returns what Read returns, or the segment where it must be read, as it is after so many drops.
func (l *Log) find(r raft.LogRange) (data []byte, s *segment, drops uint64, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.err != nil {
		return nil, nil, 0, l.err
	}
	if r.From >= r.End {
		return nil, nil, 0, nil
	}
	if end := l.end(); r.From < l.start || r.End > end {
		return nil, nil, 0, &RangeError{From: r.From, LogStart: l.start, LogEnd: end}
	}
	if len(l.pending) > 0 && r.From >= l.pending[0].base {
		return l.readPending(r), nil, 0, nil
	}
	if l.recent.has(r.From) {
		return l.recent.read(r), nil, 0, nil
	}
	i, found := slices.BinarySearchFunc(l.segments, r.From, func(s *segment, o raft.Offset) int { return cmp.Compare(s.base, o) })
	if !found {
		i--
	}
	view := *l.segments[i]
	return nil, &view, l.drops, nil
}

func (l *Log) dropped() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.drops
}

// readPending reads what is not synced yet.
func (l *Log) readPending(r raft.LogRange) []byte {
	i, _ := slices.BinarySearchFunc(l.pending, r.From, func(b pending, o raft.Offset) int { return cmp.Compare(b.last, o) })
	n, size := 1, len(l.pending[i].bytes)
	for ; i+n < len(l.pending); n++ {
		b := &l.pending[i+n]
		if b.base >= r.End || size+len(b.bytes) > int(r.MaxBytes) {
			break
		}
		size += len(b.bytes)
	}
	if n == 1 {
		return l.pending[i].bytes
	}
	data := make([]byte, 0, size)
	for j := range n {
		data = append(data, l.pending[i+j].bytes...)
	}
	return data
}
