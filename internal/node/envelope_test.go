package node

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/disk"
	"kstorage/internal/wire"
)

// TestForwardedToNoController: a broker that asks a node which is not the active controller learns that from the
// envelope, whatever the request; the answer in it would go to the client, and the broker would ask the same node again.
func TestForwardedToNoController(t *testing.T) {
	n := newLab(t).start(labConfig(1, 1, 2), disk.OS, t.TempDir())
	t.Cleanup(func() { kill(n) })
	c := loaded(t, finalized(features.MetadataVersionName, 33))
	h := &controllerHandler{quorum: n.q, cluster: c, views: c.views}
	describe := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	describe.Topics = append(describe.Topics, topic)
	for _, q := range []kmsg.Request{
		describe,
		kmsg.NewPtrUpdateFeaturesRequest(),
		kmsg.NewPtrUnregisterBrokerRequest(),
		kmsg.NewPtrAddRaftVoterRequest(),
		kmsg.NewPtrRemoveRaftVoterRequest(),
		kmsg.NewPtrUnregisterControllerRequest(),
	} {
		e := kmsg.NewPtrEnvelopeRequest()
		e.RequestData = wire.AppendRequest(nil, q, "admin", 7)[4:]
		answer := h.Handle(t.Context(), &wire.Request{Listener: "CONTROLLER", Body: e}).(*kmsg.EnvelopeResponse)
		if answer.ErrorCode != codeNotController || answer.ResponseData != nil {
			t.Errorf("%s: %+v", kmsg.NameForKey(q.Key()), answer)
		}
	}
}
