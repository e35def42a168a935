package raft

import "slices"

// The log's end, what of it is durable and what is committed: whoever moves them, they are moved here.

// append puts batches at the log's end, whoever made them.
func (c *Core) append(batches ...Batch) {
	if len(batches) == 0 {
		return
	}
	starts := c.log.epochs
	control := false
	for _, b := range batches {
		if b.BaseOffset != c.log.end {
			c.broken("append at offset %d", b.BaseOffset)
		}
		if n := len(starts); n == 0 || starts[n-1].Epoch != b.Epoch {
			// Epochs that have no record make way, newer ones too.
			starts = append(startsBelow(starts, b.BaseOffset), EpochStart{b.Epoch, b.BaseOffset})
		}
		c.log.end = b.LastOffset + 1
		if b.Control != nil {
			control = true
			c.history.add(b)
		}
	}
	if !slices.Equal(starts, c.log.epochs) {
		c.setEpochs(starts)
	}
	c.emit(AppendLog{batches, c.log.end, c.log.generation})
	if control {
		c.announceVoters()
	}
}

func (c *Core) setEpochs(starts []EpochStart) {
	c.log.epochs = starts
	c.emit(WriteEpochStarts{starts})
}

// setHighWatermark moves it up, or leaves it where it is.
func (c *Core) setHighWatermark(hw Offset) {
	if hw < c.hw || hw > c.log.end {
		c.broken("high watermark %d", hw)
	}
	if hw == c.hw {
		return
	}
	if s := c.log.latestSnapshot(); c.hw == Unknown && s != nil {
		c.emit(LoadSnapshot{s.ID})
	}
	c.hw = hw
	c.emit(Committed{hw})
}

func (c *Core) handleSynced(in Synced) {
	if in.Generation != c.log.generation {
		return // of appends that were cut
	}
	if in.EndOffset > c.log.end {
		c.broken("synced up to %d", in.EndOffset)
	}
	c.log.synced = max(c.log.synced, in.EndOffset)
	if l, ok := c.role.(*leader); ok {
		l.advance(c)
	}
}

// announceVoters tells the layer above of the latest set if it is another one, and the leader counts by it.
func (c *Core) announceVoters() {
	now := VotersChanged{c.history.version(), c.voters()}
	if now.KRaftVersion != c.announcedVoters.KRaftVersion || !slices.EqualFunc(now.Voters, c.announcedVoters.Voters, sameVoter) {
		c.announcedVoters = now
		c.emit(now)
	}
	if l, ok := c.role.(*leader); ok {
		l.votersChanged(c)
	}
}

// committed is the end of what is certainly committed: by the high watermark, and by the newest snapshot, which
// was made of committed records and outlives a restart, which the high watermark doesn't.
func (c *Core) committed() Offset { return max(c.hw, c.log.start, c.log.newestSnapshotEnd()) }
