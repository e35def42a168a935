package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"kstorage/internal/wire"
)

// fakeNode is a listener that answers as answer says: the response in the request's version; nil closes the connection.
type fakeNode struct {
	listener net.Listener
	tls      *tls.Config
	login    *login // nil: nobody has to
	answer   func(q kmsg.Request) kmsg.Response

	mu          sync.Mutex
	requests    []kmsg.Request
	instances   map[uuid.UUID]bool // of clients, in request headers that can say it
	connections sync.WaitGroup
	open        map[net.Conn]bool
}

func startNode(t testing.TB, n *fakeNode) *fakeNode {
	t.Helper()
	var err error
	n.listener, err = net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.open, n.instances = map[net.Conn]bool{}, map[uuid.UUID]bool{}
	n.connections.Add(1)
	go func() {
		defer n.connections.Done()
		for {
			conn, err := n.listener.Accept()
			if err != nil {
				return
			}
			n.mu.Lock()
			n.open[conn] = true
			n.connections.Add(1)
			n.mu.Unlock()
			go n.serve(conn)
		}
	}()
	t.Cleanup(func() {
		n.listener.Close()
		n.mu.Lock()
		for conn := range n.open {
			conn.Close()
		}
		n.mu.Unlock()
		n.connections.Wait()
	})
	return n
}

func (n *fakeNode) address() string { return n.listener.Addr().String() }

func (n *fakeNode) port() int32 { return int32(n.listener.Addr().(*net.TCPAddr).Port) }

func (n *fakeNode) serve(conn net.Conn) {
	defer n.connections.Done()
	defer func() {
		n.mu.Lock()
		delete(n.open, conn)
		n.mu.Unlock()
		conn.Close()
	}()
	if n.tls != nil {
		conn = tls.Server(conn, n.tls)
	}
	r := bufio.NewReader(conn)
	state := loginState{login: n.login}
	for {
		frame, err := wire.ReadFrame(r, 1<<20, nil)
		if err != nil {
			return
		}
		h, q, err := wire.DecodeRequest(frame)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.requests = append(n.requests, q)
		if q.IsFlexible() {
			n.instances[h.ClientInstanceID] = true
		}
		n.mu.Unlock()
		answer, mine := state.answer(q)
		if !mine {
			answer = n.answer(q)
		}
		if answer == nil {
			return
		}
		answer.SetVersion(q.GetVersion())
		if _, err := conn.Write(wire.AppendResponse(nil, answer, h.CorrelationID)); err != nil {
			return
		}
	}
}

// asked returns the requests of a kind so far.
func (n *fakeNode) asked(key kmsg.Key) []kmsg.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []kmsg.Request
	for _, q := range n.requests {
		if q.Key() == key.Int16() {
			out = append(out, q)
		}
	}
	return out
}

// deadAddress is one at which nobody listens, and nobody can as long as the test runs: a socket has it that takes no
// connections.
func deadAddress(t testing.TB) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	must(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

// clusterAnswer names nodes, by their ids, with their ports.
func clusterAnswer(controller int32, ports map[int32]int32) *kmsg.DescribeClusterResponse {
	r := kmsg.NewPtrDescribeClusterResponse()
	r.ControllerID = controller
	r.ErrorMessage = kmsg.StringPtr("")
	for id, port := range ports {
		r.Brokers = append(r.Brokers, kmsg.DescribeClusterResponseBroker{NodeID: id, Host: "127.0.0.1", Port: port})
	}
	return r
}

// versionsAnswer is that of a broker, or of a controller, with features of the form name: min, max, finalized.
func versionsAnswer(controller bool, features map[string][3]int16) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	keys := map[kmsg.Key]int16{kmsg.ApiVersions: 4, kmsg.DescribeCluster: 2, kmsg.UpdateFeatures: 2, kmsg.SASLHandshake: 1, kmsg.SASLAuthenticate: 2}
	if !controller {
		keys[kmsg.Produce], keys[kmsg.Metadata] = 11, 13
	}
	for key, newest := range keys {
		r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key.Int16(), MaxVersion: newest})
	}
	r.FinalizedFeaturesEpoch = 7
	for name, f := range features {
		r.SupportedFeatures = append(r.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: name, MinVersion: f[0], MaxVersion: f[1]})
		if f[2] != 0 {
			r.FinalizedFeatures = append(r.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: name, MinVersionLevel: f[2], MaxVersionLevel: f[2]})
		}
	}
	return r
}
