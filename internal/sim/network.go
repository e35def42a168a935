package sim

import (
	"encoding/binary"
	"slices"

	"kstorage/internal/raft"
)

// network carries requests and their answers between processes. A packet takes a random time, so packets overtake
// each other; it may be lost, come twice (requests), or come with a wrong byte (records).
type network struct {
	w *world

	delay      micros  // the usual time of a packet is between a tenth of it and the whole
	spikes     float64 // how many packets take up to 4 s instead
	loss       float64
	duplicates float64
	damage     float64
	cut        [][]bool // by sender and receiver: no packet comes through
	refusing   []bool   // by machine: connections are refused though a process runs
}

// call is a request on its way, with its answer.
type call struct {
	id      raft.RequestID
	from    *process // nil: a tool outside the cluster, whose packets are never lost
	request raft.Request
	timeout micros
	done    func(answer)
	ended   bool
	server  *process // who got it
	came    micros   // when
}

// answer ends a call: with a response, or with the reason why there is none.
type answer struct {
	response raft.Response
	records  []byte // of a FetchResponse, as they come over the wire
	failed   bool
	reason   raft.SendFailure
}

func newNetwork(w *world, machines int) *network {
	n := &network{w: w, delay: millisecond, refusing: make([]bool, machines)}
	for range machines {
		n.cut = append(n.cut, make([]bool, machines))
	}
	return n
}

// send delivers a request to whoever listens at the endpoint.
func (n *network) send(c *call, to raft.Endpoint) {
	n.w.after(c.timeout, func() { n.end(c, answer{failed: true, reason: raft.TimedOut}) })
	if c.from != nil {
		c.from.calls = append(c.from.calls, c)
	}
	m := n.w.listenerAt(to)
	switch {
	case m == nil:
		n.fail(c, nil, raft.Refused)
		return
	case m.process == nil && m.powerOff, n.lost(c.from, m):
		return
	case m.process == nil, n.refusing[m.index]:
		n.fail(c, m, raft.Refused)
		return
	}
	copies := 1
	if n.w.chance(n.duplicates) {
		copies = 2
	}
	for range copies {
		n.w.after(n.packet(), func() { n.arrive(c, m) })
	}
}

func (n *network) arrive(c *call, m *machine) {
	p := m.process
	switch {
	case n.isCut(c.from, m):
	case p != nil:
		p.run(func() {
			c.server = p
			p.serve(c)
		})
	case !m.powerOff:
		n.fail(c, m, raft.Disconnected)
	}
}

// answer brings the response back.
func (n *network) answer(c *call, a answer) {
	m := c.server.machine
	if c.ended || c.from != nil && n.lost(m.process, c.from.machine) {
		return
	}
	damage := n.damage
	if _, ok := a.response.(*raft.FetchSnapshotResponse); ok {
		damage *= 4 // there are few of them
	}
	if n.w.chance(damage) {
		a = n.damaged(a)
	}
	n.w.after(n.packet(), func() {
		if c.from == nil || !n.isCut(m.process, c.from.machine) {
			n.end(c, a)
		}
	})
}

// damaged changes a byte of the records or of the snapshot in an answer. In records it is one that a checksum covers: what
// comes over TCP is hardly ever damaged, and nobody can see it in the rest.
func (n *network) damaged(a answer) answer {
	const checksummed = 21 // and behind
	if len(a.records) > 0 {
		a.records = slices.Clone(a.records)
		size := 12 + int(binary.BigEndian.Uint32(a.records[8:]))
		a.records[checksummed+n.w.intN(size-checksummed)] ^= byte(1 + n.w.intN(255))
	}
	if r, ok := a.response.(*raft.FetchSnapshotResponse); ok && len(r.Bytes) > 0 {
		damaged := *r
		damaged.Bytes = slices.Clone(r.Bytes)
		damaged.Bytes[n.w.intN(len(damaged.Bytes))] ^= byte(1 + n.w.intN(255))
		a.response = &damaged
	}
	return a
}

// fail ends a call without response, after the time that it takes to hear of it.
func (n *network) fail(c *call, from *machine, reason raft.SendFailure) {
	n.w.after(n.packet()+n.packet(), func() {
		if c.from == nil || from == nil || !n.cut[from.index][c.from.machine.index] {
			n.end(c, answer{failed: true, reason: reason})
		}
	})
}

func (n *network) end(c *call, a answer) {
	if c.ended {
		return
	}
	if c.from == nil {
		c.ended = true
		c.done(a)
		return
	}
	c.from.run(func() {
		if !c.ended {
			c.ended = true
			c.done(a)
		}
	})
}

// gone tells the senders of what a process was to answer that it is gone.
func (n *network) gone(p *process) {
	for _, other := range n.w.machines {
		if other.process != nil {
			n.disconnect(other.process, func(c *call) bool { return c.server == p })
		}
	}
}

// disconnect breaks the connections of a process' calls that are chosen.
func (n *network) disconnect(p *process, chosen func(*call) bool) {
	for _, c := range p.calls {
		if !c.ended && c.server != nil && chosen(c) {
			n.fail(c, c.server.machine, raft.Disconnected)
		}
	}
}

// packet returns how long a packet takes.
func (n *network) packet() micros {
	if n.w.chance(n.spikes) {
		return n.w.micros(4 * second)
	}
	return n.delay/10 + n.w.micros(n.delay)
}

func (n *network) lost(from *process, to *machine) bool {
	return n.isCut(from, to) || from != nil && from.machine != to && n.w.chance(n.loss)
}

func (n *network) isCut(from *process, to *machine) bool {
	return from != nil && n.cut[from.machine.index][to.index]
}

// heal ends all faults but delays.
func (n *network) heal() {
	n.spikes, n.loss, n.duplicates, n.damage = 0, 0, 0, 0
	clear(n.refusing)
	for _, row := range n.cut {
		clear(row)
	}
}
