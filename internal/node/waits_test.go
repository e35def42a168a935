package node

import (
	"strings"
	"testing"
	"time"

	"kstorage/internal/raft"
)

// A node whose leader is dead, and that finds no other one, keeps it for its leader; it is not ready all the same.
func TestWaitForSilentLeader(t *testing.T) {
	v := view{leader: raft.LeaderChanged{LeaderID: 2, Endpoint: raft.Endpoint{Host: "h", Port: 9}}, caughtUp: true, clusterID: "x", version: 35}
	for _, tt := range []struct {
		reason string
		id     raft.NodeID
		ago    time.Duration
		want   string
	}{
		{"it has answered", 1, 3 * time.Second, ""},
		{"it has not", 1, 5 * time.Second, "an answer of the leader 2 at h:9, which has not answered for 5s"},
		{"it is this node", 2, time.Hour, ""},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			n := &node{quorum: &quorum{}, clock: clock{start: time.Now().Add(-10 * time.Hour)}}
			n.settings.Raft = raft.DefaultConfig()
			n.settings.Raft.NodeID = tt.id
			n.quorum.heard.Store(int64(n.clock.now()) - tt.ago.Milliseconds())
			if got := n.waitsFor(&v); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("it waits for %q, want %q", got, tt.want)
			}
		})
	}
}
