package raft

import "github.com/google/uuid"

// Config is what a node knows of itself and its quorum before it starts. Times are milliseconds.
type Config struct {
	NodeID      NodeID
	DirectoryID uuid.UUID // of the metadata log directory; never zero
	ClusterID   string    // "" while the node has none (KIP-1262): it sends none and takes any

	CanBeVoter      bool       // the node has the controller role
	Listeners       []Endpoint // own advertised controller listeners, the default one first; a broker has none
	DefaultListener string     // the first of controller.listener.names
	MinKRaftVersion int16      // supported range of kraft.version
	MaxKRaftVersion int16

	StaticVoters     []Voter    // controller.quorum.voters: no directory ids, range 0-0
	BootstrapServers []Endpoint // host and port; their node ids are -2, -3, ...
	AutoJoin         bool       // controller.quorum.auto.join.enable

	ElectionTimeoutMillis    Millis
	ElectionBackoffMaxMillis Millis
	FetchTimeoutMillis       Millis
	RequestTimeoutMillis     Millis
	RetryBackoffMillis       Millis
	FetchMaxBytes            int32
	SnapshotMaxBytes         int32 // of one FetchSnapshot answer
	RetentionMillis          int64 // metadata.max.retention.ms; < 0: none
	RetentionBytes           int64 // metadata.max.retention.bytes; < 0: none

	Random Random
}

// Random is the core's only source of chance; *rand.Rand of math/rand/v2 is one.
type Random interface {
	// Int64N returns a number in [0, n); n is positive.
	Int64N(n int64) int64
}

// DefaultConfig returns Kafka's defaults of the settings with a number.
func DefaultConfig() Config {
	return Config{
		MaxKRaftVersion:          1,
		ElectionTimeoutMillis:    1000,
		ElectionBackoffMaxMillis: 1000,
		FetchTimeoutMillis:       2000,
		RequestTimeoutMillis:     2000,
		RetryBackoffMillis:       20,
		FetchMaxBytes:            1 << 20,
		SnapshotMaxBytes:         1 << 20,
		RetentionMillis:          7 * 24 * 3600 * 1000,
		RetentionBytes:           100 << 20,
	}
}

// Recovered is what the node found on its disk. The rules of recovery:
//   - a log that is behind the newest snapshot (its last epoch is lower, or equal with a lower end) starts
//     anew at the snapshot's end, with no epoch starts;
//   - EpochStarts has an entry for each epoch that has a batch in the log, and those of leader-epoch-checkpoint
//     with Start <= LogEnd. Later ones are dropped, and the file is rewritten without them before the start:
//     they name batches that a crash has lost, and must not come back to life when the log has grown again.
type Recovered struct {
	QuorumState QuorumState // NoQuorumState if the file is missing
	LogStart    Offset
	LogEnd      Offset       // everything below is durable
	EpochStarts []EpochStart // ascending in both fields
	Snapshots   []Snapshot   // ascending
	Control     []Batch      // the control batches of the log, ascending
}

// QuorumState is the content of the quorum-state file.
type QuorumState struct {
	Version  int16 // 0 or 1: the kraft.version known when it was written
	Epoch    Epoch
	LeaderID NodeID
	Voted    ReplicaKey // NodeID None: no vote
	Voters   []NodeID   // version 0 only, for people; never read
}

// NoQuorumState is the state of a node without the file.
func NoQuorumState() QuorumState { return QuorumState{LeaderID: None, Voted: noReplica} }

// Snapshot is a finished snapshot on disk.
type Snapshot struct {
	ID                   SnapshotID
	SizeBytes            int64
	LastContainedLogTime int64 // of its header: milliseconds since the Unix epoch
	KRaftVersion         int16 // 0 without the record
	Voters               []Voter
}

// Batch is one record batch. The core never looks into Bytes: whoever receives bytes splits and decodes them
// (DecodeBatches). A control batch that the leader makes comes out of the core without Bytes: whoever writes the
// log knows the time and encodes it (Batch.Encode).
type Batch struct {
	BaseOffset Offset
	LastOffset Offset // inclusive
	Epoch      Epoch
	Control    []ControlRecord // of a control batch, at BaseOffset, BaseOffset+1, ...; nil: a data batch
	Bytes      []byte
}

// RequestID matches an answer with its request. The core numbers the requests that it sends, the driver those that
// it hands in: two spaces.
type RequestID uint64

// Destination is where a request goes: a node, or a bootstrap server under the ids -2, -3, .... Connections
// are kept by id (facts of Kafka: a bootstrap server's connection is not that of the node behind it).
type Destination struct {
	NodeID   NodeID
	Endpoint Endpoint
}

// Input is what happens to a node: one of the types below.
type Input interface{ input() }

type (
	// Tick is the passing of time. The first Step of a core starts it, whatever the input is; let it be a Tick.
	Tick struct{}

	// Synced says that all appends of a Generation below EndOffset have reached the disk. EndOffset and
	// Generation are those of the last AppendLog that the fsync covers. After TruncateLog or ResetLog, the
	// appends before it count no more.
	Synced struct {
		EndOffset  Offset
		Generation uint64
	}

	// Received is a request: from a peer, a tool, or this node's own layers above (AppendRequest,
	// UpgradeRequest). Listener is where it came in, "" is the default one: answers name the leader's address
	// on it. The answer is a Reply effect, at once or later; there is exactly one. After a Fatal there is none, not even
	// to what came in before; and none to what comes in after ShutdownDone, before which all is answered.
	Received struct {
		ID       RequestID
		Listener string
		Request  Request
	}

	// Answered is the response to a Send.
	Answered struct {
		ID       RequestID
		Response Response
	}

	// SendFailed ends a Send without a response.
	SendFailed struct {
		ID     RequestID
		Reason SendFailure
	}

	// Resign makes the leader of Epoch resign, after a fault in the layer above. In another epoch it does nothing.
	Resign struct{ Epoch Epoch }

	// Shutdown is the wish to stop: a leader hands over first. ShutdownDone follows, within 5 s.
	Shutdown struct{}

	// ClusterIDLearned tells the id that the node learned after its start.
	ClusterIDLearned struct{ ClusterID string }

	// SnapshotCreated tells of a snapshot that the layer above made, with SnapshotHeader's content; it is durable.
	SnapshotCreated struct{ Snapshot Snapshot }

	// SnapshotInstalled answers InstallSnapshot.
	SnapshotInstalled struct{ Snapshot Snapshot }

	// SnapshotRejected answers InstallSnapshot when the downloaded file is damaged; it is gone.
	SnapshotRejected struct{ ID SnapshotID }

	// Clean asks for retention: to come every 60 s, and again with the new size after each DeletePrefix.
	Clean struct {
		WallMillis   int64 // milliseconds since the Unix epoch
		LogSizeBytes int64
	}
)

// SendFailure is why a request got no response.
type SendFailure uint8

const (
	Disconnected SendFailure = iota // the connection broke, or could not be made for another reason than:
	Refused                         // nothing listens there: the process is gone
	TimedOut                        // no response within the request timeout; the driver closes the connection
	Unsupported                     // the peer has no version of the API, or none that can express the request
	Corrupt                         // the answer came but cannot be decoded, or a batch in it has a wrong checksum
)

// Effect is work for the driver, who carries out a Step's effects front to back: one of the types below.
//
// WriteQuorumState, WriteEpochStarts, TruncateLog, ResetLog and DeletePrefix are barriers: durable before the
// effects behind them are carried out. AppendLog is none: reads (of a Reply) see it at once, Synced tells of
// its fsync later. A failed write or fsync stops the node.
type Effect interface{ effect() }

type (
	// WriteQuorumState replaces the quorum-state file.
	WriteQuorumState struct{ State QuorumState }

	// WriteEpochStarts replaces the content of leader-epoch-checkpoint, behind an fsync of all that was appended
	// before. It comes before the append of the first batch of an epoch, and before the truncation that drops an
	// entry's batches: an entry that outlives them would make the log look newer than it is in a vote, while a missing
	// one is found again by recovery.
	WriteEpochStarts struct{ Entries []EpochStart }

	// AppendLog appends batches of one epoch, which continue the log's end. EndOffset is the end after them.
	AppendLog struct {
		Batches    []Batch
		EndOffset  Offset
		Generation uint64
	}

	// TruncateLog drops everything from EndOffset on, unsynced appends too.
	TruncateLog struct{ EndOffset Offset }

	// ResetLog drops the whole log, which is empty then and starts and ends at the snapshot's end.
	// Snapshots below it go too.
	ResetLog struct{ ID SnapshotID }

	// DeletePrefix moves the log's start up to LogStart: segments wholly below it and snapshots with a lower end go.
	DeletePrefix struct{ LogStart Offset }

	// WriteSnapshotChunk stores a piece of a snapshot that is being fetched. Position 0 begins the file anew.
	WriteSnapshotChunk struct {
		ID       SnapshotID
		Position int64
		Bytes    []byte
	}

	// InstallSnapshot ends the download: the file is checked, made durable and gets its name.
	// SnapshotInstalled or SnapshotRejected comes back as an input.
	InstallSnapshot struct{ ID SnapshotID }

	// DropSnapshotChunks gives a download up.
	DropSnapshotChunks struct{ ID SnapshotID }

	// Send sends a request. Answered or SendFailed comes back; the core counts TimeoutMillis itself too. A role
	// that ends forgets its requests, and so does a Fetch that is answered the other one: a Send to a destination
	// where an older one is under way takes its place, and the older one's answer may be handed in or not.
	Send struct {
		ID            RequestID
		To            Destination
		TimeoutMillis Millis
		Request       Request
	}

	// Reply answers a Received request. The driver adds the bytes that a FetchResponse (Read) or a
	// FetchSnapshotResponse (Read) names.
	Reply struct {
		ID       RequestID
		Response Response
	}

	// LeaderChanged tells the layer above of a new leader or epoch. LeaderID None: none known. A node that
	// leads is ready to write once the layer above has applied all below StartOffset+1 and the high watermark
	// has passed StartOffset, where its epoch's LeaderChange record is. StartOffset is Unknown for other
	// leaders.
	LeaderChanged struct {
		Epoch       Epoch
		LeaderID    NodeID
		Endpoint    Endpoint // the default listener's, zero if not known
		StartOffset Offset
	}

	// Committed tells that the log below HighWatermark is committed. It only grows. Behind: the leader has committed
	// more, which this node does not have yet.
	Committed struct {
		HighWatermark Offset
		Behind        bool
	}

	// LoadSnapshot tells the layer above to load a snapshot: the newest one when the high watermark becomes
	// known for the first time, and each one that was fetched. The zero snapshot is the bootstrap: only the
	// leader of an empty log uses its records. What follows comes from the log, from ID.EndOffset on.
	LoadSnapshot struct{ ID SnapshotID }

	// VotersChanged tells that the latest voter set is another one, committed or not.
	VotersChanged struct {
		KRaftVersion int16
		Voters       []Voter
	}

	// Notice is something a person may want to know: a line for the log. From and Code are of an answer with a
	// top-level error (InconsistentClusterID, say), else None and NoError. A request that was refused for another cluster's
	// id has None and InconsistentClusterID.
	Notice struct {
		Text string
		From NodeID
		Code Code
	}

	// ShutdownDone ends a graceful shutdown.
	ShutdownDone struct{}

	// Fatal stops the node: a peer or the disk contradicts what was promised. Inputs after it have no effect.
	Fatal struct{ Reason string }
)

// Status is a view of a node for metrics, pages and tests.
type Status struct {
	Role          Role
	Epoch         Epoch
	LeaderID      NodeID
	Voted         ReplicaKey
	HighWatermark Offset // Unknown before the first commit is known
	LogStart      Offset
	LogEnd        Offset
	SyncedEnd     Offset
	LastEpoch     Epoch // of the last record
	KRaftVersion  int16
	Voters        []Voter
	VotersOffset  Offset // of the latest voters record; -1: from the zero checkpoint or the configuration
	IsVoter       bool
	Snapshots     []SnapshotID
	Fetching      SnapshotID // being downloaded; zero: none
	Fatal         string
}

// Role is the state of a node in the quorum.
type Role uint8

const (
	Unattached Role = iota
	Prospective
	Candidate
	Leader
	Follower
	Resigned
)

func (r Role) String() string {
	return [...]string{"Unattached", "Prospective", "Candidate", "Leader", "Follower", "Resigned"}[r]
}

func (Tick) input()              {}
func (Synced) input()            {}
func (Received) input()          {}
func (Answered) input()          {}
func (SendFailed) input()        {}
func (Resign) input()            {}
func (Shutdown) input()          {}
func (ClusterIDLearned) input()  {}
func (SnapshotCreated) input()   {}
func (SnapshotInstalled) input() {}
func (SnapshotRejected) input()  {}
func (Clean) input()             {}

func (WriteQuorumState) effect()   {}
func (WriteEpochStarts) effect()   {}
func (AppendLog) effect()          {}
func (TruncateLog) effect()        {}
func (ResetLog) effect()           {}
func (DeletePrefix) effect()       {}
func (WriteSnapshotChunk) effect() {}
func (InstallSnapshot) effect()    {}
func (DropSnapshotChunks) effect() {}
func (Send) effect()               {}
func (Reply) effect()              {}
func (LeaderChanged) effect()      {}
func (Committed) effect()          {}
func (LoadSnapshot) effect()       {}
func (VotersChanged) effect()      {}
func (Notice) effect()             {}
func (ShutdownDone) effect()       {}
func (Fatal) effect()              {}
