package node

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// errNoController says that there is no active controller to ask, as far as this node knows.
var errNoController = errors.New("no active controller is known")

// controllerChannel is a connection to the active controller, over TCP also when that is this node itself, as in
// Kafka. It is for concurrent use; requests go one after the other, so who must not wait for others has one of its own.
type controllerChannel struct {
	self  wire.Self
	views *views

	mu      sync.Mutex
	address string
	client  *wire.Client
}

// do sends q to the active controller. Who that is may change on the way: an answer NOT_CONTROLLER is the caller's to
// see; it ends requests to the one before. Errors: errNoController, and those of wire.Client.
func (c *controllerChannel) do(ctx context.Context, q kmsg.Request) (kmsg.Response, error) {
	return c.call(ctx, q.Key(), q.MaxVersion(), func(version int16) (kmsg.Request, error) {
		q.SetVersion(version)
		return q, nil
	})
}

// call is do with a request that depends on the version.
func (c *controllerChannel) call(ctx context.Context, key, newest int16, build func(version int16) (kmsg.Request, error)) (kmsg.Response, error) {
	leader := c.views.get().leader
	if leader.LeaderID == raft.None || leader.Endpoint.Host == "" {
		return nil, errNoController
	}
	c.mu.Lock()
	if address := addressOf(leader.Endpoint); address != c.address {
		c.drop()
		c.address, c.client = address, wire.NewClient(address, c.self, nil)
	}
	client := c.client
	c.mu.Unlock() // who waits for a turn gives up when ctx ends
	return client.Call(ctx, key, newest, build)
}

func (c *controllerChannel) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *controllerChannel) drop() {
	if c.client != nil {
		c.client.Close()
	}
	c.address, c.client = "", nil
}

func addressOf(e raft.Endpoint) string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}
