package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/telemetry"
	"kstorage/internal/wire"
)

// What the listeners serve beside ApiVersions, with the versions of Kafka 4.4.
var (
	controllerAPIs = append([]wire.API{
		{Key: int16(kmsg.Envelope), Max: 0},
		{Key: int16(kmsg.UpdateFeatures), Max: 2},
		{Key: int16(kmsg.DescribeCluster), Max: 2},
		{Key: int16(kmsg.BrokerRegistration), Max: 4},
		{Key: int16(kmsg.BrokerHeartbeat), Max: 2},
		{Key: int16(kmsg.UnregisterBroker), Max: 0},
		{Key: int16(kmsg.AllocateProducerIDs), Max: 0},
		{Key: int16(kmsg.ControllerRegistration), Max: 0},
		{Key: int16(kmsg.UnregisterController), Max: 0},
	}, wire.RaftAPIs...)
	brokerAPIs = slices.Concat([]wire.API{
		{Key: int16(kmsg.Metadata), Max: 13},
		{Key: int16(kmsg.DescribeCluster), Max: 2},
	}, forwardedAPIs(), telemetry.APIs)
)

// Endpoint types of DescribeCluster (KIP-919).
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// controllerHandler answers on the controller listeners.
type controllerHandler struct {
	quorum  *quorum
	cluster *cluster
	views   *views
	clock   clock
}

// Handle implements wire.Handler.
func (h *controllerHandler) Handle(ctx context.Context, r *wire.Request) kmsg.Response {
	switch q := r.Body.(type) {
	case *kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.UnregisterBrokerRequest,
		*kmsg.ControllerRegistrationRequest, *kmsg.UnregisterControllerRequest, *kmsg.UpdateFeaturesRequest, *kmsg.AllocateProducerIDsRequest:
		return h.cluster.request(ctx, q)
	case *kmsg.DescribeClusterRequest:
		return describeCluster(ctx, h.cluster, h.views.get(), q, r.Listener, controllerEndpoints)
	case *kmsg.EnvelopeRequest:
		return h.envelope(ctx, r, q)
	}
	request, refusal := wire.DecodeRaftRequest(r.Body, h.views.get().clusterID)
	if refusal != nil {
		return refusal
	}
	answer, data, err := h.quorum.call(ctx, r.Listener, request)
	if err != nil {
		return nil
	}
	return wire.EncodeRaftResponse(r.Body, answer, data, h.wallAt)
}

// wallAt is a time of the core as milliseconds since the Unix epoch; it keeps the clock's -1 for never.
func (h *controllerHandler) wallAt(at raft.Millis) int64 {
	if at < 0 {
		return -1
	}
	return h.clock.wallMillis() - int64(h.clock.now()-at)
}

// brokerHandler answers on the listeners of a broker.
type brokerHandler struct {
	cluster   *cluster
	views     *views
	channel   *controllerChannel
	telemetry *telemetry.Telemetry
}

// Handle implements wire.Handler.
func (h *brokerHandler) Handle(ctx context.Context, r *wire.Request) kmsg.Response {
	switch q := r.Body.(type) {
	case *kmsg.MetadataRequest:
		return brokerMetadata(ctx, h.cluster, h.views.get(), q, r.Listener)
	case *kmsg.DescribeClusterRequest:
		return describeCluster(ctx, h.cluster, h.views.get(), q, r.Listener, brokerEndpoints)
	case *kmsg.GetTelemetrySubscriptionsRequest:
		return h.telemetry.Get(time.Now(), r, q)
	case *kmsg.PushTelemetryRequest:
		return h.telemetry.Push(time.Now(), r, q)
	}
	return h.forward(ctx, r.Body)
}

// forward asks the active controller, in the version of the client. Without one, or if the node that is asked is none any
// more, the answer says so, and clients ask again. Unlike Kafka: it goes without an Envelope, as long as there is no
// authorizer to tell who the client is.
func (h *brokerHandler) forward(ctx context.Context, q kmsg.Request) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	resp, err := h.channel.call(ctx, q.Key(), q.GetVersion(), func(version int16) (kmsg.Request, error) {
		if version != q.GetVersion() {
			return nil, wire.ErrUnsupported
		}
		return q, nil
	})
	switch {
	case err == nil && !fromNoController(resp):
		return resp
	case errors.Is(err, wire.ErrUnsupported):
		return refuse(q, codeUnsupportedVersion)
	case err == nil, errors.Is(err, errNoController):
		return refuse(q, codeNotController)
	}
	return refuse(q, codeTimedOut)
}

// describeCluster lists the controllers or the brokers that have the listener (KIP-700, KIP-919, KIP-1073).
func describeCluster(ctx context.Context, c *cluster, v *view, q *kmsg.DescribeClusterRequest, listener string, kind int8) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ErrorMessage = new(string)
	asked := q.EndpointType
	if q.Version == 0 {
		asked = brokerEndpoints
	}
	resp.EndpointType = asked
	fail := func(code int16, message string) kmsg.Response {
		resp.ErrorCode, resp.ErrorMessage = code, &message
		return resp
	}
	switch {
	case asked != kind && q.Version == 0:
		return fail(codeInvalidRequest, "This endpoint is a controller, which answers from version 1 on.")
	case asked != brokerEndpoints && asked != controllerEndpoints:
		return fail(codeUnsupportedEndpointType, "Unknown endpoint type.")
	case asked != kind:
		return fail(codeMismatchedEndpointType, "The request was sent to an endpoint of the other type.")
	case kind == controllerEndpoints && !v.version.SupportsControllerRegistration():
		return fail(codeUnsupportedVersion, "Direct-to-controller communication is not supported with the current MetadataVersion.")
	}
	resp.ClusterID = v.clusterID
	resp.ControllerID = int32(raft.None)
	err := c.do(ctx, func() {
		image := c.loader.Image()
		if kind == controllerEndpoints {
			// Unlike Kafka: while there is no leader, the one of before is named. Kafka's admin client, once told that
			// there is none, doesn't ask again before its call times out; sent to one that is none, it does.
			for _, n := range image.Controllers() {
				if addNode(resp, n.ID, n.Endpoints, listener, nil, false) && raft.NodeID(n.ID) == v.asked {
					resp.ControllerID = n.ID
				}
			}
			return
		}
		for _, b := range image.Brokers() {
			if !b.Fenced || q.IncludeFencedBrokers {
				addNode(resp, b.ID, b.Endpoints, listener, b.Rack, b.Fenced)
			}
			if !b.Fenced && (resp.ControllerID < 0 || raft.NodeID(b.ID) == c.nodeID) {
				resp.ControllerID = b.ID // any broker: it forwards
			}
		}
	})
	if err != nil {
		return nil
	}
	return resp
}

func addNode(resp *kmsg.DescribeClusterResponse, id int32, endpoints []metadata.Endpoint, listener string, rack *string, fenced bool) bool {
	for _, e := range endpoints {
		if e.Name == listener {
			n := kmsg.NewDescribeClusterResponseBroker()
			n.NodeID, n.Host, n.Port, n.Rack, n.IsFenced = id, e.Host, int32(e.Port), rack, fenced
			resp.Brokers = append(resp.Brokers, n)
			return true
		}
	}
	return false
}

// brokerMetadata lists the brokers that run. This broker has no topics, so it knows of none.
func brokerMetadata(ctx context.Context, c *cluster, v *view, q *kmsg.MetadataRequest, listener string) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = int32(raft.None)
	if v.clusterID != "" {
		resp.ClusterID = &v.clusterID
	}
	err := c.do(ctx, func() {
		for _, b := range c.loader.Image().Brokers() {
			if b.Fenced {
				continue
			}
			for _, e := range b.Endpoints {
				if e.Name == listener {
					n := kmsg.NewMetadataResponseBroker()
					n.NodeID, n.Host, n.Port, n.Rack = b.ID, e.Host, int32(e.Port), b.Rack
					resp.Brokers = append(resp.Brokers, n)
				}
			}
			if resp.ControllerID < 0 || raft.NodeID(b.ID) == c.nodeID {
				resp.ControllerID = b.ID
			}
		}
	})
	if err != nil {
		return nil
	}
	for _, t := range q.Topics {
		unknown := kmsg.NewMetadataResponseTopic()
		unknown.Topic, unknown.TopicID, unknown.ErrorCode = t.Topic, t.TopicID, codeUnknownTopic
		if t.Topic == nil {
			unknown.ErrorCode = codeUnknownTopicID
		}
		resp.Topics = append(resp.Topics, unknown)
	}
	return resp
}
