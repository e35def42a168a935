package raftlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
)

const partSuffix = checkpoint.Suffix + ".part"

// SnapshotWriter writes a snapshot that has no name yet. It ends with Commit or Abort, and is not for concurrent use.
type SnapshotWriter struct {
	log  *Log
	id   raft.SnapshotID
	temp string
	file disk.File
	size int64

	unsynced int64 // of size, as far as it was written here
}

// syncEvery is how much of a snapshot is written at most before it is made durable. If all were at the end, the Sync of an
// append at that time would wait until the disk has written all of it.
const syncEvery = 4 << 20

// CreateSnapshot begins a snapshot of the layer above, which goes on writing it while the log is used.
func (l *Log) CreateSnapshot(id raft.SnapshotID) (*SnapshotWriter, error) {
	if err := l.broken(); err != nil {
		return nil, err
	}
	// Kafka draws a random number here. What a process before us has left is gone since Open.
	name := snapshotID(id).String()
	temp := l.path(fmt.Sprintf("%s-%d%s", name[:len(name)-len(checkpoint.Suffix)], l.parts.Add(1), partSuffix))
	f, err := l.fs.Create(temp, 0o600)
	if err != nil {
		return nil, l.fail(err)
	}
	return &SnapshotWriter{log: l, id: id, temp: temp, file: f}, nil
}

func (w *SnapshotWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		var written int
		written, err = w.write(b[:min(len(b), syncEvery)])
		b, n = b[written:], n+written
		if w.unsynced += int64(written); err == nil && w.unsynced >= syncEvery {
			w.unsynced = 0
			err = w.log.fail(w.file.SyncData())
		}
	}
	return n, err
}

// write is Write, but waits for no disk.
func (w *SnapshotWriter) write(b []byte) (int, error) {
	if err := w.log.broken(); err != nil {
		return 0, err
	}
	n, err := w.file.Write(b)
	w.size += int64(n)
	return n, w.log.fail(err)
}

// Commit checks the snapshot and gives it its name, durably. A *CorruptError says that it is none; it is gone then.
func (w *SnapshotWriter) Commit() (raft.Snapshot, error) {
	l := w.log
	if err := l.broken(); err != nil {
		return raft.Snapshot{}, errors.Join(err, w.file.Close())
	}
	// This takes long, so it holds no lock.
	s, err := l.checkSnapshot(w.temp, w.id, true)
	if err != nil {
		return raft.Snapshot{}, errors.Join(err, w.Abort())
	}
	err = w.file.Chmod(0o400)
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return raft.Snapshot{}, l.fail(err)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.broken(); err != nil {
		return raft.Snapshot{}, err
	}
	if err := disk.Replace(l.fs, w.temp, l.SnapshotPath(w.id)); err != nil {
		return raft.Snapshot{}, l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.snapshots, w.id, raft.SnapshotID.Compare)
	if !found {
		l.snapshots = slices.Insert(l.snapshots, i, w.id)
	}
	return s, nil
}

// Abort removes the file.
func (w *SnapshotWriter) Abort() error {
	return w.log.fail(errors.Join(w.file.Close(), w.log.fs.Remove(w.temp)))
}

// WriteSnapshotChunk carries out a WriteSnapshotChunk. It panics if the chunk does not continue the one before.
func (l *Log) WriteSnapshotChunk(c raft.WriteSnapshotChunk) error {
	l.downloading.Lock()
	defer l.downloading.Unlock()
	if c.Position == 0 {
		if err := l.dropDownload(); err != nil {
			return err
		}
		var err error
		if l.download, err = l.CreateSnapshot(c.ID); err != nil {
			return err
		}
	}
	if l.download == nil || l.download.id != c.ID || l.download.size != c.Position {
		panic(fmt.Sprintf("raftlog: chunk at byte %d of snapshot %v does not continue %+v", c.Position, c.ID, l.download))
	}
	_, err := l.download.write(c.Bytes)
	return err
}

// InstallSnapshot carries out an InstallSnapshot. A *CorruptError means SnapshotRejected, another error stops the node.
func (l *Log) InstallSnapshot(id raft.SnapshotID) (raft.Snapshot, error) {
	l.downloading.Lock()
	w := l.download
	l.download = nil
	l.downloading.Unlock()
	if w == nil || w.id != id {
		panic(fmt.Sprintf("raftlog: install snapshot %v, downloaded is %+v", id, w))
	}
	return w.Commit()
}

// DropSnapshotChunks carries out a DropSnapshotChunks.
func (l *Log) DropSnapshotChunks() error {
	l.downloading.Lock()
	defer l.downloading.Unlock()
	return l.dropDownload()
}

func (l *Log) dropDownload() error {
	w := l.download
	l.download = nil
	if err := l.broken(); w == nil || err != nil {
		return err
	}
	return w.Abort()
}

// ReadSnapshot returns bytes of a snapshot from position on: maxBytes or as many as there are.
func (l *Log) ReadSnapshot(id raft.SnapshotID, position int64, maxBytes int32) ([]byte, error) {
	f, err := l.OpenSnapshot(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := l.fs.Stat(l.SnapshotPath(id))
	if err != nil {
		return nil, err
	}
	data := make([]byte, max(0, min(int64(maxBytes), info.Size()-position)))
	if _, err := f.ReadAt(data, position); err != nil && err != io.EOF {
		return nil, err
	}
	return data, nil
}

// OpenSnapshot opens a snapshot for reading.
func (l *Log) OpenSnapshot(id raft.SnapshotID) (disk.Reader, error) {
	if err := l.broken(); err != nil {
		return nil, err
	}
	return l.fs.Open(l.SnapshotPath(id))
}

// checkSnapshot reads the header of a snapshot and, if whole, all the rest. Errors: *CorruptError, those of reading.
func (l *Log) checkSnapshot(path string, id raft.SnapshotID, whole bool) (raft.Snapshot, error) {
	s, err := l.readSnapshotHeader(path, id, whole)
	if corrupt, ok := errors.AsType[*checkpoint.CorruptError](err); ok {
		err = &CorruptError{File: corrupt.File, Offset: corrupt.Offset, Reason: corrupt.Reason}
	}
	return s, err
}

func (l *Log) readSnapshotHeader(path string, id raft.SnapshotID, whole bool) (raft.Snapshot, error) {
	var info fs.FileInfo
	f, err := l.fs.Open(path)
	if err == nil {
		defer f.Close()
		info, err = l.fs.Stat(path)
	}
	if err != nil {
		return raft.Snapshot{}, err
	}
	buffered, release := buffer(f)
	defer release()
	in, err := checkpoint.NewReader(buffered, path)
	if err != nil {
		return raft.Snapshot{}, err
	}
	h := in.Header
	if h.LeaderEpoch != int32(id.Epoch) {
		return raft.Snapshot{}, &CorruptError{File: path, Reason: fmt.Sprintf("leader epoch %d in a snapshot of epoch %d", h.LeaderEpoch, id.Epoch)}
	}
	if whole {
		for _, err := range in.Records() {
			if err != nil {
				return raft.Snapshot{}, err
			}
		}
	}
	s := raft.Snapshot{ID: id, SizeBytes: info.Size(), LastContainedLogTime: h.LastContainedLogTime, KRaftVersion: h.KRaftVersion}
	for _, v := range h.Voters {
		voter := raft.Voter{
			Key:             raft.ReplicaKey{NodeID: raft.NodeID(v.NodeID), DirectoryID: v.DirectoryID},
			MinKRaftVersion: v.MinKRaftVersion,
			MaxKRaftVersion: v.MaxKRaftVersion,
		}
		for _, e := range v.Endpoints {
			voter.Endpoints = append(voter.Endpoints, raft.Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port})
		}
		s.Voters = append(s.Voters, voter)
	}
	return s, nil
}
