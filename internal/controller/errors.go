package controller

// Error codes of Kafka's protocol.
const (
	unknownServerError          int16 = -1
	none                        int16 = 0
	unsupportedVersion          int16 = 35
	invalidRequest              int16 = 42
	staleBrokerEpoch            int16 = 77
	duplicateBrokerRegistration int16 = 101
	brokerIDNotRegistered       int16 = 102
	inconsistentClusterID       int16 = 104
	invalidRegistration         int16 = 119
	controllerIDNotRegistered   int16 = 136
)
