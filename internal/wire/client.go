package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	link    *link         // nil: none
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
	c.drop()
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
	err = c.connected(ctx, func(_ context.Context, l *link) error {
		version, err = l.version(key, kmsg.RequestForKey(key).MaxVersion())
		return err
	})
	return version, err
}

// Call sends the request that build makes for a version: the newest one up to newest that the peer speaks. It returns
// the answer, whose byte fields are its own. An error of build is returned, and nothing is sent.
func (c *Client) Call(ctx context.Context, key, newest int16, build func(version int16) (kmsg.Request, error)) (r kmsg.Response, err error) {
	err = c.connected(ctx, func(ctx context.Context, l *link) error {
		version, err := l.version(key, newest)
		if err != nil {
			return err
		}
		q, err := build(version)
		if err != nil {
			return err
		}
		if r, err = l.roundTrip(ctx, q); err != nil {
			c.drop()
		}
		return err
	})
	return r, err
}

// connected calls use with a connection, when it is this request's turn. Its context ends with Close, too.
func (c *Client) connected(ctx context.Context, use func(context.Context, *link) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", c.addr, err)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closing, func() { cancel(net.ErrClosed) })()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
	}
	switch {
	case c.closing.Err() != nil: // ctx may learn of it later, when a connection would be left behind
		return net.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if c.link != nil && c.link.broken() {
		c.drop()
	}
	if c.link == nil {
		if err := c.connect(ctx); err != nil {
			return err
		}
	}
	return use(ctx, c.link)
}

// connect makes a connection and asks for the peer's versions.
func (c *Client) connect(ctx context.Context) error {
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
	c.link = &link{conn: conn, self: c.self, answers: make(chan []byte), closed: make(chan struct{})}
	c.readers.Go(c.link.read)
	if err := c.link.handshake(ctx); err != nil {
		c.drop()
		return fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return nil
}

// drop closes the connection.
func (c *Client) drop() {
	if c.link != nil {
		close(c.link.closed)
		c.link.conn.Close()
		c.link = nil
	}
}

// link is a connection. One goroutine reads it all the time, so that a peer that goes away is noticed between requests
// too: the next one doesn't fail for it.
type link struct {
	conn    net.Conn
	self    Self
	request []byte // frame of the last request, for its memory
	last    int32  // correlation id

	answers chan []byte   // frames; closed when reading ends
	err     error         // why it ended
	closed  chan struct{} // by the Client: nobody takes answers any more

	versions map[int16]kmsg.ApiVersionsResponseApiKey // of the peer
}

func (l *link) read() {
	defer close(l.answers)
	r := bufio.NewReader(l.conn)
	for {
		// An answer's bytes live on in batches: they get memory of their own, and not more than they need.
		length, err := r.Peek(4)
		if err != nil {
			l.err = err
			return
		}
		frame, err := ReadFrame(r, MaxFrame, make([]byte, 0, max(4, min(firstRead, binary.BigEndian.Uint32(length)))))
		if err != nil {
			l.err = err
			return
		}
		select {
		case l.answers <- frame:
		case <-l.closed:
			return
		}
	}
}

// broken reports whether the peer has closed the connection, or sent what nobody asked for.
func (l *link) broken() bool {
	select {
	case <-l.answers:
		return true
	default:
		return false
	}
}

// roundTrip sends q, in its version, and waits for the answer. After an error the connection is of no use.
func (l *link) roundTrip(ctx context.Context, q kmsg.Request) (kmsg.Response, error) {
	l.last++
	l.request = AppendRequest(l.request[:0], q, l.self, l.last)
	stop := context.AfterFunc(ctx, func() { l.conn.Close() }) // nothing else ends a Write
	_, err := l.conn.Write(l.request)
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisconnected, broke(err))
	}
	select {
	case frame, ok := <-l.answers:
		if !ok {
			return nil, l.readError()
		}
		r, id, err := DecodeResponse(q, frame)
		if err == nil && id != l.last {
			err = fmt.Errorf("%w: it has the correlation id %d, the request had %d", ErrCorrupt, id, l.last)
		}
		if err != nil {
			return nil, err
		}
		return r, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *link) readError() error {
	if _, ok := errors.AsType[*FrameError](l.err); ok {
		return fmt.Errorf("%w: %w", ErrCorrupt, l.err)
	}
	if l.err == io.EOF {
		return fmt.Errorf("%w: the peer closed the connection", ErrDisconnected)
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, broke(l.err))
}

// broke is why a connection broke, without its addresses: the peer's stands in front, and the own one is another
// each time, which would make a new reason of the same one for those who log each reason once.
func broke(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// handshake asks which versions the peer speaks. One that doesn't know this version of the question answers in version
// 0, with the versions of it that it knows (KIP-511).
func (l *link) handshake(ctx context.Context) error {
	q := newApiVersionsRequest()
	q.Version = maxApiVersions
	for {
		r, err := l.roundTrip(ctx, q)
		if err != nil {
			return err
		}
		answer := r.(*kmsg.ApiVersionsResponse)
		l.versions = map[int16]kmsg.ApiVersionsResponseApiKey{}
		for _, k := range answer.ApiKeys {
			l.versions[k.ApiKey] = k
		}
		switch {
		case answer.ErrorCode == 0:
			return nil
		case raft.Code(answer.ErrorCode) == raft.UnsupportedVersion && q.Version > 0:
			q.Version = max(0, min(q.Version-1, l.versions[q.Key()].MaxVersion))
		default:
			return fmt.Errorf("%w: ApiVersions is answered with %s", ErrDisconnected, ErrorName(answer.ErrorCode))
		}
	}
}

// version returns the newest version of an API, up to newest, that the peer speaks.
func (l *link) version(key, newest int16) (int16, error) {
	theirs, ok := l.versions[key]
	if !ok {
		return 0, fmt.Errorf("%w: the peer has no %s", ErrUnsupported, kmsg.NameForKey(key))
	}
	if theirs.MinVersion > newest || theirs.MaxVersion < theirs.MinVersion || theirs.MaxVersion < 0 {
		return 0, fmt.Errorf("%w: the peer has versions %d to %d of %s, this program up to %d",
			ErrUnsupported, theirs.MinVersion, theirs.MaxVersion, kmsg.NameForKey(key), newest)
	}
	return min(theirs.MaxVersion, newest), nil
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
