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
