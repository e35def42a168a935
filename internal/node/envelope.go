package node

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

// forwardable are the APIs that a broker may forward in an Envelope, of those that are served here (KIP-590).
var forwardable = []kmsg.Key{
	kmsg.DescribeQuorum, kmsg.UpdateFeatures, kmsg.UnregisterBroker, kmsg.AddRaftVoter, kmsg.RemoveRaftVoter, kmsg.UnregisterController,
}

// envelope answers the request that a broker forwards for its client. The principal in it does not matter as long as
// there is no authorizer.
func (h *controllerHandler) envelope(ctx context.Context, r *wire.Request, q *kmsg.EnvelopeRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.EnvelopeResponse)
	header, inner, err := wire.DecodeRequest(q.RequestData)
	i := slices.IndexFunc(controllerAPIs, func(a wire.API) bool { return a.Key == header.Key })
	switch {
	case err != nil || i < 0 || header.Version < controllerAPIs[i].Min || header.Version > controllerAPIs[i].Max:
		resp.ErrorCode = codeUnsupportedVersion
		return resp
	case !slices.Contains(forwardable, kmsg.Key(header.Key)):
		resp.ErrorCode = codeInvalidRequest
		return resp
	}
	answer := h.Handle(ctx, &wire.Request{Listener: r.Listener, Remote: r.Remote, Header: header, Body: inner})
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
