package sim

import (
	"encoding/binary"
	"fmt"
	"sort"

	"kstorage/internal/raft"
)

// batch is a batch of a log. Its chain is a hash of all that the log has up to its end: two logs with equal chains
// are equal so far.
type batch struct {
	base, last raft.Offset
	epoch      raft.Epoch
	chain      trace
	voters     []raft.Voter // of its voters record
	by         raft.Epoch   // if it is committed: the epoch of the leader that did it
}

func (b batch) end() raft.Offset { return b.last + 1 }

// directory is the metadata log directory of a node as it has to be.
type directory struct {
	key        raft.ReplicaKey
	machine    *machine
	dead       bool // the disk is gone
	start      raft.Offset
	startChain trace
	startEpoch raft.Epoch
	batches    []batch
	durable    raft.Offset // all below has been synced
	epoch      raft.Epoch  // the highest that it has shown to others
	quorum     raft.QuorumState
	noQuorum   bool        // somebody has deleted the quorum-state file
	unsure     raft.Effect // a barrier that was begun and has not ended
}

func (d *directory) end() raft.Offset {
	if n := len(d.batches); n > 0 {
		return d.batches[n-1].end()
	}
	return d.start
}

func (d *directory) endChain() trace {
	if n := len(d.batches); n > 0 {
		return d.batches[n-1].chain
	}
	return d.startChain
}

// chainAt returns the chain up to end, if a batch ends there.
func (d *directory) chainAt(end raft.Offset) (trace, bool) {
	if end == d.start {
		return d.startChain, true
	}
	return chainAt(d.batches, end)
}

func chainAt(batches []batch, end raft.Offset) (trace, bool) {
	if b := batchAt(batches, end); b != nil {
		return b.chain, true
	}
	return 0, end == 0
}

// batchAt returns the batch that ends at end, nil if there is none.
func batchAt(batches []batch, end raft.Offset) *batch {
	i := sort.Search(len(batches), func(i int) bool { return batches[i].end() >= end })
	if i == len(batches) || batches[i].end() != end {
		return nil
	}
	return &batches[i]
}

// holds tells whether the directory has, durably, the committed log up to an end with this chain.
func (d *directory) holds(end raft.Offset, chain trace) bool {
	if end <= d.start {
		return true // a snapshot of what is committed stands for it
	}
	have, ok := d.chainAt(end)
	return ok && have == chain && end <= d.durable
}

// durableEpoch is the epoch of the last durable batch.
func (d *directory) durableEpoch() raft.Epoch {
	for i := len(d.batches) - 1; i >= 0; i-- {
		if d.batches[i].end() <= d.durable {
			return d.batches[i].epoch
		}
	}
	return d.startEpoch
}

// voterSet returns the latest voter set of the log, and the end of its batch; nil if the log has none.
func (d *directory) voterSet() ([]raft.Voter, raft.Offset) {
	for i := len(d.batches) - 1; i >= 0; i-- {
		if v := d.batches[i].voters; v != nil {
			return v, d.batches[i].end()
		}
	}
	return nil, d.start
}

// makeBatch continues a chain. The checksum stands for the content.
func makeBatch(before trace, b raft.Batch) batch {
	t := before
	t.number(uint64(b.BaseOffset))
	t.number(uint64(b.Epoch))
	t.number(uint64(len(b.Bytes)))
	t.number(uint64(binary.BigEndian.Uint32(b.Bytes[17:])))
	out := batch{base: b.BaseOffset, last: b.LastOffset, epoch: b.Epoch, chain: t}
	for _, r := range b.Control {
		if v, ok := r.(raft.Voters); ok {
			out.voters = v.Voters
		}
	}
	return out
}

// has tells whether the log has all of these committed batches.
func (d *directory) has(committed []batch) bool {
	if len(committed) == 0 {
		return true
	}
	last := committed[len(committed)-1]
	if last.end() < d.start {
		return true // in the snapshot at which the log begins
	}
	chain, ok := d.chainAt(last.end())
	return ok && chain == last.chain
}

func (d *directory) cut(end raft.Offset) {
	i := sort.Search(len(d.batches), func(i int) bool { return d.batches[i].end() > end })
	d.batches = d.batches[:i]
	d.durable = min(d.durable, end)
}

// beginAt lets the log begin at a snapshot.
func (c *checker) beginAt(d *directory, id raft.SnapshotID) {
	chain, ok := chainAt(c.committed, id.EndOffset)
	if !ok {
		c.w.fail("%v begins at a snapshot up to offset %d, which is not committed", d.key, id.EndOffset)
	}
	d.start, d.startChain, d.startEpoch = id.EndOffset, chain, id.Epoch
	d.batches = nil
	d.durable = d.start
}

// recovered checks that a directory has all that was durable, and nothing that was never there.
func (c *checker) recovered(d *directory, r raft.Recovered, log []raft.Batch) {
	sure := d.durable
	switch e := d.unsure.(type) {
	case raft.TruncateLog:
		sure = min(sure, e.EndOffset)
	case raft.ResetLog:
		if r.LogStart == e.ID.EndOffset && len(log) == 0 {
			c.beginAt(d, e.ID)
		}
		sure = d.start
	}
	state := d.quorum
	if e, ok := d.unsure.(raft.WriteQuorumState); ok && sameQuorumState(e.State, r.QuorumState) {
		state = e.State
	}
	if d.noQuorum {
		state, d.noQuorum = r.QuorumState, false
	}
	if !sameQuorumState(state, r.QuorumState) {
		c.w.fail("%v has the quorum-state %+v, and not %+v", d.key, r.QuorumState, state)
	}
	if newest := len(r.Snapshots) - 1; newest >= 0 && r.LogStart == r.LogEnd && r.LogStart > d.start && r.LogStart == r.Snapshots[newest].ID.EndOffset {
		// The log was behind its newest snapshot, or was reset, or ended at it.
		id := r.Snapshots[newest].ID
		want, _ := chainAt(c.committed, id.EndOffset)
		if have, ok := d.chainAt(id.EndOffset); ok && have == want && sure > id.EndOffset {
			c.w.fail("%v begins anew at offset %d, and was durable up to %d", d.key, r.LogStart, sure)
		}
		c.beginAt(d, id)
		sure = d.start
	}
	if r.LogEnd < sure || r.LogEnd > d.end() {
		c.w.fail("%v ends at offset %d: durable was what is below %d, written what is below %d", d.key, r.LogEnd, sure, d.end())
	}
	d.cut(r.LogEnd)
	at := r.LogStart
	for i, in := range log {
		if i > 0 && in.BaseOffset != at {
			c.w.fail("%v has the batch at offset %d behind %d", d.key, in.BaseOffset, at)
		}
		at = in.LastOffset + 1
		have := batchAt(d.batches, in.LastOffset+1)
		if have == nil {
			if in.LastOffset < d.start {
				continue
			}
			c.w.fail("%v has a batch up to offset %d that was never appended", d.key, in.LastOffset)
		}
		before, ok := d.chainAt(in.BaseOffset)
		if !ok && in.BaseOffset < d.start {
			continue
		}
		if got := makeBatch(before, in); got.chain != have.chain || got.base != have.base {
			c.w.fail("%v has another batch at offset %d than was appended", d.key, in.BaseOffset)
		}
	}
	if at != r.LogEnd {
		c.w.fail("%v has batches up to offset %d and says %d", d.key, at, r.LogEnd)
	}
	d.durable, d.quorum, d.unsure = d.end(), r.QuorumState, nil
}

// allIn tells whether a log that starts at start, where a snapshot ends, and has these batches has all that is committed.
func (c *checker) allIn(start raft.Offset, log []raft.Batch) bool {
	if len(c.committed) == 0 || start == c.committedEnd() {
		return true
	}
	var chain trace
	for i, in := range log {
		if i == 0 {
			// The log may begin inside of its first batch's segment: what is in front is still there.
			chain, _ = chainAt(c.committed, in.BaseOffset)
		}
		b := makeBatch(chain, in)
		chain = b.chain
		if b.end() == c.committedEnd() {
			return chain == c.committed[len(c.committed)-1].chain
		}
	}
	return false
}

// sameQuorumState leaves out what is only for people.
func sameQuorumState(a, b raft.QuorumState) bool {
	return a.Epoch == b.Epoch && a.LeaderID == b.LeaderID && a.Voted == b.Voted
}

func (d *directory) String() string {
	return fmt.Sprintf("%v: %d to %d, durable %d", d.key, d.start, d.end(), d.durable)
}
