//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
	"kstorage/internal/record"
)

// writer writes the metadata log of a node with raftlog, as the leader of a quorum of one would.
type writer struct {
	t     *testing.T
	log   *raftlog.Log
	found raft.Recovered
	end   raft.Offset
	epoch raft.Epoch
	all   []byte // all that was appended
}

const logTime = 1_800_000_000_000 // milliseconds since the Unix epoch

// openLog opens the metadata log of n. Its segments are small.
func openLog(t *testing.T, n *node) *writer {
	t.Helper()
	log, found, err := raftlog.Open(disk.OS, n.metadataDir(), raftlog.Config{SegmentBytes: 3000, SegmentMillis: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, log: log, found: found, end: found.LogEnd}
	if len(found.EpochStarts) > 0 {
		w.epoch = found.EpochStarts[len(found.EpochStarts)-1].Epoch
	}
	return w
}

func (w *writer) must(errs ...error) {
	w.t.Helper()
	for _, err := range errs {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *writer) append(b raft.Batch) {
	w.t.Helper()
	b.BaseOffset, b.LastOffset, b.Epoch = w.end, w.end+b.LastOffset, w.epoch
	if b.Bytes != nil {
		raftlog.Place(b.Bytes, b.BaseOffset, b.Epoch)
	}
	w.end = b.LastOffset + 1
	w.must(w.log.Append(raft.AppendLog{Batches: []raft.Batch{b}, EndOffset: w.end}, logTime))
	_, err := w.log.Sync()
	w.must(err)
	data, err := b.Encode(logTime)
	w.must(err)
	w.all = append(w.all, data...)
}

// values appends a batch of metadata records.
func (w *writer) values(values ...[]byte) {
	w.t.Helper()
	var entries []record.Entry
	for _, v := range values {
		entries = append(entries, record.Entry{Value: v})
	}
	w.append(raft.Batch{LastOffset: raft.Offset(len(values) - 1), Bytes: record.AppendBatch(nil, record.BatchHeader{Timestamp: logTime}, entries...)})
}

var noOp = []byte{1, 20, 0, 0}

// lead begins an epoch as leader of n's quorum of one, whose voters are those of the newest snapshot, or static.
func (w *writer) lead(n *node) {
	w.t.Helper()
	snapshot := w.found.Snapshots[len(w.found.Snapshots)-1]
	id := raft.NodeID(n.id)
	w.epoch++
	state := raft.QuorumState{Version: snapshot.KRaftVersion, Epoch: w.epoch, LeaderID: id, Voted: raft.ReplicaKey{NodeID: raft.None}}
	control := []raft.ControlRecord{raft.LeaderChange{LeaderID: id, Voters: []raft.NodeID{id}, Granting: []raft.NodeID{id}}}
	if snapshot.KRaftVersion == 0 {
		state.Voters = []raft.NodeID{id}
	} else if w.end == 0 {
		control = append(control, raft.KRaftVersion{Version: 1}, raft.Voters{Voters: snapshot.Voters})
	}
	starts := append(slices.Clone(w.found.EpochStarts), raft.EpochStart{Epoch: w.epoch, Start: w.end})
	w.must(w.log.WriteQuorumState(state), w.log.WriteEpochStarts(starts))
	w.append(raft.Batch{LastOffset: raft.Offset(len(control) - 1), Control: control})
}

// bootstrap appends what makes metadata.version known, and some more.
func (w *writer) bootstrap() {
	w.t.Helper()
	w.values(checkpoint.FeatureLevel("metadata.version", 33), checkpoint.FeatureLevel("group.version", 1))
	for range 100 {
		w.values(noOp)
	}
}

// snapshot makes one at the log's end, with the features of bootstrap and the voters of the one before.
func (w *writer) snapshot() raft.SnapshotID {
	w.t.Helper()
	id := raft.SnapshotID{EndOffset: w.end, Epoch: w.epoch}
	out, err := w.log.CreateSnapshot(id)
	w.must(err)
	last := w.found.Snapshots[len(w.found.Snapshots)-1]
	h := checkpoint.Header{LeaderEpoch: int32(id.Epoch), AppendTime: logTime, LastContainedLogTime: logTime, KRaftVersion: last.KRaftVersion}
	for _, v := range last.Voters {
		voter := checkpoint.Voter{NodeID: int32(v.Key.NodeID), DirectoryID: v.Key.DirectoryID, MaxKRaftVersion: v.MaxKRaftVersion}
		for _, e := range v.Endpoints {
			voter.Endpoints = append(voter.Endpoints, checkpoint.Endpoint{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		h.Voters = append(h.Voters, voter)
	}
	cw, err := checkpoint.NewWriter(out, h)
	w.must(err)
	w.must(cw.Append(checkpoint.FeatureLevel("metadata.version", 33), checkpoint.FeatureLevel("group.version", 1)), cw.Close())
	_, err = out.Commit()
	w.must(err)
	return id
}

// logBytes are the bytes of the log from its start on.
func (w *writer) logBytes() []byte {
	w.t.Helper()
	var all []byte
	for from := w.found.LogStart; from < w.found.LogEnd; {
		data, err := w.log.Read(raft.LogRange{From: from, End: w.found.LogEnd, MaxBytes: 1 << 20})
		w.must(err)
		batches, err := raft.DecodeBatches(data)
		w.must(err)
		from = batches[len(batches)-1].LastOffset + 1
		all = append(all, data...)
	}
	return all
}

// checkDumped lets DumpLogSegments read all segments and compares their batches with the log's.
func checkDumped(t *testing.T, n *node, all []byte) {
	t.Helper()
	batches, err := raft.DecodeBatches(all)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(n.metadataDir(), "*.log"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("segments %q, %v", paths, err)
	}
	for _, path := range paths {
		if readFile(t, path) == "" {
			continue
		}
		for _, e := range kafkaDump(t, path) {
			if e.Kind != "batch" {
				continue
			}
			var data struct {
				LastOffset           raft.Offset
				PartitionLeaderEpoch raft.Epoch
				IsControl            bool
			}
			if err := json.Unmarshal([]byte(e.Data), &data); err != nil {
				t.Fatal(err)
			}
			if len(batches) == 0 {
				t.Fatalf("%s: a batch that the log does not have: %+v", path, e)
			}
			b := batches[0]
			batches = batches[1:]
			if int64(b.BaseOffset) != e.Offset || b.LastOffset != data.LastOffset || b.Epoch != data.PartitionLeaderEpoch || (b.Control != nil) != data.IsControl {
				t.Fatalf("%s: DumpLogSegments has %+v, the log %+v", path, e, b)
			}
		}
	}
	if len(batches) > 0 {
		t.Fatalf("DumpLogSegments does not have offset %d", batches[0].BaseOffset)
	}
}

// quorums are the two kinds.
var quorums = []struct {
	name   string
	quorum func(...*node) string
	format []string
}{
	{"static", staticVoters, nil},
	{"dynamic", bootstrapServers, []string{"--standalone"}},
}

// TestKafkaOpensRaftlog lets raftlog write the metadata log of a controller, and lets Kafka's tools and a real controller
// read it, in rounds: the log alone; raftlog appends to what Kafka has left; a snapshot and a shorter log; a
// log that starts anew at a snapshot. Each time the controller must lead the next epoch and keep every byte.
func TestKafkaOpensRaftlog(t *testing.T) {
	for _, q := range quorums {
		t.Run(q.name, func(t *testing.T) {
			n := newNode(t, t.TempDir(), 1, "controller", []string{"d1"})
			byKafka.format(t, n.write(t, q.quorum(n)), q.format...)
			rounds := []struct {
				name string
				run  func(w *writer)
			}{
				{"a new log", func(w *writer) { w.lead(n); w.bootstrap() }},
				{"appended to", func(w *writer) { w.lead(n); w.values(noOp); w.values(noOp, noOp) }},
				{"a snapshot and a deleted prefix", func(w *writer) { w.must(w.log.DeletePrefix(w.snapshot().EndOffset)) }},
				{"anew at a snapshot", func(w *writer) {
					id := w.snapshot()
					w.must(w.log.WriteEpochStarts(nil), w.log.Reset(id))
				}},
				{"an unfinished last write", func(w *writer) { w.lead(n); w.values(noOp) }},
			}
			for i, round := range rounds {
				w := openLog(t, n)
				round.run(w)
				epoch := w.epoch
				w.must(w.log.Close())
				if i == len(rounds)-1 {
					appendToLast(t, n, bytes.Repeat([]byte{0}, 300))
				}
				w = openLog(t, n)
				before, end := w.logBytes(), w.found.LogEnd
				w.must(w.log.Close())
				checkDumped(t, n, before)
				for _, s := range w.found.Snapshots {
					kafkaDump(t, w.log.SnapshotPath(s.ID))
				}

				s := startServer(t, n)
				s.wait(t, fmt.Sprintf(`Completed transition to Leader.* epoch=%d`, epoch+1))
				s.wait(t, `Kafka Server started`)
				s.kill()

				w = openLog(t, n)
				if len(w.log.Repaired) > 0 && i != 2 { // Kafka leaves the epochs of a deleted prefix
					t.Errorf("%s: repaired %q", round.name, w.log.Repaired)
				}
				if after := w.logBytes(); !bytes.HasPrefix(after, before) || len(after) == len(before) {
					t.Errorf("%s: the log had %d bytes and now has %d others", round.name, len(before), len(after))
				}
				last := raft.EpochStart{Epoch: epoch + 1, Start: end}
				if w.epoch != epoch+1 || !slices.Contains(w.found.EpochStarts, last) || w.found.QuorumState.Epoch != epoch+1 || w.found.QuorumState.LeaderID != 1 {
					t.Errorf("%s: Kafka left %+v", round.name, w.found)
				}
				w.must(w.log.Close())
			}
		})
	}
}

// appendToLast appends bytes to the last segment, past raftlog.
func appendToLast(t *testing.T, n *node, data []byte) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(n.metadataDir(), "*.log"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("segments %q, %v", paths, err)
	}
	f, err := os.OpenFile(slices.Max(paths), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
}

// TestRaftlogOpensKafka kills real controllers and a broker at work, and opens what they leave.
func TestRaftlogOpensKafka(t *testing.T) {
	folder := t.TempDir()
	var nodes []*node
	for id := 1; id <= 3; id++ {
		nodes = append(nodes, newNode(t, folder, id, "controller", []string{"d1"}))
	}
	quorum := bootstrapServers(nodes...)
	voters := initialControllers(nodes...)
	nodes = append(nodes, newNode(t, folder, 4, "broker", []string{"d1"}))
	for _, n := range nodes {
		n.properties = append(n.properties,
			"metadata.max.idle.interval.ms=5",                       // a record every 5 ms
			"metadata.log.max.record.bytes.between.snapshots=20000", // a snapshot now and then
			"metadata.log.segment.ms=1000",
		)
		n.write(t, quorum)
		if n.controller {
			byKafka.format(t, n, "--initial-controllers", voters)
		} else {
			byKafka.format(t, n)
		}
	}
	c := boot(t, "4.4-IV2", nodes...)
	for _, s := range slices.Concat(c.controllers, c.brokers) {
		eventually(t, fmt.Sprintf("two segments and two snapshots on node %d", s.node.id), func() error {
			segments, _ := filepath.Glob(filepath.Join(s.node.metadataDir(), "*.log"))
			snapshots, _ := filepath.Glob(filepath.Join(s.node.metadataDir(), "*.checkpoint"))
			if len(segments) < 2 || len(snapshots) < 2 {
				return fmt.Errorf("%q, %q", segments, snapshots)
			}
			return nil
		})
	}
	killServers(slices.Concat(c.brokers, c.controllers)...)
	for _, n := range nodes {
		w := openLog(t, n)
		if len(w.log.Repaired) > 0 {
			t.Logf("node %d: repaired %q", n.id, w.log.Repaired)
		}
		all := w.logBytes()
		checkDumped(t, n, all)
		var list strings.Builder
		fmt.Fprintf(&list, "0\n%d\n", len(w.found.EpochStarts))
		for _, e := range w.found.EpochStarts {
			fmt.Fprintf(&list, "%d %d\n", e.Epoch, e.Start)
		}
		if got := readFile(t, filepath.Join(n.metadataDir(), "leader-epoch-checkpoint")); got != list.String() {
			t.Errorf("node %d: leader-epoch-checkpoint %q, recovered %q", n.id, got, list.String())
		}
		if state := raftlog.AppendQuorumState(nil, w.found.QuorumState); string(state) != readFile(t, filepath.Join(n.metadataDir(), "quorum-state")) {
			t.Errorf("node %d: quorum-state is not %s", n.id, state)
		}
		newest := w.found.Snapshots[len(w.found.Snapshots)-1]
		if len(newest.Voters) != 3 || newest.KRaftVersion != 1 || newest.ID.EndOffset > w.found.LogEnd {
			t.Errorf("node %d: snapshot %+v", n.id, newest)
		}
		f, err := w.log.OpenSnapshot(newest.ID)
		w.must(err)
		if data, err := io.ReadAll(f); err != nil || int64(len(data)) != newest.SizeBytes {
			t.Errorf("node %d: snapshot of %d bytes, %v", n.id, len(data), err)
		}
		w.must(f.Close(), w.log.Close())
	}
	checkSameLogs(t, nodes...)
	// The cluster goes on from there.
	c = boot(t, "4.4-IV2", nodes...)
	c.stop(t)
}
