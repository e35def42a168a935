package raft_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// probeDifferences are the answers that are ours on purpose.
var probeDifferences = map[string]struct{ ours, reason string }{
	"FetchSnapshot v1 zero snapshot": {"top 0 part 98 size 0 bytes 0 leader(1,1) nodes 1", "Kafka 4.4.0 fails to write errors of the partition; ours are what they are, with empty bytes"},
	"FetchSnapshot v1 unknown id":    {"top 0 part 98 size 0 bytes 0 leader(1,1) nodes 1", "the same"},
	"FetchSnapshot v1 wrong topic":   {"top 0 part 3 size 0 bytes 0 leader(-1,-1) nodes 0", "the same"},
	"FetchSnapshot v1 lower epoch":   {"top 0 part 74 size 0 bytes 0 leader(1,1) nodes 1", "the same"},
	"Fetch v13 with the ReplicaDirectoryId tag (not valid before v17)": {
		"top 0 part 0 hw 19 logstart 0 records 1222B diverging(-1,-1) leader(1,1) snapshot(-1,-1) nodes 0",
		"kmsg reads a tagged field at any version; no real node sends one too early",
	},
}

// A probe is what was sent; the requests are those of the recording as its lines tell them.
type probe struct {
	name    string // of the line
	version int16
	request func() kmsg.Request
}

var probeKey = raft.ReplicaKey{NodeID: 44, DirectoryID: uuid.UUID{5}}

func probeVote(change func(*kmsg.VoteRequest, *kmsg.VoteRequestTopicPartition)) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrVoteRequest()
		q.ClusterID = &wireCluster
		q.VoterID = 1
		p := kmsg.NewVoteRequestTopicPartition()
		p.CandidateEpoch, p.CandidateID, p.CandidateDirectoryID = 1, 44, probeKey.DirectoryID
		p.VoterDirectoryID = recordedNodes["probes"]["1"].Key.DirectoryID
		p.LastOffsetEpoch, p.LastOffset, p.PreVote = 1, 100, true
		q.Topics = []kmsg.VoteRequestTopic{{Topic: metadataTopic}}
		change(q, &p)
		if len(q.Topics) > 0 {
			q.Topics[0].Partitions = []kmsg.VoteRequestTopicPartition{p}
		}
		return q
	}
}

func probeBegin(change func(*kmsg.BeginQuorumEpochRequest, *kmsg.BeginQuorumEpochRequestTopicPartition)) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrBeginQuorumEpochRequest()
		q.ClusterID = &wireCluster
		p := kmsg.NewBeginQuorumEpochRequestTopicPartition()
		p.LeaderID, p.LeaderEpoch = 44, 1
		change(q, &p)
		q.Topics = []kmsg.BeginQuorumEpochRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.BeginQuorumEpochRequestTopicPartition{p}}}
		return q
	}
}

func probeFetch(change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrFetchRequest()
		q.ClusterID = &wireCluster
		q.ReplicaID, q.ReplicaState.ID = 44, 44
		q.MaxWaitMillis = 0
		q.MaxBytes = 1 << 20
		p := kmsg.NewFetchRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = 1, 1
		change(q, &p)
		q.Topics = []kmsg.FetchRequestTopic{{Topic: metadataTopic, TopicID: metadataTopicID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		return q
	}
}

func probeSnapshot(change func(*kmsg.FetchSnapshotRequest, *kmsg.FetchSnapshotRequestTopicPartition)) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrFetchSnapshotRequest()
		q.ClusterID = &wireCluster
		q.ReplicaID = 44
		p := kmsg.NewFetchSnapshotRequestTopicPartition()
		p.CurrentLeaderEpoch = 1
		q.Topics = []kmsg.FetchSnapshotRequestTopic{{Topic: metadataTopic}}
		change(q, &p)
		q.Topics[0].Partitions = []kmsg.FetchSnapshotRequestTopicPartition{p}
		return q
	}
}

func probeAdd(change func(*kmsg.AddRaftVoterRequest)) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrAddRaftVoterRequest()
		q.ClusterID = &wireCluster
		q.TimeoutMillis = 1000
		q.VoterID, q.VoterDirectoryID = 44, probeKey.DirectoryID
		q.Listeners = []kmsg.AddRaftVoterRequestListener{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 1}}
		q.AckWhenCommitted = true
		change(q)
		return q
	}
}

func probeRemove(id int32, dir uuid.UUID) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrRemoveRaftVoterRequest()
		q.ClusterID = &wireCluster
		q.VoterID, q.VoterDirectoryID = id, dir
		return q
	}
}

func probeUpdate(change func(*kmsg.UpdateRaftVoterRequest)) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrUpdateRaftVoterRequest()
		q.ClusterID = &wireCluster
		q.CurrentLeaderEpoch = 1
		q.VoterID, q.VoterDirectoryID = 1, recordedNodes["probes"]["1"].Key.DirectoryID
		q.Listeners = []kmsg.UpdateRaftVoterRequestListener{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 22095}}
		q.KRaftVersionFeature.MaxSupportedVersion = 1
		change(q)
		return q
	}
}

func probeDescribe(topic string) func() kmsg.Request {
	return func() kmsg.Request {
		q := kmsg.NewPtrDescribeQuorumRequest()
		q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: topic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		return q
	}
}

type (
	vote         = *kmsg.VoteRequest
	voteP        = *kmsg.VoteRequestTopicPartition
	begin        = *kmsg.BeginQuorumEpochRequest
	beginP       = *kmsg.BeginQuorumEpochRequestTopicPartition
	fetch        = *kmsg.FetchRequest
	fetchP       = *kmsg.FetchRequestTopicPartition
	snapshot     = *kmsg.FetchSnapshotRequest
	snapshotP    = *kmsg.FetchSnapshotRequestTopicPartition
	addVoter     = *kmsg.AddRaftVoterRequest
	updateVoter  = *kmsg.UpdateRaftVoterRequest
	anotherTopic = kmsg.VoteRequestTopic
)

var (
	emptyID, otherID = "", "other"
	leaderDir        = recordedNodes["probes"]["1"].Key.DirectoryID
)

var probes = []probe{
	{"Fetch v3 (removed version)", 3, probeFetch(func(fetch, fetchP) {})},
	{"DescribeQuorum v2", 2, probeDescribe(metadataTopic)},
	{"DescribeQuorum v2 wrong topic", 2, probeDescribe("foo")},

	{"Vote v2 pre-vote, same epoch, up to date, to the leader", 2, probeVote(func(vote, voteP) {})},
	{"Vote v2 cluster null", 2, probeVote(func(q vote, _ voteP) { q.ClusterID = nil })},
	{`Vote v2 cluster ""`, 2, probeVote(func(q vote, _ voteP) { q.ClusterID = &emptyID })},
	{`Vote v2 cluster "other"`, 2, probeVote(func(q vote, _ voteP) { q.ClusterID = &otherID })},
	{`Vote v2 cluster "other" and wrong topic`, 2, probeVote(func(q vote, _ voteP) { q.ClusterID, q.Topics[0].Topic = &otherID, "foo" })},
	{"Vote v2 wrong topic", 2, probeVote(func(q vote, _ voteP) { q.Topics[0].Topic = "foo" })},
	{"Vote v2 no topics", 2, probeVote(func(q vote, _ voteP) { q.Topics = nil })},
	{"Vote v2 two topics", 2, probeVote(func(q vote, _ voteP) { q.Topics = append(q.Topics, anotherTopic{Topic: "foo"}) })},
	{"Vote v2 lower epoch", 2, probeVote(func(_ vote, p voteP) { p.CandidateEpoch, p.LastOffsetEpoch = 0, 0 })},
	{"Vote v2 pre-vote lastEpoch > epoch", 2, probeVote(func(_ vote, p voteP) { p.LastOffsetEpoch = 2 })},
	{"Vote v2 vote lastEpoch = epoch", 2, probeVote(func(_ vote, p voteP) { p.PreVote = false })},
	{"Vote v2 negative replica id", 2, probeVote(func(_ vote, p voteP) { p.CandidateID = -1 })},
	{"Vote v2 wrong voter id", 2, probeVote(func(q vote, _ voteP) { q.VoterID = 9 })},
	{"Vote v2 wrong voter dir", 2, probeVote(func(_ vote, p voteP) { p.VoterDirectoryID = probeKey.DirectoryID })},
	{"Vote v0 same epoch, real vote", 0, probeVote(func(_ vote, p voteP) { p.PreVote, p.LastOffsetEpoch = false, 0 })},

	{"BeginQuorumEpoch v1 lower epoch", 1, probeBegin(func(_ begin, p beginP) { p.LeaderEpoch = 0 })},
	{"BeginQuorumEpoch v1 cluster other", 1, probeBegin(func(q begin, _ beginP) { q.ClusterID = &otherID })},
	{"BeginQuorumEpoch v0 same epoch, leader = receiver", 0, probeBegin(func(_ begin, p beginP) { p.LeaderID = 1 })},

	{"Fetch v18 valid observer, offset 0", 18, probeFetch(func(fetch, fetchP) {})},
	{"Fetch v18 cluster null", 18, probeFetch(func(q fetch, _ fetchP) { q.ClusterID = nil })},
	{"Fetch v18 cluster other", 18, probeFetch(func(q fetch, _ fetchP) { q.ClusterID = &otherID })},
	{"Fetch v13 with the ReplicaDirectoryId tag (not valid before v17)", 13, probeFetch(func(_ fetch, p fetchP) { p.ReplicaDirectoryID = probeKey.DirectoryID })},
	{"Fetch v16 without newer tags", 16, probeFetch(func(fetch, fetchP) {})},
	{"Fetch v13 without newer tags", 13, probeFetch(func(fetch, fetchP) {})},
	{"Fetch v12 (topic name) without newer tags", 12, probeFetch(func(fetch, fetchP) {})},
	{"Fetch v9 (topic name, no last fetched epoch)", 9, probeFetch(func(fetch, fetchP) {})},
	{"Fetch v18 lower epoch", 18, probeFetch(func(_ fetch, p fetchP) { p.CurrentLeaderEpoch, p.LastFetchedEpoch = 0, 0 })},
	{"Fetch v18 higher epoch", 18, probeFetch(func(_ fetch, p fetchP) { p.CurrentLeaderEpoch = 2 })},
	{"Fetch v18 lastFetchedEpoch > epoch", 18, probeFetch(func(_ fetch, p fetchP) { p.LastFetchedEpoch = 2 })},
	{"Fetch v18 negative offset", 18, probeFetch(func(_ fetch, p fetchP) { p.FetchOffset = -1 })},
	{"Fetch v18 beyond the end", 18, probeFetch(func(_ fetch, p fetchP) { p.FetchOffset = 100 })},
	{"Fetch v18 offset 5, lastFetchedEpoch 0", 18, probeFetch(func(_ fetch, p fetchP) { p.FetchOffset, p.LastFetchedEpoch = 5, 0 })},
	{"Fetch v18 offset 5, right epoch", 18, probeFetch(func(_ fetch, p fetchP) { p.FetchOffset = 5 })},
	{"Fetch v18 by replica -1", 18, probeFetch(func(q fetch, p fetchP) { q.ReplicaState.ID, p.FetchOffset = -1, 5 })},
	{"Fetch v18 by the leader's own id", 18, probeFetch(func(q fetch, p fetchP) { q.ReplicaState.ID, p.FetchOffset = 1, 5 })},

	{"FetchSnapshot v1 zero snapshot", 1, probeSnapshot(func(snapshot, snapshotP) {})},
	{"FetchSnapshot v1 unknown id", 1, probeSnapshot(func(_ snapshot, p snapshotP) { p.SnapshotID.EndOffset, p.SnapshotID.Epoch = 5, 1 })},
	{"FetchSnapshot v1 wrong topic", 1, probeSnapshot(func(q snapshot, _ snapshotP) { q.Topics[0].Topic = "foo" })},
	{"FetchSnapshot v1 lower epoch", 1, probeSnapshot(func(_ snapshot, p snapshotP) { p.CurrentLeaderEpoch = 0 })},
	{"FetchSnapshot v1 cluster other", 1, probeSnapshot(func(q snapshot, _ snapshotP) { q.ClusterID = &otherID })},

	{"AddRaftVoter v1 cluster other", 1, probeAdd(func(q addVoter) { q.ClusterID = &otherID })},
	{"AddRaftVoter v1 zero dir id", 1, probeAdd(func(q addVoter) { q.VoterDirectoryID = uuid.Nil })},
	{"AddRaftVoter v1 negative id", 1, probeAdd(func(q addVoter) { q.VoterID = -1 })},
	{"AddRaftVoter v1 wrong listener", 1, probeAdd(func(q addVoter) { q.Listeners[0].Name = "FOO" })},
	{"AddRaftVoter v1 listener in lower case, nobody listens there", 1, probeAdd(func(q addVoter) { q.Listeners[0].Name = "controller" })},
	{"AddRaftVoter v1 existing voter id", 1, probeAdd(func(q addVoter) { q.VoterID = 1 })},

	{"RemoveRaftVoter v0 wrong dir", 0, probeRemove(1, probeKey.DirectoryID)},
	{"RemoveRaftVoter v0 zero dir", 0, probeRemove(1, uuid.Nil)},
	{"RemoveRaftVoter v0 the only voter", 0, probeRemove(1, leaderDir)},

	{"UpdateRaftVoter v0 unknown voter", 0, probeUpdate(func(q updateVoter) { q.VoterID = 44 })},
	{"UpdateRaftVoter v0 range without the finalized level", 0, probeUpdate(func(q updateVoter) { q.KRaftVersionFeature.MaxSupportedVersion = 0 })},
	{"UpdateRaftVoter v0 lower epoch", 0, probeUpdate(func(q updateVoter) { q.CurrentLeaderEpoch = 0 })},

	{"Vote v2 pre-vote with a HIGHER epoch", 2, probeVote(func(_ vote, p voteP) { p.CandidateEpoch = 6 })},
	{"DescribeQuorum v2 four seconds later", 2, probeDescribe(metadataTopic)},
}

// TestWireProbes sends the hand-made requests of the recording to a core in the place of the real leader.
func TestWireProbes(t *testing.T) {
	data, err := os.ReadFile("testdata/traces/probes.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines [][2]string
	for line := range strings.Lines(string(data)) {
		if name, answer, ok := strings.Cut(strings.TrimSpace(line), "->"); ok && line[0] != '#' {
			lines = append(lines, [2]string{strings.TrimSpace(name), strings.TrimSpace(answer)})
		}
	}
	p := newReplayer(t, nil, replay{trace: "probes", node: "1", bootstrap: []string{"1"}, zero: []string{"1"}})
	replaySteps["append"](p, []string{"19", "1048"})
	differences := 0
	for i, probe := range probes {
		if i >= len(lines) || lines[i][0] != probe.name {
			t.Fatalf("probe %d is %q, the recording has %q", i, probe.name, lines[min(i, len(lines)-1)][0])
		}
		p.step = probe.name
		if i == len(probes)-1 {
			// The node leads again, and the layer above has written on.
			replaySteps["tick"](p, []string{"4000"})
			replaySteps["append"](p, []string{"37"})
		}
		got, want := p.probe(probe), lines[i][1]
		if d, ok := probeDifferences[probe.name]; ok {
			want = d.ours
			if lines[i][1] == want {
				t.Errorf("%s: ours is no difference", probe.name)
			}
			differences++
		}
		if code, message, ok := strings.Cut(want, ` "`); ok && message != `"` {
			// The messages are our own words.
			want = code + ` "` + strings.TrimPrefix(got, code+` "`)
			if strings.HasSuffix(got, ` ""`) {
				want = code + " and a message"
			}
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", probe.name, got, want)
		}
	}
	if len(lines) != len(probes) || differences != len(probeDifferences) {
		t.Errorf("%d probes of %d, %d differences of %d", len(probes), len(lines), differences, len(probeDifferences))
	}
}

// probe sends one and returns the answer as the recording writes it.
func (p *replayer) probe(probe probe) string {
	q := probe.request()
	if oldest, newest := served(kmsg.Key(q.Key())); probe.version < oldest || probe.version > newest {
		return "connection: EOF"
	}
	q.SetVersion(probe.version)
	q, _, _, err := decodeRequestFrame(requestFrame(q, "probe", 1))
	if err != nil {
		p.fail("%v", err)
	}
	r, w := wire.DecodeRaftRequest(q, wireCluster)
	if w == nil {
		s := p.receive("probe", q, r)
		if q.Key() == int16(kmsg.AddRaftVoter) && s.response == nil {
			replaySteps["failed"](p, []string{"44"})
		}
		var payload []byte
		switch r := s.response.(type) {
		case nil:
			p.fail("no answer")
		case *raft.FetchResponse:
			payload = p.read(r.Read)
		}
		w = wire.EncodeRaftResponse(q, s.response, payload, func(m raft.Millis) int64 { return int64(m) })
	}
	w, _, err = wire.DecodeResponse(q, responseFrame(w, 1))
	if err != nil {
		p.fail("%v", err)
	}
	switch w := w.(type) {
	case *kmsg.DescribeQuorumResponse:
		a := w.Topics[0].Partitions[0]
		return fmt.Sprintf("top %d part %d leader %d epoch %d hw %d", w.ErrorCode, a.ErrorCode, a.LeaderID, a.LeaderEpoch, a.HighWatermark)
	case *kmsg.VoteResponse:
		if len(w.Topics) == 0 {
			return fmt.Sprintf("top %d nodes %d", w.ErrorCode, len(w.NodeEndpoints))
		}
		a := w.Topics[0].Partitions[0]
		return fmt.Sprintf("top %d part %d leader %d epoch %d granted %v nodes %d", w.ErrorCode, a.ErrorCode, a.LeaderID, a.LeaderEpoch, a.VoteGranted, len(w.NodeEndpoints))
	case *kmsg.BeginQuorumEpochResponse:
		if len(w.Topics) == 0 {
			return fmt.Sprintf("top %d", w.ErrorCode)
		}
		a := w.Topics[0].Partitions[0]
		return fmt.Sprintf("top %d part %d leader %d epoch %d", w.ErrorCode, a.ErrorCode, a.LeaderID, a.LeaderEpoch)
	case *kmsg.FetchResponse:
		if len(w.Topics) == 0 {
			return fmt.Sprintf("top %d", w.ErrorCode)
		}
		a := w.Topics[0].Partitions[0]
		return fmt.Sprintf("top %d part %d hw %d logstart %d records %dB diverging(%d,%d) leader(%d,%d) snapshot(%d,%d) nodes %d",
			w.ErrorCode, a.ErrorCode, a.HighWatermark, a.LogStartOffset, len(a.RecordBatches), a.DivergingEpoch.Epoch, a.DivergingEpoch.EndOffset,
			a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch, a.SnapshotID.EndOffset, a.SnapshotID.Epoch, len(w.Brokers))
	case *kmsg.FetchSnapshotResponse:
		if len(w.Topics) == 0 {
			return fmt.Sprintf("top %d", w.ErrorCode)
		}
		a := w.Topics[0].Partitions[0]
		if a.Bytes == nil {
			p.fail("null bytes")
		}
		return fmt.Sprintf("top %d part %d size %d bytes %d leader(%d,%d) nodes %d", w.ErrorCode, a.ErrorCode, a.Size, len(a.Bytes),
			a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch, len(w.NodeEndpoints))
	case *kmsg.AddRaftVoterResponse:
		return fmt.Sprintf("error %d %q", w.ErrorCode, text(w.ErrorMessage))
	case *kmsg.RemoveRaftVoterResponse:
		return fmt.Sprintf("error %d %q", w.ErrorCode, text(w.ErrorMessage))
	case *kmsg.UpdateRaftVoterResponse:
		l := w.CurrentLeader
		return fmt.Sprintf("error %d leader(%d,%d %s:%d)", w.ErrorCode, l.LeaderID, l.LeaderEpoch, l.Host, l.Port)
	}
	p.fail("%T", w)
	return ""
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
