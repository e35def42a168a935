package node

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/controller"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
)

// TestUpdateFeaturesWithoutClusterID: a voter without an id stops when it sees a level that carries none, so only a request
// that comes before that meets an active controller that does not know the id. It writes nothing.
func TestUpdateFeaturesWithoutClusterID(t *testing.T) {
	const newest = int16(features.LatestProduction)
	c := loaded(t, finalized(features.MetadataVersionName, int64(features.LatestKafka)))
	if err := c.do(t.Context(), func() {
		c.clusterID = ""
		supported := []metadata.FeatureRange{{Name: features.MetadataVersionName, Min: int16(features.Minimum), Max: newest}}
		config := controller.Config{NodeID: 1, Supported: supported}
		c.active = &active{controller: controller.New(config, c.loader.Image().Clone(), 1, 0, false)}
		c.active.controller.SetQuorum(1, []int32{1})
	}); err != nil {
		t.Fatal(err)
	}
	for _, validateOnly := range []bool{false, true} {
		q := kmsg.NewPtrUpdateFeaturesRequest()
		q.Version, q.ValidateOnly = 2, validateOnly
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = features.MetadataVersionName, newest, 1
		q.FeatureUpdates = append(q.FeatureUpdates, u)
		// Without a quorum behind it, a node that wrote would not come back from here.
		r := c.request(t.Context(), q).(*kmsg.UpdateFeaturesResponse)
		const invalidUpdateVersion = 95
		if r.ErrorCode != invalidUpdateVersion || !strings.HasSuffix(*r.ErrorMessage, "This controller does not know the id of the cluster, which has to be committed with it.") {
			t.Errorf("validate only %v: %+v", validateOnly, r)
		}
	}
	if err := c.do(t.Context(), func() {
		if c.active.end != raft.Offset(0) || c.active.lost || len(c.waiting) != 0 {
			t.Errorf("%+v", c.active)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
