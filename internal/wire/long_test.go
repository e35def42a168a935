package wire

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// longRequest is a request of so many bytes: Kafka passes over what stands behind a body, and so does this server.
func longRequest(id int32, sizeBytes int) []byte {
	const length = 4
	payload := brokerRequest(id, id)[length:]
	return frameOf(append(payload, make([]byte, sizeBytes-len(payload))...))
}

// wantAnswers checks that the server answers short requests, and a long one in seconds.
func wantAnswers(t *testing.T, s *testServer, longBytes int) {
	t.Helper()
	c := s.dial()
	defer c.Close()
	for id, request := range [][]byte{1: brokerRequest(1, 1), 2: longRequest(2, longBytes)} {
		if request == nil {
			continue
		}
		go c.Write(request)
		if got := read(t, c); got != brokerAnswer(int32(id), int32(id)) {
			t.Errorf("answer %q", got)
		}
	}
}

// TestLongRequestsAreBounded: however many connections claim long requests and send all but their last byte, what the
// server takes is bounded by the connections' short buffers and one total. Short requests never wait for that; long
// ones do, until the others are overdue.
func TestLongRequestsAreBounded(t *testing.T) {
	for _, size := range []int{firstRead + 1, 100 << 10, longBytes, 4 << 20} {
		synctest.Test(t, func(t *testing.T) {
			clients := longBytes/size + 40
			unfinished := longRequest(1, size)[:4+size-1]
			s := startServer(func(c *ServerConfig) { c.MaxFrameBytes, c.IdleTimeout = 4<<20, 10*time.Minute })
			var taken atomic.Int64
			for range clients {
				c := s.dial()
				go func() {
					const piece = 1 << 10
					for part := range slices.Chunk(unfinished, piece) {
						if _, err := c.Write(part); err != nil {
							return
						}
						taken.Add(int64(len(part)))
					}
					io.Copy(io.Discard, c)
				}()
			}
			synctest.Wait()
			if most := int64(clients*readAhead + max(longBytes, size)); taken.Load() > most {
				t.Errorf("requests of %d bytes: %d bytes are taken, at most %d should be", size, taken.Load(), most)
			}
			if held := longHeld(s); held > longBytes || held < longBytes-int64(size) {
				t.Errorf("requests of %d bytes: %d bytes are held", size, held)
			}
			short := s.dial()
			short.Write(brokerRequest(3, 3))
			if got := read(t, short); got != brokerAnswer(3, 3) { // at once: time stands still until all goroutines wait
				t.Errorf("answer %q", got)
			}
			begin := time.Now()
			wantAnswers(t, s, min(size, maxBodyBytes))
			// All came before it, in groups of as many as have room.
			groups := (clients + max(1, longBytes/size) - 1) / max(1, longBytes/size)
			if took := time.Since(begin); took > time.Duration(groups)*longTimeout {
				t.Errorf("a long request was answered after %v", took)
			}
			s.stop(t)
			if held := longHeld(s); held != 0 {
				t.Errorf("%d bytes are held by nobody", held)
			}
		})
	}
}

// longHeld is what long requests hold of longBytes.
func longHeld(s *testServer) (held int64) {
	free := int64(0)
	for step := int64(longBytes); step > 0; step /= 2 {
		if s.long.TryAcquire(step) {
			free += step
		}
	}
	s.long.Release(free)
	return longBytes - free
}

// TestLongRequestHoldsItsShareUntilItIsHandled: decoded, it may be far larger than it was. A client that does not take the
// answer holds nothing.
func TestLongRequestHoldsItsShareUntilItIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handling := make(chan bool)
		s := startServer(func(c *ServerConfig) {
			c.Handler = handlerFunc(func(ctx context.Context, r *Request) kmsg.Response {
				handling <- true
				time.Sleep(time.Hour)
				return answerBroker(ctx, r)
			})
		})
		var clients []net.Conn
		for id := range int32(3) {
			c := s.dial()
			clients = append(clients, c)
			go c.Write(longRequest(id+1, maxBodyBytes)) // two fit
		}
		<-handling
		<-handling
		synctest.Wait()
		if held := longHeld(s); held != 2*maxBodyBytes {
			t.Errorf("%d bytes are held", held)
		}
		begin := time.Now()
		<-handling
		if waited := time.Since(begin); waited != time.Hour {
			t.Errorf("the third was handled after %v", waited)
		}
		for id, c := range clients {
			if got := read(t, c); got != brokerAnswer(int32(id)+1, int32(id)+1) {
				t.Errorf("answer %q", got)
			}
		}
		s.stop(t)
	})
}

// TestSlowLongRequestIsGivenUp, though its bytes come often enough for the idle timeout. A slow short one is not.
func TestSlowLongRequestIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(func(c *ServerConfig) { c.IdleTimeout = 2 * time.Second })
		drip := func(c net.Conn, request []byte) {
			for ; len(request) > 0; request = request[1:] {
				time.Sleep(time.Second)
				if _, err := c.Write(request[:1]); err != nil {
					return
				}
			}
		}
		begin := time.Now()
		long, short := s.dial(), s.dial()
		go drip(long, longRequest(1, firstRead+1))
		go drip(short, brokerRequest(2, 2))
		if got := read(t, short); got != brokerAnswer(2, 2) {
			t.Errorf("answer %q", got)
		}
		if took := time.Since(begin); took <= longTimeout {
			t.Errorf("the short one took %v, which tells nothing", took)
		}
		wantClosed(t, long)
		if longHeld(s) != 0 {
			t.Errorf("%d bytes are held", longHeld(s))
		}
		// The deadline of a long request is none of the next one.
		c := s.dial()
		go c.Write(longRequest(3, firstRead+1))
		if got := read(t, c); got != brokerAnswer(3, 3) {
			t.Errorf("answer %q", got)
		}
		go drip(c, brokerRequest(4, 4))
		if got := read(t, c); got != brokerAnswer(4, 4) {
			t.Errorf("answer %q", got)
		}
		s.stop(t)
		if !strings.Contains(s.log.String(), "came too slowly") {
			t.Errorf("log: %s", &s.log)
		}
	})
}

// TestCloseEndsTheWaitForAShare, also of a client that is gone meanwhile.
func TestCloseEndsTheWaitForAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(nil)
		first, second, third := s.dial(), s.dial(), s.dial()
		for _, c := range []net.Conn{first, second, third} {
			go c.Write(longRequest(1, longBytes)[:longBytes])
		}
		synctest.Wait()
		third.Close()
		s.stop(t)
		wantClosed(t, first)
		wantClosed(t, second)
	})
}
