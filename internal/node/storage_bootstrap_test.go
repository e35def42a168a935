package node

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/controller"
	"kstorage/internal/raft"
)

// snapshotFile is the content of a snapshot with records.
func snapshotFile(t *testing.T, records ...[]byte) string {
	t.Helper()
	var b bytes.Buffer
	w, err := checkpoint.NewWriter(&b, checkpoint.Header{KRaftVersion: 1})
	if err == nil {
		err = errors.Join(w.Append(records...), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadBootstrap(t *testing.T) {
	const zeroPath, oldPath = "/d1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint", "/d1/bootstrap.checkpoint"
	version := checkpoint.FeatureLevel("metadata.version", 35)
	user := checkpoint.ScramCredential("alice", checkpoint.ScramSHA256, []byte("salt"), make([]byte, 32), make([]byte, 32), 4096)
	whole := snapshotFile(t, version, checkpoint.ClusterID(clusterA), user)
	bare := snapshotFile(t)
	flipped := []byte(whole)
	flipped[len(flipped)/2] ^= 1
	tests := []struct {
		reason           string
		zero, old        string // "": no such file
		zeroLen, oldLen  int    // -1: no such file
		err              []string
		warns, emptyZero bool
	}{
		{reason: "neither", zeroLen: -1, oldLen: -1},
		{reason: "formatted by 4.4", zero: whole, zeroLen: 3, oldLen: -1},
		{reason: "formatted by 4.0", zero: bare, old: snapshotFile(t, version), zeroLen: 0, oldLen: 1},
		{reason: "formatted by 3.5", old: snapshotFile(t, version, user), zeroLen: -1, oldLen: 2},
		{reason: "both", zero: whole, old: snapshotFile(t, version), zeroLen: 3, oldLen: 1, warns: true},
		{reason: "an empty zero checkpoint", emptyZero: true, err: []string{"damaged", zeroPath}},
		{reason: "a zero checkpoint that was cut", zero: whole[:len(whole)-10], err: []string{"damaged", zeroPath}},
		{reason: "a zero checkpoint with a wrong checksum", zero: string(flipped), err: []string{"damaged", zeroPath}},
		{reason: "a damaged bootstrap.checkpoint, even behind a zero checkpoint", zero: whole, old: "x", err: []string{"damaged", oldPath}},
		{reason: "a zero checkpoint without metadata.version", zero: snapshotFile(t, user), err: []string{"no metadata.version", zeroPath}},
		{reason: "a bootstrap.checkpoint without metadata.version", old: bare, err: []string{"no metadata.version", oldPath}},
		{reason: "both damaged", zero: "x", old: "x", err: []string{zeroPath, oldPath}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			f := files{"/d1/meta.properties": metaProperties(1, clusterA, dirA)}
			if test.zero != "" || test.emptyZero {
				f[zeroPath] = test.zero
			}
			if test.old != "" {
				f[oldPath] = test.old
			}
			st, _, err := openOn(f.disk(t), controllerOn("/d1"))
			if err != nil {
				t.Fatal(err)
			}
			log := captureLog(st)
			zero, old, err := st.readBootstrap()
			if len(test.err) > 0 {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Fatalf("%v is no *Error", err)
				}
				for _, part := range test.err {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the error lacks %q: %v", part, err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			length := func(f *controller.BootstrapFile) int {
				if f == nil {
					return -1
				}
				return len(f.Records)
			}
			if length(zero) != test.zeroLen || length(old) != test.oldLen {
				t.Errorf("zero is %+v, old is %+v; expected %d and %d records", zero, old, test.zeroLen, test.oldLen)
			}
			if warns := strings.Contains(log.String(), "level=WARN"); warns != test.warns {
				t.Errorf("logged: %s", log)
			}
			if zero != nil && len(zero.Records) > 2 && zero.Records[2].Text("Name") != "alice" {
				t.Errorf("the user is %s", zero.Records[2].AppendJSON(nil))
			}
		})
	}
}

func TestVotersOfRecoveredLog(t *testing.T) {
	control := func(records ...raft.ControlRecord) raft.Recovered {
		return raft.Recovered{Control: []raft.Batch{{Control: records}}}
	}
	own := dirID(dirA)
	voters := func(id uuid.UUID) raft.Voters {
		return raft.Voters{Voters: []raft.Voter{{Key: raft.ReplicaKey{NodeID: 1, DirectoryID: id}}, {Key: raft.ReplicaKey{NodeID: 2, DirectoryID: dirID(dirB)}}}}
	}
	elected := raft.LeaderChange{LeaderID: 1, Voters: []raft.NodeID{1, 2}}
	snapshot := raft.Recovered{Snapshots: []raft.Snapshot{{KRaftVersion: 1, Voters: voters(own).Voters}}}
	tests := []struct {
		reason    string
		s         settings
		recovered raft.Recovered
		voter     bool
		refused   bool
	}{
		{"an empty log", controllerOn("/d1"), raft.Recovered{}, false, false},
		{"a static voter", voterOn("/d1"), control(elected), true, false},
		{"a static voter whose voters were taken away", controllerOn("/d1"), control(elected), false, true},
		{"the same with a later leader that others elected", controllerOn("/d1"), control(elected, raft.LeaderChange{LeaderID: 2, Voters: []raft.NodeID{2, 3}}), false, false},
		{"an observer of a static quorum", controllerOn("/d1"), control(raft.LeaderChange{LeaderID: 2, Voters: []raft.NodeID{2}}), false, false},
		{"a broker", brokerOn("/d1"), control(elected), false, false},
		{"a voter of kraft.version 1", controllerOn("/d1"), control(elected, raft.KRaftVersion{Version: 1}, voters(own)), true, false},
		{"a voter whose directory is another", controllerOn("/d1"), control(elected, raft.KRaftVersion{Version: 1}, voters(dirID(dirC))), false, false},
		{"a voter by its snapshot", controllerOn("/d1"), snapshot, true, false},
		{"a voter that was removed behind the snapshot", controllerOn("/d1"), raft.Recovered{Snapshots: snapshot.Snapshots, Control: control(raft.Voters{Voters: voters(own).Voters[1:]}, elected).Control}, false, false},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			sets := test.s.voterSets(test.recovered)
			if got := test.s.isVoter(sets[len(sets)-1], own); got != test.voter {
				t.Errorf("isVoter is %v", got)
			}
			err := checkVoters(&test.s, test.recovered)
			if (err != nil) != test.refused {
				t.Fatalf("%v", err)
			}
			if err == nil {
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || !strings.Contains(e.What, "kraft.version is 0 and no voters are configured") || !strings.Contains(e.Fix, "put controller.quorum.voters back") || !strings.Contains(e.Fix, "kraft.version=1") {
				t.Errorf("%#v", err)
			}
		})
	}
}
