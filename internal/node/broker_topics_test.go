package node

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBrokerWithReplicasStops: before it runs, and also when they come later.
func TestBrokerWithReplicasStops(t *testing.T) {
	answers := unfences(func(context.Context, *kmsg.BrokerHeartbeatRequest, *kmsg.BrokerHeartbeatResponse) {})
	for name, late := range map[string]bool{"at the start": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t, answers)
			if !late {
				v.replicas = 2
			}
			b, _, done := startBroker(t, v)
			if late {
				soon(t, b.running, "RUNNING")
				v.replicas = 2
				b.views.set(v)
			}
			if reason := (*Error)(nil); !errors.As(soon(t, done, "the end"), &reason) {
				t.Error("no reason")
			}
		})
	}
}
