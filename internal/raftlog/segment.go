package raftlog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"

	"kstorage/internal/disk"
	"kstorage/internal/raft"
)

// Where things stand in a batch.
const (
	batchLengthAt    = 8  // int32, of what follows it
	leaderEpochAt    = 12 // int32
	magicAt          = 16 // int8
	crcAt            = 17 // uint32, of what is there from attributesAt on
	attributesAt     = 21
	lastDeltaAt      = 23 // int32
	maxTimestampAt   = 35 // int64
	batchHeaderBytes = 61
)

// batchTime is the timestamp of a batch, which all its records share.
func batchTime(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch[maxTimestampAt:])) }

// indexInterval is how far apart, at least, the batches of a segment's index are. Kafka's index has as many.
const indexInterval = 4096

// segment is a file of the log. A copy of it may be read while the log goes on: what it has of the index does not change.
type segment struct {
	base      raft.Offset // in its name
	end       raft.Offset // of the batches in it
	size      int64       // of them in bytes
	firstTime int64       // timestamp of the first batch
	file      disk.File
	name      string
	index     []indexEntry // the first batch, and then each that begins indexInterval bytes behind the last one here
}

type indexEntry struct {
	offset   raft.Offset
	position int64
}

const (
	segmentSuffix = ".log"
	offsetDigits  = 20
)

func segmentStem(base raft.Offset) string { return fmt.Sprintf("%0*d", offsetDigits, base) }

// parseSegmentName returns the offset in the name of a segment.
func parseSegmentName(name string) (raft.Offset, bool) {
	if len(name) != offsetDigits+len(segmentSuffix) {
		return 0, false
	}
	n, err := strconv.ParseInt(name[:offsetDigits], 10, 64)
	base := raft.Offset(n)
	return base, err == nil && segmentStem(base)+segmentSuffix == name
}

func (l *Log) newSegment(base raft.Offset) *segment {
	return &segment{base: base, end: base, name: l.path(segmentStem(base) + segmentSuffix)}
}

// Sizes of the zeros that are put behind the batches, so that the writes that follow don't make the file longer: as many bytes as the
// segment has, between these.
const (
	minAheadBytes = 64 << 10
	maxAheadBytes = 1 << 20
)

// createSegment makes the empty file of a segment. It leaves it to its caller to sync the directory.
func (l *Log) createSegment(s *segment) (disk.File, error) { return l.fs.Create(s.name, 0o644) }

// add takes note of a batch at the end of the file.
func (s *segment) add(base, last raft.Offset, size int) {
	if n := len(s.index); n == 0 || s.size-s.index[n-1].position >= indexInterval {
		s.index = append(s.index, indexEntry{base, s.size})
	}
	s.size += int64(size)
	s.end = last + 1
}

// floor is the position of the last batch in the index that begins at offset or in front of it.
func (s *segment) floor(offset raft.Offset) int64 {
	i, found := slices.BinarySearchFunc(s.index, offset, func(e indexEntry, o raft.Offset) int { return cmp.Compare(e.offset, o) })
	if !found {
		i--
	}
	return s.index[max(i, 0)].position
}

// batchHead is what a batch's header says.
type batchHead struct {
	base, last raft.Offset
	size       int
}

// head reads the header at the beginning of data, which stands at position in the file. Recovery has checked the file, so an
// error is damage that came later.
func (s *segment) head(data []byte, position int64) (batchHead, error) {
	if len(data) >= batchHeaderBytes {
		h := batchHead{base: raft.Offset(binary.BigEndian.Uint64(data))}
		h.size = batchLengthAt + 4 + int(int32(binary.BigEndian.Uint32(data[batchLengthAt:])))
		h.last = h.base + raft.Offset(int32(binary.BigEndian.Uint32(data[lastDeltaAt:])))
		if h.base >= s.base && h.last >= h.base && h.last < s.end && h.size >= batchHeaderBytes && int64(h.size) <= s.size-position {
			return h, nil
		}
	}
	return batchHead{}, &CorruptError{File: s.name, Offset: position, Reason: "no batch begins here, where one was"}
}

// ceiling is a position behind the batches that begin in front of offset, as near as the index knows.
func (s *segment) ceiling(offset raft.Offset) int64 {
	i, _ := slices.BinarySearchFunc(s.index, offset, func(e indexEntry, o raft.Offset) int { return cmp.Compare(e.offset, o) })
	if i == len(s.index) {
		return s.size
	}
	return s.index[i].position
}

// seek returns the position of the batch with offset, and data that begins there: at least its header, and about maxBytes
// if there are as many.
func (s *segment) seek(offset raft.Offset, maxBytes int) (batchHead, int64, []byte, error) {
	position := s.floor(offset)
	// In front of the batch there are less than indexInterval bytes from there.
	data := make([]byte, min(int64(indexInterval+max(maxBytes, batchHeaderBytes)), s.size-position))
	if err := s.readAt(data, position); err != nil {
		return batchHead{}, 0, nil, err
	}
	for {
		h, err := s.head(data, position)
		if err != nil {
			return batchHead{}, 0, nil, err
		}
		if h.last >= offset {
			return h, position, data, nil
		}
		data = data[min(h.size, len(data)):]
		position += int64(h.size)
	}
}

// readAt fills data with what is in the file from position on.
func (s *segment) readAt(data []byte, position int64) error {
	n, err := s.file.ReadAt(data, position)
	if err == io.EOF {
		return &CorruptError{File: s.name, Offset: position + int64(n), Reason: fmt.Sprintf("the file ends here, %d bytes were written", s.size)}
	}
	return err
}

// read reads whole batches. The segment has r.From.
func (s *segment) read(r raft.LogRange) ([]byte, error) {
	wanted := min(int64(r.MaxBytes), s.ceiling(r.End)-s.floor(r.From))
	first, position, data, err := s.seek(r.From, int(wanted))
	if err != nil {
		return nil, err
	}
	if first.size > len(data) {
		data = make([]byte, first.size)
		return data, s.readAt(data, position)
	}
	size := first.size
	for len(data)-size >= batchHeaderBytes {
		h, err := s.head(data[size:], position+int64(size))
		if err != nil {
			return nil, err
		}
		if h.base >= r.End || size+h.size > min(len(data), int(r.MaxBytes)) {
			break
		}
		size += h.size
	}
	return data[:size:size], nil
}

// boundary returns the position of the batch that begins at end, or the segment's size if it ends there or in front.
func (s *segment) boundary(end raft.Offset) (int64, error) {
	if end >= s.end {
		return s.size, nil
	}
	h, position, _, err := s.seek(end, 0)
	if err != nil {
		return 0, err
	}
	if h.base != end {
		return 0, fmt.Errorf("truncate to offset %d: it is inside of the batch from %d to %d", end, h.base, h.last)
	}
	return position, nil
}

// shorten forgets the batches from end on, the first of which stands at position. Who reads the segment may still have the old index.
func (s *segment) shorten(position int64, end raft.Offset) {
	if position == s.size {
		return
	}
	s.size, s.end = position, end
	n, _ := slices.BinarySearchFunc(s.index, position, func(e indexEntry, p int64) int { return cmp.Compare(e.position, p) })
	s.index = slices.Clip(s.index[:n])
}

// cut drops what the last segment's file has behind its batches, durably.
func (l *Log) cut() error {
	l.reserved, l.unused = 0, false
	s := l.active()
	if err := s.file.Truncate(s.size); err != nil {
		return err
	}
	// Not SyncData: whether that covers a size that shrinks, is said nowhere.
	return s.file.Sync()
}

// Place puts the offset of its first record and the leader's epoch into an encoded batch. Its checksum covers neither.
func Place(batch []byte, base raft.Offset, epoch raft.Epoch) {
	binary.BigEndian.PutUint64(batch, uint64(base))
	binary.BigEndian.PutUint32(batch[leaderEpochAt:], uint32(epoch))
}
