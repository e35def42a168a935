package checkpoint

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"kstorage/internal/record"
)

// PortionRecords is how many records Kafka appends at once when it writes a snapshot of its state. What is appended in
// such portions comes out in the batches that Kafka's would have.
const PortionRecords = 1024

// Writer writes a snapshot. It must be closed to make it whole.
type Writer struct {
	// AppendTime goes into each batch that is written from now on: milliseconds since the Unix epoch.
	// NewWriter sets it to that of the header.
	AppendTime int64

	w        io.Writer
	epoch    int32
	offset   int64          // of the next batch to be written
	open     record.Builder // the batch that records are added to
	openTime int64          // AppendTime of its first record
	decoder  record.Decoder
	entries  []record.Entry // memory of Append
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
	byID := slices.SortedStableFunc(slices.Values(voters), func(a, b Voter) int { return cmp.Compare(a.NodeID, b.NodeID) })
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

// Append adds metadata records, given as encoded values, which are copied. They are written at the latest by Close.
// Batches are cut as Kafka cuts them: the records of one call stay in one batch, and calls share a batch as long as it
// does not exceed 8 MiB. Errors: *RecordError, and then nothing was added; those of the underlying writer.
// Unlike Kafka: a call with more than 8 MiB is not an error, but cut.
func (w *Writer) Append(values ...[]byte) error {
	entries := slices.Grow(w.entries[:0], len(values))[:len(values)]
	w.entries = entries
	for i := range values {
		if _, err := w.decoder.Decode(values[i]); err != nil {
			return &RecordError{Index: i, Reason: err.Error()}
		}
		entries[i] = record.Entry{Value: values[i]}
		if size := new(record.Builder).SizeWith(entries[i]); size > record.MaxBatchBytes {
			return &RecordError{Index: i, Reason: fmt.Sprintf("its batch would have %d bytes, the limit is %d", size, record.MaxBatchBytes)}
		}
	}
	if w.open.SizeWith(entries...) <= record.MaxBatchBytes {
		w.add(entries...)
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	for _, e := range entries {
		if w.open.SizeWith(e) > record.MaxBatchBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.add(e)
	}
	// Kafka writes what did not fit together with the full batch in front of it, so it never takes further records.
	return w.flush()
}

func (w *Writer) add(entries ...record.Entry) {
	if w.open.Len() == 0 {
		w.openTime = w.AppendTime
	}
	w.open.Add(entries...)
}

// Close writes the open batch and the footer. It does not close the underlying writer. Errors are those of the latter.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.control(record.New(record.SnapshotFooter, 0))
}

// flush writes the open batch, if there is one.
func (w *Writer) flush() error {
	if w.open.Len() == 0 {
		return nil
	}
	return w.write(false, w.openTime)
}

// control writes a batch of control records.
func (w *Writer) control(records ...record.Record) error {
	for _, r := range records {
		e, err := record.ControlEntry(r)
		if err != nil {
			return err
		}
		w.open.Add(e)
	}
	return w.write(true, w.AppendTime)
}

func (w *Writer) write(control bool, appendTime int64) error {
	h := record.BatchHeader{BaseOffset: w.offset, LeaderEpoch: w.epoch, Timestamp: appendTime, Control: control}
	w.offset += int64(w.open.Len())
	_, err := w.w.Write(w.open.Finish(h))
	return err
}
