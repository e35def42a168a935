package dump

import (
	"errors"
	"fmt"
	"io"

	"kstorage/checkpoint"
	"kstorage/internal/record"
)

// scan is the way through a file of batches. It prints what can be read, and keeps the first thing that is wrong.
type scan struct {
	p    *printer
	path string
	head head

	sum        summary
	first      *checkpoint.CorruptError // what is wrong
	undecoded  int64                    // records that could not be decoded
	lastOffset int64                    // of the last batch; -1: none yet
	lastEpoch  int32
	footer     bool
	decoder    record.Decoder
}

// errOtherTopic ends a scan.
var errOtherTopic = errors.New("not a metadata record")

func batches(p *printer, in io.Reader, path string, h head) (summary, error) {
	s := &scan{p: p, path: path, head: h, lastOffset: -1}
	if h.baseOffset != nil {
		s.lastOffset = *h.baseOffset - 1
	}
	err := s.run(in)
	var corrupt *record.CorruptError
	switch {
	case err == nil, err == errOtherTopic:
	case errors.As(err, &corrupt):
		s.wrong(corrupt.Offset, "%s", corrupt.Reason)
	default:
		return s.sum, err
	}
	if s.first == nil {
		return s.sum, nil
	}
	if s.undecoded > 1 {
		s.first.Reason += fmt.Sprintf("; %d records in all could not be decoded", s.undecoded)
	}
	return s.sum, s.first
}

func (s *scan) run(in io.Reader) error {
	r := record.NewBatchReader(in)
	for {
		b, err := r.Next()
		s.sum.bytes = r.Position()
		if err == io.EOF {
			s.sum.zeroBytes = r.ZeroBytes()
			s.ended()
			return nil
		}
		if err != nil {
			return err
		}
		s.sum.batches++
		s.checkBatch(b)
		s.p.batch(b)
		for e, err := range b.Entries() {
			if err != nil {
				return err
			}
			if err := s.entry(b, e); err != nil {
				return err
			}
		}
		if s.p.err != nil {
			return nil
		}
	}
}

func (s *scan) wrong(offset int64, format string, args ...any) {
	if s.first == nil {
		s.first = &checkpoint.CorruptError{File: s.path, Offset: offset, Reason: fmt.Sprintf(format, args...)}
	}
}

func (s *scan) snapshot() bool { return s.head.kind != kindSegment }

// checkBatch checks a batch against those in front of it.
func (s *scan) checkBatch(b *record.Batch) {
	known := s.sum.batches > 1 || s.snapshot() || s.head.baseOffset != nil
	if known && b.BaseOffset != s.lastOffset+1 {
		s.wrong(b.Position, "a batch with offset %d where %d is next", b.BaseOffset, s.lastOffset+1)
	}
	s.lastOffset = b.LastOffset()
	if s.sum.batches > 1 && (b.LeaderEpoch < s.lastEpoch || s.snapshot() && b.LeaderEpoch != s.lastEpoch) {
		s.wrong(b.Position, "a batch of leader epoch %d behind one of epoch %d", b.LeaderEpoch, s.lastEpoch)
	}
	s.lastEpoch = b.LeaderEpoch
	if s.footer {
		s.wrong(b.Position, "a batch behind the SnapshotFooter")
	}
	if s.snapshot() && s.sum.batches == 1 && !b.Control {
		s.wrong(b.Position, "a snapshot that does not begin with a SnapshotHeader")
	}
}

// ended checks what must be there at the end.
func (s *scan) ended() {
	if !s.snapshot() {
		return
	}
	switch end := s.sum.bytes; {
	case end == 0 && s.sum.zeroBytes == 0:
		s.wrong(end, "the file is empty")
	case !s.footer:
		s.wrong(end, "the file ends without a SnapshotFooter: it is not whole")
	case s.sum.zeroBytes > 0:
		s.wrong(end, "%d zero bytes behind the SnapshotFooter", s.sum.zeroBytes)
	}
}

func (s *scan) entry(b *record.Batch, e record.Entry) error {
	s.sum.records++
	var r record.Record
	var err error
	if b.Control {
		r, err = s.decoder.DecodeControl(e.Key, e.Value)
	} else {
		r, err = s.decoder.Decode(e.Value)
	}
	if err != nil {
		return s.notDecoded(b, e, err)
	}
	if s.snapshot() && b.Control {
		first := s.sum.records == 1
		if first != (r.Message == record.SnapshotHeader) {
			s.wrong(b.Position, "%s at offset %d: a snapshot begins with one SnapshotHeader", r.Message.Type, e.Offset)
		}
		s.footer = s.footer || r.Message == record.SnapshotFooter
	}
	s.p.record(e, &r)
	return nil
}

// notDecoded prints the bytes of a record. Its batch is intact, so the next record is where it should be.
func (s *scan) notDecoded(b *record.Batch, e record.Entry, err error) error {
	if !b.Control && e.Value[0] != record.FrameVersion {
		s.wrong(e.Position, "the record with offset %d is no metadata record; segments of other topics are for kafka-dump-log", e.Offset)
		return errOtherTopic
	}
	s.undecoded++
	s.wrong(e.Position, "record with offset %d, in its value %v", e.Offset, err)
	s.p.notDecoded(e, err.Error())
	return nil
}
