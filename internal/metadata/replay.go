package metadata

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"kstorage/features"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// Replay applies a metadata record that stands at offset. Transactions are not known here: what stands between their
// markers is applied at once. The image keeps nothing of r's memory. Error: *ReplayError; then the image may have a
// part of the change.
func (i *Image) Replay(r record.Record, offset raft.Offset) error {
	if err := i.apply(r); err != nil {
		return &ReplayError{Offset: offset, Epoch: i.Epoch, Record: r.Message.Name, Err: err}
	}
	i.Offset = offset
	return nil
}

func (i *Image) apply(r record.Record) error {
	switch r.Message {
	case record.FeatureLevel:
		return i.setFeature(r)
	case record.ClusterID:
		i.clusterID = r.Text("ClusterId")
	case record.RegisterBroker:
		b := brokerOf(r)
		i.brokers[b.ID] = b
	case record.UnregisterBroker:
		b, err := i.brokerInEpoch(r.Int("BrokerId"), r.Int("BrokerEpoch"))
		if err != nil {
			return err
		}
		delete(i.brokers, b.ID)
	case record.BrokerRegistrationChange:
		return i.changeBroker(r)
	case record.FenceBroker, record.UnfenceBroker:
		b, err := i.brokerInEpoch(r.Int("Id"), r.Int("Epoch"))
		if err != nil {
			return err
		}
		changed := *b
		changed.Fenced = r.Message == record.FenceBroker
		i.brokers[b.ID] = &changed
	case record.RegisterController:
		c := controllerOf(r)
		i.controllers[c.ID] = c
	case record.UnregisterController:
		delete(i.controllers, int32(r.Int("ControllerId")))
	case record.Topic:
		i.addTopic(r)
	case record.RemoveTopic:
		return i.removeTopic(r)
	case record.Partition:
		return i.setPartition(r)
	case record.PartitionChange:
		return i.changePartition(r)
	case record.ClearElr:
		return i.clearELR(r)
	case record.Config:
		i.setConfig(r)
	case record.ProducerIds:
		i.nextProducerID = r.Int("NextProducerId")
	case record.ClientQuota:
		return i.keep(keptQuotas, r)
	case record.AccessControlEntry, record.RemoveAccessControlEntry:
		return i.keep(keptACLs, r)
	case record.UserScramCredential, record.RemoveUserScramCredential:
		return i.keep(keptScram, r)
	case record.DelegationToken, record.RemoveDelegationToken:
		return i.keep(keptTokens, r)
	case record.NoOp, record.ZkMigrationState, record.BeginTransaction, record.EndTransaction, record.AbortTransaction:
	default:
		return fmt.Errorf("no metadata record")
	}
	return nil
}

// setFeature replays a FeatureLevelRecord. Levels of features other than metadata.version are not looked up: nodes
// take part in a cluster only if they support its levels, which the controller sees to.
func (i *Image) setFeature(r record.Record) error {
	name, level := r.Text("Name"), int16(r.Int("FeatureLevel"))
	switch {
	case name == features.MetadataVersionName && !features.MetadataVersion(level).Known():
		return &features.UnknownLevelError{Level: features.Level{Name: name, Level: level}}
	case name == features.KRaftVersionName:
		return nil // it counts in control records only
	case level == 0:
		delete(i.levels, name)
	default:
		i.levels[name] = level
	}
	i.featuresChanged = true
	return nil
}

// setConfig replays a ConfigRecord. The values of a resource are few, so they are copied and not changed.
func (i *Image) setConfig(r record.Record) {
	resource := configResource{int8(r.Int("ResourceType")), r.Text("ResourceName")}
	values := maps.Clone(i.configs.rows[resource])
	if values == nil {
		values = map[string]string{}
	}
	if r.Null("Value") {
		delete(values, r.Text("Name"))
	} else {
		values[r.Text("Name")] = r.Text("Value")
	}
	i.metricsChanged = i.metricsChanged || resource.kind == ClientMetricsConfig
	rows := i.configs.writable(i.owner)
	if rows[resource] = values; len(values) == 0 {
		delete(rows, resource)
	}
}

func (i *Image) brokerInEpoch(id, epoch int64) (*Broker, error) {
	b := i.brokers[int32(id)]
	if b == nil {
		return nil, fmt.Errorf("broker %d is not registered", id)
	}
	if b.Epoch != epoch {
		return nil, fmt.Errorf("broker %d is registered with the epoch %d, not %d", id, b.Epoch, epoch)
	}
	return b, nil
}

// changeBroker replays a BrokerRegistrationChangeRecord: a field that it doesn't have stays.
func (i *Image) changeBroker(r record.Record) error {
	old, err := i.brokerInEpoch(r.Int("BrokerId"), r.Int("BrokerEpoch"))
	if err != nil {
		return err
	}
	b := *old
	switch change := r.Int("Fenced"); change {
	case 0:
	case 1, -1:
		b.Fenced = change == 1
	default:
		return fmt.Errorf("field Fenced is %d", change)
	}
	switch change := r.Int("InControlledShutdown"); change {
	case 0:
	case 1:
		b.InControlledShutdown = true
	default:
		return fmt.Errorf("field InControlledShutdown is %d", change)
	}
	if dirs := r.UUIDs("LogDirs"); len(dirs) > 0 {
		b.LogDirs = sortedIDs(dirs)
	}
	if !r.Null("CordonedLogDirs") {
		b.CordonedLogDirs = r.UUIDs("CordonedLogDirs")
	}
	i.brokers[b.ID] = &b
	return nil
}

func brokerOf(r record.Record) *Broker {
	b := &Broker{
		ID:                   int32(r.Int("BrokerId")),
		Epoch:                r.Int("BrokerEpoch"),
		IncarnationID:        r.UUID("IncarnationId"),
		Endpoints:            endpointsOf(r),
		Features:             rangesOf(r),
		Fenced:               r.Bool("Fenced"),
		InControlledShutdown: r.Bool("InControlledShutdown"),
		MigratingZooKeeper:   r.Bool("IsMigratingZkBroker"),
		LogDirs:              sortedIDs(r.UUIDs("LogDirs")),
		CordonedLogDirs:      r.UUIDs("CordonedLogDirs"),
	}
	if !r.Null("Rack") {
		rack := r.Text("Rack")
		b.Rack = &rack
	}
	return b
}

// Record returns the registration as a RegisterBrokerRecord of the version that belongs to metadata.version v.
func (b *Broker) Record(v features.MetadataVersion) record.Record {
	r := record.New(record.RegisterBroker, registerBrokerVersion(v))
	r.SetInt("BrokerId", int64(b.ID))
	r.SetInt("BrokerEpoch", b.Epoch)
	r.SetUUID("IncarnationId", b.IncarnationID)
	setNode(r, b.Endpoints, b.Features)
	r.SetNull("Rack")
	if b.Rack != nil {
		r.SetText("Rack", *b.Rack)
	}
	r.SetBool("Fenced", b.Fenced)
	r.SetBool("InControlledShutdown", b.InControlledShutdown)
	r.SetBool("IsMigratingZkBroker", b.MigratingZooKeeper)
	if len(b.LogDirs) > 0 {
		r.SetUUIDs("LogDirs", b.LogDirs)
	}
	if b.CordonedLogDirs != nil {
		r.SetUUIDs("CordonedLogDirs", b.CordonedLogDirs)
	}
	return r
}

func controllerOf(r record.Record) *Controller {
	return &Controller{
		ID:                int32(r.Int("ControllerId")),
		IncarnationID:     r.UUID("IncarnationId"),
		ReadyForZooKeeper: r.Bool("ZkMigrationReady"),
		Endpoints:         endpointsOf(r),
		Features:          rangesOf(r),
	}
}

// Record returns the registration as a RegisterControllerRecord.
func (c *Controller) Record() record.Record {
	r := record.New(record.RegisterController, 0)
	r.SetInt("ControllerId", int64(c.ID))
	r.SetUUID("IncarnationId", c.IncarnationID)
	r.SetBool("ZkMigrationReady", c.ReadyForZooKeeper)
	setNode(r, c.Endpoints, c.Features)
	return r
}

func endpointsOf(r record.Record) []Endpoint {
	var list []Endpoint
	for _, e := range r.Structs("EndPoints") {
		list = append(list, Endpoint{
			Name: e.Text("Name"), Host: e.Text("Host"), Port: uint16(e.Int("Port")),
			SecurityProtocol: int16(e.Int("SecurityProtocol")),
		})
	}
	return list
}

func rangesOf(r record.Record) []FeatureRange {
	var list []FeatureRange
	for _, f := range r.Structs("Features") {
		list = append(list, FeatureRange{
			Name: f.Text("Name"), Min: int16(f.Int("MinSupportedVersion")), Max: int16(f.Int("MaxSupportedVersion")),
		})
	}
	return list
}

func setNode(r record.Record, endpoints []Endpoint, ranges []FeatureRange) {
	for _, e := range endpoints {
		row := r.Add("EndPoints")
		row.SetText("Name", e.Name)
		row.SetText("Host", e.Host)
		row.SetInt("Port", int64(e.Port))
		row.SetInt("SecurityProtocol", int64(e.SecurityProtocol))
	}
	for _, f := range ranges {
		row := r.Add("Features")
		row.SetText("Name", f.Name)
		row.SetInt("MinSupportedVersion", int64(f.Min))
		row.SetInt("MaxSupportedVersion", int64(f.Max))
	}
}

// sortedIDs sorts ids as Kafka does: as two signed numbers of 64 bits.
func sortedIDs(ids []uuid.UUID) []uuid.UUID {
	half := func(id uuid.UUID, at int) int64 { return int64(binary.BigEndian.Uint64(id[at:])) }
	slices.SortFunc(ids, func(a, b uuid.UUID) int {
		return cmp.Or(cmp.Compare(half(a, 0), half(b, 0)), cmp.Compare(half(a, 8), half(b, 8)))
	})
	return ids
}

// Levels of metadata.version from which on records have fields that an older reader doesn't know.
const (
	zooKeeperMigration  features.MetadataVersion = 8  // 3.4-IV0, KIP-866
	directoryAssignment features.MetadataVersion = 17 // 3.7-IV2, KIP-858
	eligibleReplicas    features.MetadataVersion = 23 // 4.0-IV1, KIP-966
	cordonedLogDirs     features.MetadataVersion = 30 // 4.3-IV0, KIP-1066
)

func registerBrokerVersion(v features.MetadataVersion) int16 {
	switch {
	case v >= cordonedLogDirs:
		return 4
	case v >= directoryAssignment:
		return 3
	case v >= zooKeeperMigration:
		return 2
	}
	return 1
}

func partitionVersion(v features.MetadataVersion) int16 {
	switch {
	case v >= eligibleReplicas:
		return 2
	case v >= directoryAssignment:
		return 1
	}
	return 0
}
