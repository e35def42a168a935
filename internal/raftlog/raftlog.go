// Package raftlog is the disk of the consensus core: it carries out what internal/raft asks to persist, and tells
// it after a start what is there. The files are those of Apache Kafka's metadata log (KIP-500, KIP-595,
// KIP-630, KIP-853), in the directory __cluster_metadata-0:
//
//	00000000000000000000.log                     segment: record batches, named by the offset of the first
//	00000000000000000175-0000000002.checkpoint   snapshot: end offset, epoch
//	leader-epoch-checkpoint                      where epochs begin in the log
//	quorum-state                                 epoch, leader, vote
//	partition.metadata                           the topic id, always the same
//
// # Durability
//
// Append keeps batches in memory, where Read finds them at once, and the newest ones after their fsync too. Sync writes and
// fsyncs them: whoever calls it in a loop, whenever something was appended, gets group commit, since all that came in meanwhile
// is the next group. Each group is one write to one file, at most maxGroupBytes long unless it is a single batch, and the next one is written
// when its fsync has ended. So after a crash only the last group can be torn.
//
// The file of the last segment is longer than its batches: zeros stand behind them (Extend), since an fsync takes a quarter to half
// longer if the file has grown. They go when the segment is closed or followed by another one. A process that was killed
// leaves them, as Kafka does with log.preallocate; Kafka cuts them when it starts on the files, and a Log before its first write, so
// that a start that is refused changes nothing.
//
// All other changes are barriers: when they return they are durable, and so is what was appended before a WriteEpochStarts
// or is left by a Truncate. A file that is replaced is written under the name NAME.tmp, synced and renamed. A write or fsync that fails makes the log
// unusable: all calls return that error from then on. Nothing is retried, because after a failed fsync nobody knows what is
// on the disk.
//
// # Recovery
//
// Open reads every batch. The log ends at the first batch that is not whole, provided that the damage can all belong to
// the last group (see tail.go); it is cut there. Any other damage is a *CorruptError. What was found is fsynced: the
// process may have been killed before it did that. Then:
//
//   - A log that is behind its newest snapshot starts anew at it: a crash came between the snapshot's
//     download and the Reset that follows, or lost unsynced batches that the snapshot covers. If leader-epoch-checkpoint
//     proves that it was longer, it is a *CorruptError, and so is a log without a segment: a voter must not start empty.
//   - Entries of leader-epoch-checkpoint that the log contradicts go, missing ones come. Should an epoch disappear so that
//     is above that of quorum-state, it is put there first: a node never falls back to an epoch in which it may have voted.
//   - Files with the endings .part, .deleted and .tmp go, and snapshots that end below the log's start.
//
// # Left out
//
// Kafka's .index, .timeindex and .snapshot files: Kafka builds them anew at each start, since it never takes the metadata log
// for cleanly closed. Those that it left are removed with their segment. Files are removed at once and not renamed to
// .deleted for a minute: on the systems that we run on, who has a file open may read on.
package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
)

// Config is what an operator may choose: metadata.log.segment.bytes and metadata.log.segment.ms.
type Config struct {
	SegmentBytes  int64 // a segment that has batches does not grow beyond
	SegmentMillis int64 // nor does it take a batch that is so much younger than its first
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{SegmentBytes: 1 << 30, SegmentMillis: 7 * 24 * 3600 * 1000}
}

// maxGroupBytes bounds what one write holds, unless it is one batch.
const maxGroupBytes = 1 << 20

// CorruptError says which file is damaged and where.
type CorruptError struct {
	File   string
	Offset int64 // of the byte
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: byte %d: %s", e.File, e.Offset, e.Reason)
}

// RangeError says that the log has no batch with the offset From.
type RangeError struct{ From, LogStart, LogEnd raft.Offset }

func (e *RangeError) Error() string {
	return fmt.Sprintf("offset %d is outside of the log, which has %d to %d", e.From, e.LogStart, e.LogEnd-1)
}

// Log is an open metadata log. It is for concurrent use: an Append waits for no disk, Read, ReadSnapshot and what writes a
// snapshot not for what others do there, and nobody for a snapshot's check and fsync. Errors are *CorruptError or those of
// the disk, which name the file.
type Log struct {
	fs     disk.FS
	dir    string
	config Config

	// Repaired is what Open has changed, a line each, for people.
	Repaired []string

	parts atomic.Uint64 // temporary snapshot files so far

	downloading sync.Mutex // guards download; taken before writing
	download    *SnapshotWriter

	writing  sync.Mutex // held by whoever changes files other than temporary snapshots; taken before mu
	buf      []byte     // a group of several batches
	reserved int64      // where the zeros behind the last segment's batches end, or would if the disk had room; 0 or less than its size: there are none
	unused   bool       // the zeros are of an earlier run, and go before the next write

	mu        sync.RWMutex // guards what follows; nobody who holds it waits for the disk
	err       error        // what made the log unusable
	start     raft.Offset
	segments  []*segment        // at least one; the last one is appended to
	pending   []pending         // appended, not synced
	recent    recent            // the last ones that are synced
	appended  raft.Synced       // of the last AppendLog
	synced    raft.Synced       // of the last one that is durable
	snapshots []raft.SnapshotID // ascending
	drops     uint64            // so often batches went
}

// pending is a batch that is not synced yet.
type pending struct {
	base, last raft.Offset
	bytes      []byte
}

// fail makes the log unusable if err is one.
func (l *Log) fail(err error) error {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err == nil {
			l.err = err
		}
	}
	return err
}

// broken returns the error that made the log unusable.
func (l *Log) broken() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.err
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }
func (l *Log) active() *segment        { return l.segments[len(l.segments)-1] }

// end is the log's end, with what is pending. The caller holds mu.
func (l *Log) end() raft.Offset {
	if n := len(l.pending); n > 0 {
		return l.pending[n-1].last + 1
	}
	return l.active().end
}

// SizeBytes is the size of the log without its snapshots.
func (l *Log) SizeBytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var size int64
	for _, s := range l.segments {
		size += s.size
	}
	for i := range l.pending {
		size += int64(len(l.pending[i].bytes))
	}
	return size
}

// WriteQuorumState carries out a WriteQuorumState.
func (l *Log) WriteQuorumState(s raft.QuorumState) error {
	return l.replace(quorumStateName, AppendQuorumState(nil, s))
}

// WriteEpochStarts carries out a WriteEpochStarts. All that was appended before is durable then, so an entry of ours
// never begins behind the log's end.
func (l *Log) WriteEpochStarts(entries []raft.EpochStart) error {
	if _, err := l.Sync(); err != nil {
		return err
	}
	return l.replace(epochStartsName, AppendEpochStarts(nil, entries))
}

// replace gives a file a new content.
func (l *Log) replace(name string, content []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return err
	}
	return l.fail(l.replaceFile(name, content))
}

func (l *Log) replaceFile(name string, content []byte) error {
	if err := l.writeFile(name, content); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// writeFile is replaceFile, but its name is durable only when the directory has been synced.
func (l *Log) writeFile(name string, content []byte) error {
	temp := l.path(name + ".tmp")
	write := func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
	if err := disk.Temp(l.fs, temp, 0o644, write); err != nil {
		return err
	}
	return l.fs.Rename(temp, l.path(name))
}

// Close syncs the log, unless it is unusable, and closes its files.
func (l *Log) Close() error {
	l.downloading.Lock()
	defer l.downloading.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	err := l.flush()
	if l.download != nil {
		err = errors.Join(err, l.download.Abort())
		l.download = nil
	}
	return errors.Join(err, l.closeFiles())
}

func (l *Log) closeFiles() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for i, s := range l.segments {
		if s.file == nil { // a Reset that failed
			continue
		}
		if i == len(l.segments)-1 && l.reserved > s.size && !l.unused {
			errs = append(errs, s.file.Truncate(s.size))
		}
		errs = append(errs, s.file.Close())
	}
	l.segments = nil
	l.drops++
	if l.err == nil {
		l.err = &fs.PathError{Op: "use", Path: l.dir, Err: fs.ErrClosed}
	}
	return errors.Join(errs...)
}

// SnapshotPath is where a snapshot's file is.
func (l *Log) SnapshotPath(id raft.SnapshotID) string { return l.path(snapshotID(id).String()) }

func snapshotID(id raft.SnapshotID) checkpoint.ID {
	return checkpoint.ID{EndOffset: int64(id.EndOffset), Epoch: int32(id.Epoch)}
}
