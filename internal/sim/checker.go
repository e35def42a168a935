package sim

import (
	"encoding/binary"
	"fmt"
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

// batch is a batch of a log. Its chain is a hash of all that the log has up to its end: two logs with equal chains
// are equal so far.
type batch struct {
	base, last raft.Offset
	epoch      raft.Epoch
	chain      trace
	voters     []raft.Voter // of its voters record
}

func (b batch) end() raft.Offset { return b.last + 1 }

type batchKey struct {
	epoch raft.Epoch
	base  raft.Offset
}

type voteKey struct {
	directory *directory
	epoch     raft.Epoch
}

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
	unsure     raft.Effect // a barrier that was begun and has not ended
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
			if end := c.committedEnd(); !d.has(c.committed) {
				c.w.fail("leader completeness: %s begins epoch %d and lacks committed batches below offset %d", p, in.Epoch, end)
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

// has tells whether the log has all of these committed batches.
func (d *directory) has(committed []batch) bool {
	if len(committed) == 0 {
		return true
	}
	last := committed[len(committed)-1]
	if last.end() < d.start {
		return false // it begins behind all that is committed
	}
	chain, ok := d.chainAt(last.end())
	return ok && chain == last.chain
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

// truncated checks and follows a truncation.
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
		if chain, ok := chainAt(c.committed, b.end()); ok && chain == b.chain {
			c.w.fail("%s truncates to offset %d, though offset %d of epoch %d is committed", p, end, b.last, b.epoch)
		}
	}
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

// sameQuorumState leaves out what is only for people.
func sameQuorumState(a, b raft.QuorumState) bool {
	return a.Epoch == b.Epoch && a.LeaderID == b.LeaderID && a.Voted == b.Voted
}

func (d *directory) String() string {
	return fmt.Sprintf("%v: %d to %d, durable %d", d.key, d.start, d.end(), d.durable)
}
