package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/controller"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// active is this node as the active controller: from the claim, behind the first record of its epoch, to the loss of
// leadership.
type active struct {
	controller *controller.Controller
	epoch      raft.Epoch
	end        raft.Offset // of the log, as far as this layer has written it; control records may have moved it on
	lost       bool        // the core has refused an append: a LeaderChanged is on its way
}

// waiter is an answer that goes out when all below end is committed and loaded, which is what it was decided on.
type waiter struct {
	end     raft.Offset
	request kmsg.Request
	answer  kmsg.Response
	to      chan<- kmsg.Response
}

// claim makes this node the active controller if it leads and has loaded all that was there before (and the record with
// which its epoch begins).
func (c *cluster) claim() error {
	l := c.leader
	if l.LeaderID != c.nodeID || c.active != nil || l.StartOffset == raft.Unknown || c.next <= l.StartOffset {
		return nil
	}
	image := c.loader.Image()
	_, inTransaction := c.loader.InTransaction()
	config := c.controller
	config.ClusterID = c.clusterID
	a := &active{
		controller: controller.New(config, image.Clone(), l.Epoch, c.clock.now(), inTransaction),
		epoch:      l.Epoch,
		end:        c.next,
	}
	c.active = a
	a.controller.SetQuorum(c.kraftVersion, c.voters)
	batches, err := a.controller.Activate(c.bootstrap)
	if err != nil {
		return err
	}
	for _, records := range batches {
		if err := c.write(func(raft.Offset) []record.Record { return records }); err != nil {
			return err
		}
	}
	c.log.Info("Active controller", "epoch", l.Epoch, "bootstrap", len(batches) > 0 && !inTransaction)
	return nil
}

// write appends what records returns for the offset at which it will stand, as one batch. It is asked again when control
// records have come in between. Nothing may be returned; and nothing is written any more once leadership is lost.
func (c *cluster) write(records func(raft.Offset) []record.Record) error {
	a := c.active
	for !a.lost {
		list := records(a.end)
		if len(list) == 0 {
			return nil
		}
		batch, err := c.encode(list)
		if err != nil {
			return err
		}
		answer, _, err := c.quorum.call(context.Background(), "", &raft.AppendRequest{Batch: batch})
		if err != nil {
			return err
		}
		switch r := answer.(*raft.AppendResponse); r.Code {
		case raft.NoError:
			a.end = r.NextOffset
			return a.controller.Appended(batch.BaseOffset, list)
		case raft.InvalidRequest:
			a.end = r.NextOffset
		case raft.NotLeaderOrFollower:
			a.lost = true
		default:
			return fmt.Errorf("append to the metadata log at offset %d: error %d", a.end, r.Code)
		}
	}
	return nil
}

func (c *cluster) encode(records []record.Record) (raft.Batch, error) {
	a := c.active
	entries := make([]record.Entry, len(records))
	for i, r := range records {
		value, err := r.AppendValue(nil)
		if err != nil {
			return raft.Batch{}, err
		}
		entries[i].Value = value
	}
	header := record.BatchHeader{BaseOffset: int64(a.end), LeaderEpoch: int32(a.epoch), Timestamp: c.clock.wallMillis()}
	return raft.Batch{
		BaseOffset: a.end,
		LastOffset: a.end + raft.Offset(len(records)) - 1,
		Epoch:      a.epoch,
		Bytes:      record.AppendBatch(nil, header, entries...),
	}, nil
}

// alarm is when tick is to be called next.
func (c *cluster) alarm() raft.Millis {
	at := never
	if c.active != nil && !c.active.lost {
		at = c.active.controller.Deadline()
	}
	if len(c.held) > 0 {
		at = min(at, c.heldUntil)
	}
	return at
}

// tick does what is due.
func (c *cluster) tick() error {
	if len(c.held) > 0 && c.clock.now() >= c.heldUntil {
		held := c.held
		c.held = nil
		for _, decide := range held {
			if err := decide(); err != nil {
				return err
			}
		}
	}
	if c.active == nil || c.active.lost || c.active.controller.Deadline() > c.clock.now() {
		return nil
	}
	// Once, even if more is due: to fence a broker with many partitions takes long, and those that are to be fenced behind it
	// may be many. The heartbeats that came in meanwhile go first, else live brokers would be fenced too.
	return c.write(func(next raft.Offset) []record.Record { return c.active.controller.Tick(c.clock.now(), next) })
}

// request lets the active controller answer a request. Without one the answer is NOT_CONTROLLER. nil: the node stops.
func (c *cluster) request(ctx context.Context, q kmsg.Request) kmsg.Response {
	answer := make(chan kmsg.Response, 1)
	c.box.put(func() error { return c.serve(q, answer) })
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		return nil
	}
}

// serve holds requests back for the linger time, if there is one, so that they share the fsyncs of their records.
func (c *cluster) serve(q kmsg.Request, to chan<- kmsg.Response) error {
	if c.linger == 0 {
		return c.decide(q, to)
	}
	if len(c.held) == 0 {
		c.heldUntil = c.clock.now() + raft.Millis(c.linger.Milliseconds())
	}
	c.held = append(c.held, func() error { return c.decide(q, to) })
	return nil
}

func (c *cluster) decide(q kmsg.Request, to chan<- kmsg.Response) error {
	if c.active == nil || c.active.lost {
		to <- refuse(q, codeNotController)
		return nil
	}
	if q, ok := q.(*kmsg.UpdateFeaturesRequest); ok {
		return c.updateFeatures(q, to)
	}
	var answer kmsg.Response
	err := c.write(func(next raft.Offset) (records []record.Record) {
		records, answer = c.active.controller.Handle(c.clock.now(), next, q)
		return records
	})
	if _, ok := errors.AsType[*record.RecordError](err); ok { // a text that is too long: nothing is written
		to <- refuse(q, codeInvalidRequest)
		return nil
	}
	if err != nil {
		return err
	}
	c.answer(q, answer, to)
	return nil
}

// updateFeatures raises kraft.version first, which is the consensus layer's, and then appends the rest. Nothing is done
// before all is checked; what the log has of it after a crash in between is a valid state of its own.
func (c *cluster) updateFeatures(q *kmsg.UpdateFeaturesRequest, to chan<- kmsg.Response) error {
	update := c.active.controller.UpdateFeatures(q)
	if level := update.KRaftVersion; level > 0 {
		request := &raft.UpgradeRequest{Epoch: c.active.epoch, Version: level, ValidateOnly: q.ValidateOnly}
		answer, _, err := c.quorum.call(context.Background(), "", request)
		if err != nil {
			return err
		}
		switch r := answer.(*raft.UpgradeResponse); r.Code {
		case raft.NoError:
		case raft.NotLeaderOrFollower:
			c.active.lost = true
		default:
			update.FailKRaftVersion(int16(r.Code), r.Message)
		}
	}
	if err := c.write(func(raft.Offset) []record.Record { return update.Records }); err != nil {
		return err
	}
	c.answer(q, update.Response, to)
	return nil
}

// answer sends an answer as soon as all is committed that it was decided on.
func (c *cluster) answer(q kmsg.Request, answer kmsg.Response, to chan<- kmsg.Response) {
	switch {
	case c.active.lost:
		to <- refuse(q, codeNotController)
	case c.next >= c.active.end:
		to <- answer
	default:
		c.waiting = append(c.waiting, waiter{end: c.active.end, request: q, answer: answer, to: to})
	}
}

// complete sends the answers of what is committed and loaded.
func (c *cluster) complete() {
	n := 0
	for n < len(c.waiting) && c.waiting[n].end <= c.next {
		c.waiting[n].to <- c.waiting[n].answer
		n++
	}
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
}

// refuseAll ends the requests whose records may be lost with the leadership.
func (c *cluster) refuseAll() {
	for _, w := range c.waiting {
		w.to <- refuse(w.request, codeNotController)
	}
	c.waiting = nil
}
