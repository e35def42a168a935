package client

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestMaxFollowerLag(t *testing.T) {
	leader := Replica{NodeID: 1, LogEndOffset: 10, LastCaughtUp: 1000}
	for reason, test := range map[string]struct {
		voters, observers []Replica
		records, millis   int64
	}{
		"a voter alone":                {[]Replica{leader}, nil, 0, 0},
		"the last of two followers":    {[]Replica{{NodeID: 2, LogEndOffset: 7, LastCaughtUp: 400}, leader, {NodeID: 3, LogEndOffset: 8, LastCaughtUp: 300}}, nil, 3, 600},
		"one that never caught up":     {[]Replica{leader, {NodeID: 2, LogEndOffset: 7, LastCaughtUp: -1}}, nil, 3, -1},
		"one that never fetched":       {[]Replica{leader, {NodeID: 2, LogEndOffset: -1, LastCaughtUp: -1}}, nil, 11, -1},
		"all have all":                 {[]Replica{leader, {NodeID: 2, LogEndOffset: 10, LastCaughtUp: 900}}, nil, 0, 0},
		"observers do not count":       {[]Replica{leader}, []Replica{{NodeID: 4, LogEndOffset: 1}}, 0, 0},
		"a leader that removes itself": {[]Replica{{NodeID: 2, LogEndOffset: 9, LastCaughtUp: 900}}, []Replica{leader}, 1, 100},
		"no leader":                    {[]Replica{{NodeID: 2, LogEndOffset: 9}}, nil, -1, -1},
	} {
		q := Quorum{LeaderID: 1, Voters: test.voters, Observers: test.observers}
		if records, millis := q.MaxFollowerLag(); records != test.records || millis != test.millis {
			t.Errorf("%s: %d records, %d ms; expected %d and %d", reason, records, millis, test.records, test.millis)
		}
	}
}

func TestReplicationText(t *testing.T) {
	now := time.UnixMilli(5000)
	directory := uuid.UUID{15: 1}
	q := Quorum{LeaderID: 2,
		Voters:    []Replica{{NodeID: 10, LogEndOffset: 3, LastFetch: -1, LastCaughtUp: -1}, {NodeID: 2, DirectoryID: directory, LogEndOffset: 7, LastFetch: 5001, LastCaughtUp: 4000}},
		Observers: []Replica{{NodeID: 2, LogEndOffset: 0, LastFetch: 0, LastCaughtUp: -1}}, // the disk of the leader was replaced
	}
	// The leader's clock is a millisecond ahead.
	want := "NodeId|DirectoryId           |LogEndOffset|Lag|LastFetchTimestamp|LastCaughtUpTimestamp|Status  |\n" +
		"2     |AAAAAAAAAAAAAAAAAAAAAQ|7           |0  |0 ms ago          |1000 ms ago          |Leader  |\n" +
		"10    |AAAAAAAAAAAAAAAAAAAAAA|3           |4  |-1                |-1                   |Follower|\n" +
		"2     |AAAAAAAAAAAAAAAAAAAAAA|0           |7  |5000 ms ago       |-1                   |Observer|\n"
	if got := strings.ReplaceAll(q.ReplicationText(true, now), "\t", "|"); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

func TestEndpointText(t *testing.T) {
	for want, e := range map[string]Endpoint{
		"CONTROLLER://c1:9093":  {"CONTROLLER", "c1", 9093},
		"CONTROLLER://[::1]:93": {"CONTROLLER", "::1", 93},
	} {
		if e.String() != want {
			t.Errorf("%s, expected %s", e, want)
		}
	}
}
