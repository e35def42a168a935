package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/dump"
	"kstorage/internal/kafkaid"
)

// dumped is a line of kstorage dump --json.
type dumped struct {
	Batch *dumpedBatch

	Offset int64
	Type   string
	Data   struct {
		LeaderID      int32
		BrokerID      int32
		BrokerEpoch   int64
		IncarnationID string
	}
	Error *string
}

// dumpedBatch is what makes two batches the same.
type dumpedBatch struct {
	BaseOffset, LastOffset int64
	PartitionLeaderEpoch   int32
	CRC                    uint32
	Size                   int
}

// nodeLog is the metadata log of a node.
type nodeLog struct {
	name    string
	batches []dumpedBatch
	records map[int64]dumped // by offset
}

// end is the end offset.
func (l *nodeLog) end() int64 {
	if len(l.batches) == 0 {
		return 0
	}
	return l.batches[len(l.batches)-1].LastOffset + 1
}

// history is what was seen in all logs.
type history struct {
	leaders map[int32]int32          // by epoch
	batches map[[2]int64]dumpedBatch // by epoch and base offset
}

func newHistory() *history { return &history{map[int32]int32{}, map[[2]int64]dumpedBatch{}} }

// check reads the files in the folder of a log and checks them against all that was seen before: a batch of an epoch at an
// offset is the same everywhere, for there is one leader an epoch. Of a node that was just killed the last batch may be torn.
func (h *history) check(t *testing.T, name, folder string, torn bool) *nodeLog {
	t.Helper()
	l := &nodeLog{name: name, records: map[int64]dumped{}}
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, entry := range entries { // sorted: segments in the order of their offsets
		path := filepath.Join(folder, entry.Name())
		switch {
		case strings.HasSuffix(path, ".checkpoint"):
			var out bytes.Buffer
			must(t, dump.File(&out, path, dump.Options{}))
		case strings.HasSuffix(path, ".log"):
			l.read(t, path, torn)
		}
	}
	epoch := int32(0)
	for _, b := range l.batches {
		key := [2]int64{int64(b.PartitionLeaderEpoch), b.BaseOffset}
		if seen, ok := h.batches[key]; ok && seen != b {
			t.Errorf("%s: two batches of one epoch at one offset: %+v, and %+v was seen before", name, b, seen)
		}
		h.batches[key] = b
		if b.PartitionLeaderEpoch == epoch {
			continue
		}
		if b.PartitionLeaderEpoch < epoch {
			t.Errorf("%s: epoch %d behind epoch %d at offset %d", name, b.PartitionLeaderEpoch, epoch, b.BaseOffset)
		}
		epoch = b.PartitionLeaderEpoch
		first := l.records[b.BaseOffset]
		if first.Type != "LeaderChange" {
			t.Errorf("%s: epoch %d begins at offset %d with %s", name, epoch, b.BaseOffset, first.Type)
		}
		if leader, ok := h.leaders[epoch]; ok && leader != first.Data.LeaderID {
			t.Errorf("%s: the leader of epoch %d is %d, and %d was seen before", name, epoch, first.Data.LeaderID, leader)
		}
		h.leaders[epoch] = first.Data.LeaderID
	}
	return l
}

func (l *nodeLog) read(t *testing.T, path string, torn bool) {
	t.Helper()
	var out bytes.Buffer
	err := dump.File(&out, path, dump.Options{JSON: true})
	if corrupt := (*checkpoint.CorruptError)(nil); !torn || !errors.As(err, &corrupt) {
		must(t, err)
	}
	end := l.end()
	for line := range bytes.Lines(out.Bytes()) {
		var d dumped
		must(t, json.Unmarshal(line, &d))
		switch {
		case d.Batch != nil:
			if d.Batch.BaseOffset != end {
				t.Errorf("%s: a batch at offset %d where %d is next", path, d.Batch.BaseOffset, end)
			}
			l.batches = append(l.batches, *d.Batch)
			end = d.Batch.LastOffset + 1
		case d.Type != "":
			l.records[d.Offset] = d
		case d.Error != nil:
			t.Errorf("%s: a record at offset %d: %s", path, d.Offset, *d.Error)
		}
	}
}

// sameUpTo checks that the logs have the same batches up to an offset.
func sameUpTo(t *testing.T, logs []*nodeLog, end int64) {
	t.Helper()
	first := logs[0]
	for _, l := range logs {
		if l.end() < end {
			t.Fatalf("%s ends at offset %d, below %d, which was committed", l.name, l.end(), end)
		}
		for i, b := range l.batches {
			if b.BaseOffset >= end {
				break
			}
			if b != first.batches[i] {
				t.Errorf("%s has the batch %+v where %s has %+v", l.name, b, first.name, first.batches[i])
				break
			}
		}
	}
}

// find checks that the log has what was acknowledged.
func (l *nodeLog) find(t *testing.T, a acknowledged) {
	t.Helper()
	if a.incarnation != uuid.Nil {
		r := l.records[a.epoch]
		if r.Type != "REGISTER_BROKER_RECORD" || r.Data.BrokerID != a.broker || r.Data.BrokerEpoch != a.epoch || r.Data.IncarnationID != kafkaid.String(a.incarnation) {
			t.Errorf("%s: acknowledged was broker %d, incarnation %s, at offset %d; there is %+v", l.name, a.broker, kafkaid.String(a.incarnation), a.epoch, r)
		}
		return
	}
	for offset := a.epoch + 1; offset < l.end(); offset++ {
		r := l.records[offset]
		if r.Type == "UNREGISTER_BROKER_RECORD" && r.Data.BrokerID == a.broker && r.Data.BrokerEpoch == a.epoch {
			return
		}
	}
	t.Errorf("%s: acknowledged was the end of the registration of broker %d at offset %d; there is none", l.name, a.broker, a.epoch)
}
