package controller

import (
	"bytes"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// A step is what a heartbeat does to a broker. Its states are fenced, unfenced, and in controlled shutdown, where it
// is unfenced but gets no new leadership:
//
//	fenced      wants to run and has read its registration -> unfenced; wants to shut down -> may go
//	unfenced    wants to be fenced -> fenced; wants to shut down -> controlled shutdown, or may go if it leads nothing
//	shutting    leads nothing, and all unfenced brokers have read that -> may go, fenced
type step int

const (
	stay step = iota
	unfence
	fence
	beginShutdown
	mayGo
)

// heartbeat decides about a BrokerHeartbeatRequest.
func (c *Controller) heartbeat(now raft.Millis, nextOffset raft.Offset, q *kmsg.BrokerHeartbeatRequest) ([]record.Record, kmsg.Response) {
	resp := q.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	b := c.image.Broker(q.BrokerID)
	if b == nil || b.Epoch != q.BrokerEpoch {
		resp.ErrorCode, resp.IsFenced = staleBrokerEpoch, true
		return nil, resp
	}
	s, ok := c.sessions[b.ID]
	if !ok || s.epoch != b.Epoch {
		s = newSession(b.Epoch, now)
	}
	s.contact, s.metadataOffset = now, q.CurrentMetadataOffset
	resp.IsCaughtUp = q.CurrentMetadataOffset >= c.registeredAt(b)
	next := c.step(b, s, q, resp.IsCaughtUp)
	s.leaving = next == mayGo
	c.sessions[b.ID] = s

	resp.IsFenced = next == fence || next == mayGo || b.Fenced && next != unfence
	resp.ShouldShutdown = next == mayGo
	if next == stay && q.OfflineLogDirs == nil && q.CordonedLogDirs == nil {
		return nil, resp
	}
	d := c.draft(nextOffset)
	switch {
	case next == unfence:
		d.unfence(b.ID)
	case next == beginShutdown:
		d.shutDown(b.ID)
	case (next == fence || next == mayGo) && !b.Fenced:
		d.fence(b.ID)
	}
	if d.level >= directoryAssignment {
		d.loseDirectories(b.ID, directories(q.OfflineLogDirs))
	}
	if d.level >= cordonedDirectories && q.CordonedLogDirs != nil {
		d.cordon(b.ID, directories(q.CordonedLogDirs))
	}
	return d.records, resp
}

func (c *Controller) step(b *metadata.Broker, s session, q *kmsg.BrokerHeartbeatRequest, caughtUp bool) step {
	switch {
	case b.Fenced && q.WantShutdown:
		return mayGo
	case b.Fenced:
		if !q.WantFence && caughtUp {
			return unfence
		}
	case s.shutdownOffset >= 0:
		if c.lowestOffset() >= s.shutdownOffset && !leads(c.image, b.ID) {
			return mayGo
		}
	case q.WantShutdown && !q.WantFence && leads(c.image, b.ID):
		return beginShutdown
	case q.WantShutdown:
		return mayGo
	case q.WantFence:
		return fence
	}
	return stay
}

// registeredAt returns the offset of a broker's newest RegisterBrokerRecord, or, if that is older than this
// Controller, the epoch that it gave.
func (c *Controller) registeredAt(b *metadata.Broker) int64 {
	if at, ok := c.registrations[b.ID]; ok {
		return int64(at)
	}
	return b.Epoch
}

// lowestOffset returns up to where the brokers have read the log that are unfenced and not about to go.
func (c *Controller) lowestOffset() int64 {
	lowest := int64(math.MaxInt64)
	for id, s := range c.sessions {
		if s.shutdownOffset < 0 && !c.image.Broker(id).Fenced {
			lowest = min(lowest, s.metadataOffset)
		}
	}
	return lowest
}

// cordon sets the log directories in which a broker wants no new replicas.
func (d *draft) cordon(id int32, dirs []uuid.UUID) {
	b := d.image.Broker(id)
	if b.CordonedLogDirs != nil && slices.Equal(sorted(b.CordonedLogDirs), sorted(dirs)) {
		return
	}
	d.change(b, changeCordoned, func(r record.Record) { r.SetUUIDs("CordonedLogDirs", dirs) })
}

func sorted(ids []uuid.UUID) []uuid.UUID {
	return slices.SortedFunc(slices.Values(ids), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
}
