package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
)

func TestEmptyDirectory(t *testing.T) {
	d := crashdisk.New()
	l, found := open(t, d)
	want := raft.Recovered{QuorumState: raft.NoQuorumState()}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("recovered %+v, want %+v", found, want)
	}
	if got := files(t, d); !slices.Equal(got, []string{"00000000000000000000.log 0", "partition.metadata 43"}) {
		t.Errorf("files %q", got)
	}
	if len(l.Repaired) > 0 {
		t.Errorf("repaired %q", l.Repaired)
	}
	if s, err := l.Sync(); err != nil || s != (raft.Synced{}) {
		t.Errorf("Sync of nothing: %+v, %v", s, err)
	}
	must(t, l.Close())
	if err := l.Append(appendOf(batch(0, 1, 1, 4)), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("append to a closed log: %v", err)
	}
}

func TestAppendReadReopen(t *testing.T) {
	d := crashdisk.New()
	l, _ := open(t, d)
	var all []raft.Batch
	var end raft.Offset
	for i := range 40 {
		b := batch(end, 1+raft.Epoch(i/10), 1+i%3, 4+i*5)
		all, end = append(all, b), b.LastOffset+1
		must(t, l.Append(raft.AppendLog{Batches: []raft.Batch{b}, EndOffset: end, Generation: uint64(i)}, 0))
		if i%4 == 3 {
			if s, err := l.Sync(); err != nil || s != (raft.Synced{EndOffset: end, Generation: uint64(i)}) {
				t.Fatalf("Sync: %+v, %v", s, err)
			}
		}
	}
	check := func(l *Log) {
		t.Helper()
		if got := readAll(t, l, 0, end); !bytes.Equal(got, bytesOf(all...)) {
			t.Error("the log has other bytes than were appended")
		}
		if got, want := l.SizeBytes(), int64(len(bytesOf(all...))); got != want {
			t.Errorf("SizeBytes %d, want %d", got, want)
		}
		for _, b := range all {
			for offset := b.BaseOffset; offset <= b.LastOffset; offset++ {
				got, err := l.Read(raft.LogRange{From: offset, End: end, MaxBytes: 1})
				if err != nil || !bytes.Equal(got, b.Bytes) {
					t.Errorf("read of offset %d: %d bytes, %v", offset, len(got), err)
				}
			}
		}
	}
	check(l)
	must(t, l.Close())
	l, found := open(t, d.Restart(crashdisk.Lost))
	check(l)
	if found.LogStart != 0 || found.LogEnd != end || len(found.Control) != 0 {
		t.Errorf("recovered %+v", found)
	}
	wantStarts := []raft.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: all[10].BaseOffset}, {Epoch: 3, Start: all[20].BaseOffset}, {Epoch: 4, Start: all[30].BaseOffset}}
	if !slices.Equal(found.EpochStarts, wantStarts) {
		t.Errorf("epoch starts %v, want %v", found.EpochStarts, wantStarts)
	}
	if n := len(l.segments); n < 4 {
		t.Errorf("%d segments, so nothing was tested about them", n)
	}
}

func TestReadLimits(t *testing.T) {
	l, _ := open(t, crashdisk.New())
	a, b, c, p, q := batch(0, 1, 2, 10), batch(2, 1, 2, 10), batch(4, 1, 1, 5000), batch(5, 1, 1, 10), batch(6, 1, 2, 10)
	l.config.SegmentBytes = 1 << 20
	appendSync(t, l, a, b, c)
	must(t, l.Append(appendOf(p, q), 0))
	size := int32(len(a.Bytes))
	tests := []struct {
		why      string
		from     raft.Offset
		end      raft.Offset
		maxBytes int32
		want     []raft.Batch
	}{
		{"all that is synced", 0, 8, 1 << 20, []raft.Batch{a, b, c}},
		{"two that just fit", 0, 8, 2 * size, []raft.Batch{a, b}},
		{"a byte too few for two", 0, 8, 2*size - 1, []raft.Batch{a}},
		{"at least one batch", 0, 8, 0, []raft.Batch{a}},
		{"from the middle of a batch", 3, 8, size, []raft.Batch{b}},
		{"below the end only", 0, 2, 1 << 20, []raft.Batch{a}},
		{"a batch that is larger than asked for", 4, 8, 100, []raft.Batch{c}},
		{"it ends where memory begins", 4, 8, 1 << 20, []raft.Batch{c}},
		{"in memory", 5, 8, 1 << 20, []raft.Batch{p, q}},
		{"in memory, one", 5, 8, size, []raft.Batch{p}},
		{"in memory, below the end only", 5, 6, 1 << 20, []raft.Batch{p}},
		{"in memory, from the middle", 7, 8, 1 << 20, []raft.Batch{q}},
		{"nothing", 8, 8, 1 << 20, nil},
	}
	for _, test := range tests {
		got, err := l.Read(raft.LogRange{From: test.from, End: test.end, MaxBytes: test.maxBytes})
		if err != nil || !bytes.Equal(got, bytesOf(test.want...)) {
			t.Errorf("%s: %d bytes, %v; want %d", test.why, len(got), err, len(bytesOf(test.want...)))
		}
	}
	if _, err := l.Read(raft.LogRange{From: 8, End: 9, MaxBytes: 1}); err == nil || *err.(*RangeError) != (RangeError{8, 0, 8}) {
		t.Errorf("read behind the end: %v", err)
	}
}

// The file was changed behind the log's back.
func TestReadDamage(t *testing.T) {
	tests := []struct {
		why   string
		harm  string // in place of the second batch
		at    raft.Offset
		max   int32
		wrong int64
	}{
		{"garbage at the batch", strings.Repeat("x", 7070), 1, 1, 1070},
		{"garbage behind the batch", strings.Repeat("x", 7070), 0, 1 << 20, 1070},
		{"the file ends at the batch", "", 1, 1, 1070},
		{"the file ends inside of the batch", string(batch(1, 1, 1, 7000).Bytes[:6000]), 1, 1, 7070},
	}
	for _, test := range tests {
		d := crashdisk.New()
		l, _, err := Open(d, testDir, DefaultConfig())
		must(t, err)
		l.recent.limit = 0
		appendSync(t, l, batch(0, 1, 1, 1000), batch(1, 1, 1, 7000))
		f, err := d.OpenAppend(firstSegment)
		must(t, err, f.Truncate(1070))
		_, err = f.Write([]byte(test.harm))
		must(t, err)
		_, err = l.Read(raft.LogRange{From: test.at, End: 2, MaxBytes: test.max})
		if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.File != firstSegment || corrupt.Offset != test.wrong {
			t.Errorf("%s: %v", test.why, err)
		}
	}
}

// A segment ends where the next batch would make it too large, is too young for it, or too far from its beginning.
func TestRoll(t *testing.T) {
	tests := []struct {
		why     string
		batches []raft.Batch
		want    []raft.Offset
	}{
		{"size", []raft.Batch{batch(0, 1, 1, 200), batch(1, 1, 1, 200), batch(2, 1, 1, 200), batch(3, 1, 1, 200)}, []raft.Offset{0, 2}},
		{"larger than a segment", []raft.Batch{batch(0, 1, 1, 2000), batch(1, 1, 1, 10), batch(2, 1, 1, 2000)}, []raft.Offset{0, 1, 2}},
		{"time", []raft.Batch{batchAt(0, 1, 1, 9, 5000), batchAt(1, 1, 1, 9, 6000), batchAt(2, 1, 1, 9, 6001), batchAt(3, 1, 1, 9, 7001)}, []raft.Offset{0, 2}},
		{"the clock was set back", []raft.Batch{batchAt(0, 1, 1, 9, 5000), batchAt(1, 1, 1, 9, 1)}, []raft.Offset{0}},
	}
	for _, test := range tests {
		for _, syncEach := range []bool{false, true} {
			d := crashdisk.New()
			l, _ := open(t, d)
			for _, b := range test.batches {
				must(t, l.Append(appendOf(b), 0))
				if syncEach {
					_, err := l.Sync()
					must(t, err)
				}
			}
			must(t, l.Close())
			l, found := open(t, d)
			var got []raft.Offset
			for _, s := range l.segments {
				got = append(got, s.base)
			}
			if !slices.Equal(got, test.want) || found.LogEnd != raft.Offset(len(test.batches)) {
				t.Errorf("%s: segments %v, want %v", test.why, got, test.want)
			}
		}
	}
}

func TestControlBatches(t *testing.T) {
	d := crashdisk.New()
	l, _ := open(t, d)
	records := []raft.ControlRecord{
		raft.LeaderChange{LeaderID: 1, Voters: []raft.NodeID{1, 2}, Granting: []raft.NodeID{2}},
		raft.KRaftVersion{Version: 1},
		raft.Voters{Voters: snapshotFor(raft.SnapshotID{}, 0).Voters},
	}
	control := raft.Batch{BaseOffset: 1, LastOffset: 3, Epoch: 4, Control: records}
	appendSync(t, l, batch(0, 1, 1, 10), control, batch(4, 4, 1, 10))
	must(t, l.Close())
	_, found := open(t, d)
	if !reflect.DeepEqual(found.Control, []raft.Batch{control}) {
		t.Errorf("recovered %+v, want %+v", found.Control, control)
	}
}

func TestTruncate(t *testing.T) {
	all := []raft.Batch{}
	for i := range 20 {
		all = append(all, batch(raft.Offset(i*2), 1, 2, 30+i))
	}
	for synced := range all {
		for keep := range len(all) + 1 {
			d := crashdisk.New()
			l, _ := open(t, d)
			if synced > 0 {
				appendSync(t, l, all[:synced]...)
			}
			must(t, l.Append(appendOf(all[synced:]...), 0))
			end := raft.Offset(keep * 2)
			must(t, l.Truncate(end))
			if keep < len(all) {
				if s, err := l.Sync(); err != nil || s != (raft.Synced{}) {
					t.Fatalf("Sync after Truncate: %+v, %v", s, err)
				}
			}
			l, found := open(t, d.Restart(crashdisk.Lost))
			if found.LogEnd != end || !bytes.Equal(readAll(t, l, 0, end), bytesOf(all[:keep]...)) {
				t.Fatalf("%d synced, cut to %d: recovered %+v", synced, keep, found)
			}
			next := batch(end, 2, 1, 9)
			appendSync(t, l, next)
			if got := readAll(t, l, 0, end+1); !bytes.Equal(got, bytesOf(append(slices.Clone(all[:keep]), next)...)) {
				t.Fatalf("%d synced, cut to %d, written to: other bytes", synced, keep)
			}
		}
	}
	for _, synced := range []bool{true, false} {
		l, _ := open(t, crashdisk.New())
		must(t, l.Append(appendOf(batch(0, 1, 4, 9), batch(4, 1, 4, 9)), 0))
		if synced {
			_, err := l.Sync()
			must(t, err)
		}
		if err := l.Truncate(6); err == nil {
			t.Error("truncated inside of a batch")
		}
	}
}

func TestSnapshotsAndPrefix(t *testing.T) {
	d := crashdisk.New()
	l, _ := open(t, d)
	for i := range 20 {
		appendSync(t, l, batch(raft.Offset(i), 1, 1, 100))
	}
	ids := []raft.SnapshotID{{EndOffset: 5, Epoch: 1}, {EndOffset: 11, Epoch: 1}, {EndOffset: 18, Epoch: 1}}
	var want []raft.Snapshot
	for i, id := range ids {
		w, err := l.CreateSnapshot(id)
		must(t, err)
		data := snapshotBytes(1, i)
		_, err = w.Write(data[:50])
		must(t, err)
		_, err = w.Write(data[50:])
		must(t, err)
		s, err := w.Commit()
		must(t, err)
		want = append(want, snapshotFor(id, i))
		if !reflect.DeepEqual(s, want[i]) {
			t.Errorf("committed %+v, want %+v", s, want[i])
		}
		for position := range int64(len(data)) + 2 {
			got, err := l.ReadSnapshot(id, position, 100)
			if err != nil || !bytes.Equal(got, data[min(int(position), len(data)):min(int(position)+100, len(data))]) {
				t.Errorf("ReadSnapshot at %d: %d bytes, %v", position, len(got), err)
			}
		}
		if info, err := d.Stat(l.SnapshotPath(id)); err != nil || info.Mode() != 0o400 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if _, err := l.ReadSnapshot(raft.SnapshotID{EndOffset: 6, Epoch: 1}, 0, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a snapshot that is not there: %v", err)
	}
	w, err := l.CreateSnapshot(raft.SnapshotID{EndOffset: 19, Epoch: 1})
	must(t, err)
	must(t, w.Abort())

	must(t, l.DeletePrefix(11))
	if _, err := l.Read(raft.LogRange{From: 10, End: 20, MaxBytes: 1}); err == nil {
		t.Error("read below the log's start")
	}
	if got := readAll(t, l, 11, 20); len(got) == 0 {
		t.Error("nothing is left")
	}
	l, found := open(t, d.Restart(crashdisk.Lost))
	if found.LogStart == 0 || found.LogStart > 11 || found.LogEnd != 20 || !reflect.DeepEqual(found.Snapshots, want[1:]) {
		t.Errorf("recovered %+v", found)
	}
	if len(l.Repaired) != 1 { // leader-epoch-checkpoint was never written
		t.Errorf("repaired %q", l.Repaired)
	}
}

// A follower downloads a snapshot and drops its log for it.
func TestDownload(t *testing.T) {
	d := crashdisk.New()
	l, _ := open(t, d)
	appendSync(t, l, batch(0, 1, 1, 10), batch(1, 1, 1, 10))
	must(t, l.Append(appendOf(batch(2, 1, 1, 10)), 0))
	id, data := raft.SnapshotID{EndOffset: 30, Epoch: 4}, snapshotBytes(4, 3)
	chunk := func(position, end int) {
		t.Helper()
		must(t, l.WriteSnapshotChunk(raft.WriteSnapshotChunk{ID: id, Position: int64(position), Bytes: data[position:end]}))
	}
	chunk(0, 10)
	chunk(10, 20)
	chunk(0, 30) // anew
	if got := len(files(t, d)); got != 3 {
		t.Errorf("%d files", got)
	}
	must(t, l.DropSnapshotChunks(), l.DropSnapshotChunks())
	if got := len(files(t, d)); got != 2 {
		t.Errorf("%d files", got)
	}
	chunk(0, len(data)-1)
	_, err := l.InstallSnapshot(id)
	if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.Offset == 0 {
		t.Errorf("installed without its end: %v", err)
	}
	chunk(0, len(data)-1)
	chunk(len(data)-1, len(data))
	s, err := l.InstallSnapshot(id)
	if err != nil || !reflect.DeepEqual(s, snapshotFor(id, 3)) {
		t.Fatalf("installed %+v, %v", s, err)
	}
	must(t, l.WriteEpochStarts(nil), l.Reset(id))
	if got, err := l.Read(raft.LogRange{From: 30, End: 30}); err != nil || got != nil {
		t.Errorf("read of nothing: %v, %v", got, err)
	}
	if _, err := l.Read(raft.LogRange{From: 1, End: 30}); err == nil || *err.(*RangeError) != (RangeError{1, 30, 30}) {
		t.Errorf("read of what was dropped: %v", err)
	}
	appendSync(t, l, batch(30, 4, 1, 10))
	_, found := open(t, d.Restart(crashdisk.Lost))
	want := raft.Recovered{QuorumState: raft.NoQuorumState(), LogStart: 30, LogEnd: 31, Snapshots: []raft.Snapshot{s}, EpochStarts: []raft.EpochStart{{Epoch: 4, Start: 30}}}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("recovered %+v, want %+v", found, want)
	}
}

// syncCounter counts what is made durable of files.
type syncCounter struct {
	disk.FS
	syncs int
}

func (d *syncCounter) Create(name string, perm fs.FileMode) (disk.File, error) {
	f, err := d.FS.Create(name, perm)
	return countedFile{f, d}, err
}

type countedFile struct {
	disk.File
	disk *syncCounter
}

func (f countedFile) SyncData() error {
	f.disk.syncs++
	return f.File.SyncData()
}

// A write has at most maxGroupBytes, or one batch.
func TestGroups(t *testing.T) {
	d := &syncCounter{FS: crashdisk.New()}
	l, _, err := Open(d, testDir, DefaultConfig())
	must(t, err)
	var batches []raft.Batch
	for i := range 20 {
		batches = append(batches, batch(raft.Offset(i), 1, 1, maxGroupBytes/8))
	}
	batches = append(batches, batch(20, 1, 1, 2*maxGroupBytes), batch(21, 1, 1, 10))
	d.syncs = 0
	appendSync(t, l, batches...)
	if d.syncs != 5 { // 7 + 7 + 6 batches, the large one, the last one
		t.Errorf("%d groups", d.syncs)
	}
	if got := readAll(t, l, 0, 22); !bytes.Equal(got, bytesOf(batches...)) {
		t.Error("other bytes")
	}
}

// Appends and reads go on while another goroutine syncs.
func TestConcurrentSync(t *testing.T) {
	l, _, err := Open(disk.OS, filepath.Join(t.TempDir(), testDir), Config{SegmentBytes: 10000, SegmentMillis: 1 << 40})
	must(t, err)
	l.recent.limit = 3000
	const count = 2000
	appended := make(chan struct{}, 1)
	done := make(chan error)
	go func() {
		var last raft.Synced
		for range appended {
			s, err := l.Sync()
			if err != nil || s.EndOffset < last.EndOffset || s.Generation != uint64(s.EndOffset) {
				done <- fmt.Errorf("Sync: %+v after %+v, %w", s, last, err)
				return
			}
			last = s
		}
		_, err := l.Sync()
		done <- err
	}()
	var all []raft.Batch
	for i := range raft.Offset(count) {
		b := batch(i, 1, 1, 50)
		all = append(all, b)
		must(t, l.Append(raft.AppendLog{Batches: []raft.Batch{b}, EndOffset: i + 1, Generation: uint64(i + 1)}, 0))
		select {
		case appended <- struct{}{}:
		default:
		}
		got, err := l.Read(raft.LogRange{From: i - i%7, End: i + 1, MaxBytes: 1 << 20})
		if err != nil || !bytes.HasPrefix(bytesOf(all[i-i%7:]...), got) || len(got) == 0 {
			t.Fatalf("read: %d bytes, %v", len(got), err)
		}
	}
	close(appended)
	must(t, <-done, l.Close())
	l, found, err := Open(disk.OS, l.dir, DefaultConfig())
	must(t, err)
	defer l.Close()
	if got := readAll(t, l, 0, found.LogEnd); found.LogEnd != count || !bytes.Equal(got, bytesOf(all...)) {
		t.Errorf("recovered %+v", found)
	}
}

// The zeros behind the last batch are gone when the log is closed or goes on in another segment. Those that a kill leaves are no
// news, and what is appended afterwards takes their place.
func TestZerosAhead(t *testing.T) {
	d := crashdisk.New()
	l, _, err := Open(d, testDir, Config{SegmentBytes: 1 << 20, SegmentMillis: math.MaxInt64})
	must(t, err)
	size := func(d *crashdisk.Disk, name string) int {
		data, err := d.ReadFile(name)
		must(t, err)
		return len(data)
	}
	first := batch(0, 1, 1, 1000)
	must(t, l.WriteEpochStarts([]raft.EpochStart{{Epoch: 1, Start: 0}}))
	appendSync(t, l, first)
	if got, want := size(d, firstSegment), len(bytesOf(first))+minAheadBytes; got != want {
		t.Errorf("%d bytes behind the first write, want %d", got, want)
	}
	second := batch(1, 1, 1, 1000)
	appendSync(t, l, second)
	if got, want := size(d, firstSegment), len(bytesOf(first))+minAheadBytes; got != want {
		t.Errorf("%d bytes behind the second write, want %d", got, want)
	}

	killed := d.Kill()
	again, found, err := Open(killed, testDir, DefaultConfig())
	must(t, err)
	if found.LogEnd != 2 || len(again.Repaired) > 0 {
		t.Errorf("after a kill the log ends at %d; %q", found.LogEnd, again.Repaired)
	}
	third := batch(2, 1, 1, 1000)
	appendSync(t, again, third)
	if got := readAll(t, again, 0, 3); !bytes.Equal(got, bytesOf(first, second, third)) {
		t.Error("after a kill: other bytes")
	}
	must(t, again.Close())
	if got, want := size(killed, firstSegment), len(bytesOf(first, second, third)); got != want {
		t.Errorf("%d bytes after Close, want %d", got, want)
	}

	large := batch(2, 1, 1, 1<<20)
	appendSync(t, l, large)
	for seed := range uint64(20) {
		if got, want := size(d.Restart(seed), firstSegment), len(bytesOf(first, second)); got != want {
			t.Fatalf("%d bytes in a segment that another one follows, want %d", got, want)
		}
	}
}
