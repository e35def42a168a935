package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kstorage/features"
	"kstorage/internal/raft"
)

// A node that waits says for what after the first time, and then again each time the second has passed.
const (
	firstWait = 5 * time.Second
	laterWait = time.Minute
)

// waitsFor returns what this node waits for, "" for nothing: then it is ready.
func (n *node) waitsFor(v *view) string {
	switch {
	case v.leader.LeaderID == raft.None:
		return fmt.Sprintf("a leader of the quorum: none is known to %s. If this is a new cluster, its first controllers are to be formatted with kstorage format, "+
			"all with the same --cluster-id or all without, and to be started", n.bootstrapServers())
	case n.silent(v) > 0:
		return fmt.Sprintf("an answer of the leader %d at %s, which has not answered for %v", v.leader.LeaderID, addressOf(v.leader.Endpoint), n.silent(v))
	case !v.caughtUp:
		return fmt.Sprintf("the metadata of the cluster, from the leader %d at %s", v.leader.LeaderID, addressOf(v.leader.Endpoint))
	case v.clusterID == "" && v.version != 0 && !v.version.SupportsClusterID():
		return fmt.Sprintf("the cluster id: the cluster is at metadata.version %s, which carries none. Empty the log directories of this node, and format "+
			"them with kstorage format --cluster-id and the id of the cluster; or, if the cluster has no nodes of Apache Kafka, raise its level for good with "+
			"kfeatures upgrade --feature metadata.version=%d", v.version, features.LatestProduction)
	case v.clusterID == "":
		return "the cluster id, which the active controller commits with its first records"
	}
	if n.broker == nil || brokerState(n.broker.state.Load()) >= brokerRunning {
		return ""
	}
	why := "the active controller to register and unfence this broker"
	if refusal := n.broker.refusal.Load(); refusal != nil {
		why += fmt.Sprintf("; the last attempt ended with: %v", *refusal)
		if errors.Is(*refusal, answerError(codeDuplicateBroker)) {
			why += ". A broker with its node.id was there before: it is forgotten when it has been silent for broker.session.timeout.ms, 9 s, " +
				"if it does not run elsewhere"
		}
	}
	return why
}

// silent is for how long the leader has not answered this node, 0 if that is not worth a word. A follower keeps its leader, as
// Kafka's does, until it finds another one.
func (n *node) silent(v *view) time.Duration {
	if v.leader.LeaderID == n.settings.Raft.NodeID {
		return 0
	}
	silence := n.clock.now() - raft.Millis(n.quorum.heard.Load())
	if silence <= 2*n.settings.Raft.FetchTimeoutMillis {
		return 0
	}
	return (time.Duration(silence) * time.Millisecond).Round(time.Second)
}

func (n *node) bootstrapServers() string {
	var addresses []string
	for _, e := range n.settings.Raft.BootstrapServers {
		addresses = append(addresses, addressOf(e))
	}
	return strings.Join(addresses, ", ")
}

// reportWaits logs what the node waits for.
func (n *node) reportWaits(ctx context.Context) {
	timer := time.NewTimer(firstWait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if why := n.waitsFor(n.views.get()); why != "" {
			n.Log.Warn("Waiting", "for", why)
		}
		timer.Reset(laterWait)
	}
}

// waitReady says when the node is ready for the first time. Kafka's words are what container images wait for.
func (n *node) waitReady(ctx context.Context) {
	running := (<-chan struct{})(nil)
	if n.broker != nil {
		running = n.broker.running
	}
	for ctx.Err() == nil {
		v := n.views.get()
		if n.waitsFor(v) == "" {
			n.Log.Info("Kafka Server started", "node", n.settings.NodeID, "clusterId", v.clusterID, "after", time.Since(n.clock.start).Round(time.Microsecond))
			n.Notify("READY=1")
			return
		}
		select {
		case <-ctx.Done():
		case <-running:
			running = nil
		case <-v.next:
		}
	}
}
