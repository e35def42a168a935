package chaos

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/nodetest"
	"kstorage/internal/wire"
)

// echo is a node that answers each frame with itself, and tells whose frames have come.
type echo struct {
	listener net.Listener
	came     chan string // client ids
}

func newEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", nodetest.Loopback()+":0")
	must(t, err)
	e := &echo{l, make(chan string, 10)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					frame, err := wire.ReadFrame(r, wire.MaxFrame, nil)
					if err != nil {
						return
					}
					h, _, _ := wire.DecodeRequestHeader(frame)
					e.came <- *h.ClientID
					c.Write(request(*h.ClientID)) //nolint:errcheck // it is seen at the other end
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return e
}

func request(client string) []byte {
	return wire.AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), wire.Self{ClientID: client}, 1)
}

// Each state of a link does what it says.
func TestNetwork(t *testing.T) {
	e := newEcho(t)
	n := newNetwork()
	defer n.close()
	address := nodetest.Loopback() + ":" + strconv.Itoa(nodetest.FreshPort())
	n.add(3, address, e.listener.Addr().String())
	must(t, n.accept(3))
	dial := func(client string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", address)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Write(request(client))
		must(t, err)
		return c
	}
	answered := func(c net.Conn) {
		t.Helper()
		_, err := wire.ReadFrame(c, wire.MaxFrame, nil)
		must(t, err)
	}
	came := func(want string) {
		t.Helper()
		if got := <-e.came; got != want {
			t.Fatalf("a frame of %s has come, want one of %s", got, want)
		}
	}
	way := [2]int{1, 3}

	// As it is at first, and slow: all passes.
	for _, state := range []link{sound, slow} {
		n.set(state, way)
		c := dial("raft-client-1")
		came("raft-client-1")
		answered(c)
	}

	// What is held back comes when the link is sound again, and others are not held back.
	for _, state := range []link{hole, unsent} {
		n.set(state, way)
		c := dial("raft-client-1")
		other := dial("raft-client-2")
		came("raft-client-2")
		answered(other)
		n.set(sound, way)
		came("raft-client-1")
		answered(c)
	}

	// An answer is held back; the channel to the active controller has the id alone.
	n.set(mute, way)
	c := dial("1")
	came("1")
	n.set(sound, way)
	answered(c)

	// Connections that are there are reset, new ones are made and reset.
	n.set(cut, way)
	for _, c := range []net.Conn{c, dial("raft-client-1")} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) && err != io.EOF {
			t.Errorf("a connection that is cut: %v", err)
		}
	}
	n.set(sound, way)

	// A port is closed; connections stay until they are reset.
	c = dial("load")
	came("load")
	answered(c)
	n.refuse(3)
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port that is closed: %v", err)
	}
	_, err := c.Write(request("load"))
	must(t, err)
	came("load")
	answered(c)
	n.reset(3)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that is reset: %v", err)
	}
}
