package raft

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestHistory compares the history of voter sets with one that keeps all control records in a list.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			offset  Offset
			version int16 // of a KRaftVersion
			voters  []Voter
		}
		h := history{static: []Voter{testVoter(9)}}
		var list []entry
		end := Offset(0)
		floor := Offset(0) // nothing is cut below, and asked for below
		set := func() (voters []Voter) {
			for id := range rapid.IntRange(1, 3).Draw(t, "voters") {
				voters = append(voters, testVoter(NodeID(id+1)))
			}
			return voters
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				b := Batch{BaseOffset: end, Control: []ControlRecord{LeaderChange{}, KRaftVersion{int16(rapid.IntRange(0, 3).Draw(t, "version"))}, Voters{set()}}}
				h.add(b)
				list = append(list, entry{end + 1, b.Control[1].(KRaftVersion).Version, nil}, entry{end + 2, -1, b.Control[2].(Voters).Voters})
				end += 3
			case 1:
				end += 2
			case 2:
				end = Offset(rapid.IntRange(int(floor), int(end)).Draw(t, "cut"))
				h.truncate(end)
				list = slices.DeleteFunc(list, func(e entry) bool { return e.offset >= end })
			case 3:
				floor = Offset(rapid.IntRange(int(floor), int(end)).Draw(t, "floor"))
				h.trim(floor)
			case 4:
				s := Snapshot{ID: SnapshotID{EndOffset: end + 5}, KRaftVersion: 1, Voters: set()}
				h.reset(s)
				list = []entry{{end + 4, 1, nil}, {end + 4, -1, s.Voters}}
				end += 5
				floor = end
			}
		}
		at := Offset(rapid.IntRange(int(floor), int(end)).Draw(t, "at"))
		version, voters := int16(0), []Voter(nil)
		latestVersion, latestVoters, latestOffset := int16(0), h.static, Unknown
		for _, e := range list {
			if e.voters == nil {
				latestVersion = e.version
			} else {
				latestVoters, latestOffset = e.voters, e.offset
			}
			if e.offset < at {
				if e.voters == nil {
					version = e.version
				} else {
					voters = e.voters
				}
			}
		}
		if v, set := h.at(at); v != version || !slices.EqualFunc(set, voters, sameVoter) {
			t.Fatalf("at %d: %d %v, want %d %v", at, v, set, version, voters)
		}
		if set, offset := h.latest(); offset != latestOffset || !slices.EqualFunc(set, latestVoters, sameVoter) || h.version() != latestVersion {
			t.Fatalf("latest: %d %v at %d, want %d %v at %d", h.version(), set, offset, latestVersion, latestVoters, latestOffset)
		}
	})
}

func TestVoterMatches(t *testing.T) {
	static := Voter{Key: ReplicaKey{NodeID: 1}}
	dynamic := Voter{Key: ReplicaKey{1, dirID(1, 1)}}
	for _, test := range []struct {
		reason string
		voter  Voter
		key    ReplicaKey
		want   bool
	}{
		{"by id alone", static, ReplicaKey{1, dirID(1, 7)}, true},
		{"another id", static, ReplicaKey{2, dirID(1, 7)}, false},
		{"both", dynamic, ReplicaKey{1, dirID(1, 1)}, true},
		{"another disk", dynamic, ReplicaKey{1, dirID(1, 2)}, false},
		{"an unknown disk", dynamic, ReplicaKey{NodeID: 1}, false},
	} {
		if got := test.voter.matches(test.key); got != test.want {
			t.Errorf("%s: %v", test.reason, got)
		}
	}
}

func TestSameVoter(t *testing.T) {
	a, b := testVoter(1), testVoter(1)
	a.Endpoints = []Endpoint{{"A", "h", 1}, {"B", "h", 2}}
	b.Endpoints = []Endpoint{{"B", "h", 2}, {"A", "h", 1}}
	if !sameVoter(a, b) {
		t.Error("the order of endpoints counts")
	}
	b.Endpoints[1].Port = 9
	if sameVoter(a, b) {
		t.Error("a port doesn't count")
	}
}
