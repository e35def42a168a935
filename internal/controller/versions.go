package controller

import "kstorage/features"

// Levels of metadata.version that change what the controller writes.
const (
	noEpochBump              features.MetadataVersion = 12 // 3.6-IV0: a smaller ISR needs no new leader epoch
	transactions             features.MetadataVersion = 13 // 3.6-IV1, KIP-868
	controllerRegistration   features.MetadataVersion = 15 // 3.7-IV0, KIP-919
	directoryAssignment      features.MetadataVersion = 17 // 3.7-IV2, KIP-858
	eligibleReplicas         features.MetadataVersion = 23 // 4.0-IV1, KIP-966
	cordonedDirectories      features.MetadataVersion = 30 // 4.3-IV0, KIP-1066
	controllerUnregistration features.MetadataVersion = 33 // 4.4-IV2
)

// elrVersion is the feature that turns eligible leader replicas on.
const elrVersion = "eligible.leader.replicas.version"

func partitionChangeVersion(v features.MetadataVersion) int16 {
	switch {
	case v >= eligibleReplicas:
		return 2
	case v >= directoryAssignment:
		return 1
	}
	return 0
}

// The version of a BrokerRegistrationChangeRecord is that of the newest field it has.
const (
	changeFenced       int16 = 0
	changeShuttingDown int16 = 1
	changeDirectories  int16 = 2
	changeCordoned     int16 = 3
)
