package metadata

import (
	"bytes"
	"testing"

	"kstorage/checkpoint"
)

// snapshotOf returns the snapshot of an image.
func snapshotOf(t testing.TB, i *Image) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := checkpoint.NewWriter(&file, checkpoint.Header{LeaderEpoch: int32(i.Epoch), AppendTime: 1, LastContainedLogTime: i.Timestamp})
	if err == nil {
		err = i.WriteSnapshot(w)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}
