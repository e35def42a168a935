package telemetry

import (
	"container/list"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
	"kstorage/internal/record"
	"kstorage/internal/wire"
)

// APIs are those that are served here.
var APIs = []wire.API{{Key: int16(kmsg.GetTelemetrySubscriptions)}, {Key: int16(kmsg.PushTelemetry)}}

// Error codes of Kafka that are not the core's.
const (
	unsupportedCompression = 76
	invalidRecord          = 87
	throttled              = 89
	unknownSubscription    = 117
	tooLarge               = 118
)

const (
	maxInstances   = 4096
	maxPlainBytes  = 4 << 20  // of a push, decompressed
	maxStoredBytes = 16 << 20 // of all
	// An instance is forgotten after so long without a request, or after as many intervals.
	forgetAfter     = time.Minute
	forgetIntervals = 3
)

// codecs are those that a client may use, the best first.
var codecs = []int8{int8(record.Zstd), int8(record.LZ4), int8(record.Gzip), int8(record.Snappy)}

// Config is what a Telemetry needs.
type Config struct {
	MaxBytes int       // telemetry.max.bytes: of a push, as it is sent
	Random   io.Reader // for ids
	Log      *slog.Logger
}

// Telemetry answers the requests of one broker's clients. Its methods may be called from any goroutine.
type Telemetry struct {
	config Config

	mu            sync.Mutex
	subscriptions []subscription
	generation    int // of subscriptions
	instances     map[uuid.UUID]*list.Element
	recent        list.List // of *instance, the one with the newest request first
	storedBytes   int
}

// instance is what is known of an instance of a client.
type instance struct {
	id         uuid.UUID
	remote     string // of its last request
	assignment assignment
	generation int // of the subscriptions that assignment is from
	used       time.Time
	lastGet    time.Time // zero: none since the interval began anew; likewise lastPush
	lastPush   time.Time
	failed     int16 // the code of the last push
	leaving    bool  // the last push was said to be that
	pushed     Push
}

// Push is the newest metrics of an instance.
type Push struct {
	InstanceID uuid.UUID
	ClientID   string
	Software   wire.Software
	Remote     string
	At         time.Time
	Metrics    []byte // MetricsData of OTLP, see Samples; not to be changed
}

// bytes are what a push costs, apart from what all cost.
func (p *Push) bytes() int {
	return len(p.Metrics) + len(p.ClientID) + len(p.Software.Name) + len(p.Software.Version)
}

// New returns a Telemetry without subscriptions.
func New(c Config) *Telemetry {
	return &Telemetry{config: c, instances: map[uuid.UUID]*list.Element{}}
}

// Subscribe replaces the subscriptions: configurations of the type client-metrics by their names.
func (t *Telemetry) Subscribe(configs iter.Seq2[string, map[string]string]) {
	subscriptions := readSubscriptions(configs, t.config.Log)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subscriptions = subscriptions
	t.generation++
}

// Gone tells that a connection has ended.
func (t *Telemetry) Gone(remote net.Addr) {
	address := remote.String()
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.recent.Front(); e != nil; e = e.Next() {
		if i := e.Value.(*instance); i.remote == address {
			i.begin()
		}
	}
}

// Pushed returns the newest push of each instance that is not yet forgotten, in no order.
func (t *Telemetry) Pushed(now time.Time) []Push {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(now)
	var out []Push
	for e := t.recent.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*instance).pushed; p.Metrics != nil {
			out = append(out, p)
		}
	}
	return out
}

// Get answers a GetTelemetrySubscriptions request.
func (t *Telemetry) Get(now time.Time, r *wire.Request, q *kmsg.GetTelemetrySubscriptionsRequest) kmsg.Response {
	id := uuid.UUID(q.ClientInstanceID)
	if !matchesHeader(r, id) {
		return fail(q, int16(raft.InvalidRequest))
	}
	if id == uuid.Nil {
		var err error
		if id, err = kafkaid.New(t.config.Random); err != nil {
			return fail(q, -1)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.instance(now, r, id)
	newest := i.lastGet
	if i.lastPush.After(newest) {
		newest = i.lastPush
	}
	switch {
	case newest.IsZero() || i.over(now.Sub(newest)):
		i.lastGet = now
	case i.failed != unknownSubscription && i.failed != unsupportedCompression:
		return fail(q, throttled)
	}
	i.failed = 0
	resp := q.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
	resp.ClientInstanceID = id
	resp.SubscriptionID = i.assignment.id
	resp.AcceptedCompressionTypes = codecs
	resp.PushIntervalMillis = int32(i.assignment.interval.Milliseconds())
	resp.TelemetryMaxBytes = int32(t.config.MaxBytes)
	resp.RequestedMetrics = i.assignment.metrics
	return resp
}

// Push answers a PushTelemetry request.
func (t *Telemetry) Push(now time.Time, r *wire.Request, q *kmsg.PushTelemetryRequest) kmsg.Response {
	id := uuid.UUID(q.ClientInstanceID)
	if !matchesHeader(r, id) || id == uuid.Nil || id == metadataTopicID {
		return fail(q, int16(raft.InvalidRequest))
	}
	if code := t.admit(now, r, q, id); code != 0 {
		return fail(q, code)
	}
	if len(q.Metrics) == 0 {
		return q.ResponseKind()
	}
	plain, err := record.Compression(q.CompressionType).Decompress(q.Metrics, maxPlainBytes)
	if err == nil {
		err = check(plain)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.instance(now, r, id)
	if err != nil {
		t.config.Log.Debug("pushed metrics are broken", "client", id, "reason", err)
		if i.failed = invalidRecord; errors.Is(err, record.ErrTooLarge) {
			i.failed = tooLarge
		}
		return fail(q, i.failed)
	}
	t.store(i, Push{InstanceID: id, ClientID: clientID(r), Software: r.Software, Remote: i.remote, At: now, Metrics: plain})
	return q.ResponseKind()
}

// metadataTopicID is an id that Kafka sets aside, and refuses here.
var metadataTopicID = uuid.UUID{15: 1}

// admit decides about a push by all but its metrics, and returns the code of its answer.
func (t *Telemetry) admit(now time.Time, r *wire.Request, q *kmsg.PushTelemetryRequest, id uuid.UUID) int16 {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.instance(now, r, id)
	leaving := i.leaving
	i.leaving = q.Terminating
	i.failed = i.decide(now, q, leaving, t.config.MaxBytes)
	return i.failed
}

// over reports whether the interval is over. Java's clients count whole milliseconds, so they may come as much too early.
func (i *instance) over(passed time.Duration) bool {
	return passed > i.assignment.interval-time.Millisecond
}

func (i *instance) decide(now time.Time, q *kmsg.PushTelemetryRequest, leaving bool, maxBytes int) int16 {
	if leaving {
		return int16(raft.InvalidRequest)
	}
	inTime := i.lastGet.After(i.lastPush) || i.lastPush.IsZero() || i.over(now.Sub(i.lastPush))
	if inTime {
		i.lastPush = now
	}
	switch {
	case !inTime && !q.Terminating:
		return throttled
	case q.SubscriptionID != i.assignment.id:
		return unknownSubscription
	case q.CompressionType < 0 || q.CompressionType > int8(record.Zstd):
		return unsupportedCompression
	case len(q.Metrics) > maxBytes:
		return tooLarge
	}
	return 0
}

// matchesHeader tells whether the id in the body of a request goes with the one in its header (KIP-1313).
func matchesHeader(r *wire.Request, id uuid.UUID) bool {
	return r.Header.ClientInstanceID == uuid.Nil || r.Header.ClientInstanceID == id
}

// instance returns the instance with its assignment, and notes that it is in use.
func (t *Telemetry) instance(now time.Time, r *wire.Request, id uuid.UUID) *instance {
	t.forget(now)
	e := t.instances[id]
	if e == nil {
		if len(t.instances) >= maxInstances {
			t.drop(t.recent.Back())
		}
		e = t.recent.PushFront(&instance{id: id, generation: -1})
		t.instances[id] = e
	}
	t.recent.MoveToFront(e)
	i := e.Value.(*instance)
	i.used, i.remote = now, r.Remote.String()
	if i.generation != t.generation {
		i.generation, i.assignment = t.generation, assign(t.subscriptions, about(r, id), id)
		i.begin()
	}
	return i
}

// begin forgets what the instance has done.
func (i *instance) begin() {
	i.lastGet, i.lastPush, i.failed, i.leaving = time.Time{}, time.Time{}, 0, false
}

// forget drops instances that have not been seen for long.
func (t *Telemetry) forget(now time.Time) {
	for e := t.recent.Back(); e != nil; e = t.recent.Back() {
		i := e.Value.(*instance)
		if now.Sub(i.used) < max(forgetAfter, forgetIntervals*i.assignment.interval) {
			return
		}
		t.drop(e)
	}
}

func (t *Telemetry) drop(e *list.Element) {
	i := t.recent.Remove(e).(*instance)
	t.storedBytes -= i.pushed.bytes()
	delete(t.instances, i.id)
}

// store keeps a push. Where all are too many bytes, those of the oldest instances go.
func (t *Telemetry) store(i *instance, p Push) {
	t.storedBytes += p.bytes() - i.pushed.bytes()
	i.pushed = p
	for e := t.recent.Back(); t.storedBytes > maxStoredBytes; e = e.Prev() {
		old := e.Value.(*instance)
		t.storedBytes -= old.pushed.bytes()
		old.pushed = Push{}
	}
}

func clientID(r *wire.Request) string {
	if r.Header.ClientID == nil {
		return ""
	}
	return *r.Header.ClientID
}

func fail(q kmsg.Request, code int16) kmsg.Response { return wire.ErrorResponse(q, code, "") }
