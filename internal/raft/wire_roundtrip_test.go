package raft_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// TestWireFrames maps every recorded frame to the core's messages and back to the same bytes.
func TestWireFrames(t *testing.T) {
	for _, name := range []string{"static", "dynamic", "dynamic2"} {
		for _, f := range readTrace(t, name).frames {
			if f.api == kmsg.ApiVersions || f.api == kmsg.DescribeQuorum {
				continue // it is mapped in one direction alone
			}
			if _, newest := served(f.api); f.version != newest {
				t.Errorf("%s: version %d, real nodes speak %d", f.name, f.version, newest)
			}
			q, clientID, correlationID := f.request(t)
			if !f.response {
				r, refused := wire.DecodeRaftRequest(q, "")
				if refused != nil {
					t.Fatalf("%s is refused: %v", f.name, refused)
				}
				back, err := wire.EncodeRaftRequest(r, f.version)
				if err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
				if got := requestFrame(back, clientID, correlationID); !bytes.Equal(got, f.bytes) {
					t.Errorf("%s: %s", f.name, diffBytes(got, f.bytes, back, q))
				}
				continue
			}
			r, correlationID := f.decodedResponse(t)
			core, payload, err := wire.DecodeRaftResponse(r)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			if q, ok := q.(*kmsg.FetchSnapshotRequest); ok {
				q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: metadataTopic, Partitions: make([]kmsg.FetchSnapshotRequestTopicPartition, 1)}}
			}
			back := wire.EncodeRaftResponse(q, core, payload, nil)
			if got := responseFrame(back, correlationID); !bytes.Equal(got, f.bytes) {
				t.Errorf("%s: %s", f.name, diffBytes(got, f.bytes, back, r))
			}
		}
	}
}

// TestWireApiVersions reads what the answer to the probe of a new voter says.
func TestWireApiVersions(t *testing.T) {
	f := readTrace(t, "dynamic").byName["12.521 ApiVersions 2>1"]
	r, _ := f.decodedResponse(t)
	got, _, err := wire.DecodeRaftResponse(r)
	want := &raft.ApiVersionsResponse{HasKRaftVersion: true, MinKRaftVersion: 0, MaxKRaftVersion: 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
