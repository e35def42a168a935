package controller

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// TestProducerIDsEnd: the last block is the one that ends at the largest id or before it, and behind it there is none.
// What else a controller answers stands in testdata/producer-ids-4.4.jsonl.
func TestProducerIDsEnd(t *testing.T) {
	for next, left := range map[int64]int{math.MaxInt64 - 2*producerIDBlock: 2, math.MaxInt64 - producerIDBlock: 1, math.MaxInt64 - producerIDBlock + 1: 0, math.MaxInt64: 0} {
		taken := record.New(record.ProducerIds, 0)
		taken.SetInt("NextProducerId", next)
		w := newWorld(t, feature(features.MetadataVersionName, int64(features.LatestProduction)), clusterID("the id"), taken,
			(&metadata.Broker{ID: 1, Epoch: 7, Fenced: true}).Record(features.LatestProduction))
		for i := range left + 2 {
			q := kmsg.NewPtrAllocateProducerIDsRequest()
			q.BrokerID, q.BrokerEpoch = 1, 7
			records, resp := w.c.Handle(0, 10, q)
			r := resp.(*kmsg.AllocateProducerIDsResponse)
			switch {
			case i < left && (r.ErrorCode != none || r.ProducerIDStart != next || r.ProducerIDLen != producerIDBlock || len(records) != 1):
				t.Errorf("block %d from %d: %+v", i, next, r)
			case i >= left && (r.ErrorCode != unknownServerError || len(records) != 0):
				t.Errorf("behind the end: %+v, %v", r, records)
			}
			if err := w.c.Appended(10, records); err != nil {
				t.Fatal(err)
			}
			next += int64(len(records)) * producerIDBlock
		}
	}
}
