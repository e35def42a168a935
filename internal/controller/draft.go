package controller

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// draft is an append in the making: its records, and the image with them, so that each decision sees those before it.
type draft struct {
	epoch   raft.Epoch
	next    raft.Offset // of the next record
	image   *metadata.Image
	own     bool // image is a clone
	level   features.MetadataVersion
	minISR  string
	records []record.Record
}

func (c *Controller) draft(nextOffset raft.Offset) *draft {
	level, _ := c.image.MetadataVersion()
	return &draft{epoch: c.epoch, next: nextOffset, image: c.image, level: level, minISR: c.cfg.MinInSyncReplicas}
}

// add adds a record.
func (d *draft) add(r record.Record) {
	if !d.own {
		d.image, d.own = d.image.Clone(), true
	}
	if err := d.image.Replay(r, d.next); err != nil {
		panic(fmt.Sprintf("controller: epoch %d, offset %d: a record of our own: %v", d.epoch, d.next, err))
	}
	d.records = append(d.records, r)
	d.next++
}

// change adds a BrokerRegistrationChangeRecord, whose fields set gives.
func (d *draft) change(b *metadata.Broker, version int16, set func(r record.Record)) {
	r := record.New(record.BrokerRegistrationChange, version)
	r.SetInt("BrokerId", int64(b.ID))
	r.SetInt("BrokerEpoch", b.Epoch)
	set(r)
	d.add(r)
}

// fence takes a broker out of all ISRs and fences it.
func (d *draft) fence(id int32) {
	d.leave(id, nil, false)
	d.change(d.image.Broker(id), changeFenced, func(r record.Record) { r.SetInt("Fenced", 1) })
}

// unfence lets a broker lead again what has no leader.
func (d *draft) unfence(id int32) {
	d.change(d.image.Broker(id), changeFenced, func(r record.Record) { r.SetInt("Fenced", -1) })
	d.lead(id)
}

// shutDown begins the controlled shutdown of a broker: its partitions get other leaders while it still runs.
func (d *draft) shutDown(id int32) {
	d.change(d.image.Broker(id), changeShuttingDown, func(r record.Record) { r.SetInt("InControlledShutdown", 1) })
	d.leave(id, nil, false)
}

// loseDirectories takes log directories from a broker, and the replicas in them out of all ISRs.
func (d *draft) loseDirectories(id int32, offline []uuid.UUID) {
	b := d.image.Broker(id)
	var left, lost []uuid.UUID
	for _, dir := range b.LogDirs {
		if slices.Contains(offline, dir) {
			lost = append(lost, dir)
		} else {
			left = append(left, dir)
		}
	}
	if lost == nil {
		return
	}
	d.leave(id, lost, false)
	d.change(b, changeDirectories, func(r record.Record) { r.SetUUIDs("LogDirs", left) })
}
