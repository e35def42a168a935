package controller

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// exchange is a line of a recording: what a real controller answered to a request, and which records it wrote after
// it; testdata/README.md has more.
type exchange struct {
	Step     string
	At       raft.Millis
	Base     raft.Offset
	Key      int16
	Version  int16
	Request  string
	Response string
	Foreign  bool
	Values   []string
}

func readExchanges(t testing.TB, file string) []exchange {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []exchange
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (e exchange) records(t testing.TB) []record.Record {
	t.Helper()
	var list []record.Record
	for _, v := range e.Values {
		r, err := record.Decode(unhex(t, v))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func (e exchange) request(t testing.TB) kmsg.Request {
	t.Helper()
	q := kmsg.RequestForKey(e.Key)
	q.SetVersion(e.Version)
	if err := q.ReadFrom(unhex(t, e.Request)); err != nil {
		t.Fatal(err)
	}
	return q
}

// texts shows records. The order of partitions is that of a hash map in Kafka, so they are sorted.
func texts(records []record.Record) []string {
	var list []string
	from := 0
	for i, r := range records {
		list = append(list, string(r.AppendJSON(nil)))
		if r.Message != record.PartitionChange {
			slices.Sort(list[from:i])
			from = i + 1
		}
	}
	slices.Sort(list[from:])
	return list
}

// fences reports whether r fences a broker that is fenced already: Kafka writes such records, we don't.
func fencesAgain(image *metadata.Image, r record.Record) bool {
	return r.Message == record.BrokerRegistrationChange && r.Int("Fenced") == 1 &&
		image.Broker(int32(r.Int("BrokerId"))) != nil && image.Broker(int32(r.Int("BrokerId"))).Fenced
}

// TestKafka sends a Controller what a real one was sent, and compares answers and records.
func TestKafka(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			c := New(Config{
				NodeID: 100, ClusterID: "MkU3OEVBNTcwNTJENDM2Qg", SessionTimeoutMillis: 3000, MinInSyncReplicas: "1",
			}, metadata.NewImage(), 1, 0, false)
			kafka := metadata.NewImage()
			for _, e := range readExchanges(t, file) {
				replayExchange(t, c, kafka, e)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func replayExchange(t *testing.T, c *Controller, kafka *metadata.Image, e exchange) {
	t.Helper()
	all := e.records(t)
	var want []record.Record
	for i, r := range all {
		if !fencesAgain(kafka, r) {
			want = append(want, r)
		}
		if err := kafka.Replay(r, e.Base+raft.Offset(i)); err != nil {
			t.Fatalf("%s: %v", e.Step, err)
		}
	}
	if e.Foreign {
		if err := c.Appended(e.Base, all); err != nil {
			t.Fatalf("%s: %v", e.Step, err)
		}
		return
	}
	next := e.Base
	var got []record.Record
	add := func(records []record.Record) {
		got = append(got, records...)
		if err := c.Appended(next, records); err != nil {
			t.Fatalf("%s: %v", e.Step, err)
		}
		next += raft.Offset(len(records))
	}
	if e.Key >= 0 {
		q := e.request(t)
		answer := q.ResponseKind()
		if err := answer.ReadFrom(unhex(t, e.Response)); err != nil {
			t.Fatal(err)
		}
		if a, ok := answer.(*kmsg.BrokerRegistrationResponse); ok && a.ErrorCode == 0 {
			next = raft.Offset(a.BrokerEpoch)
		}
		records, resp := c.Handle(e.At, next, q)
		if g, w := resp.AppendTo(nil), unhex(t, e.Response); !bytes.Equal(g, w) {
			t.Errorf("%s at %d:\n got %+v\nwant %+v", e.Step, e.At, resp, answer)
		}
		add(records)
		// In Kafka a broker that was told to go is in the way of its next incarnation.
		for id, s := range c.sessions {
			s.leaving = false
			c.sessions[id] = s
		}
	}
	// The real one looked at its sessions at other times.
	for _, late := range []raft.Millis{0, 100, 200, 300, 400, 500} {
		if len(got) < len(want) {
			c.nextCheck = 0
			add(c.Tick(e.At+late, next))
		}
	}
	// Kafka decides about a lost directory without a look at what the same heartbeat has changed before, and so changes
	// a partition twice.
	if g, w := texts(got), slices.Compact(texts(want)); !slices.Equal(g, w) {
		t.Errorf("%s at %d:\n got %s\nwant %s", e.Step, e.At, strings.Join(g, "\n     "), strings.Join(w, "\n     "))
	}
}
