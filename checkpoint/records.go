package checkpoint

import "kstorage/internal/record"

// The values that follow are for Writer.Append, which refuses those with a text of more than 32767 bytes.

// FeatureLevel returns the value of a FeatureLevelRecord, version 0: the feature is finalized at level. KIP-778.
func FeatureLevel(name string, level int16) []byte {
	r := record.New(record.FeatureLevel, 0)
	r.SetText("Name", name)
	r.SetInt("FeatureLevel", int64(level))
	return encode(r)
}

// ScramMechanism is a SCRAM mechanism as records number it.
type ScramMechanism int8

const (
	ScramSHA256 ScramMechanism = 1
	ScramSHA512 ScramMechanism = 2
)

// ScramCredential returns the value of a UserScramCredentialRecord, version 0: the credential of the user name with
// the mechanism. KIP-900.
func ScramCredential(name string, mechanism ScramMechanism, salt, storedKey, serverKey []byte, iterations int32) []byte {
	r := record.New(record.UserScramCredential, 0)
	r.SetText("Name", name)
	r.SetInt("Mechanism", int64(mechanism))
	r.SetBytes("Salt", salt)
	r.SetBytes("StoredKey", storedKey)
	r.SetBytes("ServerKey", serverKey)
	r.SetInt("Iterations", int64(iterations))
	return encode(r)
}

// ClusterID returns the value of a ClusterIdRecord, version 0. KIP-1262; Apache Kafka 4.4 cannot read it.
func ClusterID(id string) []byte {
	r := record.New(record.ClusterID, 0)
	r.SetText("ClusterId", id)
	return encode(r)
}

func encode(r record.Record) []byte {
	// The one error is a text of more than 32767 bytes. Writer.Append reports it: it decodes what it is given.
	value, _ := r.AppendValue(nil)
	return value
}
