package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"kstorage/internal/record"
)

// Reader reads a snapshot from front to back and checks it: structure, checksums, offsets, every record.
type Reader struct {
	// Header is what the first batch says.
	Header Header

	file    string
	batches *record.BatchReader
	next    int64 // offset of the next record
	decoder record.Decoder
}

// Record is a metadata record of a snapshot.
type Record struct {
	Offset     int64  // in the file, where the header has 0
	AppendTime int64  // of its batch, in milliseconds since the Unix epoch
	Type       string // as Kafka's dump names it: FEATURE_LEVEL_RECORD
	Version    int16  // of the record
	Value      []byte // valid until the next record is read
}

// NewReader reads the header batch from r and returns a Reader for the rest. file is the name for errors.
// Errors: *CorruptError, and those of r.
func NewReader(r io.Reader, file string) (*Reader, error) {
	in := &Reader{file: file, batches: record.NewBatchReader(r)}
	b, err := in.batches.Next()
	if err == io.EOF {
		return nil, in.corrupt(0, "the file is empty, or holds zero bytes alone")
	}
	if err != nil {
		return nil, in.located(err)
	}
	if !b.Control {
		return nil, in.corrupt(0, "no snapshot: it begins with metadata records instead of a SnapshotHeader")
	}
	in.Header.LeaderEpoch = b.LeaderEpoch
	in.Header.AppendTime = b.Timestamp
	if err := in.header(b); err != nil {
		return nil, err
	}
	return in, nil
}

// header reads the records of the first batch.
func (r *Reader) header(b *record.Batch) error {
	if b.BaseOffset != 0 {
		return r.corrupt(b.Position, "the first offset is %d instead of 0", b.BaseOffset)
	}
	r.next = int64(b.Count)
	h := &r.Header
	for e, err := range b.Entries() {
		if err != nil {
			return r.located(err)
		}
		c, err := r.decoder.DecodeControl(e.Key, e.Value)
		if err != nil {
			return r.damaged(e, err)
		}
		if (e.Offset == 0) != (c.Message == record.SnapshotHeader) {
			return r.corrupt(b.Position, "%s at offset %d: a snapshot begins with one SnapshotHeader", c.Message.Type, e.Offset)
		}
		switch c.Message {
		case record.SnapshotHeader:
			h.LastContainedLogTime = c.Int("LastContainedLogTimestamp")
		case record.KRaftVersion:
			h.KRaftVersion = int16(c.Int("KRaftVersion"))
		case record.KRaftVoters:
			if h.KRaftVersion == 0 {
				return r.corrupt(b.Position, "KRaftVoters without a kraft.version of at least 1")
			}
			h.Voters = voters(c)
		default:
			return r.corrupt(b.Position, "%s at offset %d, in the batch of the header", c.Message.Type, e.Offset)
		}
	}
	return nil
}

func voters(r record.Record) []Voter {
	list := []Voter{}
	for _, row := range r.Structs("Voters") {
		feature := row.Struct("KRaftVersionFeature")
		v := Voter{
			NodeID:          int32(row.Int("VoterId")),
			DirectoryID:     row.UUID("VoterDirectoryId"),
			MinKRaftVersion: int16(feature.Int("MinSupportedVersion")),
			MaxKRaftVersion: int16(feature.Int("MaxSupportedVersion")),
		}
		for _, e := range row.Structs("Endpoints") {
			v.Endpoints = append(v.Endpoints, Endpoint{Name: e.Text("Name"), Host: e.Text("Host"), Port: uint16(e.Int("Port"))})
		}
		list = append(list, v)
	}
	return list
}

// Records returns the metadata records. A loop over them that ends without an error has seen the footer and the end of
// the file. An error comes last: *CorruptError, and those of the underlying reader. It can be ranged over once.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			b, err := r.batch()
			if err != nil {
				yield(Record{}, err)
				return
			}
			if b.Control {
				if err := r.footer(b); err != nil {
					yield(Record{}, err)
				}
				return
			}
			for e, err := range b.Entries() {
				if err != nil {
					yield(Record{}, r.located(err))
					return
				}
				c, err := r.decoder.Decode(e.Value)
				if err != nil {
					yield(Record{}, r.damaged(e, err))
					return
				}
				out := Record{Offset: e.Offset, AppendTime: b.Timestamp, Type: c.Message.Type, Version: c.Version, Value: e.Value}
				if !yield(out, nil) {
					return
				}
			}
		}
	}
}

// batch reads the next batch; there must be one.
func (r *Reader) batch() (*record.Batch, error) {
	b, err := r.batches.Next()
	if err == io.EOF {
		return nil, r.corrupt(r.batches.Position(), "the file ends without a SnapshotFooter: it is not whole")
	}
	if err != nil {
		return nil, r.located(err)
	}
	if b.BaseOffset != r.next {
		return nil, r.corrupt(b.Position, "a batch with offset %d follows offset %d", b.BaseOffset, r.next-1)
	}
	if b.LeaderEpoch != r.Header.LeaderEpoch {
		return nil, r.corrupt(b.Position, "a batch of leader epoch %d in a snapshot of epoch %d", b.LeaderEpoch, r.Header.LeaderEpoch)
	}
	r.next += int64(b.Count)
	return b, nil
}

// footer checks that b is the footer and that nothing is behind it.
func (r *Reader) footer(b *record.Batch) error {
	for e, err := range b.Entries() {
		if err != nil {
			return r.located(err)
		}
		c, err := r.decoder.DecodeControl(e.Key, e.Value)
		if err != nil {
			return r.damaged(e, err)
		}
		if c.Message != record.SnapshotFooter || b.Count > 1 {
			return r.corrupt(b.Position, "%s at offset %d: behind the header only one SnapshotFooter may be a control record", c.Message.Type, e.Offset)
		}
	}
	end := r.batches.Position()
	_, err := r.batches.Next()
	if err == io.EOF && r.batches.ZeroBytes() == 0 {
		return nil
	}
	var corrupt *record.CorruptError
	if err == nil || err == io.EOF || errors.As(err, &corrupt) {
		return r.corrupt(end, "bytes behind the SnapshotFooter")
	}
	return err
}

func (r *Reader) corrupt(offset int64, format string, args ...any) error {
	return &CorruptError{File: r.file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// located adds the file to an error of a batch.
func (r *Reader) located(err error) error {
	var c *record.CorruptError
	if errors.As(err, &c) {
		return r.corrupt(c.Offset, "%s", c.Reason)
	}
	return err
}

// damaged reports a record that does not decode.
func (r *Reader) damaged(e record.Entry, err error) error {
	return r.corrupt(e.Position, "record with offset %d, in its value %v", e.Offset, err)
}
