package metadata

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kstorage/checkpoint"
	"kstorage/internal/raft"
)

// FuzzReplay: whatever bytes come, the loader takes them or says why not, and what it took can be written and loaded.
func FuzzReplay(f *testing.F) {
	for _, c := range recordings {
		log, err := os.ReadFile(filepath.Join("testdata", c.name, "00000000000000000000.log"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(log)
	}
	log := &logBuilder{}
	f.Add(append(log.batch(version(35), clusterID("x"), begin), log.batch(config("A", "x"), end)...))
	f.Fuzz(func(t *testing.T, batches []byte) {
		l := newTestLoader()
		if l.Replay(batches) == nil {
			roundTrip(t, l.Image())
		}
	})
}

// FuzzRecords is FuzzReplay for records, each behind a byte that says how long it is: a fuzzer needs no checksum then.
func FuzzRecords(f *testing.F) {
	var seed []byte
	for _, r := range everyRecord() {
		value, err := r.AppendValue(nil)
		if err != nil {
			f.Fatal(err)
		}
		seed = append(append(seed, byte(len(value))), value...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, values []byte) {
		l := newTestLoader()
		for len(values) > 0 {
			n := min(int(values[0]), len(values)-1)
			if r, err := l.decoder.Decode(values[1 : 1+n]); err == nil {
				_ = l.image.Replay(r, l.NextOffset()) // some records are refused; the image stays one
			}
			values = values[1+n:]
		}
		if l.publish(l.image) == nil {
			roundTrip(t, l.image)
		}
	})
}

// FuzzLoadSnapshot: as FuzzReplay, for snapshots.
func FuzzLoadSnapshot(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*"+checkpoint.Suffix))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		l := newTestLoader()
		if l.LoadSnapshot(bytes.NewReader(file), "f", raft.SnapshotID{EndOffset: 7, Epoch: 1}, 0) == nil {
			roundTrip(t, l.Image())
		}
	})
}

// roundTrip writes a snapshot of i, and one of its image. An image of no metadata.version, or of one that has no field
// for a value, has no snapshot.
func roundTrip(t *testing.T, i *Image) {
	w, err := checkpoint.NewWriter(io.Discard, checkpoint.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if i.WriteSnapshot(w) != nil {
		return
	}
	file := snapshotOf(t, i)
	again := newTestLoader()
	id := raft.SnapshotID{EndOffset: max(i.Offset, 0) + 1, Epoch: i.Epoch}
	if err := again.LoadSnapshot(bytes.NewReader(file), "f", id, 0); err != nil {
		t.Fatalf("our snapshot can't be loaded: %v", err)
	}
	if !bytes.Equal(snapshotOf(t, again.Image()), file) {
		t.Fatal("the snapshot's image has another snapshot")
	}
}
