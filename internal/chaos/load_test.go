package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/nodetest"
	"kstorage/internal/wire"
)

// load is clients that register and unregister brokers, several the same ones, and the history of that.
type load struct {
	cluster *cluster
	began   time.Time
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu       sync.Mutex
	history  []operation
	acked    int
	more     chan struct{} // closed when there is more that is acknowledged
	failure  error         // an answer that can't be right
	subjects []*subject    // one for each group of clients
	next     int32         // broker id
}

const (
	groups         = 4 // of clients
	clientsOfGroup = 3
	firstBroker    = 1000
	burst          = 20 // requests that a client sends one after the other, at most
	pause          = 400 * time.Millisecond
	callTimeout    = 2 * time.Second
	look           = time.Second // between two at the nodes, while nothing is acknowledged
	askTimeout     = 500 * time.Millisecond
)

// subject is a broker that clients of a group register and unregister. It is in their hands for a short time, so
// that its history can be checked.
type subject struct {
	broker       int32
	incarnations []uuid.UUID
	requests     int
	unknown      int // requests without an answer
}

const (
	subjectRequests = 30
	subjectUnknown  = 5
)

// operation is a request that may have been done.
type operation struct {
	client      int
	broker      int32
	incarnation uuid.UUID // that registers; zero: the broker is unregistered
	fresh       bool      // no other request has its incarnation
	call        time.Duration
	end         time.Duration // of the answer
	answered    bool
	epoch       int64 // of the registration
}

func newLoad(c *cluster) *load {
	return &load{cluster: c, began: time.Now(), more: make(chan struct{}), next: firstBroker, subjects: make([]*subject, groups)}
}

// start lets the clients work until stop. Their choices are seed's; all else is up to the machine.
func (l *load) start(seed uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for i := range groups * clientsOfGroup {
		k := l.client(i, rand.New(rand.NewPCG(seed, uint64(i))))
		l.clients.Go(func() {
			defer k.close()
			for {
				for range 1 + k.random.IntN(burst) {
					if err := k.work(ctx); err != nil {
						if ctx.Err() == nil {
							l.fail(err)
						}
						return
					}
				}
				select {
				case <-time.After(time.Duration(k.random.Int64N(int64(pause)))):
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = errors.Join(l.failure, err)
}

// failed returns why a client has stopped.
func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// read returns how many requests were acknowledged, and what is closed when there are more.
func (l *load) read() (int, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked, l.more
}

// await waits until n more requests are acknowledged.
func (l *load) await(n int) {
	l.cluster.t.Helper()
	timeout := time.After(nodetest.Patience)
	start, _ := l.read()
	for {
		now, more := l.read()
		if err := l.failed(); err != nil {
			l.cluster.fatalf("%v", err)
		}
		if now >= start+n {
			return
		}
		select {
		case <-more:
		case <-time.After(look):
			l.cluster.alive()
		case <-timeout:
			l.cluster.fatalf("%d acknowledged requests in %v, %d were waited for", now-start, nodetest.Patience, n)
		}
	}
}

// note adds to the history.
func (l *load) note(o operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, o)
	if o.answered {
		l.acked++
		close(l.more)
		l.more = make(chan struct{})
	}
}

// choose returns what a client of a group asks next, and when.
func (l *load) choose(group int, random *rand.Rand) (operation, *subject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subjects[group]
	if s == nil || s.requests > subjectRequests || s.unknown > subjectUnknown {
		s = &subject{broker: l.next}
		l.next++
		l.subjects[group] = s
	}
	o := operation{broker: s.broker, call: time.Since(l.began)} // before others may ask for the same incarnation
	switch what := random.IntN(4); {
	case s.requests == subjectRequests || what == 0 && len(s.incarnations) > 0: // at the end, too: so the image stays small
	case what == 1 && len(s.incarnations) > 0:
		last := s.incarnations[max(0, len(s.incarnations)-clientsOfGroup):]
		o.incarnation = last[random.IntN(len(last))]
	default:
		o.incarnation, o.fresh = uuid.New(), true
		s.incarnations = append(s.incarnations, o.incarnation)
	}
	s.requests++
	return o, s
}

// client is one client, with a connection to each controller.
type client struct {
	load        *load
	number      int
	random      *rand.Rand
	connections []*wire.Client
	active      int // the controller that answered last
}

func (l *load) client(number int, random *rand.Rand) *client {
	k := &client{load: l, number: number, random: random}
	for _, a := range l.cluster.addresses {
		k.connections = append(k.connections, wire.NewClient(a, wire.Self{ClientID: "load"}, nil))
	}
	return k
}

func (k *client) close() {
	for _, c := range k.connections {
		c.Close()
	}
}

// work does one request, and notes it unless it is known that it was not done.
func (k *client) work(ctx context.Context) error {
	if err := k.find(ctx); err != nil {
		return err
	}
	o, s := k.load.choose(k.number/clientsOfGroup, k.random)
	o.client = k.number
	done, err := k.do(ctx, &o)
	if err != nil || !done {
		return err
	}
	o.end = time.Since(k.load.began)
	if !o.answered {
		k.load.mu.Lock()
		s.unknown++
		k.load.mu.Unlock()
	}
	k.load.note(o)
	return nil
}

// Error codes of answers.
const (
	staleBrokerEpoch = 77
	requestTimedOut  = 7
	notController    = 41
	notRegistered    = 102
)

// find looks for the active controller. So almost no request goes to another one, whose answer NOT_CONTROLLER
// would leave open whether it was done: that is also said of one whose records may or may not survive the end of
// an epoch.
func (k *client) find(ctx context.Context) error {
	q := kmsg.NewPtrBrokerHeartbeatRequest() // of a broker that does not exist
	q.BrokerID, q.BrokerEpoch = firstBroker-1, -1
	for i := 0; ; i++ {
		once, cancel := context.WithTimeout(ctx, askTimeout)
		r, err := k.connections[k.active].Do(once, q)
		cancel()
		if err == nil && r.(*kmsg.BrokerHeartbeatResponse).ErrorCode == staleBrokerEpoch {
			return nil
		}
		if k.active = (k.active + 1) % len(k.connections); k.active == 0 {
			if err := nodetest.Pause(ctx); err != nil {
				return err
			}
		}
	}
}

// do asks. done is false if it is known that the request had no effect. Errors: an answer that cannot be right,
// and that of ctx.
func (k *client) do(ctx context.Context, o *operation) (done bool, err error) {
	var q kmsg.Request
	if o.incarnation == uuid.Nil {
		u := kmsg.NewPtrUnregisterBrokerRequest()
		u.BrokerID = o.broker
		q = u
	} else {
		q = registration(o.broker, o.incarnation, k.load.cluster.id)
	}
	once, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := k.connections[k.active].Do(once, q)
	if err != nil {
		k.active = (k.active + 1) % len(k.connections)
		return !errors.Is(err, wire.ErrRefused) && !errors.Is(err, wire.ErrHandshake), nil
	}
	code := int16(0)
	switch r := r.(type) {
	case *kmsg.BrokerRegistrationResponse:
		code, o.epoch = r.ErrorCode, r.BrokerEpoch
	case *kmsg.UnregisterBrokerResponse:
		code = r.ErrorCode
	}
	switch {
	case code == 0:
		o.answered = true
		return true, nil
	case code == requestTimedOut || code == notController:
		return true, nil
	case code == notRegistered && o.incarnation == uuid.Nil:
		return false, nil // an active controller may say so that does not know yet of its successor, as in Kafka
	}
	return false, fmt.Errorf("broker %d, %T: %s", o.broker, r, wire.ErrorName(code))
}

func registration(broker int32, incarnation uuid.UUID, clusterID string) *kmsg.BrokerRegistrationRequest {
	q := kmsg.NewPtrBrokerRegistrationRequest()
	q.BrokerID, q.ClusterID, q.IncarnationID = broker, clusterID, incarnation
	q.PreviousBrokerEpoch = -1
	q.LogDirs = [][16]byte{uuid.New()}
	for name, latest := range map[string]int16{
		"metadata.version": 99, "eligible.leader.replicas.version": 9, "group.version": 9, "share.version": 9,
		"streams.version": 9, "transaction.version": 9, "kraft.version": 9,
	} {
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MaxSupportedVersion = name, latest
		q.Features = append(q.Features, f)
	}
	return q
}

// mark registers a broker of its own, and returns the epoch: what has the record has all below it that is
// committed.
func (l *load) mark() operation {
	l.cluster.t.Helper()
	k := l.client(-1, nil)
	defer k.close()
	ctx, cancel := context.WithTimeout(context.Background(), nodetest.Patience)
	defer cancel()
	for {
		o := operation{client: groups * clientsOfGroup, broker: firstBroker - 2, incarnation: uuid.New(), fresh: true}
		err := k.find(ctx)
		if err == nil {
			o.call = time.Since(l.began)
			_, err = k.do(ctx, &o)
			o.end = time.Since(l.began)
		}
		if err != nil {
			l.cluster.fatalf("%v", err)
		}
		if o.answered {
			l.note(o)
			return o
		}
	}
}
