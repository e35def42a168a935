package node

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestChannelPatience: a request that waits for the answer to another one gives up in its own time, and both do when
// another controller is to be asked.
func TestChannelPatience(t *testing.T) {
	asked := make(chan bool)
	v := viewOf(t, func(ctx context.Context, q kmsg.Request) kmsg.Response {
		asked <- true
		<-ctx.Done()
		return nil
	})
	views := newViews(v)
	c := &controllerChannel{views: views}
	defer c.close()
	ends := make(chan error, 3)
	go func() {
		_, err := c.do(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest())
		ends <- err
	}()
	soon(t, asked, "the first request")
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	go func() { // past c, which might send it to the next controller
		_, err := client.Do(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest())
		ends <- err
	}()
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	go func() {
		_, err := c.do(short, kmsg.NewPtrBrokerHeartbeatRequest())
		ends <- err
	}()
	if err := soon(t, ends, "the end of the one that has little time"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	other := viewOf(t, func(_ context.Context, q kmsg.Request) kmsg.Response { return q.ResponseKind() })
	views.set(other)
	if _, err := c.do(t.Context(), kmsg.NewPtrBrokerHeartbeatRequest()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := soon(t, ends, "the end of one to the controller before"); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}
