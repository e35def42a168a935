package checkpoint

import (
	"io"

	"kstorage/internal/record"
)

// Bootstrap is what a zero checkpoint, or a bootstrap.checkpoint, says of the cluster that begins with it.
type Bootstrap struct {
	Header   Header
	Features []Feature // in the order of the records
	// ClusterID is the id in its ClusterIdRecord, "" for none. It is a proposal: the cluster's id is what its log says. KIP-1262.
	ClusterID string
	Records   int // metadata records in all
}

// Feature is a feature at the level that a FeatureLevelRecord gives it.
type Feature struct {
	Name  string
	Level int16
}

// ReadBootstrap reads a snapshot to its end and returns what it says. file is the name for errors. Errors: those of
// Reader. Where one comes the Bootstrap has what was read before it.
func ReadBootstrap(r io.Reader, file string) (Bootstrap, error) {
	var b Bootstrap
	in, err := NewReader(r, file)
	if err != nil {
		return b, err
	}
	b.Header = in.Header
	for raw, err := range in.Records() {
		if err != nil {
			return b, err
		}
		b.Records++
		decoded, err := record.Decode(raw.Value)
		if err != nil {
			return b, err // not after Records has decoded it
		}
		switch decoded.Message {
		case record.FeatureLevel:
			b.Features = append(b.Features, Feature{decoded.Text("Name"), int16(decoded.Int("FeatureLevel"))})
		case record.ClusterID:
			b.ClusterID = decoded.Text("ClusterId")
		}
	}
	return b, nil
}
