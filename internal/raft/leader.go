package raft

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// observerMemoryMillis is how long a leader remembers an observer that doesn't fetch.
const observerMemoryMillis Millis = 300_000

// leader appends to the log, and commits what a majority has on disk.
type leader struct {
	epochStart Offset    // of its LeaderChange record
	hwKnown    bool      // an entry of this epoch is committed
	replicas   []replica // all voters but this node, and the observers; in the order of keys

	fetches  pendingFetches // that wait for news
	toldEnd  Offset         // the log's end and the high watermark that they have been compared with
	toldHW   Offset
	roundAt  Millis // before that, observers are not told of commits
	roundDue bool   // one waits for it
	votersAt Millis // when voters are told of a commit alone; never: none waits for that

	change  *voterChange // an AddRaftVoter or RemoveRaftVoter under way (membership.go)
	updates []Voter      // what voters said of themselves under kraft.version 0 (UpdateRaftVoter)

	checkBy  Millis   // check quorum: enough voters have to fetch until then
	fetchers []NodeID // who has since the timer's start
	beginAt  Millis   // when to look for voters that need a BeginQuorumEpoch
	toBegin  []NodeID // who needs one
	forgetAt Millis   // when to forget observers
}

// replica is what a leader knows of another node that fetches.
type replica struct {
	key          ReplicaKey
	directory    uuid.UUID // from which it fetched last; a key of kraft.version 0 hasn't one
	end          Offset    // of its log, durable if it is a voter; Unknown before its first fetch
	lastFetch    Millis    // -1: none yet
	leaderEnd    Offset    // this log's end at that time
	lastCaughtUp Millis    // when it last had all that was there; -1: never
}

func (*leader) kind() Role    { return Leader }
func (*leader) durable() bool { return true }

// toLeader begins the term.
func (c *Core) toLeader(granting []NodeID) {
	l := &leader{
		epochStart: c.log.end,
		checkBy:    c.now + c.checkQuorumMillis(),
		beginAt:    c.now,
		forgetAt:   c.now + observerMemoryMillis,
		votersAt:   never,
	}
	c.become(l, quorumState{epoch: c.state.epoch, leaderID: c.cfg.NodeID, voted: noReplica})
	// The epoch's start is on disk before its first append. 1. Operators delete quorum-state. 2. What tells
	// this node after a crash that its epoch has been led is this entry, or a record that reached the disk.
	c.setEpochs(append(startsBelow(c.log.epochs, c.log.end), EpochStart{c.state.epoch, c.log.end}))
	records := []ControlRecord{LeaderChange{c.cfg.NodeID, nodeIDs(c.voters()), granting}}
	if version := c.history.version(); version > 0 {
		voters, offset := c.history.latest()
		own := c.ownVoter()
		entry := voterOf(voters, own.Key)
		if entry != nil && (offset == Unknown || !sameVoter(*entry, own)) {
			// The zero checkpoint's set, so that later followers find it in the log; or this node's new addresses.
			records = append(records, KRaftVersion{version}, Voters{with(voters, own)})
		}
	}
	c.appendControl(records...)
}

// appendControl appends a control batch of this epoch.
func (c *Core) appendControl(records ...ControlRecord) {
	c.append(Batch{
		BaseOffset: c.log.end,
		LastOffset: c.log.end + Offset(len(records)) - 1,
		Epoch:      c.state.epoch,
		Control:    records,
	})
}

// handleAppend appends a batch of the layer above, which made it for this place in the log.
func (c *Core) handleAppend(in Received, r *AppendRequest) {
	b := r.Batch
	code := NoError
	switch {
	case c.role.kind() != Leader || b.Epoch != c.state.epoch:
		code = NotLeaderOrFollower
	case b.BaseOffset != c.log.end || b.LastOffset < b.BaseOffset || b.LastOffset == NoHighWatermark || b.Control != nil || len(b.Bytes) == 0:
		code = InvalidRequest
	}
	if code != NoError {
		c.reply(in, &AppendResponse{code, c.log.end})
		return
	}
	c.append(b)
	c.reply(in, &AppendResponse{NoError, c.log.end})
}

func (l *leader) poll(c *Core) {
	if l.checkBy <= c.now {
		if l.fetchersNeeded(c) > 0 {
			c.notice("too few voters have fetched from the leader of epoch %d in %d ms: it resigns", c.state.epoch, c.checkQuorumMillis())
			c.toResigned(l)
			return
		}
		l.restartCheck(c)
	}
	if l.forgetAt <= c.now {
		l.forgetAt = c.now + observerMemoryMillis
		l.forgetObservers(c)
	}
	l.beginQuorumEpoch(c)
	l.completeFetches(c)
	l.expireChange(c)
}

func (l *leader) deadline(c *Core) Millis {
	at := min(l.checkBy, l.beginAt, l.forgetAt, l.votersAt, l.fetches.deadline())
	if l.roundDue {
		at = min(at, l.roundAt)
	}
	if l.change != nil {
		at = min(at, l.change.by)
	}
	return at
}

// leave answers what waits: this node leads no more.
func (l *leader) leave(c *Core) {
	for _, f := range l.fetches.list {
		c.reply(f.in, c.fetchError(f.in, NotLeaderOrFollower))
	}
	l.endChange(c, NotLeaderOrFollower, "this node is not the leader any more")
}

// replica returns what is known of a key, which is a voter's or an observer's.
func (l *leader) replica(key ReplicaKey) *replica {
	i, ok := l.find(key)
	if !ok {
		l.replicas = slices.Insert(l.replicas, i, replica{key: key, end: Unknown, lastFetch: -1, lastCaughtUp: -1})
	}
	return &l.replicas[i]
}

func (l *leader) find(key ReplicaKey) (int, bool) {
	return slices.BinarySearchFunc(l.replicas, key, func(r replica, key ReplicaKey) int { return compareKeys(r.key, key) })
}

// votersChanged makes the latest set the one that is counted by. A new voter that has fetched as an observer
// keeps its end: that was under the same key, so it is the same disk.
func (l *leader) votersChanged(c *Core) {
	for _, v := range c.otherVoters() {
		l.rename(v.Key)
		l.replica(v.Key)
	}
	l.replicas = slices.DeleteFunc(l.replicas, func(r replica) bool {
		return r.lastFetch == -1 && !slices.ContainsFunc(c.otherVoters(), func(v Voter) bool { return v.Key == r.key })
	})
	l.toBegin = slices.DeleteFunc(l.toBegin, func(id NodeID) bool { return voterByID(c.voters(), id) == nil })
	if l.fetchersNeeded(c) == 0 {
		l.restartCheck(c)
	}
}

// rename lets what is known of a voter go on under the key that the upgrade of kraft.version gave it, if it is of the same disk. Of another
// disk nothing is known.
func (l *leader) rename(key ReplicaKey) {
	if key.DirectoryID == uuid.Nil {
		return
	}
	i := slices.IndexFunc(l.replicas, func(r replica) bool { return r.key == ReplicaKey{NodeID: key.NodeID} })
	if i < 0 {
		return
	}
	old := l.replicas[i]
	l.replicas = slices.Delete(l.replicas, i, i+1)
	if old.directory == key.DirectoryID {
		old.key = key
		*l.replica(key) = old
	}
}

// heardFetch notes a Fetch whose place in the log is valid. All before offset is on that replica's disk.
func (l *leader) heardFetch(c *Core, key ReplicaKey, offset Offset) {
	directory := key.DirectoryID
	if v := voterOf(c.voters(), key); v != nil {
		key = v.Key // under kraft.version 0 without the directory id
	} else if _, known := l.find(key); !known && len(l.replicas) >= maxObservers {
		return
	}
	r := l.replica(key)
	if offset < r.end {
		c.notice("node %v fetches from offset %d after it had %d: its disk has lost records", key, offset, r.end)
	}
	switch {
	case offset >= c.log.end:
		r.lastCaughtUp = c.now
	case r.lastFetch >= 0 && offset >= r.leaderEnd:
		r.lastCaughtUp = max(r.lastCaughtUp, r.lastFetch)
	}
	r.directory, r.end, r.lastFetch, r.leaderEnd = directory, offset, c.now, c.log.end
	l.heardFrom(c, key)
}

// forgetObservers drops those that have not fetched for long.
func (l *leader) forgetObservers(c *Core) {
	l.replicas = slices.DeleteFunc(l.replicas, func(r replica) bool {
		return r.lastFetch >= 0 && c.now-r.lastFetch >= observerMemoryMillis && voterOf(c.voters(), r.key) == nil
	})
}

// heardFrom counts a replica for check quorum, if it is a voter.
func (l *leader) heardFrom(c *Core, key ReplicaKey) {
	if key.NodeID == c.cfg.NodeID || voterOf(c.voters(), key) == nil {
		return
	}
	l.begun(key.NodeID)
	if !slices.Contains(l.fetchers, key.NodeID) {
		l.fetchers = append(l.fetchers, key.NodeID)
	}
	if l.fetchersNeeded(c) == 0 {
		l.restartCheck(c)
	}
}

// Check quorum: a leader that a majority cannot hear is no use, and a client of it waits in vain.

func (c *Core) checkQuorumMillis() Millis { return max(1, c.cfg.FetchTimeoutMillis*3/2) }

// fetchersNeeded is how many more voters have to fetch until checkBy.
func (l *leader) fetchersNeeded(c *Core) int {
	heard := 0
	for _, id := range l.fetchers {
		if voterByID(c.voters(), id) != nil {
			heard++
		}
	}
	return max(0, fetchersNeeded(len(c.voters()), c.isVoter())-heard)
}

func (l *leader) restartCheck(c *Core) {
	l.fetchers = l.fetchers[:0]
	l.checkBy = c.now + c.checkQuorumMillis()
}

// beginQuorumEpoch tells voters that don't fetch who leads: at once, and once in each period.
func (l *leader) beginQuorumEpoch(c *Core) {
	period := max(1, c.cfg.FetchTimeoutMillis/2)
	if l.beginAt <= c.now {
		l.beginAt = c.now + period
		l.toBegin = l.toBegin[:0]
		for _, v := range c.otherVoters() {
			if r := l.replica(v.Key); r.lastFetch < 0 || c.now-r.lastFetch >= period {
				l.toBegin = append(l.toBegin, v.Key.NodeID)
			}
		}
	}
	for _, id := range l.toBegin {
		if v := voterByID(c.voters(), id); c.ready(id) {
			c.sendToVoter(*v, &BeginQuorumEpochRequest{
				ClusterID: c.clusterID(),
				Voter:     v.Key,
				LeaderID:  c.cfg.NodeID,
				Epoch:     c.state.epoch,
				Endpoints: c.cfg.Listeners,
			})
		}
	}
}

func (c *Core) handleBeginQuorumEpochResponse(o outgoing, r *BeginQuorumEpochResponse) {
	if c.topLevel(o, r.Code) {
		c.partition(o, r.Partition, r.LeaderView)
	}
	if l, ok := c.role.(*leader); ok {
		l.begun(o.to)
	}
}

// begun ends a BeginQuorumEpoch until the next round, whatever came of it. Its acknowledgement is a Fetch.
func (l *leader) begun(id NodeID) {
	l.toBegin = slices.DeleteFunc(l.toBegin, func(have NodeID) bool { return have == id })
}

// advance moves the high watermark to what a majority has on disk, and does what waits for it.
//
// Unlike Kafka, where the leader counts its log's end: this node counts itself only up to its own fsync. With
// one voter, or with followers that are ahead of the leader's disk, the difference is an acknowledged record
// that a power loss takes away.
func (l *leader) advance(c *Core) {
	voters := c.voters()
	ends := make([]Offset, 0, len(voters))
	for _, v := range voters {
		if v.matches(c.ownKey()) {
			ends = append(ends, c.log.synced)
		} else {
			ends = append(ends, l.replica(v.Key).end)
		}
	}
	hw := highWatermark(ends)
	if hw <= l.epochStart || hw <= c.hw {
		// Nothing of this epoch is on a majority (Raft 5.4.2), or a new voter that is behind has entered the count:
		// what is committed stays so.
		return
	}
	l.hwKnown = true
	c.setHighWatermark(hw, hw)
	if !c.isVoter() {
		l.votersAt = c.now // it may resign now, and the followers are to learn of the commit first
	}
	l.completeFetches(c)
	l.commitChange(c)
	if _, offset := c.history.latest(); !c.isVoter() && offset < hw {
		// It led on to commit its own removal.
		c.toResigned(l)
	}
}

// reportedHW is what a leader tells of the high watermark: nothing before it has committed in its epoch, since
// what it knew as a follower may be less than what its followers know.
func (l *leader) reportedHW(c *Core) Offset {
	if !l.hwKnown {
		return Unknown
	}
	return c.hw
}

func compareKeys(a, b ReplicaKey) int {
	return cmp.Or(cmp.Compare(a.NodeID, b.NodeID), bytes.Compare(a.DirectoryID[:], b.DirectoryID[:]))
}
