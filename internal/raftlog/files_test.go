package raftlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
)

// golden returns the bytes with a name in testdata/kafka-4.4.0.txt.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-4.4.0.txt")
	must(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+name+" #")
	var digits strings.Builder
	for i, line := range strings.Split(rest, "\n") {
		line, ok := strings.CutPrefix(line, "  ")
		switch {
		case i == 0 || strings.HasPrefix(line, "="):
			continue
		case !ok:
			rest = ""
		}
		if rest == "" {
			break
		}
		digits.WriteString(line)
	}
	data, err := hex.DecodeString(digits.String())
	if !found || err != nil || len(data) == 0 {
		t.Fatalf("%s: found %v, %v", name, found, err)
	}
	return data
}

var quorumStates = []struct {
	name string
	want raft.QuorumState
}{
	{"quorum-state.v0", raft.QuorumState{Epoch: 1, LeaderID: 1, Voted: raft.ReplicaKey{NodeID: raft.None}, Voters: []raft.NodeID{1}}},
	{"quorum-state.v0-voted", raft.QuorumState{Epoch: 5, LeaderID: 2, Voted: raft.ReplicaKey{NodeID: 2}, Voters: []raft.NodeID{1, 2, 3}}},
	{"quorum-state.v1", raft.QuorumState{Version: 1, Epoch: 1, LeaderID: 1, Voted: raft.ReplicaKey{NodeID: raft.None}}},
	{"quorum-state.v1-epoch7", raft.QuorumState{Version: 1, Epoch: 7, LeaderID: 1, Voted: raft.ReplicaKey{NodeID: raft.None}}},
}

func TestQuorumStateGolden(t *testing.T) {
	for _, test := range quorumStates {
		data := golden(t, test.name)
		got, err := DecodeQuorumState(data)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: decoded %+v, %v", test.name, got, err)
		}
		if again := AppendQuorumState(nil, test.want); !bytes.Equal(again, data) {
			t.Errorf("%s: encoded\n%s, want\n%s", test.name, again, data)
		}
	}
	// A vote with a directory id, which no recording has.
	id, err := kafkaid.Parse("JcCiMHLbTZeovvRhVzqBxw")
	must(t, err)
	s := raft.QuorumState{Version: 1, Epoch: 6, LeaderID: raft.None, Voted: raft.ReplicaKey{NodeID: 3, DirectoryID: id}}
	const want = `{"leaderId":-1,"leaderEpoch":6,"votedId":3,"votedDirectoryId":"JcCiMHLbTZeovvRhVzqBxw","data_version":1}`
	if got := string(AppendQuorumState(nil, s)); got != want {
		t.Errorf("encoded %s", got)
	}
	if got, err := DecodeQuorumState([]byte(want)); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func TestQuorumStateErrors(t *testing.T) {
	const rest = `"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"`
	tests := []struct{ why, text, want string }{
		{"empty", "", "empty"},
		{"no object", "7", "cannot unmarshal"},
		{"cut", `{` + rest, "unexpected EOF"},
		{"two objects", `{` + rest + `,"data_version":1}{}`, "behind"},
		{"text behind it", `{` + rest + `,"data_version":1}x`, "behind"},
		{"no version", `{` + rest + `}`, "no field data_version"},
		{"null version", `{` + rest + `,"data_version":null}`, "no field data_version"},
		{"a version to come", `{` + rest + `,"data_version":2}`, "data_version 2"},
		{"a negative version", `{` + rest + `,"data_version":-1}`, "data_version -1"},
		{"version of text", `{` + rest + `,"data_version":"1"}`, "cannot unmarshal"},
		{"no leader", `{"leaderEpoch":2,"votedId":-1,"data_version":0}`, "no field leaderId"},
		{"no epoch", `{"leaderId":1,"votedId":-1,"data_version":0}`, "no field leaderEpoch"},
		{"no vote", `{"leaderId":1,"leaderEpoch":2,"data_version":0}`, "no field votedId"},
		{"no directory", `{"leaderId":1,"leaderEpoch":2,"votedId":3,"data_version":1}`, "no field votedDirectoryId"},
		{"directory is no id", `{"leaderId":1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"x","data_version":1}`, "votedDirectoryId"},
		{"a directory without a node", `{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"JcCiMHLbTZeovvRhVzqBxw","data_version":1}`, "without"},
		{"negative epoch", `{"leaderId":1,"leaderEpoch":-2,"votedId":-1,"data_version":0}`, "leaderEpoch -2"},
		{"epoch too large", `{"leaderId":1,"leaderEpoch":2147483648,"votedId":-1,"data_version":0}`, "cannot unmarshal"},
		{"leader -2", `{"leaderId":-2,"leaderEpoch":2,"votedId":-1,"data_version":0}`, "leaderId -2"},
	}
	for _, test := range tests {
		if got, err := DecodeQuorumState([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %+v, %v; want an error with %q", test.why, got, err, test.want)
		}
	}
	for why, text := range map[string]string{
		"spaces and a line end": "{ \"data_version\": 0,\n\"leaderId\":1,\"leaderEpoch\":2,\"votedId\":-1}\n",
		"unknown fields":        `{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":0,"x":[1]}`,
	} {
		if _, err := DecodeQuorumState([]byte(text)); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
}

var epochStarts = []struct {
	name string
	want []raft.EpochStart
}{
	{"leader-epoch-checkpoint.one", []raft.EpochStart{{Epoch: 1}}},
	{"leader-epoch-checkpoint.four", []raft.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 18}, {Epoch: 3, Start: 30}, {Epoch: 4, Start: 42}}},
	{"leader-epoch-checkpoint.five", []raft.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 20}, {Epoch: 4, Start: 32}, {Epoch: 6, Start: 44}, {Epoch: 7, Start: 57}}},
}

func TestEpochStartsGolden(t *testing.T) {
	for _, test := range epochStarts {
		data := golden(t, test.name)
		if got, err := DecodeEpochStarts(data); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: decoded %v, %v", test.name, got, err)
		}
		if got := AppendEpochStarts(nil, test.want); !bytes.Equal(got, data) {
			t.Errorf("%s: encoded %q, want %q", test.name, got, data)
		}
	}
	if got, err := DecodeEpochStarts(AppendEpochStarts(nil, nil)); err != nil || got != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

func TestEpochStartsErrors(t *testing.T) {
	tests := []struct {
		why, text string
		offset    int64
	}{
		{"empty", "", 0},
		{"another version", "1\n0\n", 0},
		{"no number", "0\n", 2},
		{"number of text", "0\nx\n", 2},
		{"negative number", "0\n-1\n", 2},
		{"fewer than it says", "0\n2\n1 0\n", 8},
		{"more than it says", "0\n0\n1 0\n", 8},
		{"one number", "0\n1\n1\n", 4},
		{"three numbers", "0\n1\n1 2 3\n", 4},
		{"cut inside", "0\n2\n1 0\n2 ", 8},
		{"negative epoch", "0\n1\n-1 0\n", 4},
		{"negative offset", "0\n1\n1 -7\n", 4},
		{"an offset without an end", "0\n1\n1 9223372036854775807\n", 4},
		{"epoch too large", "0\n1\n2147483648 0\n", 4},
		{"same epoch twice", "0\n2\n1 0\n1 5\n", 8},
		{"descending offsets", "0\n2\n1 5\n2 4\n", 8},
		{"an empty line", "0\n1\n1 0\n\n", 8},
	}
	for _, test := range tests {
		got, err := DecodeEpochStarts([]byte(test.text))
		if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.Offset != test.offset {
			t.Errorf("%s: %v, %v; want an error at byte %d", test.why, got, err, test.offset)
		}
	}
}

// Files that cannot be are named, with the place.
func TestDamagedFiles(t *testing.T) {
	tests := []struct {
		name, text string
		offset     int64
	}{
		{"quorum-state", "", 0},
		{"quorum-state", "{}", 0},
		{"leader-epoch-checkpoint", "0\n1\nx\n", 4},
		{"partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg", 0},
		{"00000000000000000000-0000000000.checkpoint", "", 0},
		{"00000000000000000000-0000000000.checkpoint", string(snapshotBytes(0, 3)[:200]), 148},
		{"00000000000000000000-0000000000.checkpoint", string(snapshotBytes(1, 3)), 0},
		{"00000000000000000007-0000000002.checkpoint", strings.Repeat("\x00", 100), 0},
	}
	for _, test := range tests {
		d := emptyDir(t)
		put(t, d, testDir+"/"+test.name, []byte(test.text))
		_, _, err := Open(d, testDir, small)
		if corrupt, ok := errors.AsType[*CorruptError](err); !ok || corrupt.File != testDir+"/"+test.name || corrupt.Offset != test.offset {
			t.Errorf("%s %.20q: %v", test.name, test.text, err)
		}
	}
}

// A directory of Kafka, as far as it is recorded.
func TestKafkaDirectory(t *testing.T) {
	d := emptyDir(t)
	dynamic, noop := golden(t, "log.dynamic"), golden(t, "log.noop")
	put(t, d, testDir+"/00000000000000000000.log", dynamic)
	put(t, d, testDir+"/00000000000000000000-0000000000.checkpoint", golden(t, "zero.dynamic"))
	put(t, d, testDir+"/quorum-state", golden(t, "quorum-state.v1"))
	put(t, d, testDir+"/leader-epoch-checkpoint", golden(t, "leader-epoch-checkpoint.one"))
	put(t, d, testDir+"/partition.metadata", golden(t, "partition.metadata"))
	leftOver := []string{
		"00000000000000000175-0000000002-4711.checkpoint.part", "00000000000000000175-0000000002.checkpoint.deleted",
		"00000000000000000000.log.deleted", "quorum-state.tmp",
	}
	other := []string{"00000000000000000000.index", "00000000000000000024.snapshot", "notes", "0.log", "00000000000000000-01.log"}
	for _, name := range slices.Concat(leftOver, other) {
		put(t, d, testDir+"/"+name, []byte("x"))
	}
	l, found := open(t, d)
	id, err := kafkaid.Parse("aE9VG81kRSyxuzkhJa0IeA")
	must(t, err)
	voters := []raft.Voter{{
		Key: raft.ReplicaKey{NodeID: 1, DirectoryID: id}, MaxKRaftVersion: 1,
		Endpoints: []raft.Endpoint{{Listener: "CONTROLLER", Host: "127.0.0.1", Port: 22021}},
	}}
	want := raft.Recovered{
		QuorumState: quorumStates[2].want,
		LogEnd:      3,
		EpochStarts: []raft.EpochStart{{Epoch: 1}},
		Snapshots:   []raft.Snapshot{{SizeBytes: 494, LastContainedLogTime: 1796017010930, KRaftVersion: 1, Voters: voters}},
		Control: []raft.Batch{{LastOffset: 2, Epoch: 1, Control: []raft.ControlRecord{
			raft.LeaderChange{LeaderID: 1, Voters: []raft.NodeID{1}, Granting: []raft.NodeID{1}}, raft.KRaftVersion{Version: 1}, raft.Voters{Voters: voters},
		}}},
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("recovered\n%+v, want\n%+v", found, want)
	}
	for _, name := range slices.Concat(leftOver, other) {
		if _, err := d.Stat(testDir + "/" + name); (err == nil) != slices.Contains(other, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(l.Repaired) > 0 {
		t.Errorf("repaired %q", l.Repaired)
	}
	// What the core would write is what Kafka wrote.
	appendSync(t, l, batch(3, 1, 9, 10))
	must(t, l.Append(appendOf(raft.Batch{BaseOffset: 12, LastOffset: 12, Epoch: 1, Bytes: noop}), 0))
	if got := readAll(t, l, 12, 13); !bytes.Equal(got, noop) {
		t.Errorf("read %x", got)
	}
	d = emptyDir(t)
	l, _ = open(t, d)
	control := want.Control[0]
	must(t, l.Append(appendOf(control), 1796017012396))
	must(t, l.WriteQuorumState(want.QuorumState), l.WriteEpochStarts(want.EpochStarts), l.Close())
	for name, data := range map[string]string{
		"00000000000000000000.log": "log.dynamic", "quorum-state": "quorum-state.v1", "leader-epoch-checkpoint": "leader-epoch-checkpoint.one", "partition.metadata": "partition.metadata",
	} {
		if got, err := d.ReadFile(testDir + "/" + name); err != nil || !bytes.Equal(got, golden(t, data)) {
			t.Errorf("%s: wrote\n%x, %v; Kafka\n%x", name, got, err, golden(t, data))
		}
		if info, err := d.Stat(testDir + "/" + name); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// The other recorded batches go through the log unchanged.
func TestGoldenBatches(t *testing.T) {
	d := crashdisk.New()
	l, _ := open(t, d)
	static, upgrade := golden(t, "log.static"), golden(t, "log.upgrade")
	batches, err := raft.DecodeBatches(static)
	if err != nil || len(batches) != 2 {
		t.Fatalf("%d batches, %v", len(batches), err)
	}
	appendSync(t, l, batches...)
	appendSync(t, l, batch(10, 1, 21, 10))
	last, err := raft.DecodeBatch(upgrade)
	must(t, err)
	appendSync(t, l, last)
	_, found := open(t, d.Restart(crashdisk.Lost))
	if len(found.Control) != 2 || found.Control[1].BaseOffset != 31 || !reflect.DeepEqual(found.Control[1].Control, last.Control) {
		t.Errorf("recovered %+v", found.Control)
	}
	encoded, err := found.Control[1].Encode(batchTime(upgrade))
	if err != nil || !bytes.Equal(encoded, upgrade) {
		t.Errorf("encoded %x, %v", encoded, err)
	}
}

func FuzzQuorumState(f *testing.F) {
	for _, test := range quorumStates {
		f.Add(golden(f, test.name))
	}
	f.Add([]byte(`{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":0,"currentVoters":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeQuorumState(data)
		if err != nil {
			return
		}
		if s.Version == 0 && s.Voted.DirectoryID != uuid.Nil || s.Epoch < 0 || s.LeaderID < raft.None || s.Voted.NodeID < raft.None {
			t.Errorf("decoded %+v", s)
		}
		again, err := DecodeQuorumState(AppendQuorumState(nil, s))
		if len(s.Voters) == 0 {
			s.Voters = nil
		}
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("decoded %+v, again %+v, %v", s, again, err)
		}
	})
}

func FuzzEpochStarts(f *testing.F) {
	for _, test := range epochStarts {
		f.Add(golden(f, test.name))
	}
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := DecodeEpochStarts(data)
		if err != nil {
			if _, ok := errors.AsType[*CorruptError](err); !ok {
				t.Errorf("error %T", err)
			}
			return
		}
		again, err := DecodeEpochStarts(AppendEpochStarts(nil, entries))
		if err != nil || !slices.Equal(again, entries) {
			t.Errorf("decoded %v, again %v, %v", entries, again, err)
		}
	})
}
