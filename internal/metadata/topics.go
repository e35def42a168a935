package metadata

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
	"kstorage/internal/record"
)

// topics is all topics.
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

func (t *topic) find(id int32) (index int, ok bool) {
	return slices.BinarySearchFunc(t.partitions, id, func(p partition, id int32) int { return cmp.Compare(p.id(), id) })
}

// partition is the state of a partition as an encoded PartitionRecord of the newest version, without what is the same in all
// of a topic: a cluster can have a million of them.
//
//	in the record:  frame, apiKey, version | PartitionId int32 | TopicId | Replicas | all else
//	here:           PartitionId int32 | Replicas | all else
type partition string

const (
	partitionIDBytes = 4
	topicIDBytes     = 16
)

// partitionHead is frame, apiKey and version.
var partitionHead = []byte{record.FrameVersion, byte(record.Partition.Key), byte(record.Partition.Latest)}

// partitionOf takes what it keeps out of value, which it overwrites.
func partitionOf(value []byte) partition {
	id := value[len(partitionHead):][:partitionIDBytes]
	kept := value[len(partitionHead)+topicIDBytes:]
	copy(kept, id)
	return partition(kept)
}

func (p partition) id() int32 { return int32At(p, 0) }

// replicas returns the brokers that have a replica, four bytes each.
func (p partition) replicas() partition {
	// Behind them there are more bytes than the longest length has.
	length, size := binary.Uvarint([]byte(p[partitionIDBytes : partitionIDBytes+binary.MaxVarintLen32]))
	return p[partitionIDBytes+size:][:4*(length-1)]
}

func (p partition) hasReplica(broker int32) bool {
	list := p.replicas()
	for at := 0; at < len(list); at += 4 {
		if int32At(list, at) == broker {
			return true
		}
	}
	return false
}

func int32At(p partition, at int) int32 { return int32(binary.BigEndian.Uint32([]byte(p[at : at+4]))) }

// partitionDecoder decodes partitions into memory that it uses again: a record is valid until the next one.
type partitionDecoder struct {
	value   []byte
	decoder record.Decoder
}

func (d *partitionDecoder) decode(topic uuid.UUID, p partition) record.Record {
	d.value = append(slices.Grow(d.value[:0], len(partitionHead)+topicIDBytes+len(p)), partitionHead...)
	d.value = append(d.value, p[:partitionIDBytes]...)
	d.value = append(d.value, topic[:]...)
	d.value = append(d.value, p[partitionIDBytes:]...)
	return mustDecode(&d.decoder, d.value)
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

// countReplicas adds n to the partitions that the brokers of p have a replica of.
func (i *Image) countReplicas(p partition, n int) {
	list := p.replicas()
	brokers := make([]int32, 0, 8)
	for at := 0; at < len(list); at += 4 {
		brokers = append(brokers, int32At(list, at))
	}
	slices.Sort(brokers)
	for _, b := range slices.Compact(brokers) {
		if i.topics.brokerReplicas[b] += n; i.topics.brokerReplicas[b] == 0 {
			delete(i.topics.brokerReplicas, b)
		}
	}
}

func (i *Image) dropReplicas(t *topic) {
	for _, p := range t.partitions {
		i.countReplicas(p, -1)
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
	r := i.decoder.decode(t.id, t.partitions[at])
	replicas := r.Len("Replicas")
	for _, field := range replicaFields {
		if !change.Null(field) {
			r.SetInt32s(field, change.Int32s(field))
		}
	}
	switch {
	case !change.Null("Directories"):
		r.SetUUIDs("Directories", change.UUIDs("Directories"))
	case !change.Null("Replicas") && replicas != r.Len("Replicas"):
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
	replicas, directories := r.Len("Replicas"), r.Len("Directories")
	if directories != 0 && directories != replicas {
		return fmt.Errorf("%d directories for %d replicas", directories, replicas)
	}
	r.Version = r.Message.Latest
	value, err := r.AppendValue(i.encoded[:0])
	if err != nil {
		return err
	}
	emptyELR := func(field string) bool { return !r.Null(field) && r.Len(field) == 0 }
	if directories < replicas || slices.ContainsFunc(elrFields, emptyELR) {
		var d record.Decoder
		r = mustDecode(&d, bytes.Clone(value))
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
	i.encoded = value
	p := partitionOf(value)
	at, ok := t.find(p.id())
	if !ok {
		t.partitions = slices.Insert(t.partitions, at, p)
		i.countReplicas(p, 1)
		return nil
	}
	if old := t.partitions[at]; old.replicas() != p.replicas() {
		i.countReplicas(old, -1)
		i.countReplicas(p, 1)
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
	var d partitionDecoder
	for _, p := range i.topics.byID.rows[id].partitions {
		r := d.decode(id, p)
		if r.Len("EligibleLeaderReplicas") == 0 && r.Len("LastKnownElr") == 0 {
			continue
		}
		change := record.New(record.PartitionChange, record.PartitionChange.Latest)
		change.SetInt("PartitionId", int64(p.id()))
		change.SetUUID("TopicId", id)
		change.SetInt32s("EligibleLeaderReplicas", nil)
		change.SetInt32s("LastKnownElr", nil)
		if err := i.changePartition(change); err != nil {
			return err
		}
	}
	return nil
}
