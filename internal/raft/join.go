package raft

// updatePeriod is how often a follower looks whether it has to tell the leader something of itself.
func (c *Core) updatePeriod() Millis { return max(1, c.cfg.FetchTimeoutMillis) }

// updateRequest returns what this node has to ask of the leader about its own place in the voter set, nil for
// nothing.
func (c *Core) updateRequest(f *follower) Request {
	version := c.history.version()
	if entry := voterOf(c.voters(), c.ownKey()); entry != nil {
		// Under kraft.version 0 once an epoch: no record keeps it. Later whenever the set has it wrong.
		if (version == 0 && f.updated) || (version > 0 && sameVoter(*entry, c.ownVoter())) {
			return nil
		}
		return &UpdateVoterRequest{
			ClusterID:       c.clusterID(),
			Epoch:           c.state.epoch,
			Voter:           c.ownKey(),
			Endpoints:       c.cfg.Listeners,
			MinKRaftVersion: c.cfg.MinKRaftVersion,
			MaxKRaftVersion: c.cfg.MaxKRaftVersion,
		}
	}
	// A node without a cluster id could be in the wrong cluster, and must not get a vote there.
	if !c.cfg.AutoJoin || !c.cfg.CanBeVoter || version == 0 || c.cfg.ClusterID == "" || c.shutdownBy != never {
		return nil
	}
	if old := voterByID(c.voters(), c.cfg.NodeID); old != nil {
		// This node, before its disk was replaced.
		return &RemoveVoterRequest{ClusterID: c.clusterID(), Voter: old.Key}
	}
	return &AddVoterRequest{
		ClusterID:     c.clusterID(),
		TimeoutMillis: c.cfg.RequestTimeoutMillis,
		Voter:         c.ownKey(),
		Endpoints:     c.cfg.Listeners,
	}
}

func (c *Core) handleUpdateVoterResponse(o outgoing, r *UpdateVoterResponse) {
	switch r.Code {
	case NoError, FencedLeaderEpoch, UnknownLeaderEpoch, NotLeaderOrFollower, BrokerNotAvailable:
		if !c.partition(o, r.Code, r.LeaderView) {
			return
		}
		if f, ok := c.role.(*follower); ok {
			f.updated = true
			f.fetchBy = c.now + c.cfg.FetchTimeoutMillis
		}
	case UnsupportedVersion:
		if f, ok := c.role.(*follower); ok {
			f.updated = true
		}
	case RequestTimedOut: // another change is under way; the next period will do
	default:
		c.topLevel(o, r.Code)
	}
}

// handleJoinResponse ends an auto-join request. The next period looks again at the voter set, which alone tells
// whether this node is in it.
func (c *Core) handleJoinResponse(o outgoing, r *ChangeVoterResponse) {
	switch r.Code {
	case NoError, RequestTimedOut, DuplicateVoter, VoterNotFound:
	default:
		c.notice("the leader %d refuses %s with error %d: %s", o.to, requestName(o.request), r.Code, r.Message)
		c.topLevel(o, r.Code)
	}
}
