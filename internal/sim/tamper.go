package sim

import "kstorage/internal/raft"

// tamper plants a bug from outside: it changes what goes into the core, comes out of it or is found on the disk. Each
// of its functions may be nil.
type tamper struct {
	input     func(*process, raft.Input) raft.Input
	effect    func(*process, raft.Effect) raft.Effect
	recovered func(*machine, *raft.Recovered)
	snapshot  func(*process) raft.SnapshotID // which one is made instead, if it is beyond the high watermark
}
