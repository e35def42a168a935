package raft

// unattached knows no leader that it could fetch from. It asks the bootstrap servers, and a voter stands for election
// when its timer ends.
type unattached struct{ electionAt Millis }

func (*unattached) kind() Role    { return Unattached }
func (*unattached) durable() bool { return true }

func (u *unattached) deadline(c *Core) Millis {
	if !c.mayStand() {
		return never
	}
	return u.electionAt
}

func (u *unattached) poll(c *Core) {
	if c.mayStand() && u.electionAt <= c.now {
		c.toProspective(nil)
		return
	}
	if c.mayFetch() {
		c.askBootstrap()
	}
}

// askBootstrap sends a Fetch to a bootstrap server, by chance, of those that are ready, unless it waits for one.
func (c *Core) askBootstrap() {
	if c.out.fetching() {
		return
	}
	var ready []NodeID
	for i := range c.cfg.BootstrapServers {
		if id := bootstrapID(i); c.ready(id) {
			ready = append(ready, id)
		}
	}
	if len(ready) == 0 {
		return
	}
	id := ready[c.cfg.Random.Int64N(int64(len(ready)))]
	c.send(id, c.cfg.BootstrapServers[-2-id], c.fetchRequest())
}

// bootstrapID is the node id under which the i-th bootstrap server goes.
func bootstrapID(i int) NodeID { return NodeID(-2 - i) }
