package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

const firstSegment = testDir + "/00000000000000000000.log"

// withSegment is a disk with a log of one segment.
func withSegment(t tester, data []byte) *crashdisk.Disk {
	t.Helper()
	d := emptyDir(t)
	put(t, d, firstSegment, data)
	return d
}

// Every cut of the last batches, with zeros behind it or not, is a torn tail.
func TestTornTail(t *testing.T) {
	batches := []raft.Batch{batch(0, 1, 1, 300), batch(1, 1, 2, 700), batch(3, 2, 1, 100)}
	data := bytesOf(batches...)
	for cut := range len(data) + 1 {
		whole, size := 0, 0
		for ; whole < len(batches) && size+len(batches[whole].Bytes) <= cut; whole++ {
			size += len(batches[whole].Bytes)
		}
		for _, zeros := range []int{0, 1, 11, 12, 100, 5000} {
			torn := append(slices.Clone(data[:cut]), make([]byte, zeros)...)
			l, found := open(t, withSegment(t, torn))
			end := found.LogEnd // zeros may be just what was cut off
			if end < nextOffset(batches[:whole]) || !bytes.HasPrefix(data, readAll(t, l, 0, end)) {
				t.Fatalf("cut at %d, %d zeros: recovered %+v", cut, zeros, found)
			}
			next := batch(end, 3, 1, 20)
			appendSync(t, l, next)
			must(t, l.Close())
			if l, found = open(t, l.fs); found.LogEnd != end+1 || len(l.Repaired) > 1 {
				t.Fatalf("cut at %d, %d zeros, written to: recovered %+v, %q", cut, zeros, found, l.Repaired)
			}
		}
	}
}

// Of a group that was not synced each sector may be lost for itself, wherever the group begins in the first one. Nothing of
// that is damage, and what was synced stays.
func TestLostSectors(t *testing.T) {
	for _, count := range []int{1, 256, 300} { // the offset where the group begins
		for rest := 1; rest <= sectorBytes; rest++ { // bytes of the group in its first sector
			if rest > 80 && rest%61 > 0 {
				continue
			}
			synced := batch(0, 1, count, 1000) // of 1000 and of 1500 bytes the length is as long
			synced = batch(0, 1, count, 1000+sectorBytes-(len(synced.Bytes)+rest)%sectorBytes)
			first := len(synced.Bytes)
			if (first+rest)%sectorBytes != 0 {
				t.Fatalf("%d bytes, %d are left of the sector", first, rest)
			}
			at := raft.Offset(count)
			group := []raft.Batch{batch(at, 1, 1, 200), batch(at+1, 1, 2, 900), batch(at+3, 1, 1, 30), batch(at+4, 1, 1, 400)}
			data := bytesOf(append([]raft.Batch{synced}, group...)...)
			var sectors []int
			for from := first; from < len(data); from += sectorBytes - from%sectorBytes {
				sectors = append(sectors, from)
			}
			for mask := range 1 << len(sectors) {
				left := slices.Clone(data)
				for i, from := range sectors {
					if mask>>i&1 == 1 {
						clear(left[from:min(from-from%sectorBytes+sectorBytes, len(left))])
					}
				}
				whole := 1
				for end := first; whole <= len(group); whole++ {
					next := end + len(group[whole-1].Bytes)
					if !bytes.Equal(left[end:next], data[end:next]) {
						break
					}
					end = next
				}
				_, found, err := Open(withSegment(t, left), testDir, DefaultConfig())
				if want := nextOffset(append([]raft.Batch{synced}, group...)[:whole]); err != nil || found.LogEnd != want {
					t.Fatalf("offset %d, %d bytes in the first sector, lost %b: recovered up to %d, want %d; %v", count, rest, mask, found.LogEnd, want, err)
				}
			}
		}
	}
}

// A lost sector may hold the first bytes of the next batch, which are zero in any case: that batch looks whole.
func TestLostSectorReachesIntoNextBatch(t *testing.T) {
	const first = sectorBytes * 3
	for rest := 12; rest <= 60; rest += 3 { // bytes of the group in its first sector
		for reach := range 8 { // bytes of the second batch in the lost sector
			sized := func(base raft.Offset, size int) raft.Batch {
				b := batch(base, 1, 1, 300)
				b = batch(base, 1, 1, 300+size-len(b.Bytes))
				if len(b.Bytes) != size {
					t.Fatalf("a batch of %d bytes, want %d", len(b.Bytes), size)
				}
				return b
			}
			synced := sized(0, first-rest)
			data := bytesOf(synced, sized(1, rest+sectorBytes-reach), sized(2, 700))
			clear(data[first : first+sectorBytes])
			if _, found, err := Open(withSegment(t, data), testDir, DefaultConfig()); err != nil || found.LogEnd != 1 {
				t.Errorf("%d bytes before the lost sector, %d of the next batch in it: recovered up to %d, want 1; %v", rest, reach, found.LogEnd, err)
			}
		}
	}
}

func nextOffset(batches []raft.Batch) raft.Offset {
	if len(batches) == 0 {
		return 0
	}
	return batches[len(batches)-1].LastOffset + 1
}

func TestDamage(t *testing.T) {
	a, b, c := batch(0, 1, 1, 1000), batch(1, 1, 1, 2000), batch(2, 1, 1, 1500)
	atB, atC := len(a.Bytes), len(a.Bytes)+len(b.Bytes)
	large := batch(1, 1, 1, maxGroupBytes+1)
	data := bytesOf(a, b, c)
	edit := func(do func(data []byte) []byte) []byte { return do(slices.Clone(data)) }
	flip := func(at int) []byte {
		return edit(func(d []byte) []byte { d[at] ^= 0x10; return d })
	}
	hole := func(data []byte, from, to int) []byte {
		data = slices.Clone(data)
		clear(data[from:to])
		return data
	}
	tests := []struct {
		why    string
		data   []byte
		epochs []raft.EpochStart
		end    raft.Offset // what is left
		fatal  int64       // or the byte that the error names; -1: none
	}{
		{"nothing wrong", data, nil, 3, -1},
		{"a bit of the last batch", flip(atC + 500), nil, 2, -1},
		{"the length of the last batch", flip(atC + 8), nil, 2, -1},
		{"the last batch is garbage", edit(func(d []byte) []byte { copy(d[atC:], bytes.Repeat([]byte("garbage"), 100)); return d }), nil, 2, -1},
		{"bytes behind the last batch", append(slices.Clone(data), "left over"...), nil, 3, -1},
		{"a bit of a batch in the middle", flip(atB + 500), nil, 0, int64(atB)},
		{"a bit of the first batch", flip(100), nil, 0, 0},
		{"the length in the middle", flip(atB + 8), nil, 0, int64(atB + 8)},
		{"the length in the middle, so that it seems cut", edit(func(d []byte) []byte { d[atB+9] = 1; return d }), nil, 0, int64(atB)},
		{"the offset in the middle", flip(atB + 7), nil, 0, int64(atB)},
		{"the epoch in the middle", flip(atC + 15), nil, 3, -1}, // higher is possible
		{"the epoch goes down", edit(func(d []byte) []byte { d[atC+15] = 0; return d }), nil, 0, int64(atC)},
		{"a lost sector in the middle", hole(data, 1536, 2048), nil, 1, -1},
		{"a lost sector with the header", hole(data, atB, 1536), nil, 1, -1},
		{"several lost sectors", hole(data, 512, 2048), nil, 0, -1},
		{"a lost sector in the middle, and the zeros that were put ahead", append(hole(data, 1536, 2048), make([]byte, maxAheadBytes)...), nil, 1, -1},
		{"a bit of a batch in the middle, and the zeros that were put ahead", append(flip(atB+500), make([]byte, maxAheadBytes)...), nil, 0, int64(atB)},
		{"less than a sector is zero", hole(data, 1537, 2048), nil, 0, int64(atB)},
		{"a lost sector in front of an epoch", hole(data, 1536, 2048), []raft.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 3}}, 0, int64(atB)},
		{"a lost sector, two epochs in front of it", hole(data, 1536, 2048), []raft.EpochStart{{Epoch: 1, Start: 0}}, 1, -1},
		{"a lost sector in more than a group", hole(bytesOf(a, b, batch(2, 1, 1, maxGroupBytes)), 1536, 2048), nil, 0, int64(atB)},
		{"one large batch, garbage at its end", func() []byte { d := bytesOf(a, large); copy(d[len(d)-9:], "garbage"); return d }(), nil, 1, -1},
		{"garbage of more than a write", append(bytesOf(a), bytes.Repeat([]byte{1}, maxBatchBytes+1)...), nil, 0, int64(atB + 16)},
		{"zeros of more than a write", append(bytesOf(a), make([]byte, maxBatchBytes+1)...), nil, 1, -1},
		{"an offset in the middle is zero, the rest of its sector is not", hole(data, atB, atB+8), nil, 0, int64(atB)},
		{"a bit in the middle, behind a sector of which the batch has zeros only", func() []byte {
			a := batch(0, 1, 1, 1000+1536-5-atB)
			d := bytesOf(a, b, c)
			d[len(a.Bytes)+500] ^= 0x10
			return d
		}(), nil, 0, 1536 - 5},
		{"a gap", bytesOf(a, c), nil, 0, int64(atB)},
		{"a batch twice", bytesOf(a, b, b), nil, 0, int64(atC)},
		{"a control record that is none of a log", append(bytesOf(a), record.AppendBatch(nil, record.BatchHeader{BaseOffset: 1, LeaderEpoch: 1, Control: true},
			record.Entry{Key: []byte{0, 0, 0, 3}, Value: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}})...), nil, 0, int64(atB)},
		{"whole, but with a producer", append(bytesOf(a), withProducer(batch(1, 1, 1, 10).Bytes)...), nil, 0, int64(atB + 43)},
	}
	for _, test := range tests {
		d := withSegment(t, test.data)
		if test.epochs != nil {
			put(t, d, testDir+"/leader-epoch-checkpoint", AppendEpochStarts(nil, test.epochs))
		}
		before := fmt.Sprint(files(t, d))
		_, found, err := Open(d, testDir, small)
		if test.fatal < 0 {
			if err != nil || found.LogEnd != test.end {
				t.Errorf("%s: recovered up to %d, %v; want %d", test.why, found.LogEnd, err, test.end)
			}
			continue
		}
		corrupt, ok := errors.AsType[*CorruptError](err)
		if !ok || corrupt.File != firstSegment || corrupt.Offset != test.fatal {
			t.Errorf("%s: %v; want byte %d", test.why, err, test.fatal)
		}
		if after := fmt.Sprint(files(t, d)); strings.Replace(after, " partition.metadata 43", "", 1) != before {
			t.Errorf("%s: the files have changed from %s to %s", test.why, before, after)
		}
	}
}

// withProducer gives a batch a producer id and the checksum that goes with it.
func withProducer(data []byte) []byte {
	data[50] = 7
	crc := crc32.Checksum(data[attributesAt:], castagnoli)
	data[17], data[18], data[19], data[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return data
}

// Of several segments only the last one can have a torn tail, and they must join.
func TestDamagedSegments(t *testing.T) {
	a, b, c := bytesOf(batch(0, 1, 2, 300), batch(2, 1, 2, 300)), bytesOf(batch(4, 1, 2, 300)), bytesOf(batch(6, 1, 2, 300))
	tests := []struct {
		why      string
		segments map[int][]byte
		file     int // that is named, -1: none
		at       int64
	}{
		{"whole", map[int][]byte{0: a, 4: b, 6: c}, -1, 0},
		{"the last one is empty", map[int][]byte{0: a, 4: b, 6: nil}, -1, 0},
		{"the last one is cut", map[int][]byte{0: a, 4: b, 6: c[:100]}, -1, 0},
		{"the middle one is cut", map[int][]byte{0: a, 4: b[:100], 6: c}, 4, 0},
		{"the middle one has zeros", map[int][]byte{0: a, 4: append(slices.Clone(b), 0, 0), 6: c}, 4, int64(len(b))},
		{"the one in front of an empty one is cut", map[int][]byte{0: a, 4: b[:100], 6: nil}, 4, 0},
		{"the middle one is missing", map[int][]byte{0: a, 6: c}, 6, 0},
		{"a batch of the middle one is missing", map[int][]byte{0: a[:len(a)/2], 4: b, 6: c}, 4, 0},
		{"the first one is missing, and no snapshot is there", map[int][]byte{4: b, 6: c}, 6, 0},
		{"the name is another one", map[int][]byte{0: a, 4: c}, 4, 0},
	}
	for _, test := range tests {
		d := emptyDir(t)
		for base, data := range test.segments {
			put(t, d, testDir+"/"+segmentStem(raft.Offset(base))+".log", data)
		}
		_, _, err := Open(d, testDir, small)
		corrupt, ok := errors.AsType[*CorruptError](err)
		if ok != (test.file >= 0) || ok && (corrupt.File != testDir+"/"+segmentStem(raft.Offset(test.file))+".log" || corrupt.Offset != test.at) {
			t.Errorf("%s: %v", test.why, err)
		}
	}
}

// FuzzSegment opens a log with any bytes in its only segment. Whatever is accepted opens again as it is, is a prefix of what
// was there, and can be written to.
func FuzzSegment(f *testing.F) {
	a, b := batch(0, 1, 1, 600), batch(1, 1, 2, 30)
	whole := bytesOf(a, b)
	f.Add(whole)
	f.Add(whole[:700])
	f.Add(append(slices.Clone(whole), make([]byte, 600)...))
	f.Add(golden(f, "log.dynamic"))
	f.Add(golden(f, "log.static"))
	damaged := slices.Clone(whole)
	clear(damaged[:512])
	f.Add(damaged)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := withSegment(t, data)
		l, found, err := Open(d, testDir, small)
		if err != nil {
			if _, ok := errors.AsType[*CorruptError](err); !ok {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		if got := readAll(t, l, 0, found.LogEnd); !bytes.HasPrefix(data, got) {
			t.Fatal("the log has other bytes than the file")
		}
		epoch := raft.Epoch(1)
		if n := len(found.EpochStarts); n > 0 {
			epoch = found.EpochStarts[n-1].Epoch
		}
		appendSync(t, l, batch(found.LogEnd, epoch, 1, 10))
		must(t, l.Close())
		again, foundAgain, err := Open(d.Restart(crashdisk.Lost), testDir, small)
		if err != nil || foundAgain.LogEnd != found.LogEnd+1 || len(again.Repaired) > 1 {
			t.Fatalf("recovered %+v, then %+v, %v", found, foundAgain, err)
		}
	})
}
