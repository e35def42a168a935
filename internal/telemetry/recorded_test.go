package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

// client is a connection of a test.
type client struct {
	request wire.Request
	id      uuid.UUID // of the last answer to get, as sub
	sub     int32
}

func connect(number int, clientID string, software wire.Software) *client {
	return &client{request: wire.Request{
		Listener: "PLAINTEXT", Software: software,
		Remote: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(40000+number))),
		Header: wire.RequestHeader{ClientID: &clientID},
	}}
}

func (c *client) get(t *Telemetry, now time.Time, id uuid.UUID) *kmsg.GetTelemetrySubscriptionsResponse {
	q := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	q.ClientInstanceID = id
	r := t.Get(now, &c.request, q).(*kmsg.GetTelemetrySubscriptionsResponse)
	if r.ErrorCode == 0 {
		c.id, c.sub = r.ClientInstanceID, r.SubscriptionID
	}
	return r
}

func (c *client) push(t *Telemetry, now time.Time, id uuid.UUID, change func(*kmsg.PushTelemetryRequest)) string {
	q := kmsg.NewPtrPushTelemetryRequest()
	q.ClientInstanceID, q.SubscriptionID, q.Metrics = id, c.sub, bytes.Repeat([]byte{10, 0}, 5)
	if change != nil {
		change(q)
	}
	return wire.ErrorName(t.Push(now, &c.request, q).(*kmsg.PushTelemetryResponse).ErrorCode)
}

func newTelemetry(log io.Writer) *Telemetry {
	return New(Config{MaxBytes: 100000, Random: rand.NewChaCha8([32]byte{}), Log: slog.New(slog.NewTextHandler(log, nil))})
}

// TestAnswersAreKafkas replays what was asked of Kafka.
func TestAnswersAreKafkas(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka.txt")
	if err != nil {
		t.Fatal(err)
	}
	telemetry := newTelemetry(t.Output())
	configs := map[string]map[string]string{}
	clients := map[string]*client{}
	assigned := map[uuid.UUID]string{}
	now := time.Unix(1000, 0)
	id := func(c *client, which string) uuid.UUID {
		switch which {
		case "zero":
			return uuid.Nil
		case "own":
			return c.id
		case "one":
			return metadataTopicID
		}
		return uuid.UUID{0: 7, 15: which[0]}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		asked, want, _ := strings.Cut(line, " -> ")
		word := strings.Fields(asked)
		switch word[0] {
		case "subscription":
			key, value, _ := strings.Cut(strings.TrimPrefix(line, "subscription "+word[1]+" "), "=")
			if configs[word[1]] == nil {
				configs[word[1]] = map[string]string{}
			}
			configs[word[1]][key] = value
			telemetry.Subscribe(maps.All(configs))
		case "connect":
			software := wire.Software{Name: "unknown", Version: "unknown"}
			if len(word) > 3 {
				software = wire.Software{Name: word[3], Version: word[4]}
			}
			clients[word[1]] = connect(len(clients), word[2], software)
		case "close":
			telemetry.Gone(clients[word[1]].request.Remote)
		case "wait":
			millis, err := strconv.Atoi(word[1])
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Duration(millis) * time.Millisecond)
		case "get":
			c := clients[word[1]]
			asked := id(c, word[2])
			r := c.get(telemetry, now, asked)
			// Kafka's sets come in the order of a hash table.
			f := strings.Split(want, " metrics")
			metrics := words(f[1])
			slices.Sort(metrics)
			got := fmt.Sprint(wire.ErrorName(r.ErrorCode), " sub ", r.SubscriptionID != 0, " throttle ", r.ThrottleMillis, " interval ", r.PushIntervalMillis,
				" max ", r.TelemetryMaxBytes, " codecs ", r.AcceptedCompressionTypes)
			parts := strings.Fields(f[0])
			name := parts[1]
			wanted := strings.Join(slices.Concat(parts[:1], parts[2:10], parts[12:]), " ") // without delta: ours is false
			if got != wanted || !slices.Equal(r.RequestedMetrics, metrics) {
				t.Errorf("%s\n got %s %q\nwant %s %q", line, got, r.RequestedMetrics, wanted, metrics)
			}
			switch have := uuid.UUID(r.ClientInstanceID); {
			case name == "zero" && have == uuid.Nil, asked != uuid.Nil && have == asked:
			case asked == uuid.Nil && strings.HasPrefix(name, "assigned") && assigned[have] == "" && have != uuid.Nil:
				assigned[have] = name
			default:
				t.Errorf("%s: id %s", line, have)
			}
		case "push":
			c := clients[word[1]]
			got := c.push(telemetry, now, id(c, word[2]), func(q *kmsg.PushTelemetryRequest) {
				off, _ := strconv.Atoi(word[3])
				codec, _ := strconv.Atoi(word[5])
				size, _ := strconv.Atoi(word[6])
				q.SubscriptionID += int32(off)
				q.Terminating, q.CompressionType = word[4] == "terminating", int8(codec)
				q.Metrics = bytes.Repeat([]byte{10, 0}, size/2+1)[:size]
			})
			if got+" throttle 0" != want {
				t.Errorf("%s: %s", line, got)
			}
		}
	}
	if n := len(telemetry.Pushed(now)); n == 0 {
		t.Error("nothing was kept")
	}
}
