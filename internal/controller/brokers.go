package controller

import (
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/kafkaid"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// registerBroker decides about a BrokerRegistrationRequest. The epoch of a new incarnation is the offset of the first
// record that the registration adds.
func (c *Controller) registerBroker(now raft.Millis, nextOffset raft.Offset, q *kmsg.BrokerRegistrationRequest) ([]record.Record, kmsg.Response) {
	resp := q.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = -1
	d := c.draft(nextOffset)
	old := c.image.Broker(q.BrokerID)
	if resp.ErrorCode = c.refuseBroker(now, q, old, d.level); resp.ErrorCode != none {
		return nil, resp
	}
	b := &metadata.Broker{
		ID:            q.BrokerID,
		Epoch:         int64(nextOffset),
		IncarnationID: q.IncarnationID,
		Rack:          q.Rack,
		Fenced:        true,
	}
	for _, l := range q.Listeners {
		b.Endpoints = append(b.Endpoints, metadata.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range q.Features {
		b.Features = append(b.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	if d.level >= directoryAssignment {
		b.LogDirs = directories(q.LogDirs)
	}
	if old != nil && old.IncarnationID == b.IncarnationID {
		b.Epoch, b.Fenced, b.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
	} else {
		// A broker that may have lost what its disks had not synced says so by another epoch than that of its last
		// run. Before version 3 of the request it could not say which, and that is -1.
		clean := old != nil && q.PreviousBrokerEpoch == old.Epoch
		d.leave(b.ID, nil, !clean)
	}
	d.add(b.Record(d.level))
	resp.BrokerEpoch = b.Epoch
	return d.records, resp
}

// refuseBroker returns the code with which a registration is refused, and 0 if it isn't. The order of the checks is
// Kafka's.
func (c *Controller) refuseBroker(now raft.Millis, q *kmsg.BrokerRegistrationRequest, old *metadata.Broker, level features.MetadataVersion) int16 {
	s, ok := c.sessions[q.BrokerID]
	switch {
	case c.ClusterID() == "" || q.ClusterID != c.ClusterID():
		return inconsistentClusterID
	case old != nil && old.IncarnationID != q.IncarnationID && ok && c.live(s, now) && !s.leaving:
		return duplicateBrokerRegistration
	case q.IsMigratingZkBroker:
		return brokerIDNotRegistered
	case level >= directoryAssignment && !c.validDirectories(q):
		return invalidRegistration
	}
	if code := c.refuseFeatures(q.Features, level); code != none {
		return code
	}
	names := map[string]bool{}
	for _, l := range q.Listeners {
		// Unlike Kafka: there the controller of such a request ends its epoch with an error.
		if names[l.Name] || !validEndpoint(l.Host, l.Port, l.SecurityProtocol) {
			return invalidRegistration
		}
		names[l.Name] = true
	}
	return none
}

// validEndpoint reports whether an endpoint is one that a record may have.
func validEndpoint(host string, port uint16, securityProtocol int16) bool {
	return host != "" && port != 0 && securityProtocol >= 0 && securityProtocol <= 3
}

// validDirectories reports whether the log directories of a broker are its own.
func (c *Controller) validDirectories(q *kmsg.BrokerRegistrationRequest) bool {
	if len(q.LogDirs) == 0 {
		return false
	}
	seen := map[uuid.UUID]bool{}
	for _, dir := range q.LogDirs {
		if seen[dir] || kafkaid.Reserved(dir) {
			return false
		}
		seen[dir] = true
	}
	taken := func(b *metadata.Broker) bool {
		return b.ID != q.BrokerID && slices.ContainsFunc(b.LogDirs, func(dir uuid.UUID) bool { return seen[dir] })
	}
	return !c.image.AnyBroker(taken)
}

// refuseFeatures returns the code with which the ranges of a broker are refused, and 0 if they hold all finalized
// levels. A feature that it doesn't name is one that it supports at level 0 alone.
func (c *Controller) refuseFeatures(ranges []kmsg.BrokerRegistrationRequestFeature, level features.MetadataVersion) int16 {
	named := map[string]bool{}
	for _, f := range ranges {
		finalized := c.image.FeatureLevel(f.Name)
		if f.Name == features.KRaftVersionName {
			finalized = c.kraftVersion
		}
		if finalized < f.MinSupportedVersion || finalized > f.MaxSupportedVersion {
			return unsupportedVersion
		}
		named[f.Name] = true
	}
	if !named[features.MetadataVersionName] {
		return invalidRegistration
	}
	for _, l := range c.image.FinalizedFeatures() {
		if !named[l.Name] {
			return unsupportedVersion
		}
	}
	if c.kraftVersion != 0 && !named[features.KRaftVersionName] {
		return unsupportedVersion
	}
	return none
}

// unregisterBroker decides about an UnregisterBrokerRequest. A broker that still runs is refused from then on.
func (c *Controller) unregisterBroker(nextOffset raft.Offset, q *kmsg.UnregisterBrokerRequest) ([]record.Record, kmsg.Response) {
	resp := q.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	b := c.image.Broker(q.BrokerID)
	if b == nil {
		resp.ErrorCode, resp.ErrorMessage = brokerIDNotRegistered, message("Broker ID %d is not currently registered", q.BrokerID)
		return nil, resp
	}
	resp.ErrorMessage = message("")
	d := c.draft(nextOffset)
	d.leave(b.ID, nil, false)
	r := record.New(record.UnregisterBroker, 0)
	r.SetInt("BrokerId", int64(b.ID))
	r.SetInt("BrokerEpoch", b.Epoch)
	d.add(r)
	return d.records, resp
}

func directories(ids [][16]byte) []uuid.UUID {
	list := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		list[i] = id
	}
	return list
}
