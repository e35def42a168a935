//go:build bench && linux

package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math/rand/v2"
	"os"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// A cluster of a million records: 60 brokers, 50,000 topics with two configurations and 16 partitions of three replicas
// each, and ACLs.
const (
	manyRecords        = 1_000_000
	manyBrokers        = 60
	manyTopics         = 50_000
	partitionsPerTopic = 16
)

// manyRequests returns the records of the cluster at metadata.version v, as much at a time as one request of a client
// changes. They are the same each time.
func manyRequests(v features.MetadataVersion) iter.Seq[[]record.Record] {
	return func(yield func([]record.Record) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		newID := func() (id uuid.UUID) {
			binary.BigEndian.PutUint64(id[:], random.Uint64())
			binary.BigEndian.PutUint64(id[8:], random.Uint64())
			return id
		}
		left := manyRecords
		request := func(records ...record.Record) bool {
			left -= len(records)
			return yield(records)
		}
		var directories []uuid.UUID // of the brokers
		for b := range manyBrokers {
			broker := &metadata.Broker{
				ID: int32(b), Epoch: int64(100 + b), IncarnationID: newID(), LogDirs: []uuid.UUID{newID()}, CordonedLogDirs: []uuid.UUID{},
				Endpoints: []metadata.Endpoint{{Name: "PLAINTEXT", Host: fmt.Sprintf("broker-%d.kafka.example.org", b), Port: 9092}},
				Features:  []metadata.FeatureRange{{Name: features.MetadataVersionName, Min: int16(features.Minimum), Max: int16(v)}},
			}
			for _, f := range features.All() {
				broker.Features = append(broker.Features, metadata.FeatureRange{Name: f.Name(), Max: f.LatestLevel()})
			}
			directories = append(directories, broker.LogDirs[0])
			if !request(broker.Record(v)) {
				return
			}
		}
		for t := range manyTopics {
			name, id := fmt.Sprintf("team-%03d.orders-%d.v1", t%400, t), newID()
			topic := record.New(record.Topic, 0)
			topic.SetText("Name", name)
			topic.SetUUID("TopicId", id)
			records := []record.Record{topic, topicConfig(name, "retention.ms", "259200000"), topicConfig(name, "min.insync.replicas", "2")}
			for p := range partitionsPerTopic {
				records = append(records, partition(id, p, random.IntN(manyBrokers), directories))
			}
			if !request(records...) {
				return
			}
		}
		for a := 0; left > 0; a++ {
			if !request(acl(newID(), a)) {
				return
			}
		}
	}
}

func topicConfig(topic, name, value string) record.Record {
	r := record.New(record.Config, 0)
	r.SetInt("ResourceType", int64(metadata.TopicConfig))
	r.SetText("ResourceName", topic)
	r.SetText("Name", name)
	r.SetText("Value", value)
	return r
}

// partition returns a partition with replicas on three brokers, the first of which leads it.
func partition(topic uuid.UUID, id, first int, directories []uuid.UUID) record.Record {
	r := record.New(record.Partition, record.Partition.Latest)
	r.SetUUID("TopicId", topic)
	r.SetInt("PartitionId", int64(id))
	var replicas []int32
	var on []uuid.UUID
	for i := range 3 {
		b := (first + i) % len(directories)
		replicas = append(replicas, int32(b))
		on = append(on, directories[b])
	}
	r.SetInt32s("Replicas", replicas)
	r.SetInt32s("Isr", replicas)
	r.SetUUIDs("Directories", on)
	r.SetInt("Leader", int64(replicas[0]))
	r.SetInt("LeaderEpoch", 0)
	r.SetInt("PartitionEpoch", 0)
	return r
}

// acl returns an ACL that lets a user read a topic.
func acl(id uuid.UUID, n int) record.Record {
	const topic, literal, read, allow = 2, 3, 3, 3
	r := record.New(record.AccessControlEntry, 0)
	r.SetUUID("Id", id)
	r.SetInt("ResourceType", topic)
	r.SetText("ResourceName", fmt.Sprintf("team-%03d.orders-%d.v1", n%400, n%manyTopics))
	r.SetInt("PatternType", literal)
	r.SetText("Principal", fmt.Sprintf("User:service-%d", n))
	r.SetText("Host", "*")
	r.SetInt("Operation", read)
	r.SetInt("PermissionType", allow)
	return r
}

func values(records []record.Record) ([][]byte, error) {
	var list [][]byte
	for _, r := range records {
		value, err := r.AppendValue(nil)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// writeLog writes the records as batches of a log, one for each request, as a controller without linger does. It returns
// the offset behind the last one.
func writeLog(w io.Writer, h record.BatchHeader, v features.MetadataVersion) (end int64, err error) {
	var batch []byte
	for records := range manyRequests(v) {
		list, err := values(records)
		if err != nil {
			return 0, err
		}
		entries := make([]record.Entry, len(list))
		for i := range list {
			entries[i].Value = list[i]
		}
		batch = record.AppendBatch(batch[:0], h, entries...)
		if _, err := w.Write(batch); err != nil {
			return 0, err
		}
		h.BaseOffset += int64(len(records))
	}
	return h.BaseOffset, nil
}

// writeCheckpoint writes the records as a snapshot, behind those of the log with which the cluster began.
func writeCheckpoint(w io.Writer, h checkpoint.Header, began [][]byte, v features.MetadataVersion) error {
	out, err := checkpoint.NewWriter(w, h)
	if err != nil {
		return err
	}
	if err := out.Append(began...); err != nil {
		return err
	}
	for records := range manyRequests(v) {
		list, err := values(records)
		if err != nil {
			return err
		}
		if err := out.Append(list...); err != nil {
			return err
		}
	}
	return out.Close()
}

// contents is what of the records of manyRequests is somewhere: how many, and a sum that does not depend on their order.
type contents struct {
	records int
	sum     uint64
}

func (c *contents) add(r record.Record) {
	switch {
	case r.Message == record.Config && int8(r.Int("ResourceType")) != metadata.TopicConfig: // with which the cluster began
	case r.Message == record.Topic, r.Message == record.Partition, r.Message == record.Config, r.Message == record.AccessControlEntry:
		hash := fnv.New64a()
		hash.Write(r.AppendJSON(nil))
		c.records++
		c.sum += hash.Sum64()
	}
}

func manyContents(v features.MetadataVersion) (c contents) {
	for records := range manyRequests(v) {
		for _, r := range records {
			c.add(r)
		}
	}
	return c
}

func readContents(path string) (c contents, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	in, err := checkpoint.NewReader(f, path)
	if err != nil {
		return c, err
	}
	for raw, err := range in.Records() {
		if err != nil {
			return c, err
		}
		r, err := record.Decode(raw.Value)
		if err != nil {
			return c, err
		}
		c.add(r)
	}
	return c, nil
}
