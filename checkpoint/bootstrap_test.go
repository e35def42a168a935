package checkpoint

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestReadBootstrap(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{KRaftVersion: 1, AppendTime: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(FeatureLevel("metadata.version", 35), FeatureLevel("group.version", 1), ClusterID("my-cluster"),
		ScramCredential("alice", ScramSHA256, []byte("salt"), []byte("stored"), []byte("server"), 4096)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReadBootstrap(bytes.NewReader(file.Bytes()), "zero")
	want := Bootstrap{
		Header:    Header{KRaftVersion: 1, AppendTime: 7},
		Features:  []Feature{{"metadata.version", 35}, {"group.version", 1}},
		ClusterID: "my-cluster", Records: 4,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for cut := range file.Len() {
		if _, err := ReadBootstrap(bytes.NewReader(file.Bytes()[:cut]), "zero"); !errors.As(err, new(*CorruptError)) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}
