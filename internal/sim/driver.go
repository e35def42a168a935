package sim

import (
	"errors"

	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
)

// driver carries out what a core says, as internal/node does it with goroutines and sockets:
//
//   - The effects of a step are carried out front to back. Each call of the log that is a barrier returns when all is
//     durable, so what stands behind it in the list comes after it. An error of the log stops the node, and the rest of the
//     effects is not carried out.
//   - Inputs that come up meanwhile (an append of the layer above, say) wait until the effects are done: a step's list is valid
//     until the next step.
//   - After an AppendLog the log is synced elsewhere, while the core goes on. One Sync runs at a time; what is appended
//     meanwhile is the next one's. What it returns is an input. A fetched snapshot is checked and installed elsewhere too.
//   - A Reply that names bytes gets them when it is carried out, so it finds what was appended before it in the list.
//   - The core is woken at its deadline.
type driver struct {
	core *raft.Core
	log  *raftlog.Log
	host host

	inbox    []raft.Input // first come, first served
	running  bool         // some step's effects are being carried out; for ever once the node has stopped
	syncing  bool
	appended bool // something that no Sync has covered yet
}

// host is what surrounds a driver.
type host interface {
	now() raft.Millis  // monotonic
	wallMillis() int64 // since the Unix epoch
	alarm(at raft.Millis)
	startSync()                   // calls log.Sync without delay of the driver, and then driver.synced
	startInstall(raft.SnapshotID) // calls log.InstallSnapshot likewise, and then driver.installed
	send(raft.Send)
	reply(raft.RequestID, answer)
	above(raft.Effect) error // tells the layer above; it may fail to read the log
	stopped(err error)

	// These are the simulation's alone: it sees what happens, and may put something else in its place.
	before(raft.Input) raft.Input
	carrying(raft.Effect) raft.Effect
	carried(raft.Effect)
	stepped()
}

// input takes an input, now or as soon as the effects of the one before are done.
func (d *driver) input(in raft.Input) {
	d.inbox = append(d.inbox, in)
	if d.running {
		return
	}
	d.running = true
	for len(d.inbox) > 0 {
		in := d.inbox[0]
		d.inbox = d.inbox[1:]
		in = d.host.before(in)
		for _, e := range d.core.Step(d.host.now(), in) {
			e = d.host.carrying(e)
			if err := d.carryOut(e); err != nil {
				d.host.stopped(err)
				return // and never run again
			}
			d.host.carried(e)
		}
		d.host.stepped()
	}
	d.running = false
	d.inbox = nil
	d.sync()
	if at, ok := d.core.Deadline(); ok {
		d.host.alarm(at)
	}
}

// sync starts a Sync if there is something to sync, none is on its way, and the node has not stopped.
func (d *driver) sync() {
	if d.appended && !d.syncing && !d.running {
		d.syncing, d.appended = true, false
		d.host.startSync()
	}
}

// synced takes the result of a Sync.
func (d *driver) synced(s raft.Synced, err error) {
	if err != nil {
		d.host.stopped(err)
		return
	}
	d.syncing = false
	if s.EndOffset > 0 {
		d.input(s)
	}
	d.sync()
}

// installed takes the result of an InstallSnapshot.
func (d *driver) installed(id raft.SnapshotID, s raft.Snapshot, err error) {
	if _, corrupt := errors.AsType[*raftlog.CorruptError](err); corrupt {
		d.input(raft.SnapshotRejected{ID: id})
	} else if err != nil {
		d.host.stopped(err)
	} else {
		d.input(raft.SnapshotInstalled{Snapshot: s})
	}
}

func (d *driver) carryOut(e raft.Effect) error {
	switch e := e.(type) {
	case raft.WriteQuorumState:
		return d.log.WriteQuorumState(e.State)
	case raft.WriteEpochStarts:
		return d.log.WriteEpochStarts(e.Entries)
	case raft.AppendLog:
		d.appended = true
		return d.log.Append(e, d.host.wallMillis())
	case raft.TruncateLog:
		return d.log.Truncate(e.EndOffset)
	case raft.ResetLog:
		return d.log.Reset(e.ID)
	case raft.DeletePrefix:
		if err := d.log.DeletePrefix(e.LogStart); err != nil {
			return err
		}
		d.inbox = append(d.inbox, raft.Clean{WallMillis: d.host.wallMillis(), LogSizeBytes: d.log.SizeBytes()})
	case raft.WriteSnapshotChunk:
		return d.log.WriteSnapshotChunk(e)
	case raft.InstallSnapshot:
		d.host.startInstall(e.ID)
	case raft.DropSnapshotChunks:
		return d.log.DropSnapshotChunks()
	case raft.Send:
		d.host.send(e)
	case raft.Reply:
		a, err := d.fill(e.Response)
		if err != nil {
			return err
		}
		d.host.reply(e.ID, a)
	case raft.ShutdownDone:
		return errShutdown
	case raft.Fatal:
		return errors.New(e.Reason)
	default:
		return d.host.above(e)
	}
	return nil
}

// errShutdown stops a node that was asked to.
var errShutdown = errors.New("shut down")

// fill reads the bytes that a response names. They are the log's own and must not change.
func (d *driver) fill(response raft.Response) (a answer, err error) {
	switch r := response.(type) {
	case *raft.FetchResponse:
		a.records, err = d.log.Read(r.Read)
	case *raft.FetchSnapshotResponse:
		if r.Read > 0 {
			filled := *r
			filled.Bytes, err = d.log.ReadSnapshot(r.SnapshotID, r.Position, r.Read)
			response = &filled
		}
	}
	a.response = response
	return a, err
}

// decode makes the input of an answer that came over the wire.
func decode(id raft.RequestID, a answer) raft.Input {
	if a.failed {
		return raft.SendFailed{ID: id, Reason: a.reason}
	}
	if r, ok := a.response.(*raft.FetchResponse); ok && len(a.records) > 0 {
		filled := *r
		filled.Read = raft.LogRange{}
		var err error
		if filled.Batches, err = raft.DecodeBatches(a.records); err != nil {
			return raft.SendFailed{ID: id, Reason: raft.Corrupt}
		}
		return raft.Answered{ID: id, Response: &filled}
	}
	return raft.Answered{ID: id, Response: a.response}
}
