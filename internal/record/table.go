package record

// The metadata records of Apache Kafka 4.4 (metadata.version 7 to 33) and ours. Fields stand in the order in which Kafka
// prints them; on the wire tagged fields come last, by their numbers.
var (
	// RegisterBroker announces a broker's process. KIP-631, KIP-858 (log directories), KIP-1066 (cordoned ones).
	RegisterBroker = &Message{Key: 0, Name: "RegisterBrokerRecord", Latest: 4, Fields: []Field{
		{Name: "BrokerId", Type: Int32},
		{Name: "IsMigratingZkBroker", Type: Bool, Since: 2},
		{Name: "IncarnationId", Type: UUID},
		{Name: "BrokerEpoch", Type: Int64},
		{Name: "EndPoints", Type: Structs, Fields: endPoint},
		{Name: "Features", Type: Structs, Fields: featureRange},
		{Name: "Rack", Type: String, Nullable: true},
		{Name: "Fenced", Type: Bool, Default: 1},
		{Name: "InControlledShutdown", Type: Bool, Since: 1},
		{Name: "LogDirs", Type: UUIDs, Since: 3, Tag: tag(0)},
		{Name: "CordonedLogDirs", Type: UUIDs, Since: 4, Tag: tag(1), Nullable: true, Null: true},
	}}
	// UnregisterBroker removes a broker's registration.
	UnregisterBroker = &Message{Key: 1, Name: "UnregisterBrokerRecord", Fields: []Field{
		{Name: "BrokerId", Type: Int32},
		{Name: "BrokerEpoch", Type: Int64},
	}}
	// Topic creates a topic; its partitions follow.
	Topic = &Message{Key: 2, Name: "TopicRecord", Fields: []Field{
		{Name: "Name", Type: String},
		{Name: "TopicId", Type: UUID},
	}}
	// Partition creates a partition or replaces its state. KIP-858 (directories), KIP-966 (eligible leader replicas).
	Partition = &Message{Key: 3, Name: "PartitionRecord", Latest: 2, Fields: []Field{
		{Name: "PartitionId", Type: Int32, Default: -1},
		{Name: "TopicId", Type: UUID},
		{Name: "Replicas", Type: Int32s},
		{Name: "Isr", Type: Int32s},
		{Name: "RemovingReplicas", Type: Int32s},
		{Name: "AddingReplicas", Type: Int32s},
		{Name: "Leader", Type: Int32, Default: -1},
		{Name: "LeaderRecoveryState", Type: Int8, Tag: tag(0)},
		{Name: "LeaderEpoch", Type: Int32, Default: -1},
		{Name: "PartitionEpoch", Type: Int32, Default: -1},
		{Name: "Directories", Type: UUIDs, Since: 1},
		{Name: "EligibleLeaderReplicas", Type: Int32s, Since: 2, Tag: tag(1), Nullable: true, Null: true},
		{Name: "LastKnownElr", Type: Int32s, Since: 2, Tag: tag(2), Nullable: true, Null: true},
	}}
	// Config sets a dynamic configuration; a null value removes it.
	Config = &Message{Key: 4, Name: "ConfigRecord", Fields: []Field{
		{Name: "ResourceType", Type: Int8},
		{Name: "ResourceName", Type: String},
		{Name: "Name", Type: String},
		{Name: "Value", Type: String, Nullable: true},
	}}
	// PartitionChange changes those fields of a partition that it has.
	PartitionChange = &Message{Key: 5, Name: "PartitionChangeRecord", Latest: 2, Fields: []Field{
		{Name: "PartitionId", Type: Int32, Default: -1},
		{Name: "TopicId", Type: UUID},
		{Name: "Isr", Type: Int32s, Tag: tag(0), Nullable: true, Null: true},
		{Name: "Leader", Type: Int32, Tag: tag(1), Default: -2},
		{Name: "Replicas", Type: Int32s, Tag: tag(2), Nullable: true, Null: true},
		{Name: "RemovingReplicas", Type: Int32s, Tag: tag(3), Nullable: true, Null: true},
		{Name: "AddingReplicas", Type: Int32s, Tag: tag(4), Nullable: true, Null: true},
		{Name: "LeaderRecoveryState", Type: Int8, Tag: tag(5), Default: -1},
		{Name: "Directories", Type: UUIDs, Since: 1, Tag: tag(8), Nullable: true, Null: true},
		{Name: "EligibleLeaderReplicas", Type: Int32s, Since: 2, Tag: tag(6), Nullable: true, Null: true},
		{Name: "LastKnownElr", Type: Int32s, Since: 2, Tag: tag(7), Nullable: true, Null: true},
	}}
	// FenceBroker fences a broker; since 3.3 BrokerRegistrationChange does.
	FenceBroker = &Message{Key: 7, Name: "FenceBrokerRecord", Fields: []Field{
		{Name: "Id", Type: Int32},
		{Name: "Epoch", Type: Int64},
	}}
	// UnfenceBroker is the opposite of FenceBroker.
	UnfenceBroker = &Message{Key: 8, Name: "UnfenceBrokerRecord", Fields: []Field{
		{Name: "Id", Type: Int32},
		{Name: "Epoch", Type: Int64},
	}}
	// RemoveTopic deletes a topic with all its partitions.
	RemoveTopic = &Message{Key: 9, Name: "RemoveTopicRecord", Fields: []Field{
		{Name: "TopicId", Type: UUID},
	}}
	// DelegationToken creates or renews a delegation token. KIP-48.
	DelegationToken = &Message{Key: 10, Name: "DelegationTokenRecord", Fields: []Field{
		{Name: "Owner", Type: String},
		{Name: "Requester", Type: String},
		{Name: "Renewers", Type: Strings},
		{Name: "IssueTimestamp", Type: Int64},
		{Name: "MaxTimestamp", Type: Int64},
		{Name: "ExpirationTimestamp", Type: Int64},
		{Name: "TokenId", Type: String},
	}}
	// UserScramCredential sets the SCRAM credential of a user and mechanism. KIP-900.
	UserScramCredential = &Message{Key: 11, Name: "UserScramCredentialRecord", Fields: []Field{
		{Name: "Name", Type: String},
		{Name: "Mechanism", Type: Int8},
		{Name: "Salt", Type: Bytes},
		{Name: "StoredKey", Type: Bytes},
		{Name: "ServerKey", Type: Bytes},
		{Name: "Iterations", Type: Int32},
	}}
	// FeatureLevel finalizes a feature at a level; level 0: not supported. KIP-584, KIP-778.
	FeatureLevel = &Message{Key: 12, Name: "FeatureLevelRecord", Fields: []Field{
		{Name: "Name", Type: String},
		{Name: "FeatureLevel", Type: Int16},
	}}
	// ClientQuota sets or removes a quota. KIP-546.
	ClientQuota = &Message{Key: 14, Name: "ClientQuotaRecord", Fields: []Field{
		{Name: "Entity", Type: Structs, Fields: []Field{
			{Name: "EntityType", Type: String},
			{Name: "EntityName", Type: String, Nullable: true}, // null: the default entity
		}},
		{Name: "Key", Type: String},
		{Name: "Value", Type: Float64},
		{Name: "Remove", Type: Bool},
	}}
	// ProducerIds says which producer ids are taken.
	ProducerIds = &Message{Key: 15, Name: "ProducerIdsRecord", Fields: []Field{
		{Name: "BrokerId", Type: Int32},
		{Name: "BrokerEpoch", Type: Int64, Default: -1},
		{Name: "NextProducerId", Type: Int64},
	}}
	// BrokerRegistrationChange changes those parts of a registration that it has.
	BrokerRegistrationChange = &Message{Key: 17, Name: "BrokerRegistrationChangeRecord", Latest: 3, Fields: []Field{
		{Name: "BrokerId", Type: Int32},
		{Name: "BrokerEpoch", Type: Int64},
		{Name: "Fenced", Type: Int8, Tag: tag(0)},                         // -1: unfence, 1: fence
		{Name: "InControlledShutdown", Type: Int8, Since: 1, Tag: tag(1)}, // 1: yes; never reset
		{Name: "LogDirs", Type: UUIDs, Since: 2, Tag: tag(2)},
		{Name: "CordonedLogDirs", Type: UUIDs, Since: 3, Tag: tag(3), Nullable: true, Null: true},
	}}
	// AccessControlEntry creates an ACL. KIP-801.
	AccessControlEntry = &Message{Key: 18, Name: "AccessControlEntryRecord", Fields: []Field{
		{Name: "Id", Type: UUID},
		{Name: "ResourceType", Type: Int8},
		{Name: "ResourceName", Type: String},
		{Name: "PatternType", Type: Int8},
		{Name: "Principal", Type: String},
		{Name: "Host", Type: String},
		{Name: "Operation", Type: Int8},
		{Name: "PermissionType", Type: Int8},
	}}
	// RemoveAccessControlEntry removes an ACL.
	RemoveAccessControlEntry = &Message{Key: 19, Name: "RemoveAccessControlEntryRecord", Fields: []Field{
		{Name: "Id", Type: UUID},
	}}
	// NoOp lets the log grow, so that its consumers see that it lives. KIP-835.
	NoOp = &Message{Key: 20, Name: "NoOpRecord"}
	// ZkMigrationState is left over from the way out of ZooKeeper. KIP-866.
	ZkMigrationState = &Message{Key: 21, Name: "ZkMigrationStateRecord", Fields: []Field{
		{Name: "ZkMigrationState", Type: Int8},
	}}
	// RemoveUserScramCredential removes what UserScramCredential sets.
	RemoveUserScramCredential = &Message{Key: 22, Name: "RemoveUserScramCredentialRecord", Fields: []Field{
		{Name: "Name", Type: String},
		{Name: "Mechanism", Type: Int8},
	}}
	// BeginTransaction opens a metadata transaction: records up to its end count together or not at all. KIP-868.
	BeginTransaction = &Message{Key: 23, Name: "BeginTransactionRecord", Fields: []Field{
		{Name: "Name", Type: String, Tag: tag(0), Nullable: true, Null: true},
	}}
	// EndTransaction makes the open transaction count.
	EndTransaction = &Message{Key: 24, Name: "EndTransactionRecord"}
	// AbortTransaction drops the open transaction.
	AbortTransaction = &Message{Key: 25, Name: "AbortTransactionRecord", Fields: []Field{
		{Name: "Reason", Type: String, Tag: tag(0), Nullable: true, Null: true},
	}}
	// RemoveDelegationToken removes a delegation token.
	RemoveDelegationToken = &Message{Key: 26, Name: "RemoveDelegationTokenRecord", Fields: []Field{
		{Name: "TokenId", Type: String},
	}}
	// RegisterController announces a controller's process. KIP-919.
	RegisterController = &Message{Key: 27, Name: "RegisterControllerRecord", Fields: []Field{
		{Name: "ControllerId", Type: Int32},
		{Name: "IncarnationId", Type: UUID},
		{Name: "ZkMigrationReady", Type: Bool},
		{Name: "EndPoints", Type: Structs, Fields: endPoint},
		{Name: "Features", Type: Structs, Fields: featureRange},
	}}
	// ClearElr empties the eligible leader replicas of a topic, or of all topics. KIP-966.
	ClearElr = &Message{Key: 28, Name: "ClearElrRecord", Fields: []Field{
		{Name: "TopicName", Type: String},
	}}
	// UnregisterController removes a controller's registration (metadata.version 4.4-IV2).
	UnregisterController = &Message{Key: 29, Name: "UnregisterControllerRecord", Fields: []Field{
		{Name: "ControllerId", Type: Int32},
	}}
	// ClusterID says which id the cluster has. KIP-1262 (metadata.version 4.5-IV1).
	// Unlike Kafka: 4.4 has no such record, and ends when it reads one; 30 is the next free apiKey.
	ClusterID = &Message{Key: 30, Name: "ClusterIdRecord", Fields: []Field{
		{Name: "ClusterId", Type: String},
	}}
)

// The control records of the log and of snapshots. Kafka writes all of them with version 0.
var (
	// LeaderChange begins the epoch of a leader. KIP-595; directory ids: KIP-853.
	LeaderChange = &Message{Key: 2, Name: "LeaderChangeMessage", Latest: 1, Type: "LeaderChange", Control: true, Fields: []Field{
		{Name: "Version", Type: Int16},
		{Name: "LeaderId", Type: Int32},
		{Name: "Voters", Type: Structs, Fields: voterKey},
		{Name: "GrantingVoters", Type: Structs, Fields: voterKey},
	}}
	// SnapshotHeader begins a snapshot. KIP-630.
	SnapshotHeader = &Message{Key: 3, Name: "SnapshotHeaderRecord", Type: "SnapshotHeader", Control: true, Fields: []Field{
		{Name: "Version", Type: Int16},
		{Name: "LastContainedLogTimestamp", Type: Int64},
	}}
	// SnapshotFooter ends a snapshot. KIP-630.
	SnapshotFooter = &Message{Key: 4, Name: "SnapshotFooterRecord", Type: "SnapshotFooter", Control: true, Fields: []Field{
		{Name: "Version", Type: Int16},
	}}
	// KRaftVersion finalizes kraft.version. KIP-853.
	KRaftVersion = &Message{Key: 5, Name: "KRaftVersionRecord", Type: "KRaftVersion", Control: true, Fields: []Field{
		{Name: "Version", Type: Int16},
		{Name: "KRaftVersion", Type: Int16},
	}}
	// KRaftVoters is the whole set of voters. KIP-853.
	KRaftVoters = &Message{Key: 6, Name: "VotersRecord", Type: "KRaftVoters", Control: true, Fields: []Field{
		{Name: "Version", Type: Int16},
		{Name: "Voters", Type: Structs, Fields: []Field{
			{Name: "VoterId", Type: Int32},
			{Name: "VoterDirectoryId", Type: UUID},
			{Name: "Endpoints", Type: Structs, Fields: []Field{
				{Name: "Name", Type: String},
				{Name: "Host", Type: String},
				{Name: "Port", Type: Uint16},
			}},
			{Name: "KRaftVersionFeature", Type: Struct, Fields: []Field{
				{Name: "MinSupportedVersion", Type: Int16},
				{Name: "MaxSupportedVersion", Type: Int16},
			}},
		}},
	}}
)

// Structs that several messages share.
var (
	endPoint = []Field{
		{Name: "Name", Type: String},
		{Name: "Host", Type: String},
		{Name: "Port", Type: Uint16},
		{Name: "SecurityProtocol", Type: Int16},
	}
	featureRange = []Field{
		{Name: "Name", Type: String},
		{Name: "MinSupportedVersion", Type: Int16},
		{Name: "MaxSupportedVersion", Type: Int16},
	}
	voterKey = []Field{
		{Name: "VoterId", Type: Int32},
		{Name: "VoterDirectoryId", Type: UUID, Since: 1},
	}
)

var metadataMessages = []*Message{
	RegisterBroker, UnregisterBroker, Topic, Partition, Config, PartitionChange, FenceBroker, UnfenceBroker, RemoveTopic,
	DelegationToken, UserScramCredential, FeatureLevel, ClientQuota, ProducerIds, BrokerRegistrationChange,
	AccessControlEntry, RemoveAccessControlEntry, NoOp, ZkMigrationState, RemoveUserScramCredential, BeginTransaction,
	EndTransaction, AbortTransaction, RemoveDelegationToken, RegisterController, ClearElr, UnregisterController, ClusterID,
}

var controlMessages = []*Message{LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, KRaftVoters}
