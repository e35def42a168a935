// Package node is a KRaft node: it puts the parts together for `kstorage start`, and owns the goroutines, timers and
// sockets. It takes no decision of the protocol: the core (raft) and the active controller (controller) do.
//
//	        connections                        one goroutine each, waiting for its answer (wire)
//	         |        |
//	  raft loop  ->  metadata loop             quorum: runs the core. cluster: loads what is committed, is the active
//	   |      |        |                       controller while this node leads. The raft loop never waits for the other.
//	disk    peers    view                      the metadata loop shows what others need as values that don't change
//	                   |
//	registration, broker, waits                the life of the node in its cluster: they ask the active controller over TCP
//
// A start goes through these steps, and each failure names what it is about and the way out:
//
//  1. the configuration (settings), 2. locks and meta.properties of all log directories (storage), 3. what is missing there
//     is written, or refused (KIP-1262),
//  4. the metadata log is recovered, the listeners are bound, and the two loops start; the cluster id is learned from what is
//     committed,
//  5. the active controller of a new cluster writes the bootstrap records (KIP-1170).
//
// It ends when its context does: a broker asks for leave, a leader hands over, all is flushed.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"kstorage/internal/config"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
	"kstorage/internal/status"
	"kstorage/internal/wire"
)

// Options are what a node needs of the machine it runs on.
type Options struct {
	Config        *config.Config
	FS            disk.FS
	Random        io.Reader
	Now           func() time.Time
	LocalHostName func() string
	Log           *slog.Logger
	// RequestLog gets a JSON line for each request that a listener answers or refuses; nil: there is no such log.
	RequestLog io.Writer
	// Status is where the node shows itself over HTTP; nil: nowhere. The node closes it.
	Status net.Listener
	// Version is that of the program, for those who look.
	Version string
	// Notify tells a service manager of the node's state; see the function Notify.
	Notify func(state string)
}

// Run runs a node until ctx ends, and then lets it hand over; that is no error. Errors are *Error, joined, where a
// person can do something; else what has happened between the nodes.
func Run(ctx context.Context, o Options) error {
	n := newNode(o)
	defer n.close()
	err := n.open()
	if err == nil {
		err = n.run(ctx)
	}
	return withFix(err)
}

func newNode(o Options) *node {
	n := &node{Options: o, trafficLog: o.Log, clock: clock{start: time.Now(), wall: o.Now}}
	if o.Status != nil {
		n.display = n.newDisplay()
	}
	if o.RequestLog != nil {
		n.requests = newRequestLog(o.RequestLog, o.Log)
	}
	return n
}

// withFix makes a failure of the disk, and what the core ends for, an *Error.
func withFix(err error) error {
	if fatal, ok := errors.AsType[*fatalError](err); ok {
		return &Error{
			What: fatal.Reason, Err: err,
			Fix: "look whether this node is in the right cluster, and whether a voter has lost its disk or got the files of another day; " +
				"what is on this node's disk stays as it is",
		}
	}
	failed, ok := errors.AsType[*fs.PathError](err)
	if _, told := errors.AsType[*Error](err); !ok || told {
		return err
	}
	return &Error{
		What: fmt.Sprintf("cannot %s %s: %s", failed.Op, failed.Path, disk.Reason(failed.Err)), Err: err,
		Fix: "see to the disk, the space that is left on it and the permissions of this node's user, then start again: a node stops at the first failure of its disk",
	}
}

// node is the parts of a node. open sets all of them.
type node struct {
	Options
	settings   settings
	trafficLog *slog.Logger // of what clients do
	display    *display     // nil: there is none
	clock      clock
	storage    *storage
	raftLog    *raftlog.Log
	quorum     *quorum
	cluster    *cluster
	views      *views
	forwarding *controllerChannel
	broker     *broker // nil without the role
	register   *controllerRegistration
	servers    []*server
	requests   *requestLog // nil: there is none
}

// server is a bound listener.
type server struct {
	listen
	listener net.Listener
	server   *wire.Server // nil until it serves
}

// open prepares the node up to the point where its loops can run.
func (n *node) open() (err error) {
	if n.settings, err = newSettings(n.Config, n.LocalHostName); err != nil {
		return err
	}
	s := &n.settings
	n.Log.Info("Starting", "node", s.NodeID, "roles", s.roles(), "config", s.File)
	for _, w := range s.Warnings {
		n.Log.Warn(w)
	}
	if n.storage, err = openStorage(n.FS, s, n.Random, n.Now, n.Log); err != nil {
		return err
	}
	if err := n.bind(); err != nil {
		return err
	}
	if n.display != nil {
		n.display.serve(n)
	}
	bootstrap, err := n.readBootstrap()
	if err != nil {
		return err
	}
	recovered, isVoter, err := n.openLog()
	if err != nil {
		return err
	}

	cfg := s.Raft
	cfg.DirectoryID, cfg.ClusterID = n.storage.DirectoryID(), n.storage.ClusterID()
	var seed [32]byte
	if _, err := io.ReadFull(n.Random, seed[:]); err != nil {
		return err
	}
	cfg.Random = rand.New(rand.NewChaCha8(seed))
	incarnation, err := kafkaid.New(n.Random)
	if err != nil {
		return err
	}
	instance, err := kafkaid.New(n.Random)
	if err != nil {
		return err
	}
	self := wire.Self{ClientID: fmt.Sprint(s.NodeID), InstanceID: instance}

	n.views = newViews(view{leader: raft.LeaderChanged{LeaderID: raft.None}, asked: raft.None, clusterID: cfg.ClusterID, offset: raft.Unknown, features: raft.Unknown})
	channel := func() *controllerChannel { return &controllerChannel{self: self, views: n.views} }
	n.forwarding = channel()
	n.cluster = n.newCluster(cfg, self, isVoter, bootstrap)
	peers := wire.NewPeers(wire.Self{ClientID: fmt.Sprintf("raft-client-%d", s.NodeID), InstanceID: instance}, nil, func(in raft.Input) { n.quorum.input(in) })
	n.quorum = newQuorum(cfg, n.raftLog, recovered, peers, n.cluster.above, n.clock, n.Log)
	n.cluster.quorum = n.quorum
	if s.IsController {
		n.register = &controllerRegistration{request: n.controllerRequest(incarnation), views: n.views, channel: channel(), log: n.Log}
	}
	if s.IsBroker {
		n.broker = &broker{
			registration: n.brokerRequest(incarnation), logDirs: n.storage.LogDirIDs, interval: s.HeartbeatInterval, patience: s.RegistrationTimeout,
			views: n.views, channel: channel(), log: n.Log,
			running: make(chan struct{}),
		}
	}
	if n.display != nil {
		n.quorum.meter = &status.Meter{}
		n.display.opened.Store(true)
	}
	return nil
}

// close lets go of what open has taken.
func (n *node) close() {
	if n.display != nil {
		n.display.close()
	}
	for _, s := range n.servers {
		s.listener.Close()
	}
	if n.raftLog != nil {
		n.raftLog.Close()
	}
	if n.storage != nil {
		n.storage.Close()
	}
	if n.requests != nil {
		n.requests.close()
	}
}

// openLog recovers the metadata log. A node that does not know its cluster and is no voter begins with an empty one:
// what is there may be another cluster's (KIP-1262).
func (n *node) openLog() (r raft.Recovered, isVoter bool, err error) {
	open := func() (raft.Recovered, error) {
		var r raft.Recovered
		var err error
		n.raftLog, r, err = raftlog.Open(n.FS, n.storage.LogFolder(), n.settings.Log)
		if corrupt, ok := errors.AsType[*raftlog.CorruptError](err); ok {
			return r, &Error{
				What: "the metadata log is damaged: " + corrupt.Error(),
				Fix:  n.settings.replaceLog(),
				Err:  err,
			}
		}
		return r, err
	}
	if r, err = open(); err != nil {
		return r, false, err
	}
	if err := checkVoters(&n.settings, r); err != nil {
		return r, false, err // before a wipe: it is a voter
	}
	sets := n.settings.voterSets(r)
	voters := sets[len(sets)-1]
	isVoter = n.settings.isVoter(voters, n.storage.DirectoryID())
	if isVoter && len(voters) == 1 && r.LogEnd == 0 && n.storage.learnedID() {
		return r, false, &Error{
			What: fmt.Sprintf("the metadata log in %s is empty, but the cluster id %s was committed in it: the only voter has lost its log", n.storage.LogFolder(), n.storage.ClusterID()),
			Fix:  "restore the directory from a copy. Without one the cluster is lost: empty all directories of this node and format a new one",
		}
	}
	// A removal that is not committed leaves a voter one.
	wasVoter := slices.ContainsFunc(sets, func(set []raft.Voter) bool { return n.settings.isVoter(set, n.storage.DirectoryID()) })
	if n.storage.ClusterID() == "" && !wasVoter && !blank(r) {
		if err := n.raftLog.Close(); err != nil {
			return r, false, err
		}
		if err := n.storage.WipeMetadataLog(); err != nil {
			return r, false, err
		}
		if r, err = open(); err != nil {
			return r, false, err
		}
	}
	return r, isVoter, nil
}

// blank tells whether nothing but a zero checkpoint was found.
func blank(r raft.Recovered) bool {
	return r.LogEnd == 0 && r.QuorumState.Epoch == 0 && !slices.ContainsFunc(r.Snapshots, func(s raft.Snapshot) bool { return s.ID != raft.SnapshotID{} })
}

// bind binds the listeners, so that those who connect early wait, and an open port is known before it is advertised.
func (n *node) bind() error {
	s := &n.settings
	for _, l := range s.Listeners {
		listener, err := net.Listen("tcp", l.Address())
		if err != nil {
			fix := "choose a free address of this host"
			if errors.Is(err, syscall.EADDRINUSE) {
				fix += "; ss -ltnp shows who has this one"
			}
			return &Error{
				What:  fmt.Sprintf("cannot listen on %s: %v", l.Address(), disk.Reason(errors.Unwrap(err))),
				Where: "listeners, " + l.Name,
				Fix:   fix,
				Err:   err,
			}
		}
		n.servers = append(n.servers, &server{listen: l, listener: listener})
		s.bound(l.Name, uint16(listener.Addr().(*net.TCPAddr).Port))
	}
	return nil
}

func (s *settings) roles() string {
	var roles []string
	if s.IsBroker {
		roles = append(roles, "broker")
	}
	if s.IsController {
		roles = append(roles, "controller")
	}
	return strings.Join(roles, ",")
}

// run runs the node until ctx ends or a part of it fails.
func (n *node) run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.Background())
	defer stop()
	waits, stopWaits := context.WithCancel(ctx)
	defer stopWaits()
	var parts sync.WaitGroup
	failed := make(chan error, 1) // the first one counts
	part := func(run func() error) (done chan struct{}) {
		done = make(chan struct{})
		parts.Go(func() {
			defer close(done)
			if err := run(); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
		return done
	}
	quiet := func(run func(context.Context)) { part(func() error { run(inner); return nil }) }

	raftDone := part(n.quorum.run)
	part(func() error { return n.cluster.run(inner) })
	// A node that shuts down waits for nobody.
	part(func() error { n.waitReady(waits); return nil })
	part(func() error { n.reportWaits(waits); return nil })
	brokerDone := make(chan struct{})
	running := brokerDone
	if n.register != nil {
		quiet(n.register.run)
	}
	if n.broker != nil {
		brokerDone, running = part(func() error { return n.broker.run(inner, ctx) }), n.broker.running
	} else {
		close(brokerDone)
	}
	for _, s := range n.servers {
		if s.IsController {
			part(n.serve(s))
		}
	}

	// A broker's clients wait until it runs, as in Kafka.
	var err error
	stopping := false
	select {
	case <-running:
		for _, s := range n.servers {
			if !s.IsController {
				part(n.serve(s))
			}
		}
	case err = <-failed:
		stopping = true
	case <-ctx.Done():
	}
	if !stopping {
		select {
		case err = <-failed:
		case <-ctx.Done():
			err = n.handOver(brokerDone, raftDone, failed)
		}
	}
	n.quorum.fail(errStopped)
	stop()
	stopWaits()
	for _, s := range n.servers {
		if s.server != nil {
			s.server.Close()
		}
	}
	n.forwarding.close()
	parts.Wait()
	if err == nil {
		n.Log.Info("Stopped")
	}
	return err
}

// handOver ends the node's part in its cluster: a broker asks for leave, then a leader resigns.
func (n *node) handOver(brokerDone, raftDone <-chan struct{}, failed <-chan error) error {
	n.Log.Info("Shutting down")
	if n.display != nil {
		n.display.stopping.Store(true)
	}
	n.Notify("STOPPING=1")
	ends := func(part <-chan struct{}) error {
		select {
		case <-part:
		case err := <-failed:
			return err
		}
		select {
		case err := <-failed: // a part that fails says so before it ends
			return err
		default:
			return nil
		}
	}
	if err := ends(brokerDone); err != nil {
		return err
	}
	n.quorum.shutdown()
	return ends(raftDone)
}
