package node

import (
	"slices"
	"testing"

	"kstorage/features"
	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// What ApiVersions says of features: kraft.version only where the node knows its cluster, for no leader is to make a voter of one
// that does not; the epoch of a controller's is where they changed, of a broker's that of its image.
func TestVersions(t *testing.T) {
	finalized := []features.Level{{Name: "metadata.version", Level: 35}}
	for _, tt := range []struct {
		reason            string
		v                 view
		controller        int64
		broker            int64
		kraft, identified bool
	}{
		{"at the start", view{offset: raft.Unknown, features: raft.Unknown}, -1, -1, false, false},
		{"a cluster without an id yet", view{offset: 3, features: raft.Unknown}, -1, -1, false, false},
		{"a cluster", view{offset: 90, features: 12, levels: finalized, clusterID: "x"}, 12, 90, true, true},
		{"a cluster that has the id of before", view{offset: raft.Unknown, features: raft.Unknown, clusterID: "x"}, -1, -1, true, true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			n := &node{views: newViews(tt.v)}
			controller, broker := n.versions(), n.brokerVersions()
			if controller.FinalizedEpoch != tt.controller || broker.FinalizedEpoch != tt.broker {
				t.Errorf("epochs %d and %d", controller.FinalizedEpoch, broker.FinalizedEpoch)
			}
			if controller.Identity != nil || (broker.Identity != nil) != tt.identified {
				t.Errorf("identities %v and %v", controller.Identity, broker.Identity)
			}
			isKRaft := func(f wire.SupportedFeature) bool { return f.Name == features.KRaftVersionName }
			if slices.ContainsFunc(controller.SupportedFeatures, isKRaft) != tt.kraft {
				t.Errorf("supported: %v", controller.SupportedFeatures)
			}
		})
	}
}
