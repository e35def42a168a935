package raft

// Core is one node's consensus: a state machine without clock, files, sockets, goroutines and locks.
type Core struct {
}

// New returns the core of a node with what recovery found on its disk.
func New(cfg Config, r Recovered) *Core { return &Core{} }

// Step applies one input at time now (milliseconds, monotonic) and returns its effects. The driver carries them out
// front to back. The slice is valid until the next Step. Equal configuration, recovery, randomness and inputs give equal effects.
func (c *Core) Step(now Millis, in Input) []Effect { return nil }

// Deadline returns when to call Step with a Tick if no input comes earlier.
func (c *Core) Deadline() (at Millis, ok bool) { return 0, false }

// Status returns a view of the node.
func (c *Core) Status() Status { return Status{} }

// SnapshotHeader returns what the header of a snapshot with this id has to hold, or why there may be none: it is
// beyond the high watermark, below the log's start, not the end of a record of that epoch, or exists.
func (c *Core) SnapshotHeader(id SnapshotID) (Snapshot, error) { return Snapshot{}, nil }
