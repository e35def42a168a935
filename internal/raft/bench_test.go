package raft

import "testing"

// BenchmarkReplicate is the way of a batch through three voters: append, two Fetch answers, which have the news of the commit
// before, three fsyncs, two acknowledgements, the commit. It counts all steps of all three cores.
func BenchmarkReplicate(b *testing.B) {
	cl := newCluster(b.Fatalf)
	var nodes []*Core
	for id := range NodeID(3) {
		n := cl.addNode(id+1, 3, nil, false)
		nodes = append(nodes, New(n.cfg, n.disk.recovered()))
	}
	d := &direct{nodes: nodes, sent: make([]map[RequestID]sentBy, 3)}
	for i := range d.sent {
		d.sent[i] = map[RequestID]sentBy{}
	}
	for i := range nodes {
		d.step(i, Tick{})
	}
	for d.now = 0; nodes[0].Status().HighWatermark < 1; d.now += 10 {
		for i := range nodes {
			d.step(i, Tick{})
		}
		d.drain()
	}
	d.steps = 0
	payload := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		end := nodes[0].log.end
		d.step(0, Received{ID: 1 << 40, Request: &AppendRequest{Batch{BaseOffset: end, LastOffset: end, Epoch: nodes[0].state.epoch, Bytes: payload}}})
		d.drain()
		if nodes[0].hw != end+1 || nodes[1].hw != end || nodes[2].hw != end {
			b.Fatalf("high watermarks %d, %d, %d", nodes[0].hw, nodes[1].hw, nodes[2].hw)
		}
	}
	b.ReportMetric(float64(d.steps)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(d.steps)/float64(b.N), "steps/op")
}

// BenchmarkTick is a leader with nothing to do.
func BenchmarkTick(b *testing.B) {
	cl := newCluster(b.Fatalf)
	n := cl.addNode(1, 1, nil, false)
	c := New(n.cfg, n.disk.recovered())
	c.Step(0, Tick{})
	c.Step(0, Synced{1, 0})
	b.ReportAllocs()
	for b.Loop() {
		c.Step(1, Tick{})
	}
}

// direct connects cores without a network's delays, and keeps the batches in memory.
type direct struct {
	nodes []*Core
	now   Millis
	todo  []directInput
	sent  []map[RequestID]sentBy // by node and its id of a request under way
	last  []Batch                // of the leader
	steps int
}

type directInput struct {
	to int
	in Input
}

type sentBy struct {
	node int
	id   RequestID
}

func (d *direct) step(i int, in Input) {
	d.steps++
	for _, e := range d.nodes[i].Step(d.now, in) {
		switch e := e.(type) {
		case AppendLog:
			if i == 0 {
				d.last = e.Batches
			}
			d.todo = append(d.todo, directInput{i, Synced{e.EndOffset, e.Generation}})
		case Send:
			to := int(e.To.Endpoint.Host[1] - '1')
			id := e.ID<<2 | RequestID(i)
			d.sent[to][id] = sentBy{i, e.ID}
			d.todo = append(d.todo, directInput{to, Received{ID: id, Request: e.Request}})
		case Reply:
			from, ok := d.sent[i][e.ID]
			if !ok {
				continue
			}
			delete(d.sent[i], e.ID)
			if r, ok := e.Response.(*FetchResponse); ok && r.Read.From < r.Read.End {
				r.Batches = d.last
			}
			d.todo = append(d.todo, directInput{from.node, Answered{from.id, e.Response}})
		}
	}
}

func (d *direct) drain() {
	for i := 0; i < len(d.todo); i++ {
		d.step(d.todo[i].to, d.todo[i].in)
	}
	d.todo = d.todo[:0]
}
