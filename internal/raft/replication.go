package raft

import "slices"

// The log's end, what of it is durable and what is committed: whoever moves them, they are moved here.

// append puts batches at the log's end, whoever made them. An AppendLog has batches of one epoch, and comes before the
// next epoch's WriteEpochStarts, which makes it durable. 1. A follower appends records of the epochs 1 and 2 in one
// write, and loses power. 2. Those of epoch 1 are torn. 3. Were the start of epoch 2 on disk by then, behind them,
// they would look like records that were once durable, and are damaged.
func (c *Core) append(batches ...Batch) {
	for len(batches) > 0 {
		n := 1
		for n < len(batches) && batches[n].Epoch == batches[0].Epoch {
			n++
		}
		c.appendEpoch(batches[:n:n])
		batches = batches[n:]
	}
}

// appendEpoch appends batches of one epoch.
func (c *Core) appendEpoch(batches []Batch) {
	c.beginEpoch(batches[0].Epoch, batches[0].BaseOffset)
	control := false
	for _, b := range batches {
		if b.BaseOffset != c.log.end {
			c.broken("append at offset %d", b.BaseOffset)
		}
		c.log.end = b.LastOffset + 1
		if b.Control != nil {
			control = true
			c.history.add(b)
		}
	}
	c.emit(AppendLog{batches, c.log.end, c.log.generation})
	if control {
		c.announceVoters()
	}
}

// beginEpoch enters the epoch of the batch at the log's end, if it is another one than that of the batch before.
func (c *Core) beginEpoch(epoch Epoch, at Offset) {
	if n := len(c.log.epochs); n > 0 && c.log.epochs[n-1].Epoch == epoch {
		return
	}
	// Epochs that have no record make way, newer ones too: it may be the old epoch that goes on.
	starts := startsBelow(c.log.epochs, at)
	if n := len(starts); n == 0 || starts[n-1].Epoch != epoch {
		starts = append(starts, EpochStart{epoch, at})
	}
	c.setEpochs(starts)
}

func (c *Core) setEpochs(starts []EpochStart) {
	c.log.epochs = starts
	c.emit(WriteEpochStarts{starts})
}

// setHighWatermark moves it up, or leaves it where it is. leaders is what the leader has committed.
func (c *Core) setHighWatermark(hw, leaders Offset) {
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
	c.emit(Committed{hw, leaders > hw})
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
