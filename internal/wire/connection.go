package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

const (
	// readAhead is the size of the buffer in front of a connection: more than most requests, so that length and
	// payload come with one read.
	readAhead = 512
	// keptBytes is how large a buffer for an answer may be to be kept for the next one.
	keptBytes = 64 << 10
	// longBytes is the total length of the long requests that the connections of a server have in progress, until they
	// are handled. A request is long above firstRead, which those of a quorum's nodes are not, so that they
	// never wait for a stranger's. One that is longer than the total goes alone.
	longBytes = 512 << 10
	// longTimeout is how long others wait at most for a long request to arrive.
	longTimeout = 10 * time.Second
)

// connection is the server's side of one connection. Its goroutine is in serve.
type connection struct {
	server   *Server
	net      net.Conn
	client   clientInstance
	refused  bool // a request for its client instance id
	software Software
	request  []byte    // buffer of the last request
	answer   []byte    // buffer of the last answer
	share    int64     // what this connection holds of longBytes
	due      time.Time // when the long request that is being read has to be there; zero: there is none
}

// serve answers requests one by one until the connection or the server is closed.
func (c *connection) serve() {
	reader := bufio.NewReaderSize(deadlineReader{c}, readAhead)
	for c.server.ctx.Err() == nil && c.serveOne(reader) {
		if cap(c.answer) > keptBytes {
			c.answer = nil
		}
	}
}

// serveOne reads a request and answers it. false: the connection is to be closed.
//
// A long request waits until those of other connections leave it room, as Kafka's connections do under
// queued.max.request.bytes. They don't block each other for ever: a request has all of its share before it is read on,
// and longTimeout to arrive; and what its handler may wait for, that something is committed, takes short requests alone.
func (c *connection) serveOne(r io.Reader) bool {
	if c.request == nil {
		c.request = make([]byte, 0, readAhead)
	}
	length, err := readLength(r, c.server.config.MaxFrameBytes, c.request[:4])
	if err != nil {
		c.logReadError(err)
		return false
	}
	if length > firstRead {
		share := int64(min(length, longBytes))
		if c.server.long.Acquire(c.server.ctx, share) != nil {
			return false
		}
		c.share, c.due = share, time.Now().Add(longTimeout)
		defer c.release()
	}
	frame, err := readPayload(r, length, c.request)
	c.due = time.Time{}
	if err != nil {
		c.logReadError(err)
		return false
	}
	c.request = frame
	return c.handle(frame)
}

// release forgets a long request, which is handled or given up.
func (c *connection) release() {
	if c.share > 0 {
		c.request = nil
		c.server.long.Release(c.share)
		c.share = 0
	}
}

// handle answers the request in frame. false: the connection is to be closed.
func (c *connection) handle(frame []byte) bool {
	begin := time.Now()
	var response kmsg.Response
	h, body, err := DecodeRequestHeader(frame)
	if err == nil {
		response, err = c.dispatch(h, body, c.client.admits(&h))
	}
	c.release() // also if the client never takes its answer
	if err != nil {
		c.server.log.Warn("request refused, connection closed", c.about(h, err.Error())...)
	}
	answered := response != nil && c.send(h, response)
	if tell := c.server.config.Handled; tell != nil {
		tell(&Handled{
			Listener: c.server.config.Listener, Remote: c.net.RemoteAddr(), Header: h,
			Began: begin, Took: time.Since(begin), Error: outcome(response, answered, err),
		})
	}
	return answered
}

// outcome is the error of Handled.
func outcome(response kmsg.Response, answered bool, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !answered:
		return "not answered"
	}
	if code := ErrorCode(response); code != 0 {
		return ErrorName(code)
	}
	return ""
}

// send writes the answer to a request. false: the connection is to be closed.
func (c *connection) send(h RequestHeader, response kmsg.Response) bool {
	c.answer = AppendResponse(c.answer[:0], response, h.CorrelationID)
	c.extend(c.net.SetWriteDeadline, closeGrace)
	if _, err := c.net.Write(c.answer); err != nil {
		c.server.log.Debug("answer not sent", c.about(h, err.Error())...)
		return false
	}
	return true
}

// dispatch returns the answer to a request, or nil to close the connection, with an error where the request is why. One
// that is not admitted is refused in the shape of its API, so its body is decoded first.
func (c *connection) dispatch(h RequestHeader, body []byte, admitted bool) (kmsg.Response, error) {
	s := c.server
	if api := s.served[h.Key]; h.Version < api.Min || h.Version > api.Max {
		if h.Key == int16(kmsg.ApiVersions) {
			return unknownApiVersions(), nil
		}
		if api.Max < 0 {
			return nil, errAPINotServed
		}
		return nil, errVersionNotServed
	}
	if len(body) > maxBodyBytes && h.Key != int16(kmsg.PushTelemetry) {
		return nil, errBodyTooLong
	}
	request, err := decodeBody(h.Key, h.Version, body)
	if err != nil {
		return nil, err
	}
	if !admitted {
		level := slog.LevelWarn
		if c.refused { // once is enough: a client may send thousands a second
			level = slog.LevelDebug
		}
		c.refused = true
		s.log.Log(context.Background(), level, "request refused", c.about(h, anotherInstance)...)
		return ErrorResponse(request, int16(raft.InvalidRequest), anotherInstance), nil
	}
	if q, ok := request.(*kmsg.ApiVersionsRequest); ok {
		r := answerApiVersions(q, s.apis, s.config.Versions())
		if r.ErrorCode == 0 && q.Version >= 3 {
			c.software = Software{q.ClientSoftwareName, q.ClientSoftwareVersion}
		}
		return r, nil
	}
	return s.config.Handler.Handle(s.ctx, &Request{
		Listener: s.config.Listener, Remote: c.net.RemoteAddr(), Software: c.software, Header: h, Body: request,
	}), nil
}

var (
	errAPINotServed     = errors.New("API not served on this listener")
	errVersionNotServed = errors.New("version not served on this listener")
	errBodyTooLong      = errors.New("longer than any request of this API here")
)

// deadlineReader reads from a connection and gives up after the idle timeout, or when a long request is overdue.
type deadlineReader struct{ *connection }

func (r deadlineReader) Read(p []byte) (int, error) {
	if !r.extend(r.net.SetReadDeadline, 0) {
		return 0, net.ErrClosed
	}
	return r.net.Read(p)
}

// extend sets a deadline of the connection to the idle timeout from now on, or to due; to grace once the server is
// closed. It reports whether the server is still open.
//
// Close and a connection don't wait for each other: (1) the deadline is set, (2) the server is found open, (3) the
// server is closed, (4) hurry sets the deadline anew. If (3) comes before (2), this function itself does what hurry does.
func (c *connection) extend(set func(time.Time) error, grace time.Duration) bool {
	deadline := c.due
	if idle := c.server.config.IdleTimeout; idle > 0 {
		if at := time.Now().Add(idle); deadline.IsZero() || at.Before(deadline) {
			deadline = at
		}
	}
	set(deadline)
	if c.server.ctx.Err() != nil {
		set(time.Now().Add(grace))
		return false
	}
	return true
}

// hurry makes the connection end soon, for the server is closed: reads fail at once, writes after closeGrace.
func (c *connection) hurry() {
	now := time.Now()
	c.net.SetReadDeadline(now)
	c.net.SetWriteDeadline(now.Add(closeGrace))
}

// about returns the attributes of a log line about a request.
func (c *connection) about(h RequestHeader, reason string) []any {
	return []any{
		slog.Any("remote", c.net.RemoteAddr()), slog.String("client", cut(h.client())), slog.String("instance", h.instance()),
		slog.String("api", kmsg.NameForKey(h.Key)), slog.Int("key", int(h.Key)), slog.Int("version", int(h.Version)),
		slog.String("reason", reason),
	}
}

// cut shortens what a client says of itself, for a log.
func cut(text string) string {
	const enough = 256
	if len(text) <= enough {
		return text
	}
	return strings.ToValidUTF8(text[:enough], "") + "..."
}

// logReadError tells why no further request could be read. A client that goes is no news.
func (c *connection) logReadError(err error) {
	remote := c.net.RemoteAddr()
	var tooLong *FrameError
	switch {
	case errors.As(err, &tooLong):
		c.server.log.Warn("connection closed: not a request of Kafka's protocol, or too long a one", "remote", remote, "reason", err)
	case errors.Is(err, io.EOF) || c.server.ctx.Err() != nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.server.log.Debug("connection closed: idle, or a long request came too slowly", "remote", remote)
	default:
		c.server.log.Debug("connection broken", "remote", remote, "reason", err)
	}
}
