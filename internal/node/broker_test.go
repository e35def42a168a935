package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// patience is how long a test waits for what comes at once.
const patience = 3 * time.Second

// handlerFunc answers as an active controller does.
type handlerFunc func(ctx context.Context, q kmsg.Request) kmsg.Response

func (f handlerFunc) Handle(ctx context.Context, r *wire.Request) kmsg.Response {
	return f(ctx, r.Body)
}

// viewOf serves f as the active controller, and returns the view of a node that has caught up with it.
func viewOf(t *testing.T, f handlerFunc) view {
	t.Helper()
	address := netip.MustParseAddrPort(listenWith(t, f))
	at := raft.Endpoint{Listener: "CONTROLLER", Host: address.Addr().String(), Port: address.Port()}
	return view{leader: raft.LeaderChanged{LeaderID: 9, Epoch: 3, Endpoint: at}, clusterID: clusterA, caughtUp: true, version: features.LatestProduction}
}

// soon fails the test if nothing comes.
func soon[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("did not come: " + what)
	}
	return v
}

// startBroker runs broker 1 until work ends.
func startBroker(t *testing.T, v view, change ...func(*broker)) (b *broker, endWork func(), done chan error) {
	t.Helper()
	views := newViews(v)
	b = &broker{
		registration: &kmsg.BrokerRegistrationRequest{BrokerID: 1}, interval: time.Millisecond, patience: time.Minute,
		views: views, channel: &controllerChannel{views: views}, log: slog.New(slog.DiscardHandler), running: make(chan struct{}),
		logDirs: func() (online, offline []uuid.UUID) { return online, offline },
	}
	for _, change := range change {
		change(b)
	}
	ctx, stop := context.WithCancel(context.Background())
	work, endWork := context.WithCancel(context.Background())
	done = make(chan error, 1)
	ended := make(chan struct{})
	go func() { defer close(ended); done <- b.run(ctx, work) }()
	t.Cleanup(func() {
		stop()
		<-ended
		endWork()
		if b.channel.client != nil {
			t.Error("a connection is left")
		}
	})
	return b, endWork, done
}

// unfences is an active controller that lets a broker run, and leaves what follows to f.
func unfences(f func(ctx context.Context, q *kmsg.BrokerHeartbeatRequest, r *kmsg.BrokerHeartbeatResponse)) handlerFunc {
	var beats atomic.Int32
	return func(ctx context.Context, q kmsg.Request) kmsg.Response {
		r, ok := q.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
		if !ok {
			return q.ResponseKind()
		}
		r.IsCaughtUp, r.IsFenced = true, false
		if beats.Add(1) > 2 {
			f(ctx, q.(*kmsg.BrokerHeartbeatRequest), r)
		}
		return r
	}
}

// TestHeartbeatsBackOff: a broker whose heartbeats fail doubles its pause each time, whatever state it is in, and begins
// anew with the first that doesn't.
func TestHeartbeatsBackOff(t *testing.T) {
	const fail = 7 // in a row; the pause of the third one behind would be longer than patience, were none good in between
	for _, tt := range []struct {
		name  string
		begin int // good heartbeats before
		want  brokerState
	}{{"while it starts", 0, brokerStarting}, {"while it runs", 2, brokerRunning}} {
		t.Run(tt.name, func(t *testing.T) {
			beats, n := make(chan time.Time), 0
			b, _, _ := startBroker(t, viewOf(t, func(ctx context.Context, q kmsg.Request) kmsg.Response {
				r, ok := q.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
				if !ok {
					return q.ResponseKind()
				}
				if n++; n <= tt.begin {
					r.IsCaughtUp = true
					return r
				}
				if r.ErrorCode = codeNotController; n == tt.begin+fail+1 {
					r.ErrorCode = 0
				}
				r.IsFenced = tt.want == brokerStarting
				select {
				case beats <- time.Now():
				case <-ctx.Done():
				}
				return r
			}), func(b *broker) { b.interval = time.Hour })
			last := soon(t, beats, "a heartbeat")
			for i := range fail {
				beat := soon(t, beats, "a heartbeat")
				if pause, least := beat.Sub(last), startHeartbeats<<i; pause < least {
					t.Errorf("%v after failure %d, at least %v should be", pause, i+1, least)
				}
				last = beat
			}
			if tt.want == brokerRunning {
				return // the next one is due in an hour
			}
			if pause := soon(t, beats, "a heartbeat after the good one").Sub(last); pause >= startHeartbeats<<fail {
				t.Errorf("%v after the good one, which should be %v", pause, startHeartbeats)
			}
			for range 4 {
				soon(t, beats, "a heartbeat after the good one")
			}
			if got := brokerState(b.state.Load()); got != tt.want {
				t.Errorf("the broker is in %v", got)
			}
		})
	}
}

// TestUnregisteredBrokerGoes: nobody has to give it leave.
func TestUnregisteredBrokerGoes(t *testing.T) {
	b, endWork, done := startBroker(t, viewOf(t, unfences(func(_ context.Context, _ *kmsg.BrokerHeartbeatRequest, r *kmsg.BrokerHeartbeatResponse) {
		r.ErrorCode = codeStaleBrokerEpoch
	})))
	soon(t, b.running, "RUNNING")
	endWork()
	if err := soon(t, done, "the end"); err != nil {
		t.Error(err)
	}
}

// TestBrokerAsksForLeaveAtOnce: not after a heartbeat that has no answer.
func TestBrokerAsksForLeaveAtOnce(t *testing.T) {
	silent, asked := make(chan struct{}, 1), make(chan struct{}, 1)
	b, endWork, done := startBroker(t, viewOf(t, unfences(func(ctx context.Context, q *kmsg.BrokerHeartbeatRequest, r *kmsg.BrokerHeartbeatResponse) {
		if r.ShouldShutdown = q.WantShutdown; q.WantShutdown {
			asked <- struct{}{}
			return
		}
		silent <- struct{}{}
		<-ctx.Done()
	})))
	soon(t, b.running, "RUNNING")
	soon(t, silent, "a heartbeat")
	endWork()
	soon(t, asked, "the request for leave")
	if err := soon(t, done, "the end"); err != nil {
		t.Error(err)
	}
}

// TestWaitNamesRefusal: what the controller has against a broker is what its operator waits for.
func TestWaitNamesRefusal(t *testing.T) {
	refused := make(chan struct{}, 1)
	v := viewOf(t, func(_ context.Context, q kmsg.Request) kmsg.Response {
		r := q.ResponseKind().(*kmsg.BrokerRegistrationResponse)
		r.ErrorCode = codeDuplicateBroker
		select {
		case refused <- struct{}{}:
		default:
		}
		return r
	})
	b, endWork, done := startBroker(t, v)
	soon(t, refused, "the registration")
	soon(t, refused, "another one")
	if why := (&node{broker: b, quorum: &quorum{}, settings: settings{Raft: raft.DefaultConfig()}, clock: clock{start: time.Now()}}).waitsFor(&v); !strings.Contains(why, "DUPLICATE_BROKER_REGISTRATION. A broker with its node.id was there before") {
		t.Error(why)
	}
	endWork()
	if err := soon(t, done, "the end"); err != nil {
		t.Error(err)
	}
}

// TestBrokerWaitsForNewLeader: not longer than it takes to become active, which is milliseconds.
func TestBrokerWaitsForNewLeader(t *testing.T) {
	attempts := 0
	active := unfences(func(context.Context, *kmsg.BrokerHeartbeatRequest, *kmsg.BrokerHeartbeatResponse) {})
	b, _, _ := startBroker(t, viewOf(t, func(ctx context.Context, q kmsg.Request) kmsg.Response {
		if attempts++; attempts < int(patience/registrationBackoff)*2 {
			return refuse(q, codeNotController)
		}
		return active(ctx, q)
	}))
	soon(t, b.running, "RUNNING")
}

// TestBrokerIsRefused: why and what to do stands in the reason to stop.
func TestBrokerIsRefused(t *testing.T) {
	for code, fix := range map[int16]string{codeDuplicateBroker: "node.id", codeInvalidRegistration: "directory.id", codeUnsupportedVersion: "kfeatures describe"} {
		v := viewOf(t, func(_ context.Context, q kmsg.Request) kmsg.Response {
			r := q.ResponseKind().(*kmsg.BrokerRegistrationResponse)
			r.ErrorCode = code
			return r
		})
		_, _, done := startBroker(t, v, func(b *broker) { b.patience = time.Millisecond })
		e, ok := errors.AsType[*Error](soon(t, done, "the end"))
		if !ok || !strings.Contains(e.What, wire.ErrorName(code)) || !strings.Contains(e.Fix, fix) {
			t.Errorf("%+v", e)
		}
	}
}

// TestBrokerRegistersDirectoriesInUse: not those that were when the node started.
func TestBrokerRegistersDirectoriesInUse(t *testing.T) {
	online := []uuid.UUID{dirID(dirA), dirID(dirB)}
	registered := make(chan [][16]byte, 1)
	v := viewOf(t, func(ctx context.Context, q kmsg.Request) kmsg.Response {
		r := q.ResponseKind().(*kmsg.BrokerRegistrationResponse)
		r.ErrorCode = codeDuplicateBroker
		select {
		case registered <- q.(*kmsg.BrokerRegistrationRequest).LogDirs:
		case <-ctx.Done():
		}
		return r
	})
	_, endWork, done := startBroker(t, v, func(b *broker) {
		b.logDirs = func() (_, offline []uuid.UUID) {
			before := online
			online = online[:1]
			return before, nil
		}
	})
	for n := 2; n > 0; n-- {
		if got := soon(t, registered, "the registration"); len(got) != n || got[0] != dirID(dirA) {
			t.Errorf("registered are %v", got)
		}
	}
	endWork()
	if err := soon(t, done, "the end"); err != nil {
		t.Error(err)
	}
}

// TestControllerRegistersAgain: whenever it is unregistered while it runs.
func TestControllerRegistersAgain(t *testing.T) {
	asked := make(chan struct{}, 1)
	v := viewOf(t, func(_ context.Context, q kmsg.Request) kmsg.Response {
		asked <- struct{}{}
		return q.ResponseKind()
	})
	views := newViews(v)
	own := uuid.UUID{15: 1}
	r := &controllerRegistration{
		request: &kmsg.ControllerRegistrationRequest{ControllerID: 1, IncarnationID: own},
		views:   views, channel: &controllerChannel{views: views}, log: slog.New(slog.DiscardHandler),
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { r.run(ctx); done <- errors.New("ended") }()
	soon(t, asked, "a registration")
	for _, v.controller = range []uuid.UUID{own, {}} { // it is there, and gone again
		views.set(v)
	}
	soon(t, asked, "another one")
	stop()
	soon(t, done, "the end")
	if r.channel.client != nil {
		t.Error("a connection is left")
	}
}
