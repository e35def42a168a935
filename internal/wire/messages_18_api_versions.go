package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// ApiVersions (KIP-511, KIP-584) as the client sends it: first on each connection, and when the core probes a node that
// wants to become a voter.

// newApiVersionsRequest returns the request without a cluster id and a node id, as Kafka's nodes send it.
func newApiVersionsRequest() *kmsg.ApiVersionsRequest {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "kstorage", "1"
	return q
}

func decodeApiVersionsResponse(r *kmsg.ApiVersionsResponse) raft.Response {
	out := &raft.ApiVersionsResponse{Code: raft.Code(r.ErrorCode)}
	for _, f := range r.SupportedFeatures {
		if f.Name == "kraft.version" {
			out.HasKRaftVersion, out.MinKRaftVersion, out.MaxKRaftVersion = true, f.MinVersion, f.MaxVersion
		}
	}
	return out
}
