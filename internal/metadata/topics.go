package metadata

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
	"kstorage/internal/record"
)

// topics is all topics. Partitions are kept as encoded records: a cluster can have hundreds of thousands of them, and
// this node acts on none.
type topics struct {
	byID           table[uuid.UUID, *topic]
	brokerReplicas map[int32]int // partitions with a replica on the broker; none is 0
}

type topic struct {
	owner      *owner
	id         uuid.UUID
	name       string
	partitions []partition // by id
}

type partition struct {
	id    int32
	value string // PartitionRecord, its newest version
}

func (t *topic) find(id int32) (index int, ok bool) {
	return slices.BinarySearchFunc(t.partitions, id, func(p partition, id int32) int { return cmp.Compare(p.id, id) })
}

// sortedTopics returns the topics by name.
func (i *Image) sortedTopics() []*topic {
	list := make([]*topic, 0, len(i.topics.byID.rows))
	for _, t := range i.topics.byID.rows {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *topic) int {
		return cmp.Or(strings.Compare(a.name, b.name), slices.Compare(a.id[:], b.id[:]))
	})
	return list
}

// partitions returns the partitions of all topics. A record is valid until the next one.
func (i *Image) partitions() iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		var d record.Decoder
		for _, t := range i.sortedTopics() {
			for _, p := range t.partitions {
				if !yield(mustDecode(&d, p.value)) {
					return
				}
			}
		}
	}
}

// writableTopic returns a topic to be changed, nil if there is none.
func (i *Image) writableTopic(id uuid.UUID) *topic {
	t := i.topics.byID.rows[id]
	if t == nil || t.owner == i.owner {
		return t
	}
	c := &topic{owner: i.owner, id: t.id, name: t.name, partitions: slices.Clone(t.partitions)}
	i.topics.byID.writable(i.owner)[id] = c
	return c
}

// countReplicas adds n to the partitions that brokers have a replica of.
func (i *Image) countReplicas(r record.Row, n int) {
	brokers := r.Int32s("Replicas")
	slices.Sort(brokers)
	for _, b := range slices.Compact(brokers) {
		if i.topics.brokerReplicas[b] += n; i.topics.brokerReplicas[b] == 0 {
			delete(i.topics.brokerReplicas, b)
		}
	}
}

func (i *Image) dropReplicas(t *topic) {
	var d record.Decoder
	for _, p := range t.partitions {
		i.countReplicas(mustDecode(&d, p.value).Row, -1)
	}
}

// addTopic replays a TopicRecord. Of a topic that is there it removes the partitions, as in Kafka.
func (i *Image) addTopic(r record.Record) {
	id := r.UUID("TopicId")
	if old := i.topics.byID.rows[id]; old != nil {
		i.dropReplicas(old)
	}
	i.topics.byID.writable(i.owner)[id] = &topic{owner: i.owner, id: id, name: r.Text("Name")}
}

// removeTopic replays a RemoveTopicRecord: the topic's configuration goes too. Unlike Kafka: there it stays if it was set
// since the last published image, so that the state depends on how many batches a node replays at once.
func (i *Image) removeTopic(r record.Record) error {
	id := r.UUID("TopicId")
	t := i.topics.byID.rows[id]
	if t == nil {
		return noTopic(id)
	}
	i.dropReplicas(t)
	delete(i.topics.byID.writable(i.owner), id)
	if resource := (configResource{TopicConfig, t.name}); i.configs.rows[resource] != nil {
		delete(i.configs.writable(i.owner), resource)
	}
	return nil
}

func noTopic(id uuid.UUID) error { return fmt.Errorf("no topic with the id %s", kafkaid.String(id)) }

// setPartition replays a PartitionRecord.
func (i *Image) setPartition(r record.Record) error {
	t := i.writableTopic(r.UUID("TopicId"))
	if t == nil {
		return noTopic(r.UUID("TopicId"))
	}
	return i.storePartition(t, r)
}

// Values of a PartitionChangeRecord for what doesn't change.
const (
	noLeaderChange   = -2
	noRecoveryChange = -1
)

// replicaFields are lists of brokers that both records of a partition have.
var replicaFields = []string{
	"Replicas", "Isr", "RemovingReplicas", "AddingReplicas", "EligibleLeaderReplicas", "LastKnownElr",
}

// changePartition replays a PartitionChangeRecord: a field that it doesn't have stays.
func (i *Image) changePartition(change record.Record) error {
	t := i.writableTopic(change.UUID("TopicId"))
	if t == nil {
		return noTopic(change.UUID("TopicId"))
	}
	at, ok := t.find(int32(change.Int("PartitionId")))
	if !ok {
		return fmt.Errorf("topic %s has no partition %d", t.name, change.Int("PartitionId"))
	}
	var d record.Decoder
	r := mustDecode(&d, t.partitions[at].value)
	replicas := r.Int32s("Replicas")
	for _, field := range replicaFields {
		if !change.Null(field) {
			r.SetInt32s(field, change.Int32s(field))
		}
	}
	switch {
	case !change.Null("Directories"):
		r.SetUUIDs("Directories", change.UUIDs("Directories"))
	case !change.Null("Replicas") && len(replicas) != len(r.Int32s("Replicas")):
		r.SetUUIDs("Directories", nil)
	}
	if leader := change.Int("Leader"); leader != noLeaderChange {
		r.SetInt("Leader", leader)
		r.SetInt("LeaderEpoch", int64(int32(r.Int("LeaderEpoch")+1)))
	}
	if state := change.Int("LeaderRecoveryState"); state != noRecoveryChange {
		r.SetInt("LeaderRecoveryState", state)
	}
	r.SetInt("PartitionEpoch", int64(int32(r.Int("PartitionEpoch")+1)))
	return i.storePartition(t, r)
}

// elrFields are those of the eligible leader replicas; empty and null are the same, and null is kept. KIP-966.
var elrFields = []string{"EligibleLeaderReplicas", "LastKnownElr"}

// storePartition puts the state of a partition into t, which must be writable. It doesn't change r.
func (i *Image) storePartition(t *topic, r record.Record) error {
	if state := r.Int("LeaderRecoveryState"); state != 0 && state != 1 {
		return fmt.Errorf("unknown leader recovery state %d", state)
	}
	replicas, directories := len(r.Int32s("Replicas")), len(r.UUIDs("Directories"))
	if directories != 0 && directories != replicas {
		return fmt.Errorf("%d directories for %d replicas", directories, replicas)
	}
	r.Version = r.Message.Latest
	value, err := r.AppendValue(nil)
	if err != nil {
		return err
	}
	emptyELR := func(field string) bool { return !r.Null(field) && len(r.Int32s(field)) == 0 }
	if directories < replicas || slices.ContainsFunc(elrFields, emptyELR) {
		var d record.Decoder
		r = mustDecode(&d, string(value)) // a copy
		// A record of a version without directories leaves open in which ones the replicas are: the zero id says so.
		if directories < replicas {
			r.SetUUIDs("Directories", make([]uuid.UUID, replicas))
		}
		for _, field := range elrFields {
			if emptyELR(field) {
				r.SetNull(field)
			}
		}
		if value, err = r.AppendValue(value[:0]); err != nil {
			return err
		}
	}
	p := partition{id: int32(r.Int("PartitionId")), value: string(value)}
	at, ok := t.find(p.id)
	if !ok {
		t.partitions = slices.Insert(t.partitions, at, p)
		i.countReplicas(r.Row, 1)
		return nil
	}
	var d record.Decoder
	if old := mustDecode(&d, t.partitions[at].value); !slices.Equal(old.Int32s("Replicas"), r.Int32s("Replicas")) {
		i.countReplicas(old.Row, -1)
		i.countReplicas(r.Row, 1)
	}
	t.partitions[at] = p
	return nil
}

// clearELR replays a ClearElrRecord: the partitions of a topic, or of all topics, lose their eligible leader replicas.
func (i *Image) clearELR(r record.Record) error {
	name := r.Text("TopicName")
	var found bool
	for id, t := range i.topics.byID.rows {
		if name != "" && t.name != name {
			continue
		}
		found = true
		if err := i.clearTopicELR(id); err != nil {
			return err
		}
	}
	if name != "" && !found {
		return fmt.Errorf("no topic with the name %s", name)
	}
	return nil
}

func (i *Image) clearTopicELR(id uuid.UUID) error {
	var d record.Decoder
	for _, p := range i.topics.byID.rows[id].partitions {
		r := mustDecode(&d, p.value)
		if len(r.Int32s("EligibleLeaderReplicas")) == 0 && len(r.Int32s("LastKnownElr")) == 0 {
			continue
		}
		change := record.New(record.PartitionChange, record.PartitionChange.Latest)
		change.SetInt("PartitionId", int64(p.id))
		change.SetUUID("TopicId", id)
		change.SetInt32s("EligibleLeaderReplicas", nil)
		change.SetInt32s("LastKnownElr", nil)
		if err := i.changePartition(change); err != nil {
			return err
		}
	}
	return nil
}
