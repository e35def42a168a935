package node

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"kstorage/internal/config"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
)

// settings are a configuration as the parts of a node need it: typed, with Kafka's defaults, and without anything
// that this node would have to refuse.
type settings struct {
	File         string // server.properties
	NodeID       int32
	NodeIDFrom   string // the key and its line
	IsBroker     bool
	IsController bool

	LogDirs     []string // log.dirs
	MetadataDir string   // metadata.log.dir, or the first of LogDirs

	Listeners  []listen        // to bind, in the order of the file
	Advertised []raft.Endpoint // what a broker tells clients and brokers
	Rack       *string         // broker.rack

	Raft         raft.Config // complete but for DirectoryID, ClusterID and Random
	Log          raftlog.Config
	AppendLinger time.Duration // how long the leader waits for company of a batch

	HeartbeatInterval   time.Duration // of a broker
	RegistrationTimeout time.Duration // of a broker's first registration
	SessionTimeout      time.Duration // after which the active controller fences a broker
	NoOpInterval        time.Duration // of the active controller's NoOpRecord; 0: none
	MinInSyncReplicas   string        // for the bootstrap records
	UnstableFeatures    bool

	SnapshotBytes    int64         // a snapshot is due after as many bytes of records,
	SnapshotInterval time.Duration // or after this time; 0: not by time

	MaxConnections      int
	MaxConnectionsPerIP int
	MaxRequestBytes     int
	MaxTelemetryBytes   int           // of a push of a client's metrics
	MaxIdle             time.Duration // of a connection; 0: for ever

	Warnings []string
}

// listen is a listener to bind.
type listen struct {
	Name         string
	Host         string // "": all interfaces
	Port         uint16 // 0: any
	IsController bool
}

// Address is what to give to net.Listen.
func (l listen) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

// newSettings reads a configuration. localHostName is the name of this host where one is advertised and not given.
// Errors are *Error, joined in the order of the file: what protects something and is not honoured here, and ports that are none.
func newSettings(c *config.Config, localHostName func() string) (settings, error) {
	r := settingsReader{Config: c, localHostName: localHostName, badPort: map[string]bool{}}
	r.refuse()
	s := settings{
		File:         c.File,
		NodeID:       c.NodeID,
		NodeIDFrom:   r.nodeIDFrom(),
		IsBroker:     c.IsBroker,
		IsController: c.IsController,

		LogDirs:     c.LogDirs,
		MetadataDir: c.MetadataLogDir,

		Listeners: r.listeners(),

		Raft: r.raft(),
		Log:  raftlog.Config{SegmentBytes: int64(c.Int("metadata.log.segment.bytes")), SegmentMillis: c.Long("metadata.log.segment.ms")},

		HeartbeatInterval:   r.milliseconds("broker.heartbeat.interval.ms"),
		RegistrationTimeout: r.milliseconds("initial.broker.registration.timeout.ms"),
		SessionTimeout:      r.milliseconds("broker.session.timeout.ms"),
		NoOpInterval:        r.milliseconds("metadata.max.idle.interval.ms"),
		MinInSyncReplicas:   strconv.Itoa(c.Int("min.insync.replicas")),
		UnstableFeatures:    c.UnstableFeatureVersions,

		SnapshotBytes:    c.Long("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotInterval: saturated(c.Long("metadata.log.max.snapshot.interval.ms")),

		MaxConnections:      c.Int("max.connections"),
		MaxConnectionsPerIP: c.Int("max.connections.per.ip"),
		MaxRequestBytes:     c.Int("socket.request.max.bytes"),
		MaxTelemetryBytes:   c.Int("telemetry.max.bytes"),
	}
	if c.IsBroker {
		s.Advertised = r.endpoints(c.AdvertisedListeners)
		if !c.Null("broker.rack") {
			rack := c.String("broker.rack")
			s.Rack = &rack
		}
	}
	// Unlike Kafka: its default of 25 ms is not ours.
	if c.Has("controller.quorum.append.linger.ms") {
		s.AppendLinger = r.milliseconds("controller.quorum.append.linger.ms")
	}
	if idle := c.Long("connections.max.idle.ms"); idle >= 0 {
		s.MaxIdle = max(saturated(idle), time.Millisecond)
	}
	s.Warnings = r.warnings()
	return s, joined(r.errs)
}

// bound puts the port that a listener was bound to where the configuration leaves the port open.
func (s *settings) bound(listener string, port uint16) {
	for _, endpoints := range [][]raft.Endpoint{s.Raft.Listeners, s.Advertised} {
		for i := range endpoints {
			if endpoints[i].Listener == listener && endpoints[i].Port == 0 {
				endpoints[i].Port = port
			}
		}
	}
}

// settingsReader collects what is wrong.
type settingsReader struct {
	*config.Config
	localHostName func() string
	badPort       map[string]bool
	errs          []*Error
}

func (r *settingsReader) fail(key, reason, fix string) {
	r.errs = append(r.errs, &Error{What: key + ": " + reason, Where: r.Source(key), Fix: fix})
}

func (r *settingsReader) nodeIDFrom() string {
	key := "node.id"
	if !r.Has(key) {
		key = "broker.id"
	}
	return fmt.Sprintf("%s (%s)", key, r.Source(key))
}

func (r *settingsReader) milliseconds(key string) time.Duration { return saturated(int64(r.Int(key))) }

// saturated is a number of milliseconds as a duration, or the longest one: people write Java's greatest long for "never".
func saturated(millis int64) time.Duration {
	if millis > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(millis) * time.Millisecond
}

// port is the number of a listener as a port; Kafka's configuration takes more than that. What is wrong with a listener
// is told once, though it is advertised as it is bound.
func (r *settingsReader) port(key string, l config.Listener) uint16 {
	if 0 <= l.Port && l.Port <= math.MaxUint16 {
		return uint16(l.Port)
	}
	if !r.badPort[l.Name] {
		r.badPort[l.Name] = true
		r.fail(key, fmt.Sprintf("listener %s has the port %d", l.Name, l.Port), "a port is a number from 1 to 65535, or 0 for any that is free")
	}
	return 0
}

func (r *settingsReader) listeners() []listen {
	var out []listen
	for _, l := range r.Listeners {
		out = append(out, listen{l.Name, l.Host, r.port("listeners", l), slices.Contains(r.ControllerListenerNames, l.Name)})
	}
	return out
}

// endpoints are advertised listeners with a host each.
func (r *settingsReader) endpoints(listeners []config.Listener) []raft.Endpoint {
	var out []raft.Endpoint
	for _, l := range listeners {
		e := raft.Endpoint{Listener: l.Name, Host: l.Host, Port: r.port("advertised.listeners", l)}
		if e.Host == "" {
			e.Host = r.localHostName()
		}
		out = append(out, e)
	}
	return out
}

func (r *settingsReader) raft() raft.Config {
	millis := func(key string) raft.Millis { return raft.Millis(r.Int(key)) }
	c := raft.DefaultConfig()
	c.NodeID = raft.NodeID(r.NodeID)
	c.CanBeVoter = r.IsController
	c.DefaultListener = strings.ToUpper(r.ControllerListenerNames[0])
	if r.IsController {
		c.Listeners = r.endpoints(r.AdvertisedControllerListeners)
	}
	at := func(a config.Address) raft.Endpoint {
		// As Java resolves it.
		return raft.Endpoint{Listener: c.DefaultListener, Host: cmp.Or(a.Host, "localhost"), Port: a.Port}
	}
	for _, v := range r.QuorumVoters {
		c.StaticVoters = append(c.StaticVoters, raft.Voter{Key: raft.ReplicaKey{NodeID: raft.NodeID(v.NodeID)}, Endpoints: []raft.Endpoint{at(v.Address)}})
	}
	servers := r.BootstrapServers
	if len(servers) == 0 {
		for _, v := range r.QuorumVoters {
			servers = append(servers, v.Address)
		}
	}
	for _, a := range servers {
		c.BootstrapServers = append(c.BootstrapServers, at(a))
	}
	c.AutoJoin = r.AutoJoin
	c.ElectionTimeoutMillis = millis("controller.quorum.election.timeout.ms")
	c.ElectionBackoffMaxMillis = millis("controller.quorum.election.backoff.max.ms")
	c.FetchTimeoutMillis = millis("controller.quorum.fetch.timeout.ms")
	c.RequestTimeoutMillis = millis("controller.quorum.request.timeout.ms")
	c.RetryBackoffMillis = millis("controller.quorum.retry.backoff.ms")
	c.FetchMaxBytes = int32(r.Int("controller.quorum.fetch.max.bytes"))
	c.SnapshotMaxBytes = int32(r.Int("controller.quorum.fetch.snapshot.max.bytes"))
	c.RetentionMillis = r.Long("metadata.max.retention.ms")
	c.RetentionBytes = r.Long("metadata.max.retention.bytes")
	return c
}
