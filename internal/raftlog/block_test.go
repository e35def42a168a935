package raftlog

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kstorage/internal/disk"
	"kstorage/internal/raft"
)

// slowDisk is a disk on which one operation takes until it is released.
type slowDisk struct {
	disk.FS
	mu      sync.Mutex
	slow    string // "sync x.log": its operation and the end of its file's name
	reached chan struct{}
	release chan struct{}
}

// hold makes the next such operation wait. It returns when that has begun, in do, and how to let it go on and wait for do's end.
func (d *slowDisk) hold(t *testing.T, slow string, do func() error) (goOn func() error) {
	t.Helper()
	d.mu.Lock()
	d.slow, d.reached, d.release = slow, make(chan struct{}), make(chan struct{})
	reached, release := d.reached, d.release
	d.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case <-reached:
	case err := <-done:
		t.Fatalf("%s: did not come, %v", slow, err)
	}
	return func() error {
		close(release)
		return <-done
	}
}

func (d *slowDisk) wait(op, name string) {
	d.mu.Lock()
	slow := d.slow
	found := slow != "" && strings.HasPrefix(slow, op+" ") && strings.HasSuffix(name, slow[len(op)+1:])
	if found {
		d.slow = ""
	}
	reached, release := d.reached, d.release
	d.mu.Unlock()
	if found {
		close(reached)
		<-release
	}
}

func (d *slowDisk) file(f disk.File, name string, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return slowFile{f, d, name}, nil
}

func (d *slowDisk) Create(name string, perm fs.FileMode) (disk.File, error) {
	f, err := d.FS.Create(name, perm)
	return d.file(f, name, err)
}

func (d *slowDisk) OpenAppend(name string) (disk.File, error) {
	f, err := d.FS.OpenAppend(name)
	return d.file(f, name, err)
}

func (d *slowDisk) Open(name string) (disk.Reader, error) {
	d.wait("open", name)
	return d.FS.Open(name)
}

func (d *slowDisk) Remove(name string) error {
	d.wait("remove", name)
	return d.FS.Remove(name)
}

func (d *slowDisk) SyncDir(name string) error {
	d.wait("syncdir", name)
	return d.FS.SyncDir(name)
}

type slowFile struct {
	disk.File
	disk *slowDisk
	name string
}

func (f slowFile) ReadAt(b []byte, offset int64) (int, error) {
	f.disk.wait("read", f.name)
	return f.File.ReadAt(b, offset)
}

func (f slowFile) Truncate(size int64) error {
	f.disk.wait("truncate", f.name)
	return f.File.Truncate(size)
}

func (f slowFile) Sync() error {
	f.disk.wait("sync", f.name)
	return f.File.Sync()
}

func (f slowFile) SyncData() error {
	f.disk.wait("sync", f.name)
	return f.File.SyncData()
}

// soon fails if do waits for something.
func soon(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits", what)
	}
}

// openSlow opens a log of ten batches of epoch 1, two in each segment, and a snapshot of the first four.
func openSlow(t *testing.T) (*Log, *slowDisk, []raft.Batch) {
	t.Helper()
	d := &slowDisk{FS: disk.OS}
	l, _, err := Open(d, filepath.Join(t.TempDir(), testDir), small)
	must(t, err)
	l.recent.limit = 0
	var all []raft.Batch
	for i := range raft.Offset(10) {
		all = append(all, batch(i, 1, 1, 250))
	}
	appendSync(t, l, all...)
	_, err = writeSnapshot(t, l, raft.SnapshotID{EndOffset: 4, Epoch: 1}).Commit()
	must(t, err)
	return l, d, all
}

func writeSnapshot(t *testing.T, l *Log, id raft.SnapshotID) *SnapshotWriter {
	t.Helper()
	w, err := l.CreateSnapshot(id)
	must(t, err)
	_, err = w.Write(snapshotBytes(id.Epoch, 1))
	must(t, err)
	return w
}

// Whatever the disk is at, an Append and a Read are not what waits for it; nobody waits for a read or a snapshot.
func TestSlowDisk(t *testing.T) {
	const last = "08.log"
	ten, six := raft.SnapshotID{EndOffset: 10, Epoch: 1}, raft.SnapshotID{EndOffset: 6, Epoch: 1}
	tests := []struct {
		why  string
		slow string
		do   func(l *Log) func() error
		end  raft.Offset // of the log meanwhile
		held bool        // a Sync and a Truncate have to wait
	}{
		{"read", "read " + last, func(l *Log) func() error {
			return func() error {
				_, err := l.Read(raft.LogRange{From: 9, End: 10, MaxBytes: 1})
				return err
			}
		}, 10, false},
		{"check of a snapshot", "open .part", func(l *Log) func() error {
			w := writeSnapshot(t, l, six)
			return func() error { _, err := w.Commit(); return err }
		}, 10, false},
		{"fsync of a snapshot", "sync .part", func(l *Log) func() error {
			w := writeSnapshot(t, l, six)
			return func() error { _, err := w.Commit(); return err }
		}, 10, false},
		{"fsync of a download", "sync .part", func(l *Log) func() error {
			must(t, l.WriteSnapshotChunk(raft.WriteSnapshotChunk{ID: six, Bytes: snapshotBytes(1, 1)}))
			return func() error { _, err := l.InstallSnapshot(six); return err }
		}, 10, false},
		{"name of a snapshot", "syncdir -0", func(l *Log) func() error {
			w := writeSnapshot(t, l, six)
			return func() error { _, err := w.Commit(); return err }
		}, 10, true},
		{"fsync of a small file", "sync .tmp", func(l *Log) func() error {
			return func() error { return l.WriteQuorumState(raft.NoQuorumState()) }
		}, 10, true},
		{"fsync of a group", "sync .log", func(l *Log) func() error {
			must(t, l.Append(appendOf(batch(10, 1, 1, 250)), 0))
			return func() error { _, err := l.Sync(); return err }
		}, 11, true},
		{"removal of the front", "remove 00.log", func(l *Log) func() error {
			return func() error { return l.DeletePrefix(4) }
		}, 10, true},
		{"removal of the end", "remove 08.log", func(l *Log) func() error {
			return func() error { return l.Truncate(7) }
		}, 7, true},
		{"cut", "truncate 06.log", func(l *Log) func() error {
			return func() error { return l.Truncate(7) }
		}, 7, true},
		{"search for the place of a cut", "read 06.log", func(l *Log) func() error {
			return func() error { return l.Truncate(7) }
		}, 10, true},
		{"fsync of a cut", "sync 06.log", func(l *Log) func() error {
			return func() error { return l.Truncate(7) }
		}, 7, true},
		{"removal of all", "remove 00.log", func(l *Log) func() error {
			_, err := writeSnapshot(t, l, ten).Commit()
			must(t, err)
			return func() error { return l.Reset(ten) }
		}, 10, true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			l, d, _ := openSlow(t)
			goOn := d.hold(t, test.slow, test.do(l))
			end := test.end
			// A log that is being cut takes appends as soon as its end is known, but a core waits for the barrier.
			takes := test.why != "search for the place of a cut"
			next := batch(end, 2, 1, 20)
			soon(t, "Append, Read", func() {
				if takes {
					must(t, l.Append(appendOf(next), 0))
					got, err := l.Read(raft.LogRange{From: end, End: end + 1, MaxBytes: 1})
					if err != nil || !bytes.Equal(got, next.Bytes) {
						t.Errorf("read of the append: %d bytes, %v", len(got), err)
					}
				}
				if l.start < 5 {
					got, err := l.Read(raft.LogRange{From: 5, End: 6, MaxBytes: 1})
					if err != nil || !bytes.Equal(got, batch(5, 1, 1, 250).Bytes) {
						t.Errorf("read from the disk: %d bytes, %v", len(got), err)
					}
				}
				l.SizeBytes()
				w := writeSnapshot(t, l, raft.SnapshotID{EndOffset: 5, Epoch: 1})
				must(t, w.Abort())
				must(t, l.WriteSnapshotChunk(raft.WriteSnapshotChunk{ID: six, Bytes: []byte("x")}), l.DropSnapshotChunks())
			})
			if !test.held {
				soon(t, "Sync, a barrier", func() {
					s, err := l.Sync()
					if err != nil || s.EndOffset != end+1 {
						t.Errorf("Sync: %+v, %v", s, err)
					}
					must(t, l.WriteQuorumState(raft.NoQuorumState()), l.Truncate(end+1))
				})
			}
			must(t, goOn())
			must(t, l.Close())
			again, found, err := Open(disk.OS, l.dir, small)
			must(t, err)
			defer again.Close()
			if takes {
				end++
				if got := readAll(t, again, end-1, end); !bytes.Equal(got, next.Bytes) {
					t.Error("the last batch is another one")
				}
			} else {
				end = 7
			}
			if found.LogEnd != end {
				t.Errorf("recovered %+v, want the end %d", found, end)
			}
		})
	}
}

// What a Read is at may be dropped meanwhile: it then returns what it would have returned had it begun later.
func TestDropDuringRead(t *testing.T) {
	replaced := batch(7, 2, 1, 300)
	ten := raft.SnapshotID{EndOffset: 10, Epoch: 1}
	tests := []struct {
		why  string
		drop func(t *testing.T, l *Log)
		data []byte // that is read
		fail error
	}{
		{"nothing", func(*testing.T, *Log) {}, batch(7, 1, 1, 250).Bytes, nil},
		{"an append", func(t *testing.T, l *Log) { appendSync(t, l, batch(10, 1, 1, 9)) }, batch(7, 1, 1, 250).Bytes, nil},
		{"a truncation behind it", func(t *testing.T, l *Log) { must(t, l.Truncate(8)) }, batch(7, 1, 1, 250).Bytes, nil},
		{"a truncation", func(t *testing.T, l *Log) { must(t, l.Truncate(7)) }, nil, &RangeError{7, 0, 7}},
		{"a truncation of its segment", func(t *testing.T, l *Log) { must(t, l.Truncate(4)) }, nil, &RangeError{7, 0, 4}},
		{"a truncation, and other batches", func(t *testing.T, l *Log) {
			must(t, l.Truncate(7))
			appendSync(t, l, replaced)
		}, replaced.Bytes, nil},
		{"a deletion in front of it", func(t *testing.T, l *Log) { must(t, l.DeletePrefix(4)) }, batch(7, 1, 1, 250).Bytes, nil},
		{"a deletion", func(t *testing.T, l *Log) {
			_, err := writeSnapshot(t, l, ten).Commit()
			must(t, err, l.DeletePrefix(10))
		}, nil, &RangeError{7, 10, 10}},
		{"a reset", func(t *testing.T, l *Log) {
			_, err := writeSnapshot(t, l, ten).Commit()
			must(t, err, l.Reset(ten))
		}, nil, &RangeError{7, 10, 10}},
		{"a close", func(t *testing.T, l *Log) { must(t, l.Close()) }, nil, fs.ErrClosed},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			l, d, _ := openSlow(t)
			defer l.Close()
			var got []byte
			goOn := d.hold(t, "read 06.log", func() (err error) {
				got, err = l.Read(raft.LogRange{From: 7, End: 8, MaxBytes: 1})
				return err
			})
			soon(t, test.why, func() { test.drop(t, l) })
			err := goOn()
			if want, ok := test.fail.(*RangeError); ok {
				if have, ok := errors.AsType[*RangeError](err); !ok || have.From != want.From || have.LogEnd != want.LogEnd {
					t.Errorf("%v, want %v", err, want)
				}
			} else if !errors.Is(err, test.fail) || !bytes.Equal(got, test.data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// Readers of all kinds while batches are appended, cut off and deleted: for the race detector, and no read is a mixture.
func TestConcurrentDrops(t *testing.T) {
	l, _, err := Open(disk.OS, filepath.Join(t.TempDir(), testDir), Config{SegmentBytes: 30000, SegmentMillis: 1000}) // with several entries in an index
	must(t, err)
	l.recent.limit = 3000
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := raft.Offset(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				l.mu.RLock()
				start, end := l.start, l.end()
				l.mu.RUnlock()
				if start == end {
					continue
				}
				from := start + i%(end-start)
				data, err := l.Read(raft.LogRange{From: from, End: end, MaxBytes: 6000})
				if _, gone := errors.AsType[*RangeError](err); gone {
					continue
				}
				batches, decodeErr := raft.DecodeBatches(data)
				if err != nil || decodeErr != nil || len(batches) == 0 || batches[0].BaseOffset > from || nextOffset(batches) <= from {
					t.Errorf("read from %d: %d bytes, %v, %v", from, len(data), err, decodeErr)
					return
				}
				l.SizeBytes()
			}
		})
	}
	end, epoch := raft.Offset(0), raft.Epoch(1)
	for round := range 60 {
		for range 8 {
			appendSync(t, l, batch(end, epoch, 1, 2500))
			end++
		}
		switch round % 4 {
		case 1:
			end, epoch = end-5, epoch+1
			must(t, l.Truncate(end))
		case 2:
			_, err := writeSnapshot(t, l, raft.SnapshotID{EndOffset: end - 9, Epoch: epoch}).Commit()
			must(t, err, l.DeletePrefix(end-9))
		case 3:
			id := raft.SnapshotID{EndOffset: end + 3, Epoch: epoch}
			must(t, l.WriteSnapshotChunk(raft.WriteSnapshotChunk{ID: id, Bytes: snapshotBytes(epoch, 1)}))
			_, err := l.InstallSnapshot(id)
			must(t, err, l.Reset(id))
			end += 3
		}
	}
	close(stop)
	readers.Wait()
	must(t, l.Close())
}

// The index of a segment that is being read does not change under the reader.
func TestShortenKeepsTheReadersIndex(t *testing.T) {
	s := segment{}
	for i := range raft.Offset(10) {
		s.add(i, i, indexInterval)
	}
	view := s
	before := slices.Clone(view.index)
	s.shorten(3*indexInterval, 3)
	s.add(3, 103, indexInterval)
	s.add(104, 104, indexInterval)
	if len(before) != 10 || !slices.Equal(view.index, before) {
		t.Errorf("%v has become %v", before, view.index)
	}
	if want := (indexEntry{104, 4 * indexInterval}); len(s.index) != 5 || s.index[4] != want {
		t.Errorf("after the cut: %v", s.index)
	}
}
