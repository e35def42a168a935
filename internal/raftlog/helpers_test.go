package raftlog

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

const testDir = "__cluster_metadata-0"

// small makes segments roll after a few batches.
var small = Config{SegmentBytes: 700, SegmentMillis: 1000}

// batch is a data batch of count records, the first of which has size bytes.
func batch(base raft.Offset, epoch raft.Epoch, count, size int) raft.Batch {
	return batchAt(base, epoch, count, size, 0)
}

func batchAt(base raft.Offset, epoch raft.Epoch, count, size int, timestamp int64) raft.Batch {
	entries := []record.Entry{{Value: bytes.Repeat([]byte{byte(base) | 1}, size)}}
	for range count - 1 {
		entries = append(entries, record.Entry{Value: []byte{1, 0x14, 0, 0}}) // NoOpRecord
	}
	h := record.BatchHeader{BaseOffset: int64(base), LeaderEpoch: int32(epoch), Timestamp: timestamp}
	return raft.Batch{
		BaseOffset: base,
		LastOffset: base + raft.Offset(count) - 1,
		Epoch:      epoch,
		Bytes:      record.AppendBatch(nil, h, entries...),
	}
}

func appendOf(batches ...raft.Batch) raft.AppendLog {
	return raft.AppendLog{Batches: batches, EndOffset: batches[len(batches)-1].LastOffset + 1, Generation: 1}
}

// snapshotBytes is a snapshot of an epoch with one voter.
func snapshotBytes(epoch raft.Epoch, records int) []byte {
	var out bytes.Buffer
	w, err := checkpoint.NewWriter(&out, checkpoint.Header{
		LeaderEpoch: int32(epoch), AppendTime: 7, LastContainedLogTime: 6, KRaftVersion: 1,
		Voters: []checkpoint.Voter{{NodeID: 1, DirectoryID: uuid.UUID{1}, Endpoints: []checkpoint.Endpoint{{Name: "C", Host: "h", Port: 9}}, MaxKRaftVersion: 1}},
	})
	if err != nil {
		panic(err)
	}
	for range records {
		if err := w.Append(checkpoint.FeatureLevel("metadata.version", 33)); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// snapshotFor is what is recovered of snapshotBytes.
func snapshotFor(id raft.SnapshotID, records int) raft.Snapshot {
	return raft.Snapshot{
		ID: id, SizeBytes: int64(len(snapshotBytes(id.Epoch, records))), LastContainedLogTime: 6, KRaftVersion: 1,
		Voters: []raft.Voter{{
			Key:             raft.ReplicaKey{NodeID: 1, DirectoryID: uuid.UUID{1}},
			Endpoints:       []raft.Endpoint{{Listener: "C", Host: "h", Port: 9}},
			MaxKRaftVersion: 1,
		}},
	}
}

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func open(t tester, fsys disk.FS) (*Log, raft.Recovered) {
	t.Helper()
	l, found, err := Open(fsys, testDir, small)
	if err != nil {
		t.Fatal(err)
	}
	l.recent.limit = 0 // what is read comes from the disk
	return l, found
}

func must(t tester, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// appendSync appends and syncs.
func appendSync(t tester, l *Log, batches ...raft.Batch) {
	t.Helper()
	must(t, l.Append(appendOf(batches...), 0))
	if s, err := l.Sync(); err != nil || s.EndOffset != batches[len(batches)-1].LastOffset+1 {
		t.Fatalf("Sync: %+v, %v", s, err)
	}
}

// readAll reads the log from an offset to its end.
func readAll(t tester, l *Log, from, end raft.Offset) []byte {
	t.Helper()
	var all []byte
	for from < end {
		data, err := l.Read(raft.LogRange{From: from, End: end, MaxBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		batches, err := raft.DecodeBatches(data)
		if err != nil || len(batches) == 0 {
			t.Fatalf("read from %d: %d bytes, %v", from, len(data), err)
		}
		from = batches[len(batches)-1].LastOffset + 1
		all = append(all, data...)
	}
	return all
}

func bytesOf(batches ...raft.Batch) []byte {
	var all []byte
	for _, b := range batches {
		all = append(all, b.Bytes...)
	}
	return all
}

// files lists the files of the log.
func files(t tester, fsys disk.FS) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %d", e.Name(), info.Size()))
	}
	return names
}

func put(t tester, fsys disk.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	must(t, err, f.Sync(), f.Close(), fsys.SyncDir(testDir))
}

// emptyDir is a disk with the log's directory.
func emptyDir(t tester) *crashdisk.Disk {
	t.Helper()
	d := crashdisk.New()
	must(t, d.MkdirAll(testDir, 0o755), d.SyncDir("."))
	return d
}
