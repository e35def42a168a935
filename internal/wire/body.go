package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeRequest reads a request whose header and body stand in payload, as the one that an Envelope carries (KIP-590).
// Byte fields of the request stand in payload. Errors: those of DecodeRequestHeader, a body that does not decode.
func DecodeRequest(payload []byte) (h RequestHeader, q kmsg.Request, err error) {
	h, body, err := DecodeRequestHeader(payload)
	if err != nil {
		return h, nil, err
	}
	q, err = decodeBody(h.Key, h.Version, body)
	return h, q, err
}

// maxBodyBytes is more than a request needs that is served, PushTelemetry aside, whose metrics are one field. It is not for
// the network's sake, but since a body may cost 150 times its bytes when it is decoded.
const maxBodyBytes = 256 << 10

// decodeBody reads the body of a request of a known API. What it allocates is bounded by the length of body: an
// array is believed only as far as its elements, at their smallest, fit into what is left. The worst, structs that each
// have a tagged field that nobody knows, cost 150 times their bytes. Byte fields of the request stand in body.
// As in Kafka, bytes behind the body are passed over.
func decodeBody(key, version int16, body []byte) (kmsg.Request, error) {
	q := kmsg.RequestForKey(key)
	q.SetVersion(version)
	if err := q.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode the body: %w", err)
	}
	if field := strayTag(q); field != "" {
		return nil, fmt.Errorf("version %d has no tagged field %s", version, field)
	}
	return q, nil
}

// strayTag returns the name of a tagged field that q has although its version doesn't define it, or "". The decoder
// takes a tagged field in each flexible version, where Kafka closes the connection. These are the ones of the APIs
// that nodes serve each other which came later than the first flexible version.
func strayTag(q kmsg.Request) string {
	switch q := q.(type) {
	case *kmsg.FetchRequest:
		return strayFetchTag(q)
	case *kmsg.FetchSnapshotRequest:
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				if q.Version < 1 && p.ReplicaDirectoryID != [16]byte{} {
					return "ReplicaDirectoryId"
				}
			}
		}
	case *kmsg.BrokerHeartbeatRequest:
		if q.Version < 1 && len(q.OfflineLogDirs) > 0 {
			return "OfflineLogDirs"
		}
		if q.Version < 2 && q.CordonedLogDirs != nil {
			return "CordonedLogDirs"
		}
	}
	return ""
}

func strayFetchTag(q *kmsg.FetchRequest) string {
	if state := kmsg.NewFetchRequestReplicaState(); q.Version < 15 && (q.ReplicaState.ID != state.ID || q.ReplicaState.Epoch != state.Epoch) {
		return "ReplicaState"
	}
	if q.Version >= 18 {
		return ""
	}
	unset := kmsg.NewFetchRequestTopicPartition()
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			if p.HighWatermark != unset.HighWatermark {
				return "HighWatermark"
			}
			if q.Version < 17 && p.ReplicaDirectoryID != unset.ReplicaDirectoryID {
				return "ReplicaDirectoryId"
			}
		}
	}
	return ""
}
