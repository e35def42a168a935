package metadata

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"

	"kstorage/features"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// Image is the state of the cluster as of the record at Offset. One goroutine owns it; a Clone may go to another.
// What its methods return is shared with it and with its clones, and is not to be changed.
type Image struct {
	Offset    raft.Offset // of the last record, control records too; raft.Unknown: none
	Epoch     raft.Epoch  // of that record
	Timestamp int64       // of its batch, in milliseconds since the Unix epoch

	clusterID       string
	levels          map[string]int16 // of features; none is 0
	featuresOffset  raft.Offset
	featuresChanged bool // since the image was published
	metricsOffset   raft.Offset
	metricsChanged  bool // the subscriptions to client metrics, likewise
	brokers         map[int32]*Broker
	controllers     map[int32]*Controller
	nextProducerID  int64 // -1: no ProducerIdsRecord

	// A part is written in place only if it belongs to this owner, else it is copied before.
	owner   *owner
	topics  topics
	configs table[configResource, map[string]string] // a value is never changed
	kept    [len(keptKinds)]table[string, string]

	// Memory that is used again and again, of this image alone.
	decoder partitionDecoder
	encoded []byte
}

// Broker is the registration of a broker. It is never changed: a change of the registration makes a new one.
type Broker struct {
	ID                   int32
	Epoch                int64
	IncarnationID        uuid.UUID
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	MigratingZooKeeper   bool        // left over from KIP-866
	LogDirs              []uuid.UUID // sorted as Kafka sorts ids
	CordonedLogDirs      []uuid.UUID // sorted likewise; nil: null, the broker has said nothing about it. KIP-1066
}

// Controller is the registration of a controller. It is never changed.
type Controller struct {
	ID                int32
	IncarnationID     uuid.UUID
	ReadyForZooKeeper bool // left over from KIP-866
	Endpoints         []Endpoint
	Features          []FeatureRange
}

// Endpoint is where a listener of a node can be reached.
type Endpoint struct {
	Name             string // of the listener
	Host             string
	Port             uint16
	SecurityProtocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// FeatureRange is which levels of a feature a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Types of resources that have configurations.
const (
	TopicConfig  int8 = 2
	BrokerConfig int8 = 4 // the name "" stands for all brokers

	ClientMetricsConfig int8 = 16 // a subscription, KIP-714
)

// ScramUser is a user that has a credential for a mechanism.
type ScramUser struct {
	Name      string
	Mechanism int8 // 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
}

// NewImage returns the image of an empty log.
func NewImage() *Image {
	return &Image{
		Offset:         raft.Unknown,
		levels:         map[string]int16{},
		featuresOffset: raft.Unknown,
		metricsOffset:  raft.Unknown,
		brokers:        map[int32]*Broker{},
		controllers:    map[int32]*Controller{},
		nextProducerID: -1,
		owner:          new(owner),
		topics:         topics{brokerReplicas: map[int32]int{}},
	}
}

// Clone returns an image that can be changed apart from i. Topics, configurations and what is kept by key are copied
// when one of both is about to change them, so a clone costs little.
func (i *Image) Clone() *Image {
	c := *i
	c.levels = maps.Clone(i.levels)
	c.brokers = maps.Clone(i.brokers)
	c.controllers = maps.Clone(i.controllers)
	c.topics.brokerReplicas = maps.Clone(i.topics.brokerReplicas)
	// Parts belong to the old owner, who is nobody now.
	c.owner, i.owner = new(owner), new(owner)
	c.decoder, c.encoded = partitionDecoder{}, nil
	return &c
}

// NextProducerID returns the lowest producer id that no broker has got.
func (i *Image) NextProducerID() int64 { return max(i.nextProducerID, 0) }

// ClusterID returns the id that a ClusterIdRecord set, "" for none. KIP-1262.
func (i *Image) ClusterID() string { return i.clusterID }

// MetadataVersion returns the finalized level of metadata.version. ok is false as long as no record has set it.
func (i *Image) MetadataVersion() (v features.MetadataVersion, ok bool) {
	level, ok := i.levels[features.MetadataVersionName]
	return features.MetadataVersion(level), ok
}

// FeatureLevel returns the finalized level of a feature, metadata.version too; 0 for none.
func (i *Image) FeatureLevel(name string) int16 { return i.levels[name] }

// FinalizedFeatures returns the finalized features by name, metadata.version among them. kraft.version is none of
// them: it stands in control records.
func (i *Image) FinalizedFeatures() []features.Level {
	list := make([]features.Level, 0, len(i.levels))
	for name, level := range i.levels {
		list = append(list, features.Level{Name: name, Level: level})
	}
	slices.SortFunc(list, func(a, b features.Level) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// FeaturesOffset returns the offset of the published image in which features changed last, raft.Unknown for none. It
// is the epoch of the finalized features in a controller's answer to ApiVersions.
func (i *Image) FeaturesOffset() raft.Offset { return i.featuresOffset }

// Broker returns the registration of a broker, nil if there is none.
func (i *Image) Broker(id int32) *Broker { return i.brokers[id] }

// Brokers returns the registrations of all brokers by id.
func (i *Image) Brokers() []*Broker { return byID(i.brokers) }

// AnyBroker reports whether ok holds for the registration of a broker. It asks in no order, which is much less than to sort.
func (i *Image) AnyBroker(ok func(*Broker) bool) bool {
	for _, b := range i.brokers {
		if ok(b) {
			return true
		}
	}
	return false
}

// Controller returns the registration of a controller, nil if there is none.
func (i *Image) Controller(id int32) *Controller { return i.controllers[id] }

// Controllers returns the registrations of all controllers by id.
func (i *Image) Controllers() []*Controller { return byID(i.controllers) }

// byID returns the values of m in the order of its keys.
func byID[K cmp.Ordered, V any](m map[K]V) []V {
	list := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[k])
	}
	return list
}

// Config returns a dynamic configuration.
func (i *Image) Config(resourceType int8, resource, name string) (value string, ok bool) {
	value, ok = i.configs.rows[configResource{resourceType, resource}][name]
	return value, ok
}

// Configured returns the names, sorted, of the resources that have the dynamic configuration name.
func (i *Image) Configured(resourceType int8, name string) []string {
	var resources []string
	for r, values := range i.configs.rows {
		if _, ok := values[name]; ok && r.kind == resourceType {
			resources = append(resources, r.name)
		}
	}
	slices.Sort(resources)
	return resources
}

// ClientMetrics returns the subscriptions to client metrics by name, with their configuration. KIP-714.
func (i *Image) ClientMetrics() iter.Seq2[string, map[string]string] {
	return func(yield func(string, map[string]string) bool) {
		for resource, values := range i.configs.rows {
			if resource.kind == ClientMetricsConfig && !yield(resource.name, values) {
				return
			}
		}
	}
}

// ClientMetricsOffset returns the offset of the published image in which the subscriptions to client metrics changed last,
// raft.Unknown for none.
func (i *Image) ClientMetricsOffset() raft.Offset { return i.metricsOffset }

// ScramUsers returns who has a SCRAM credential, by mechanism and name. KIP-900.
func (i *Image) ScramUsers() []ScramUser {
	var list []ScramUser
	for r := range i.keptRecords(keptScram) {
		list = append(list, ScramUser{Name: r.Text("Name"), Mechanism: int8(r.Int("Mechanism"))})
	}
	return list
}

// TopicName returns the name of a topic, "" if there is none with the id.
func (i *Image) TopicName(id uuid.UUID) string {
	if t := i.topics.byID.rows[id]; t != nil {
		return t.name
	}
	return ""
}

// Replicas returns how many partitions have a replica on a broker.
func (i *Image) Replicas(broker int32) int { return i.topics.brokerReplicas[broker] }

// Topics returns how many topics the cluster has, and how many partitions they have together.
func (i *Image) Topics() (topics, partitions int) {
	for _, t := range i.topics.byID.rows {
		partitions += len(t.partitions)
	}
	return len(i.topics.byID.rows), partitions
}

// Partitions returns the partitions that have a replica on a broker, each as a PartitionRecord of the newest version
// that is valid until the next one. It reads all partitions through, unless Replicas is 0.
func (i *Image) Partitions(broker int32) iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		if i.Replicas(broker) == 0 {
			return
		}
		var d partitionDecoder
		for _, t := range i.sortedTopics() {
			for _, p := range t.partitions {
				if p.hasReplica(broker) && !yield(d.decode(t.id, p)) {
					return
				}
			}
		}
	}
}

// Check reports whether a published image keeps what is promised of all: the cluster's id stands in it exactly if its
// metadata.version has records for it. Error: *InvariantError.
func (i *Image) Check() error {
	v, ok := i.MetadataVersion()
	switch {
	case v.SupportsClusterID() && i.clusterID == "":
		return i.invariant(fmt.Sprintf("metadata.version %s without a ClusterIdRecord", v))
	case ok && !v.SupportsClusterID() && i.clusterID != "":
		return i.invariant(fmt.Sprintf("cluster id %q at metadata.version %s, which has no ClusterIdRecord", i.clusterID, v))
	case !ok && i.clusterID != "":
		return i.invariant(fmt.Sprintf("cluster id %q without a metadata.version", i.clusterID))
	}
	return nil
}

func (i *Image) invariant(reason string) error {
	return &InvariantError{Offset: i.Offset, Epoch: i.Epoch, Reason: reason}
}
