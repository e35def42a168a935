package metadata

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/record"
)

// eligibleReplicasFeature is the feature without which snapshots have no eligible leader replicas. KIP-966.
const eligibleReplicasFeature = "eligible.leader.replicas.version"

// WriteSnapshot appends the records of the image to w, in portions as Kafka's. The image must be a published one that
// has a metadata.version. Errors: *InvariantError, *record.RecordError (a value for which that version has no field:
// its level was lowered, which Kafka doesn't allow), those of w.
func (i *Image) WriteSnapshot(w *checkpoint.Writer) error {
	v, ok := i.MetadataVersion()
	if !ok {
		return errors.New("snapshot of an image without a metadata.version")
	}
	if err := i.Check(); err != nil {
		return err
	}
	p := &portions{w: w}
	i.appendCluster(p, v)
	i.appendTopics(p, v)
	i.appendConfigs(p)
	i.appendKept(p, keptQuotas)
	if i.nextProducerID >= 0 {
		r := record.New(record.ProducerIds, 0)
		r.SetInt("BrokerId", -1) // which broker got the last ones is not of the state
		r.SetInt("NextProducerId", i.nextProducerID)
		p.record(r)
	}
	i.appendKept(p, keptACLs)
	i.appendKept(p, keptScram)
	i.appendKept(p, keptTokens)
	p.flush()
	return p.err
}

// appendCluster appends features, the cluster's id and registrations.
func (i *Image) appendCluster(p *portions, v features.MetadataVersion) {
	p.value(checkpoint.FeatureLevel(features.MetadataVersionName, int16(v)))
	for _, f := range i.FinalizedFeatures() {
		if f.Name != features.MetadataVersionName {
			p.value(checkpoint.FeatureLevel(f.Name, f.Level))
		}
	}
	if i.clusterID != "" {
		p.value(checkpoint.ClusterID(i.clusterID))
	}
	for _, b := range i.Brokers() {
		p.record(b.Record(v))
	}
	for _, c := range i.Controllers() {
		p.record(c.Record())
	}
}

func (i *Image) appendTopics(p *portions, v features.MetadataVersion) {
	version := partitionVersion(v)
	elr := i.levels[eligibleReplicasFeature] > 0
	var d partitionDecoder
	for _, t := range i.sortedTopics() {
		r := record.New(record.Topic, 0)
		r.SetText("Name", t.name)
		r.SetUUID("TopicId", t.id)
		p.record(r)
		for _, part := range t.partitions {
			r := d.decode(t.id, part)
			r.Version = version
			if !elr {
				for _, field := range elrFields {
					r.SetNull(field)
				}
			}
			if version == 0 && !slices.ContainsFunc(r.UUIDs("Directories"), func(id uuid.UUID) bool { return id != uuid.Nil }) {
				r.SetUUIDs("Directories", nil)
			}
			p.record(r)
		}
	}
}

func (i *Image) appendConfigs(p *portions) {
	for _, resource := range slices.SortedFunc(maps.Keys(i.configs.rows), configResource.compare) {
		values := i.configs.rows[resource]
		for _, name := range slices.Sorted(maps.Keys(values)) {
			r := record.New(record.Config, 0)
			r.SetInt("ResourceType", int64(resource.kind))
			r.SetText("ResourceName", resource.name)
			r.SetText("Name", name)
			r.SetText("Value", values[name])
			p.record(r)
		}
	}
}

func (i *Image) appendKept(p *portions, kind int) {
	rows := i.kept[kind].rows
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		p.value([]byte(rows[key]))
	}
}

// portions appends records to a snapshot in portions as Kafka does, and remembers the first error.
type portions struct {
	w      *checkpoint.Writer
	values [][]byte
	memory []byte // that encoded values of the portion are in
	err    error
}

func (p *portions) record(r record.Record) {
	if p.err != nil {
		return
	}
	start := len(p.memory)
	var err error
	if p.memory, err = r.AppendValue(p.memory); err != nil {
		p.err = fmt.Errorf("snapshot: %w", err)
		return
	}
	p.value(p.memory[start:])
}

func (p *portions) value(v []byte) {
	if p.values = append(p.values, v); len(p.values) == checkpoint.PortionRecords {
		p.flush()
	}
}

func (p *portions) flush() {
	if p.err == nil && len(p.values) > 0 {
		p.err = p.w.Append(p.values...)
	}
	p.values, p.memory = p.values[:0], p.memory[:0]
}
