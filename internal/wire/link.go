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

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// link is a connection of a Client. One goroutine reads it all the time, so that a peer that goes away is noticed between
// requests too: the next one doesn't fail for it. The same goroutine brings each request to its end.
type link struct {
	conn     net.Conn
	self     Self
	last     int32                                    // correlation id
	versions map[int16]kmsg.ApiVersionsResponseApiKey // of the peer

	mu      sync.Mutex
	waiting *exchange // nil: no request is under way
	err     error     // why the connection is of no use any more; nil: it is
}

// exchange is a request that is under way.
type exchange struct {
	request kmsg.Request
	id      int32
	stop    func() bool // watching its context
	done    func(kmsg.Response, error)
}

// requestBytes is room for most requests.
const requestBytes = 256

// send sends q, in its version, while no other request is under way. Without an error, done gets the answer later, or why
// there is none, in the goroutine that reads. After an error of either the connection is of no use. It waits for the peer to take
// the request, which is at once for one that fits into the buffers of the socket.
func (l *link) send(ctx context.Context, q kmsg.Request, done func(kmsg.Response, error)) error {
	l.last++
	e := &exchange{request: q, id: l.last, done: done}
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return l.err
	}
	l.waiting = e
	e.stop = context.AfterFunc(ctx, func() { l.fail(e, context.Cause(ctx)) }) // nothing else ends a Write
	l.mu.Unlock()
	// Memory of its own: the answer may be here, and the next request on its way, before this Write returns.
	if _, err := l.conn.Write(AppendRequest(make([]byte, 0, requestBytes), q, l.self, e.id)); err != nil {
		l.fail(nil, fmt.Errorf("%w: %w", ErrDisconnected, broke(err)))
	}
	return nil
}

// roundTrip sends q and waits for its end.
func (l *link) roundTrip(ctx context.Context, q kmsg.Request) (r kmsg.Response, err error) {
	ended := make(chan struct{})
	if err := l.send(ctx, q, func(response kmsg.Response, failure error) {
		r, err = response, failure
		close(ended)
	}); err != nil {
		return nil, err
	}
	<-ended
	return r, err
}

// fail closes the connection, if it is not yet; the first reason counts. Where e is not nil, e must be under way.
func (l *link) fail(e *exchange, reason error) {
	l.mu.Lock()
	first := l.err == nil && (e == nil || e == l.waiting)
	if first {
		l.err = reason
	}
	l.mu.Unlock()
	if first {
		l.conn.Close()
	}
}

// failure is why the connection is of no use any more, nil while it is.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// take returns the request that was under way, nil for none. It is the reader's to end now.
func (l *link) take() *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.waiting
	l.waiting = nil
	if e != nil {
		e.stop()
	}
	return e
}

// read brings the answers, until the connection is closed.
func (l *link) read() {
	in := bufio.NewReader(l.conn)
	for {
		frame, err := readAnswer(in)
		if err != nil {
			l.fail(nil, readError(err))
			break
		}
		e := l.take()
		if e == nil {
			l.fail(nil, errUnasked)
			break
		}
		r, err := e.decode(frame)
		if err != nil {
			l.fail(nil, err)
		}
		e.done(r, err)
	}
	if e := l.take(); e != nil {
		e.done(nil, l.failure())
	}
}

// errUnasked is an answer to nothing. It ends the connection between requests, so nobody hears of it.
var errUnasked = fmt.Errorf("%w: nobody has asked for it", ErrCorrupt)

// readAnswer reads a frame. An answer's bytes live on in batches: they get memory of their own, and not more than they need.
func readAnswer(in *bufio.Reader) ([]byte, error) {
	length, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	return ReadFrame(in, MaxFrame, make([]byte, 0, max(4, min(firstRead, binary.BigEndian.Uint32(length)))))
}

// decode reads the answer in a frame.
func (e *exchange) decode(frame []byte) (kmsg.Response, error) {
	r, id, err := DecodeResponse(e.request, frame)
	if err == nil && id != e.id {
		err = fmt.Errorf("%w: it has the correlation id %d, the request had %d", ErrCorrupt, id, e.id)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// readError is why nothing could be read.
func readError(err error) error {
	if _, ok := errors.AsType[*FrameError](err); ok {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err == io.EOF {
		return fmt.Errorf("%w: the peer closed the connection", ErrDisconnected)
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, broke(err))
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

// build makes a request in the newest version up to newest that the peer speaks.
func (l *link) build(key, newest int16, build func(version int16) (kmsg.Request, error)) (kmsg.Request, error) {
	version, err := l.version(key, newest)
	if err != nil {
		return nil, err
	}
	return build(version)
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
