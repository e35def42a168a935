package raft

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// matches reports whether the voter of this entry is the replica: an entry without a directory id (kraft.version 0)
// goes by the node id alone.
func (v Voter) matches(key ReplicaKey) bool {
	return v.Key.NodeID == key.NodeID && (v.Key.DirectoryID == uuid.Nil || v.Key.DirectoryID == key.DirectoryID)
}

// supports reports whether the voter can run at a kraft.version.
func (v Voter) supports(version int16) bool {
	return v.MinKRaftVersion <= version && version <= v.MaxKRaftVersion
}

// checkVoters checks a set of a leader's record: it has to be one to count votes by.
func checkVoters(version int16, voters []Voter) error {
	switch {
	case version == 0:
		return errors.New("voters under kraft.version 0")
	case len(voters) == 0:
		return errors.New("a set without voters")
	}
	for i, v := range voters {
		if v.Key.NodeID < 0 {
			return fmt.Errorf("a voter with the id %d", v.Key.NodeID)
		}
		if voterByID(voters[:i], v.Key.NodeID) != nil {
			return fmt.Errorf("node %d is a voter twice", v.Key.NodeID)
		}
	}
	return nil
}

// endpoint returns the endpoint of a listener. Listener names are compared in upper case.
func endpoint(endpoints []Endpoint, listener string) (Endpoint, bool) {
	for _, e := range endpoints {
		if strings.EqualFold(e.Listener, listener) {
			return e, true
		}
	}
	return Endpoint{}, false
}

// recordable tells that a voters record can have these endpoints: a text that is too long cannot be encoded, and an append
// that fails stops the node.
func recordable(endpoints []Endpoint) bool {
	return !slices.ContainsFunc(endpoints, func(e Endpoint) bool { return max(len(e.Listener), len(e.Host)) >= 1<<15 })
}

// upperCase gives listeners the names that Kafka writes into voters records.
func upperCase(endpoints []Endpoint) []Endpoint {
	endpoints = slices.Clone(endpoints)
	for i := range endpoints {
		endpoints[i].Listener = strings.ToUpper(endpoints[i].Listener)
	}
	return endpoints
}

// voterByID returns the entry of a node, nil if it has none. Ids are unique in a set.
func voterByID(voters []Voter, id NodeID) *Voter {
	i := slices.IndexFunc(voters, func(v Voter) bool { return v.Key.NodeID == id })
	if i < 0 {
		return nil
	}
	return &voters[i]
}

// voterOf returns the entry that a replica is, nil if it is an observer.
func voterOf(voters []Voter, key ReplicaKey) *Voter {
	v := voterByID(voters, key.NodeID)
	if v == nil || !v.matches(key) {
		return nil
	}
	return v
}

func nodeIDs(voters []Voter) []NodeID {
	ids := make([]NodeID, len(voters))
	for i, v := range voters {
		ids[i] = v.Key.NodeID
	}
	return ids
}

// sameVoter compares what a voter says of itself with its entry.
func sameVoter(a, b Voter) bool {
	return a.Key == b.Key && a.MinKRaftVersion == b.MinKRaftVersion && a.MaxKRaftVersion == b.MaxKRaftVersion &&
		slices.Equal(sorted(a.Endpoints), sorted(b.Endpoints))
}

func sorted(endpoints []Endpoint) []Endpoint {
	return slices.SortedFunc(slices.Values(endpoints), func(a, b Endpoint) int { return strings.Compare(a.Listener, b.Listener) })
}

// with returns the set with one entry added, or the entry of the same id replaced.
func with(voters []Voter, v Voter) []Voter {
	voters = slices.Clone(voters)
	if old := voterByID(voters, v.Key.NodeID); old != nil {
		*old = v
		return voters
	}
	return append(voters, v)
}

// without returns the set without the entry of an id.
func without(voters []Voter, id NodeID) []Voter {
	return slices.DeleteFunc(slices.Clone(voters), func(v Voter) bool { return v.Key.NodeID == id })
}

// history is the voter sets and kraft.versions of the log by the offsets of their records, committed or not.
// The latest of each counts at once (KIP-853): a leader needs the new set's majority to commit the very record
// that brings it.
type history struct {
	static   []Voter // controller.quorum.voters, until a voters record is known
	voters   []votersAt
	versions []versionAt
}

type votersAt struct {
	offset Offset // -1: of the zero checkpoint
	voters []Voter
}

type versionAt struct {
	offset  Offset
	version int16
}

// latest returns the voter set and where it comes from: Unknown is the zero checkpoint or the configuration.
func (h *history) latest() ([]Voter, Offset) {
	if n := len(h.voters); n > 0 {
		return h.voters[n-1].voters, h.voters[n-1].offset
	}
	return h.static, Unknown
}

// previous returns the set before the latest one.
func (h *history) previous() []Voter {
	if n := len(h.voters); n > 1 {
		return h.voters[n-2].voters
	}
	return h.static
}

// version returns the latest kraft.version.
func (h *history) version() int16 {
	if n := len(h.versions); n > 0 {
		return h.versions[n-1].version
	}
	return 0
}

// at returns what the records below end say: nil voters if there is no record.
func (h *history) at(end Offset) (version int16, voters []Voter) {
	for _, v := range h.versions {
		if v.offset < end {
			version = v.version
		}
	}
	for _, v := range h.voters {
		if v.offset < end {
			voters = v.voters
		}
	}
	return version, voters
}

// add takes in the control records of a batch.
func (h *history) add(b Batch) {
	for i, r := range b.Control {
		switch r := r.(type) {
		case KRaftVersion:
			h.versions = append(h.versions, versionAt{b.BaseOffset + Offset(i), r.Version})
		case Voters:
			h.voters = append(h.voters, votersAt{b.BaseOffset + Offset(i), r.Voters})
		}
	}
}

// truncate forgets the records from end on.
func (h *history) truncate(end Offset) {
	h.voters = slices.DeleteFunc(h.voters, func(v votersAt) bool { return v.offset >= end })
	h.versions = slices.DeleteFunc(h.versions, func(v versionAt) bool { return v.offset >= end })
}

// trim forgets what no snapshot at start or later can need: all but the newest record below start.
func (h *history) trim(start Offset) {
	for len(h.voters) > 1 && h.voters[1].offset < start {
		h.voters = h.voters[1:]
	}
	for len(h.versions) > 1 && h.versions[1].offset < start {
		h.versions = h.versions[1:]
	}
}

// reset begins anew with what a snapshot says. Its records count as of its last offset, EndOffset-1; for the zero
// checkpoint that is -1, below every offset of a log.
func (h *history) reset(s Snapshot) {
	h.voters, h.versions = nil, nil
	if s.KRaftVersion > 0 {
		h.versions = []versionAt{{s.ID.EndOffset - 1, s.KRaftVersion}}
	}
	if s.Voters != nil {
		h.voters = []votersAt{{s.ID.EndOffset - 1, s.Voters}}
	}
}
