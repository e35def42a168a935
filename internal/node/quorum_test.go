package node

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
)

// inBubble runs a test in a bubble of synctest, which fails if a goroutine is left at its end.
func inBubble(t *testing.T, test func(t *testing.T, l *lab)) {
	synctest.Test(t, func(t *testing.T) { test(t, newLab(t)) })
}

// three starts three voters.
func (l *lab) three() []*labNode {
	var nodes []*labNode
	for id := range raft.NodeID(3) {
		nodes = append(nodes, l.start(labConfig(id+1, 1, 2, 3), disk.OS, l.t.TempDir()))
	}
	return nodes
}

func without(nodes []*labNode, n *labNode) []*labNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(o *labNode) bool { return o == n })
}

func TestQuorumCommits(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		nodes := l.three()
		leader := l.leader(nodes...)
		end := leader.append(1, 2, 3, 4, 5)
		l.commits(end, nodes...)
		for _, n := range nodes {
			if got, want := n.content(end), leader.content(end); !bytes.Equal(got, want) {
				t.Errorf("a log of %d bytes is not that of the leader, of %d", len(got), len(want))
			}
			last := raft.Unknown
			for _, c := range effects[raft.Committed](n) {
				if c.HighWatermark <= last {
					t.Errorf("the high watermark %d comes after %d", c.HighWatermark, last)
				}
				last = c.HighWatermark
			}
		}
		kill(nodes...)
	})
}

func TestQuorumRefusesAppends(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		nodes := l.three()
		leader := l.leader(nodes...)
		s := leader.status()
		for _, c := range []struct {
			why  string
			n    *labNode
			base raft.Offset
			want raft.AppendResponse
		}{
			{"a follower", without(nodes, leader)[0], s.LogEnd, raft.AppendResponse{Code: raft.NotLeaderOrFollower, NextOffset: s.LogEnd}},
			{"not at the end", leader, s.LogEnd - 1, raft.AppendResponse{Code: raft.InvalidRequest, NextOffset: s.LogEnd}},
		} {
			l.commits(s.LogEnd, c.n)
			got, _, err := c.n.q.call(t.Context(), "", &raft.AppendRequest{Batch: producerIDs(c.base, s.Epoch, 1)})
			if err != nil || *got.(*raft.AppendResponse) != c.want {
				t.Errorf("%s: %+v, %v", c.why, got, err)
			}
		}
		kill(nodes...)
	})
}

func TestQuorumSurvivesItsLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		dirs := map[*labNode]string{}
		var nodes []*labNode
		for id := range raft.NodeID(3) {
			dir := t.TempDir()
			nodes = append(nodes, l.start(labConfig(id+1, 1, 2, 3), disk.OS, dir))
			dirs[nodes[id]] = dir
		}
		first := l.leader(nodes...)
		l.commits(first.append(1, 2, 3), nodes...)
		began := time.Now()
		kill(first)
		if !errors.Is(first.err, errKilled) {
			t.Errorf("run returns %v", first.err)
		}
		left := without(nodes, first)
		second := l.leader(left...)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the next leader came after %v, though the connection was refused", took)
		}
		end := second.append(4, 5)
		l.commits(end, left...)

		id := raft.NodeID(slices.Index(nodes, first) + 1)
		again := l.start(labConfig(id, 1, 2, 3), disk.OS, dirs[first])
		l.commits(end, again)
		if !bytes.Equal(again.content(end), second.content(end)) {
			t.Error("the log of the node that came back is another one")
		}
		kill(append(left, again)...)
	})
}

func TestQuorumHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		nodes := l.three()
		first := l.leader(nodes...)
		l.commits(first.append(1), nodes...)
		began := time.Now()
		first.q.shutdown()
		<-first.ended
		if took := time.Since(began); first.err != nil || took > 100*time.Millisecond {
			t.Errorf("the shutdown took %v: %v", took, first.err)
		}
		left := without(nodes, first)
		second := l.leader(left...)
		l.commits(second.append(2), left...)
		kill(left...)
	})
}

func TestQuorumOfOneShutsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.start(labConfig(1, 1), disk.OS, t.TempDir())
		s := l.leader(n).status()
		answers := make(chan raft.Response, 1)
		go func() {
			response, _, _ := n.q.call(context.Background(), "", fetch(s, 60_000))
			answers <- response
		}()
		synctest.Wait()
		n.q.shutdown()
		if <-n.ended; n.err != nil {
			t.Error(n.err)
		}
		if r, ok := (<-answers).(*raft.FetchResponse); !ok || r.Partition != raft.NotLeaderOrFollower {
			t.Errorf("the call that waited: %+v", r)
		}
		if _, _, err := n.q.call(t.Context(), "", fetch(s, 0)); !errors.Is(err, errStopped) {
			t.Errorf("a call afterwards: %v", err)
		}
	})
}

func TestQuorumStops(t *testing.T) {
	for _, c := range []struct {
		why  string
		fail func(*labNode, *hookedDisk)
		is   func(error) bool
	}{
		{"an fsync fails", func(n *labNode, d *hookedDisk) {
			d.hook(failing("sync", ".log"))
			s := n.status()
			n.q.input(raft.Received{Request: &raft.AppendRequest{Batch: producerIDs(s.LogEnd, s.Epoch, 1)}})
		}, func(err error) bool { return errors.Is(err, syscall.EIO) }},
		{"a barrier fails", func(n *labNode, d *hookedDisk) {
			d.hook(failing("rename", "quorum-state"))
			n.q.input(raft.Resign{Epoch: n.status().Epoch})
		}, func(err error) bool { return errors.Is(err, syscall.EIO) }},
		{"the layer above fails", func(n *labNode, _ *hookedDisk) {
			n.q.fail(errKilled)
		}, func(err error) bool { return errors.Is(err, errKilled) }},
	} {
		t.Run(c.why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				d := &hookedDisk{FS: disk.OS}
				n := l.start(labConfig(1, 1), d, t.TempDir())
				s := l.leader(n).status()
				calls := make(chan error, 1)
				go func() {
					_, _, err := n.q.call(context.Background(), "", fetch(s, 60_000))
					calls <- err
				}()
				synctest.Wait()
				c.fail(n, d)
				if <-n.ended; !c.is(n.err) {
					t.Errorf("run returns %v", n.err)
				}
				if err := <-calls; err != nil && (!errors.Is(err, errStopped) || !c.is(err)) {
					t.Errorf("a call that waited: %v", err)
				}
				_, _, err := n.q.call(t.Context(), "", &raft.DescribeQuorumRequest{})
				if !errors.Is(err, errStopped) || !c.is(err) {
					t.Errorf("a call afterwards: %v", err)
				}
				if _, err := n.q.status(t.Context()); !errors.Is(err, errStopped) || !c.is(err) {
					t.Errorf("the status afterwards: %v", err)
				}
			})
		})
	}
}

func failing(op, suffix string) func(string, string) error {
	return func(o, name string) error {
		if o == op && strings.HasSuffix(name, suffix) {
			return syscall.EIO
		}
		return nil
	}
}

// fetch is an observer's Fetch from the end of the log.
func fetch(s raft.Status, wait raft.Millis) *raft.FetchRequest {
	return &raft.FetchRequest{Replica: raft.ReplicaKey{NodeID: 9}, MaxWaitMillis: wait, MaxBytes: 1 << 20, Epoch: s.Epoch,
		FetchOffset: s.LogEnd, LastFetchedEpoch: s.LastEpoch, HighWatermark: s.HighWatermark}
}

func TestQuorumFatal(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.start(labConfig(1, 1), disk.OS, t.TempDir(), func(r *raft.Recovered) { r.LogEnd = -1 })
		_, _, err := n.q.call(t.Context(), "", &raft.DescribeQuorumRequest{})
		if _, ok := errors.AsType[*fatalError](err); !ok || !errors.Is(err, errStopped) {
			t.Errorf("a call: %v", err)
		}
		<-n.ended
		if fatal, ok := errors.AsType[*fatalError](n.err); !ok || fatal.Reason == "" {
			t.Errorf("run returns %v", n.err)
		}
	})
}

func TestQuorumForgetsCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		n := l.start(labConfig(1, 1), disk.OS, t.TempDir())
		s := l.leader(n).status()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, _, err := n.q.call(ctx, "", fetch(s, 500)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call that was given up: %v", err)
		}
		if len(n.q.waiting) != 0 {
			t.Errorf("%d calls wait", len(n.q.waiting))
		}
		time.Sleep(time.Second) // the core answers it
		began := time.Now()
		response, records, err := n.q.call(t.Context(), "", fetch(s, 500))
		if r, ok := response.(*raft.FetchResponse); !ok || r.Partition != raft.NoError || len(records) != 0 || err != nil {
			t.Errorf("the next call: %+v, %d bytes, %v", response, len(records), err)
		}
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("the core was woken after %v", took)
		}
		kill(n)
	})
}

// TestQuorumGroups holds an fsync, and sees that the loop goes on and that all of its appends share the next one.
func TestQuorumGroups(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		d := &hookedDisk{FS: disk.OS}
		n := l.start(labConfig(1, 1), d, t.TempDir())
		s := l.leader(n).status()
		var syncs atomic.Int32
		release := make(chan struct{})
		d.hook(func(op, name string) error {
			if op == "sync" {
				syncs.Add(1)
				<-release
			}
			return nil
		})
		n.append(1)
		synctest.Wait()
		end := n.append(2, 3, 4)
		synctest.Wait()
		_, records, err := n.q.call(t.Context(), "", fetch(s, 0))
		if batches, _ := raft.DecodeBatches(records); err != nil || len(batches) != 4 {
			t.Errorf("a Fetch during the fsync brings %d batches, %v", len(batches), err)
		}
		if got := n.status(); syncs.Load() != 1 || got.LogEnd != end || got.SyncedEnd != s.LogEnd || got.HighWatermark != s.LogEnd {
			t.Errorf("during the fsync, %d began: %+v", syncs.Load(), got)
		}
		release <- struct{}{}
		synctest.Wait()
		if got := n.status(); syncs.Load() != 2 || got.HighWatermark != s.LogEnd+1 {
			t.Errorf("after the first fsync, %d began: %+v", syncs.Load(), got)
		}
		close(release)
		l.commits(end, n)
		if syncs.Load() != 2 {
			t.Errorf("%d fsyncs", syncs.Load())
		}
		kill(n)
	})
}

// TestQuorumWaitsForTheDisk ends a quorum while an fsync hangs: the calls end, and run returns when nothing is
// written any more.
func TestQuorumWaitsForTheDisk(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		d := &hookedDisk{FS: disk.OS}
		n := l.start(labConfig(1, 1), d, t.TempDir())
		l.leader(n)
		release := make(chan struct{})
		d.hook(func(op, name string) error {
			<-release
			return nil
		})
		n.append(1)
		synctest.Wait()
		n.q.fail(errKilled)
		if _, err := n.q.status(t.Context()); !errors.Is(err, errStopped) {
			t.Errorf("the status: %v", err)
		}
		synctest.Wait()
		select {
		case <-n.ended:
			t.Error("run has returned during an fsync")
		default:
		}
		close(release)
		<-n.ended
	})
}

// TestQuorumCleans lets a leader drop the beginning of its log, and a new observer begin with a snapshot.
func TestQuorumCleans(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		cfg := labConfig(1, 1)
		cfg.RetentionBytes = 1
		l.log.SegmentBytes = 4000
		leader := l.start(cfg, disk.OS, t.TempDir())
		l.leader(leader)
		for i := range int64(3) {
			l.commits(leader.append(slices.Repeat([]int64{i}, 50)...), leader)
			leader.snapshot()
		}
		s := leader.status()
		if s.LogStart != 0 || len(s.Snapshots) != 3 {
			t.Fatalf("before it cleans: %+v", s)
		}
		time.Sleep(61 * time.Second)
		newest := s.Snapshots[2]
		s = leader.status()
		// Each DeletePrefix asks anew, so that two snapshots go at once.
		if s.LogStart != newest.EndOffset || !slices.Equal(s.Snapshots, []raft.SnapshotID{newest}) {
			t.Errorf("after a minute: %+v", s)
		}
		if _, err := leader.q.snapshotHeader(t.Context(), newest); err == nil {
			t.Error("a header for a snapshot that exists")
		}
		l.commits(leader.append(6), leader)
		leader.snapshot()
		time.Sleep(61 * time.Second)
		if s = leader.status(); s.LogStart != newest.EndOffset+1 || len(s.Snapshots) != 1 {
			t.Errorf("after another minute: %+v", s)
		}
		newest = s.Snapshots[0]

		cfg = labConfig(2, 1)
		cfg.SnapshotMaxBytes = 100
		observer := l.start(cfg, disk.OS, t.TempDir())
		end := leader.append(7)
		l.commits(end, observer)
		if loads := effects[raft.LoadSnapshot](observer); !slices.Equal(loads, []raft.LoadSnapshot{{ID: newest}}) {
			t.Errorf("the observer loads %v", loads)
		}
		// What the layer above loads comes before what is committed behind it.
		load := slices.Index(observer.told, raft.Effect(raft.LoadSnapshot{ID: newest}))
		commit := slices.Index(observer.told, raft.Effect(raft.Committed{HighWatermark: end}))
		if load < 0 || commit < load {
			t.Errorf("the snapshot is told at %d, the commit at %d", load, commit)
		}
		kill(leader, observer)
	})
}

// snapshot makes a snapshot of all that is committed, as the layer above does.
func (n *labNode) snapshot() {
	t := n.lab.t
	t.Helper()
	s := n.status()
	header, err := n.q.snapshotHeader(context.Background(), raft.SnapshotID{EndOffset: s.HighWatermark, Epoch: s.LastEpoch})
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.log.CreateSnapshot(header.ID)
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.NewWriter(out, checkpoint.Header{LeaderEpoch: int32(header.ID.Epoch)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(checkpoint.FeatureLevel("metadata.version", 33)), w.Close()); err != nil {
		t.Fatal(err)
	}
	done, err := out.Commit()
	if err != nil {
		t.Fatal(err)
	}
	n.q.input(raft.SnapshotCreated{Snapshot: done})
}

func TestMailbox(t *testing.T) {
	m := newMailbox[int]()
	var got, taken []int
	for i := range 5 {
		m.put(2 * i)
		m.put(2*i + 1)
		<-m.ready
		taken = m.take(taken)
		got = append(got, taken...)
	}
	if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("taken: %v", got)
	}
	if taken = m.take(taken); len(taken) != 0 {
		t.Errorf("taken of nothing: %v", taken)
	}
	m.put(1)
	m.close()
	m.put(2)
	if taken = m.take(taken); len(taken) != 0 {
		t.Errorf("taken of a closed mailbox: %v", taken)
	}
}
