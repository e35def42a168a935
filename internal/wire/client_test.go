package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// network has nodes by address, and connections in memory. At an address without a node the dial is refused.
type network struct {
	mu    sync.Mutex
	nodes map[string]*node
	dials []string
}

// node is a peer that answers as a test wants.
type node struct {
	apis   []API                                             // that it tells; nil: the RaftAPIs and ApiVersions
	answer func(q kmsg.Request, conn net.Conn) kmsg.Response // nil: the connection is closed

	mu    sync.Mutex
	seen  []string // requests: "Vote v2"
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials = append(n.dials, addr)
	to := n.nodes[addr]
	if to == nil {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	to.mu.Lock()
	to.conns = append(to.conns, server)
	to.mu.Unlock()
	go to.serve(server)
	return client, nil
}

func (n *node) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		frame, err := ReadFrame(r, MaxFrame, nil)
		if err != nil {
			return
		}
		h, body, err := DecodeRequestHeader(frame)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.seen = append(n.seen, fmt.Sprintf("%s v%d", kmsg.NameForKey(h.Key), h.Version))
		n.mu.Unlock()
		q, err := decodeBody(h.Key, h.Version, body)
		if err != nil {
			return
		}
		r := n.respond(q, conn)
		if r == nil {
			return
		}
		if _, err := conn.Write(AppendResponse(nil, r, h.CorrelationID)); err != nil {
			return
		}
	}
}

func (n *node) respond(q kmsg.Request, conn net.Conn) kmsg.Response {
	v, ok := q.(*kmsg.ApiVersionsRequest)
	if !ok {
		n.mu.Lock()
		answer := n.answer
		n.mu.Unlock()
		return answer(q, conn)
	}
	r := v.ResponseKind().(*kmsg.ApiVersionsResponse)
	apis := n.apis
	if apis == nil {
		apis = append([]API{{int16(kmsg.ApiVersions), 0, 5}}, RaftAPIs...)
	}
	for _, a := range apis {
		if a.Key == v.Key() && v.Version > a.Max {
			r.Version, r.ErrorCode, r.ApiKeys = 0, 35, []kmsg.ApiVersionsResponseApiKey{{ApiKey: a.Key, MinVersion: a.Min, MaxVersion: a.Max}}
			return r
		}
		r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: a.Key, MinVersion: a.Min, MaxVersion: a.Max})
	}
	return r
}

// hangUp breaks all connections.
func (n *node) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func (n *node) requests() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.seen, ", ")
}

// echo answers all requests with their default answers.
func echo(q kmsg.Request, _ net.Conn) kmsg.Response { return q.ResponseKind() }

// never keeps a request until its connection is gone.
func never(_ kmsg.Request, conn net.Conn) kmsg.Response {
	conn.Read(make([]byte, 1))
	return nil
}

// withClient runs a test in a bubble with a client of the node at a:1.
func withClient(t *testing.T, n *node, test func(t *testing.T, c *Client, net *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := &network{nodes: map[string]*node{"a:1": n}}
		c := NewClient("a:1", Self{ClientID: "client"}, net.dial)
		defer c.Close()
		test(t, c, net)
	})
}

func describe() kmsg.Request { return kmsg.NewPtrDescribeQuorumRequest() }

func TestClientVersions(t *testing.T) {
	handshake, fetch := int16(kmsg.ApiVersions), int16(kmsg.Fetch)
	for name, c := range map[string]struct {
		apis []API
		want string // the requests, "" if the Fetch is not supported
	}{
		"the peer is as new":              {[]API{{handshake, 0, 5}, {fetch, 4, 18}}, "ApiVersions v5, Fetch v18"},
		"the peer is older":               {[]API{{handshake, 0, 5}, {fetch, 4, 16}}, "ApiVersions v5, Fetch v16"},
		"the peer is newer":               {[]API{{handshake, 0, 9}, {fetch, 17, 99}}, "ApiVersions v5, Fetch v18"},
		"an older handshake":              {[]API{{handshake, 0, 3}, {fetch, 4, 12}}, "ApiVersions v5, ApiVersions v3, Fetch v12"},
		"the oldest handshake":            {[]API{{handshake, 0, 0}, {fetch, 0, 2}}, "ApiVersions v5, ApiVersions v0, Fetch v2"},
		"the peer is too new":             {[]API{{handshake, 0, 5}, {fetch, 19, 20}}, ""},
		"the peer has no such API":        {[]API{{handshake, 0, 5}}, ""},
		"the peer has no version of it":   {[]API{{handshake, 0, 5}, {fetch, 4, 3}}, ""},
		"the peer has a negative version": {[]API{{handshake, 0, 5}, {fetch, -4, -1}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{apis: c.apis, answer: echo}
			withClient(t, n, func(t *testing.T, client *Client, _ *network) {
				q := kmsg.NewPtrFetchRequest()
				r, err := client.Do(t.Context(), q)
				if c.want == "" {
					if !errors.Is(err, ErrUnsupported) || n.requests() != "ApiVersions v5" {
						t.Errorf("got %v, sent %s", err, n.requests())
					}
					return
				}
				if err != nil || n.requests() != c.want {
					t.Fatalf("got %v, sent %s", err, n.requests())
				}
				if r.GetVersion() != q.Version {
					t.Errorf("an answer of version %d to a request of version %d", r.GetVersion(), q.Version)
				}
				if v, err := client.Version(t.Context(), fetch); err != nil || v != q.Version {
					t.Errorf("Version: %d, %v", v, err)
				}
			})
		})
	}
}

// TestClientFallsBackToZero: a peer of before KIP-511 refuses without a word of what it knows.
func TestClientFallsBackToZero(t *testing.T) {
	q := newApiVersionsRequest()
	q.Version = 5
	r, _, err := DecodeResponse(q, []byte{0, 0, 0, 1, 0, 35, 0, 0, 0, 0})
	if err != nil || r.(*kmsg.ApiVersionsResponse).ErrorCode != 35 || r.GetVersion() != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestClientErrors(t *testing.T) {
	raw := func(b ...byte) func(kmsg.Request, net.Conn) kmsg.Response {
		return func(_ kmsg.Request, conn net.Conn) kmsg.Response {
			conn.Write(b)
			return never(nil, conn)
		}
	}
	for name, c := range map[string]struct {
		answer func(kmsg.Request, net.Conn) kmsg.Response
		want   error
	}{
		"the connection breaks":             {func(kmsg.Request, net.Conn) kmsg.Response { return nil }, ErrDisconnected},
		"it breaks in an answer":            {func(_ kmsg.Request, conn net.Conn) kmsg.Response { conn.Write([]byte{0, 0, 0, 99, 1}); return nil }, ErrDisconnected},
		"no answer in time":                 {never, context.DeadlineExceeded},
		"a negative length":                 {raw(255, 255, 255, 255), ErrCorrupt},
		"a length above the limit":          {raw(0x7f, 0, 0, 0), ErrCorrupt},
		"an empty frame":                    {raw(0, 0, 0, 0), ErrCorrupt},
		"another correlation id":            {raw(0, 0, 0, 15, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), ErrCorrupt},
		"an answer that ends in its body":   {raw(0, 0, 0, 6, 0, 0, 0, 2, 0, 0), ErrCorrupt},
		"an answer that ends in its header": {raw(0, 0, 0, 5, 0, 0, 0, 2, 9), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{answer: c.answer}
			withClient(t, n, func(t *testing.T, client *Client, net *network) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := client.Do(ctx, describe())
				if !errors.Is(err, c.want) || errors.Is(err, ErrHandshake) || !strings.HasPrefix(fmt.Sprint(err), "a:1: ") {
					t.Errorf("got %v, want %v", err, c.want)
				}
				took := time.Duration(0)
				if c.want == context.DeadlineExceeded {
					took = 2 * time.Second
				}
				if time.Since(start) != took {
					t.Errorf("it took %v, not %v", time.Since(start), took)
				}
				n.mu.Lock()
				n.answer = echo
				n.mu.Unlock()
				if _, err := client.Do(t.Context(), describe()); err != nil || len(net.dials) != 2 {
					t.Errorf("the next one: %v, after %d dials", err, len(net.dials))
				}
			})
		})
	}
}

// TestClientHandshakeErrors: what goes wrong before the first answer says so.
func TestClientHandshakeErrors(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		want error
	}{
		"the peer hangs up": {"", ErrDisconnected},
		"a TLS alert":       {"\x15\x03\x03\x00\x02\x02\x16", ErrCorrupt},
		"an HTTP server":    {"HTTP/1.1 400 Bad Request\r\n\r\n", ErrCorrupt},
		"refused for good":  {"\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x2a\x01\x00\x00\x00\x00\x00", ErrDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := NewClient("a:1", Self{ClientID: "client"}, func(context.Context, string) (net.Conn, error) {
					a, b := net.Pipe()
					go func() {
						ReadFrame(b, MaxFrame, nil)
						b.Write([]byte(c.says))
						b.Close()
					}()
					return a, nil
				})
				defer client.Close()
				if _, err := client.Do(t.Context(), describe()); !errors.Is(err, ErrHandshake) || !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		})
	}
}

// TestClientNoticesBetweenRequests: a connection that went away, or on which something came that nobody asked for, is
// made anew without a request that fails for it.
func TestClientNoticesBetweenRequests(t *testing.T) {
	for name, breaks := range map[string]func(*node){
		"the peer hangs up":  (*node).hangUp,
		"it talks by itself": func(n *node) { n.conns[0].Write([]byte{0, 0, 0, 4, 0, 0, 0, 3}) },
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{answer: echo}
			withClient(t, n, func(t *testing.T, client *Client, net *network) {
				for range 2 {
					if _, err := client.Do(t.Context(), describe()); err != nil {
						t.Fatal(err)
					}
				}
				breaks(n)
				synctest.Wait()
				if _, err := client.Do(t.Context(), describe()); err != nil || len(net.dials) != 2 {
					t.Errorf("got %v after %d dials", err, len(net.dials))
				}
				want := "ApiVersions v5, DescribeQuorum v2, DescribeQuorum v2, ApiVersions v5, DescribeQuorum v2"
				if n.requests() != want {
					t.Errorf("sent %s", n.requests())
				}
			})
		})
	}
}

func TestClientCloseInterrupts(t *testing.T) {
	n := &node{answer: never}
	withClient(t, n, func(t *testing.T, client *Client, _ *network) {
		failed := make(chan error, 2)
		for range 2 { // one is under way, the other waits for its turn
			go func() {
				_, err := client.Do(context.Background(), describe())
				failed <- err
			}()
		}
		synctest.Wait()
		client.Close()
		for range 2 {
			if err := <-failed; !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
		if _, err := client.Do(t.Context(), describe()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestClientTakesTurns: requests of several callers go one after the other on one connection, and each gets its answer.
func TestClientTakesTurns(t *testing.T) {
	n := &node{answer: func(q kmsg.Request, _ net.Conn) kmsg.Response {
		r := q.ResponseKind().(*kmsg.UnregisterBrokerResponse)
		r.ThrottleMillis = q.(*kmsg.UnregisterBrokerRequest).BrokerID
		time.Sleep(time.Millisecond)
		return r
	}, apis: []API{{int16(kmsg.ApiVersions), 0, 5}, {int16(kmsg.UnregisterBroker), 0, 0}}}
	withClient(t, n, func(t *testing.T, client *Client, net *network) {
		var group sync.WaitGroup
		for id := range int32(20) {
			group.Go(func() {
				q := kmsg.NewPtrUnregisterBrokerRequest()
				q.BrokerID = id
				r, err := client.Do(t.Context(), q)
				if err != nil || r.(*kmsg.UnregisterBrokerResponse).ThrottleMillis != id {
					t.Errorf("%d: %+v, %v", id, r, err)
				}
			})
		}
		group.Wait()
		if len(net.dials) != 1 {
			t.Errorf("%d dials", len(net.dials))
		}
	})
}

// TestClientWriteInterrupted: a peer that doesn't read doesn't hold a request beyond its time.
func TestClientWriteInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peers []net.Conn
		client := NewClient("a:1", Self{ClientID: "client"}, func(context.Context, string) (net.Conn, error) {
			a, b := net.Pipe()
			peers = append(peers, b)
			return a, nil
		})
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.Do(ctx, describe()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		for _, p := range peers {
			if n, err := p.Read(make([]byte, 1)); err == nil {
				t.Errorf("the connection is still open: %d bytes", n)
			}
		}
	})
}

// TestClientOverTCP: the real thing, and a port where nobody listens any more.
func TestClientOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{answer: echo}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err == nil {
			n.serve(conn)
		}
	}()
	client := NewClient(l.Addr().String(), Self{ClientID: "client"}, nil)
	if _, err := client.Do(t.Context(), describe()); err != nil {
		t.Error(err)
	}
	l.Close()
	client.Close()
	<-served
	client = NewClient(l.Addr().String(), Self{ClientID: "client"}, nil)
	defer client.Close()
	if _, err := client.Do(t.Context(), describe()); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
}

// FuzzResponse: no bytes of a peer make the decoder panic, or allocate much more than they are.
func FuzzResponse(f *testing.F) {
	for i, c := range raftResponses {
		_, newest := versionsOf(c.api)
		q := requestFor(c.api, newest)
		f.Add(int16(c.api), newest, AppendResponse(nil, EncodeRaftResponse(q, c.response, c.payload, nil), int32(i))[4:])
	}
	n := &node{}
	for _, version := range []int16{0, 3, 5} {
		q := newApiVersionsRequest()
		q.Version = version
		f.Add(q.Key(), version, AppendResponse(nil, n.respond(q, nil), 1)[4:])
	}
	f.Add(int16(kmsg.Fetch), int16(18), binary.AppendUvarint([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1<<31))
	f.Fuzz(func(t *testing.T, key, version int16, frame []byte) {
		q := kmsg.RequestForKey(key)
		if q == nil || version < 0 || version > q.MaxVersion() {
			return
		}
		q.SetVersion(version)
		var r kmsg.Response
		var err error
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, _, err = DecodeResponse(q, frame)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(1<<13+300*len(frame)) {
			t.Errorf("%d bytes for a frame of %d", took, len(frame))
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		sent := key == int16(kmsg.ApiVersions)
		for _, a := range RaftAPIs {
			sent = sent || a.Key == key && key != int16(kmsg.DescribeQuorum)
		}
		if sent {
			DecodeRaftResponse(r)
		}
		// What was taken is what it says: it survives another trip.
		again, _, err := DecodeResponse(q, AppendResponse(nil, r, 1)[4:])
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
	})
}

// TestClientErrorText: two connections that break for the same reason break with the same words, so that who logs a
// reason once does so.
func TestClientErrorText(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ReadFrame(bufio.NewReader(conn), MaxFrame, nil) //nolint:errcheck // it is reset anyway
			conn.(*net.TCPConn).SetLinger(0)                //nolint:errcheck // it is open
			conn.Close()
		}
	}()
	addr := listener.Addr().String()
	c := NewClient(addr, Self{}, nil)
	defer c.Close()
	texts := map[string]bool{}
	for range 3 {
		_, err := c.Do(t.Context(), kmsg.NewPtrDescribeQuorumRequest())
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		texts[err.Error()] = true
	}
	listener.Close()
	if want := addr + ": no answer to the first request: disconnected: read: connection reset by peer"; len(texts) != 1 || !texts[want] {
		t.Errorf("%v, want %q alone", texts, want)
	}
}
