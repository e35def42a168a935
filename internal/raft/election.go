package raft

// prospective asks for pre-votes: would it win? Nothing that it does disturbs a living leader.
type prospective struct {
	electionAt Millis
	votes      tally
	// early is the follower that was refused by its leader's host and goes on if the leader turns out to live; nil
	// in a pre-vote by a timer.
	early *follower
}

func (*prospective) kind() Role              { return Prospective }
func (*prospective) durable() bool           { return false }
func (p *prospective) deadline(*Core) Millis { return p.electionAt }

func (p *prospective) poll(c *Core) {
	switch {
	case p.votes.won():
		c.toCandidate()
	case p.early != nil && (p.votes.count(rejected) > 0 || p.electionAt <= c.now):
		// Whoever rejects follows the leader or has a newer log. The fetch timer goes on as if nothing had been.
		c.become(p.early, c.state)
	case p.votes.lost() || p.electionAt <= c.now:
		if c.state.leaderID != None && len(c.state.endpoints) > 0 {
			c.toFollower(c.state.epoch, c.state.leaderID, c.state.endpoints)
		} else {
			c.toUnattached(c.state.epoch, c.state.leaderID)
		}
	default:
		c.askVoters(&p.votes, true)
	}
}

// candidate asks for votes in an epoch of its own.
type candidate struct {
	electionAt Millis
	votes      tally
}

func (*candidate) kind() Role               { return Candidate }
func (*candidate) durable() bool            { return true }
func (cd *candidate) deadline(*Core) Millis { return cd.electionAt }

func (cd *candidate) poll(c *Core) {
	switch {
	case cd.votes.won():
		c.toLeader(cd.votes.granting())
	case cd.electionAt <= c.now:
		// Back to pre-votes in the same epoch: only who can win raises it again.
		c.toProspective(nil)
	case !cd.votes.lost():
		c.askVoters(&cd.votes, false)
	}
}

// askVoters sends to the voters that have not answered in this round.
func (c *Core) askVoters(t *tally, preVote bool) {
	for i, v := range t.voters {
		if t.answers[i] != unanswered || !c.ready(v.Key.NodeID) {
			continue
		}
		c.sendToVoter(v, &VoteRequest{
			ClusterID:    c.clusterID(),
			Voter:        v.Key,
			ReplicaEpoch: c.state.epoch,
			Replica:      c.ownKey(),
			LastEpoch:    c.log.lastEpoch(),
			LastOffset:   c.log.end,
			PreVote:      preVote,
		})
	}
}

// round returns the tally that answers of a kind count in, nil if the node asks for none.
func (c *Core) round(preVote bool) *tally {
	switch r := c.role.(type) {
	case *prospective:
		if preVote {
			return &r.votes
		}
	case *candidate:
		if !preVote {
			return &r.votes
		}
	}
	return nil
}

func (c *Core) handleVoteResponse(o outgoing, q *VoteRequest, r *VoteResponse) {
	if !c.topLevel(o, r.Code) {
		return
	}
	counts := c.partition(o, r.Partition, r.LeaderView)
	t := c.round(q.PreVote)
	switch {
	case t == nil:
	case r.Partition == InvalidVoterKey:
		// Unlike Kafka, which asks it again and again: the voter of the set isn't there, and won't be in this round.
		t.record(o.to, rejected)
	case counts && r.VoteGranted:
		t.record(o.to, granted)
	case counts:
		t.record(o.to, rejected)
	}
}

// voteFailed: a peer without Vote v2 cannot be asked for a pre-vote.
func (c *Core) voteFailed(o outgoing, q *VoteRequest, reason SendFailure) {
	p, ok := c.role.(*prospective)
	if !ok || reason != Unsupported || !q.PreVote {
		return
	}
	if p.early != nil || !c.isVoter() {
		// Without its opinion the leader could be alive; the fetch timer will tell. And a node that is removed, and
		// cannot hear of it, would raise the epoch of those who go on without it, again and again. (So if only a node
		// whose removal isn't committed can be elected, and only by peers that know no pre-vote, nobody is, as in Kafka.)
		p.votes.record(o.to, rejected)
		return
	}
	c.toCandidate()
}
