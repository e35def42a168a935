package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/controller"
	"kstorage/internal/disk"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
	"kstorage/internal/wire"
)

// loaded returns a metadata loop, run by the test, whose image has the records.
func loaded(t *testing.T, records ...record.Record) *cluster {
	t.Helper()
	var entries []record.Entry
	for _, r := range records {
		value, err := r.AppendValue(nil)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, record.Entry{Value: value})
	}
	c := &cluster{
		nodeID: 1, asked: raft.None, clusterID: "Wq9rPWnzQ4uv0sRyMKXc1w",
		box:    newMailbox[func() error](),
		loader: metadata.NewLoader(metadata.SnapshotPolicy{}, 0),
		views:  newViews(view{}),
		log:    slog.New(slog.DiscardHandler), strangers: newStrangers(raft.Config{}),
	}
	if err := c.loader.Replay(record.AppendBatch(nil, record.BatchHeader{}, entries...)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.box.ready:
			}
			for _, f := range c.box.take(nil) {
				f() //nolint:errcheck // what the test put there returns none
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return c
}

func finalized(name string, level int64) record.Record {
	r := record.New(record.FeatureLevel, 0)
	r.SetText("Name", name)
	r.SetInt("FeatureLevel", level)
	return r
}

func registered(id int64) record.Record {
	r := record.New(record.RegisterController, 0)
	r.SetInt("ControllerId", id)
	r.SetUUID("IncarnationId", uuid.UUID{15: byte(id)})
	e := r.Add("EndPoints")
	e.SetText("Name", "CONTROLLER")
	e.SetText("Host", "localhost")
	e.SetInt("Port", 9090+id)
	return r
}

// TestFetchedSnapshot: the piece of a snapshot that is asked for goes over the wire.
func TestFetchedSnapshot(t *testing.T) {
	l := newLab(t)
	n := l.start(labConfig(1, 1), disk.OS, t.TempDir())
	t.Cleanup(func() { kill(n) })
	l.leader(n)
	n.append(1)
	n.snapshot()
	id := n.status().Snapshots[0]
	want, err := os.ReadFile(n.log.SnapshotPath(id))
	if err != nil {
		t.Fatal(err)
	}
	h := &controllerHandler{quorum: n.q, views: newViews(view{clusterID: "lab"})}
	const from = 5
	p := kmsg.NewFetchSnapshotRequestTopicPartition()
	p.CurrentLeaderEpoch, p.Position = int32(n.status().Epoch), from
	p.SnapshotID.EndOffset, p.SnapshotID.Epoch = int64(id.EndOffset), int32(id.Epoch)
	q := kmsg.NewPtrFetchSnapshotRequest()
	q.ReplicaID, q.MaxBytes = 2, int32(len(want))
	q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.FetchSnapshotRequestTopicPartition{p}}}
	r := h.Handle(t.Context(), &wire.Request{Listener: "CONTROLLER", Body: q}).(*kmsg.FetchSnapshotResponse)
	if r.ErrorCode != 0 || len(r.Topics) != 1 {
		t.Fatalf("%+v", r)
	}
	if got := r.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.Size != int64(len(want)) || !bytes.Equal(got.Bytes, want[from:]) {
		t.Errorf("%+v", got)
	}
}

// TestDescribedController: who asks a controller learns a controller that may know more, also while there is no leader.
func TestDescribedController(t *testing.T) {
	c := loaded(t, finalized(features.MetadataVersionName, 33), registered(1), registered(2))
	at := func(id raft.NodeID) raft.LeaderChanged {
		return raft.LeaderChanged{LeaderID: id, StartOffset: raft.Unknown}
	}
	for _, test := range []struct {
		reason string
		leader raft.NodeID
		want   int32
	}{
		{"no leader was known yet", raft.None, -1},
		{"the leader", 2, 2},
		{"the leader has resigned", raft.None, 2},
		{"another one leads", 1, 1},
		{"the leader has not registered yet", 3, -1},
	} {
		if err := c.leaderChanged(at(test.leader)); err != nil {
			t.Fatal(err)
		}
		q := kmsg.NewPtrDescribeClusterRequest()
		q.Version, q.EndpointType = 2, controllerEndpoints
		r := describeCluster(t.Context(), c, c.views.get(), q, "CONTROLLER", controllerEndpoints).(*kmsg.DescribeClusterResponse)
		if r.ErrorCode != 0 || r.ControllerID != test.want || len(r.Brokers) != 2 {
			t.Errorf("%s: %+v", test.reason, r)
		}
	}
}

// TestTextsTooLongForRecords: what a peer sends does not stop the active controller.
func TestTextsTooLongForRecords(t *testing.T) {
	long := strings.Repeat("x", 1<<15)
	registration := func(name, host, feature string) kmsg.Request {
		q := kmsg.NewPtrControllerRegistrationRequest()
		q.Listeners = []kmsg.ControllerRegistrationRequestListener{{Name: name, Host: host, Port: 9093}}
		q.Features = []kmsg.ControllerRegistrationRequestFeature{{Name: feature}}
		return q
	}
	broker := kmsg.NewPtrBrokerRegistrationRequest()
	broker.ClusterID, broker.Rack, broker.LogDirs = clusterA, &long, [][16]byte{dirID(dirA)}
	broker.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: features.MetadataVersionName, MinSupportedVersion: 7, MaxSupportedVersion: 33}}
	for _, q := range []kmsg.Request{
		registration(long, "localhost", "a"), registration("CONTROLLER", long, "a"), registration("CONTROLLER", "localhost", long), broker,
	} {
		c := loaded(t, finalized(features.MetadataVersionName, 33))
		answers := make(chan kmsg.Response, 1)
		if err := c.do(t.Context(), func() {
			c.active = &active{controller: controller.New(controller.Config{NodeID: 1, ClusterID: clusterA}, c.loader.Image().Clone(), 1, 0, false)}
			if err := c.decide(q, answers); err != nil {
				t.Errorf("%s stops the node: %v", kmsg.NameForKey(q.Key()), err)
				return
			}
			switch r := (<-answers).(type) {
			case *kmsg.ControllerRegistrationResponse:
				if r.ErrorCode != codeInvalidRequest {
					t.Errorf("%+v", r)
				}
			case *kmsg.BrokerRegistrationResponse:
				if r.ErrorCode != codeInvalidRequest {
					t.Errorf("%+v", r)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLevelOnTheWay: a voter without an id stops for a level that carries none once it has all that the leader has
// committed. Before, an upgrade may be on the way.
func TestLevelOnTheWay(t *testing.T) {
	c := loaded(t, finalized(features.MetadataVersionName, 33))
	if err := c.do(t.Context(), func() {
		c.clusterID, c.isVoter, c.snapshotting = "", true, true
		if err := c.publish(); err != nil {
			t.Errorf("when the level is loaded: %v", err)
		}
		if err := c.effect(raft.Committed{Behind: true}); err != nil {
			t.Errorf("behind the leader: %v", err)
		}
		if _, ok := errors.AsType[*Error](c.effect(raft.Committed{})); !ok {
			t.Error("the voter goes on")
		}
	}); err != nil {
		t.Fatal(err)
	}
}
