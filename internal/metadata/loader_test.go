package metadata

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// logBuilder writes the batches of a log.
type logBuilder struct {
	next  int64
	epoch int32
}

// batch returns the next batch of records.
func (l *logBuilder) batch(records ...record.Record) []byte {
	var entries []record.Entry
	control := false
	for _, r := range records {
		if control = r.Message.Control; control {
			e, err := record.ControlEntry(r)
			if err != nil {
				panic(err)
			}
			entries = append(entries, e)
			continue
		}
		value, err := r.AppendValue(nil)
		if err != nil {
			panic(err)
		}
		entries = append(entries, record.Entry{Value: value})
	}
	h := record.BatchHeader{BaseOffset: l.next, LeaderEpoch: l.epoch, Timestamp: 1000 * (l.next + 1), Control: control}
	l.next += int64(len(entries))
	return record.AppendBatch(nil, h, entries...)
}

func feature(name string, level int16) record.Record {
	r := record.New(record.FeatureLevel, 0)
	r.SetText("Name", name)
	r.SetInt("FeatureLevel", int64(level))
	return r
}

func version(level int16) record.Record { return feature("metadata.version", level) }

func clusterID(id string) record.Record {
	r := record.New(record.ClusterID, 0)
	r.SetText("ClusterId", id)
	return r
}

func config(name, value string) record.Record {
	r := record.New(record.Config, 0)
	r.SetInt("ResourceType", int64(BrokerConfig))
	r.SetText("Name", name)
	r.SetText("Value", value)
	return r
}

func marker(m *record.Message) record.Record { return record.New(m, 0) }

var (
	begin = marker(record.BeginTransaction)
	end   = marker(record.EndTransaction)
	abort = marker(record.AbortTransaction)
	noOp  = marker(record.NoOp)
)

func newTestLoader() *Loader { return NewLoader(SnapshotPolicy{MaxBytes: 1 << 30}, 0) }

// replayAll replays each batch on its own.
func replayAll(t *testing.T, l *Loader, batches ...[]byte) {
	t.Helper()
	for _, b := range batches {
		if err := l.Replay(b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTransactions(t *testing.T) {
	// Each record but markers sets a configuration of its own name.
	type step struct {
		batch     string // a letter a record: b begin, e end, a abort, upper case: a configuration
		published string // configurations in the published image
		offset    raft.Offset
		open      raft.Offset // of the open transaction, -1: none
	}
	for _, c := range []struct {
		reason string
		steps  []step
	}{
		{"records count at once outside of transactions", []step{{"AB", "AB", 1, -1}}},
		{"a transaction in one batch", []step{{"bABe", "AB", 3, -1}}},
		{"the end publishes", []step{{"A", "A", 0, -1}, {"bB", "A", 0, 1}, {"C", "A", 0, 1}, {"De", "ABCD", 5, -1}}},
		{"an abort drops", []step{{"A", "A", 0, -1}, {"bB", "A", 0, 1}, {"a", "A", 3, -1}}},
		{"a begin in the middle of a batch publishes what came before", []step{{"AbB", "A", 0, 1}, {"e", "AB", 3, -1}}},
		{"records behind the end in its batch", []step{{"bA", "", -1, 0}, {"eB", "AB", 3, -1}}},
		{"several in one batch", []step{{"bAabBebC", "B", 5, 6}, {"a", "B", 8, -1}}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			l, log := newTestLoader(), &logBuilder{epoch: 1}
			for _, s := range c.steps {
				var records []record.Record
				for _, letter := range s.batch {
					switch letter {
					case 'b':
						records = append(records, begin)
					case 'e':
						records = append(records, end)
					case 'a':
						records = append(records, abort)
					default:
						records = append(records, config(string(letter), "x"))
					}
				}
				replayAll(t, l, log.batch(records...))
				var got []byte
				for letter := 'A'; letter <= 'Z'; letter++ {
					if _, ok := l.Image().Config(BrokerConfig, "", string(letter)); ok {
						got = append(got, byte(letter))
					}
				}
				open, ok := l.InTransaction()
				if !ok {
					open = -1
				}
				if string(got) != s.published || l.Image().Offset != s.offset || open != s.open {
					t.Errorf("after %s: published %s at %d, open %d; want %s at %d, open %d",
						s.batch, got, l.Image().Offset, open, s.published, s.offset, s.open)
				}
				if l.NextOffset() != raft.Offset(log.next) {
					t.Errorf("after %s: next offset %d, want %d", s.batch, l.NextOffset(), log.next)
				}
			}
		})
	}
}

func TestPublishedPosition(t *testing.T) {
	l, log := newTestLoader(), &logBuilder{epoch: 3}
	replayAll(t, l, log.batch(config("A", "x"), config("B", "x")))
	log.epoch = 4
	replayAll(t, l, log.batch(begin, config("C", "x")))
	if i := l.Image(); i.Offset != 1 || i.Epoch != 3 || i.Timestamp != 1000 {
		t.Errorf("offset %d, epoch %d, timestamp %d: want those of the record before", i.Offset, i.Epoch, i.Timestamp)
	}
	replayAll(t, l, log.batch(end))
	if i := l.Image(); i.Offset != 4 || i.Epoch != 4 || i.Timestamp != 5000 {
		t.Errorf("offset %d, epoch %d, timestamp %d: want those of its end", i.Offset, i.Epoch, i.Timestamp)
	}
}

func TestReplayRefuses(t *testing.T) {
	unregister := record.New(record.UnregisterBroker, 0)
	unregister.SetInt("BrokerId", 7)
	unknown := record.AppendBatch(nil, record.BatchHeader{}, record.Entry{Value: []byte{1, 99, 0, 0}})
	for _, c := range []struct {
		reason string
		log    func(l *logBuilder) []byte
		offset raft.Offset
		record string
	}{
		{"nested begin", func(l *logBuilder) []byte { return l.batch(begin, noOp, begin) }, 2, "BeginTransactionRecord"},
		{"end alone", func(l *logBuilder) []byte { return l.batch(noOp, end) }, 1, "EndTransactionRecord"},
		{"abort alone", func(l *logBuilder) []byte { return l.batch(abort) }, 0, "AbortTransactionRecord"},
		{"gap", func(l *logBuilder) []byte { l.next = 5; return l.batch(noOp) }, 5, ""},
		{"unknown broker", func(l *logBuilder) []byte { return l.batch(noOp, unregister) }, 1, "UnregisterBrokerRecord"},
		{"unknown metadata.version", func(l *logBuilder) []byte { return l.batch(version(99)) }, 0, "FeatureLevelRecord"},
		{"unknown record", func(l *logBuilder) []byte { return unknown }, 0, ""},
		{"cut batch", func(l *logBuilder) []byte { b := l.batch(noOp); return b[:len(b)-1] }, 0, ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			err := newTestLoader().Replay(c.log(&logBuilder{epoch: 1}))
			var e *ReplayError
			if !errors.As(err, &e) || e.Offset != c.offset || e.Record != c.record || e.File != "" {
				t.Errorf("error %#v: want a ReplayError at %d, %q", err, c.offset, c.record)
			}
		})
	}
}

func TestInvariant(t *testing.T) {
	for _, c := range []struct {
		reason  string
		batches [][]record.Record
		ok      bool
	}{
		{"both in one batch", [][]record.Record{{version(35), clusterID("x")}}, true},
		{"both in one transaction", [][]record.Record{{begin, version(35)}, {clusterID("x"), end}}, true},
		{"neither", [][]record.Record{{version(34)}}, true},
		{"the same id again", [][]record.Record{{version(35), clusterID("x")}, {clusterID("x")}}, true},
		{"an id that an aborted transaction sets", [][]record.Record{{version(33)}, {begin, clusterID("x"), abort}}, true},
		{"another id, taken back", [][]record.Record{{version(35), clusterID("x")}, {clusterID("y"), clusterID("x")}}, true},
		{"version without id", [][]record.Record{{version(35)}}, false},
		{"id without version", [][]record.Record{{version(34), clusterID("x")}}, false},
		{"id without any version", [][]record.Record{{clusterID("x")}}, false},
		{"another id", [][]record.Record{{version(35), clusterID("x")}, {clusterID("y")}}, false},
		{"version without id before a begin", [][]record.Record{{version(35), begin, clusterID("x"), end}}, false},
		{"id taken away", [][]record.Record{{version(35), clusterID("x")}, {clusterID(""), version(34)}}, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			l, log := newTestLoader(), &logBuilder{}
			var err error
			for _, b := range c.batches {
				if err == nil {
					err = l.Replay(log.batch(b...))
				}
			}
			var e *InvariantError
			if c.ok && err != nil || !c.ok && !errors.As(err, &e) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestFeaturesOffset(t *testing.T) {
	l, log := newTestLoader(), &logBuilder{}
	if got := l.Image().FeaturesOffset(); got != raft.Unknown {
		t.Errorf("empty log: %d", got)
	}
	for _, s := range []struct {
		reason string
		batch  []record.Record
		want   raft.Offset
	}{
		{"the end of the transaction", []record.Record{begin, version(33), feature("group.version", 1), end, noOp}, 4},
		{"other records leave it", []record.Record{noOp, config("A", "x")}, 4},
		{"level 0 is a change", []record.Record{feature("group.version", 0), noOp}, 8},
		{"kraft.version is none of them", []record.Record{feature("kraft.version", 1)}, 8},
		{"an aborted transaction", []record.Record{begin, feature("group.version", 1), abort}, 8},
	} {
		replayAll(t, l, log.batch(s.batch...))
		if got := l.Image().FeaturesOffset(); got != s.want {
			t.Errorf("%s: %d, want %d", s.reason, got, s.want)
		}
	}
	if levels := l.Image().FinalizedFeatures(); len(levels) != 1 || levels[0].Name != "metadata.version" {
		t.Errorf("finalized %v", levels)
	}
}

func TestControlBatch(t *testing.T) {
	l, log := newTestLoader(), &logBuilder{epoch: 2}
	replayAll(t, l, log.batch(record.New(record.LeaderChange, 0), record.New(record.KRaftVersion, 0)), log.batch(begin))
	replayAll(t, l, log.batch(record.New(record.LeaderChange, 0)))
	if l.Image().Offset != 1 || l.NextOffset() != 4 {
		t.Errorf("published %d, next %d", l.Image().Offset, l.NextOffset())
	}
}

func TestSnapshotDue(t *testing.T) {
	log := &logBuilder{epoch: 5}
	first := log.batch(version(33))
	l := NewLoader(SnapshotPolicy{MaxBytes: int64(len(first)) + 100, MaxIntervalMillis: 1000}, 50)
	due := func(reason string, now raft.Millis, want raft.Offset) {
		t.Helper()
		id, ok := l.SnapshotDue(now)
		if ok != (want >= 0) || ok && id != (raft.SnapshotID{EndOffset: want, Epoch: 5}) {
			t.Errorf("%s: %v %v, want %d", reason, id, ok, want)
		}
	}
	due("empty log", 5000, -1)
	replayAll(t, l, first)
	due("neither bytes nor time", 1049, -1)
	due("by time", 1050, 1)
	l.SnapshotTaken(raft.SnapshotID{EndOffset: 1, Epoch: 5}, 1050)
	due("nothing new", 9000, -1)
	replayAll(t, l, log.batch(noOp), log.batch(noOp))
	due("few bytes", 1100, -1)
	replayAll(t, l, log.batch(noOp))
	due("by bytes", 1100, 4)
	replayAll(t, l, log.batch(begin, noOp))
	due("the image before a transaction", 1100, 4)
	replayAll(t, l, log.batch(abort, noOp, begin))
	due("the image of a record in the middle of a batch", 9000, -1)
	replayAll(t, l, log.batch(end))
	due("after the end", 1100, 10)
}

func TestSnapshotOfATransactionsBegin(t *testing.T) {
	// The batch that begins the transaction has a later epoch; the snapshot's id must not.
	log := &logBuilder{epoch: 5}
	l := NewLoader(SnapshotPolicy{MaxBytes: 1}, 0)
	replayAll(t, l, log.batch(version(33)))
	log.epoch = 6
	replayAll(t, l, log.batch(begin, noOp))
	if id, ok := l.SnapshotDue(0); !ok || id != (raft.SnapshotID{EndOffset: 1, Epoch: 5}) {
		t.Errorf("%v %v", id, ok)
	}
}

func TestLoadSnapshot(t *testing.T) {
	log := &logBuilder{epoch: 1}
	l := newTestLoader()
	replayAll(t, l, log.batch(version(35), clusterID("x")))
	file := snapshotOf(t, l.Image())
	replayAll(t, l, log.batch(begin, config("A", "x")))

	id := raft.SnapshotID{EndOffset: 9, Epoch: 4}
	if err := l.LoadSnapshot(bytes.NewReader(file), "f", id, 7); err != nil {
		t.Fatal(err)
	}
	i := l.Image()
	if _, open := l.InTransaction(); open {
		t.Error("the transaction is still open")
	}
	if i.Offset != 8 || i.Epoch != 4 || i.ClusterID() != "x" || i.FeaturesOffset() != 8 || i.Timestamp != 1000 {
		t.Errorf("image %+v", i)
	}
	log.next = 9
	replayAll(t, l, log.batch(noOp))

	t.Run("older than the image", func(t *testing.T) {
		var e *ReplayError
		if err := l.LoadSnapshot(bytes.NewReader(file), "f", id, 7); !errors.As(err, &e) {
			t.Error(err)
		}
	})
	t.Run("another cluster id", func(t *testing.T) {
		other := newTestLoader()
		replayAll(t, other, (&logBuilder{}).batch(version(35), clusterID("y")))
		var e *InvariantError
		file := bytes.NewReader(snapshotOf(t, other.Image()))
		if err := l.LoadSnapshot(file, "f", raft.SnapshotID{EndOffset: 20, Epoch: 4}, 7); !errors.As(err, &e) {
			t.Error(err)
		}
	})
	t.Run("the zero snapshot is not read", func(t *testing.T) {
		l := newTestLoader()
		if err := l.LoadSnapshot(nil, "f", raft.SnapshotID{}, 7); err != nil || l.NextOffset() != 0 {
			t.Error(err, l.NextOffset())
		}
	})
}

func TestClusterIDPublisher(t *testing.T) {
	without, x, y := NewImage(), NewImage(), NewImage()
	x.clusterID, y.clusterID = "x", "y"
	full := errors.New("disk full")
	const differ = `cluster id "x" stands in meta.properties, "y" in the metadata of the cluster as of offset -1`
	for _, c := range []struct {
		reason    string
		stored    string
		images    []*Image
		persist   error
		persisted []string
		want      string // of the error
	}{
		{"no id yet", "", []*Image{without}, nil, nil, ""},
		{"learned once", "", []*Image{without, x, x}, nil, []string{"x"}, ""},
		{"known", "x", []*Image{without, x}, nil, nil, ""},
		{"known, the cluster has none", "x", []*Image{without}, nil, nil, ""},
		{"another", "x", []*Image{y}, nil, nil, differ},
		{"another than learned", "", []*Image{x, y}, nil, []string{"x"}, differ},
		{"can't be written", "", []*Image{x}, full, []string{"x"}, "disk full"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var persisted []string
			p := NewClusterIDPublisher(c.stored, func(id string) error { persisted = append(persisted, id); return c.persist })
			var err error
			for _, i := range c.images {
				if err == nil {
					err = p.Publish(i)
				}
			}
			if got := errorText(err); got != c.want || !slices.Equal(persisted, c.persisted) {
				t.Errorf("error %q, persisted %v", got, persisted)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
