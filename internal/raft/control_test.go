package raft

import (
	"bytes"
	"reflect"
	"testing"

	"kstorage/internal/record"
)

// Control batches have the sizes of Kafka's: recorded from 4.4.0.
func TestEncode(t *testing.T) {
	voter := func(id NodeID) Voter {
		return Voter{Key: ReplicaKey{id, dirID(id, 1)}, Endpoints: []Endpoint{{"CONTROLLER", "127.0.0.1", 22161}}, MaxKRaftVersion: 1}
	}
	one, three := []Voter{voter(1)}, []Voter{voter(1), voter(2), voter(3)}
	for _, test := range []struct {
		reason  string
		control []ControlRecord
		size    int
	}{
		{"kraft.version 0", []ControlRecord{LeaderChange{1, []NodeID{1}, []NodeID{1}}}, 91},
		{"the first epoch of one dynamic voter", []ControlRecord{LeaderChange{1, []NodeID{1}, []NodeID{1}}, KRaftVersion{1}, Voters{one}}, 174},
		{"of three, two of which voted", []ControlRecord{LeaderChange{1, []NodeID{1, 2, 3}, []NodeID{1, 2}}, KRaftVersion{1}, Voters{three}}, 292},
		{"the upgrade of three", []ControlRecord{KRaftVersion{1}, Voters{three}}, 247},
	} {
		b := Batch{BaseOffset: 7, LastOffset: 7 + Offset(len(test.control)) - 1, Epoch: 3, Control: test.control}
		data, err := b.Encode(1796017003568)
		if err != nil || len(data) != test.size {
			t.Errorf("%s: %d bytes, %v", test.reason, len(data), err)
		}
		back, err := DecodeBatch(append(data, "what follows"...))
		if err != nil || !bytes.Equal(back.Bytes, data) {
			t.Errorf("%s: %v", test.reason, err)
		}
		if again, err := back.Encode(0); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s: bytes that are there change", test.reason)
		}
		back.Bytes = nil
		if !reflect.DeepEqual(back, b) {
			t.Errorf("%s: %+v", test.reason, back)
		}
	}
}

func TestDecodeBatches(t *testing.T) {
	control, _ := Batch{LastOffset: 0, Epoch: 3, Control: []ControlRecord{KRaftVersion{1}}}.Encode(5)
	data := record.AppendBatch(nil, record.BatchHeader{BaseOffset: 1, LeaderEpoch: 3}, record.Entry{Value: []byte("a")}, record.Entry{Value: []byte("b")})
	both := append(bytes.Clone(control), data...)
	damaged := bytes.Clone(both)
	damaged[len(damaged)-3] ^= 1
	header, err := record.ControlEntry(record.New(record.SnapshotHeader, 0))
	if err != nil {
		t.Fatal(err)
	}
	snapshot := record.AppendBatch(nil, record.BatchHeader{Control: true}, header)
	for _, test := range []struct {
		reason string
		data   []byte
		want   int
		bad    bool
	}{
		{"nothing", nil, 0, false},
		{"two", both, 2, false},
		{"the second is cut", both[:len(both)-1], 1, false},
		{"the second is cut in its header", both[:len(control)+5], 1, false},
		{"the second is damaged: none counts", damaged, 0, true},
		{"a snapshot's header is no record of a log", snapshot, 0, true},
	} {
		batches, err := DecodeBatches(test.data)
		if len(batches) != test.want || (err != nil) != test.bad {
			t.Errorf("%s: %d batches, %v", test.reason, len(batches), err)
		}
	}
	batches, _ := DecodeBatches(both)
	if b := batches[1]; b.BaseOffset != 1 || b.LastOffset != 2 || b.Epoch != 3 || b.Control != nil {
		t.Errorf("%+v", b)
	}
}
