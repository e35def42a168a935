package sim

import (
	"slices"
	"sort"

	"github.com/google/uuid"

	"kstorage/internal/raft"
)

// checker sees everything that happens in the cluster and holds it against what Raft promises. It knows of each
// directory what its log has, and of that what is durable, whatever becomes of the process.
type checker struct {
	w           *world
	directories map[uuid.UUID]*directory
	batches     map[batchKey]trace         // of all logs: log matching
	leaders     map[raft.Epoch]raft.NodeID // who anybody said leads
	votes       map[voteKey]raft.ReplicaKey
	committed   []batch      // what a leader has ever committed, without gaps
	images      []image      // after each of those; filled when the first node applies it
	voters      []raft.Voter // the latest committed set; nil: none in the log
	acked       []ack
	ops         map[int64]raft.Offset // appends in committed batches
}

// ack is what a client was told: its append is committed.
type ack struct {
	op     int64
	offset raft.Offset
}

type batchKey struct {
	epoch raft.Epoch
	base  raft.Offset
}

type voteKey struct {
	directory *directory
	epoch     raft.Epoch
}

func newChecker(w *world) *checker {
	return &checker{
		w:           w,
		directories: map[uuid.UUID]*directory{},
		batches:     map[batchKey]trace{},
		leaders:     map[raft.Epoch]raft.NodeID{},
		votes:       map[voteKey]raft.ReplicaKey{},
		ops:         map[int64]raft.Offset{},
	}
}

func (c *checker) committedEnd() raft.Offset {
	if n := len(c.committed); n > 0 {
		return c.committed[n-1].end()
	}
	return 0
}

// appended checks batches that a node appends. leads tells that it made them.
func (c *checker) appended(p *process, batches []raft.Batch, leads bool) {
	d := p.directory
	for _, in := range batches {
		if in.BaseOffset != d.end() || in.LastOffset < in.BaseOffset {
			c.w.fail("%s appends the offsets %d to %d to a log that ends at %d", p, in.BaseOffset, in.LastOffset, d.end())
		}
		if n := len(d.batches); n > 0 && in.Epoch < d.batches[n-1].epoch {
			c.w.fail("%s appends epoch %d behind epoch %d", p, in.Epoch, d.batches[n-1].epoch)
		}
		b := makeBatch(d.endChain(), in)
		key := batchKey{b.epoch, b.base}
		if known, ok := c.batches[key]; ok && known != b.chain {
			c.w.fail("log matching: %s appends another batch at offset %d, epoch %d, or another one is before it", p, b.base, b.epoch)
		}
		c.batches[key] = b.chain
		if leads {
			c.ledAppend(p, in, b)
		}
		d.batches = append(d.batches, b)
	}
}

// ledAppend checks a batch that a leader makes.
func (c *checker) ledAppend(p *process, in raft.Batch, b batch) {
	d := p.directory
	for _, r := range in.Control {
		if _, ok := r.(raft.LeaderChange); ok {
			c.w.did.leaders++
			c.leads(p, in.Epoch, p.machine.id)
			// A late winner knows nothing of what the leaders of later epochs have committed.
			before := sort.Search(len(c.committed), func(i int) bool { return c.committed[i].by >= in.Epoch })
			if !d.has(c.committed[:before]) {
				c.w.fail("leader completeness: %s begins epoch %d and lacks some of the %d batches that were committed before", p, in.Epoch, before)
			}
		}
	}
	before, at := d.voterSet()
	if b.voters == nil || before == nil || at <= d.start && d.start > 0 {
		return
	}
	n := changed(before, b.voters)
	if n > 1 {
		c.w.fail("%s changes %d voters at once, from %v to %v", p, n, keys(before), keys(b.voters))
	}
	if n == 0 {
		return
	}
	chain, _ := d.chainAt(at)
	if want, ok := chainAt(c.committed, at); !ok || want != chain {
		c.w.fail("%s changes the voters while the set below offset %d is not committed", p, at)
	}
	if !slices.ContainsFunc(c.committed, func(b batch) bool { return b.epoch == in.Epoch }) {
		c.w.fail("%s changes the voters before it has committed anything in epoch %d", p, in.Epoch)
	}
}

// changed is how many voters come or go from one set to the next. An entry without directory id stands for any.
func changed(from, to []raft.Voter) int {
	missing := func(from, in []raft.Voter) (n int) {
		for _, v := range from {
			if !slices.ContainsFunc(in, func(o raft.Voter) bool {
				return o.Key.NodeID == v.Key.NodeID &&
					(o.Key.DirectoryID == v.Key.DirectoryID || o.Key.DirectoryID == uuid.Nil || v.Key.DirectoryID == uuid.Nil)
			}) {
				n++
			}
		}
		return n
	}
	return missing(from, to) + missing(to, from)
}

func keys(voters []raft.Voter) []raft.ReplicaKey {
	var keys []raft.ReplicaKey
	for _, v := range voters {
		keys = append(keys, v.Key)
	}
	return keys
}

// epochStarts checks the entries of leader-epoch-checkpoint: epochs and starts ascend, and none starts behind the log's end.
func (c *checker) epochStarts(p *process, entries []raft.EpochStart) {
	last := raft.EpochStart{Epoch: -1, Start: -1}
	for _, e := range entries {
		if e.Epoch <= last.Epoch || e.Start <= last.Start || e.Start > p.directory.end() {
			c.w.fail("%s lets epochs start at %v in a log that ends at %d", p, entries, p.directory.end())
		}
		last = e
	}
}

// truncated checks a truncation.
func (c *checker) truncated(p *process, end, highWatermark raft.Offset) {
	d := p.directory
	if end < highWatermark {
		c.w.fail("%s truncates to offset %d, below its high watermark %d", p, end, highWatermark)
	}
	if end < d.start || end > d.end() {
		c.w.fail("%s truncates to offset %d a log from %d to %d", p, end, d.start, d.end())
	}
	for _, b := range d.batches {
		if b.end() <= end {
			continue
		}
		if b.base < end {
			c.w.fail("%s truncates to offset %d, which is inside of a batch", p, end)
		}
		// A late follower of an old leader may still drop what a later leader has committed with others.
		if k := batchAt(c.committed, b.end()); k != nil && k.chain == b.chain && k.by <= p.driver.core.Status().Epoch {
			c.w.fail("%s truncates to offset %d, though offset %d of epoch %d is committed", p, end, b.last, b.epoch)
		}
	}
}

// snapshot checks that a snapshot that somebody has made or installed holds what is committed.
func (c *checker) snapshot(p *process, id raft.SnapshotID, i image) {
	if id.EndOffset > c.committedEnd() {
		c.w.fail("%s has a snapshot up to offset %d, and only what is below %d is committed", p, id.EndOffset, c.committedEnd())
	}
	b := batchAt(c.committed, id.EndOffset)
	if b == nil || b.epoch != id.Epoch {
		c.w.fail("%s has a snapshot up to offset %d, epoch %d, where no committed batch of it ends", p, id.EndOffset, id.Epoch)
	}
	c.applied(p, id.EndOffset, i)
}

// applied checks that all nodes come to the same state.
func (c *checker) applied(p *process, end raft.Offset, i image) {
	n := sort.Search(len(c.committed), func(i int) bool { return c.committed[i].end() >= end })
	if n == len(c.committed) || c.committed[n].end() != end {
		c.w.fail("%s applies up to offset %d, where no committed batch ends", p, end)
	}
	for len(c.images) <= n {
		c.images = append(c.images, image{records: -1})
	}
	if c.images[n].records < 0 {
		c.images[n] = i
	} else if c.images[n] != i {
		c.w.fail("%s has %+v at offset %d, another node %+v", p, i, end, c.images[n])
	}
}

// highWatermark checks a new high watermark. leads tells that the node counted it itself, as leader of epoch with these voters.
func (c *checker) highWatermark(p *process, end raft.Offset, leads bool, epoch raft.Epoch, voters []raft.Voter) {
	d := p.directory
	if end < p.highWatermark {
		c.w.fail("the high watermark of %s goes back from %d to %d", p, p.highWatermark, end)
	}
	p.highWatermark = end
	chain, ok := d.chainAt(end)
	if !ok {
		c.w.fail("%s has the high watermark %d, where no batch of its log ends", p, end)
	}
	if end <= c.committedEnd() {
		if want, _ := chainAt(c.committed, end); want != chain {
			c.w.fail("%s takes another log below its high watermark %d for committed", p, end)
		}
		return
	}
	if !leads {
		c.w.fail("%s has the high watermark %d, and no leader had more than %d", p, end, c.committedEnd())
	}
	// Something new: a majority has it on disk, and its last batch is of the leader's own epoch (Raft 5.4.2).
	last := batchAt(d.batches, end)
	if last == nil || last.epoch != epoch {
		c.w.fail("%s commits offset %d of an older epoch than its own, %d, by count", p, end-1, epoch)
	}
	have := 0
	for _, v := range voters {
		if v := c.directoryOf(v.Key); v != nil && v.holds(end, chain) {
			have++
		}
	}
	if have <= len(voters)/2 {
		c.w.fail("%s commits up to offset %d, which %d of %d voters have on disk", p, end, have, len(voters))
	}
	first := sort.Search(len(d.batches), func(i int) bool { return d.batches[i].end() > c.committedEnd() })
	for _, b := range d.batches[first:] {
		if b.end() > end {
			break
		}
		if b.base != c.committedEnd() {
			c.w.fail("%s commits a batch at offset %d behind %d", p, b.base, c.committedEnd())
		}
		b.by = epoch
		c.committed = append(c.committed, b)
		if b.voters != nil {
			if n := changed(c.voters, b.voters); c.voters != nil && n > 1 {
				c.w.fail("%d voters change at once, from %v to %v", n, keys(c.voters), keys(b.voters))
			}
			if c.voters == nil && c.w.static {
				c.w.did.upgrades++
			} else if changed(c.voters, b.voters) > 0 {
				c.w.did.voterChanges++
			}
			c.voters = b.voters
		}
	}
}

// directoryOf finds what a voter of a set has. A voter without directory id is whatever the node has.
func (c *checker) directoryOf(key raft.ReplicaKey) *directory {
	if key.DirectoryID != uuid.Nil {
		return c.directories[key.DirectoryID]
	}
	return c.w.machines[key.NodeID-1].directory
}

// leads checks that somebody who says that a node leads an epoch agrees with all that was said before.
func (c *checker) leads(p *process, epoch raft.Epoch, leader raft.NodeID) {
	if leader == raft.None {
		return
	}
	if known, ok := c.leaders[epoch]; ok && known != leader {
		c.w.fail("%s says that %d leads epoch %d, and it was %d", p, leader, epoch, known)
	}
	c.leaders[epoch] = leader
}

// voted checks that a directory gives one vote an epoch.
func (c *checker) voted(p *process, epoch raft.Epoch, candidate raft.ReplicaKey) {
	key := voteKey{p.directory, epoch}
	if known, ok := c.votes[key]; ok && known != candidate {
		c.w.fail("%s votes in epoch %d for %v and for %v", p, epoch, known, candidate)
	}
	c.votes[key] = candidate
}

// sends looks at what a request claims.
func (c *checker) sends(p *process, request raft.Request) {
	switch r := request.(type) {
	case *raft.VoteRequest:
		if !r.PreVote {
			c.voted(p, r.ReplicaEpoch, r.Replica)
		}
	case *raft.BeginQuorumEpochRequest:
		c.leads(p, r.Epoch, r.LeaderID)
	case *raft.EndQuorumEpochRequest:
		c.leads(p, r.Epoch, r.LeaderID)
	}
}

// replies looks at what a response claims.
func (c *checker) replies(p *process, request raft.Request, response raft.Response) {
	switch r := response.(type) {
	case *raft.VoteResponse:
		if q := request.(*raft.VoteRequest); r.VoteGranted && !q.PreVote {
			c.voted(p, q.ReplicaEpoch, q.Replica)
		}
		c.leads(p, r.Epoch, r.LeaderID)
	case *raft.BeginQuorumEpochResponse:
		c.leads(p, r.Epoch, r.LeaderID)
	case *raft.EndQuorumEpochResponse:
		c.leads(p, r.Epoch, r.LeaderID)
	case *raft.FetchResponse:
		c.leads(p, r.Epoch, r.LeaderID)
	case *raft.FetchSnapshotResponse:
		c.leads(p, r.Epoch, r.LeaderID)
	}
}

// stepped checks what has to hold after each step.
func (c *checker) stepped(p *process, s raft.Status) {
	d := p.directory
	if s.Epoch < d.epoch {
		c.w.fail("the epoch of %s goes back from %d to %d", p, d.epoch, s.Epoch)
	}
	d.epoch = s.Epoch
	if s.LeaderID != raft.None {
		c.leads(p, s.Epoch, s.LeaderID)
	}
	if s.LogEnd != d.end() || s.HighWatermark != raft.Unknown && s.HighWatermark != p.highWatermark {
		c.w.fail("%s has the log end %d and the high watermark %d, its effects made %d and %d", p, s.LogEnd, s.HighWatermark, d.end(), p.highWatermark)
	}
	if s.Fatal != "" {
		c.w.fail("%s stops: %s", p, s.Fatal)
	}
}
