package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// Errors of a Client besides ErrUnsupported and those of the context. They come wrapped, with the address.
var (
	// ErrRefused says that nobody listens at the address.
	ErrRefused = errors.New("connection refused")
	// ErrDisconnected says that the connection broke, or could not be made for another reason.
	ErrDisconnected = errors.New("disconnected")
	// ErrCorrupt says that an answer came that cannot be decoded.
	ErrCorrupt = errors.New("corrupt answer")
	// ErrHandshake says, besides one of the others, that it happened before the first answer on a new connection: maybe
	// the two sides don't mean the same protocol, as with TLS on one of them alone.
	ErrHandshake = errors.New("no answer to the first request")
)

// DialTimeout is how long a connection may take to be made, as Kafka's socket.connection.setup.timeout.ms.
const DialTimeout = 10 * time.Second

// DialFunc makes a connection to host:port.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// Dial makes a TCP connection. What is written to it is sent without delay (TCP_NODELAY, the default in Go).
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: DialTimeout}
	return d.DialContext(ctx, "tcp", addr)
}

// Client sends requests to one address, over one connection that carries one at a time. The connection is made by the
// first request; after it broke, or a request on it failed, by the next one. ApiVersions goes first on each connection,
// and says which versions the peer speaks. A Client is safe for concurrent use: requests wait for their turn.
type Client struct {
	addr string
	self Self
	dial DialFunc

	closing context.Context // ends with Close
	close   context.CancelFunc
	turn    chan struct{} // has a token while somebody uses link
	link    *link         // the last one; nil: none yet
	readers sync.WaitGroup
}

// NewClient returns a client of the peer at addr, host:port, that names itself self. dial is how it connects, nil is
// Dial. It doesn't connect yet.
func NewClient(addr string, self Self, dial DialFunc) *Client {
	if dial == nil {
		dial = Dial
	}
	c := &Client{addr: addr, self: self, dial: dial, turn: make(chan struct{}, 1)}
	c.closing, c.close = context.WithCancel(context.Background())
	return c
}

// Close interrupts a request that is under way, closes the connection and waits until all has ended. Requests fail
// from then on.
func (c *Client) Close() {
	c.close()
	c.turn <- struct{}{}
	<-c.turn
	c.readers.Wait()
}

// Do sends q and returns its answer. It sets the version of q: the newest that the peer and kmsg have in common. For
// requests with tagged fields that only some versions have there is Call.
func (c *Client) Do(ctx context.Context, q kmsg.Request) (kmsg.Response, error) {
	return c.Call(ctx, q.Key(), q.MaxVersion(), func(version int16) (kmsg.Request, error) {
		q.SetVersion(version)
		return q, nil
	})
}

// Version returns the newest version of an API that the peer and kmsg have in common.
func (c *Client) Version(ctx context.Context, key int16) (version int16, err error) {
	err = c.connected(ctx, func(l *link) error {
		version, err = l.version(key, kmsg.RequestForKey(key).MaxVersion())
		return err
	})
	return version, err
}

// Call sends the request that build makes for a version: the newest one up to newest that the peer speaks. It returns
// the answer, whose byte fields are its own. An error of build is returned, and nothing is sent.
func (c *Client) Call(ctx context.Context, key, newest int16, build func(version int16) (kmsg.Request, error)) (r kmsg.Response, err error) {
	err = c.connected(ctx, func(l *link) error {
		q, err := l.build(key, newest, build)
		if err != nil {
			return err
		}
		r, err = l.roundTrip(ctx, q)
		return err
	})
	return r, err
}

// start is Call without waiting, where that is possible: if there is a connection that no request uses. It reports whether
// it is; then done gets what Call returns, in another goroutine.
func (c *Client) start(ctx context.Context, key, newest int16, build func(version int16) (kmsg.Request, error), done func(kmsg.Response, error)) bool {
	select {
	case c.turn <- struct{}{}:
	default:
		return false
	}
	if c.link != nil {
		if q, err := c.link.build(key, newest, build); err == nil && c.link.send(ctx, q, func(r kmsg.Response, err error) {
			<-c.turn
			done(r, c.named(err))
		}) == nil {
			return true
		}
	}
	<-c.turn
	return false
}

// named is err with the address.
func (c *Client) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.addr, err)
}

// connected calls use with a connection, when it is this request's turn.
func (c *Client) connected(ctx context.Context, use func(*link) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
	case <-c.closing.Done():
	}
	switch {
	case c.closing.Err() != nil: // no connection is left behind
		return c.named(net.ErrClosed)
	case ctx.Err() != nil:
		return c.named(context.Cause(ctx))
	}
	if c.link == nil || c.link.failure() != nil {
		if err := c.connect(ctx); err != nil {
			return c.named(err)
		}
	}
	return c.named(use(c.link))
}

// connect makes a connection and asks for the peer's versions.
func (c *Client) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closing, func() { cancel(net.ErrClosed) })()
	conn, err := c.dial(ctx, c.addr)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	default:
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	l := &link{conn: conn, self: c.self}
	c.link = l
	c.readers.Go(func() {
		defer context.AfterFunc(c.closing, func() { l.fail(nil, net.ErrClosed) })()
		l.read()
	})
	if err := l.handshake(ctx); err != nil {
		l.fail(nil, err)
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return nil
}

// DecodeResponse reads the answer to q and its correlation id from a frame, which is without its length. Byte fields
// stand in frame; what else it allocates is bounded by the length of frame. An ApiVersions answer with error 35 is in
// version 0, whatever q has. Errors: ErrCorrupt.
func DecodeResponse(q kmsg.Request, frame []byte) (r kmsg.Response, correlationID int32, err error) {
	if len(frame) < 4 {
		return nil, 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(frame))
	}
	correlationID = int32(binary.BigEndian.Uint32(frame))
	body := frame[4:]
	r = q.ResponseKind()
	switch {
	case r.Key() == int16(kmsg.ApiVersions):
		if len(body) >= 2 && raft.Code(binary.BigEndian.Uint16(body)) == raft.UnsupportedVersion {
			r.SetVersion(0)
		}
	case r.IsFlexible():
		if body, err = skipTags(body); err != nil {
			return nil, 0, fmt.Errorf("%w: the header of the answer to %s ends too early", ErrCorrupt, kmsg.NameForKey(r.Key()))
		}
	}
	if err := r.ReadFrom(body); err != nil {
		return nil, 0, fmt.Errorf("%w to %s: %w", ErrCorrupt, kmsg.NameForKey(r.Key()), err)
	}
	return r, correlationID, nil
}
