package node

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

// forwardable are the APIs that a broker forwards for its clients, of those that are served here (KIP-590).
var forwardable = []kmsg.Key{
	kmsg.DescribeQuorum, kmsg.UpdateFeatures, kmsg.UnregisterBroker, kmsg.AddRaftVoter, kmsg.RemoveRaftVoter, kmsg.UnregisterController,
}

// forwardedAPIs are forwardable, in the versions of the controllers.
func forwardedAPIs() (list []wire.API) {
	for _, api := range controllerAPIs {
		if slices.Contains(forwardable, kmsg.Key(api.Key)) {
			list = append(list, api)
		}
	}
	return list
}

// envelope answers the request that a broker forwards for its client. What is wrong with it is said in the envelope, as
// Kafka's controllers do. Unlike Kafka: the principal in it and the client's address are not read, as long as there is
// no authorizer to tell them.
func (h *controllerHandler) envelope(ctx context.Context, r *wire.Request, q *kmsg.EnvelopeRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.EnvelopeResponse)
	header, body, code := decodeForwarded(q.RequestData)
	if resp.ErrorCode = code; code != 0 {
		return resp
	}
	answer := h.Handle(ctx, &wire.Request{Listener: r.Listener, Remote: r.Remote, Header: header, Body: body})
	if answer == nil {
		return nil
	}
	if fromNoController(answer) { // the broker is to look for another one
		resp.ErrorCode = codeNotController
		return resp
	}
	const length = 4
	resp.ResponseData = wire.AppendResponse(nil, answer, header.CorrelationID)[length:]
	return resp
}

// decodeForwarded reads the request in an envelope. Error: the code of what is wrong with it.
func decodeForwarded(payload []byte) (h wire.RequestHeader, body kmsg.Request, code int16) {
	h, _, err := wire.DecodeRequestHeader(payload)
	if err != nil {
		return h, nil, codeUnsupportedVersion
	}
	if !slices.Contains(forwardable, kmsg.Key(h.Key)) {
		return h, nil, codeInvalidRequest
	}
	api := controllerAPIs[slices.IndexFunc(controllerAPIs, func(a wire.API) bool { return a.Key == h.Key })]
	if h.Version < api.Min || h.Version > api.Max {
		return h, nil, codeUnsupportedVersion
	}
	if h, body, err = wire.DecodeRequest(payload); err != nil {
		return h, nil, codeUnsupportedVersion
	}
	return h, body, 0
}
