package record

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
)

// BatchReader reads batches one behind the other, and keeps one of them in memory.
type BatchReader struct {
	in       *bufio.Reader
	position int64 // of the next batch
	buf      []byte
	err      error
	zeros    int64
}

const readAhead = 256 << 10

// zeros is what to compare bytes with that should be zero.
var zeros [readAhead]byte

// NewBatchReader returns a reader of the batches in r.
func NewBatchReader(r io.Reader) *BatchReader {
	return &BatchReader{in: bufio.NewReaderSize(r, readAhead)}
}

// Next returns the next batch, valid until the next call. At the end it returns io.EOF; if zero bytes alone fill the
// rest, that is the end too: see ZeroBytes. Other errors: *CorruptError, and those of the underlying reader. An error
// comes again from each later call.
func (r *BatchReader) Next() (*Batch, error) {
	if r.err != nil {
		return nil, r.err
	}
	b, err := r.next()
	if err != nil {
		if c, ok := err.(*CorruptError); ok {
			c.Offset += r.position
		}
		r.err = err
		return nil, err
	}
	b.Position = r.position
	r.position += int64(b.Size)
	return &b, nil
}

// Position is the place of the next batch: where the last one ended.
func (r *BatchReader) Position() int64 { return r.position }

// ZeroBytes is, after io.EOF, the number of zero bytes behind the last batch. A log segment that was made at its full
// size ahead of time has such a tail, as has one whose last write was lost in a crash.
func (r *BatchReader) ZeroBytes() int64 { return r.zeros }

func (r *BatchReader) next() (Batch, error) {
	r.buf = r.buf[:0]
	if err := r.fill(lengthEnd); err != nil {
		return Batch{}, err
	}
	if len(r.buf) == 0 {
		return Batch{}, io.EOF
	}
	if bytes.Equal(r.buf, zeros[:len(r.buf)]) { // no batch has length zero
		return Batch{}, r.zeroTail()
	}
	size, err := batchSize(r.buf)
	if err != nil {
		return Batch{}, err
	}
	if err := r.fill(size); err != nil {
		return Batch{}, err
	}
	return DecodeBatch(r.buf)
}

// fill reads until buf has n bytes or the stream is at its end. The memory grows with what is read, whatever n claims.
func (r *BatchReader) fill(n int) error {
	for len(r.buf) < n {
		step := min(n-len(r.buf), max(1<<20, len(r.buf)))
		r.buf = slices.Grow(r.buf, step)
		got, err := io.ReadFull(r.in, r.buf[len(r.buf):len(r.buf)+step])
		r.buf = r.buf[:len(r.buf)+got]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// zeroTail counts the bytes from the zeros in buf on, up to the end: io.EOF if all are zero.
func (r *BatchReader) zeroTail() error {
	n := int64(len(r.buf))
	for {
		chunk, err := r.in.Peek(max(1, r.in.Buffered()))
		if !bytes.Equal(chunk, zeros[:len(chunk)]) {
			n += int64(slices.IndexFunc(chunk, func(b byte) bool { return b != 0 }))
			return &CorruptError{Reason: fmt.Sprintf("zero bytes instead of a batch, and %d bytes on something else", n)}
		}
		n += int64(len(chunk))
		if err == io.EOF {
			r.zeros = n
		}
		if err != nil {
			return err
		}
		r.in.Discard(len(chunk)) // cannot fail: they are buffered
	}
}
