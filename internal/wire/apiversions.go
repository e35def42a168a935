package wire

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/raft"
)

// maxApiVersions is the newest version of ApiVersions that is answered here, from 0 on.
const maxApiVersions = 5

// rebootstrapRequired is Kafka's error for a client that has come to another node than it meant.
const rebootstrapRequired raft.Code = 129

// VersionInfo is what a node tells in its answers to ApiVersions besides its APIs.
type VersionInfo struct {
	SupportedFeatures []SupportedFeature
	FinalizedFeatures []features.Level // of the cluster; level 0 is left out
	FinalizedEpoch    int64            // of the finalized features; -1 while none are known
	// Identity is who a client must mean that names a cluster and a node (KIP-1242); nil if any will do, as on the
	// listeners of controllers.
	Identity *Identity
}

// SupportedFeature is the range of a feature's levels that a node can work with.
type SupportedFeature struct {
	Name     string
	Min, Max int16
}

// Identity is a node of a cluster.
type Identity struct {
	ClusterID string
	NodeID    int32
}

// softwareName is what KIP-511 allows as the name and the version of a client's software.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// unknownApiVersions is the answer to a version of ApiVersions that isn't known here: in version 0, which every
// client can read, and with the range to choose from (KIP-511).
func unknownApiVersions() *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.ErrorCode = int16(raft.UnsupportedVersion)
	r.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(kmsg.ApiVersions), MaxVersion: maxApiVersions}}
	return r
}

// answerApiVersions answers q, whose version is known, with apis and info.
func answerApiVersions(q *kmsg.ApiVersionsRequest, apis []kmsg.ApiVersionsResponseApiKey, info VersionInfo) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	r.Version = q.Version
	if r.ErrorCode = int16(checkApiVersions(q, info.Identity)); r.ErrorCode != 0 {
		return r
	}
	r.ApiKeys = apis
	for _, f := range info.SupportedFeatures {
		// Clients that speak version 3 and below take a minimum of 0 for an error (KAFKA-17011).
		if q.Version < 4 && f.Min == 0 {
			continue
		}
		r.SupportedFeatures = append(r.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.Name, MinVersion: f.Min, MaxVersion: f.Max})
	}
	r.FinalizedFeaturesEpoch = info.FinalizedEpoch
	for _, f := range info.FinalizedFeatures {
		if f.Level != 0 {
			r.FinalizedFeatures = append(r.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.Name, MinVersionLevel: f.Level, MaxVersionLevel: f.Level})
		}
	}
	return r
}

// checkApiVersions returns the code of the error that q is answered with, or NoError.
func checkApiVersions(q *kmsg.ApiVersionsRequest, identity *Identity) raft.Code {
	if q.Version >= 3 && !(softwareName.MatchString(q.ClientSoftwareName) && softwareName.MatchString(q.ClientSoftwareVersion)) {
		return raft.InvalidRequest
	}
	if (q.ClusterID == nil) != (q.NodeID == -1) {
		return raft.InvalidRequest
	}
	if q.ClusterID != nil && identity != nil && (Identity{ClusterID: *q.ClusterID, NodeID: q.NodeID}) != *identity {
		return rebootstrapRequired
	}
	return raft.NoError
}
