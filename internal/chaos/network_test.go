package chaos

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kstorage/internal/wire"
)

// A link is the way from one node to another: its requests there, and the answers to them. Its zero value is sound.
type link int

const (
	sound  link = iota
	cut         // connections are reset as soon as it is known who makes them
	hole        // nothing passes
	unsent      // requests don't pass, answers do
	mute        // requests pass, answers don't
	slow        // all that passes takes its time
)

// slowness is what a slow link adds to each piece that passes.
const slowness = 15 * time.Millisecond

// clientID is the one who isn't a node.
const clientID = 0

// network has a proxy in front of each controller; nothing reaches a controller but through it. Who makes a
// connection is seen from the client id of its first request. What a link holds back passes when it is sound
// again, as on a real network: requests that their senders have given up long ago arrive, too.
type network struct {
	running sync.WaitGroup

	mu      sync.Mutex
	links   map[[2]int]link // by from and to
	changed chan struct{}   // closed when links change
	passing map[*passage]bool
	proxies map[int]*proxy
	closed  bool
}

// proxy stands in front of one node.
type proxy struct {
	address, target string
	listener        net.Listener // nil: connections are refused
}

// passage is a connection through a proxy.
type passage struct {
	from, to int
	near     net.Conn
	far      net.Conn      // nil at first
	gone     chan struct{} // closed when it is reset
}

func newNetwork() *network {
	return &network{links: map[[2]int]link{}, changed: make(chan struct{}), passing: map[*passage]bool{}, proxies: map[int]*proxy{}}
}

// add puts a proxy at an address in front of the node at target. It refuses connections yet.
func (n *network) add(node int, address, target string) {
	n.proxies[node] = &proxy{address: address, target: target}
}

// accept lets a proxy take connections.
func (n *network) accept(node int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.proxies[node]
	if p == nil || p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.listener = l
	n.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.running.Go(func() { n.serve(node, c) })
		}
	})
	return nil
}

// refuse closes the port of a proxy. Connections that are there stay.
func (n *network) refuse(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.proxies[node]; p != nil && p.listener != nil {
		closePort(p.listener)
		p.listener = nil
	}
}

// closePort closes a port at once: without the shutdown it would stay open as long as a process that is being
// started, of another test, still has a copy of the descriptor.
func closePort(l net.Listener) {
	if c, err := l.(*net.TCPListener).SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_RDWR) }) //nolint:errcheck // it is closed then
	}
	l.Close()
}

// set changes links.
func (n *network) set(to link, links ...[2]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.links[l] = to
	}
	close(n.changed)
	n.changed = make(chan struct{})
	if to == cut {
		n.resetWhere(func(p *passage) bool { return n.links[[2]int{p.from, p.to}] == cut })
	}
}

// reset breaks all connections to a node, once.
func (n *network) reset(to int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resetWhere(func(p *passage) bool { return p.to == to })
}

func (n *network) resetWhere(which func(*passage) bool) {
	for p := range n.passing {
		if which(p) {
			n.abort(p)
		}
	}
}

// abort resets both sides of a connection.
func (n *network) abort(p *passage) {
	for _, c := range []net.Conn{p.near, p.far} {
		if c != nil {
			c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // it may be closed
		}
	}
	n.drop(p)
}

// drop closes both sides of a connection.
func (n *network) drop(p *passage) {
	if !n.passing[p] {
		return
	}
	delete(n.passing, p)
	close(p.gone)
	for _, c := range []net.Conn{p.near, p.far} {
		if c != nil {
			c.Close()
		}
	}
}

func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	for _, p := range n.proxies {
		if p.listener != nil {
			closePort(p.listener)
		}
	}
	n.resetWhere(func(*passage) bool { return true })
	n.mu.Unlock()
	n.running.Wait()
}

// serve carries a connection to a node.
func (n *network) serve(to int, near net.Conn) {
	p := &passage{from: -1, to: to, near: near, gone: make(chan struct{})}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		near.Close()
		return
	}
	n.passing[p] = true
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.drop(p)
	}()

	r := bufio.NewReader(near)
	first, err := wire.ReadFrame(r, wire.MaxFrame, nil)
	if err != nil {
		return
	}
	h, _, err := wire.DecodeRequestHeader(first)
	if err != nil {
		return
	}
	n.mu.Lock()
	p.from = sender(h.ClientID)
	n.mu.Unlock()
	if !n.pass(p, false) {
		return
	}
	far, err := net.Dial("tcp", n.proxies[to].target)
	if err != nil {
		return
	}
	n.mu.Lock()
	if !n.passing[p] {
		n.mu.Unlock()
		far.Close()
		return
	}
	p.far = far
	n.mu.Unlock()
	if _, err := far.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(first))), first...)); err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		n.carry(p, bufio.NewReader(far), near, true)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.drop(p)
	})
	n.carry(p, r, far, false)
	n.mu.Lock()
	n.drop(p)
	n.mu.Unlock()
	answers.Wait()
}

// carry carries bytes to one side until the other one closes. That is not seen earlier than the bytes before it.
func (n *network) carry(p *passage, from *bufio.Reader, to net.Conn, answers bool) {
	for {
		_, failure := from.Peek(1)
		if !n.pass(p, answers) || failure != nil {
			return
		}
		some, _ := from.Peek(from.Buffered())
		if _, err := to.Write(bytes.Clone(some)); err != nil {
			return
		}
		from.Discard(len(some)) //nolint:errcheck // it is buffered
	}
}

// pass waits until the next bytes may pass. It is false if the connection is to be reset, or has been.
func (n *network) pass(p *passage, answers bool) bool {
	delayed := false
	for {
		n.mu.Lock()
		state, changed := n.links[[2]int{p.from, p.to}], n.changed
		n.mu.Unlock()
		var later <-chan time.Time
		switch {
		case state == cut:
			n.mu.Lock()
			defer n.mu.Unlock()
			n.abort(p)
			return false
		case state == hole, state == unsent && !answers, state == mute && answers:
		case state == slow && !delayed:
			later, changed = time.After(slowness), nil
		default:
			return true
		}
		select {
		case <-later:
			delayed = true
		case <-changed:
		case <-p.gone:
			return false
		}
	}
}

// sender is the node that has a client id: the consensus layer's, or that of the channel to the active controller.
func sender(client *string) int {
	if client == nil {
		return clientID
	}
	id, err := strconv.Atoi(strings.TrimPrefix(*client, "raft-client-"))
	if err != nil {
		return clientID
	}
	return id
}
