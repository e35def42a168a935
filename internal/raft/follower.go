package raft

import "fmt"

// The turns of followers that lost their leader in the same instant: see earlyTurn.
const (
	firstTurnMillis = 5
	turnMillis      = 25
)

// fetchWaitMillis is how long a leader may keep a Fetch that has nothing to tell.
//
// Unlike Kafka, which has 500 ms whatever the timers are: with short ones the leader would seem to be dead.
func (c *Core) fetchWaitMillis() Millis {
	return max(1, min(500, c.cfg.RequestTimeoutMillis/2, c.cfg.FetchTimeoutMillis/2))
}

// follower fetches from the leader.
type follower struct {
	fetchBy Millis // a voter stands for election if no Fetch succeeds until then
	fetched bool   // a Fetch from this leader has succeeded

	// Unlike Kafka, which waits for the fetch timer: when the leader's process is gone its host refuses
	// connections, and that can be known in a millisecond. A pre-vote, once, in its turn, finds out whether the
	// others see it too. It raises no epoch, so a living leader keeps its own whatever becomes of it.
	reconnecting bool   // the connection broke, and was made anew at once
	refused      bool   // it was refused since the last success
	earlyAt      Millis // when its turn comes; never: no early pre-vote is due
	earlyUsed    bool   // it was had since the last success

	updateAt Millis // when to tell the leader of this node's endpoints, or to join (join.go)
	updated  bool   // the leader has them, in this epoch (kraft.version 0)
	download *download
	had      SnapshotID // the last download that came to its end
}

func (c *Core) newFollower() *follower {
	return &follower{
		fetchBy:  c.now + c.cfg.FetchTimeoutMillis,
		earlyAt:  never,
		updateAt: c.now + c.updatePeriod(),
	}
}

func (*follower) kind() Role    { return Follower }
func (*follower) durable() bool { return true }

func (f *follower) deadline(c *Core) Millis {
	at := f.updateAt
	if at <= c.now {
		at = never // it waits for the connection
	}
	if c.mayStand() {
		at = min(at, f.fetchBy, f.earlyAt)
	}
	return at
}

func (f *follower) poll(c *Core) {
	if c.mayStand() {
		if f.fetchBy <= c.now {
			c.toProspective(nil)
			return
		}
		if f.earlyAt <= c.now {
			f.earlyAt, f.earlyUsed = never, true
			c.toProspective(f)
			return
		}
	}
	leader := c.state.leaderID
	if f.updateAt <= c.now && c.ready(leader) {
		f.updateAt = c.now + c.updatePeriod()
		if r := c.updateRequest(f); r != nil {
			c.send(leader, c.defaultEndpoint(c.state.endpoints), r)
			return // in place of a Fetch
		}
	}
	switch {
	case !c.mayFetch() || c.out.waitsFor(leader):
	case !c.ready(leader):
		// The leader may be gone for good; a bootstrap server knows the next one. It may be gone too: that doesn't keep
		// this node from the leader.
		c.askBootstrap()
	case f.download != nil:
		c.send(leader, c.defaultEndpoint(c.state.endpoints), c.fetchSnapshotRequest(f.download))
	default:
		c.send(leader, c.defaultEndpoint(c.state.endpoints), c.fetchRequest())
	}
}

// leave gives up what belongs to this leader. Another leader's snapshot of the same id has other bytes, each node
// makes its own: a download cannot go on there.
func (f *follower) leave(c *Core) {
	if p, ok := c.role.(*prospective); !ok || p.early != f {
		f.drop(c)
	}
}

// mayFetch tells that the log is one to fetch for. The offset acknowledges everything before it, and the leader commits
// by it: so all that this node has appended must be on its disk. 1. It fetches from its end. 2. The leader
// counts it, and commits. 3. Both lose power. Were its end not durable, the entry could be gone from a
// majority.
func (c *Core) mayFetch() bool {
	return c.log.synced == c.log.end && c.installing == SnapshotID{}
}

func (c *Core) fetchRequest() *FetchRequest {
	return &FetchRequest{
		ClusterID:        c.clusterID(),
		Replica:          c.ownKey(),
		MaxWaitMillis:    c.fetchWaitMillis(),
		MaxBytes:         c.cfg.FetchMaxBytes,
		Epoch:            c.state.epoch,
		FetchOffset:      c.log.end,
		LastFetchedEpoch: c.log.lastEpoch(),
		HighWatermark:    c.hw,
	}
}

// succeeded notes that the leader lives and serves this node.
func (f *follower) succeeded(c *Core) {
	f.fetchBy = c.now + c.cfg.FetchTimeoutMillis
	f.fetched = true
	f.reconnecting, f.refused, f.earlyUsed, f.earlyAt = false, false, false, never
}

// connectionFailed: a request to the leader, of whatever kind, had no answer.
func (f *follower) connectionFailed(c *Core, reason SendFailure) {
	switch reason {
	case Disconnected:
		if !f.reconnecting {
			f.reconnecting = true
			c.out.forgive(c.state.leaderID)
		}
	case Refused:
		f.refused = true
		if !f.earlyUsed && f.earlyAt == never {
			f.earlyAt = c.now + c.earlyTurn()
		}
	}
}

// earlyTurn is how long this voter waits before it takes a refused leader for dead. All voters learn of it in the same
// instant, and two that become candidates in one epoch split the vote: then an election timeout passes. So they go in
// the order of their ids, each when the one in front of it has had the time to be elected; and the first of them waits
// until the others have noticed too.
func (c *Core) earlyTurn() Millis {
	turn := Millis(firstTurnMillis)
	for _, v := range c.voters() {
		if v.Key.NodeID < c.cfg.NodeID && v.Key.NodeID != c.state.leaderID {
			turn += turnMillis
		}
	}
	return turn
}

func (c *Core) handleFetchResponse(o outgoing, r *FetchResponse) {
	if !c.topLevel(o, r.Code) || !c.partition(o, r.Partition, r.LeaderView) {
		return
	}
	f, ok := c.role.(*follower)
	if !ok {
		return
	}
	c.out.forgetFetches()
	var err error
	switch {
	case r.LeaderID != c.state.leaderID:
		err = fmt.Errorf("it names node %d as the leader", r.LeaderID)
	case r.Diverging != nil:
		err = c.truncate(*r.Diverging)
	case r.SnapshotID != nil:
		err = f.beginDownload(c, *r.SnapshotID)
	default:
		if err = c.appendFetched(r.Batches); err == nil {
			c.followHighWatermark(r.HighWatermark)
		}
	}
	if c.done {
		return
	}
	if err != nil {
		// The fetch timer goes on: a leader that answers nonsense is replaced.
		c.notice("the answer of node %d to a Fetch from offset %d is dropped: %v", o.to, c.log.end, err)
		c.backOff(o.to)
		return
	}
	if f.download == nil || f.download.id != f.had {
		f.succeeded(c)
	}
	if f.download != nil && o.to != c.state.leaderID {
		// The leader has answered as a bootstrap server; the bytes come over its own connection, which is not
		// ready yet. Without a pause the same question would get the same answer until it is.
		c.backOff(o.to)
	}
}

// truncate cuts what the leader doesn't have, and never what is committed.
func (c *Core) truncate(theirs EpochEnd) error {
	if theirs.Epoch < 0 || theirs.EndOffset < 0 {
		return fmt.Errorf("epoch %d ends at offset %d", theirs.Epoch, theirs.EndOffset)
	}
	end := c.log.truncationPoint(theirs)
	if theirs.EndOffset < c.hw || end < c.committed() {
		c.die("the leader %d of epoch %d says that epoch %d ends at offset %d, but this node has committed up to %d: records are lost there or here",
			c.state.leaderID, c.state.epoch, theirs.Epoch, theirs.EndOffset, c.committed())
		return nil
	}
	starts := startsBelow(c.log.epochs, end)
	if end == c.log.end && len(starts) == len(c.log.epochs) {
		return fmt.Errorf("epoch %d ends at offset %d, and there is nothing to cut", theirs.Epoch, theirs.EndOffset)
	}
	// The epoch starts first. 1. Records of epoch 3 are cut. 2. A crash before its entry went. 3. The log would
	// stand for election as one of epoch 3, and win over logs of epoch 2 that have more.
	c.setEpochs(starts)
	if end < c.log.end {
		c.log.end = end
		c.log.synced = end // the truncation is a barrier
		c.log.generation++
		c.emit(TruncateLog{end})
		c.history.truncate(end)
		c.announceVoters()
	}
	return nil
}

// appendFetched appends what the leader sent, up to the first batch of a later epoch than this node is in:
// there the leader is another one, and this node has not decided to follow it.
func (c *Core) appendFetched(batches []Batch) error {
	// An epoch that this node led without a record doesn't count. 1. It is elected with an empty log, writes
	// the epoch's start and crashes. 2. Another leader has records of an older epoch at offset 0, where it
	// cannot tell of a divergence. 3. They have to be taken.
	end, epoch := c.log.end, c.log.recordEpoch()
	version := c.history.version()
	for i, b := range batches {
		if b.Epoch > c.state.epoch {
			batches = batches[:i]
			break
		}
		switch {
		case b.BaseOffset != end:
			return fmt.Errorf("a batch begins at offset %d where %d is due", b.BaseOffset, end)
		case b.LastOffset < b.BaseOffset || b.LastOffset == NoHighWatermark:
			return fmt.Errorf("the batch at offset %d ends at %d", b.BaseOffset, b.LastOffset)
		case b.Epoch < epoch:
			return fmt.Errorf("the batch at offset %d is of epoch %d, after epoch %d", b.BaseOffset, b.Epoch, epoch)
		case b.Control != nil && Offset(len(b.Control)) != b.LastOffset-b.BaseOffset+1:
			return fmt.Errorf("the batch from offset %d to %d has %d control records", b.BaseOffset, b.LastOffset, len(b.Control))
		}
		for _, r := range b.Control {
			switch r := r.(type) {
			case KRaftVersion:
				switch {
				case r.Version < version:
					return fmt.Errorf("the batch at offset %d lowers kraft.version from %d to %d", b.BaseOffset, version, r.Version)
				case !c.supports(r.Version):
					return nil
				}
				version = r.Version
			case Voters:
				if err := checkVoters(version, r.Voters); err != nil {
					return fmt.Errorf("the batch at offset %d: %w", b.BaseOffset, err)
				}
			}
		}
		end, epoch = b.LastOffset+1, b.Epoch
	}
	c.append(batches...)
	return nil
}

// followHighWatermark takes in the leader's high watermark, which it doesn't know in the beginning of its epoch.
func (c *Core) followHighWatermark(theirs Offset) {
	if theirs < 0 {
		return
	}
	hw := min(theirs, c.log.end)
	if hw < c.hw {
		c.die("the leader %d of epoch %d has the high watermark %d, and this node has committed up to %d", c.state.leaderID, c.state.epoch, theirs, c.hw)
		return
	}
	c.setHighWatermark(hw, theirs)
}
