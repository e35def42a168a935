package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

var (
	start = time.Unix(1000, 0)
	idA   = uuid.UUID{0xa}
	idB   = uuid.UUID{0xb}
)

// subscribed is a Telemetry with one subscription of a second, for all.
func subscribed(log io.Writer) *Telemetry {
	t := newTelemetry(log)
	t.Subscribe(maps.All(map[string]map[string]string{"all": {"metrics": "*", "interval.ms": "1000"}}))
	return t
}

// TestCombinations has the rows of the table of header and body.
func TestCombinations(t *testing.T) {
	const refused = "INVALID_REQUEST"
	tests := []struct {
		name         string
		header, body uuid.UUID
		get, push    string
	}{
		{"no header, zero", uuid.Nil, uuid.Nil, "NONE", refused},
		{"no header, an id", uuid.Nil, idA, "NONE", "NONE"},
		{"header, zero", idA, uuid.Nil, refused, refused},
		{"header, another id", idA, idB, refused, refused},
		{"header, the same id", idA, idA, "NONE", "NONE"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			telemetry := subscribed(t.Output())
			c := connect(1, "client", wire.Software{})
			c.request.Header.ClientInstanceID = test.header
			r := c.get(telemetry, start, test.body)
			if got := wire.ErrorName(r.ErrorCode); got != test.get {
				t.Errorf("subscriptions: %s, want %s", got, test.get)
			}
			switch id := uuid.UUID(r.ClientInstanceID); {
			case test.get == refused && id != uuid.Nil,
				test.get != refused && test.body != uuid.Nil && id != test.body,
				test.get != refused && id == uuid.Nil:
				t.Errorf("the answer has the id %s", id)
			}
			if test.get == refused && len(telemetry.instances) > 0 {
				t.Error("a refused request is remembered")
			}
			before := len(telemetry.Pushed(start))
			if got := c.push(telemetry, start, test.body, nil); got != test.push {
				t.Errorf("push: %s, want %s", got, test.push)
			}
			if stored := len(telemetry.Pushed(start)) - before; (stored == 1) != (test.push == "NONE") {
				t.Errorf("%d pushes kept", stored)
			}
		})
	}
}

func TestPushIsKeptDecompressed(t *testing.T) {
	plain := metricsData(metric("a", gauge(point(1, "k", "v"))))
	var zipped, zstded bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(plain)
	z.Close()
	e, _ := zstd.NewWriter(&zstded)
	e.Write(plain)
	e.Close()
	for codec, sent := range map[int8][]byte{0: plain, 1: zipped.Bytes(), 4: zstded.Bytes()} {
		telemetry := subscribed(t.Output())
		c := connect(1, "client", wire.Software{Name: "soft", Version: "2"})
		c.get(telemetry, start, idA)
		memory := bytes.Clone(sent)
		if got := c.push(telemetry, start, idA, func(q *kmsg.PushTelemetryRequest) { q.CompressionType, q.Metrics = codec, memory }); got != "NONE" {
			t.Errorf("codec %d: %s", codec, got)
		}
		clear(memory) // it is the connection's
		pushed := telemetry.Pushed(start)
		if len(pushed) != 1 {
			t.Fatalf("%d pushes", len(pushed))
		}
		p := pushed[0]
		if !bytes.Equal(p.Metrics, plain) || p.InstanceID != idA || p.ClientID != "client" || p.Software.Name != "soft" || p.Remote != "127.0.0.1:40001" || p.At != start {
			t.Errorf("codec %d: %+v", codec, p)
		}
		if len(telemetry.Pushed(start.Add(time.Minute-1))) != 1 || len(telemetry.Pushed(start.Add(time.Minute))) != 0 {
			t.Error("it is not forgotten in a minute")
		}
	}
}

// TestWholeMilliseconds lets a client whose clock has whole milliseconds push a moment early.
func TestWholeMilliseconds(t *testing.T) {
	for passed, want := range map[time.Duration]string{
		999 * time.Millisecond:        "THROTTLING_QUOTA_EXCEEDED",
		999*time.Millisecond + 1:      "NONE",
		time.Second:                   "NONE",
		time.Second + time.Nanosecond: "NONE",
	} {
		telemetry := subscribed(t.Output())
		c := connect(1, "client", wire.Software{})
		c.get(telemetry, start, idA)
		c.push(telemetry, start, idA, nil)
		if got := c.push(telemetry, start.Add(passed), idA, nil); got != want {
			t.Errorf("a push %v after the last one: %s, want %s", passed, got, want)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	telemetry := subscribed(t.Output())
	telemetry.config.MaxBytes = maxPlainBytes
	id := func(i int) uuid.UUID { return uuid.UUID{1, byte(i), byte(i >> 8), byte(i >> 16)} }
	big := bytes.Repeat([]byte{10, 0}, maxPlainBytes/2)
	c := connect(1, "client", wire.Software{})
	for i := range maxInstances + 10 {
		c.get(telemetry, start, id(i))
		if i%500 == 0 {
			if got := c.push(telemetry, start, id(i), func(q *kmsg.PushTelemetryRequest) { q.Metrics = big }); got != "NONE" {
				t.Fatal(got)
			}
		}
	}
	if n := len(telemetry.instances); n != maxInstances || telemetry.recent.Len() != n || telemetry.instances[id(9)] != nil {
		t.Errorf("%d instances", n)
	}
	total := 0
	for _, p := range telemetry.Pushed(start) {
		total += len(p.Metrics) + len(p.ClientID)
	}
	if total > maxStoredBytes || total < maxStoredBytes-maxPlainBytes || telemetry.storedBytes != total {
		t.Errorf("%d bytes kept, %d counted", total, telemetry.storedBytes)
	}
	c = connect(1, strings.Repeat("c", 1<<15-1), wire.Software{}) // names count too
	for i := range 1000 {
		c.get(telemetry, start, id(i))
		c.push(telemetry, start, id(i), nil)
	}
	total = 0
	for _, p := range telemetry.Pushed(start) {
		total += len(p.Metrics) + len(p.ClientID)
	}
	if total > maxStoredBytes || telemetry.storedBytes != total {
		t.Errorf("%d bytes kept with long names, %d counted", total, telemetry.storedBytes)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(append(big, 10, 0))
	z.Close()
	c.get(telemetry, start, idA)
	if got := c.push(telemetry, start, idA, func(q *kmsg.PushTelemetryRequest) { q.CompressionType, q.Metrics = 1, bomb.Bytes() }); got != "TELEMETRY_TOO_LARGE" {
		t.Errorf("%d bytes that are too many when decompressed: %s", bomb.Len(), got)
	}
	telemetry.Pushed(start.Add(time.Hour))
	if len(telemetry.instances) != 0 || telemetry.storedBytes != 0 {
		t.Errorf("an hour later: %d instances, %d bytes", len(telemetry.instances), telemetry.storedBytes)
	}
}

// TestPushesOfNothingCostLittle has messages of empty parts, which a push of some bytes can be when decompressed.
func TestPushesOfNothingCostLittle(t *testing.T) {
	for name, part := range map[string]byte{"labels": pointLabels, "gauges": gaugeField} {
		data := message(1, message(2, message(2, bytes.Repeat([]byte{part<<3 | 2, 0}, 1<<20))))
		if part == pointLabels {
			data = message(1, message(1, bytes.Repeat([]byte{10, 0}, 1<<20)))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		check(data)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(len(data)) {
			t.Errorf("%s: %d bytes for %d", name, allocated, len(data))
		}
	}
}

// TestSubscriptionIDIsTheSameOnAllBrokers looks at what a client meets that goes to another broker.
func TestSubscriptionIDIsTheSameOnAllBrokers(t *testing.T) {
	one, other := subscribed(t.Output()), subscribed(t.Output())
	other.Subscribe(maps.All(map[string]map[string]string{"x": {"metrics": "a,*", "interval.ms": "1000"}, "y": {}}))
	c := connect(1, "client", wire.Software{})
	c.get(one, start, idA)
	if got := c.push(other, start, idA, nil); got != "NONE" {
		t.Error(got)
	}
	if a, b := c.get(one, start.Add(time.Second), idA), c.get(one, start, idB); a.SubscriptionID == b.SubscriptionID {
		t.Error("two clients have the same")
	}
}

func TestSubscriptions(t *testing.T) {
	tests := []struct {
		name   string
		values map[string]string
		client string // its attribute client_id
		want   string // metrics and interval
		log    string
	}{
		{"nothing set", nil, "c", "[] 5m0s", ""},
		{"prefixes", map[string]string{"metrics": " a. , b.,"}, "c", "[a. b.] 5m0s", ""},
		{"all, and more", map[string]string{"metrics": "a,*", "interval.ms": "100"}, "c", "[*] 100ms", ""},
		{"longer than the default", map[string]string{"interval.ms": "3600000"}, "c", "[] 5m0s", ""},
		{"pattern", map[string]string{"metrics": "a", "match": "client_id=c.*"}, "cc", "[a] 5m0s", ""},
		{"pattern with an equals sign", map[string]string{"metrics": "a", "match": "client_id=c=1"}, "c=1", "[a] 5m0s", ""},
		{"the whole must match", map[string]string{"metrics": "a", "match": "client_id=b|c"}, "cc", "[] 5m0s", ""},
		{"of two patterns for one attribute the last counts", map[string]string{"metrics": "a", "match": "client_id=x,client_id=c"}, "c", "[a] 5m0s", ""},
		{"another attribute does not match", map[string]string{"metrics": "a", "match": "client_id=c,client_software_name=x"}, "c", "[] 5m0s", ""},
		{"address and software", map[string]string{"metrics": "a", "match": `client_source_address=127\.0\.0\.1,client_source_port=4000.,client_software_name=soft,client_software_version=2,client_instance_id=Cg.*`}, "c", "[a] 5m0s", ""},
		{"interval too short", map[string]string{"metrics": "a", "interval.ms": "99"}, "c", "[] 5m0s", "from 100 to 3600000"},
		{"interval too long", map[string]string{"metrics": "a", "interval.ms": "3600001"}, "c", "[] 5m0s", "from 100 to 3600000"},
		{"no such attribute", map[string]string{"metrics": "a", "match": "color=red"}, "c", "[] 5m0s", "color=red"},
		{"pattern that Go does not have", map[string]string{"metrics": "a", "match": "client_id=(?=c)c"}, "c", "[] 5m0s", "name=s"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var log strings.Builder
			list := readSubscriptions(maps.All(map[string]map[string]string{"s": test.values}), newTelemetry(&log).config.Log)
			c := connect(1, test.client, wire.Software{Name: "soft", Version: "2"})
			a := assign(list, about(&c.request, idA), idA)
			if got := fmt.Sprint(a.metrics, " ", a.interval); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if (log.Len() > 0) != (test.log != "") || !strings.Contains(log.String(), test.log) {
				t.Errorf("log %q", &log)
			}
		})
	}
}

func TestSamples(t *testing.T) {
	data := metricsData(
		metric("a.count", sum(point(3, "k", "v"), point(4, "k", "w"))),
		metric("b", gauge(point(-1.5))),
	)
	var got []string
	for s, err := range Samples(data) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(s.Name, s.Monotonic, s.Resource, s.Labels, s.Value))
	}
	want := []string{"a.counttrue [{rack r}] [{k v}] 3", "a.counttrue [{rack r}] [{k w}] 4", "bfalse [{rack r}] [] -1.5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for range Samples(data) {
		break // takes no more
	}
	for name, broken := range map[string][]byte{
		"cut off": data[:len(data)-1], "a group": {11}, "field 0": {0, 0}, "a length of 2^63": {10, 255, 255, 255, 255, 255, 255, 255, 255, 127},
		"too many labels":        message(1, message(1, bytes.Repeat([]byte{10, 0}, maxLabels+1))),
		"a name that is no text": message(1, message(2, message(2, message(1, []byte{0xff})))),
	} {
		if check(broken) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzSamples looks for panics, and for more samples than there are bytes for.
func FuzzSamples(f *testing.F) {
	f.Add(metricsData(metric("a", sum(point(1, "k", "v"))), metric("b", gauge(point(2)))))
	f.Add([]byte{10, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		for s, err := range Samples(data) {
			if n++; n > len(data)+1 || err != nil && check(data) == nil {
				t.Fatalf("%d samples of %d bytes, %+v, %v", n, len(data), s, err)
			}
		}
	})
}
