package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/google/uuid"
)

// Record is a metadata or control record of one version: a row of values in the order of its
// message's fields. Fields that the version doesn't have hold their defaults.
type Record struct {
	Message *Message
	Version int16 // can be newer than Message.Latest; the row then has the newest layout known
	Row
}

// Row is the values of a record or of a struct in it. Methods that take a field's name panic
// when the schema has no such field or has it with another type: names are constants.
//
// A row that was decoded refers to the bytes it was decoded from, as do the slices that Bytes returns.
type Row struct {
	fields []Field
	values []Value // one a field, and one more for the tagged fields on the wire: see tagsOf
}

// Value is one field's value. Which part counts, depends on the type:
// num for numbers, booleans and the bits of a float64; data for texts, bytes, a UUID and
// arrays of numbers or UUIDs, as on the wire; list for the values of a struct and the elements
// of other arrays. Null is nil there.
type Value struct {
	num  int64
	data []byte
	list []Value
}

// New returns a record of the version that has all fields at their defaults.
func New(m *Message, version int16) Record {
	r := Record{Message: m, Version: version, Row: newRow(m.Fields)}
	if m.Control {
		r.SetInt("Version", int64(version))
	}
	return r
}

func newRow(fields []Field) Row { return Row{fields, initialValues(fields)} }

func initialValues(fields []Field) []Value {
	values := make([]Value, len(fields)+1)
	for i := range fields {
		values[i] = fields[i].initial
		if fields[i].Type == Struct {
			values[i].list = initialValues(fields[i].Fields)
		}
	}
	return values
}

// tagsOf is what a row keeps of its tagged fields so that it is encoded as it was: in data the
// unknown ones (tag, size and content of each), in num a bit for each known one that was there.
func tagsOf(values []Value) *Value { return &values[len(values)-1] }

func (r Row) field(name string, types ...Type) (*Field, *Value) {
	for i := range r.fields {
		if f := &r.fields[i]; f.Name == name {
			for _, t := range types {
				if f.Type == t {
					return f, &r.values[i]
				}
			}
			panic(fmt.Sprintf("record: field %s has type %d", name, f.Type))
		}
	}
	panic("record: no field " + name)
}

// Int returns an integer field of any width.
func (r Row) Int(name string) int64 {
	_, v := r.field(name, Int8, Int16, Uint16, Int32, Int64)
	return v.num
}

// SetInt sets an integer field. A value too large for it is an error of the encoder.
func (r Row) SetInt(name string, n int64) {
	_, v := r.field(name, Int8, Int16, Uint16, Int32, Int64)
	v.num = n
}

// Bool returns a boolean field.
func (r Row) Bool(name string) bool {
	_, v := r.field(name, Bool)
	return v.num != 0
}

// SetBool sets a boolean field.
func (r Row) SetBool(name string, b bool) {
	_, v := r.field(name, Bool)
	v.num = 0
	if b {
		v.num = 1
	}
}

// Float returns a float64 field.
func (r Row) Float(name string) float64 {
	_, v := r.field(name, Float64)
	return math.Float64frombits(uint64(v.num))
}

// SetFloat sets a float64 field.
func (r Row) SetFloat(name string, x float64) {
	_, v := r.field(name, Float64)
	v.num = int64(math.Float64bits(x))
}

// UUID returns a UUID field.
func (r Row) UUID(name string) uuid.UUID {
	_, v := r.field(name, UUID)
	return uuid.UUID(v.data)
}

// SetUUID sets a UUID field.
func (r Row) SetUUID(name string, id uuid.UUID) {
	_, v := r.field(name, UUID)
	v.data = id[:]
}

// Null reports whether a nullable field is null.
func (r Row) Null(name string) bool {
	_, v := r.field(name, String, Bytes, Int32s, UUIDs, Strings, Structs)
	return v.data == nil && v.list == nil
}

// SetNull sets a nullable field to null.
func (r Row) SetNull(name string) {
	_, v := r.field(name, String, Bytes, Int32s, UUIDs, Strings, Structs)
	*v = Value{}
}

// Text returns a string field, "" for null.
func (r Row) Text(name string) string {
	_, v := r.field(name, String)
	return string(v.data)
}

// SetText sets a string field.
func (r Row) SetText(name, s string) {
	_, v := r.field(name, String)
	v.data = []byte(s)
}

// Bytes returns a bytes field, nil for null.
func (r Row) Bytes(name string) []byte {
	_, v := r.field(name, Bytes)
	return v.data
}

// SetBytes sets a bytes field to b, which the row keeps.
func (r Row) SetBytes(name string, b []byte) {
	_, v := r.field(name, Bytes)
	v.data = b[:len(b):len(b)]
	if b == nil {
		v.data = []byte{}
	}
}

// Len returns how many elements an array of int32 or UUIDs has, 0 for null.
func (r Row) Len(name string) int {
	f, v := r.field(name, Int32s, UUIDs)
	return len(v.data) / f.minSize
}

// Int32s returns an array of int32, nil for null.
func (r Row) Int32s(name string) []int32 {
	_, v := r.field(name, Int32s)
	if v.data == nil {
		return nil
	}
	list := make([]int32, len(v.data)/4)
	for i := range list {
		list[i] = int32(binary.BigEndian.Uint32(v.data[4*i:]))
	}
	return list
}

// SetInt32s sets an array of int32.
func (r Row) SetInt32s(name string, list []int32) {
	_, v := r.field(name, Int32s)
	v.data = make([]byte, 0, 4*len(list))
	for _, n := range list {
		v.data = binary.BigEndian.AppendUint32(v.data, uint32(n))
	}
}

// UUIDs returns an array of UUIDs, nil for null.
func (r Row) UUIDs(name string) []uuid.UUID {
	_, v := r.field(name, UUIDs)
	if v.data == nil {
		return nil
	}
	list := make([]uuid.UUID, len(v.data)/16)
	for i := range list {
		list[i] = uuid.UUID(v.data[16*i : 16*i+16])
	}
	return list
}

// SetUUIDs sets an array of UUIDs.
func (r Row) SetUUIDs(name string, list []uuid.UUID) {
	_, v := r.field(name, UUIDs)
	v.data = make([]byte, 0, 16*len(list))
	for _, id := range list {
		v.data = append(v.data, id[:]...)
	}
}

// Texts returns an array of strings, nil for null.
func (r Row) Texts(name string) []string {
	_, v := r.field(name, Strings)
	if v.list == nil {
		return nil
	}
	list := make([]string, len(v.list))
	for i := range list {
		list[i] = string(v.list[i].data)
	}
	return list
}

// SetTexts sets an array of strings.
func (r Row) SetTexts(name string, list []string) {
	_, v := r.field(name, Strings)
	v.list = make([]Value, len(list))
	for i, s := range list {
		v.list[i].data = []byte(s)
	}
}

// Struct returns a field that is a struct. Setting its fields changes r.
func (r Row) Struct(name string) Row {
	f, v := r.field(name, Struct)
	return Row{f.Fields, v.list}
}

// Structs returns the elements of an array of structs, nil for null. Setting their fields changes r.
func (r Row) Structs(name string) []Row {
	f, v := r.field(name, Structs)
	if v.list == nil {
		return nil
	}
	list := make([]Row, len(v.list))
	for i := range list {
		list[i] = Row{f.Fields, v.list[i].list}
	}
	return list
}

// Add appends an element with default values to an array of structs and returns it.
func (r Row) Add(name string) Row {
	f, v := r.field(name, Structs)
	row := newRow(f.Fields)
	v.list = append(v.list, Value{list: row.values})
	return row
}
