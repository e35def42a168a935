// Package record is the codec of the metadata log: metadata records, control records, and the
// batches that hold them.
//
// One table (table.go) says for each message which fields it has, from which version on. The
// encoder, the decoder and the JSON printer walk that table; there is no code for a single
// message. All messages are of the flexible encoding (KIP-482): lengths are unsigned varints of
// length+1 with 0 for null, and each struct ends with a section of tagged fields.
//
//	value of a metadata record (KIP-631)
//	  uvarint 1 (frame version) | uvarint apiKey | uvarint version | fields | tagged fields
//	control record (KIP-595, KIP-630, KIP-853)
//	  key:   int16 0 | int16 type
//	  value: int16 version (the message's first field) | other fields | tagged fields
//	batch (v2, KIP-98)
//	   0 baseOffset int64           | 8 length int32 (of what follows)  | 12 partitionLeaderEpoch int32
//	  16 magic int8 = 2             | 17 CRC-32C uint32 (of byte 21 on) | 21 attributes int16
//	  23 lastOffsetDelta int32      | 27 baseTimestamp int64            | 35 maxTimestamp int64
//	  43 producerId int64 = -1      | 51 producerEpoch int16 = -1       | 53 baseSequence int32 = -1
//	  57 count int32                | 61 records, compressed where attributes say so
//	record of a batch
//	  varint length | attributes int8 = 0 | timestampDelta varint = 0 | offsetDelta varint |
//	  keyLength varint | key | valueLength varint | value | headerCount varint = 0
//
// What a metadata log cannot hold is refused with its place and reason: producers, headers,
// several timestamps in one batch, gaps between offsets, varints longer than needed. So whatever
// the decoders accept, the encoders give back byte for byte (compression aside: batches are
// written without). Unknown tagged fields are kept. A record whose version is newer than the
// table is read with the newest layout known, as Kafka does; an unknown apiKey is an error.
//
// Not here: what a record means, and the files and offsets of a log.
package record

import "strings"

// Message is the schema of one record.
type Message struct {
	Key    int16  // apiKey of a metadata record, type of a control record
	Name   string // Kafka's name of the schema
	Latest int16  // newest version known; all from 0 on are
	Fields []Field

	// Type is the name in Kafka's dumps: FEATURE_LEVEL_RECORD, SnapshotHeader.
	Type string
	// Control tells control records from metadata records.
	Control bool

	jsonHead string // `{"type":"…","version":`
}

// Field is one field of a message or of a struct in it, in the order of Kafka's schema.
type Field struct {
	Name     string
	Type     Type
	Since    int16 // first version that has the field
	Tag      Tag   // of a tagged field
	Nullable bool
	Default  int64   // of numbers and booleans; texts, bytes and arrays are empty by default
	Null     bool    // null by default
	Fields   []Field // of Struct and Structs

	initial  Value
	jsonName string // `"name":`
	minSize  int    // of one element: the fewest bytes that it can have
}

// Type is the type of a field.
type Type uint8

const (
	Bool Type = iota + 1
	Int8
	Int16
	Uint16
	Int32
	Int64
	Float64
	UUID
	String
	Bytes
	Struct
	// Arrays.
	Int32s
	UUIDs
	Strings
	Structs
)

// Tag marks a tagged field: its number plus one. Zero: a field in line.
type Tag uint8

// tag is the Tag of number n.
func tag(n uint8) Tag { return Tag(n + 1) }

func (t Tag) number() uint32 { return uint32(t) - 1 }

// Lookup returns the message of a metadata record, nil if apiKey is unknown.
func Lookup(apiKey int16) *Message { return find(metadata, apiKey) }

// LookupControl returns the message of a control record, nil if its type is unknown.
func LookupControl(controlType int16) *Message { return find(controls, controlType) }

func find(table []*Message, key int16) *Message {
	if key < 0 || int(key) >= len(table) {
		return nil
	}
	return table[key]
}

// metadata and controls are the messages by their keys, nil where a key is not taken.
var metadata, controls = index(metadataMessages), index(controlMessages)

// index puts messages in the order of their keys and fills in what follows from the table.
func index(messages []*Message) []*Message {
	var table []*Message
	for _, m := range messages {
		for len(table) <= int(m.Key) {
			table = append(table, nil)
		}
		table[m.Key] = m
		if m.Type == "" {
			m.Type = dumpName(m.Name)
		}
		m.jsonHead = `{"type":"` + m.Type + `","version":`
		complete(m.Fields)
	}
	return table
}

func complete(fields []Field) {
	for i := range fields {
		f := &fields[i]
		complete(f.Fields)
		f.jsonName = `"` + strings.ToLower(f.Name[:1]) + f.Name[1:] + `":`
		f.minSize = minSize(f)
		f.initial.num = f.Default
		switch f.Type {
		case UUID:
			f.initial.data = make([]byte, 16)
		case Struct:
			f.initial.list = initialValues(f.Fields)
		case Strings, Structs:
			if !f.Null {
				f.initial.list = []Value{}
			}
		case String, Bytes, Int32s, UUIDs:
			if !f.Null {
				f.initial.data = []byte{}
			}
		}
	}
}

// minSize is the fewest bytes that a field, or an element of its array, takes.
func minSize(f *Field) int {
	switch f.Type {
	case Int16, Uint16:
		return 2
	case Int32, Int32s:
		return 4
	case Int64, Float64:
		return 8
	case UUID, UUIDs:
		return 16
	case Struct, Structs:
		n := 1 // the count of tagged fields
		for i := range f.Fields {
			if g := &f.Fields[i]; g.Since == 0 && g.Tag == 0 {
				n += fieldMinSize(g)
			}
		}
		return n
	}
	return 1
}

// fieldMinSize is the fewest bytes of the field as a whole: an array can be empty.
func fieldMinSize(f *Field) int {
	switch f.Type {
	case Int32s, UUIDs, Strings, Structs:
		return 1
	}
	return f.minSize
}

// dumpName turns FeatureLevelRecord into FEATURE_LEVEL_RECORD.
func dumpName(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return strings.ToUpper(b.String())
}
