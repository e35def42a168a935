package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// RecordError says why a record does not fit its schema.
type RecordError struct {
	Message *Message
	Version int16
	Field   string
	Reason  string
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%s version %d: field %s %s", e.Message.Name, e.Version, e.Field, e.Reason)
}

// AppendValue appends the value of the record, as it stands in a batch. Errors: *RecordError, for the first field that
// does not fit; of such a record too it appends what there is, so that a text too long shows when it is decoded.
func (r Record) AppendValue(dst []byte) ([]byte, error) {
	if !r.Message.Control {
		dst = append(dst, FrameVersion)
		dst = binary.AppendUvarint(dst, uint64(r.Message.Key))
		dst = binary.AppendUvarint(dst, uint64(r.Version))
	}
	e := encoder{version: min(r.Version, r.Message.Latest)}
	dst = e.values(dst, r.fields, r.values)
	if e.field != nil {
		return dst, &RecordError{Message: r.Message, Version: r.Version, Field: e.field.Name, Reason: e.reason}
	}
	return dst, nil
}

// AppendKey appends the key of a control record, as it stands in a batch.
func (r Record) AppendKey(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	return binary.BigEndian.AppendUint16(dst, uint16(r.Message.Key))
}

// encoder encodes for a version that the table knows and remembers the first field that does not fit.
type encoder struct {
	version int16
	field   *Field
	reason  string
}

func (e *encoder) fail(f *Field, format string, args ...any) {
	if e.field == nil {
		e.field, e.reason = f, fmt.Sprintf(format, args...)
	}
}

func (e *encoder) values(dst []byte, fields []Field, values []Value) []byte {
	tags := tagsOf(values)
	tagged := 0
	for i := range fields {
		f, v := &fields[i], &values[i]
		switch {
		case f.Since > e.version:
			if !isInitial(f, v) {
				e.fail(f, "is new in version %d", f.Since)
			}
		case f.Tag == 0:
			dst = e.value(dst, f, v)
		case onWire(f, v, tags):
			tagged++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(tagged+countTags(tags.data)))
	for number := uint32(0); tagged > 0; number++ {
		i := taggedField(fields, number)
		if i < 0 || fields[i].Since > e.version || !onWire(&fields[i], &values[i], tags) {
			continue
		}
		tagged--
		dst = binary.AppendUvarint(dst, uint64(number))
		// The size is known when the content is there: it is put in front of it then.
		start := len(dst)
		dst = e.value(dst, &fields[i], &values[i])
		size := len(dst) - start
		dst = append(dst, make([]byte, uvarintSize(uint64(size)))...)
		copy(dst[len(dst)-size:], dst[start:start+size])
		binary.PutUvarint(dst[start:], uint64(size))
	}
	// Kafka numbers tagged fields from 0 without gaps, so what is unknown has higher numbers.
	return append(dst, tags.data...)
}

// onWire reports whether a tagged field is written: when it isn't at its default, and when it was there although it is.
func onWire(f *Field, v *Value, tags *Value) bool {
	return tags.num&(1<<f.Tag.number()) != 0 || !isInitial(f, v)
}

// countTags counts the tagged fields in raw.
func countTags(raw []byte) (n int) {
	for c := (cursor{data: raw}); c.pos < len(c.data); n++ {
		c.uvarint() // number
		c.take(int(c.uvarint()))
	}
	return n
}

func isInitial(f *Field, v *Value) bool {
	if f.Type == Struct {
		return false // no message has a struct that may be left out
	}
	return v.num == f.initial.num && bytes.Equal(v.data, f.initial.data) && (v.data == nil) == (f.initial.data == nil) &&
		len(v.list) == 0 && (v.list == nil) == (f.initial.list == nil)
}

func (e *encoder) value(dst []byte, f *Field, v *Value) []byte {
	switch f.Type {
	case Bool:
		return append(dst, byte(v.num))
	case Int8:
		e.fit(f, v.num, math.MinInt8, math.MaxInt8)
		return append(dst, byte(v.num))
	case Int16:
		e.fit(f, v.num, math.MinInt16, math.MaxInt16)
		return binary.BigEndian.AppendUint16(dst, uint16(v.num))
	case Uint16:
		e.fit(f, v.num, 0, math.MaxUint16)
		return binary.BigEndian.AppendUint16(dst, uint16(v.num))
	case Int32:
		e.fit(f, v.num, math.MinInt32, math.MaxInt32)
		return binary.BigEndian.AppendUint32(dst, uint32(v.num))
	case Int64, Float64:
		return binary.BigEndian.AppendUint64(dst, uint64(v.num))
	case UUID:
		return append(dst, v.data...)
	case Struct:
		return e.values(dst, f.Fields, v.list)
	case String, Bytes, Int32s, UUIDs:
		if v.data == nil {
			return e.null(dst, f)
		}
		if f.Type == String && len(v.data) > maxTextBytes {
			e.fail(f, "has %d bytes, the limit is %d", len(v.data), maxTextBytes)
		}
		dst = binary.AppendUvarint(dst, uint64(len(v.data)/f.minSize+1))
		return append(dst, v.data...)
	case Strings, Structs:
		if v.list == nil {
			return e.null(dst, f)
		}
		dst = binary.AppendUvarint(dst, uint64(len(v.list)+1))
		for i := range v.list {
			if f.Type == Structs {
				dst = e.values(dst, f.Fields, v.list[i].list)
			} else {
				dst = e.value(dst, &stringElement, &v.list[i])
			}
		}
	}
	return dst
}

func (e *encoder) fit(f *Field, n, low, high int64) {
	if n < low || n > high {
		e.fail(f, "is %d, outside of %d to %d", n, low, high)
	}
}

func (e *encoder) null(dst []byte, f *Field) []byte {
	if !f.Nullable {
		e.fail(f, "is null")
	}
	return append(dst, 0)
}
