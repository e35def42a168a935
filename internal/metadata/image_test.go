package metadata

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"kstorage/features"
	"kstorage/internal/record"
)

// everyRecord returns a record of each kind, in an order in which an image takes them.
func everyRecord() []record.Record {
	var list []record.Record
	for key := range int16(64) {
		m := record.Lookup(key)
		if m == nil || m == record.UnregisterBroker || m == record.RemoveTopic || m == record.RemoveAccessControlEntry {
			continue
		}
		r := record.New(m, m.Latest)
		switch m {
		case record.FeatureLevel:
			r = version(35)
		case record.Partition, record.PartitionChange:
			r.SetInt("PartitionId", 0)
		}
		list = append(list, r)
	}
	// Removals last: their apiKeys come before those of what they remove, or their subjects would be missing.
	for _, m := range []*record.Message{record.UnregisterBroker, record.RemoveTopic, record.RemoveAccessControlEntry} {
		list = append(list, record.New(m, 0))
	}
	return list
}

func TestEveryRecordIsReplayed(t *testing.T) {
	i := NewImage()
	for at, r := range everyRecord() {
		if err := i.Replay(r, 0); err != nil {
			t.Errorf("record %d: %v", at, err)
		}
	}
	if err := i.Replay(record.New(record.KRaftVersion, 0), 0); err == nil {
		t.Error("a control record was replayed")
	}
}

func TestBrokerRegistration(t *testing.T) {
	rack := "r1"
	dir := func(b byte) uuid.UUID { return uuid.UUID{0: b, 15: 1} }
	want := Broker{
		ID: 7, Epoch: 12, IncarnationID: dir(9),
		Endpoints: []Endpoint{{"PLAINTEXT", "h", 9092, 0}},
		Features:  []FeatureRange{{"metadata.version", 7, 35}},
		Rack:      &rack, Fenced: true,
		LogDirs:         []uuid.UUID{dir(0x80), dir(1), dir(2)}, // ids are signed numbers
		CordonedLogDirs: []uuid.UUID{dir(2), dir(1)},
	}
	unsorted := want
	unsorted.LogDirs = []uuid.UUID{dir(2), dir(0x80), dir(1)}
	i := NewImage()
	change := func(fields func(r record.Record)) {
		t.Helper()
		r := record.New(record.BrokerRegistrationChange, 3)
		r.SetInt("BrokerId", 7)
		r.SetInt("BrokerEpoch", 12)
		fields(r)
		if err := i.Replay(r, 1); err != nil {
			t.Fatal(err)
		}
		if got := i.Broker(7); !reflect.DeepEqual(*got, want) {
			t.Fatalf("%+v, want %+v", *got, want)
		}
	}
	if err := i.Replay(unsorted.Record(35), 0); err != nil {
		t.Fatal(err)
	}
	registered := i.Broker(7)
	was := *registered
	change(func(record.Record) {})
	want.Fenced = false
	change(func(r record.Record) { r.SetInt("Fenced", -1) })
	want.InControlledShutdown = true
	change(func(r record.Record) { r.SetInt("InControlledShutdown", 1) })
	want.CordonedLogDirs = []uuid.UUID{}
	change(func(r record.Record) { r.SetUUIDs("CordonedLogDirs", nil) })
	want.LogDirs = []uuid.UUID{dir(1)}
	change(func(r record.Record) { r.SetUUIDs("LogDirs", want.LogDirs) })
	want.Fenced = true
	change(func(r record.Record) { r.SetInt("Fenced", 1) })
	if !reflect.DeepEqual(*registered, was) {
		t.Error("a registration that was handed out has changed")
	}
	if i.Broker(8) != nil || len(i.Brokers()) != 1 {
		t.Error(i.Brokers())
	}
}

func TestRegisterBrokerVersions(t *testing.T) {
	b := &Broker{ID: 1, Fenced: true}
	for v, want := range map[features.MetadataVersion]int16{7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4, 35: 4} {
		if r := b.Record(v); r.Version != want {
			t.Errorf("%s: version %d, want %d", v, r.Version, want)
		}
	}
}

func TestPartitionsOfABroker(t *testing.T) {
	i := NewImage()
	replay := func(r record.Record) {
		t.Helper()
		if err := i.Replay(r, i.Offset+1); err != nil {
			t.Fatal(err)
		}
	}
	id := uuid.UUID{1}
	topic := record.New(record.Topic, 0)
	topic.SetUUID("TopicId", id)
	topic.SetText("Name", "t")
	state := func(m *record.Message, partition int64, replicas ...int32) record.Record {
		r := record.New(m, 0)
		r.SetInt("PartitionId", partition)
		r.SetUUID("TopicId", id)
		r.SetInt32s("Replicas", replicas)
		return r
	}
	check := func(reason string, broker int32, want ...int64) {
		t.Helper()
		var got []int64
		for r := range i.Partitions(broker) {
			got = append(got, r.Int("PartitionId"))
		}
		if !slices.Equal(got, want) || i.Replicas(broker) != len(want) {
			t.Errorf("%s: broker %d has %v and %d replicas, want %v", reason, broker, got, i.Replicas(broker), want)
		}
	}
	check("no topics", 1)
	replay(topic)
	replay(state(record.Partition, 5, 1, 2))
	replay(state(record.Partition, 0, 2, 2, 3))
	check("created", 1, 5)
	check("created", 2, 0, 5)
	replay(state(record.PartitionChange, 5, 3, 2))
	check("reassigned", 1)
	check("reassigned", 3, 0, 5)
	replay(state(record.Partition, 0, 1))
	check("replaced", 3, 5)
	clone := i.Clone()
	remove := record.New(record.RemoveTopic, 0)
	remove.SetUUID("TopicId", id)
	replay(remove)
	check("removed", 3)
	if i.Replicas(3) != 0 || clone.Replicas(3) != 1 {
		t.Errorf("replicas %d, of the clone %d", i.Replicas(3), clone.Replicas(3))
	}
}

// TestCloneElsewhere is for the race detector: a snapshot is written from a clone while the log goes on.
func TestCloneElsewhere(t *testing.T) {
	l := newTestLoader()
	log := &logBuilder{}
	replayAll(t, l, log.batch(everyRecord()[:5]...), log.batch(version(33)))
	id, topic := benchTopic(1)
	replayAll(t, l, log.batch(topic, benchPartition(record.Partition, id, 0), benchBroker(1)))
	clone := l.Image().Clone()
	done := make(chan []byte)
	go func() { done <- snapshotOf(t, clone) }()
	for range 20 {
		replayAll(t, l, log.batch(benchPartition(record.PartitionChange, id, 0), benchBroker(1)))
		replayAll(t, l, log.batch(config("A", "x"), feature("group.version", 1)))
		replayAll(t, l, log.batch(benchPartition(record.Partition, id, 1), benchBroker(2)))
		clone := l.Image().Clone() // by turns with another owner
		if err := clone.Replay(benchPartition(record.Partition, id, 2), 0); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(<-done, snapshotOf(t, clone)) {
		t.Error("the clone has changed")
	}
}

func TestScramUsers(t *testing.T) {
	i := NewImage()
	for _, u := range []ScramUser{{"b", 2}, {"b", 1}, {"a", 2}} {
		r := record.New(record.UserScramCredential, 0)
		r.SetText("Name", u.Name)
		r.SetInt("Mechanism", int64(u.Mechanism))
		if err := i.Replay(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := i.ScramUsers(), []ScramUser{{"b", 1}, {"a", 2}, {"b", 2}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestConfigured(t *testing.T) {
	i := NewImage()
	for _, r := range []struct {
		kind           int8
		resource, name string
	}{{BrokerConfig, "2", "x"}, {BrokerConfig, "", "x"}, {BrokerConfig, "11", "x"}, {BrokerConfig, "3", "y"}, {TopicConfig, "t", "x"}, {BrokerConfig, "gone", "x"}} {
		c := record.New(record.Config, 0)
		c.SetInt("ResourceType", int64(r.kind))
		c.SetText("ResourceName", r.resource)
		c.SetText("Name", r.name)
		c.SetText("Value", "1")
		if err := i.Replay(c, 0); err != nil {
			t.Fatal(err)
		}
		if c.SetNull("Value"); r.resource == "gone" {
			if err := i.Replay(c, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := i.Configured(BrokerConfig, "x"), []string{"", "11", "2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestClientMetrics(t *testing.T) {
	log := &logBuilder{epoch: 3}
	l := newTestLoader()
	subscription := func(name, key string, value *string) record.Record {
		r := record.New(record.Config, 0)
		r.SetInt("ResourceType", int64(ClientMetricsConfig))
		r.SetText("ResourceName", name)
		r.SetText("Name", key)
		r.SetNull("Value")
		if value != nil {
			r.SetText("Value", *value)
		}
		return r
	}
	interval := "1000"
	steps := []struct {
		name    string
		record  record.Record
		changes bool
		want    map[string]map[string]string
	}{
		{"another record", version(33), false, map[string]map[string]string{}},
		{"a subscription", subscription("s", "interval.ms", &interval), true, map[string]map[string]string{"s": {"interval.ms": "1000"}}},
		{"another configuration", config("t", "v"), false, map[string]map[string]string{"s": {"interval.ms": "1000"}}},
		{"the subscription goes", subscription("s", "interval.ms", nil), true, map[string]map[string]string{}},
	}
	for _, step := range steps {
		before := l.Image().ClientMetricsOffset()
		if err := l.Replay(log.batch(step.record)); err != nil {
			t.Fatal(err)
		}
		image := l.Image()
		if got := maps.Collect(image.ClientMetrics()); !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: %v", step.name, got)
		}
		if changed := image.ClientMetricsOffset() != before; changed != step.changes || changed && image.ClientMetricsOffset() != image.Offset {
			t.Errorf("%s: offset %d, before %d, of the image %d", step.name, image.ClientMetricsOffset(), before, image.Offset)
		}
	}
}
