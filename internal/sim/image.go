package sim

import (
	"errors"
	"fmt"
	"io"

	"kstorage/checkpoint"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// clusterIDLevel is the lowest metadata.version that has ClusterIdRecord.
const clusterIDLevel = 35

// image is the state that the committed records make: a tiny replicated state machine. The records are real ones:
// metadata.version, the cluster id, and for what clients append ProducerIds with the number of the append.
type image struct {
	level     int16
	clusterID string
	records   int64 // so many have been applied
	hash      trace // of all of them, in their order
}

// check is docs/design.md 5.7: a level with cluster ids and a cluster id come together, and an id never changes.
func (i image) check(before image) error {
	if (i.level >= clusterIDLevel) != (i.clusterID != "") {
		return fmt.Errorf("metadata.version is %d and the cluster id %q", i.level, i.clusterID)
	}
	if before.clusterID != "" && before.clusterID != i.clusterID {
		return fmt.Errorf("the cluster id changes from %q to %q", before.clusterID, i.clusterID)
	}
	return nil
}

// apply applies a record and returns the number of the append, or 0.
func (i *image) apply(value []byte) (op int64, err error) {
	r, err := record.Decode(value)
	if err != nil {
		return 0, err
	}
	switch r.Message {
	case record.FeatureLevel:
		i.level = int16(r.Int("FeatureLevel"))
	case record.ClusterID:
		i.clusterID = r.Text("ClusterId")
	case record.ProducerIds:
		op = r.Int("NextProducerId")
	default:
		return 0, fmt.Errorf("nobody writes a %s", r.Message.Name)
	}
	i.records++
	i.hash.bytes(value)
	return op, nil
}

// opRecord is what a client's append writes.
func opRecord(op int64) []byte {
	r := record.New(record.ProducerIds, 0)
	r.SetInt("NextProducerId", op)
	value, err := r.AppendValue(nil)
	if err != nil {
		panic(err)
	}
	return value
}

// bootstrap are the first records of a log. Levels below clusterIDLevel have no id.
func bootstrap(level int16, clusterID string) [][]byte {
	values := [][]byte{checkpoint.FeatureLevel("metadata.version", level)}
	if level >= clusterIDLevel {
		values = append(values, checkpoint.ClusterID(clusterID))
	}
	return values
}

// write writes the image as a snapshot. What it counts and hashes stands in a ProducerIds too.
func (i image) write(w io.Writer, header checkpoint.Header) error {
	out, err := checkpoint.NewWriter(w, header)
	if err != nil {
		return err
	}
	var values [][]byte
	if i.level > 0 {
		values = bootstrap(i.level, i.clusterID)
	}
	r := record.New(record.ProducerIds, 0)
	r.SetInt("BrokerEpoch", int64(i.hash))
	r.SetInt("NextProducerId", i.records)
	value, err := r.AppendValue(nil)
	if err != nil {
		return err
	}
	return errors.Join(out.Append(append(values, value)...), out.Close())
}

// readImage reads a snapshot.
func readImage(r io.Reader, name string) (image, error) {
	in, err := checkpoint.NewReader(r, name)
	if err != nil {
		return image{}, err
	}
	var i image
	for value, err := range in.Records() {
		if err != nil {
			return image{}, err
		}
		r, err := record.Decode(value.Value)
		if err != nil {
			return image{}, err
		}
		switch r.Message {
		case record.FeatureLevel:
			i.level = int16(r.Int("FeatureLevel"))
		case record.ClusterID:
			i.clusterID = r.Text("ClusterId")
		case record.ProducerIds:
			i.records, i.hash = r.Int("NextProducerId"), trace(r.Int("BrokerEpoch"))
		}
	}
	return i, nil
}

// header returns the header of a snapshot.
func header(s raft.Snapshot, appendTime int64) checkpoint.Header {
	h := checkpoint.Header{
		LeaderEpoch:          int32(s.ID.Epoch),
		AppendTime:           appendTime,
		LastContainedLogTime: s.LastContainedLogTime,
		KRaftVersion:         s.KRaftVersion,
	}
	for _, v := range s.Voters {
		voter := checkpoint.Voter{
			NodeID:          int32(v.Key.NodeID),
			DirectoryID:     v.Key.DirectoryID,
			MinKRaftVersion: v.MinKRaftVersion,
			MaxKRaftVersion: v.MaxKRaftVersion,
		}
		for _, e := range v.Endpoints {
			voter.Endpoints = append(voter.Endpoints, checkpoint.Endpoint{Name: e.Listener, Host: e.Host, Port: e.Port})
		}
		h.Voters = append(h.Voters, voter)
	}
	return h
}
