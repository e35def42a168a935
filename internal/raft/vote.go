package raft

import "github.com/google/uuid"

// vote records a vote in this epoch. It is on disk before any effect behind it: a node that crashed and forgot
// it could vote twice in one epoch, and so elect two leaders.
func (c *Core) vote(key ReplicaKey) {
	c.state.voted = key
	c.writeQuorumState()
}

// handleVote answers Vote and pre-vote (KIP-595, KIP-996).
func (c *Core) handleVote(in Received, r *VoteRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &VoteResponse{Code: InconsistentClusterID, LeaderView: noView})
		return
	}
	code, granted := c.judge(r)
	c.reply(in, &VoteResponse{Partition: code, LeaderView: c.view(in.Listener), VoteGranted: granted})
}

func (c *Core) judge(r *VoteRequest) (code Code, granted bool) {
	if code := c.checkVoterOnly(r.ReplicaEpoch, r.Replica.NodeID); code != NoError {
		return code, false
	}
	// A candidate has raised its epoch: a record of it cannot be there yet.
	if r.LastOffset < 0 || r.LastEpoch < 0 || r.LastEpoch > r.ReplicaEpoch || (!r.PreVote && r.LastEpoch == r.ReplicaEpoch) {
		return InvalidRequest, false
	}
	if r.ReplicaEpoch > c.state.epoch {
		// For a pre-vote too: Kafka's rule. So nobody raises an epoch for one.
		c.toUnattached(r.ReplicaEpoch, None)
	}
	if !c.isOwnKey(r.Voter) {
		return InvalidVoterKey, false
	}
	upToDate := c.log.upToDate(r.LastEpoch, r.LastOffset)
	if r.PreVote {
		return NoError, upToDate && c.role.(elector).grantsPreVote()
	}
	if !c.grants(r.Replica, upToDate) {
		return NoError, false
	}
	if c.state.voted.NodeID == None {
		c.vote(r.Replica)
		switch role := c.role.(type) {
		case *unattached:
			role.electionAt = c.electionTimeout()
		case *prospective:
			role.electionAt = c.electionTimeout()
		}
	}
	return NoError, true
}

// elector is the part of a role that decides on pre-votes of candidates that are up to date. A node grants when it
// would itself stand, or not mind.
type elector interface{ grantsPreVote() bool }

func (*unattached) grantsPreVote() bool  { return true }
func (*prospective) grantsPreVote() bool { return true }
func (*candidate) grantsPreVote() bool   { return true }
func (*resigned) grantsPreVote() bool    { return true }
func (*leader) grantsPreVote() bool      { return false }

// A follower whose leader answers doesn't help to replace it.
//
// Unlike Kafka: one that has been refused by its leader's host knows that the leader's process is gone, and grants.
func (f *follower) grantsPreVote() bool { return !f.fetched || f.refused }

// grants decides on a vote in this epoch.
func (c *Core) grants(key ReplicaKey, upToDate bool) bool {
	switch c.role.(type) {
	case *unattached, *prospective:
	default:
		return false
	}
	if v := c.state.voted; v.NodeID != None {
		// The same answer as before, if it was lost. A stored vote has no directory id under kraft.version 0.
		return v.NodeID == key.NodeID && (v.DirectoryID == uuid.Nil || v.DirectoryID == key.DirectoryID)
	}
	return c.state.leaderID == None && upToDate
}

// checkVoterOnly is the check of Vote, BeginQuorumEpoch and EndQuorumEpoch (KIP-595).
func (c *Core) checkVoterOnly(epoch Epoch, sender NodeID) Code {
	switch {
	case epoch < c.state.epoch:
		return FencedLeaderEpoch
	case sender < 0:
		return InvalidRequest
	}
	return NoError
}

// isOwnKey checks that a request meant this replica: not another node at its address, nor this node before its
// disk was replaced.
func (c *Core) isOwnKey(key ReplicaKey) bool {
	if key.NodeID < 0 {
		return true
	}
	return key.NodeID == c.cfg.NodeID && (key.DirectoryID == uuid.Nil || key.DirectoryID == c.cfg.DirectoryID)
}
