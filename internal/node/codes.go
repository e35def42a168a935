package node

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// Error codes of Kafka's protocol that are not the core's.
const (
	codeNotController           int16 = 41
	codeStaleBrokerEpoch        int16 = 77
	codeUnknownTopicID          int16 = 100
	codeDuplicateBroker         int16 = 101
	codeMismatchedEndpointType  int16 = 114
	codeUnsupportedEndpointType int16 = 115
	codeInvalidRegistration     int16 = 119

	codeUnknownTopic       = int16(raft.UnknownTopicOrPartition)
	codeTimedOut           = int16(raft.RequestTimedOut)
	codeUnsupportedVersion = int16(raft.UnsupportedVersion)
	codeInvalidRequest     = int16(raft.InvalidRequest)
)

// answerError is the code of an answer that refuses.
type answerError int16

func (e answerError) Error() string { return wire.ErrorName(int16(e)) }

// codeError is the error that a code of an answer stands for, nil for none.
func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return answerError(code)
}

// fromNoController tells whether an answer to one of the forwardable APIs is that of a node which is not the active
// controller; the core has a code of its own for this.
func fromNoController(answer kmsg.Response) bool {
	switch r := answer.(type) {
	case *kmsg.UnregisterBrokerResponse:
		return r.ErrorCode == codeNotController
	case *kmsg.UnregisterControllerResponse:
		return r.ErrorCode == codeNotController
	case *kmsg.UpdateFeaturesResponse:
		return r.ErrorCode == codeNotController
	case *kmsg.AddRaftVoterResponse:
		return r.ErrorCode == int16(raft.NotLeaderOrFollower)
	case *kmsg.RemoveRaftVoterResponse:
		return r.ErrorCode == int16(raft.NotLeaderOrFollower)
	case *kmsg.DescribeQuorumResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == int16(raft.NotLeaderOrFollower) {
					return true
				}
			}
		}
	}
	return false
}

// refuse answers a request of one of the APIs of the active controller with an error.
func refuse(q kmsg.Request, code int16) kmsg.Response {
	return wire.ErrorResponse(q, code, wire.ErrorName(code))
}
