package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"
)

const (
	// closeGrace is how long Close lets a client take its last answer.
	closeGrace = time.Second
	// acceptPause is how long a server waits when there are no file descriptors left for a connection.
	acceptPause = 100 * time.Millisecond
)

// Request is a request as its handler gets it. Byte fields of Body stand in the memory of the connection and are
// valid until Handle returns; everything else is the handler's.
type Request struct {
	Listener string
	Remote   net.Addr
	Software Software // of the client
	Header   RequestHeader
	Body     kmsg.Request
}

// Handled is what became of a request.
type Handled struct {
	Listener string
	Remote   net.Addr
	Header   RequestHeader // as far as it could be read
	Began    time.Time     // when the request had been read
	Took     time.Duration // until its answer was written
	Error    string        // Kafka's name of the answer's error code, or why there was no answer; "" for none
}

// Software is what a client runs, as it says in its ApiVersions request (KIP-511).
type Software struct{ Name, Version string }

// unknownSoftware is that of a client that doesn't say, in Kafka's words.
var unknownSoftware = Software{"unknown", "unknown"}

// Handler answers the requests of a listener, those of ApiVersions aside.
type Handler interface {
	// Handle returns the answer to r in the version of r, or nil to close the connection without an answer. It is
	// called in the goroutine of the connection and may wait, as a long poll does. ctx ends when the server is
	// closed; Handle must return soon then, and its answer is still sent.
	Handle(ctx context.Context, r *Request) kmsg.Response
}

// API is a range of versions that a listener serves, both ends included.
type API struct{ Key, Min, Max int16 }

// ServerConfig is what a server needs. All fields must be set, apart from limits: 0 is no limit.
type ServerConfig struct {
	Listener string // its name, for handlers and the log
	APIs     []API  // ApiVersions comes by itself
	Handler  Handler
	// MaxConnections (max.connections) and MaxConnectionsPerIP (max.connections.per.ip) count the connections of this
	// server. At the first, new clients wait until another one goes; at the second, they are sent away.
	MaxConnections, MaxConnectionsPerIP int
	MaxFrameBytes                       int           // socket.request.max.bytes; 0 is MaxFrame
	IdleTimeout                         time.Duration // connections.max.idle.ms: no byte read or written for so long
	Logger                              *slog.Logger
	Versions                            func() VersionInfo // called for each ApiVersions request
	Gone                                func(net.Addr)     // a connection of this client is closed; nil: nobody wants to know
	Handled                             func(*Handled)     // a request has been answered or refused; likewise
}

// Server serves the connections of one listener. Its methods may be called from any goroutine.
type Server struct {
	config ServerConfig
	apis   []kmsg.ApiVersionsResponseApiKey // by key
	served [kmsg.MaxKey + 1]API             // by key; Max -1: not served
	log    *slog.Logger
	long   *semaphore.Weighted // of longBytes

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup // of Serve and the connections

	mu          sync.Mutex
	left        sync.Cond // a connection is gone, or the server is closed
	listeners   map[net.Listener]bool
	connections map[*connection]bool
	perHost     map[string]int // connections
}

// NewServer makes a server that is yet without a listener.
func NewServer(config ServerConfig) *Server {
	if config.MaxFrameBytes == 0 {
		config.MaxFrameBytes = MaxFrame
	}
	s := &Server{
		config: config, log: config.Logger.With("listener", config.Listener), long: semaphore.NewWeighted(longBytes),
		listeners: map[net.Listener]bool{}, connections: map[*connection]bool{}, perHost: map[string]int{},
	}
	s.left.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for key := range s.served {
		s.served[key].Max = -1
	}
	for _, api := range append(slices.Clone(config.APIs), API{Key: int16(kmsg.ApiVersions), Max: maxApiVersions}) {
		s.served[api.Key] = api
	}
	for key, api := range s.served {
		if api.Max >= 0 {
			s.apis = append(s.apis, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MinVersion: api.Min, MaxVersion: api.Max})
		}
	}
	return s
}

// Serve accepts the connections of l until Close, and closes l. It returns nil after Close, else the error of l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = true
	s.done.Add(1)
	s.mu.Unlock()
	defer s.done.Done()
	for {
		c, err := l.Accept()
		switch {
		case s.ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
			s.log.Warn("no file descriptor for a new connection", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
			}
		case err != nil:
			return fmt.Errorf("accept a connection on %s: %w", l.Addr(), err)
		default:
			// A listener with TLS or SASL wraps c here; its handshake belongs into the goroutine of the connection.
			s.admit(c)
		}
	}
}

// admit starts the goroutine of a new connection, as soon as the limits allow it.
func (s *Server) admit(c net.Conn) {
	host := hostOf(c.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit := s.config.MaxConnectionsPerIP; limit > 0 && s.perHost[host] >= limit {
		s.log.Info("too many connections of one address", "remote", c.RemoteAddr(), "max.connections.per.ip", limit)
		c.Close()
		return
	}
	if limit := s.config.MaxConnections; limit > 0 && len(s.connections) >= limit {
		s.log.Warn("new connections wait for others to go", "remote", c.RemoteAddr(), "max.connections", limit)
		for len(s.connections) >= limit && s.ctx.Err() == nil {
			s.left.Wait()
		}
	}
	if s.ctx.Err() != nil {
		c.Close()
		return
	}
	own := &connection{server: s, net: c, software: unknownSoftware}
	s.connections[own] = true
	s.perHost[host]++
	s.done.Go(func() {
		defer s.remove(own, host)
		if s.config.Gone != nil {
			defer s.config.Gone(c.RemoteAddr())
		}
		own.serve()
	})
}

// remove forgets a connection.
func (s *Server) remove(c *connection, host string) {
	c.net.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.connections, c)
	if s.perHost[host]--; s.perHost[host] == 0 {
		delete(s.perHost, host)
	}
	s.left.Signal()
}

// hostOf returns the address without the port.
func hostOf(a net.Addr) string {
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}

// Close stops the server: it closes the listeners and the connections that wait for a request, ends the context of
// the handlers that run, and returns when these have returned and their answers are sent or closeGrace is over.
// Later calls wait as the first one.
func (s *Server) Close() {
	s.mu.Lock()
	s.cancel()
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.connections {
		c.hurry()
	}
	s.left.Broadcast()
	s.mu.Unlock()
	s.done.Wait()
}
