package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// idleMax is how long a connection is kept that nothing goes over. Servers close theirs after 10 minutes.
const idleMax = 9 * time.Minute

// Peers carries out the Send effects of a core. It keeps a connection for each destination, by its id: a bootstrap
// server's is not that of the node behind it. A connection carries one request at a time; the core sends another one to
// the same destination only when it has given up the first, which may be waiting at the peer for long. Its
// connection is closed then, and a new one made.
type Peers struct {
	self    Self
	dial    DialFunc
	deliver func(raft.Input)

	mu      sync.Mutex
	peers   map[raft.NodeID]*peer
	closed  bool
	running sync.WaitGroup // requests, and clients that are being closed
}

// peer is a destination at one address.
type peer struct {
	addr   string
	client *Client
	busy   bool      // a request is under way
	used   time.Time // when the last one began
}

// NewPeers returns Peers that name themselves self, with raft-client-N as the client id in Kafka. dial is how they connect, nil
// is Dial. deliver takes Answered and SendFailed inputs, from several goroutines; it must not block, and may call Send.
func NewPeers(self Self, dial DialFunc, deliver func(raft.Input)) *Peers {
	return &Peers{self: self, dial: dial, deliver: deliver, peers: map[raft.NodeID]*peer{}}
}

// Send sends a request, without waiting. One Answered or SendFailed is delivered for it, or nothing if another Send to
// the same destination takes its place. It writes to a connection itself, if there is one: its buffers are empty, as what was
// sent before has been answered, and take any request of the core at once.
func (p *Peers) Send(s raft.Send) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := time.Now()
	addr := net.JoinHostPort(s.To.Endpoint.Host, strconv.Itoa(int(s.To.Endpoint.Port)))
	for id, to := range p.peers {
		if id == s.To.NodeID && (to.busy || to.addr != addr) || !to.busy && now.Sub(to.used) >= idleMax {
			delete(p.peers, id)
			p.running.Go(to.client.Close)
		}
	}
	to := p.peers[s.To.NodeID]
	if to == nil {
		to = &peer{addr: addr, client: NewClient(addr, p.self, p.dial)}
		p.peers[s.To.NodeID] = to
	}
	to.busy, to.used = true, now
	if s.To.Endpoint.Host == "" || s.To.Endpoint.Port == 0 {
		p.running.Go(func() { p.finish(to, s, nil, errNoAddress) })
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.TimeoutMillis)*time.Millisecond)
	key := int16(RaftKey(s.Request))
	newest := newestOf(key)
	build := func(version int16) (kmsg.Request, error) { return EncodeRaftRequest(s.Request, version) }
	done := func(r kmsg.Response, err error) {
		cancel()
		p.finish(to, s, r, err)
	}
	if !to.client.start(ctx, key, newest, build, done) {
		p.running.Go(func() { done(to.client.Call(ctx, key, newest, build)) })
	}
}

// finish delivers what has become of a request.
func (p *Peers) finish(to *peer, s raft.Send, answer kmsg.Response, err error) {
	var r raft.Response
	if err == nil {
		r, err = decodeAnswer(answer)
	}
	var in raft.Input = raft.Answered{ID: s.ID, Response: r}
	if err != nil {
		in = raft.SendFailed{ID: s.ID, Reason: sendFailure(err)}
	}
	p.mu.Lock()
	to.busy = false
	current := !p.closed && p.peers[s.To.NodeID] == to
	p.mu.Unlock()
	if current {
		p.deliver(in)
	}
}

// Close closes all connections and waits until all has ended. Nothing is delivered any more.
func (p *Peers) Close() {
	p.mu.Lock()
	p.closed = true
	for _, to := range p.peers {
		p.running.Go(to.client.Close)
	}
	p.mu.Unlock()
	p.running.Wait()
}

// errNoAddress is a destination of which the core doesn't know where it is. To dial it would end at this host.
var errNoAddress = errors.New("the destination has no address")

// decodeAnswer turns an answer into the core's, with the bytes where it wants them.
func decodeAnswer(answer kmsg.Response) (raft.Response, error) {
	r, payload, err := DecodeRaftResponse(answer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	switch r := r.(type) {
	case *raft.FetchResponse:
		if r.Batches, err = raft.DecodeBatches(payload); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	case *raft.FetchSnapshotResponse:
		r.Bytes = payload
	}
	return r, nil
}

// sendFailure tells the core why a request has no response.
func sendFailure(err error) raft.SendFailure {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return raft.TimedOut
	case errors.Is(err, ErrRefused):
		return raft.Refused
	case errors.Is(err, ErrUnsupported):
		return raft.Unsupported
	case errors.Is(err, ErrCorrupt):
		return raft.Corrupt
	}
	return raft.Disconnected
}
