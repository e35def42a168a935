package raft

import "slices"

// handleBeginQuorumEpoch is told of a leader by itself (KIP-595).
func (c *Core) handleBeginQuorumEpoch(in Received, r *BeginQuorumEpochRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &BeginQuorumEpochResponse{Code: InconsistentClusterID, LeaderView: noView})
		return
	}
	code := c.checkVoterOnly(r.Epoch, r.LeaderID)
	if code == NoError && !c.begins(r) {
		c.notice("node %d says that it leads epoch %d, in which this node knows otherwise", r.LeaderID, r.Epoch)
		code = InvalidRequest
	}
	if code == NoError && !c.isOwnKey(r.Voter) {
		code = InvalidVoterKey
	}
	c.reply(in, &BeginQuorumEpochResponse{Partition: code, LeaderView: c.view(in.Listener)})
}

// begins takes in who begins an epoch. Nobody else can begin one in this node's name.
func (c *Core) begins(r *BeginQuorumEpochRequest) bool {
	if r.LeaderID == c.cfg.NodeID {
		return c.state.leaderID == r.LeaderID && c.state.epoch == r.Epoch
	}
	return c.learn(r.Epoch, r.LeaderID, r.Endpoints)
}

// handleEndQuorumEpoch is told that the leader resigned (KIP-595).
func (c *Core) handleEndQuorumEpoch(in Received, r *EndQuorumEpochRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &EndQuorumEpochResponse{Code: InconsistentClusterID, LeaderView: noView})
		return
	}
	code := c.checkVoterOnly(r.Epoch, r.LeaderID)
	if code == NoError && (r.LeaderID == c.cfg.NodeID || !c.learn(r.Epoch, r.LeaderID, r.Endpoints)) {
		code = InvalidRequest
	}
	if f, ok := c.role.(*follower); ok && code == NoError {
		position := slices.IndexFunc(r.Successors, func(k ReplicaKey) bool { return c.isOwnKey(k) && k.NodeID >= 0 })
		f.fetchBy = c.now + successorDelay(position, len(r.Successors), c.cfg.ElectionBackoffMaxMillis)
	}
	c.reply(in, &EndQuorumEpochResponse{Partition: code, LeaderView: c.view(in.Listener)})
}
