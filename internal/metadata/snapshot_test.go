package metadata

import (
	"bytes"

	"kstorage/checkpoint"
)

// snapshotOf returns the snapshot of an image.
func snapshotOf(t interface {
	Helper()
	Fatal(...any)
}, i *Image) []byte {
	t.Helper()
	var file bytes.Buffer
	h := checkpoint.Header{LeaderEpoch: int32(i.Epoch), AppendTime: 1, LastContainedLogTime: i.Timestamp}
	w, err := checkpoint.NewWriter(&file, h)
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
