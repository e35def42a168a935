package raft

import (
	"cmp"
	"slices"
)

// resigned led this epoch and leads it no more: it tells the other voters, so that they needn't wait for
// their timers. A node that finds on its disk that it led starts here.
type resigned struct {
	electionAt Millis
	successors []ReplicaKey // best first; empty after a restart
	waiting    []Voter      // who has not acknowledged
}

func (*resigned) kind() Role    { return Resigned }
func (*resigned) durable() bool { return false }

func (r *resigned) deadline(c *Core) Millis {
	if c.shutdownBy != never {
		return never
	}
	return r.electionAt
}

func (r *resigned) poll(c *Core) {
	if r.electionAt <= c.now && c.shutdownBy == never {
		// Nobody leads this epoch again, and to vote in it is too late.
		if epoch, ok := c.nextEpoch(); ok {
			c.toUnattached(epoch, None)
		}
		return
	}
	for _, v := range r.waiting {
		if c.ready(v.Key.NodeID) {
			c.sendToVoter(v, &EndQuorumEpochRequest{
				ClusterID:  c.clusterID(),
				LeaderID:   c.cfg.NodeID,
				Epoch:      c.state.epoch,
				Successors: r.successors,
			})
		}
	}
}

func (c *Core) handleEndQuorumEpochResponse(o outgoing, r *EndQuorumEpochResponse) {
	if !c.topLevel(o, r.Code) || !c.partition(o, r.Partition, r.LeaderView) {
		return
	}
	if role, ok := c.role.(*resigned); ok {
		role.waiting = without(role.waiting, o.to)
	}
}

// toResigned ends the leader's term, in the same epoch.
func (c *Core) toResigned(l *leader) {
	others := c.otherVoters()
	// Who is furthest is the most likely to win.
	byEnd := slices.SortedStableFunc(slices.Values(others), func(a, b Voter) int {
		return cmp.Compare(l.replica(b.Key).end, l.replica(a.Key).end)
	})
	r := &resigned{electionAt: c.electionTimeout(), waiting: others}
	for _, v := range byEnd {
		r.successors = append(r.successors, v.Key)
	}
	c.become(r, c.state)
}

// handleEndQuorumEpoch is told that the leader resigned (kraft.md 10.4).
func (c *Core) handleEndQuorumEpoch(in Received, r *EndQuorumEpochRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &EndQuorumEpochResponse{Code: InconsistentClusterID})
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

// handleBeginQuorumEpoch is told of a leader by itself (kraft.md 10.2).
func (c *Core) handleBeginQuorumEpoch(in Received, r *BeginQuorumEpochRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &BeginQuorumEpochResponse{Code: InconsistentClusterID})
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
