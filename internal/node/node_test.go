package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"kstorage/features"
	"kstorage/internal/raft"
)

// TestHandOverFails: a node whose disk fails while it hands over does not end as if all were well.
func TestHandOverFails(t *testing.T) {
	reason := errors.New("the disk is gone")
	over := make(chan struct{})
	close(over)
	n := &node{Options: Options{Log: slog.New(slog.DiscardHandler), Notify: func(string) {}}, quorum: &quorum{box: newMailbox[event]()}}
	for range 100 { // which of two channels a select takes is chance
		failed := make(chan error, 1)
		failed <- reason
		if err := n.handOver(over, over, failed); !errors.Is(err, reason) {
			t.Fatalf("it ends with %v", err)
		}
	}
}

// TestStoppingNodeIsNotReady: a broker that is told to stop before it was unfenced is not announced afterwards.
func TestStoppingNodeIsNotReady(t *testing.T) {
	n := &node{Options: Options{Log: slog.New(slog.DiscardHandler), Notify: func(state string) { t.Errorf("it says %s", state) }}, broker: &broker{}}
	n.views = newViews(view{leader: raft.LeaderChanged{LeaderID: 1}, caughtUp: true, clusterID: clusterA, version: features.LatestProduction})
	n.broker.state.Store(int32(brokerStopping))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	n.waitReady(ctx)
}
