package raftlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// Open recovers the log in dir, which need not exist, and opens it. Errors: *CorruptError, those of the disk.
func Open(fsys disk.FS, dir string, c Config) (*Log, raft.Recovered, error) {
	l := &Log{fs: fsys, dir: dir, config: c, recent: recent{limit: maxRecentBytes}}
	found, err := l.recover()
	if err != nil {
		l.closeFiles()
		return nil, raft.Recovered{}, err
	}
	return l, found, nil
}

// recovery is what is found on the way.
type recovery struct {
	raft.Recovered
	segments   []raft.Offset     // base offsets, ascending
	epochsFile []raft.EpochStart // of leader-epoch-checkpoint
	lastEpoch  raft.Epoch        // of the last batch, 0 without one
	torn       *tail             // at the end of the last segment
}

func (l *Log) recover() (raft.Recovered, error) {
	var r recovery
	steps := []func(*recovery) error{l.recoverDir, l.recoverFiles, l.recoverSnapshots, l.recoverSegments, l.repair, l.syncAll}
	for _, step := range steps {
		if err := step(&r); err != nil {
			return raft.Recovered{}, err
		}
	}
	return r.Recovered, nil
}

// recoverDir makes the directory, removes left-overs in it, and finds segments and snapshots.
func (l *Log) recoverDir(r *recovery) error {
	if err := l.fs.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	if err := l.fs.SyncDir(filepath.Dir(l.dir)); err != nil {
		return err
	}
	entries, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, partSuffix) || strings.HasSuffix(name, ".deleted") || strings.HasSuffix(name, ".tmp") {
			if err := l.fs.Remove(l.path(name)); err != nil {
				return err
			}
		}
		if base, ok := parseSegmentName(name); ok {
			r.segments = append(r.segments, base)
		}
		if id, ok := checkpoint.ParseName(name); ok {
			l.snapshots = append(l.snapshots, raft.SnapshotID{EndOffset: raft.Offset(id.EndOffset), Epoch: raft.Epoch(id.Epoch)})
		}
	}
	slices.Sort(r.segments)
	slices.SortFunc(l.snapshots, raft.SnapshotID.Compare)
	return nil
}

// recoverFiles reads the small files.
func (l *Log) recoverFiles(r *recovery) error {
	r.QuorumState = raft.NoQuorumState()
	err := l.decodeFile(quorumStateName, func(data []byte) (err error) {
		r.QuorumState, err = DecodeQuorumState(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = l.decodeFile(epochStartsName, func(data []byte) (err error) {
		r.epochsFile, err = DecodeEpochStarts(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = l.decodeFile(partitionMetadataName, checkPartitionMetadata)
	if errors.Is(err, fs.ErrNotExist) {
		return l.writeFile(partitionMetadataName, []byte(partitionMetadata))
	}
	return err
}

// decodeFile reads a file; errors of decode become a *CorruptError.
func (l *Log) decodeFile(name string, decode func([]byte) error) error {
	data, err := l.fs.ReadFile(l.path(name))
	if err != nil {
		return err
	}
	if err := decode(data); err != nil {
		if corrupt, ok := errors.AsType[*CorruptError](err); ok {
			return &CorruptError{File: l.path(name), Offset: corrupt.Offset, Reason: corrupt.Reason}
		}
		return &CorruptError{File: l.path(name), Reason: err.Error()}
	}
	return nil
}

// recoverSnapshots reads the headers of all snapshots, and all of the newest one and of the zero checkpoint, which are those
// that a start uses.
func (l *Log) recoverSnapshots(r *recovery) error {
	for i, id := range l.snapshots {
		whole := i == len(l.snapshots)-1 || id.EndOffset == 0
		s, err := l.checkSnapshot(l.SnapshotPath(id), id, whole)
		if err != nil {
			return err
		}
		r.Snapshots = append(r.Snapshots, s)
	}
	return nil
}

// recoverSegments reads all batches.
func (l *Log) recoverSegments(r *recovery) error {
	for i, base := range r.segments {
		s := l.newSegment(base)
		if i > 0 && base != r.LogEnd {
			return &CorruptError{File: s.name, Reason: fmt.Sprintf("the segment begins at offset %d, and the one in front of it ends at %d", base, r.LogEnd)}
		}
		var err error
		if s.file, err = l.fs.OpenAppend(s.name); err != nil {
			return err
		}
		l.segments = append(l.segments, s)
		if err := l.scan(r, s, i == len(r.segments)-1); err != nil {
			return err
		}
		r.LogEnd = s.end
	}
	if len(r.segments) > 0 {
		r.LogStart = r.segments[0]
		l.start = r.LogStart
	}
	return nil
}

// scan reads the batches of a segment. Behind its end there may be a torn tail if it is the last one.
func (l *Log) scan(r *recovery, s *segment, last bool) error {
	f, err := l.fs.Open(s.name)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered, release := buffer(f)
	defer release()
	in := record.NewBatchReader(buffered)
	for {
		b, err := in.Next()
		if err != nil {
			return l.scanEnd(r, s, last, in.ZeroBytes(), err)
		}
		wrong := func(format string, args ...any) error {
			return &CorruptError{File: s.name, Offset: b.Position, Reason: fmt.Sprintf(format, args...)}
		}
		if raft.Offset(b.BaseOffset) != s.end {
			// The sector with its offset may be lost.
			return l.scanEnd(r, s, last, 0, &record.CorruptError{
				Offset: b.Position,
				Reason: fmt.Sprintf("a batch with offset %d stands where offset %d should be", b.BaseOffset, s.end),
			})
		}
		epoch := raft.Epoch(b.LeaderEpoch)
		if epoch < r.lastEpoch {
			return wrong("a batch of epoch %d follows one of epoch %d", epoch, r.lastEpoch)
		}
		if n := len(r.EpochStarts); n == 0 || r.EpochStarts[n-1].Epoch != epoch {
			r.EpochStarts = append(r.EpochStarts, raft.EpochStart{Epoch: epoch, Start: s.end})
		}
		if b.Control {
			// Once more, as the core wants it.
			data := make([]byte, b.Size)
			if _, err := s.file.ReadAt(data, b.Position); err != nil {
				return err
			}
			control, err := raft.DecodeBatch(data)
			if err != nil {
				return wrong("%s", err)
			}
			control.Bytes = nil
			r.Control = append(r.Control, control)
		}
		if s.size == 0 {
			s.firstTime = b.Timestamp
		}
		s.add(raft.Offset(b.BaseOffset), raft.Offset(b.LastOffset()), b.Size)
		r.lastEpoch = epoch
	}
}

// scanEnd is the end of scan: behind the last whole batch there are zeroes zero bytes, or what err says.
func (l *Log) scanEnd(r *recovery, s *segment, last bool, zeroes int64, err error) error {
	damage, ok := errors.AsType[*record.CorruptError](err)
	switch {
	case err == io.EOF && zeroes == 0:
		return nil
	case err == io.EOF:
		damage = &record.CorruptError{Offset: s.size, Reason: fmt.Sprintf("%d zero bytes", zeroes)}
	case !ok:
		return err
	}
	if !last {
		return &CorruptError{File: s.name, Offset: damage.Offset, Reason: damage.Reason + ", and a later segment follows"}
	}
	if err == io.EOF {
		l.reserved, l.unused = s.size+zeroes, true
		return nil
	}
	r.torn, err = l.classify(r, s, damage)
	return err
}

// repair brings the files to the state that the core starts with. Whatever it does is found to do again when a crash
// interrupts it.
func (l *Log) repair(r *recovery) error {
	newest := raft.SnapshotID{}
	if n := len(r.Snapshots); n > 0 {
		newest = r.Snapshots[n-1].ID
	}
	if newest.EndOffset < r.LogStart {
		return &CorruptError{File: l.active().name, Reason: fmt.Sprintf(
			"the log begins here with offset %d, and no snapshot has what is in front of it: the newest one ends at %d", r.LogStart, newest.EndOffset)}
	}
	if why := r.lost(newest); why != "" {
		return &CorruptError{File: l.path(epochStartsName), Reason: why + ". Bring its files back. If they are lost, an observer may start without " +
			"anything in its directory; a voter must first be removed from the quorum, then be formatted anew and added again: without its log it can undo commits"}
	}
	reason := r.behind(newest)
	highest := r.lastEpoch
	for _, e := range r.epochsFile {
		highest = max(highest, e.Epoch)
	}
	if reason != "" {
		r.LogStart, r.LogEnd, r.lastEpoch = newest.EndOffset, newest.EndOffset, newest.Epoch
		r.EpochStarts, r.Control = nil, nil
	}
	if reason == "" {
		r.keepEpochStart(newest)
	}
	if err := l.raiseEpoch(r, highest); err != nil {
		return err
	}
	if !slices.Equal(r.epochsFile, r.EpochStarts) {
		l.repaired("%s: %v has become %v, as the log is", epochStartsName, r.epochsFile, r.EpochStarts)
		if err := l.replaceFile(epochStartsName, AppendEpochStarts(nil, r.EpochStarts)); err != nil {
			return err
		}
	}
	switch {
	case reason != "":
		if len(r.segments) > 0 {
			l.repaired("the log starts anew at snapshot %s: %s", snapshotID(newest), reason)
		}
		if err := l.reset(newest); err != nil {
			return err
		}
	case r.torn != nil:
		l.repaired("%s: cut at byte %d: the last write was not finished, %d bytes are left of it", l.active().name, r.torn.position, r.torn.end-r.torn.position)
		if err := l.cut(); err != nil {
			return err
		}
	}
	l.start = r.LogStart
	if err := l.removeSnapshots(); err != nil {
		return err
	}
	r.Snapshots = r.Snapshots[len(r.Snapshots)-len(l.snapshots):]
	return nil
}

// lost tells what leader-epoch-checkpoint knows of a log that is gone, "" if that is none. It is no crash that leaves these:
//
//  1. No segment, but an entry: who drops all segments (Reset, and a recovery that starts anew) empties the file before.
//  2. A log that is behind the newest snapshot, but an entry at the snapshot's end or above: when it was written, the log
//     was durable up to there.
func (r *recovery) lost(newest raft.SnapshotID) string {
	if len(r.epochsFile) == 0 {
		return ""
	}
	last := r.epochsFile[len(r.epochsFile)-1]
	switch {
	case len(r.segments) == 0:
		return fmt.Sprintf("epoch %d began at offset %d of the log, and no segment is here", last.Epoch, last.Start)
	case r.LogEnd < newest.EndOffset && last.Start >= newest.EndOffset:
		return fmt.Sprintf("epoch %d began at offset %d of the log, which ends at %d now, while the newest snapshot ends at %d",
			last.Epoch, last.Start, r.LogEnd, newest.EndOffset)
	}
	return ""
}

// behind tells why the log must start anew at its newest snapshot, "" if it need not.
func (r *recovery) behind(newest raft.SnapshotID) string {
	switch {
	case len(r.segments) == 0:
		return "there is no segment"
	case r.LogEnd < newest.EndOffset:
		return fmt.Sprintf("it ended at %d", r.LogEnd)
	case r.lastEpoch < newest.Epoch && r.LogEnd > newest.EndOffset, r.LogStart < newest.EndOffset && r.epochAt(newest.EndOffset-1) != newest.Epoch:
		// A follower downloaded the snapshot because its log was another one, and crashed before it dropped that.
		return "its epochs are others"
	}
	return ""
}

// epochAt is the epoch of an offset in the log.
func (r *recovery) epochAt(offset raft.Offset) (epoch raft.Epoch) {
	for _, e := range r.EpochStarts {
		if e.Start <= offset {
			epoch = e.Epoch
		}
	}
	return epoch
}

// keepEpochStart takes over the last entry of leader-epoch-checkpoint if it is that of a leader that had not appended yet. A
// log that starts anew has none: its leader wrote the entry for another log.
func (r *recovery) keepEpochStart(newest raft.SnapshotID) {
	if n := len(r.epochsFile); n > 0 {
		if last := r.epochsFile[n-1]; last.Start == r.LogEnd && last.Epoch > max(r.lastEpoch, newest.Epoch) {
			r.EpochStarts = append(r.EpochStarts, last)
		}
	}
}

// raiseEpoch puts the highest epoch that was found into quorum-state, if nothing else has it: it is the least epoch to
// start with.
func (l *Log) raiseEpoch(r *recovery, highest raft.Epoch) error {
	known := r.QuorumState.Epoch
	if n := len(r.EpochStarts); n > 0 {
		known = max(known, r.EpochStarts[n-1].Epoch)
	}
	if highest <= known {
		return nil
	}
	l.repaired("%s: epoch %d has become %d, which was in the log or in %s", quorumStateName, r.QuorumState.Epoch, highest, epochStartsName)
	state := raft.NoQuorumState()
	state.Version, state.Epoch, state.Voters = r.QuorumState.Version, highest, r.QuorumState.Voters
	r.QuorumState = state
	return l.replaceFile(quorumStateName, AppendQuorumState(nil, state))
}

// syncAll makes durable what was found, which may be in the memory of the system only, and what was done to it.
func (l *Log) syncAll(*recovery) error {
	for _, s := range l.segments {
		if err := s.file.SyncData(); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dir)
}

// readers have the buffer that record.NewBatchReader wants. A start reads a few files, a simulation many small ones.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 256<<10) }}

func buffer(r io.Reader) (in *bufio.Reader, release func()) {
	in = readers.Get().(*bufio.Reader)
	in.Reset(r)
	return in, func() {
		in.Reset(nil)
		readers.Put(in)
	}
}

func (l *Log) repaired(format string, args ...any) {
	l.Repaired = append(l.Repaired, fmt.Sprintf(format, args...))
}
