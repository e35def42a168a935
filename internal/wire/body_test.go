package wire

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wantNoGoroutines checks that no goroutine of a server is left.
func wantNoGoroutines(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "wire.(*Server)") || strings.Contains(stack, "wire.(*connection)") {
			t.Errorf("left over: %s", stack)
		}
	}
}

// encoded returns the body of q.
func encoded(q kmsg.Request) []byte { return q.AppendTo(nil) }

func TestDecodeBody(t *testing.T) {
	fetch := func(version int16, change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)) kmsg.Request {
		q := kmsg.NewPtrFetchRequest()
		q.Version = version
		p := kmsg.NewFetchRequestTopicPartition()
		change(q, &p)
		q.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		return q
	}
	snapshot := func(version int16) kmsg.Request {
		q := kmsg.NewPtrFetchSnapshotRequest()
		q.Version = version
		q.Topics = []kmsg.FetchSnapshotRequestTopic{{Partitions: []kmsg.FetchSnapshotRequestTopicPartition{{ReplicaDirectoryID: [16]byte{1}}}}}
		return q
	}
	heartbeat := func(version int16, offline, cordoned [][16]byte) kmsg.Request {
		return &kmsg.BrokerHeartbeatRequest{Version: version, OfflineLogDirs: offline, CordonedLogDirs: cordoned}
	}
	clusterID := "c"
	withCluster := func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.ClusterID = &clusterID }
	withDirectory := func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.ReplicaDirectoryID = [16]byte{1} }
	withHighWatermark := func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.HighWatermark = 5 }
	dirs := [][16]byte{{1}}
	fetch12 := encoded(fetch(12, func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition) {}))
	// Fetch v12 ends with the number of its tagged fields; here it has field 1, ReplicaState, of 13 bytes.
	withReplicaState := append(fetch12[:len(fetch12)-1:len(fetch12)-1], append([]byte{1, 1, 13}, make([]byte, 13)...)...)
	// A tagged field that is sent although it has its default: cluster id null.
	withDefault := append(fetch12[:len(fetch12)-1:len(fetch12)-1], 1, 0, 1, 0)
	tests := []struct {
		name         string
		key, version int16
		body         []byte
		err          string // part of the error; "": none
	}{
		{"tag of all flexible versions", 1, 12, encoded(fetch(12, withCluster)), ""},
		{"directory id too early", 1, 16, encoded(fetch(16, withDirectory)), "no tagged field ReplicaDirectoryId"},
		{"directory id", 1, 17, encoded(fetch(17, withDirectory)), ""},
		{"high watermark too early", 1, 17, encoded(fetch(17, withHighWatermark)), "no tagged field HighWatermark"},
		{"high watermark", 1, 18, encoded(fetch(18, withHighWatermark)), ""},
		{"replica state too early", 1, 12, withReplicaState, "no tagged field ReplicaState"},
		{"snapshot's directory id too early", 59, 0, encoded(snapshot(0)), "no tagged field ReplicaDirectoryId"},
		{"snapshot's directory id", 59, 1, encoded(snapshot(1)), ""},
		{"offline directories too early", 63, 0, encoded(heartbeat(0, dirs, nil)), "no tagged field OfflineLogDirs"},
		{"offline directories", 63, 1, encoded(heartbeat(1, dirs, nil)), ""},
		{"cordoned directories too early", 63, 1, encoded(heartbeat(1, nil, dirs)), "no tagged field CordonedLogDirs"},
		{"cordoned directories", 63, 2, encoded(heartbeat(2, dirs, dirs)), ""},
		{"field sent with its default", 1, 12, withDefault, ""},
		{"field sent with its default, bytes behind", 1, 12, append(withDefault, 0), ""},
		{"bytes behind", 1, 12, append(fetch12[:len(fetch12):len(fetch12)], 0), ""},
		{"bytes behind nothing", 18, 0, []byte{0}, ""},
		{"cut off", 1, 12, fetch12[:len(fetch12)-1], "decode"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := decodeBody(test.key, test.version, test.body)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

// maxGrowth is how many bytes of memory a byte of a body may cost, whatever it is.
const maxGrowth = 200

func TestDecodeBodyIsBoundedByTheFrame(t *testing.T) {
	const size = 64 << 10
	worst, which := 0.0, ""
	for key := range int16(kmsg.MaxKey + 1) {
		q := kmsg.RequestForKey(key)
		if q == nil {
			continue
		}
		for version := range q.MaxVersion() + 1 {
			for _, pattern := range [][]byte{
				{0}, {1}, {2}, {0xff}, {0, 0, 0, 1}, {0, 0, 0xff, 0xff}, {0, 0, 0x10, 0}, {0xff, 0xff, 1}, {0xff, 0x7f}, {0x80, 0x80, 3}, // lengths
				{1, 99, 0}, {1, 1, 99, 0}, {2, 0, 1, 99, 0}, {0, 0, 0, 0, 1, 99, 0}, // structs with a tagged field that nobody knows
			} {
				body := bytes.Repeat(pattern, size/len(pattern))
				if q.SetVersion(version); q.IsFlexible() {
					copy(body, []byte{0x80, 0x60}) // an array of thousands
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				decodeBody(key, version, body)
				runtime.ReadMemStats(&after)
				if growth := float64(after.TotalAlloc-before.TotalAlloc) / size; growth > worst {
					worst, which = growth, fmt.Sprintf("%s v%d with % x", kmsg.NameForKey(key), version, pattern)
				}
			}
		}
	}
	t.Logf("worst: %.0f bytes for one of %s", worst, which)
	if worst > maxGrowth {
		t.Errorf("%.0f bytes for one of %s, want at most %d", worst, which, maxGrowth)
	}
}

// A body that could cost 150 times its bytes is short; the metrics that clients push are one field of it, and may be long.
func TestLongBodies(t *testing.T) {
	for _, tt := range []struct {
		reason string
		q      kmsg.Request
		closed bool
	}{
		{"a long request", &kmsg.FetchRequest{Version: 18, Rack: strings.Repeat("x", maxBodyBytes)}, true},
		{"one that is not", &kmsg.FetchRequest{Version: 18, Rack: strings.Repeat("x", maxBodyBytes/2)}, false},
		{"long metrics", &kmsg.PushTelemetryRequest{Metrics: make([]byte, maxBodyBytes)}, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			c := &connection{server: &Server{config: ServerConfig{Handler: handlerFunc(func(context.Context, *Request) kmsg.Response { return kmsg.NewPtrFetchResponse() })}}}
			c.server.served[tt.q.Key()] = API{Key: tt.q.Key(), Max: tt.q.MaxVersion()}
			c.server.ctx = t.Context()
			client, end := net.Pipe()
			defer client.Close()
			c.net = end
			r, err := c.dispatch(RequestHeader{Key: tt.q.Key(), Version: tt.q.GetVersion()}, tt.q.AppendTo(nil), true)
			if (err == errBodyTooLong) != tt.closed || (r == nil) != tt.closed {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}
