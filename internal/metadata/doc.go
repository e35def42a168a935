// Package metadata is the state of the cluster that the metadata log describes (KIP-631): it replays records into an
// image, follows the committed log, and writes the image as a snapshot.
//
//	committed batches ──> Loader ──> published Image ──> ClusterIDPublisher, controller, broker, ApiVersions
//	snapshot          ──>   │                   │
//	                        │                   └──> WriteSnapshot (KIP-630)
//	                        └ open transaction: a clone that is published by EndTransaction, dropped by AbortTransaction
//
// An Image has what this node acts on as typed values: features, registrations of brokers and controllers, the
// cluster's id (KIP-1262). All else is kept so that a snapshot loses nothing: topics with their partitions,
// configurations, and by a key of their own quotas, ACLs, SCRAM credentials and delegation tokens, as encoded records.
//
// A Loader takes committed data only. It publishes after each batch, and never a state in the middle of a metadata
// transaction (KIP-868): while one is open the published image is that of the record before BeginTransaction, whose
// Offset is the last stable offset. A BeginTransaction in the middle of a batch publishes what came before it. On each
// published image holds: its metadata.version has ClusterIdRecord exactly if the cluster's id is set, and a published
// id never changes.
//
// A snapshot has the records in Kafka's order: features (metadata.version first), the cluster's id, brokers,
// controllers, topics, each followed by its partitions, configurations, quotas, producer ids, ACLs, SCRAM credentials,
// delegation tokens. Their versions follow from metadata.version. Within a kind they are sorted by name or id.
// Unlike Kafka: there the order within a kind is that of a hash map.
//
// What Kafka refuses, such as a change of a partition or broker that isn't there, ends in an error here as well: the
// node can't go on, since its state would differ from others'.
//
// Left out: records of the zero checkpoint, which only the leader of an empty log uses; control records, which the
// consensus core reads.
package metadata
