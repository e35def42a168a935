package node

import (
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/controller"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/telemetry"
	"kstorage/internal/wire"
)

// supportedFeatures are the ranges of levels that this node can work with, kraft.version among them.
func supportedFeatures(unstable bool) []wire.SupportedFeature {
	list := []wire.SupportedFeature{
		{Name: features.MetadataVersionName, Min: int16(features.Minimum), Max: int16(features.LatestProduction)},
	}
	for _, f := range features.All() {
		latest := f.DefaultLevel(features.LatestProduction)
		if unstable || f.Name() == features.KRaftVersionName {
			latest = f.LatestLevel()
		}
		if latest > 0 {
			list = append(list, wire.SupportedFeature{Name: f.Name(), Max: latest})
		}
	}
	return list
}

// brokerVersions is what a broker tells in its answers to ApiVersions: the epoch of its features is that of its image,
// and a client that means another node or cluster is to look anew (KIP-1242).
func (n *node) brokerVersions() wire.VersionInfo {
	info, v := n.versions(), n.views.get()
	if len(info.FinalizedFeatures) > 0 {
		info.FinalizedEpoch = int64(v.offset)
	}
	if v.clusterID != "" {
		info.Identity = &wire.Identity{ClusterID: v.clusterID, NodeID: n.settings.NodeID}
	}
	return info
}

// versions is what the node tells in its answers to ApiVersions. A node that does not know its cluster leaves
// kraft.version out, so that no leader makes it a voter.
func (n *node) versions() wire.VersionInfo {
	v := n.views.get()
	info := wire.VersionInfo{
		SupportedFeatures: supportedFeatures(n.settings.UnstableFeatures),
		FinalizedFeatures: v.levels,
		FinalizedEpoch:    int64(v.features),
	}
	if v.clusterID == "" {
		info.SupportedFeatures = slices.DeleteFunc(info.SupportedFeatures, func(f wire.SupportedFeature) bool { return f.Name == features.KRaftVersionName })
	}
	return info
}

// isVoter tells whether this node is one of voters.
func (s *settings) isVoter(voters []raft.Voter, directory uuid.UUID) bool {
	return slices.ContainsFunc(voters, func(v raft.Voter) bool {
		return v.Key.NodeID == s.Raft.NodeID && (v.Key.DirectoryID == uuid.Nil || v.Key.DirectoryID == directory)
	})
}

// voterSets are those that this node knows of, oldest first: the configured one, those of its snapshots, and those in its log.
func (s *settings) voterSets(r raft.Recovered) [][]raft.Voter {
	sets := [][]raft.Voter{s.Raft.StaticVoters}
	for _, snapshot := range r.Snapshots {
		if len(snapshot.Voters) > 0 {
			sets = append(sets, snapshot.Voters)
		}
	}
	for _, b := range r.Control {
		for _, c := range b.Control {
			if v, ok := c.(raft.Voters); ok {
				sets = append(sets, v.Voters)
			}
		}
	}
	return sets
}

// replaceLog is how a person gets on when the metadata log cannot be used.
func (s *settings) replaceLog() string {
	switch {
	case !s.IsController:
		return "empty the folder of the metadata log: the node fetches it again"
	case len(s.Raft.StaticVoters) > 0:
		return "restore the directory from a copy. Emptied and formatted again, a voter votes although it has lost what it acknowledged: " +
			"do that only while all other voters run and have all that was committed"
	}
	return "restore the directory from a copy; or, if a majority of the other controllers is well, remove this one from the quorum (kstorage quorum " +
		"remove-controller), empty the directory, format it with --no-initial-controllers and let the node join anew"
}

// controllerRequest is the registration of this controller.
func (n *node) controllerRequest(incarnation uuid.UUID) *kmsg.ControllerRegistrationRequest {
	q := kmsg.NewPtrControllerRegistrationRequest()
	q.ControllerID, q.IncarnationID = n.settings.NodeID, incarnation
	for _, e := range n.settings.Raft.Listeners {
		l := kmsg.NewControllerRegistrationRequestListener()
		l.Name, l.Host, l.Port = e.Listener, e.Host, e.Port
		q.Listeners = append(q.Listeners, l)
	}
	for _, f := range supportedFeatures(n.settings.UnstableFeatures) {
		r := kmsg.NewControllerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		q.Features = append(q.Features, r)
	}
	return q
}

// brokerRequest is the registration of this broker, without the cluster id and the log directories.
func (n *node) brokerRequest(incarnation uuid.UUID) *kmsg.BrokerRegistrationRequest {
	q := kmsg.NewPtrBrokerRegistrationRequest()
	q.BrokerID, q.IncarnationID, q.Rack, q.PreviousBrokerEpoch = n.settings.NodeID, incarnation, n.settings.Rack, -1
	for _, e := range n.settings.Advertised {
		l := kmsg.NewBrokerRegistrationRequestListener()
		l.Name, l.Host, l.Port = e.Listener, e.Host, e.Port
		q.Listeners = append(q.Listeners, l)
	}
	for _, f := range supportedFeatures(n.settings.UnstableFeatures) {
		r := kmsg.NewBrokerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		q.Features = append(q.Features, r)
	}
	return q
}

// readBootstrap returns what this node writes if it becomes the active controller of a new cluster.
func (n *node) readBootstrap() (b controller.Bootstrap, err error) {
	zero, old, err := n.storage.readBootstrap()
	if err != nil || !n.settings.IsController {
		return b, err
	}
	return controller.ChooseBootstrap(zero, old, n.storage.ClusterID() != "")
}

// newCluster returns the metadata loop, which lacks the quorum yet.
func (n *node) newCluster(cfg raft.Config, self wire.Self, isVoter bool, bootstrap controller.Bootstrap) *cluster {
	s := &n.settings
	c := &cluster{
		nodeID:  cfg.NodeID,
		self:    self,
		isVoter: isVoter,
		controller: controller.Config{
			NodeID:                s.NodeID,
			SessionTimeoutMillis:  raft.Millis(s.SessionTimeout.Milliseconds()),
			MaxIdleIntervalMillis: raft.Millis(s.NoOpInterval.Milliseconds()),
			MinInSyncReplicas:     s.MinInSyncReplicas,
			Supported:             ranges(s.UnstableFeatures),
			Unstable:              s.UnstableFeatures,
			StaticVoters:          staticVoters(cfg),
			Random:                n.Random,
		},
		bootstrap: bootstrap,
		linger:    s.AppendLinger,
		raftLog:   n.raftLog,
		clock:     n.clock,
		views:     n.views,
		log:       n.Log,

		propertiesFile: n.storage.metadata().File(),

		box:           newMailbox[func() error](),
		loader:        metadata.NewLoader(metadata.SnapshotPolicy{MaxBytes: s.SnapshotBytes, MaxIntervalMillis: raft.Millis(s.SnapshotInterval.Milliseconds())}, n.clock.now()),
		clusterID:     cfg.ClusterID,
		leader:        raft.LeaderChanged{LeaderID: raft.None, StartOffset: raft.Unknown},
		asked:         raft.None,
		shown:         raft.Unknown,
		highWatermark: raft.Unknown,
		subscribed:    raft.Unknown,
		strangers:     newStrangers(cfg),
	}
	if s.IsBroker {
		c.telemetry = telemetry.New(telemetry.Config{MaxBytes: s.MaxTelemetryBytes, Random: n.Random, Log: n.trafficLog})
	}
	c.publisher = metadata.NewClusterIDPublisher(cfg.ClusterID, func(id string) error {
		if err := n.storage.PersistClusterID(id); err != nil {
			return err
		}
		c.clusterID = id
		return nil
	})
	return c
}

// maxRequestBytes is more than any request has that is served here. A decoded one may need a hundred times its bytes.
const maxRequestBytes = 4 << 20

// serve lets a listener answer its clients.
func (n *node) serve(s *server) func() error {
	config := wire.ServerConfig{
		Listener:            s.Name,
		MaxConnections:      n.settings.MaxConnections,
		MaxConnectionsPerIP: n.settings.MaxConnectionsPerIP,
		MaxFrameBytes:       min(n.settings.MaxRequestBytes, maxRequestBytes),
		IdleTimeout:         n.settings.MaxIdle,
		Logger:              n.trafficLog,
		Versions:            n.versions,
	}
	if n.requests != nil {
		config.Handled = n.requests.write
	}
	if s.IsController {
		config.APIs = controllerAPIs
		config.Handler = &controllerHandler{quorum: n.quorum, cluster: n.cluster, views: n.views, clock: n.clock}
	} else {
		config.APIs, config.Versions = brokerAPIs, n.brokerVersions
		config.Handler = &brokerHandler{cluster: n.cluster, views: n.views, channel: n.forwarding, telemetry: n.cluster.telemetry}
		config.Gone = n.cluster.telemetry.Gone
	}
	s.server = wire.NewServer(config)
	return func() error { return s.server.Serve(s.listener) }
}

// ranges are supportedFeatures as registrations have them.
func ranges(unstable bool) []metadata.FeatureRange {
	var out []metadata.FeatureRange
	for _, f := range supportedFeatures(unstable) {
		out = append(out, metadata.FeatureRange{Name: f.Name, Min: f.Min, Max: f.Max})
	}
	return out
}

func staticVoters(cfg raft.Config) []int32 {
	var ids []int32
	for _, v := range cfg.StaticVoters {
		ids = append(ids, int32(v.Key.NodeID))
	}
	return ids
}
