package node

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"kstorage/internal/raft"
)

// recoveredVoters is what a recovered log says of the quorum, committed or not.
type recoveredVoters struct {
	kraftVersion int16
	voters       []raft.Voter  // of the newest record; nil: there is none, and the configuration counts
	atElection   []raft.NodeID // the voters when the last leader was elected
}

func newestVoters(r raft.Recovered) recoveredVoters {
	var v recoveredVoters
	if n := len(r.Snapshots); n > 0 {
		v.kraftVersion, v.voters = r.Snapshots[n-1].KRaftVersion, r.Snapshots[n-1].Voters
	}
	for _, batch := range r.Control {
		for _, c := range batch.Control {
			switch c := c.(type) {
			case raft.KRaftVersion:
				v.kraftVersion = c.Version
			case raft.Voters:
				v.voters = c.Voters
			case raft.LeaderChange:
				v.atElection = c.Voters
			}
		}
	}
	return v
}

// isVoter reports whether a node whose metadata directory has this id is a voter, by what it has on its disk.
func (s *settings) isVoter(r raft.Recovered, directoryID uuid.UUID) bool {
	v := newestVoters(r)
	voters := v.voters
	if voters == nil {
		voters = s.Raft.StaticVoters
	}
	return s.IsController && slices.ContainsFunc(voters, func(v raft.Voter) bool {
		return v.Key.NodeID == s.Raft.NodeID && (v.Key.DirectoryID == uuid.Nil || v.Key.DirectoryID == directoryID)
	})
}

// checkVoters refuses the configuration of a static quorum out of which the voters were taken before the log has
// them. Unlike Kafka: there such a node waits for ever.
func (s *settings) checkVoters(r raft.Recovered) error {
	v := newestVoters(r)
	if !s.IsController || len(s.Raft.StaticVoters) > 0 || v.kraftVersion > 0 || !slices.Contains(v.atElection, s.Raft.NodeID) {
		return nil
	}
	return &Error{
		What:  fmt.Sprintf("kraft.version is 0 and no voters are configured, but the last leader was elected by the voters %d, and this is node %d", v.atElection, s.NodeID),
		Where: s.File + ", in which controller.quorum.voters is missing",
		Fix: "put controller.quorum.voters back as it was, on all controllers; to do without it, upgrade the running cluster first: " +
			"kfeatures --bootstrap-controller HOST:PORT upgrade --feature kraft.version=1",
	}
}
