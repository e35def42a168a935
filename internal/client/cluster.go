package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// Options say which cluster is meant and how to talk to it.
type Options struct {
	Bootstrap   []string // host:port, as ParseBootstrap returns them
	Controllers bool     // they are controllers, else brokers
	Settings    Settings
	InstanceID  uuid.UUID         // of this process, in the header of its requests (KIP-1313)
	Dial        wire.DialFunc     // nil: TCP
	Tell        func(text string) // is told what is waited for; nil: nobody is
}

// Cluster is a cluster that is asked and changed. It is for one goroutine.
type Cluster struct {
	options Options
	nodes   map[string]*wire.Client // by address
}

// NewCluster connects to nothing yet.
func NewCluster(o Options) *Cluster {
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	return &Cluster{options: o, nodes: map[string]*wire.Client{}}
}

// Close ends all connections.
func (c *Cluster) Close() {
	for _, node := range c.nodes {
		node.Close()
	}
}

// tellAfter is how long a request may take before a person is told what is waited for.
const tellAfter = 2 * time.Second

// comingUp is how long a cluster may take to come up: addresses at which nobody listens yet, and nodes that do
// not know its metadata.version yet, are asked so long.
const comingUp = 5 * time.Second

// errRequestTimeout ends a request whose answer takes too long, while there is time left for the command.
var errRequestTimeout = errors.New("no answer within request.timeout.ms")

// errHangs ends the first question to an address, to leave time for the next one.
var errHangs = errors.New("no answer in time")

// errTimeout ends all requests when the time of the command is up.
var errTimeout = errors.New("the time is up")

// node is a node that answered, and what it said about the cluster.
type node struct {
	address string
	cluster *kmsg.DescribeClusterResponse
}

// notReady is why a request that can be sent again has no result yet.
type notReady struct {
	err   error
	until time.Duration // since the beginning; 0: until the time is up
}

func (e *notReady) Error() string { return e.err.Error() }
func (e *notReady) Unwrap() error { return e.err }

// withNode calls ask with the node that takes requests for the cluster, again and again while the cluster is not ready.
// doing says what for, in the words of an error: describe the quorum.
func (c *Cluster) withNode(ctx context.Context, doing string, ask func(context.Context, node) error) error {
	settings := c.options.Settings
	ctx, cancel := context.WithTimeoutCause(ctx, settings.Timeout, errTimeout)
	defer cancel()
	start := time.Now()
	var last *notReady
	for backoff := settings.RetryBackoff; ; backoff = min(2*backoff, settings.RetryBackoffMax) {
		n, err := c.find(ctx, doing)
		if err == nil {
			err = ask(ctx, n)
		}
		var waiting *notReady
		if !errors.As(err, &waiting) {
			if last != nil && errors.Is(err, errTimeout) {
				return c.unanswered(doing, fmt.Errorf("%w; the last answer was: %w", errTimeout, last))
			}
			return err
		}
		patience := settings.Timeout
		if waiting.until > 0 {
			patience = min(patience, waiting.until)
			if time.Since(start)+backoff >= patience {
				return waiting.err
			}
		}
		if last == nil || last.Error() != waiting.Error() {
			c.options.Tell(fmt.Sprintf("waiting up to %v: %s", patience, where(waiting.err)))
		}
		last = waiting
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return c.unanswered(doing, fmt.Errorf("%w; the last answer was: %w", context.Cause(ctx), last))
		}
	}
}

// where is what an error says beside what cannot be done, on one line.
func where(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, where(e))
		}
		return strings.Join(all, "; ")
	}
	if e, ok := err.(*Error); ok {
		return e.Where
	}
	return err.Error()
}

// unanswered makes an error of what came in place of an answer.
func (c *Cluster) unanswered(doing string, err error) *Error {
	e := &Error{What: "cannot " + doing, Where: err.Error(), Err: err}
	switch {
	case errors.Is(err, errTimeout):
		e.What += fmt.Sprintf(" within %v", c.options.Settings.Timeout)
		e.Fix = "if the quorum has no leader, the logs of the controllers say why; --timeout waits longer"
	case errors.Is(err, wire.ErrRefused):
		e.Fix = "is the node running, and is the address that of its listener?"
	case errors.As(err, new(*net.DNSError)):
		e.Fix = "look at the name in the address"
	case errors.Is(err, wire.ErrHandshake):
		e.Fix = "if the listener expects TLS or SASL: neither is supported yet, use one with PLAINTEXT"
	case errors.Is(err, wire.ErrUnsupported) && !c.options.Controllers:
		e.Fix = "this broker doesn't pass it on: ask a controller, with --bootstrap-controller"
	case errors.Is(err, wire.ErrUnsupported):
		e.Fix = "controllers of Apache Kafka take it from 3.7 on (changes of the voters from 3.9 on)"
	}
	return e
}

// find returns the node that takes requests for the cluster.
func (c *Cluster) find(ctx context.Context, doing string) (node, error) {
	var errs []error
	comesUp := false
	for i, address := range c.options.Bootstrap {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if others := len(c.options.Bootstrap) - i; others > 1 {
			at, _ := ctx.Deadline()
			limited, cancel = context.WithTimeoutCause(ctx, time.Until(at)/time.Duration(others), errHangs)
		}
		n, err := c.describeCluster(limited, address)
		cancel()
		var waiting *notReady
		switch {
		case err == nil && c.options.Controllers:
			return leader(n)
		case err == nil:
			return n, nil
		case errors.As(err, &waiting):
			comesUp = true
			errs = append(errs, waiting.err)
		case errors.As(err, new(*Error)): // an answer, which is one of the cluster
			return node{}, err
		default:
			comesUp = comesUp || errors.Is(err, wire.ErrRefused)
			errs = append(errs, c.unanswered(doing, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	err := errors.Join(errs...)
	if comesUp {
		return node{}, &notReady{err: err, until: comingUp}
	}
	return node{}, err
}

// leader is the leader of the quorum, as a controller knows it. It can be one that has not registered yet.
func leader(n node) (node, error) {
	for _, b := range n.cluster.Brokers {
		if b.NodeID == n.cluster.ControllerID {
			n.address = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
			return n, nil
		}
	}
	return node{}, &notReady{err: fmt.Errorf("%s knows no leader of the quorum", n.address)}
}

const (
	brokers     = 1 // EndpointType of DescribeCluster
	controllers = 2
)

func (c *Cluster) describeCluster(ctx context.Context, address string) (node, error) {
	q := kmsg.NewPtrDescribeClusterRequest()
	q.EndpointType = brokers
	if c.options.Controllers {
		q.EndpointType = controllers
	}
	answer, err := c.request(ctx, address, q)
	if err != nil {
		return node{}, err
	}
	r := answer.(*kmsg.DescribeClusterResponse)
	code := raft.Code(r.ErrorCode)
	switch {
	case code == mismatchedEndpointType && c.options.Controllers:
		return node{}, &Error{What: "a broker listens at the address of a controller", Where: "--bootstrap-controller " + address,
			Fix: "pass the address with --bootstrap-server, or that of a listener in controller.listener.names", Code: code}
	case code == mismatchedEndpointType:
		return node{}, &Error{What: "a controller listens at the address of a broker", Where: "--bootstrap-server " + address,
			Fix: "pass the address with --bootstrap-controller, or that of a broker's listener", Code: code}
	case code == raft.UnsupportedVersion && c.options.Controllers: // also of one that does not know its metadata.version yet
		e := refusal("ask for the cluster", address, r.ErrorCode, r.ErrorMessage)
		e.Fix = "if the quorum has had no leader since the node was started, its log says for what it waits; below metadata.version 3.7-IV0 ask a broker, with --bootstrap-server"
		return node{}, &notReady{err: e, until: comingUp}
	case code != raft.NoError:
		return node{}, refusal("ask for the cluster", address, r.ErrorCode, r.ErrorMessage)
	}
	return node{address, r}, nil
}

// request sends q to the node at address and returns the answer.
func (c *Cluster) request(ctx context.Context, address string, q kmsg.Request) (kmsg.Response, error) {
	settings := c.options.Settings
	client := c.nodes[address]
	if client == nil {
		client = wire.NewClient(address, wire.Self{ClientID: settings.ClientID, InstanceID: c.options.InstanceID}, dialer(c.options.Dial, settings.ConnectTimeout))
		c.nodes[address] = client
	}
	ctx, cancel := context.WithTimeoutCause(ctx, settings.RequestTimeout, errRequestTimeout)
	defer cancel()
	type result struct {
		answer kmsg.Response
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := client.Do(ctx, q)
		done <- result{answer, unreachable(address, err)}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-time.After(tellAfter):
		left := settings.RequestTimeout
		if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
		c.options.Tell(fmt.Sprintf("waiting for %s to answer %s, up to %v more", address, kmsg.NameForKey(q.Key()), left.Round(time.Second)))
	}
	r := <-done
	return r.answer, r.err
}

// unreachable is err without the words of the packages that it came through, where they say the same again.
func unreachable(address string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, wire.ErrRefused):
		return &unreachableError{address + ": connection refused", err}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &unreachableError{address + ": no such host", err}
	}
	return err
}

type unreachableError struct {
	text string
	err  error
}

func (e *unreachableError) Error() string { return e.text }
func (e *unreachableError) Unwrap() error { return e.err }

// ask sends q to n. If once is set, q is a change that must not be made twice.
func (c *Cluster) ask(ctx context.Context, doing string, n node, q kmsg.Request, once bool) (kmsg.Response, error) {
	answer, err := c.request(ctx, n.address, q)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, errTimeout), errors.Is(err, wire.ErrUnsupported), errors.Is(err, wire.ErrCorrupt):
	case errors.Is(err, wire.ErrRefused), errors.Is(err, wire.ErrHandshake), !once: // it wasn't sent, or doesn't matter
		return nil, &notReady{err: err}
	}
	failed := c.unanswered(doing, err)
	if once && !errors.Is(err, wire.ErrUnsupported) {
		failed.Fix = "it may have been done all the same: describe --status shows the voters"
	}
	return nil, failed
}

// Error codes that the core of the consensus has no use for.
const (
	leaderNotAvailable     raft.Code = 5
	networkException       raft.Code = 13
	notController          raft.Code = 41
	mismatchedEndpointType raft.Code = 114
)

// refusal is an error code as an error.
func refusal(doing, address string, code int16, message *string) *Error {
	where := address + " answers " + wire.ErrorName(code)
	if message != nil && *message != "" {
		where += ": " + *message
	}
	e := &Error{What: "cannot " + doing, Where: where, Code: raft.Code(code)}
	if e.Code == raft.ClusterAuthorization {
		e.Fix = "the user of this connection needs DESCRIBE on the cluster to ask, and ALTER to change"
	}
	return e
}

// moved reports whether a code says no more than that another node is the leader.
func moved(code raft.Code) bool {
	return code == raft.NotLeaderOrFollower || code == notController
}

// passes reports whether a code is about a state that passes, so that a question is worth asking again.
func passes(code raft.Code) bool {
	return moved(code) || slices.Contains([]raft.Code{leaderNotAvailable, raft.RequestTimedOut, raft.BrokerNotAvailable, networkException}, code)
}
