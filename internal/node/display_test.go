package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"kstorage/internal/raft"
)

// TestNoDisplay: a node that shows itself nowhere keeps nothing for it: no lines of the log, no meter, no server.
func TestNoDisplay(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	n := newNode(Options{Log: log})
	if n.display != nil || n.Log != log || n.trafficLog != log {
		t.Errorf("%+v", n)
	}
}

// TestDisplay: what clients do is no event, and a node that is still being opened, or whose loops stand still, says so in time.
func TestDisplay(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	n := newNode(Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now, Status: listener})
	defer n.display.close()
	n.storage = &storage{dirs: []*logDir{{isMetadata: true}}}
	n.trafficLog.Info("a client")
	n.Log.Info("an event")
	s := n.state(t.Context())
	if len(s.Events) != 1 || s.Events[0].Text != "an event" || s.Waits == "" || s.Fault != "" || s.Quorum != nil {
		t.Errorf("while it is opened: %+v", s)
	}

	n.cluster = &cluster{box: newMailbox[func() error]()}
	n.quorum = &quorum{box: newMailbox[event](), waiting: map[raft.RequestID]chan answer{}, ended: make(chan struct{})}
	n.views = newViews(view{leader: raft.LeaderChanged{LeaderID: 1}})
	n.display.opened.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if s := n.state(ctx); s.Fault == "" || s.Quorum != nil {
		t.Errorf("with loops that stand still: %+v", s)
	}
}
