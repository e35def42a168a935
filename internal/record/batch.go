package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
)

// MaxBatchBytes is the size up to which Kafka builds batches of the metadata log and of snapshots.
const MaxBatchBytes = 8 << 20

// maxReadBytes is the size up to which batches are read, before and after decompression. Kafka's limit can be raised
// by a setting that it doesn't document.
const maxReadBytes = 4 * MaxBatchBytes

const (
	batchHeaderBytes = 61
	lengthEnd        = 12 // the length counts the bytes from here on
	crcEnd           = 21 // and the checksum covers these

	magic = 2

	compressionMask = 0x07
	controlFlag     = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BatchHeader is what a writer decides about a batch.
type BatchHeader struct {
	BaseOffset  int64
	LeaderEpoch int32
	Timestamp   int64 // milliseconds since the Unix epoch, of all records
	Control     bool  // control records, else metadata records
}

// Batch is a batch that was decoded.
type Batch struct {
	BatchHeader
	Position    int64 // of its first byte in what was decoded
	Size        int   // in bytes, all counted
	Count       int   // of records, at least 1
	CRC         uint32
	Compression Compression

	records []byte // decompressed
}

// LastOffset is the offset of the last record.
func (b *Batch) LastOffset() int64 { return b.BaseOffset + int64(b.Count) - 1 }

// Entry is one record of a batch. For an encoder key and value count alone.
type Entry struct {
	Offset   int64
	Position int64  // of the value, in the same bytes as the batch's; the batch's own where records are compressed
	Key      []byte // of a control record, else nil
	Value    []byte
}

// ControlEntry returns a control record as an entry. Errors: *RecordError.
func ControlEntry(r Record) (Entry, error) {
	value, err := r.AppendValue(nil)
	return Entry{Key: r.AppendKey(nil), Value: value}, err
}

// AppendBatch appends a batch of entries, at least one, without compression. The offsets of the entries follow from
// the header.
func AppendBatch(dst []byte, h BatchHeader, entries ...Entry) []byte {
	start := len(dst)
	dst = append(dst, zeros[:batchHeaderBytes]...)
	for i := range entries {
		dst = appendEntry(dst, i, &entries[i])
	}
	putHeader(dst[start:], h, len(entries))
	return dst
}

// Builder builds a batch while its records come in. The zero value is an empty batch. A Builder keeps its memory from
// batch to batch.
type Builder struct {
	buf   []byte
	count int
}

// Len is the number of records in the batch.
func (b *Builder) Len() int { return b.count }

// SizeWith returns the size that the batch would have with entries added.
func (b *Builder) SizeWith(entries ...Entry) int {
	size := batchHeaderBytes
	if b.count > 0 {
		size = len(b.buf)
	}
	for i := range entries {
		body := entryBodySize(b.count+i, &entries[i])
		size += varintSize(body) + body
	}
	return size
}

// Add adds entries, which are copied.
func (b *Builder) Add(entries ...Entry) {
	if b.count == 0 {
		b.buf = append(b.buf[:0], zeros[:batchHeaderBytes]...)
	}
	for i := range entries {
		b.buf = appendEntry(b.buf, b.count, &entries[i])
		b.count++
	}
}

// Finish returns the batch, which must have a record, and begins a new one. The batch is valid until the next Add.
func (b *Builder) Finish(h BatchHeader) []byte {
	putHeader(b.buf, h, b.count)
	b.count = 0
	return b.buf
}

// putHeader fills in the header of a batch whose records are there.
func putHeader(batch []byte, h BatchHeader, count int) {
	var attributes uint16
	if h.Control {
		attributes = controlFlag
	}
	be := binary.BigEndian
	be.PutUint64(batch, uint64(h.BaseOffset))
	be.PutUint32(batch[8:], uint32(len(batch)-lengthEnd))
	be.PutUint32(batch[12:], uint32(h.LeaderEpoch))
	batch[16] = magic
	be.PutUint16(batch[21:], attributes)
	be.PutUint32(batch[23:], uint32(count-1))
	be.PutUint64(batch[27:], uint64(h.Timestamp))
	be.PutUint64(batch[35:], uint64(h.Timestamp))
	be.PutUint64(batch[43:], math.MaxUint64) // producerId
	be.PutUint16(batch[51:], math.MaxUint16) // producerEpoch
	be.PutUint32(batch[53:], math.MaxUint32) // baseSequence
	be.PutUint32(batch[57:], uint32(count))
	be.PutUint32(batch[17:], crc32.Checksum(batch[crcEnd:], castagnoli))
}

// appendEntry appends the record at place i of its batch.
func appendEntry(dst []byte, i int, e *Entry) []byte {
	dst = binary.AppendVarint(dst, int64(entryBodySize(i, e)))
	dst = append(dst, 0, 0) // attributes, timestampDelta
	dst = binary.AppendVarint(dst, int64(i))
	if e.Key == nil {
		dst = append(dst, 1) // -1
	} else {
		dst = binary.AppendVarint(dst, int64(len(e.Key)))
		dst = append(dst, e.Key...)
	}
	dst = binary.AppendVarint(dst, int64(len(e.Value)))
	dst = append(dst, e.Value...)
	return append(dst, 0) // headers
}

func entryBodySize(i int, e *Entry) int {
	size := 2 + varintSize(i) + 1 + varintSize(len(e.Value)) + len(e.Value) + 1
	if e.Key != nil {
		size += varintSize(len(e.Key)) - 1 + len(e.Key)
	}
	return size
}

// varintSize is the number of bytes that n >= 0 takes as a signed varint.
func varintSize(n int) int { return uvarintSize(uint64(n) << 1) }

// DecodeBatch decodes the batch that data begins with and checks its checksum. The batch refers to data, and may be
// followed by others: see Batch.Size. Errors: *CorruptError, with Cut set where data ends inside the batch.
func DecodeBatch(data []byte) (Batch, error) {
	size, err := batchSize(data)
	if err != nil {
		return Batch{}, err
	}
	if len(data) < size {
		return Batch{}, cut(len(data), size)
	}
	return decodeBatch(data[:size])
}

// batchSize returns the size of the batch that data begins with from its length field.
func batchSize(data []byte) (int, error) {
	if len(data) < lengthEnd {
		return 0, cut(len(data), batchHeaderBytes)
	}
	length := int64(int32(binary.BigEndian.Uint32(data[8:])))
	size := length + lengthEnd
	if size < batchHeaderBytes || size > maxReadBytes {
		return 0, &CorruptError{Offset: 8, Reason: fmt.Sprintf("batch length %d is outside of %d to %d", length, batchHeaderBytes-lengthEnd, maxReadBytes-lengthEnd)}
	}
	return int(size), nil
}

func cut(have, size int) error {
	return &CorruptError{Reason: fmt.Sprintf("the batch that begins here is cut: %d of its bytes are there, %d are missing", have, size-have), Cut: true}
}

// decodeBatch decodes data, which is one batch as its length field has it.
func decodeBatch(data []byte) (Batch, error) {
	c := cursor{data: data}
	b := Batch{Size: len(data)}
	b.BaseOffset = int64(c.uint64())
	c.take(4) // length
	b.LeaderEpoch = int32(c.uint32())
	if m := c.uint8(); m != magic {
		c.failAt(16, "magic byte %d, a batch of the metadata log has %d", m, magic)
	}
	b.CRC = c.uint32()
	if crc := crc32.Checksum(data[crcEnd:], castagnoli); crc != b.CRC {
		c.failAt(0, "the batch that begins here is damaged: its checksum is %08x, that of its bytes %08x", b.CRC, crc)
	}
	attributes := c.uint16()
	if unknown := attributes &^ (compressionMask | controlFlag); unknown != 0 {
		c.failAt(21, "attributes %#04x, a batch of the metadata log has none of %#04x", attributes, unknown)
	}
	b.Control = attributes&controlFlag != 0
	b.Compression = Compression(attributes & compressionMask)
	last := int32(c.uint32())
	b.Timestamp = int64(c.uint64())
	if most := int64(c.uint64()); most != b.Timestamp {
		c.failAt(35, "timestamps from %d to %d, a batch of the metadata log has one", b.Timestamp, most)
	}
	if producer, epoch, sequence := int64(c.uint64()), int16(c.uint16()), int32(c.uint32()); producer != -1 || epoch != -1 || sequence != -1 {
		c.failAt(43, "producer id %d, epoch %d, sequence %d, a batch of the metadata log has no producer", producer, epoch, sequence)
	}
	count := int32(c.uint32())
	switch {
	case count < 1:
		c.failAt(57, "batch of %d records", count)
	case last != count-1:
		c.failAt(23, "last offset delta %d with %d records", last, count)
	case b.BaseOffset < 0 || b.BaseOffset > math.MaxInt64-int64(count):
		c.failAt(0, "base offset %d", b.BaseOffset)
	}
	b.Count = int(count)
	b.records = data[batchHeaderBytes:]
	if c.err == nil && b.Compression != None {
		var err error
		if b.records, err = b.Compression.Decompress(b.records, maxReadBytes); err != nil {
			c.failAt(batchHeaderBytes, "records compressed with %s: %v", b.Compression, err)
		}
	}
	if c.err != nil {
		return Batch{}, c.err
	}
	return b, nil
}

// Entries returns the records of the batch. They refer to the bytes of the batch. An error comes last:
// *CorruptError, with the offset in the same bytes as Position.
func (b *Batch) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := cursor{data: b.records}
		for i := range b.Count {
			e := b.entry(&c, i)
			if c.err != nil {
				yield(Entry{}, b.corrupt(c.err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if c.pos < len(c.data) {
			c.fail("%d bytes behind the last record", len(c.data)-c.pos)
			yield(Entry{}, b.corrupt(c.err))
		}
	}
}

// entry reads the record at place i.
func (b *Batch) entry(c *cursor, i int) Entry {
	start := c.pos
	size := c.varint()
	if c.err == nil && (size < 0 || size > int64(len(c.data)-c.pos)) {
		c.failAt(start, "record of %d bytes, but %d are left in the batch", size, len(c.data)-c.pos)
	}
	if c.err != nil {
		return Entry{}
	}
	end := c.pos + int(size)
	in := cursor{data: c.data[:end], pos: c.pos}
	if a := in.uint8(); a != 0 {
		in.failAt(in.pos-1, "record attributes %#02x, there are none", a)
	}
	if delta := in.varint(); delta != 0 {
		in.failAt(start, "record with a timestamp of its own (%+d ms), a metadata log has none", delta)
	}
	if delta := in.varint(); delta != int64(i) {
		in.failAt(start, "record with offset delta %d at place %d", delta, i)
	}
	e := Entry{Offset: b.BaseOffset + int64(i), Key: in.bytes(), Value: in.bytes()}
	if n := in.varint(); n != 0 {
		in.failAt(start, "record with %d headers, a metadata log has none", n)
	}
	switch {
	case in.err == nil && in.pos < end:
		in.fail("%d bytes behind the end of the record", end-in.pos)
	case b.Control && len(e.Key) != 4:
		in.failAt(start, "control record with a key of %d bytes instead of 4", len(e.Key))
	case !b.Control && e.Key != nil:
		in.failAt(start, "record with a key, a metadata record has none")
	case len(e.Value) == 0:
		in.failAt(start, "record without a value")
	}
	e.Position = b.Position
	if b.Compression == None {
		e.Position += batchHeaderBytes + int64(in.pos-1-len(e.Value))
	}
	c.pos, c.err = end, in.err
	return e
}

// bytes reads a varint length and as many bytes; nil for length -1.
func (c *cursor) bytes() []byte {
	start := c.pos
	n := c.varint()
	if n == -1 {
		return nil
	}
	if c.err == nil && (n < 0 || n > int64(len(c.data)-c.pos)) {
		c.failAt(start, "length %d, but %d bytes are left", n, len(c.data)-c.pos)
		return nil
	}
	return c.take(int(n))
}

// corrupt gives an error of the records its place in what was decoded: inside of compressed records there is none.
func (b *Batch) corrupt(err *CorruptError) error {
	if b.Compression == None {
		return &CorruptError{Offset: b.Position + batchHeaderBytes + err.Offset, Reason: err.Reason}
	}
	return &CorruptError{Offset: b.Position, Reason: fmt.Sprintf("byte %d of the decompressed records: %s", err.Offset, err.Reason)}
}
