package admin

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/client"
	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// Options say which cluster is meant and how to talk to it.
type Options struct {
	Bootstrap   []string // host:port, as client.ParseBootstrap returns them
	Controllers bool     // they are controllers, else brokers
	Settings    Settings
	InstanceID  uuid.UUID         // of this process, in the header of its requests (KIP-1313)
	Software    string            // the version of the program, as brokers show it
	Tell        func(text string) // is told what is waited for, by several goroutines; nil: nobody is
}

// Cluster is a cluster that is asked and changed. It is for one goroutine.
type Cluster struct {
	options Options

	mu      sync.Mutex
	clients map[string]*kgo.Client // by address
}

// NewCluster connects to nothing yet.
func NewCluster(o Options) *Cluster {
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	return &Cluster{options: o, clients: map[string]*kgo.Client{}}
}

// Close ends all connections.
func (c *Cluster) Close() {
	for _, k := range c.clients {
		k.Close()
	}
}

// ErrNoNode is what an error is if nothing at the bootstrap addresses can be reached.
var ErrNoNode = errors.New("no node answers")

// refusedPatience is how long addresses at which nobody answers are tried.
const refusedPatience = 5 * time.Second

// tellAfter is how long a request may take before a person is told what is waited for.
const tellAfter = 2 * time.Second

// node is a node that answered.
type node struct {
	address  string
	versions *kmsg.ApiVersionsResponse
}

func (n node) serves(key kmsg.Key) bool { return n.maxVersion(key) >= 0 }

// maxVersion is -1 if the node doesn't serve the request.
func (n node) maxVersion(key kmsg.Key) int16 {
	for _, k := range n.versions.ApiKeys {
		if k.ApiKey == key.Int16() {
			return k.MaxVersion
		}
	}
	return -1
}

// notReady is why something that can be tried again has no result yet.
type notReady struct {
	err   error
	until time.Duration // since the beginning; 0: until the time is up
}

func (e *notReady) Error() string { return e.err.Error() }
func (e *notReady) Unwrap() error { return e.err }

// retry calls try, again and again while its result is a *notReady. doing says what for, in the words of an error.
func (c *Cluster) retry(ctx context.Context, doing string, try func(context.Context) error) error {
	settings := c.options.Settings
	start := time.Now()
	told := ""
	for backoff := settings.RetryBackoff; ; backoff = min(2*backoff, settings.RetryBackoffMax) {
		err := try(ctx)
		var waiting *notReady
		if !errors.As(err, &waiting) {
			return err
		}
		left := time.Until(deadline(ctx))
		if waiting.until > 0 {
			left = min(left, waiting.until-time.Since(start))
		}
		if left <= backoff {
			if waiting.until > 0 {
				return waiting.err
			}
			return timedOut(doing, time.Since(start), waiting.err)
		}
		// What cannot be done stands in the text for each address.
		text := strings.ReplaceAll(oneLine(waiting.Error()), "cannot "+doing+": ", "")
		if told != text && time.Since(start) >= min(tellAfter, settings.Timeout/2) {
			told = text
			c.options.Tell(fmt.Sprintf("waiting up to %v more: %s", left.Round(time.Second), text))
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return timedOut(doing, time.Since(start), waiting.err)
		}
	}
}

func deadline(ctx context.Context) time.Time {
	if at, ok := ctx.Deadline(); ok {
		return at
	}
	return time.Now().Add(time.Hour)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

func timedOut(doing string, after time.Duration, last error) error {
	return &client.Error{
		What:  fmt.Sprintf("cannot %s within %v", doing, after.Round(100*time.Millisecond)),
		Where: "last: " + oneLine(last.Error()),
		Fix:   "if the quorum has no leader, the logs of the controllers say why; --timeout waits longer",
		Err:   last,
	}
}

// find returns the first node at the bootstrap addresses that answers and is of the kind that is meant.
func (c *Cluster) find(ctx context.Context, doing string) (node, error) {
	var errs []error
	passes := false
	for i, address := range c.options.Bootstrap {
		// One that hangs leaves time for those behind it.
		share := time.Until(deadline(ctx)) / time.Duration(len(c.options.Bootstrap)-i)
		limited, cancel := context.WithTimeout(ctx, share)
		n, err := c.connect(limited, address)
		cancel()
		if err == nil {
			return n, c.checkKind(n)
		}
		failed := unanswered(doing, address, err)
		errs = append(errs, failed)
		passes = passes || startsLater(err)
	}
	err := errors.Join(errs...)
	if passes {
		return node{}, &notReady{err: err, until: refusedPatience}
	}
	return node{}, err
}

// startsLater reports whether an error is one of an address at which nobody listens yet.
func startsLater(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial" && !errors.As(err, new(*net.DNSError))
}

// checkKind tells brokers from controllers: these serve no Metadata.
func (c *Cluster) checkKind(n node) error {
	isBroker := n.serves(kmsg.Metadata)
	switch {
	case c.options.Controllers && isBroker:
		return &client.Error{What: fmt.Sprintf("%s is a broker: pass its address with --bootstrap-server, or that of a controller with --bootstrap-controller", n.address)}
	case !c.options.Controllers && !isBroker:
		return &client.Error{What: fmt.Sprintf("%s is a controller: pass its address with --bootstrap-controller, or that of a broker with --bootstrap-server", n.address)}
	}
	return nil
}

// connect asks the node at an address what it serves.
func (c *Cluster) connect(ctx context.Context, address string) (node, error) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = software, c.options.Software
	answer, err := c.request(ctx, address, q)
	if err != nil {
		return node{}, err
	}
	r := answer.(*kmsg.ApiVersionsResponse)
	if r.ErrorCode != 0 {
		return node{}, &refusal{r.ErrorCode, nil}
	}
	return node{address, r}, nil
}

// software is how brokers call this program in their metrics.
const software = "kfeatures"

// request sends q to the node at address and returns the answer. The answer's error code is not looked at.
func (c *Cluster) request(ctx context.Context, address string, q kmsg.Request) (kmsg.Response, error) {
	k, err := c.client(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Settings.RequestTimeout)
	defer cancel()
	defer c.tellIfSlow(ctx, address)()
	return k.SeedBrokers()[0].Request(ctx, q)
}

// tellIfSlow tells of a request that takes long. Nothing is told any more when the function that it returns has returned.
func (c *Cluster) tellIfSlow(ctx context.Context, address string) (end func()) {
	answered := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-answered:
		case <-time.After(tellAfter):
			c.options.Tell(fmt.Sprintf("waiting for %s to answer, up to %v more", address, time.Until(deadline(ctx)).Round(time.Second)))
		}
	})
	return func() {
		close(answered)
		watch.Wait()
	}
}

func (c *Cluster) client(address string) (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.clients[address]; k != nil {
		return k, nil
	}
	settings := c.options.Settings
	opts := []kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.ClientID(settings.ClientID),
		kgo.SoftwareNameAndVersion(software, c.options.Software),
		kgo.DisableClientMetrics(),
		kgo.RequestTimeoutOverhead(max(settings.RequestTimeout, 100*time.Millisecond)), // less is no timeout to kgo
		kgo.Dialer(c.dial),
	}
	if settings.mechanism != nil {
		opts = append(opts, kgo.SASL(settings.mechanism))
	}
	k, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	c.clients[address] = k
	return k, nil
}

// dial makes a connection on which requests have the client instance id, which kgo cannot give them.
func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.options.Settings.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return wire.WithInstance(conn, c.options.InstanceID), nil
}

// refusal is an error code that a server sent.
type refusal struct {
	code    int16
	message *string
}

// Error is the server's message, else what the code means.
func (r *refusal) Error() string {
	if r.message != nil && *r.message != "" {
		return *r.message
	}
	if known := kerr.TypedErrorForCode(r.code); known != nil {
		return known.Description
	}
	return wire.ErrorName(r.code)
}

// passes reports whether the code is about a state that passes.
func (r *refusal) passes() bool {
	return slices.Contains([]error{kerr.NotController, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.RequestTimedOut,
		kerr.BrokerNotAvailable, kerr.NetworkException, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress}, kerr.ErrorForCode(r.code))
}

// unanswered makes an error of what came from an address in place of an answer.
func unanswered(doing, address string, err error) *client.Error {
	e := &client.Error{What: "cannot " + doing, Where: address + ": " + reason(err), Err: err}
	var login *kerr.Error
	var op *net.OpError
	switch {
	case errors.As(err, new(*refusal)):
		r := err.(*refusal)
		e.Where, e.Code = fmt.Sprintf("%s answers %s: %v", address, wire.ErrorName(r.code), r), raft.Code(r.code)
		switch r.code {
		case kerr.ClusterAuthorizationFailed.Code:
			e.Fix = "the user of this connection needs the operation ALTER on the cluster"
		case kerr.UnsupportedVersion.Code:
			e.Fix = "below metadata.version 3.7-IV0 controllers don't answer for the cluster: ask a broker, with --bootstrap-server"
		}
	case errors.As(err, &login) && login.Code == kerr.UnsupportedSaslMechanism.Code:
		e.Fix = "set sasl.mechanism to one that the listener has"
	case errors.As(err, &login):
		e.Fix = "look at sasl.mechanism and sasl.jaas.config in the client's configuration"
	case errors.As(err, new(x509.CertificateInvalidError)), errors.As(err, new(x509.UnknownAuthorityError)):
		e.Fix = "ssl.truststore.location needs the certificate that signed the server's"
	case errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate"): // crypto/tls has no type for an alert
		e.Fix = "the listener asks the client for a certificate that it trusts: look at ssl.keystore.location"
	case errors.As(err, new(x509.HostnameError)):
		e.Fix = "use a name that is in the certificate; ssl.endpoint.identification.algorithm= (empty) takes any name"
	case strings.Contains(err.Error(), "tls alert record"): // kgo has no type for it
		e.Where = address + ": the listener expects TLS"
		e.Fix = "set security.protocol=SSL, or SASL_SSL, in a file for --command-config"
	case errors.As(err, new(*handshakeError)):
		e.Fix = "is the listener one with TLS? security.protocol in the client's configuration must be that of the listener"
	case errors.As(err, new(*net.DNSError)):
		e.Fix = "look at the name in the address"
		e.Err = errors.Join(ErrNoNode, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Fix = "is the node running, and is the address that of its listener?"
		e.Err = errors.Join(ErrNoNode, err)
	case errors.As(err, new(*kgo.ErrFirstReadEOF)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Where = address + ": the connection was closed without an answer"
		e.Fix = "if the listener expects TLS or SASL: set security.protocol in a file for --command-config"
		e.Err = errors.Join(ErrNoNode, err)
	case errors.As(err, new(*net.OpError)), errors.Is(err, context.DeadlineExceeded):
		e.Err = errors.Join(ErrNoNode, err)
	}
	return e
}

// reason is an error without the words of the packages that it came through.
func reason(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	var login *kerr.Error
	var number syscall.Errno
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	case errors.As(err, &login):
		// Behind the error stands the server's message.
		return strings.TrimPrefix(err.Error(), login.Error()+": ")
	}
	return strings.TrimPrefix(err.Error(), "unable to dial: ")
}

// member is a node that the cluster knows.
type member struct {
	id      int32
	address string
}

// members asks a node for the cluster's nodes of the kind that is meant, and for the active controller (-1: none known).
func (c *Cluster) members(ctx context.Context, n node) (nodes []member, controller int32, err error) {
	const brokers, controllers = 1, 2 // endpoint types
	q := kmsg.NewPtrDescribeClusterRequest()
	q.EndpointType = brokers
	if c.options.Controllers {
		q.EndpointType = controllers
		if n.maxVersion(kmsg.DescribeCluster) < 1 {
			return nil, -1, &client.Error{What: n.address + " does not tell who the active controller is", Fix: "controllers of Apache Kafka do from 3.7 on: ask a broker, with --bootstrap-server"}
		}
	}
	answer, err := c.request(ctx, n.address, q)
	if err != nil {
		return nil, -1, &notReady{err: unanswered("ask for the nodes of the cluster", n.address, err)}
	}
	r := answer.(*kmsg.DescribeClusterResponse)
	if r.ErrorCode != 0 {
		refused := &refusal{r.ErrorCode, r.ErrorMessage}
		err = unanswered("ask for the nodes of the cluster", n.address, refused)
		switch {
		case refused.passes():
			err = &notReady{err: err}
		case refused.code == kerr.UnsupportedVersion.Code: // also of a controller that does not know its metadata.version yet
			err = &notReady{err: err, until: refusedPatience}
		}
		return nil, -1, err
	}
	for _, b := range r.Brokers {
		nodes = append(nodes, member{b.NodeID, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))})
	}
	slices.SortFunc(nodes, func(a, b member) int { return int(a.id) - int(b.id) })
	return nodes, r.ControllerID, nil
}

// responsible returns the node that answers for the cluster.
func (c *Cluster) responsible(ctx context.Context, doing string) (node, error) {
	n, err := c.find(ctx, doing)
	if err != nil || !c.options.Controllers {
		return n, err
	}
	nodes, leader, err := c.members(ctx, n)
	if err != nil {
		return node{}, err
	}
	i := slices.IndexFunc(nodes, func(m member) bool { return m.id == leader })
	switch {
	case i < 0 && leader >= 0:
		return node{}, &notReady{err: fmt.Errorf("%s does not know the address of the active controller, node %d", n.address, leader)}
	case i < 0:
		return node{}, &notReady{err: fmt.Errorf("%s knows no active controller", n.address)}
	case nodes[i].address == n.address:
		return n, nil
	}
	return c.member(ctx, doing, nodes[i])
}

// member connects to a node that the cluster has named.
func (c *Cluster) member(ctx context.Context, doing string, m member) (node, error) {
	n, err := c.connect(ctx, m.address)
	if err != nil {
		failed := unanswered(doing, m.address, err)
		failed.Where = fmt.Sprintf("node %d, %s", m.id, failed.Where)
		if errors.Is(failed, ErrNoNode) {
			return node{}, &notReady{err: failed}
		}
		return node{}, failed
	}
	return n, nil
}
