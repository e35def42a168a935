package checkpoint

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"kstorage/internal/record"
)

// MaxBatchRecords is how many records at most Kafka appends at once when it writes a snapshot of its state; an image
// that is written with Append in such portions gives the batches that Kafka's would.
const MaxBatchRecords = 1024

// Writer writes a snapshot. It must be closed to make it whole.
type Writer struct {
	// AppendTime goes into each batch that is written from now on: milliseconds since the Unix epoch.
	// NewWriter sets it to that of the header.
	AppendTime int64

	w       io.Writer
	epoch   int32
	offset  int64 // of the next record
	buf     []byte
	decoder record.Decoder
}

// RecordError says that a value passed to Append is no metadata record.
type RecordError struct {
	Index  int // of the value in the call
	Reason string
}

func (e *RecordError) Error() string { return fmt.Sprintf("record %d: %s", e.Index, e.Reason) }

// NewWriter writes the header batch to w and returns a Writer for the rest. Voters are written in the order of their ids.
// Errors: those of w, and a name or host of more than 32767 bytes.
// Unlike Kafka: there the voters' order is that of a hash map.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	out := &Writer{AppendTime: h.AppendTime, w: w, epoch: h.LeaderEpoch}
	header := record.New(record.SnapshotHeader, 0)
	header.SetInt("LastContainedLogTimestamp", h.LastContainedLogTime)
	records := []record.Record{header}
	if h.KRaftVersion != 0 {
		version := record.New(record.KRaftVersion, 0)
		version.SetInt("KRaftVersion", int64(h.KRaftVersion))
		records = append(records, version)
	}
	if h.Voters != nil {
		records = append(records, votersRecord(h.Voters))
	}
	return out, out.control(records...)
}

func votersRecord(voters []Voter) record.Record {
	r := record.New(record.KRaftVoters, 0)
	byID := slices.SortedFunc(slices.Values(voters), func(a, b Voter) int { return cmp.Compare(a.NodeID, b.NodeID) })
	for _, v := range byID {
		voter := r.Add("Voters")
		voter.SetInt("VoterId", int64(v.NodeID))
		voter.SetUUID("VoterDirectoryId", v.DirectoryID)
		for _, e := range v.Endpoints {
			endpoint := voter.Add("Endpoints")
			endpoint.SetText("Name", e.Name)
			endpoint.SetText("Host", e.Host)
			endpoint.SetInt("Port", int64(e.Port))
		}
		feature := voter.Struct("KRaftVersionFeature")
		feature.SetInt("MinSupportedVersion", int64(v.MinKRaftVersion))
		feature.SetInt("MaxSupportedVersion", int64(v.MaxKRaftVersion))
	}
	return r
}

// Append writes metadata records, given as encoded values. They form one batch, as in Kafka, or several if that
// would exceed 8 MiB. Without values nothing is written. Errors: *RecordError, and then nothing was written either;
// those of the underlying writer.
// Unlike Kafka: there more than 8 MiB at once are an error.
func (w *Writer) Append(values ...[]byte) error {
	entries := make([]record.Entry, len(values))
	for i := range values {
		if _, err := w.decoder.Decode(values[i]); err != nil {
			return &RecordError{Index: i, Reason: err.Error()}
		}
		entries[i].Value = values[i]
	}
	for len(entries) > 0 {
		n := record.Fit(entries)
		if err := w.batch(false, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// Close writes the footer. It does not close the underlying writer. Errors are those of the latter.
func (w *Writer) Close() error { return w.control(record.New(record.SnapshotFooter, 0)) }

func (w *Writer) control(records ...record.Record) error {
	entries := make([]record.Entry, len(records))
	for i, r := range records {
		var err error
		if entries[i], err = record.ControlEntry(r); err != nil {
			return err
		}
	}
	return w.batch(true, entries)
}

func (w *Writer) batch(control bool, entries []record.Entry) error {
	h := record.BatchHeader{BaseOffset: w.offset, LeaderEpoch: w.epoch, Timestamp: w.AppendTime, Control: control}
	w.offset += int64(len(entries))
	w.buf = record.AppendBatch(w.buf[:0], h, entries...)
	_, err := w.w.Write(w.buf)
	return err
}
