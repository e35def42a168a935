package node

import (
	"fmt"
	"slices"

	"kstorage/internal/raft"
)

// checkVoters refuses the configuration of a static quorum out of which the voters were taken before the log has
// them. Unlike Kafka: there such a node waits for ever.
func checkVoters(s *settings, r raft.Recovered) error {
	version := int16(0)
	if n := len(r.Snapshots); n > 0 {
		version = r.Snapshots[n-1].KRaftVersion
	}
	var voters []raft.NodeID // when the last leader was elected
	for _, batch := range r.Control {
		for _, c := range batch.Control {
			switch c := c.(type) {
			case raft.KRaftVersion:
				version = c.Version
			case raft.LeaderChange:
				voters = c.Voters
			}
		}
	}
	if !s.IsController || len(s.Raft.StaticVoters) > 0 || version > 0 || !slices.Contains(voters, s.Raft.NodeID) {
		return nil
	}
	return &Error{
		What:  fmt.Sprintf("kraft.version is 0 and no voters are configured, but the last leader was elected by the voters %d, and this is node %d", voters, s.NodeID),
		Where: s.File + ", in which controller.quorum.voters is missing",
		Fix: "put controller.quorum.voters back as it was, on all controllers; to do without it, upgrade the running cluster first: " +
			"kfeatures --bootstrap-controller HOST:PORT upgrade --feature kraft.version=1",
	}
}
