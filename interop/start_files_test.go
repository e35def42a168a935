//go:build interop

package interop

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// manySnapshots are settings with which a controller writes a record every 5 ms, and every node a snapshot twice in a
// second.
var manySnapshots = []string{"metadata.max.idle.interval.ms=5", "metadata.log.max.record.bytes.between.snapshots=6000"}

// snapshots are the paths of the snapshots of n, ascending, without the zero one.
func snapshots(t *testing.T, n *node) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(n.metadataDir(), "*.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(paths, func(p string) bool {
		return strings.HasPrefix(filepath.Base(p), "00000000000000000000-")
	})
}

// waitSnapshots waits until n has count more snapshots than now.
func waitSnapshots(t *testing.T, n *node, count int) {
	t.Helper()
	old := ""
	if paths := snapshots(t, n); len(paths) > 0 {
		old = slices.Max(paths)
	}
	eventually(t, fmt.Sprintf("%d snapshots of node %d", count, n.id), func() error {
		paths := snapshots(t, n)
		if newer := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p <= old }); len(newer) < count {
			return fmt.Errorf("%q", paths)
		}
		return nil
	})
}

// waitSnapshotOfAll waits until n has a snapshot of all that was in the leader's log when this was called.
func waitSnapshotOfAll(t *testing.T, n *node, controllers ...*node) {
	t.Helper()
	q := waitQuorum(t, "a leader", controllers, anyLeader)
	leader, _ := q.replica(q.leader)
	eventually(t, fmt.Sprintf("a snapshot of node %d up to offset %d", n.id, leader.end), func() error {
		paths := snapshots(t, n)
		if len(paths) == 0 {
			return errors.New("there is none")
		}
		digits, _, _ := strings.Cut(filepath.Base(slices.Max(paths)), "-")
		end, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && end < leader.end {
			err = fmt.Errorf("it ends at %d", end)
		}
		return err
	})
}

// TestKafkaReadsStarted lets DumpLogSegments read the logs and snapshots of kstorage nodes, at each level.
func TestKafkaReadsStarted(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			folder := t.TempDir()
			controller := newNode(t, folder, 1, "controller", []string{"d1"}, manySnapshots...)
			broker := newNode(t, folder, 2, "broker", []string{"d1", "d2"}, manySnapshots...).plaintext()
			observer := newNode(t, folder, 3, "controller", []string{"d1"}, manySnapshots...)
			quorum := bootstrapServers(controller)
			byKstorage.format(t, controller.write(t, quorum), slices.Concat([]string{"-r", level, "-s"}, scram)...)
			byKstorage.format(t, broker.write(t, quorum), "-r", level)
			byKstorage.format(t, observer.write(t, quorum), "-r", level, "-N")
			nodes := []*node{controller, broker, observer}
			servers := startAll(t, ofKstorage, controller, broker)
			stopInOrder(t, unhindered, servers[1]) // leaves records, too
			waitSnapshots(t, controller, 1)
			servers = append(servers, startAll(t, ofKstorage, observer)...)
			if len(snapshots(t, observer)) == 0 {
				t.Error("the observer should have begun with a snapshot")
			}
			for _, n := range []*node{controller, observer} {
				waitSnapshots(t, n, 2)
			}
			killServers(servers...)

			checkInfo(t, nodes...)
			types := map[string]int{}
			for _, n := range nodes {
				maps.Copy(types, checkDumps(t, n))
			}
			want := []string{
				"LeaderChange v0", "KRaftVersion v0", "KRaftVoters v0", "SnapshotHeader v0", "SnapshotFooter v0",
				"FEATURE_LEVEL_RECORD v0", "NO_OP_RECORD v0", "USER_SCRAM_CREDENTIAL_RECORD v0",
				"REGISTER_CONTROLLER_RECORD v0", "BROKER_REGISTRATION_CHANGE_RECORD v0",
			}
			if level == "4.4-IV2" {
				want = append(want, "REGISTER_BROKER_RECORD v4", "BROKER_REGISTRATION_CHANGE_RECORD v3")
			}
			for _, kind := range want {
				if types[kind] == 0 {
					t.Errorf("no %s was written, only %v", kind, types)
				}
			}
		})
	}
}
