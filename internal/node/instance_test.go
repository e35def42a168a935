package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/config"
	"kstorage/internal/kafkaid"
	"kstorage/internal/wire"
)

// lines is a writer that several goroutines use.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serving returns a broker and controller with both listeners open to clients, and what ends it. It is not registered.
func serving(t *testing.T, requests *lines) (n *node, stop func()) {
	t.Helper()
	dir := t.TempDir()
	options := aloneIn(t, dir)
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte("process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"+
		"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:1\nlog.dirs="+filepath.Join(dir, "d")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if options.Config, err = config.Load(properties, func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	options.RequestLog = requests
	n = newNode(options)
	if err := n.open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { n.quorum.run() })
	parts.Go(func() { n.cluster.run(ctx) })
	for _, s := range n.servers {
		serve := n.serve(s)
		parts.Go(func() { serve() })
	}
	return n, sync.OnceFunc(func() {
		n.quorum.fail(errStopped)
		cancel()
		for _, s := range n.servers {
			s.server.Close()
		}
		n.forwarding.close()
		parts.Wait()
		n.close()
	})
}

// conversation is a connection to a listener.
type conversation struct {
	t  *testing.T
	c  net.Conn
	r  *bufio.Reader
	id int32
}

func converse(t *testing.T, s *server) *conversation {
	t.Helper()
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &conversation{t: t, c: c, r: bufio.NewReader(c)}
}

func (c *conversation) ask(q kmsg.Request, instance uuid.UUID) kmsg.Response {
	c.t.Helper()
	c.id++
	if _, err := c.c.Write(wire.AppendRequest(nil, q, wire.Self{ClientID: "conversation", InstanceID: instance}, c.id)); err != nil {
		c.t.Fatal(err)
	}
	frame, err := wire.ReadFrame(c.r, wire.MaxFrame, nil)
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(q.Key()), q.GetVersion(), err)
	}
	r, id, err := wire.DecodeResponse(q, frame)
	if err != nil || id != c.id {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(q.Key()), q.GetVersion(), err)
	}
	return r
}

var idA, idB = uuid.UUID{0xa}, uuid.UUID{0xb}

func softly() *kmsg.ApiVersionsRequest {
	q := kmsg.NewPtrApiVersionsRequest()
	q.Version, q.ClientSoftwareName, q.ClientSoftwareVersion = 3, "test", "1"
	return q
}

// TestEveryAPIRefusesAnotherInstance asks all that both listeners serve, in each flexible version, for another instance than that
// of the connection: each answer says so in its own shape, and the connection goes on.
func TestEveryAPIRefusesAnotherInstance(t *testing.T) {
	var log lines
	n, stop := serving(t, &log)
	defer stop()
	refused, asked := 0, 0
	for _, s := range n.servers {
		apis := brokerAPIs
		if s.IsController {
			apis = controllerAPIs
		}
		c := converse(t, s)
		if code := wire.ErrorCode(c.ask(softly(), idA)); code != 0 {
			t.Fatalf("ApiVersions: %s", wire.ErrorName(code))
		}
		for _, api := range append(apis, wire.API{Key: int16(kmsg.ApiVersions), Max: 5}) {
			for version := api.Min; version <= api.Max; version++ {
				q := kmsg.RequestForKey(api.Key)
				q.SetVersion(version)
				if !q.IsFlexible() {
					continue
				}
				topic := "t"
				if q, ok := q.(*kmsg.MetadataRequest); ok {
					q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
				}
				asked++
				if code := wire.ErrorCode(c.ask(q, idB)); code != codeInvalidRequest {
					t.Errorf("%s %s v%d: %s", s.Name, kmsg.NameForKey(api.Key), version, wire.ErrorName(code))
				} else {
					refused++
				}
				if code := wire.ErrorCode(c.ask(softly(), idA)); code != 0 {
					t.Fatalf("the connection behind %s: %s", kmsg.NameForKey(api.Key), wire.ErrorName(code))
				}
			}
		}
	}
	stop()
	if count := strings.Count(log.String(), `"error":"INVALID_REQUEST"`); count != refused || refused < 40 {
		t.Errorf("%d of %d refused, %d in the request log", refused, asked, count)
	}
	t.Logf("%d APIs and versions", refused)
}

// TestTelemetryOverTheBrokersListener has the rows of the table of KIP-1313 over real connections.
func TestTelemetryOverTheBrokersListener(t *testing.T) {
	n, stop := serving(t, new(lines))
	defer stop()
	n.cluster.telemetry.Subscribe(maps.All(map[string]map[string]string{"s": {"metrics": "a.", "interval.ms": "200000", "match": "client_software_name=test"}}))
	broker := n.servers[0]
	if broker.IsController {
		broker = n.servers[1]
	}
	subscriptions := func(id uuid.UUID) *kmsg.GetTelemetrySubscriptionsRequest {
		return &kmsg.GetTelemetrySubscriptionsRequest{ClientInstanceID: id}
	}
	fresh := 0
	for _, test := range []struct {
		name         string
		header, body uuid.UUID
		get, push    int16
	}{
		{"initial request of KIP-714", uuid.Nil, uuid.Nil, 0, codeInvalidRequest},
		{"non-initial request of KIP-714", uuid.Nil, idA, 0, 0},
		{"header, zero body", idA, uuid.Nil, codeInvalidRequest, codeInvalidRequest},
		{"header, another id in the body", idA, idB, codeInvalidRequest, codeInvalidRequest},
		{"header, the same id in the body", idB, idB, 0, 0},
	} {
		c := converse(t, broker)
		c.ask(softly(), test.header)
		r := c.ask(subscriptions(test.body), test.header).(*kmsg.GetTelemetrySubscriptionsResponse)
		if r.ErrorCode != test.get || r.ErrorCode == 0 && (len(r.RequestedMetrics) != 1 || r.PushIntervalMillis != 200000 || r.TelemetryMaxBytes != 1<<20) {
			t.Errorf("%s: %+v", test.name, r)
		}
		switch id := uuid.UUID(r.ClientInstanceID); {
		case test.get != 0 && id != uuid.Nil, test.get == 0 && id == uuid.Nil, test.get == 0 && test.body != uuid.Nil && id != test.body:
			t.Errorf("%s: id %s", test.name, id)
		}
		push := kmsg.NewPtrPushTelemetryRequest()
		push.ClientInstanceID, push.SubscriptionID, push.Metrics = test.body, r.SubscriptionID, []byte{10, 0}
		p := c.ask(push, test.header).(*kmsg.PushTelemetryResponse)
		if p.ErrorCode != test.push {
			t.Errorf("%s: push: %s", test.name, wire.ErrorName(p.ErrorCode))
		}
		if p.ErrorCode == 0 {
			fresh++
		}
		if test.get == 0 { // before the interval is over
			if again := c.ask(subscriptions(r.ClientInstanceID), test.header).(*kmsg.GetTelemetrySubscriptionsResponse); wire.ErrorName(again.ErrorCode) != "THROTTLING_QUOTA_EXCEEDED" {
				t.Errorf("%s: again: %+v", test.name, again)
			}
		}
	}
	if pushed := n.cluster.telemetry.Pushed(n.Now()); len(pushed) != fresh {
		t.Errorf("%d pushes kept of %d", len(pushed), fresh)
	}
}

// TestRequestLog has a line for each request, of whatever outcome.
func TestRequestLog(t *testing.T) {
	var log lines
	n, stop := serving(t, &log)
	defer stop()
	for _, s := range n.servers {
		if s.IsController {
			continue
		}
		c := converse(t, s)
		c.ask(softly(), idA)
		c.ask(kmsg.NewPtrMetadataRequest(), idA) // header 1
		c.ask(&kmsg.MetadataRequest{Version: 13}, idB)
		q := kmsg.NewPtrProduceRequest()
		q.Version = 9
		c.c.Write(wire.AppendRequest(nil, q, wire.Self{InstanceID: idA}, 9))
		if _, err := c.r.ReadByte(); err == nil {
			t.Error("Produce is answered")
		}
	}
	stop()
	type line struct {
		Time, Listener, Remote, API string
		APIKey, Version             int16
		ClientID, ClientInstanceID  *string
		LatencyMicros               *int64
		Error                       *string
	}
	text := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	var got []string
	for l := range strings.Lines(log.String()) {
		d := json.NewDecoder(strings.NewReader(l))
		d.DisallowUnknownFields()
		var one line
		if err := d.Decode(&one); err != nil {
			t.Fatalf("%v in %s", err, l)
		}
		if one.Time == "" || one.LatencyMicros == nil || *one.LatencyMicros < 0 || !strings.HasPrefix(one.Remote, "127.0.0.1:") || one.Listener != "PLAINTEXT" {
			t.Errorf("line %s", l)
		}
		got = append(got, strings.Join([]string{one.API, text(one.ClientID), text(one.ClientInstanceID), text(one.Error)}, " "))
	}
	want := []string{
		"ApiVersions conversation " + kafkaid.String(idA) + " null",
		"Metadata conversation null null",
		"Metadata conversation " + kafkaid.String(idB) + " INVALID_REQUEST",
		"Produce  " + kafkaid.String(idA) + " API not served on this listener",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
