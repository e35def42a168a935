package controller

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/record"
)

// producerIDBlock is how many producer ids a broker gets at a time.
const producerIDBlock = 1000

// allocateProducerIDs decides about an AllocateProducerIdsRequest: a broker that is registered gets the next block of the
// ids that it gives to idempotent producers (KIP-730).
func (c *Controller) allocateProducerIDs(q *kmsg.AllocateProducerIDsRequest) ([]record.Record, kmsg.Response) {
	resp := q.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	b, next := c.image.Broker(q.BrokerID), c.image.NextProducerID()
	switch {
	case b == nil || b.Epoch != q.BrokerEpoch:
		resp.ErrorCode = staleBrokerEpoch
		return nil, resp
	case next > math.MaxInt64-producerIDBlock:
		resp.ErrorCode = unknownServerError
		return nil, resp
	}
	resp.ProducerIDStart, resp.ProducerIDLen = next, producerIDBlock
	r := record.New(record.ProducerIds, 0)
	r.SetInt("BrokerId", int64(q.BrokerID))
	r.SetInt("BrokerEpoch", q.BrokerEpoch)
	r.SetInt("NextProducerId", next+producerIDBlock)
	return []record.Record{r}, resp
}
