package node

import (
	"sync"

	"github.com/google/uuid"

	"kstorage/features"
	"kstorage/internal/raft"
)

// view is what a node knows of its cluster, as its other goroutines see it: a value that does not change.
type view struct {
	leader    raft.LeaderChanged
	asked     raft.NodeID              // whom clients are to ask: the leader, or the one of before; raft.None: none was known yet
	clusterID string                   // "" as long as the node does not know it
	caughtUp  bool                     // the image has all that is known to be committed, and that is something
	offset    raft.Offset              // of the image: that of the last record in it
	version   features.MetadataVersion // 0: none is finalized
	features  raft.Offset              // at which the features last changed; Unknown: none is finalized
	levels    []features.Level         // those that are finalized

	replicas   int       // that the cluster has on the broker of this node's id
	controller uuid.UUID // the incarnation that is registered as the controller of this node's id

	next chan struct{} // closed as soon as there is a newer view
}

// views has the newest view.
type views struct {
	mu      sync.Mutex
	current *view
}

func newViews(first view) *views {
	first.next = make(chan struct{})
	return &views{current: &first}
}

func (v *views) get() *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current
}

// set puts a new view in place of the newest one.
func (v *views) set(next view) {
	next.next = make(chan struct{})
	v.mu.Lock()
	old := v.current
	v.current = &next
	v.mu.Unlock()
	close(old.next)
}
