package raftlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// tail is what a crash has left of the last write group, without the zeros at the end of the file.
type tail struct{ position, end int64 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sizes of what can be in one group, and of what a disk writes as a whole.
const (
	maxBatchBytes = 4 * record.MaxBatchBytes // the largest that can be read
	sectorBytes   = 512
)

// classify tells whether the damage that was found behind the end of s, the last segment, can all belong to the last write
// group. The bytes from the end of s to the end of the file are then its torn tail: a group is one write behind
// all others, and it is synced before the next one is written. Any other damage is a *CorruptError.
//
// What a crash leaves of a group is a prefix of it, or sectors of it between zeros, and then the zeros that were there before, or
// as many as the file was to become longer. So:
//
//  1. A batch that is there as a whole, checksum included, and is still wrong, was written so. The checksum does not cover
//     its offset, which may be in a sector of its own that is lost.
//  2. If no whole batch follows the damage, the damaged one may be the last one that was written: a torn tail, unless
//     it is longer than any batch.
//  3. If one follows, both must be of one group. A group of several batches has at most maxGroupBytes, all
//     batches of one epoch (see WriteEpochStarts), and the damage is a hole: a sector that is zero.
func (l *Log) classify(r *recovery, s *segment, damage *record.CorruptError) (*tail, error) {
	info, err := l.fs.Stat(s.name)
	if err != nil {
		return nil, err
	}
	wrong := &CorruptError{File: s.name, Offset: damage.Offset, Reason: damage.Reason}
	tooLong := func(size int64) error {
		wrong.Reason += fmt.Sprintf("; the %d bytes from %d on are more than one write", size, s.size)
		return wrong
	}
	size := info.Size() - s.size
	if size > maxBatchBytes+maxAheadBytes {
		return nil, tooLong(size)
	}
	data := make([]byte, size)
	if _, err := s.file.ReadAt(data, s.size); err != nil {
		return nil, err
	}
	if size = int64(len(bytes.TrimRight(data, "\x00"))); size > maxBatchBytes {
		return nil, tooLong(size)
	}
	t := &tail{position: s.size, end: s.size + size}
	headLost := lostHead(data, t.position, s.end)
	if wholeBatch(data) && !headLost {
		return nil, wrong
	}
	next := nextBatch(data, s.end)
	if next < 0 {
		return t, nil
	}
	for _, e := range r.epochsFile {
		if e.Start > s.end {
			wrong.Reason += fmt.Sprintf("; offset %d, where epoch %d begins, was written later than that", e.Start, e.Epoch)
			return nil, wrong
		}
	}
	if size > maxGroupBytes || !headLost && !hasZeroSector(data, t.position, next) {
		wrong.Reason += fmt.Sprintf("; the batch at byte %d is whole, and was written later than that", t.position+int64(next))
		return nil, wrong
	}
	return t, nil
}

// nextBatch returns where in data behind its first byte a whole batch begins, whose offsets can follow end; -1: nowhere.
func nextBatch(data []byte, end raft.Offset) int {
	for i := 1; i+batchHeaderBytes <= len(data); i++ {
		// A record has more than one byte, so the offsets don't grow faster than the position.
		if base := raft.Offset(binary.BigEndian.Uint64(data[i:])); base <= end || base > end+raft.Offset(i) {
			continue
		}
		if wholeBatch(data[i:]) {
			return i
		}
	}
	return -1
}

// wholeBatch tells whether data begins with a batch whose checksum is right.
func wholeBatch(data []byte) bool {
	if len(data) < batchHeaderBytes || data[magicAt] != 2 {
		return false
	}
	size := batchLengthAt + 4 + int64(int32(binary.BigEndian.Uint32(data[batchLengthAt:])))
	return size >= batchHeaderBytes && size <= int64(len(data)) &&
		crc32.Checksum(data[attributesAt:size], castagnoli) == binary.BigEndian.Uint32(data[crcAt:])
}

// lostHead tells whether the sector in which data begins, at position in the file, was lost: all that data has of it is zero,
// though a batch with the offset base was written there. It may have so little that this is zero in any case.
func lostHead(data []byte, position int64, base raft.Offset) bool {
	head := data[:min(sectorBytes-int(position%sectorBytes), len(data))]
	// A batch's length is never zero.
	return isZero(head) && (len(head) >= batchLengthAt+4 || !isZero(binary.BigEndian.AppendUint64(nil, uint64(base))[:min(len(head), 8)]))
}

// hasZeroSector tells whether a sector of the file that begins in data before end, data being at position in the file, is
// all zero. It may reach into the batch at end: the first bytes of an offset are zero in any case.
func hasZeroSector(data []byte, position int64, end int) bool {
	for i := (sectorBytes - int(position%sectorBytes)) % sectorBytes; i < end && i+sectorBytes <= len(data); i += sectorBytes {
		if isZero(data[i : i+sectorBytes]) {
			return true
		}
	}
	return false
}

func isZero(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }
