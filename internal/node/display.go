package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kstorage/internal/raft"
	"kstorage/internal/status"
)

// display shows the node over HTTP. It asks the loops when it is asked itself; between two looks it costs nothing but the
// meter of the raft loop.
type display struct {
	events   status.Events
	server   *status.Server
	serving  sync.WaitGroup
	opened   atomic.Bool // the node has all of its parts
	stopping atomic.Bool // it hands over
}

// newDisplay returns the display of a node, and lets it keep what the node logs from here on. What clients do is not in it: they
// could drive the events out.
func (n *node) newDisplay() *display {
	d := &display{}
	n.Log = slog.New(d.events.Handler(n.Log.Handler()))
	d.server = status.NewServer(n.state, n.trafficLog)
	return d
}

// serve begins to answer.
func (d *display) serve(n *node) {
	n.Log.Info("Status page", "url", fmt.Sprintf("http://%s/", n.Status.Addr()))
	d.serving.Go(func() {
		if err := d.server.Serve(n.Status); err != nil {
			n.Log.Error("No status page any more", "error", err)
		}
	})
}

func (d *display) close() {
	d.server.Close()
	d.serving.Wait()
}

// state is what the node tells of itself.
func (n *node) state(ctx context.Context) *status.State {
	now := n.clock.wall()
	s := &status.State{
		Now: now, Started: now.Add(-time.Since(n.clock.start)), Version: n.Version,
		NodeID: raft.NodeID(n.settings.NodeID), Roles: n.settings.roles(),
		ClusterID: n.storage.ClusterID(), Events: n.display.events.Recent(),
	}
	s.ClusterIDFrom = n.clusterIDFrom("")
	if !n.display.opened.Load() {
		s.Waits = "its metadata log, which is being recovered"
		return s
	}
	if n.cluster.telemetry != nil {
		s.Pushes = n.cluster.telemetry.Pushed(time.Now())
	}
	if n.broker != nil {
		state := brokerState(n.broker.state.Load())
		s.Broker = &status.Broker{State: state.String(), StateCode: state.code()}
	}
	s.Waits = n.waitsFor(n.views.get())
	if n.display.stopping.Load() {
		s.Waits = "its end: it was told to shut down"
	}
	if err := n.lookAtQuorum(ctx, s); err != nil {
		s.Fault = "the consensus layer does not answer: " + err.Error()
	} else if err := n.lookAtCluster(ctx, s); err != nil {
		s.Fault = "the metadata layer does not answer: " + err.Error()
	}
	return s
}

// clusterIDFrom says how the node came to know the id of its cluster; source is who sent it if that was since the start.
func (n *node) clusterIDFrom(source string) string {
	file := n.storage.metadata().File()
	switch {
	case n.storage.ClusterID() == "":
		return "the node learns it from the metadata of the cluster (KIP-1262)"
	case source != "":
		return fmt.Sprintf("learned from the metadata of the cluster (KIP-1262), which came from %s; stored in %s", source, file)
	case n.storage.learnedID():
		return "learned from the metadata of the cluster (KIP-1262), stored in " + file
	}
	return "given when the node was formatted, stored in " + file
}

func (n *node) lookAtQuorum(ctx context.Context, s *status.State) error {
	answer, _, err := n.quorum.call(ctx, "", &raft.DescribeQuorumRequest{})
	if err != nil {
		return err
	}
	q, err := ask(ctx, n.quorum, func(c *raft.Core) (*status.Quorum, error) {
		return &status.Quorum{Status: c.Status(), Rates: n.quorum.meter.Rates(time.Since(n.clock.start))}, nil
	})
	if err != nil {
		return err
	}
	s.Quorum = q
	if leader := n.views.get().leader; leader.LeaderID == q.LeaderID && leader.Endpoint.Host != "" {
		q.LeaderAddress = addressOf(leader.Endpoint)
	}
	if d := answer.(*raft.DescribeQuorumResponse); q.Role == raft.Leader && d.Partition == raft.NoError {
		q.Replicas = append(n.replicas(s, d.Voters, true), n.replicas(s, d.Observers, false)...)
	}
	return nil
}

func (n *node) replicas(s *status.State, states []raft.ReplicaState, voters bool) (out []status.Replica) {
	since := n.clock.now()
	at := func(t raft.Millis) (zero time.Time) {
		if t < 0 {
			return zero
		}
		return s.Now.Add(-time.Duration(since-t) * time.Millisecond)
	}
	for _, r := range states {
		out = append(out, status.Replica{Key: r.Key, Voter: voters, LogEnd: r.LogEnd, LastFetch: at(r.LastFetch), LastCaughtUp: at(r.LastCaughtUp)})
	}
	return out
}

func (n *node) lookAtCluster(ctx context.Context, s *status.State) error {
	type view struct {
		metadata    *status.Metadata
		active      bool
		elected     int
		learnedFrom string
	}
	views := make(chan view, 1) // nobody may be there any more to take it
	c := n.cluster
	c.box.put(func() error {
		image := c.loader.Image()
		m := &status.Metadata{
			Offset: image.Offset, Epoch: image.Epoch, Timestamp: image.Timestamp, Levels: c.levels,
			Brokers: image.Brokers(), Controllers: image.Controllers(), Loads: c.loads, Snapshot: c.written,
		}
		m.Version, _ = image.MetadataVersion()
		m.Topics, m.Partitions = image.Topics()
		views <- view{m, c.active != nil && !c.active.lost, c.elected, c.learnedFrom}
		return nil
	})
	select {
	case v := <-views:
		s.Metadata = v.metadata
		if n.settings.IsController {
			s.Controller = &status.Controller{Active: v.active, Claims: v.elected}
		}
		s.ClusterIDFrom = n.clusterIDFrom(v.learnedFrom)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.quorum.ended:
		return n.quorum.stopped
	}
}
