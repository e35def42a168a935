package raft

// shutdownMillis is how long a graceful shutdown waits for another leader.
const shutdownMillis Millis = 5000

// handleShutdown hands over: a leader resigns, and nobody stands for election any more.
func (c *Core) handleShutdown() {
	if c.shutdownBy != never {
		return
	}
	c.shutdownBy = c.now + shutdownMillis
	switch r := c.role.(type) {
	case *leader:
		c.toResigned(r)
	case *prospective, *candidate:
		c.toUnattached(c.state.epoch, c.state.leaderID)
	}
}

// pollShutdown ends it when there is nothing to hand over, or somebody has taken over.
func (c *Core) pollShutdown() {
	if c.done || c.shutdownBy == never {
		return
	}
	succeeded := c.state.leaderID != None && c.state.leaderID != c.cfg.NodeID
	if !c.isVoter() || c.onlyVoter() || succeeded || c.shutdownBy <= c.now {
		c.emit(ShutdownDone{})
		c.done = true
	}
}
