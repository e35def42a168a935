package raft_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// take returns the oldest request to a node that no step has had yet.
func (p *replayer) take(api kmsg.Key, to string) *sentRequest {
	for _, s := range p.sent {
		if !s.shown && s.to == to && s.api == api {
			s.shown = true
			return s
		}
	}
	p.fail("no %s is sent to %s", kmsg.NameForKey(int16(api)), to)
	return nil
}

// waiting returns the last request to a node that has no answer yet, and counts it as shown.
func (p *replayer) waiting(api kmsg.Key, to string) *sentRequest {
	for _, s := range slices.Backward(p.sent) {
		if !s.answered && s.api == api && (to == "" || s.to == to) {
			s.shown, s.answered = true, true
			return s
		}
	}
	p.fail("no %s to %s waits for an answer", kmsg.NameForKey(int16(api)), to)
	return nil
}

func (p *replayer) answer(s *sentRequest, r raft.Response) {
	p.do(raft.Answered{ID: s.send.ID, Response: r})
}

// frame is a step of the recording.
func (p *replayer) frame(f *traceFrame, words []string) {
	node := fmt.Sprint(p.id)
	p.trace.shown[f.name] = true
	if f.from != node && f.to != node {
		p.fail("it doesn't concern node %s", node)
	}
	if !f.response {
		if f.from == node {
			p.checkSent(f)
		}
		if f.to == node {
			q, _, _ := f.request(p.t)
			r, refused := wire.DecodeRaftRequest(q, wireCluster)
			if refused != nil {
				p.fail("refused: %+v", refused)
			}
			p.receive(f.from, q, r)
		}
		return
	}
	if f.from == node {
		p.checkAnswer(f)
	}
	if f.to == node {
		p.receiveAnswer(f, f.from, words)
	}
}

func (p *replayer) receive(from string, q kmsg.Request, r raft.Request) *servedRequest {
	p.nextID++
	s := &servedRequest{id: p.nextID, from: from, request: q}
	p.served = append(p.served, s)
	p.do(raft.Received{ID: s.id, Request: r})
	return s
}

// checkSent compares a request that the core has sent.
func (p *replayer) checkSent(f *traceFrame) {
	s := p.take(f.api, f.to)
	want, clientID, correlationID := f.request(p.t)
	q, err := wire.EncodeRaftRequest(s.send.Request, f.version)
	if err != nil {
		p.fail("%v", err)
	}
	maskRequest(q, want)
	if got := requestFrame(q, clientID, correlationID); !bytes.Equal(got, f.bytes) {
		p.fail("%s", diffBytes(got, f.bytes, q, want))
	}
	p.trace.made[f.name] = true
}

// checkAnswer compares an answer that the core has given.
func (p *replayer) checkAnswer(f *traceFrame) {
	var s *servedRequest
	for _, o := range p.served {
		if o.request != nil && !o.shown && o.from == f.to && o.request.Key() == int16(f.api) && (o.response != nil || s == nil) {
			s = o
		}
	}
	if s == nil {
		p.fail("there was no such request")
	}
	if s.response == nil {
		p.fail("the core has not answered")
	}
	s.shown = true
	want, correlationID := f.decodedResponse(p.t)
	var payload []byte
	switch r := s.response.(type) {
	case *raft.FetchResponse:
		payload = p.read(r.Read)
		if f.made {
			clear(payload) // the recording has their size
		}
	case *raft.FetchSnapshotResponse:
		payload = want.(*kmsg.FetchSnapshotResponse).Topics[0].Partitions[0].Bytes
		if int(r.Read) != len(payload) {
			p.fail("%d bytes of the snapshot, not %d", r.Read, len(payload))
		}
	}
	got := wire.EncodeRaftResponse(s.request, s.response, payload, func(m raft.Millis) int64 { return int64(m) })
	maskResponse(got, want)
	if frame := responseFrame(got, correlationID); !bytes.Equal(frame, f.bytes) {
		p.fail("%s", diffBytes(frame, f.bytes, got, want))
	}
	p.trace.made[f.name] = true
}

// read returns the bytes of batches.
func (p *replayer) read(r raft.LogRange) (data []byte) {
	for _, b := range p.log {
		if b.LastOffset >= r.From && b.BaseOffset < r.End {
			data = append(data, b.Bytes...)
		}
	}
	return data
}

// receiveAnswer hands in the answer of a frame, from a node.
func (p *replayer) receiveAnswer(f *traceFrame, from string, words []string) {
	s := p.answeredBy(f, from)
	w, _ := f.decodedResponse(p.t)
	r, payload, err := wire.DecodeRaftResponse(w)
	if err != nil {
		p.fail("%v", err)
	}
	switch r := r.(type) {
	case *raft.FetchResponse:
		r.Batches = p.batches(words, p.core.Status().LogEnd, r.Epoch, r.LeaderID)
		if (len(payload) > 0) != (len(r.Batches) > 0) {
			p.fail("%d bytes of records, %d batches", len(payload), len(r.Batches))
		}
	case *raft.FetchSnapshotResponse:
		r.Bytes = payload
	}
	p.answer(s, r)
}

// answeredBy is the request that a frame answers: the last one. Only a pre-vote can have been won before its last answer comes, and the
// Vote to the same node is under way by then: the frames of Votes answer those that frames have shown.
func (p *replayer) answeredBy(f *traceFrame, from string) *sentRequest {
	if f.api == kmsg.Vote {
		for _, s := range p.sent {
			if s.shown && !s.answered && s.api == f.api && s.to == from {
				s.answered = true
				return s
			}
		}
	}
	return p.waiting(f.api, from)
}

func (p *replayer) run() {
	steps, err := os.ReadFile(filepath.Join("testdata", "replays", p.r.steps+".txt"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(steps)) {
		p.step = strings.TrimSpace(line)
		words := strings.Fields(p.step)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) >= 3 {
			if f := p.trace.byName[strings.Join(words[:3], " ")]; f != nil {
				p.frame(f, words[3:])
				continue
			}
		}
		do, ok := replaySteps[words[0]]
		if !ok {
			p.fail("no such frame and no such step")
		}
		do(p, words[1:])
	}
	p.step = "at the end"
	for i, s := range p.sent {
		if _, fetch := s.send.Request.(*raft.FetchRequest); fetch && i == len(p.sent)-1 {
			continue // the next one is under way when a replay ends
		}
		if !s.shown {
			p.fail("the core has sent a %T to %s that is in no step: %+v", s.send.Request, s.to, s.send.Request)
		}
	}
}

var replaySteps = map[string]func(*replayer, []string){
	"tick": func(p *replayer, args []string) {
		p.now += raft.Millis(p.int(args[0]))
		p.do(raft.Tick{})
	},
	"waited": func(p *replayer, _ []string) {
		p.now += 500
		p.do(raft.Tick{})
	},
	"idle": func(p *replayer, args []string) {
		for range p.int(args[0]) / 500 {
			p.now += 500
			p.do(raft.Tick{})
			s := p.waiting(kmsg.Fetch, "")
			p.answer(s, p.news())
		}
	},
	"pick":   func(p *replayer, args []string) { p.pick = int64(p.int(args[0])) },
	"hidden": func(p *replayer, args []string) { p.take(keyOf(args[0]), args[1]).answered = true },
	"like": func(p *replayer, args []string) {
		f := p.trace.byName[strings.Join(args[:3], " ")]
		if f == nil {
			p.fail("no such frame")
		}
		p.receiveAnswer(f, args[4], nil)
	},
	"granted": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Vote, args[0])
		r := &raft.VoteResponse{LeaderView: raft.LeaderView{LeaderID: raft.None, Epoch: p.core.Status().Epoch}, VoteGranted: true}
		p.answer(s, r)
	},
	"fetched": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Fetch, "")
		r := p.news()
		for _, arg := range args {
			if v, ok := strings.CutPrefix(arg, "hw="); ok {
				r.HighWatermark = raft.Offset(p.int(v))
			}
		}
		r.Batches = p.batches(args, p.core.Status().LogEnd, r.Epoch, r.LeaderID)
		p.answer(s, r)
	},
	"fenced": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Fetch, args[0])
		leader := p.nodes[args[1]]
		p.answer(s, &raft.FetchResponse{
			Partition:     raft.FencedLeaderEpoch,
			LeaderView:    raft.LeaderView{LeaderID: leader.Key.NodeID, Epoch: raft.Epoch(p.int(args[2])), Endpoint: leader.Endpoints[0]},
			HighWatermark: raft.Unknown,
		})
	},
	"offered": func(p *replayer, args []string) {
		s := p.waiting(kmsg.Fetch, "")
		r := p.news()
		r.SnapshotID = &raft.SnapshotID{EndOffset: raft.Offset(p.int(args[0])), Epoch: raft.Epoch(p.int(args[1]))}
		p.answer(s, r)
	},
	"failed": func(p *replayer, args []string) {
		for _, s := range slices.Backward(p.sent) {
			if !s.answered && s.to == args[0] {
				s.shown, s.answered = true, true
				p.do(raft.SendFailed{ID: s.send.ID, Reason: raft.Disconnected})
				return
			}
		}
		p.fail("nothing waits for it")
	},
	"fetches": func(p *replayer, args []string) {
		key := p.voters(args[:1])[0].Key
		p.receive(fmt.Sprint(key.NodeID), frameOfFetch, &raft.FetchRequest{
			ClusterID:        &wireCluster,
			Replica:          key,
			MaxWaitMillis:    500,
			MaxBytes:         1 << 20,
			Epoch:            p.core.Status().Epoch,
			FetchOffset:      raft.Offset(p.int(args[1])),
			LastFetchedEpoch: raft.Epoch(p.int(args[2])),
			HighWatermark:    raft.Offset(p.int(args[3])),
		})
		s := p.served[len(p.served)-1]
		if r, ok := s.response.(*raft.FetchResponse); ok {
			if r.Partition != raft.NoError {
				p.fail("answered with %+v", r)
			}
		}
	},
	"votes": func(p *replayer, args []string) {
		s := p.receive(args[0], nil, &raft.VoteRequest{
			ClusterID:    &wireCluster,
			Voter:        p.nodes[p.r.node].Key,
			Replica:      p.nodes[args[0]].Key,
			ReplicaEpoch: raft.Epoch(p.int(args[1])),
			LastEpoch:    raft.Epoch(p.int(args[2])),
			LastOffset:   raft.Offset(p.int(args[3])),
		})
		if r, ok := s.response.(*raft.VoteResponse); !ok || !r.VoteGranted {
			p.fail("answered with %+v", s.response)
		}
	},
	"probed": func(p *replayer, args []string) {
		p.answer(p.waiting(kmsg.ApiVersions, args[0]), &raft.ApiVersionsResponse{HasKRaftVersion: true, MaxKRaftVersion: 1})
	},
	"append": func(p *replayer, args []string) {
		s := p.core.Status()
		size := 72
		if len(args) == 2 {
			size = p.int(args[1])
		}
		r := p.receive("", nil, &raft.AppendRequest{Batch: raft.Batch{
			BaseOffset: s.LogEnd, LastOffset: raft.Offset(p.int(args[0])) - 1, Epoch: s.Epoch, Bytes: make([]byte, size),
		}})
		if a, ok := r.response.(*raft.AppendResponse); !ok || a.Code != raft.NoError {
			p.fail("answered with %+v", r.response)
		}
	},
	"upgrade": func(p *replayer, _ []string) {
		s := p.receive("", nil, &raft.UpgradeRequest{Epoch: p.core.Status().Epoch, Version: 1})
		if r, ok := s.response.(*raft.UpgradeResponse); !ok || r.Code != raft.NoError {
			p.fail("answered with %+v", s.response)
		}
	},
	"snapshot": func(p *replayer, args []string) {
		s, err := p.core.SnapshotHeader(raft.SnapshotID{EndOffset: raft.Offset(p.int(args[0])), Epoch: raft.Epoch(p.int(args[1]))})
		if err != nil {
			p.fail("%v", err)
		}
		s.SizeBytes = int64(p.int(args[2]))
		p.do(raft.SnapshotCreated{Snapshot: s})
	},
	"clean":    func(p *replayer, _ []string) { p.do(raft.Clean{WallMillis: 1 << 40}) },
	"shutdown": func(p *replayer, _ []string) { p.do(raft.Shutdown{}) },
	"is": func(p *replayer, args []string) {
		s := p.core.Status()
		if got := fmt.Sprint(s.Role, " ", s.Epoch, " ", s.HighWatermark); got != strings.Join(args, " ") {
			p.fail("it is %s", got)
		}
	},
}

// frameOfFetch stands for the frame of a Fetch that the recording doesn't show; its answer may be shown.
var frameOfFetch = func() kmsg.Request {
	q := kmsg.NewPtrFetchRequest()
	q.Version = 18
	return q
}()

// news is an answer without records of the node's leader.
func (p *replayer) news() *raft.FetchResponse {
	s := p.core.Status()
	leader := p.nodes[fmt.Sprint(s.LeaderID)]
	r := &raft.FetchResponse{LeaderView: raft.LeaderView{LeaderID: s.LeaderID, Epoch: s.Epoch}, HighWatermark: s.HighWatermark}
	if len(leader.Endpoints) > 0 {
		r.Endpoint = leader.Endpoints[0]
	}
	return r
}

// What is not compared, because it isn't deterministic or not the core's.

// maskRequest: who the client is belongs to the layer of the wire.
func maskRequest(got, want kmsg.Request) {
	if got, ok := got.(*kmsg.ApiVersionsRequest); ok {
		want := want.(*kmsg.ApiVersionsRequest)
		got.ClientSoftwareName, got.ClientSoftwareVersion = want.ClientSoftwareName, want.ClientSoftwareVersion
	}
}

// maskResponse: times that are known are those of the recording.
func maskResponse(got, want kmsg.Response) {
	g, ok := got.(*kmsg.DescribeQuorumResponse)
	if !ok {
		return
	}
	gp, wp := &g.Topics[0].Partitions[0], want.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0]
	mask := func(got, want []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
		for i := range min(len(got), len(want)) {
			if got[i].LastFetchTimestamp >= 0 && want[i].LastFetchTimestamp >= 0 {
				got[i].LastFetchTimestamp = want[i].LastFetchTimestamp
			}
			if got[i].LastCaughtUpTimestamp >= 0 && want[i].LastCaughtUpTimestamp >= 0 {
				got[i].LastCaughtUpTimestamp = want[i].LastCaughtUpTimestamp
			}
		}
	}
	mask(gp.CurrentVoters, wp.CurrentVoters)
	mask(gp.Observers, wp.Observers)
}
