package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// FrameVersion begins the value of each metadata record.
const FrameVersion = 1

// maxTextBytes is the longest string of Kafka's protocol.
const maxTextBytes = math.MaxInt16

// CorruptError says where bytes stop to be what they should be.
type CorruptError struct {
	Offset  int64 // of the byte in what was decoded: a record's value, a batch, or the whole stream
	Reason  string
	Cut     bool // all is well up to the end of the bytes, but they end too early
	Unknown bool // nothing is wrong but that no record of this kind is known: a newer release may have it
}

func (e *CorruptError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Decoder decodes records one after the other into memory that it uses again: a record is valid
// until the next call. The zero value is ready.
type Decoder struct {
	memory []Value // the newest piece; the record has its front, up to len
}

// Decode decodes the value of a metadata record. The record refers to value.
// Errors: *CorruptError, with the offset in value.
func Decode(value []byte) (Record, error) { return new(Decoder).Decode(value) }

// DecodeControl decodes a control record from its key and value. The record refers to value.
// Errors: *CorruptError, with the offset in value.
func DecodeControl(key, value []byte) (Record, error) { return new(Decoder).DecodeControl(key, value) }

// Decode is the function Decode, but the record is valid only until the next call.
func (d *Decoder) Decode(value []byte) (Record, error) {
	c := cursor{data: value}
	if frame := c.uvarint(); c.err == nil && frame != FrameVersion {
		c.failAt(0, "frame version %d, a metadata record has %d", frame, FrameVersion)
	}
	key, version := c.uvarint(), c.uvarint()
	if c.err != nil {
		return Record{}, c.err
	}
	if key > math.MaxInt16 || Lookup(int16(key)) == nil {
		c.failAt(1, "unknown apiKey %d: no metadata record up to Apache Kafka 4.4 has it", key)
		c.err.Unknown = true
		return Record{}, c.err
	}
	if version > math.MaxInt16 {
		c.failAt(2, "record version %d", version)
		return Record{}, c.err
	}
	return d.decode(&c, Lookup(int16(key)), int16(version))
}

// DecodeControl is the function DecodeControl, but the record is valid only until the next call.
func (d *Decoder) DecodeControl(key, value []byte) (Record, error) {
	c := cursor{data: value}
	if len(key) < 4 {
		c.failAt(0, "control record with a key of %d bytes instead of 4", len(key))
		return Record{}, c.err
	}
	controlType := int16(binary.BigEndian.Uint16(key[2:]))
	m := LookupControl(controlType)
	if m == nil {
		c.failAt(0, "unknown control record type %d", controlType)
		return Record{}, c.err
	}
	if len(value) < 2 {
		c.failAt(0, "%s of %d bytes", m.Type, len(value))
		return Record{}, c.err
	}
	version := int16(binary.BigEndian.Uint16(value))
	if version < 0 {
		c.failAt(0, "%s of version %d", m.Type, version)
		return Record{}, c.err
	}
	return d.decode(&c, m, version)
}

func (d *Decoder) decode(c *cursor, m *Message, version int16) (Record, error) {
	d.memory = d.memory[:0]
	r := Record{Message: m, Version: version}
	r.Row = Row{m.Fields, d.values(c, m.Fields, min(version, m.Latest))}
	if c.err == nil && c.pos < len(c.data) {
		c.fail("%d bytes behind the end of %s version %d", len(c.data)-c.pos, m.Name, version)
	}
	if c.err != nil {
		return Record{}, c.err
	}
	return r, nil
}

// take returns n values, which may hold old content. When the piece of memory is used up, a larger one takes its place;
// what was taken before keeps the old one.
func (d *Decoder) take(n int) []Value {
	start := len(d.memory)
	if cap(d.memory)-start < n {
		d.memory = make([]Value, 0, max(2*cap(d.memory), n))
		start = 0
	}
	d.memory = d.memory[:start+n]
	return d.memory[start : start+n : start+n]
}

// values decodes a struct: fields in line, then tagged fields.
func (d *Decoder) values(c *cursor, fields []Field, version int16) []Value {
	values := d.take(len(fields) + 1)
	for i := range fields {
		if f := &fields[i]; f.Tag != 0 || version < f.Since {
			values[i] = f.initial
		} else {
			d.value(c, f, version, &values[i])
		}
	}
	tags := tagsOf(values)
	*tags = Value{}
	n, last := c.uvarint(), -1
	for ; n > 0 && c.err == nil; n-- {
		start := c.pos
		number := c.uvarint()
		content := c.take(int(c.uvarint()))
		if c.err == nil && int(number) <= last {
			c.failAt(start, "tagged field %d behind %d: they must ascend", number, last)
		}
		if c.err != nil {
			break
		}
		last = int(number)
		i := taggedField(fields, number)
		if i < 0 {
			tags.data = append(tags.data, c.data[start:c.pos]...)
			continue
		}
		if fields[i].Since > version { // as Kafka, which cannot read such a record either
			c.failAt(start, "tagged field %s in version %d, which doesn't have it", fields[i].Name, version)
			break
		}
		tags.num |= 1 << number
		// The content alone, at its place in the whole.
		in := cursor{data: c.data[:c.pos], pos: c.pos - len(content)}
		d.value(&in, &fields[i], version, &values[i])
		if in.err == nil && in.pos < c.pos {
			in.fail("%d bytes behind the end of tagged field %s", c.pos-in.pos, fields[i].Name)
		}
		c.err = in.err
	}
	return values
}

// taggedField returns the place of the field with a tag, -1 if no version has it.
func taggedField(fields []Field, number uint32) int {
	for i := range fields {
		if f := &fields[i]; f.Tag != 0 && f.Tag.number() == number {
			return i
		}
	}
	return -1
}

func (d *Decoder) value(c *cursor, f *Field, version int16, v *Value) {
	*v = Value{}
	switch f.Type {
	case Bool:
		v.num = int64(c.uint8())
		if v.num > 1 {
			c.failAt(c.pos-1, "boolean %s is %d", f.Name, v.num)
		}
	case Int8:
		v.num = int64(int8(c.uint8()))
	case Int16:
		v.num = int64(int16(c.uint16()))
	case Uint16:
		v.num = int64(c.uint16())
	case Int32:
		v.num = int64(int32(c.uint32()))
	case Int64, Float64:
		v.num = int64(c.uint64())
	case UUID:
		v.data = c.take(16)
	case String, Bytes, Int32s, UUIDs:
		v.data = c.content(f)
	case Struct:
		v.list = d.values(c, f.Fields, version)
	case Strings, Structs:
		n, ok := c.length(f)
		if !ok {
			return
		}
		v.list = d.take(n)
		for i := range v.list {
			if f.Type == Structs {
				v.list[i] = Value{list: d.values(c, f.Fields, version)}
			} else {
				v.list[i] = Value{data: c.content(&stringElement)}
			}
			if c.err != nil {
				return
			}
		}
	}
}

// stringElement is the element of Strings.
var stringElement = Field{Name: "element", Type: String, minSize: 1}

// cursor reads from data. It remembers its first error; from then on it reads zeros.
type cursor struct {
	data []byte
	pos  int
	err  *CorruptError
}

func (c *cursor) fail(format string, args ...any) { c.failAt(c.pos, format, args...) }

func (c *cursor) failAt(pos int, format string, args ...any) {
	if c.err == nil {
		c.err = &CorruptError{Offset: int64(pos), Reason: fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes.
func (c *cursor) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n > len(c.data)-c.pos {
		c.fail("%d bytes are needed, %d are left", n, len(c.data)-c.pos)
		return nil
	}
	b := c.data[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return b
}

func (c *cursor) uint8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// length reads the length of a text, bytes or an array, and checks it against the bytes left, so that nothing is
// allocated for elements that are not there. Not ok: null, or an error.
func (c *cursor) length(f *Field) (n int, ok bool) {
	start := c.pos
	n = int(c.uvarint()) - 1
	switch {
	case c.err != nil:
	case n < 0 && !f.Nullable:
		c.failAt(start, "%s is null", f.Name)
	case n > (len(c.data)-c.pos)/f.minSize:
		c.failAt(start, "%s has length %d, but %d bytes are left", f.Name, n, len(c.data)-c.pos)
	default:
		return n, n >= 0
	}
	return 0, false
}

// content reads a field that is a run of bytes, nil for null.
func (c *cursor) content(f *Field) []byte {
	start := c.pos
	n, ok := c.length(f)
	if !ok {
		return nil
	}
	if f.Type == String && n > maxTextBytes {
		c.failAt(start, "string %s of %d bytes", f.Name, n)
	}
	return c.take(n * f.minSize)
}

// uvarint reads an unsigned varint of at most 31 bits, which fits every length and tag.
func (c *cursor) uvarint() uint32 {
	if c.err == nil && c.pos < len(c.data) && c.data[c.pos] < 0x80 {
		c.pos++
		return uint32(c.data[c.pos-1])
	}
	n := c.uvarint64()
	if n > math.MaxInt32 {
		c.fail("number %d is too large", n)
		return 0
	}
	return uint32(n)
}

// uvarint64 reads an unsigned varint in its shortest form.
func (c *cursor) uvarint64() uint64 {
	if c.err != nil {
		return 0
	}
	n, size := binary.Uvarint(c.data[c.pos:])
	switch {
	case size == 0:
		c.fail("a number is cut")
		return 0
	case size < 0:
		c.fail("a number has more than 64 bits")
		return 0
	case size != uvarintSize(n):
		c.fail("number %d takes %d bytes instead of %d", n, size, uvarintSize(n))
		return 0
	}
	c.pos += size
	return n
}

// varint reads a signed (zigzag) varint.
func (c *cursor) varint() int64 {
	u := c.uvarint64()
	return int64(u>>1) ^ -int64(u&1)
}

// uvarintSize is the number of bytes that n takes as an unsigned varint.
func uvarintSize(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }
