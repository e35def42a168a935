package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

const (
	// Kafka's pauses between attempts to register a controller.
	registrationBackoff    = 100 * time.Millisecond
	registrationBackoffMax = 120 * time.Second

	// registrationShows is how long the record of an accepted registration may be on the way to this node.
	registrationShows = time.Second
)

// controllerRegistration keeps a controller registered (KIP-919): as soon as the metadata is there, and each time it
// shows another incarnation under the node's id, or none.
type controllerRegistration struct {
	request *kmsg.ControllerRegistrationRequest
	views   *views
	channel *controllerChannel
	log     *slog.Logger
}

func (r *controllerRegistration) run(ctx context.Context) {
	defer r.channel.close()
	incarnation := uuid.UUID(r.request.IncarnationID)
	backoff := registrationBackoff
	for {
		v := r.views.get()
		var pause <-chan time.Time
		if v.caughtUp && v.clusterID != "" && v.version.SupportsControllerRegistration() && v.leader.LeaderID != raft.None && v.controller != incarnation {
			if err := r.register(ctx); err == nil {
				backoff, pause = registrationBackoff, time.After(registrationShows)
			} else if ctx.Err() == nil {
				r.log.Debug("Controller registration failed", "error", err, "retryIn", backoff)
				pause = time.After(backoff)
				backoff = min(2*backoff, registrationBackoffMax)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-pause:
		case <-next(v, pause):
		}
	}
}

func (r *controllerRegistration) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	resp, err := r.channel.do(ctx, r.request)
	if err != nil {
		return err
	}
	return codeError(resp.(*kmsg.ControllerRegistrationResponse).ErrorCode)
}
