package controller

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// message makes the text of a nullable field, which Kafka's answers leave empty rather than null.
func message(format string, args ...any) *string {
	s := fmt.Sprintf(format, args...)
	return &s
}

// registerController decides about a ControllerRegistrationRequest (KIP-919): the newest registration counts. What
// the controller supports is not checked, as it may well be here to be upgraded.
func (c *Controller) registerController(q *kmsg.ControllerRegistrationRequest) ([]record.Record, kmsg.Response) {
	resp := q.ResponseKind().(*kmsg.ControllerRegistrationResponse)
	if level, _ := c.image.MetadataVersion(); level < controllerRegistration {
		resp.ErrorCode = unsupportedVersion
		resp.ErrorMessage = message("The version of API is not supported.")
		return nil, resp
	}
	r := &metadata.Controller{ID: q.ControllerID, IncarnationID: q.IncarnationID, ReadyForZooKeeper: q.ZkMigrationReady}
	for _, l := range q.Listeners {
		// Unlike Kafka: there the controller of such a request ends its epoch with an error.
		if !validEndpoint(l.Host, l.Port, l.SecurityProtocol) {
			resp.ErrorCode, resp.ErrorMessage = invalidRequest, message("Listener %q is no endpoint: %s:%d, security protocol %d.", l.Name, l.Host, l.Port, l.SecurityProtocol)
			return nil, resp
		}
		r.Endpoints = append(r.Endpoints, metadata.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range q.Features {
		r.Features = append(r.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	resp.ErrorMessage = message("")
	return []record.Record{r.Record()}, resp
}

// unregisterController decides about an UnregisterControllerRequest. A controller that still runs registers again.
func (c *Controller) unregisterController(q *kmsg.UnregisterControllerRequest) ([]record.Record, kmsg.Response) {
	resp := q.ResponseKind().(*kmsg.UnregisterControllerResponse)
	level, _ := c.image.MetadataVersion()
	switch {
	case q.ControllerID == c.cfg.NodeID:
		resp.ErrorCode = invalidRequest
		resp.ErrorMessage = message("Controller cannot unregister itself while it is active.")
	case level < controllerUnregistration:
		resp.ErrorCode = unsupportedVersion
		resp.ErrorMessage = message("The current MetadataVersion is too old to support controller unregistration.")
	case c.image.Controller(q.ControllerID) == nil:
		resp.ErrorCode = controllerIDNotRegistered
		resp.ErrorMessage = message("Controller ID %d is not currently registered.", q.ControllerID)
	default:
		resp.ErrorMessage = message("")
		r := record.New(record.UnregisterController, 0)
		r.SetInt("ControllerId", int64(q.ControllerID))
		return []record.Record{r}, resp
	}
	return nil, resp
}
