package status

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
)

var update = flag.Bool("update", false, "rewrite what texts are compared with")

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// leading is the state of a leader that is a broker too.
func leading() *State {
	directory := func(n byte) uuid.UUID { return uuid.UUID{0: 1, 15: n} }
	rack := "r1"
	voter := func(id raft.NodeID) raft.Voter {
		return raft.Voter{Key: raft.ReplicaKey{NodeID: id, DirectoryID: directory(byte(id))}, Endpoints: []raft.Endpoint{{Listener: "CONTROLLER", Host: "host", Port: 9090 + uint16(id)}}}
	}
	voters := []raft.Voter{voter(1), voter(2), voter(3)}
	s := &State{
		Now: now, Started: now.Add(-26 * time.Hour), Version: "v1", NodeID: 1, Roles: "broker,controller",
		ClusterID: "Wq9rPWnzQ4uv0sRyMKXc1w", ClusterIDFrom: "given when the node was formatted, stored in d1/meta.properties",
		Quorum: &Quorum{
			Status: raft.Status{
				Role: raft.Leader, Epoch: 7, LeaderID: 1, Voted: raft.ReplicaKey{NodeID: raft.None}, HighWatermark: 100, LogStart: 10, LogEnd: 103,
				LastEpoch: 7, KRaftVersion: 1, Voters: voters, VotersOffset: 101, IsVoter: true, Snapshots: []raft.SnapshotID{{EndOffset: 10, Epoch: 2}},
			},
			LeaderAddress: "host:9091",
			Replicas: []Replica{
				{Key: voters[0].Key, Voter: true, LogEnd: 103, LastFetch: now, LastCaughtUp: now},
				{Key: voters[1].Key, Voter: true, LogEnd: 100, LastFetch: now.Add(-2 * time.Second), LastCaughtUp: now.Add(-time.Minute)},
				{Key: voters[2].Key, Voter: true, LogEnd: raft.Unknown},
				{Key: raft.ReplicaKey{NodeID: 9}, LogEnd: 90, LastFetch: now},
			},
			Rates: Rates{Election: Latency{math.NaN(), math.NaN()}, Commit: Latency{1.25, 3}, Append: 2.5},
		},
		Metadata: &Metadata{
			Offset: 99, Epoch: 7, Timestamp: now.UnixMilli() - 450, Version: features.LatestProduction,
			Levels: []features.Level{{Name: "group.version", Level: 1}, {Name: features.MetadataVersionName, Level: int16(features.LatestProduction)}},
			Brokers: []*metadata.Broker{
				{ID: 1, Rack: &rack, Endpoints: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "host", Port: 9092}}},
				{ID: 8, Fenced: true}, {ID: 9, InControlledShutdown: true},
			},
			Controllers: []*metadata.Controller{{ID: 1, Endpoints: []metadata.Endpoint{{Name: "CONTROLLER", Host: "::1", Port: 9091}}}},
			Topics:      2, Partitions: 30, Loads: 1, Snapshot: Snapshot{SizeBytes: 4096, Written: now.Add(-time.Second)},
		},
		Controller: &Controller{Active: true, Claims: 3},
		Broker:     &Broker{State: "RUNNING", StateCode: 3},
		Events:     []Event{{now.Add(-time.Hour), slog.LevelInfo, "Leader", "node=1 epoch=7"}, {now, slog.LevelWarn, "Waiting", "for=nothing"}},
		Process:    Process{CPUSeconds: 1.5, ResidentBytes: 1 << 20, VirtualBytes: -1, OpenFiles: 12, MaxFiles: 1024, GoVersion: "go1", Goroutines: 9, HeapBytes: 1000, RuntimeBytes: 2000, Collections: 4},
	}
	return s
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not what there is now (%v; -update rewrites it):\n%s", file, err, have)
	}
}

func TestMetrics(t *testing.T) {
	s := leading()
	s.Pushes = pushes(t)
	golden(t, "leader.prom", appendMetrics(nil, s))

	follower := leading()
	follower.Quorum.Role, follower.Quorum.LeaderID, follower.Quorum.Replicas = raft.Follower, 2, nil
	follower.Quorum.Voted.NodeID = 2
	follower.Controller.Active, follower.Broker, follower.Waits = false, nil, "something"
	golden(t, "follower.prom", appendMetrics(nil, follower))

	golden(t, "recovery.prom", appendMetrics(nil, &State{Now: now, Started: now, NodeID: 3, Waits: "its log"}))
}

// TestMetricsFormat: each line is one that Prometheus takes, each metric has one family, and no line comes twice.
func TestMetricsFormat(t *testing.T) {
	s := leading()
	s.Version = "a\\b\"c\nd\xff"
	s.Pushes = pushes(t)
	checkFormat(t, appendMetrics(nil, s))
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\})? (NaN|[+-]?[0-9.e+-]+|[+-]Inf)$`)
	labelPart  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
)

func checkFormat(t testing.TB, text []byte) {
	t.Helper()
	family, seen := "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, _, _ = strings.Cut(name, " ")
			if seen[family] {
				t.Errorf("%s has two families", family)
			}
			seen[family] = true
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || m[1] != family {
			t.Errorf("in the family %s: %q", family, line)
			continue
		}
		id, _, _ := strings.Cut(line, "} ")
		if seen[id] {
			t.Errorf("twice: %q", id)
		}
		seen[id] = true
		labels := map[string]bool{}
		for _, l := range labelPart.FindAllStringSubmatch(m[2], -1) {
			if labels[l[1]] || strings.HasPrefix(l[1], "__") {
				t.Errorf("label %s: %q", l[1], line)
			}
			labels[l[1]] = true
		}
	}
}

const hostile = `<script>alert("x")</script>'&`

func TestPageEscapes(t *testing.T) {
	s := leading()
	s.Version, s.ClusterID, s.ClusterIDFrom, s.Waits, s.Roles = hostile, hostile, hostile, hostile, hostile
	s.Quorum.LeaderAddress = hostile
	s.Quorum.Voters[0].Endpoints[0].Host = hostile
	s.Metadata.Levels[0].Name = hostile
	rack := hostile + "\xff"
	s.Metadata.Brokers[0].Rack = &rack
	s.Metadata.Brokers[0].Endpoints[0] = metadata.Endpoint{Name: hostile, Host: hostile}
	s.Metadata.Controllers[0].Endpoints[0].Host = hostile
	s.Broker.State = hostile
	s.Events = []Event{{now, slog.LevelInfo, hostile, hostile}}
	_, _, html := page(s, httptest.NewRequest("GET", "/", nil))
	if bytes.Contains(html, []byte("<script")) || bytes.Contains(html, []byte("\xff")) {
		t.Errorf("not escaped:\n%s", html)
	}
	if n := bytes.Count(html, []byte(`&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&#39;&amp;`)); n < 11 {
		t.Errorf("%d escaped texts", n)
	}
}

func TestPage(t *testing.T) {
	_, _, html := page(leading(), httptest.NewRequest("GET", "/?reload=off", nil))
	golden(t, "leader.html", html)
	for _, want := range []string{`<html lang="en">`, `<title>Node 1: ready</title>`} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
	if bytes.Contains(html, []byte("refresh")) {
		t.Error("it reloads")
	}
	s := leading()
	for i := range 3 * maxRows {
		s.Metadata.Brokers = append(s.Metadata.Brokers, &metadata.Broker{ID: int32(100 + i)})
	}
	s.Fault = "it is stuck"
	_, _, html = page(s, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{`<meta http-equiv="refresh" content="5">`, `and 403 more`, `<title>Node 1: fault</title>`, `it is stuck`} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("no %s", want)
		}
	}
}

func TestServer(t *testing.T) {
	state := &State{}
	server := NewServer(func(context.Context) *State { return state }, slog.New(slog.DiscardHandler))
	waiting, fault := &State{Waits: "a leader"}, &State{Waits: "a leader", Fault: "stuck"}
	for _, c := range []struct {
		method, path string
		state        *State
		code         int
		body         string
	}{
		{"GET", "/healthz", &State{}, 200, "ok\n"},
		{"GET", "/healthz", waiting, 200, "ok\n"},
		{"GET", "/healthz", fault, 503, "stuck\n"},
		{"GET", "/readyz", &State{}, 200, "ready\n"},
		{"GET", "/readyz", waiting, 503, "waiting for a leader\n"},
		{"GET", "/readyz", fault, 503, "stuck\n"},
		{"GET", "/metrics", fault, 200, "\nkstorage_ready 0\n"},
		{"GET", "/", waiting, 200, "Waiting for a leader"},
		{"HEAD", "/", waiting, 200, ""},
		{"GET", "/other", waiting, 404, ""},
		{"POST", "/metrics", waiting, 405, ""},
	} {
		t.Run(fmt.Sprint(c.method, c.path, c.state.Waits, c.state.Fault), func(t *testing.T) {
			state = c.state
			w := httptest.NewRecorder()
			server.http.Handler.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if c.code != 404 && c.code != 405 && w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Error("headers", w.Header())
			}
		})
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, c := range []struct {
		name             string
		brokers, clients int
	}{{"small", 3, 0}, {"1000 brokers", 1000, 0}, {"100 clients", 3, 100}} {
		s := leading()
		for i := range c.brokers {
			s.Metadata.Brokers = append(s.Metadata.Brokers, &metadata.Broker{ID: int32(100 + i)})
			s.Quorum.Replicas = append(s.Quorum.Replicas, Replica{Key: raft.ReplicaKey{NodeID: raft.NodeID(100 + i)}})
		}
		for i := range c.clients {
			p := pushes(b)[0]
			p.InstanceID = uuid.UUID{0: 2, 15: byte(i)}
			s.Pushes = append(s.Pushes, p)
		}
		for path, answer := range map[string]func(*State, *http.Request) (int, string, []byte){"metrics": metricsText, "page": page} {
			b.Run(c.name+"/"+path, func(b *testing.B) {
				r := httptest.NewRequest("GET", "/", nil)
				b.ReportAllocs()
				for b.Loop() {
					_, _, body := answer(s, r)
					b.SetBytes(int64(len(body)))
				}
			})
		}
	}
}
