package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/controller"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
	"kstorage/internal/status"
	"kstorage/internal/telemetry"
	"kstorage/internal/wire"
)

// cluster is the layer above the consensus core, the metadata loop: one goroutine that
//
//   - loads what is committed, from snapshots and the log, into the image, and shows what others need of it as a view;
//   - learns the cluster id from it (KIP-1262);
//   - is the active controller while this node leads: active.go;
//   - writes snapshots (KIP-630).
//
// It may wait for the raft loop, which never waits for it.
type cluster struct {
	nodeID     raft.NodeID
	self       wire.Self
	isVoter    bool // it was one at its start
	controller controller.Config
	bootstrap  controller.Bootstrap
	linger     time.Duration // of appends; 0: none
	quorum     *quorum
	raftLog    *raftlog.Log
	clock      clock
	views      *views
	log        *slog.Logger

	propertiesFile string // meta.properties of the metadata directory

	box *mailbox[func() error]

	// Of the loop alone.
	loader        *metadata.Loader
	publisher     *metadata.ClusterIDPublisher
	telemetry     *telemetry.Telemetry // of the broker; nil without the role
	subscribed    raft.Offset          // of the client metrics that telemetry has
	clusterID     string               // "" as long as the node has none
	leader        raft.LeaderChanged
	asked         raft.NodeID      // see view
	kraftVersion  int16            // the latest one, committed or not, as the core has it
	voters        []int32          // likewise
	shown         raft.Offset      // the features' offset that levels is of; Unknown: there is something new
	levels        []features.Level // finalized, kraft.version too
	next          raft.Offset      // of what is to be loaded
	highWatermark raft.Offset
	snapshotting  bool
	writers       sync.WaitGroup  // of snapshots
	written       status.Snapshot // the last one
	loads         int             // of snapshots
	elected       int             // leaders that this node has heard of
	learnedFrom   string          // the cluster id; "": it was known at the start
	active        *active
	waiting       []waiter       // ascending by their ends
	held          []func() error // requests, for the linger time
	heldUntil     raft.Millis
	strangers     *strangers
}

// above takes an effect of the core.
func (c *cluster) above(e raft.Effect) { c.box.put(func() error { return c.effect(e) }) }

// do runs f in the loop and waits for it. Errors: that of ctx.
func (c *cluster) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	c.box.put(func() error { f(); close(done); return nil })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run ends with ctx, with the raft loop, which has a reason of its own (nil), or with a reason why the node cannot go on.
func (c *cluster) run(ctx context.Context) error {
	if err := c.loop(ctx); !errors.Is(err, errStopped) {
		at, _ := c.loader.Image().MetadataVersion()
		return unknown(err, filepath.Dir(c.raftLog.SnapshotPath(raft.SnapshotID{})), at)
	}
	return nil
}

func (c *cluster) loop(ctx context.Context) error {
	defer c.writers.Wait()
	defer c.refuseAll()
	defer c.box.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var todo []func() error
	for {
		if at := c.alarm(); at != never {
			timer.Reset(c.clock.until(at))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.box.ready:
		case <-timer.C:
		}
		todo = c.box.take(todo)
		for _, f := range todo {
			if err := f(); err != nil {
				return err
			}
		}
		if err := c.tick(); err != nil {
			return err
		}
	}
}

func (c *cluster) effect(e raft.Effect) error {
	switch e := e.(type) {
	case raft.LeaderChanged:
		return c.leaderChanged(e)
	case raft.Committed:
		c.highWatermark = e.HighWatermark
		c.strangers.reset()
		if err := c.load(); err != nil || e.Behind {
			return err
		}
		return c.checkLevel()
	case raft.LoadSnapshot:
		return c.loadSnapshot(e.ID)
	case raft.VotersChanged:
		c.kraftVersion, c.voters = e.KRaftVersion, nil
		for _, v := range e.Voters {
			c.voters = append(c.voters, int32(v.Key.NodeID))
		}
		c.log.Info("Voters", "nodes", strings.Trim(fmt.Sprint(c.voters), "[]"))
		if c.active != nil {
			c.active.controller.SetQuorum(c.kraftVersion, c.voters)
		}
		c.shown = raft.Unknown
		c.show()
	case raft.Notice:
		return c.noticed(e)
	}
	return nil
}

func (c *cluster) leaderChanged(e raft.LeaderChanged) error {
	if c.active != nil && (e.LeaderID != c.nodeID || e.Epoch != c.active.epoch) {
		c.log.Info("No longer the active controller", "epoch", c.active.epoch)
		c.active = nil
		c.refuseAll()
	}
	known := c.leader
	c.leader = e
	if e.LeaderID != raft.None {
		c.asked = e.LeaderID
	}
	switch {
	case e.LeaderID == raft.None:
		if known.LeaderID != raft.None {
			c.log.Info("No leader", "epoch", e.Epoch)
		}
	case e.LeaderID != known.LeaderID || e.Epoch != known.Epoch:
		c.strangers.reset()
		c.elected++
		c.log.Info("Leader", "node", e.LeaderID, "epoch", e.Epoch, "address", addressOf(e.Endpoint), "self", e.LeaderID == c.nodeID)
	}
	c.show()
	return c.claim()
}

// load brings the image up to the high watermark.
func (c *cluster) load() error {
	for c.next < c.highWatermark {
		b, err := c.raftLog.Read(raft.LogRange{From: c.next, End: c.highWatermark, MaxBytes: loadBytes})
		if gone := (*raftlog.RangeError)(nil); errors.As(err, &gone) && gone.From < gone.LogStart {
			return nil // a fetched snapshot has taken its place: a LoadSnapshot is on its way
		}
		if err != nil {
			return err
		}
		if err := c.loader.Replay(b); err != nil {
			return err
		}
		c.next = c.loader.NextOffset()
		if err := c.publish(); err != nil {
			return err
		}
	}
	if err := c.maybeSnapshot(); err != nil {
		return err
	}
	return c.claim()
}

// loadBytes is how much of the log is read at once.
const loadBytes = 1 << 20

// loadSnapshot loads a snapshot. The records of the zero one are a proposal, which the loader passes over (KIP-1170).
func (c *cluster) loadSnapshot(id raft.SnapshotID) error {
	f, err := c.raftLog.OpenSnapshot(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a newer one was fetched meanwhile: its LoadSnapshot is on its way
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.loader.LoadSnapshot(f, c.raftLog.SnapshotPath(id), id, c.clock.now()); err != nil {
		return err
	}
	c.next = id.EndOffset
	if id != (raft.SnapshotID{}) {
		c.loads++
	}
	if err := c.publish(); err != nil {
		return err
	}
	return c.load()
}

// publish acts on the image as it stands now.
func (c *cluster) publish() error {
	image := c.loader.Image()
	if err := c.learn(image); err != nil {
		return err
	}
	if at := image.ClientMetricsOffset(); c.telemetry != nil && at != c.subscribed {
		c.subscribed = at
		c.telemetry.Subscribe(image.ClientMetrics())
	}
	c.complete()
	c.show()
	return nil
}

// checkLevel finds that the cluster has an id which its metadata does not carry, while this voter has none. It looks at
// what the leader has committed, not at what was true on the way there: an upgrade may follow.
func (c *cluster) checkLevel() error {
	version, known := c.loader.Image().MetadataVersion()
	if c.isVoter && c.clusterID == "" && known && !version.SupportsClusterID() {
		return &Error{
			What:  fmt.Sprintf("the cluster was formatted with a cluster id, this node without: the cluster's metadata.version is %s, which carries no id", version),
			Where: c.propertiesFile,
			Fix:   "format the first controllers of a cluster alike: all with the same --cluster-id, or all without",
		}
	}
	return nil
}

// learn takes the cluster id from the image, or finds that this node does not belong here.
func (c *cluster) learn(image *metadata.Image) error {
	before := c.clusterID
	err := c.publisher.Publish(image)
	if other, ok := errors.AsType[*metadata.ClusterIDError](err); ok {
		return &Error{
			What: fmt.Sprintf("this node has the cluster id %s, but the metadata of the cluster has %s, as of offset %d, from %s",
				other.Stored, other.Committed, other.Offset, c.source()),
			Where: c.propertiesFile,
			Fix: "format the first controllers of a cluster alike: all with the same --cluster-id, or all without. A node of another " +
				"cluster needs empty log directories to become one of this",
			Err: err,
		}
	}
	if err != nil || c.clusterID == before {
		return err
	}
	c.learnedFrom = c.source()
	c.log.Info("Cluster id learned", "clusterId", c.clusterID, "from", c.learnedFrom)
	c.quorum.input(raft.ClusterIDLearned{ClusterID: c.clusterID})
	return nil
}

// source is where the metadata comes from.
func (c *cluster) source() string {
	switch c.leader.LeaderID {
	case raft.None:
		return "its own log"
	case c.nodeID:
		return "this node, as the leader"
	}
	return addressOf(c.leader.Endpoint)
}

// show makes what changed known to the others.
func (c *cluster) show() {
	image := c.loader.Image()
	v := view{
		leader:    c.leader,
		asked:     c.asked,
		clusterID: c.clusterID,
		caughtUp:  c.highWatermark >= 0 && c.next >= c.highWatermark,
		offset:    image.Offset,
		features:  image.FeaturesOffset(),
		replicas:  image.Replicas(int32(c.nodeID)),
	}
	if v.features != c.shown {
		c.shown, c.levels = v.features, image.FinalizedFeatures()
		if len(c.levels) > 0 && c.kraftVersion > 0 {
			c.levels = append(c.levels, features.Level{Name: features.KRaftVersionName, Level: c.kraftVersion})
		}
	}
	v.levels = c.levels
	if version, ok := image.MetadataVersion(); ok {
		v.version = version
	} else {
		v.caughtUp = false
	}
	if own := image.Controller(int32(c.nodeID)); own != nil {
		v.controller = own.IncarnationID
	}
	c.views.set(v)
}

// maybeSnapshot writes a snapshot if one is due. That happens beside the loop, from a clone of the image.
func (c *cluster) maybeSnapshot() error {
	now := c.clock.now()
	id, due := c.loader.SnapshotDue(now)
	if !due || c.snapshotting {
		return nil
	}
	of, err := c.quorum.snapshotHeader(context.Background(), id)
	if errors.Is(err, errStopped) {
		return err
	}
	if err != nil { // a newer one was fetched, say
		c.log.Info("No snapshot", "reason", err)
		c.loader.SnapshotTaken(id, now)
		return nil
	}
	c.loader.SnapshotTaken(id, now)
	image := c.loader.Image().Clone()
	header := checkpoint.Header{
		LeaderEpoch: int32(id.Epoch), AppendTime: c.clock.wallMillis(), LastContainedLogTime: image.Timestamp,
		KRaftVersion: of.KRaftVersion, Voters: checkpointVoters(of.Voters),
	}
	c.snapshotting = true
	c.writers.Go(func() {
		s, err := c.writeSnapshot(id, header, image)
		c.box.put(func() error {
			if err != nil {
				return err
			}
			c.snapshotting = false
			c.written = status.Snapshot{SizeBytes: s.SizeBytes, Written: c.clock.wall()}
			c.log.Info("Snapshot written", "file", c.raftLog.SnapshotPath(id), "bytes", s.SizeBytes)
			c.quorum.input(raft.SnapshotCreated{Snapshot: s})
			return nil
		})
	})
	return nil
}

func (c *cluster) writeSnapshot(id raft.SnapshotID, h checkpoint.Header, image *metadata.Image) (raft.Snapshot, error) {
	file, err := c.raftLog.CreateSnapshot(id)
	if err != nil {
		return raft.Snapshot{}, err
	}
	w, err := checkpoint.NewWriter(file, h)
	if err == nil {
		err = image.WriteSnapshot(w)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return raft.Snapshot{}, errors.Join(err, file.Abort())
	}
	return file.Commit()
}

// noticed takes what the core has to tell; the raft loop has logged it.
func (c *cluster) noticed(n raft.Notice) error {
	if c.clusterID != "" && c.strangers.noticed(n, c.leader.LeaderID) {
		return c.wrongCluster()
	}
	return nil
}

// checkpointVoters are voters as a snapshot has them; nil stays nil.
func checkpointVoters(voters []raft.Voter) []checkpoint.Voter {
	var out []checkpoint.Voter
	for _, v := range voters {
		to := checkpoint.Voter{
			NodeID: int32(v.Key.NodeID), DirectoryID: v.Key.DirectoryID,
			MinKRaftVersion: v.MinKRaftVersion, MaxKRaftVersion: v.MaxKRaftVersion,
		}
		for _, e := range v.Endpoints {
			to.Endpoints = append(to.Endpoints, checkpoint.Endpoint{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		out = append(out, to)
	}
	return out
}
