package metadata

import (
	"errors"
	"fmt"
	"io"

	"kstorage/checkpoint"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// SnapshotPolicy says when a snapshot is due.
type SnapshotPolicy struct {
	MaxBytes          int64       // of batches since the last one: metadata.log.max.record.bytes.between.snapshots
	MaxIntervalMillis raft.Millis // since the last one: metadata.log.max.snapshot.interval.ms; 0: never by time
}

// Loader follows the committed log. One goroutine owns it. After an error it must not be used any more.
type Loader struct {
	policy SnapshotPolicy

	image       *Image // the published one
	transaction *Image // what an open transaction makes of it, else nil
	started     raft.Offset
	clusterID   string // of the published image
	midBatch    bool   // the published image is that of a record in the middle of a batch
	decoder     record.Decoder

	lastSnapshot  raft.SnapshotID
	bytesSince    int64
	snapshotTaken raft.Millis
}

// NewLoader returns the loader of an empty log, at time now.
func NewLoader(p SnapshotPolicy, now raft.Millis) *Loader {
	return &Loader{policy: p, image: NewImage(), snapshotTaken: now}
}

// Image returns the published image. It is valid until the next call of LoadSnapshot or Replay.
func (l *Loader) Image() *Image { return l.image }

// NextOffset is where the log goes on for Replay.
func (l *Loader) NextOffset() raft.Offset { return l.newest().Offset + 1 }

// InTransaction returns the offset of the open transaction's BeginTransaction.
func (l *Loader) InTransaction() (started raft.Offset, ok bool) {
	return l.started, l.transaction != nil
}

// newest is the image of the last record.
func (l *Loader) newest() *Image {
	if l.transaction != nil {
		return l.transaction
	}
	return l.image
}

// LoadSnapshot replaces the image by that of a snapshot, at time now; file is its name for errors. The zero snapshot
// is not read: it is the bootstrap. Errors: *ReplayError, *InvariantError, *checkpoint.CorruptError, those of r.
func (l *Loader) LoadSnapshot(r io.Reader, file string, id raft.SnapshotID, now raft.Millis) error {
	if id == (raft.SnapshotID{}) {
		return nil
	}
	if id.EndOffset < l.NextOffset() {
		return &ReplayError{File: file, Offset: id.EndOffset, Epoch: id.Epoch,
			Err: fmt.Errorf("the snapshot is older than the image, which has all up to offset %d", l.newest().Offset)}
	}
	reader, err := checkpoint.NewReader(r, file)
	if err != nil {
		return err
	}
	image := NewImage()
	image.Epoch, image.Timestamp = id.Epoch, reader.Header.LastContainedLogTime
	for r, err := range reader.Records() {
		if err != nil {
			return err
		}
		decoded, err := l.decoder.Decode(r.Value)
		if err != nil {
			return &ReplayError{File: file, Offset: raft.Offset(r.Offset), Epoch: id.Epoch, Err: err}
		}
		if err := image.apply(decoded); err != nil {
			return &ReplayError{File: file, Offset: raft.Offset(r.Offset), Epoch: id.Epoch, Record: decoded.Message.Name, Err: err}
		}
	}
	image.Offset = id.EndOffset - 1
	image.featuresChanged, image.metricsChanged = true, true
	if err := l.publish(image); err != nil {
		return err
	}
	l.transaction, l.midBatch = nil, false
	l.SnapshotTaken(id, now)
	return nil
}

// Replay replays committed batches, one or more, that begin at NextOffset. Errors: *ReplayError, *InvariantError.
func (l *Loader) Replay(batches []byte) error {
	for len(batches) > 0 {
		b, err := record.DecodeBatch(batches)
		if err != nil {
			return &ReplayError{Offset: l.NextOffset(), Epoch: l.newest().Epoch, Err: err}
		}
		if err := l.replayBatch(&b); err != nil {
			return err
		}
		batches = batches[b.Size:]
		l.bytesSince += int64(b.Size)
	}
	return nil
}

func (l *Loader) replayBatch(b *record.Batch) error {
	fail := func(offset raft.Offset, name string, err error) error {
		return &ReplayError{Offset: offset, Epoch: raft.Epoch(b.LeaderEpoch), Record: name, Err: err}
	}
	if next := l.NextOffset(); raft.Offset(b.BaseOffset) != next {
		return fail(raft.Offset(b.BaseOffset), "", fmt.Errorf("the batch does not follow offset %d", next-1))
	}
	offset := raft.Offset(b.BaseOffset)
	for e, err := range b.Entries() {
		if err != nil {
			return fail(offset, "", err)
		}
		offset = raft.Offset(e.Offset)
		if b.Control {
			l.advance(b, offset)
			continue
		}
		r, err := l.decoder.Decode(e.Value)
		if err != nil {
			return fail(offset, "", err)
		}
		switch r.Message {
		case record.BeginTransaction:
			err = l.begin(b, offset)
		case record.EndTransaction, record.AbortTransaction:
			err = l.end(r.Message == record.EndTransaction)
		}
		if err == nil {
			err = l.newest().apply(r)
		}
		if err != nil {
			return fail(offset, r.Message.Name, err)
		}
		l.advance(b, offset)
	}
	if l.transaction != nil {
		return nil
	}
	l.midBatch = false
	return l.publish(l.image)
}

// advance says that the newest image is that of the record at offset, in b.
func (l *Loader) advance(b *record.Batch, offset raft.Offset) {
	i := l.newest()
	i.Offset, i.Epoch, i.Timestamp = offset, raft.Epoch(b.LeaderEpoch), b.Timestamp
}

// begin opens a transaction at offset, in b. What came before in the batch counts, so it is published.
func (l *Loader) begin(b *record.Batch, offset raft.Offset) error {
	if l.transaction != nil {
		return fmt.Errorf("in the transaction that began at offset %d", l.started)
	}
	if offset > raft.Offset(b.BaseOffset) {
		if err := l.publish(l.image); err != nil {
			return err
		}
		l.midBatch = true
	}
	l.transaction, l.started = l.image.Clone(), offset
	return nil
}

// end closes the open transaction.
func (l *Loader) end(commit bool) error {
	if l.transaction == nil {
		return errors.New("outside of a transaction")
	}
	if commit {
		l.image = l.transaction
	}
	l.transaction = nil
	return nil
}

// publish makes image the published one.
func (l *Loader) publish(image *Image) error {
	if image.featuresChanged {
		image.featuresOffset, image.featuresChanged = image.Offset, false
	}
	if image.metricsChanged {
		image.metricsOffset, image.metricsChanged = image.Offset, false
	}
	if err := image.Check(); err != nil {
		return err
	}
	if l.clusterID != "" && l.clusterID != image.clusterID {
		return image.invariant(fmt.Sprintf("cluster id %q, which was %q before", image.clusterID, l.clusterID))
	}
	l.image, l.clusterID = image, image.clusterID
	return nil
}

// SnapshotDue returns the snapshot of the published image, if one is due at time now: as many bytes, or as much time,
// as the policy says have gone by since the last one, and the image is that of the end of a batch.
func (l *Loader) SnapshotDue(now raft.Millis) (id raft.SnapshotID, ok bool) {
	if _, known := l.image.MetadataVersion(); !known || l.midBatch {
		return id, false
	}
	id = raft.SnapshotID{EndOffset: l.image.Offset + 1, Epoch: l.image.Epoch}
	due := l.bytesSince >= l.policy.MaxBytes ||
		l.policy.MaxIntervalMillis != 0 && now-l.snapshotTaken >= l.policy.MaxIntervalMillis
	return id, due && id.EndOffset > l.lastSnapshot.EndOffset
}

// SnapshotTaken tells that a snapshot is being written, or was, at time now: bytes and time are counted from this call
// on. A snapshot that is older than the last one changes nothing.
func (l *Loader) SnapshotTaken(id raft.SnapshotID, now raft.Millis) {
	if id.EndOffset < l.lastSnapshot.EndOffset {
		return
	}
	l.lastSnapshot, l.bytesSince, l.snapshotTaken = id, 0, now
}
