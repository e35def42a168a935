// Package raft is the consensus of KRaft, Kafka's own Raft (KIP-595, KIP-630, KIP-853, KIP-996), as a pure state
// machine: no clock, files, sockets, goroutines, locks, and no chance but what its configuration brings.
//
//	             inputs                                     effects
//	time         Tick                                       Deadline()
//	disk         Synced, SnapshotInstalled, ...             WriteQuorumState, WriteEpochStarts, AppendLog, TruncateLog, ...
//	network      Received, Answered, SendFailed             Send, Reply
//	layer above  AppendRequest, SnapshotCreated, Resign     LeaderChanged, Committed, LoadSnapshot
//
// Replication is pulled: followers fetch from the leader, and the offset from which one fetches acknowledges
// all before it. What distinguishes it from textbook Raft: observers fetch without a vote; a pre-vote goes
// before each election; a leader that a majority doesn't fetch from resigns; voter sets stand in the log, with
// the directory id of each voter under kraft.version 1, so that a wiped disk is no voter; under kraft.version 0
// the configuration names them by id.
//
// What is safe rests on a few rules. They are proved where the code keeps them:
//   - a vote is on disk before its answer leaves (vote.go), and an epoch never goes back (transition.go);
//   - who asks for votes has its whole log on disk (core.go);
//   - a follower fetches again only when all that it has is durable (follower.go); the leader counts itself only up to
//     its own fsync (leader.go);
//   - only an entry of the leader's epoch commits by counting (arithmetic.go);
//   - one change of the voters at a time, and only after the leader has committed in its epoch (membership.go);
//   - nothing below the high watermark is ever cut (follower.go, snapshot.go).
//
// One role or concern a file: transition.go makes all changes of role; unattached.go, election.go (Prospective,
// Candidate), follower.go, leader.go and resigned.go are the roles with their timers; the others handle requests.
//
// Not here: bytes of batches and snapshots, frames and versions of the wire, retries of connections, metadata
// records.
package raft

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Core is one node's consensus. It is not safe for concurrent use.
type Core struct {
	cfg Config
	now Millis

	state   quorumState
	role    role
	log     logState
	history history
	out     requests

	hw         Offset     // of the layer above: Unknown before the first one; never goes back
	installing SnapshotID // of an InstallSnapshot under way; zero: none

	recovered       *Recovered   // until the first Step
	written         *QuorumState // the last one; nil: none by this process
	announced       LeaderChanged
	announcedVoters VotersChanged
	shutdownBy      Millis // of a shutdown under way; never: none
	done            bool   // after Fatal and ShutdownDone
	fatal           string
	told            []told
	effects         []Effect
}

// told is a notice that is not repeated for toldMillis. The last maxTold ones are remembered.
type told struct {
	notice Notice
	until  Millis
}

const toldMillis Millis = 10_000
const maxTold = 16

// never is the time of a timer that doesn't run.
const never Millis = 1<<63 - 1

// New returns the core of a node with what recovery found on its disk. What is wrong with it becomes a Fatal of
// the first Step.
func New(cfg Config, r Recovered) *Core {
	return &Core{
		cfg:        cfg,
		state:      quorumState{leaderID: None, voted: noReplica},
		role:       &unattached{electionAt: never},
		hw:         Unknown,
		recovered:  &r,
		announced:  LeaderChanged{LeaderID: None, StartOffset: Unknown},
		shutdownBy: never,
	}
}

// Step applies one input at time now (milliseconds, monotonic) and returns its effects. The driver carries them
// out front to back. The slice is valid until the next Step. Equal configuration, recovery, randomness and
// inputs give equal effects.
func (c *Core) Step(now Millis, in Input) []Effect {
	clear(c.effects) // lets go of what they refer to
	c.effects = c.effects[:0]
	c.now = max(c.now, now)
	if c.done {
		return nil
	}
	if r := c.recovered; r != nil {
		c.recovered = nil
		c.start(*r)
	}
	if !c.done {
		c.handle(in)
	}
	c.poll()
	return c.effects
}

// poll lets the role act until there is nothing left to do at this time. Each role that is entered has a timer
// that ends later than now or stays for another reason, so this ends.
func (c *Core) poll() {
	for _, o := range c.out.expire(c.now) {
		c.sendFailed(o, TimedOut)
	}
	for !c.done {
		before := c.role
		c.role.poll(c)
		if c.role == before {
			break
		}
	}
	c.pollShutdown()
}

// Deadline returns when to call Step with a Tick if no input comes earlier. It is later than the last Step.
func (c *Core) Deadline() (at Millis, ok bool) {
	if c.recovered != nil {
		return c.now, true
	}
	if c.done {
		return 0, false
	}
	at = min(c.role.deadline(c), c.out.deadline(), c.shutdownBy)
	return at, at != never
}

func (c *Core) handle(in Input) {
	switch in := in.(type) {
	case Tick:
	case Synced:
		c.handleSynced(in)
	case Received:
		c.handleRequest(in)
	case Answered:
		c.handleResponse(in)
	case SendFailed:
		c.handleSendFailed(in)
	case Resign:
		if l, ok := c.role.(*leader); ok && in.Epoch == c.state.epoch {
			c.toResigned(l)
		}
	case Shutdown:
		c.handleShutdown()
	case ClusterIDLearned:
		c.cfg.ClusterID = in.ClusterID
	case SnapshotCreated:
		c.handleSnapshotCreated(in.Snapshot)
	case SnapshotInstalled:
		c.handleSnapshotInstalled(in.Snapshot)
	case SnapshotRejected:
		c.handleSnapshotRejected(in.ID)
	case Clean:
		c.handleClean(in)
	}
}

// handleRequest answers a request, now or later, exactly once.
func (c *Core) handleRequest(in Received) {
	switch r := in.Request.(type) {
	case *VoteRequest:
		c.handleVote(in, r)
	case *BeginQuorumEpochRequest:
		c.handleBeginQuorumEpoch(in, r)
	case *EndQuorumEpochRequest:
		c.handleEndQuorumEpoch(in, r)
	case *FetchRequest:
		c.handleFetch(in, r)
	case *FetchSnapshotRequest:
		c.handleFetchSnapshot(in, r)
	case *AddVoterRequest:
		c.handleAddVoter(in, r)
	case *RemoveVoterRequest:
		c.handleRemoveVoter(in, r)
	case *UpdateVoterRequest:
		c.handleUpdateVoter(in, r)
	case *DescribeQuorumRequest:
		c.handleDescribeQuorum(in)
	case *AppendRequest:
		c.handleAppend(in, r)
	case *UpgradeRequest:
		c.handleUpgrade(in, r)
	}
}

// start takes the state of the disk. The rules are those of Kafka 4.4.0.
func (c *Core) start(r Recovered) {
	var err error
	if c.log, err = newLogState(r); err != nil {
		c.die("%v", err)
		return
	}
	if err := c.cfg.check(); err != nil {
		c.die("%v", err)
		return
	}
	c.history.static = c.cfg.StaticVoters
	if s := c.log.latestSnapshot(); s != nil {
		c.history.reset(*s)
	}
	for _, b := range r.Control {
		// The records of before the newest snapshot are in it.
		if s := c.log.latestSnapshot(); s == nil || b.BaseOffset >= s.ID.EndOffset {
			c.history.add(b)
		}
	}
	if !c.supports(c.history.version()) {
		return
	}
	c.announceVoters()

	q := r.QuorumState
	if last := c.log.lastEpoch(); q.Epoch < last {
		// The file is older than the log or missing: it was deleted, since a new epoch is written before the
		// epoch's first append. The vote in the log's epoch is forgotten with it, and that is safe: who asks
		// for one in that epoch has an older last record than we have, and is refused as not up to date.
		q = QuorumState{Epoch: last, LeaderID: None, Voted: noReplica}
	}
	ours := q.Voted.NodeID == c.cfg.NodeID && (q.Voted.DirectoryID == uuid.Nil || q.Voted.DirectoryID == c.cfg.DirectoryID)
	s := quorumState{epoch: q.Epoch, leaderID: q.LeaderID, voted: q.Voted}
	switch {
	case q.LeaderID == c.cfg.NodeID:
		// It must not lead this epoch again: what it appended and had not synced is gone, and may be on followers.
		c.enter(&resigned{electionAt: c.electionTimeout(), waiting: c.otherVoters()}, s)
	case q.LeaderID != None && len(c.voterEndpoints(q.LeaderID)) > 0:
		s.endpoints = c.voterEndpoints(q.LeaderID)
		c.enter(c.newFollower(), s)
	case q.LeaderID == None && ours && c.electable() && q.Epoch > c.log.lastEpoch():
		// With a record of this epoch, it has been led, and the file is a copy of before.
		c.enter(&candidate{electionAt: c.electionTimeout(), votes: c.newRound()}, s)
	default:
		c.enter(&unattached{electionAt: c.electionTimeout()}, s)
	}
	if !c.role.durable() {
		c.writeQuorumState()
	}
	if c.onlyVoter() && c.role.kind() != Candidate {
		// Nobody else can be asked, nothing is gained by a timer.
		c.toProspective(nil)
	}
}

// Small views and helpers that all files share.

func (c *Core) voters() []Voter {
	voters, _ := c.history.latest()
	return voters
}

func (c *Core) ownKey() ReplicaKey { return ReplicaKey{c.cfg.NodeID, c.cfg.DirectoryID} }

func (c *Core) isVoter() bool { return voterOf(c.voters(), c.ownKey()) != nil }

func (c *Core) onlyVoter() bool { return c.isVoter() && len(c.voters()) == 1 }

func (c *Core) otherVoters() []Voter { return without(c.voters(), c.cfg.NodeID) }

// voterEndpoints is where the voter set says that a node is.
func (c *Core) voterEndpoints(id NodeID) []Endpoint {
	if v := voterByID(c.voters(), id); v != nil {
		return v.Endpoints
	}
	return nil
}

// supports checks that this node can run at a kraft.version that it finds in the log or a snapshot. It stops if not.
func (c *Core) supports(version int16) bool {
	if c.ownVoter().supports(version) {
		return true
	}
	c.die("the cluster runs at kraft.version %d, and this node supports %d to %d", version, c.cfg.MinKRaftVersion, c.cfg.MaxKRaftVersion)
	return false
}

// ownVoter is what the node says of itself in a voter set.
func (c *Core) ownVoter() Voter {
	return Voter{c.ownKey(), c.cfg.Listeners, c.cfg.MinKRaftVersion, c.cfg.MaxKRaftVersion}
}

// electable tells that votes for this node count for something: it is a voter, or was one before a set that may
// never commit.
//
// Unlike Kafka, where a node that isn't in the latest set of its log never stands. 1. Of voters 1 and 2, the
// leader 1 appends its own removal, and resigns before node 2 has it. 2. Node 2 needs the vote of node 1, which
// refuses: its log is newer. 3. Only node 1 can be elected, by the vote of node 2; it leads until its removal
// is committed (Ongaro's thesis, 4.2.2).
func (c *Core) electable() bool {
	_, offset := c.history.latest()
	return c.isVoter() || (offset >= c.committed() && voterOf(c.history.previous(), c.ownKey()) != nil)
}

// mayStand tells that the node may ask for votes now. Not while a snapshot is being installed: the log that the
// votes would be for is about to be another one. And not with a log that is not durable, because a vote that was
// granted is granted again without a look at the log: 1. Node 3 has appended a record, not synced it, and asks for
// votes with it. 2. Node 1 grants, node 3 crashes and loses the record, which nodes 1 and 2 have committed. 3. Node
// 3 comes back as the candidate that it was, gets the same vote again, and leads without a committed record.
func (c *Core) mayStand() bool {
	return c.electable() && c.log.synced == c.log.end && c.installing == SnapshotID{} && c.shutdownBy == never
}

// electionTimeout returns the end of an election timeout that begins now, uniform in [t, 2t). It is at least 1
// ms, so that no setting makes a role end at the instant of its begin.
func (c *Core) electionTimeout() Millis {
	t := max(1, c.cfg.ElectionTimeoutMillis)
	return c.now + t + Millis(c.cfg.Random.Int64N(int64(t)))
}

func (c *Core) clusterID() *string {
	if c.cfg.ClusterID == "" {
		return nil
	}
	id := c.cfg.ClusterID
	return &id
}

// ourCluster checks the cluster id of a request. A null one passes, and a node without an id takes any.
func (c *Core) ourCluster(id *string) bool {
	if id == nil || c.cfg.ClusterID == "" || *id == c.cfg.ClusterID {
		return true
	}
	c.tell(Notice{fmt.Sprintf("a request for another cluster is refused, that with the id %.22q", *id), None, InconsistentClusterID})
	return false
}

// view is what all raft answers tell of the leader.
func (c *Core) view(listener string) LeaderView {
	v := LeaderView{LeaderID: c.state.leaderID, Epoch: c.state.epoch}
	if listener == "" {
		listener = c.cfg.DefaultListener
	}
	v.Endpoint, _ = endpoint(c.leaderEndpoints(), listener)
	return v
}

func (c *Core) leaderEndpoints() []Endpoint {
	if c.state.leaderID == c.cfg.NodeID {
		return c.cfg.Listeners
	}
	return c.state.endpoints
}

func (c *Core) emit(e Effect) {
	if !c.done {
		c.effects = append(c.effects, e)
	}
}

func (c *Core) reply(in Received, r Response) { c.emit(Reply{in.ID, r}) }

func (c *Core) notice(format string, args ...any) {
	c.tell(Notice{fmt.Sprintf(format, args...), None, NoError})
}

// tell emits a notice, unless it was told a moment ago: a peer that repeats itself each 20 ms would fill the disk.
func (c *Core) tell(n Notice) {
	c.told = slices.DeleteFunc(c.told, func(t told) bool { return t.until <= c.now })
	if slices.ContainsFunc(c.told, func(t told) bool { return t.notice == n }) {
		return
	}
	if len(c.told) == maxTold {
		c.told = c.told[1:]
	}
	c.told = append(c.told, told{n, c.now + toldMillis})
	c.emit(n)
}

// die stops the node. Nothing goes out behind it.
func (c *Core) die(format string, args ...any) {
	if c.done {
		return
	}
	c.fatal = fmt.Sprintf(format, args...)
	c.emit(Fatal{c.fatal})
	c.done = true
}

// broken is for what only a fault of this package can bring about.
func (c *Core) broken(format string, args ...any) {
	panic(fmt.Sprintf("raft: node %d, epoch %d, log from %d to %d (synced %d), high watermark %d: %s",
		c.cfg.NodeID, c.state.epoch, c.log.start, c.log.end, c.log.synced, c.hw, fmt.Sprintf(format, args...)))
}

// Role returns what the node is in the quorum.
func (c *Core) Role() Role { return c.role.kind() }

// Status returns a view of the node.
func (c *Core) Status() Status {
	voters, offset := c.history.latest()
	s := Status{
		Role:          c.role.kind(),
		Epoch:         c.state.epoch,
		LeaderID:      c.state.leaderID,
		Voted:         c.state.voted,
		HighWatermark: c.hw,
		LogStart:      c.log.start,
		LogEnd:        c.log.end,
		SyncedEnd:     c.log.synced,
		LastEpoch:     c.log.lastEpoch(),
		KRaftVersion:  c.history.version(),
		Voters:        slices.Clone(voters),
		VotersOffset:  offset,
		IsVoter:       c.isVoter(),
		Fatal:         c.fatal,
	}
	for _, snapshot := range c.log.snapshots {
		s.Snapshots = append(s.Snapshots, snapshot.ID)
	}
	if f, ok := c.role.(*follower); ok && f.download != nil {
		s.Fetching = f.download.id
	}
	return s
}
