package raft

// Code is an error code of Kafka's protocol.
type Code int16

const (
	UnknownServerError      Code = -1
	NoError                 Code = 0
	UnknownTopicOrPartition Code = 3
	NotLeaderOrFollower     Code = 6
	RequestTimedOut         Code = 7
	BrokerNotAvailable      Code = 8
	ClusterAuthorization    Code = 31
	UnsupportedVersion      Code = 35
	InvalidRequest          Code = 42
	FencedLeaderEpoch       Code = 74
	UnknownLeaderEpoch      Code = 75
	InvalidUpdateVersion    Code = 95
	SnapshotNotFound        Code = 98
	PositionOutOfRange      Code = 99
	InconsistentClusterID   Code = 104
	InvalidVoterKey         Code = 125
	DuplicateVoter          Code = 126
	VoterNotFound           Code = 127
)

// Request is a request of a raft API, or of the layer above: one of the types below. They are named and filled
// as Kafka's schemas, without the topic (the driver checks it: KIP-595) and the fields that say nothing. A
// field that the sender's version doesn't have is at its zero value, or at what is said here.
type Request interface{ request() }

// Response is the answer to a request: one of the types below.
type Response interface{ response() }

// LeaderView is the answering node's view of the leader, in every raft answer.
type LeaderView struct {
	LeaderID NodeID // None: not known
	Epoch    Epoch
	Endpoint Endpoint // of the leader, on the listener of the request; zero if not known
}

// noView is that of an answer with a top-level error.
var noView = LeaderView{LeaderID: None, Epoch: -1}

type (
	// VoteRequest asks for a vote or, with PreVote, whether there would be one.
	VoteRequest struct {
		ClusterID    *string    // nil: null
		Voter        ReplicaKey // the receiver as the sender knows it; NodeID None: not said (v0)
		ReplicaEpoch Epoch
		Replica      ReplicaKey // who asks
		LastEpoch    Epoch
		LastOffset   Offset // its log's end
		PreVote      bool
	}
	VoteResponse struct {
		Code      Code // top level
		Partition Code
		LeaderView
		VoteGranted bool
	}

	// BeginQuorumEpochRequest is sent by a new leader to voters that don't fetch.
	BeginQuorumEpochRequest struct {
		ClusterID *string
		Voter     ReplicaKey // the receiver; NodeID None: not said (v0)
		LeaderID  NodeID
		Epoch     Epoch
		Endpoints []Endpoint // the leader's; v0: none
	}
	BeginQuorumEpochResponse struct {
		Code      Code
		Partition Code
		LeaderView
	}

	// EndQuorumEpochRequest is sent by a leader that resigned.
	EndQuorumEpochRequest struct {
		ClusterID  *string
		LeaderID   NodeID
		Epoch      Epoch
		Successors []ReplicaKey // best first; v0: without directory ids
		Endpoints  []Endpoint
	}
	EndQuorumEpochResponse struct {
		Code      Code
		Partition Code
		LeaderView
	}

	// FetchRequest asks for the log from FetchOffset on, and so acknowledges what is before.
	FetchRequest struct {
		ClusterID        *string
		Replica          ReplicaKey
		MaxWaitMillis    Millis
		MaxBytes         int32
		Epoch            Epoch
		FetchOffset      Offset
		LastFetchedEpoch Epoch
		HighWatermark    Offset // below v18: NoHighWatermark
	}
	// FetchResponse has records, or tells of a divergence or of a snapshot to fetch. In a Reply, Read says what the
	// driver reads from the log; in an Answered, Batches has them: whole batches, a partial one at the end cut off.
	FetchResponse struct {
		Code      Code
		Partition Code
		LeaderView
		HighWatermark Offset
		LogStart      Offset
		Diverging     *EpochEnd
		SnapshotID    *SnapshotID
		Read          LogRange
		Batches       []Batch
	}

	// FetchSnapshotRequest asks for the next bytes of a snapshot.
	FetchSnapshotRequest struct {
		ClusterID  *string
		Replica    ReplicaKey
		MaxBytes   int32
		Epoch      Epoch
		SnapshotID SnapshotID
		Position   int64
	}
	// FetchSnapshotResponse has bytes of a snapshot. In a Reply, Read says how many the driver reads, from
	// Position on.
	FetchSnapshotResponse struct {
		Code      Code
		Partition Code
		LeaderView
		SnapshotID SnapshotID // a negative end: there is none
		SizeBytes  int64      // of the whole
		Position   int64
		Read       int32
		Bytes      []byte
	}

	// AddVoterRequest is AddRaftVoter.
	AddVoterRequest struct {
		ClusterID        *string
		TimeoutMillis    Millis
		Voter            ReplicaKey
		Endpoints        []Endpoint
		AckWhenCommitted bool // v0: true
	}
	// RemoveVoterRequest is RemoveRaftVoter.
	RemoveVoterRequest struct {
		ClusterID *string
		Voter     ReplicaKey
	}
	// ChangeVoterResponse answers AddRaftVoter and RemoveRaftVoter. Message is "" when Code is NoError.
	ChangeVoterResponse struct {
		Code    Code
		Message string
	}

	// UpdateVoterRequest is UpdateRaftVoter: a follower tells its endpoints and range.
	UpdateVoterRequest struct {
		ClusterID       *string
		Epoch           Epoch
		Voter           ReplicaKey
		Endpoints       []Endpoint
		MinKRaftVersion int16
		MaxKRaftVersion int16
	}
	UpdateVoterResponse struct {
		Code Code
		LeaderView
	}

	// ApiVersionsRequest probes a node that wants to become a voter. The core only sends it.
	ApiVersionsRequest  struct{}
	ApiVersionsResponse struct {
		Code            Code
		HasKRaftVersion bool // kraft.version is among the supported features
		MinKRaftVersion int16
		MaxKRaftVersion int16
	}

	// DescribeQuorumRequest asks a leader for all replicas.
	DescribeQuorumRequest  struct{}
	DescribeQuorumResponse struct {
		Partition     Code
		LeaderID      NodeID
		Epoch         Epoch
		HighWatermark Offset
		Voters        []ReplicaState
		Observers     []ReplicaState
		Nodes         []Voter // the latest voter set
	}

	// AppendRequest comes from the layer above: one atomic batch that the leader of Epoch appends at
	// BaseOffset. Its author has numbered and encoded it for both. Another epoch: NotLeaderOrFollower. Another
	// end of the log (a control batch slipped in between): InvalidRequest, and NextOffset is where to encode it
	// for. Nothing is appended then.
	AppendRequest  struct{ Batch Batch }
	AppendResponse struct {
		Code       Code
		NextOffset Offset // the log's end, after the batch if Code is NoError
	}

	// UpgradeRequest comes from the layer above: kraft.version to Version (KIP-853). With ValidateOnly nothing
	// is written.
	UpgradeRequest struct {
		Epoch        Epoch
		Version      int16
		ValidateOnly bool
	}
	UpgradeResponse struct {
		Code    Code
		Message string
	}
)

// NoHighWatermark in a Fetch stands for "don't wake me when it moves".
const NoHighWatermark Offset = 1<<63 - 1

// EpochEnd is where an epoch ends in a log.
type EpochEnd struct {
	Epoch     Epoch
	EndOffset Offset
}

// LogRange is a part of the log: whole batches from From on, below End, at most MaxBytes but at least one batch.
// From can be inside a batch, which is then read whole. An empty range (From >= End) is nothing.
type LogRange struct {
	From, End Offset
	MaxBytes  int32
}

// ReplicaState is a line of DescribeQuorum. Times are on the clock of Step, -1 is never.
type ReplicaState struct {
	Key          ReplicaKey
	LogEnd       Offset // Unknown before its first fetch
	LastFetch    Millis
	LastCaughtUp Millis
}

func (*VoteRequest) request()             {}
func (*BeginQuorumEpochRequest) request() {}
func (*EndQuorumEpochRequest) request()   {}
func (*FetchRequest) request()            {}
func (*FetchSnapshotRequest) request()    {}
func (*AddVoterRequest) request()         {}
func (*RemoveVoterRequest) request()      {}
func (*UpdateVoterRequest) request()      {}
func (*ApiVersionsRequest) request()      {}
func (*DescribeQuorumRequest) request()   {}
func (*AppendRequest) request()           {}
func (*UpgradeRequest) request()          {}

func (*VoteResponse) response()             {}
func (*BeginQuorumEpochResponse) response() {}
func (*EndQuorumEpochResponse) response()   {}
func (*FetchResponse) response()            {}
func (*FetchSnapshotResponse) response()    {}
func (*ChangeVoterResponse) response()      {}
func (*UpdateVoterResponse) response()      {}
func (*ApiVersionsResponse) response()      {}
func (*DescribeQuorumResponse) response()   {}
func (*AppendResponse) response()           {}
func (*UpgradeResponse) response()          {}
