package raft

import "slices"

// quorumState is what all roles share: the facts that quorum-state keeps, and the leader's endpoints.
type quorumState struct {
	epoch     Epoch
	leaderID  NodeID     // None: not known
	endpoints []Endpoint // of the leader, if it is another node; empty: not known
	voted     ReplicaKey // NodeID None: no vote in this epoch
}

// role is a node's state in the quorum, with its own timers. poll does what is due, and may change the role.
// deadline is when it wants to be polled next; what it waits for may come earlier.
type role interface {
	kind() Role
	// durable tells that quorum-state is written on entry. It isn't for roles that follow from the role before them.
	durable() bool
	poll(c *Core)
	deadline(c *Core) Millis
}

// The legal transitions. In a higher epoch a node goes to Unattached or Follower from everywhere, and nobody goes
// to a lower one. Candidate alone raises its epoch, and so does a Resigned node that leaves it behind.
//
// A node that hears that it led an epoch of which its disk has forgotten is Resigned in it.
//
//	from          in the same epoch                               with a higher one, besides
//	Unattached    Follower (the leader is found)
//	              Unattached (its id is known, no address)
//	              Prospective (election timer)
//	              Resigned (it led)
//	Prospective   Follower (leader found, or the old one again)   Candidate (pre-vote won: epoch + 1)
//	              Unattached (rejected or timed out)
//	              Resigned (it led)
//	Candidate     Leader (won), Prospective (timer)
//	              Follower, Unattached (another leader is found)
//	              Resigned (it led)
//	Follower      Prospective (fetch timer, leader refused)
//	Leader        Resigned
//	Resigned      Prospective (only voter, at its start)          Unattached (election timer: epoch + 1)
var legal = map[Role]struct{ same, higher []Role }{
	Unattached:  {[]Role{Unattached, Follower, Prospective, Resigned}, []Role{Unattached, Follower, Resigned}},
	Prospective: {[]Role{Follower, Unattached, Resigned}, []Role{Unattached, Follower, Resigned, Candidate}},
	Candidate:   {[]Role{Leader, Prospective, Follower, Unattached, Resigned}, []Role{Unattached, Follower, Resigned}},
	Follower:    {[]Role{Prospective}, []Role{Unattached, Follower, Resigned}},
	Leader:      {[]Role{Resigned}, []Role{Unattached, Follower, Resigned}},
	Resigned:    {[]Role{Prospective}, []Role{Unattached, Follower, Resigned}},
}

// become is the one place where a role changes.
func (c *Core) become(next role, s quorumState) {
	allowed := legal[c.role.kind()].same
	if s.epoch > c.state.epoch {
		allowed = legal[c.role.kind()].higher
	}
	if s.epoch < c.state.epoch || !slices.Contains(allowed, next.kind()) {
		c.broken("from %v to %v of epoch %d", c.role.kind(), next.kind(), s.epoch)
	}
	if s.epoch == c.state.epoch {
		if c.state.voted.NodeID != None && s.voted.NodeID != c.state.voted.NodeID && next.kind() != Leader {
			c.broken("vote for %v becomes one for %v", c.state.voted, s.voted)
		}
		if c.state.leaderID != None && s.leaderID != c.state.leaderID {
			c.broken("leader %d becomes %d", c.state.leaderID, s.leaderID)
		}
	}
	old := c.role
	c.enter(next, s)
	switch old := old.(type) {
	case *leader:
		old.leave(c)
	case *follower:
		old.leave(c)
	case *prospective:
		if old.early != nil && next != role(old.early) {
			old.early.drop(c)
		}
	}
}

// enter makes a role the node's own. Requests under way are forgotten: their answers belong to the role that asked.
func (c *Core) enter(next role, s quorumState) {
	c.role, c.state = next, s
	c.out.reset()
	if next.durable() {
		// Before all effects of the new role: a vote or an epoch that a peer hears of is on disk.
		c.writeQuorumState()
	}
	c.announceLeader()
}

func (c *Core) writeQuorumState() {
	q := QuorumState{
		Version:  min(1, c.history.version()),
		Epoch:    c.state.epoch,
		LeaderID: c.state.leaderID,
		Voted:    c.state.voted,
	}
	if q.Version == 0 {
		// This version of the file has no place for it.
		q.Voted = ReplicaKey{NodeID: q.Voted.NodeID}
		q.Voters = nodeIDs(c.voters())
	}
	if w := c.written; w != nil && w.Version == q.Version && w.Epoch == q.Epoch && w.LeaderID == q.LeaderID && w.Voted == q.Voted {
		return // a rejected pre-vote ends where it began
	}
	c.written = &q
	// One write will do for what changes twice before anybody else can see it: a higher epoch and the vote in
	// it, say.
	last := len(c.effects) - 1
	for last >= 0 && isTold(c.effects[last]) {
		last--
	}
	if last >= 0 {
		if _, ok := c.effects[last].(WriteQuorumState); ok {
			c.effects[last] = WriteQuorumState{q}
			return
		}
	}
	c.emit(WriteQuorumState{q})
}

// isTold reports whether an effect goes to the layer above alone, and promises nothing to a peer.
func isTold(e Effect) bool {
	switch e.(type) {
	case LeaderChanged, VotersChanged, Notice:
		return true
	}
	return false
}

// announceLeader tells the layer above when there is something new.
func (c *Core) announceLeader() {
	now := LeaderChanged{Epoch: c.state.epoch, LeaderID: c.state.leaderID, StartOffset: Unknown}
	if l, ok := c.role.(*leader); ok {
		now.StartOffset = l.epochStart
	} else if now.LeaderID == c.cfg.NodeID {
		// Unlike Kafka: the layer above hears at once that this node leads no more, not when the epoch changes.
		now.LeaderID = None
	}
	if now.LeaderID != None {
		now.Endpoint, _ = endpoint(c.leaderEndpoints(), c.cfg.DefaultListener)
	}
	if now != c.announced {
		c.announced = now
		c.emit(now)
	}
}

// nextEpoch is the epoch after this one. Epochs are 31 bits, and a peer can name the last one.
func (c *Core) nextEpoch() (Epoch, bool) {
	if c.state.epoch == 1<<31-1 {
		c.die("epoch %d is the last one: no leader can be elected any more", c.state.epoch)
		return 0, false
	}
	return c.state.epoch + 1, true
}

// toUnattached goes to an epoch whose leader is not known, or has no known address. A vote in the same epoch is kept.
func (c *Core) toUnattached(epoch Epoch, leaderID NodeID) {
	s := quorumState{epoch: epoch, leaderID: leaderID, voted: noReplica}
	if epoch == c.state.epoch {
		s.voted = c.state.voted
	}
	c.become(&unattached{electionAt: c.remainingElection()}, s)
}

// remainingElection is the end of the election timer for a node that becomes Unattached. What is left of a
// timer goes on, so that a stream of higher epochs doesn't put elections off for ever.
func (c *Core) remainingElection() Millis {
	switch r := c.role.(type) {
	case *unattached:
		return r.electionAt
	case *candidate:
		return r.electionAt
	case *resigned:
		return r.electionAt
	case *prospective:
		if !r.votes.lost() {
			return r.electionAt
		}
	}
	return c.electionTimeout()
}

// toFollower follows a leader whose endpoints are known.
func (c *Core) toFollower(epoch Epoch, leaderID NodeID, endpoints []Endpoint) {
	s := quorumState{epoch: epoch, leaderID: leaderID, endpoints: endpoints, voted: noReplica}
	if epoch == c.state.epoch {
		s.voted = c.state.voted
	}
	c.become(c.newFollower(), s)
}

// toProspective begins a pre-vote, in the same epoch. early is the follower that begins one before its fetch timer.
func (c *Core) toProspective(early *follower) {
	p := &prospective{electionAt: c.electionTimeout(), votes: c.newRound(), early: early}
	if early != nil {
		p.electionAt = min(p.electionAt, early.fetchBy)
	}
	c.become(p, c.state)
}

// toCandidate begins an election in the next epoch, with the vote for itself.
func (c *Core) toCandidate() {
	if epoch, ok := c.nextEpoch(); ok {
		c.become(&candidate{electionAt: c.electionTimeout(), votes: c.newRound()},
			quorumState{epoch: epoch, leaderID: None, voted: c.ownKey()})
	}
}

func (c *Core) newRound() tally { return newTally(c.voters(), c.cfg.NodeID) }

// learn takes in who leads an epoch, from a request or an answer. endpoints may be empty. It reports false if that
// contradicts what this node knows: then an epoch has two leaders, or somebody is wrong about one.
func (c *Core) learn(epoch Epoch, leaderID NodeID, endpoints []Endpoint) bool {
	if epoch < c.state.epoch {
		return true
	}
	higher := epoch > c.state.epoch
	switch {
	case leaderID < 0:
		if higher {
			c.toUnattached(epoch, None)
		}
		return true
	case leaderID == c.cfg.NodeID:
		return c.learnOwn(epoch)
	case !higher && c.state.leaderID != None && c.state.leaderID != leaderID:
		return false
	}
	if len(endpoints) == 0 {
		endpoints = c.voterEndpoints(leaderID)
	}
	_, follows := c.role.(*follower)
	switch {
	case higher || c.state.leaderID == None:
		if len(endpoints) == 0 {
			// Unlike Kafka, which throws: the leader will say where it is, or a bootstrap server.
			c.toUnattached(epoch, leaderID)
		} else {
			c.toFollower(epoch, leaderID, endpoints)
		}
	case follows && len(endpoints) > len(c.state.endpoints):
		c.state.endpoints = endpoints
		c.announceLeader()
	case len(c.state.endpoints) == 0 && len(endpoints) > 0:
		c.toFollower(epoch, leaderID, endpoints) // known by its id alone until now
	}
	return true
}

// learnOwn takes in that this node itself leads an epoch. If it doesn't know, its disk has lost that. It led, and must
// not lead that epoch again nor vote for another in it: it is Resigned, and its disk says so from here on. A vote for
// itself would not be enough: 1. It is recorded, and the node crashes. 2. It comes back as a candidate of that epoch,
// with another log than it led with. 3. Those who voted for it grant again.
func (c *Core) learnOwn(epoch Epoch) bool {
	s := quorumState{epoch: epoch, leaderID: c.cfg.NodeID, voted: noReplica}
	if epoch == c.state.epoch {
		switch {
		case c.state.leaderID == c.cfg.NodeID:
			return true
		case c.state.leaderID != None || (c.state.voted.NodeID != None && c.state.voted.NodeID != c.cfg.NodeID):
			return false // who follows or voted for another cannot have led
		}
		s.voted = c.state.voted
	}
	c.become(&resigned{electionAt: c.electionTimeout(), waiting: c.otherVoters()}, s)
	c.writeQuorumState()
	return true
}
