package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
)

// RequestHeader stands in front of the body of each request. What is sent of it, and in which versions, says the table
// headerFields.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string
	// ClientInstanceID identifies an instance of an application; the zero id is as none at all. KIP-1313.
	ClientInstanceID uuid.UUID
}

// Versions of the request header. 0 is gone since Kafka 4.0; the newest comes with the flexible versions of an API.
const (
	oldestHeader   = 1
	flexibleHeader = 2
)

// headerFields is the schema of the request header, versions 1 and 2, front to back; tagged fields (KIP-482) follow at
// the end of version 2, and only where they differ from their default, which is zero for all.
//
// A string here is never compact, so that an old server can read the header of an ApiVersions request from a newer client.
var headerFields = []headerField{
	{name: "RequestApiKey", from: oldestHeader, tag: untagged, at: func(h *RequestHeader) any { return &h.Key }},
	{name: "RequestApiVersion", from: oldestHeader, tag: untagged, at: func(h *RequestHeader) any { return &h.Version }},
	{name: "CorrelationId", from: oldestHeader, tag: untagged, at: func(h *RequestHeader) any { return &h.CorrelationID }},
	{name: "ClientId", from: oldestHeader, tag: untagged, at: func(h *RequestHeader) any { return &h.ClientID }},
	{name: "ClientInstanceId", from: flexibleHeader, tag: 0, at: func(h *RequestHeader) any { return &h.ClientInstanceID }},
}

// headerField is a field of the request header.
type headerField struct {
	name string
	from int16                    // the first version of the header that has it
	tag  int64                    // untagged, or its tag
	at   func(*RequestHeader) any // where it is in a RequestHeader; its type is that of the field
}

const untagged = -1

// fixedHeaderBytes are those in front of the client id; the version of the header follows from them.
const fixedHeaderBytes = 8

// client returns the client id as text, "" for null.
func (h *RequestHeader) client() string {
	if h.ClientID == nil {
		return ""
	}
	return *h.ClientID
}

// instance returns the client instance id as text, "" for none.
func (h *RequestHeader) instance() string {
	if h.ClientInstanceID == uuid.Nil {
		return ""
	}
	return kafkaid.String(h.ClientInstanceID)
}

// headerVersion returns the version of the header itself; the API must be known.
func (h *RequestHeader) headerVersion() int16 {
	if flexible, _ := flexibleRequest(h.Key, h.Version); flexible {
		return flexibleHeader
	}
	return oldestHeader
}

// errShort is a header that ends too early.
var errShort = errors.New("request header ends too early")

// UnknownAPIError is a request of an API that nobody knows, so that its header version is unknown too.
type UnknownAPIError struct{ Key int16 }

func (e *UnknownAPIError) Error() string { return fmt.Sprintf("unknown API %d", e.Key) }

// TagError is a tagged field of a header that has not the size of its type.
type TagError struct {
	Field string
	Bytes uint32
}

func (e *TagError) Error() string {
	return fmt.Sprintf("tagged field %s of the request header has %d bytes", e.Field, e.Bytes)
}

// DecodeRequestHeader reads the header of a request from frame, which is without its length. body is the rest of
// frame, and not copied. Tagged fields may come in any order; of one that comes twice the last one counts, as in Kafka;
// unknown ones are skipped, and cost no memory. With an error, h has what was read. Errors: *UnknownAPIError, *TagError,
// else a header that is cut off.
func DecodeRequestHeader(frame []byte) (h RequestHeader, body []byte, err error) {
	if len(frame) < fixedHeaderBytes {
		return h, nil, errShort
	}
	rest := frame
	version := int16(oldestHeader)
	for i := range headerFields {
		f := &headerFields[i]
		if f.tag != untagged {
			break
		}
		if rest, err = readHeaderField(f.at(&h), rest); err != nil {
			return h, nil, err
		}
		if len(frame)-len(rest) == fixedHeaderBytes {
			if _, known := flexibleRequest(h.Key, h.Version); !known {
				return h, nil, &UnknownAPIError{Key: h.Key}
			}
			version = h.headerVersion()
		}
	}
	if version == flexibleHeader {
		rest, err = eachTag(rest, func(tag uint32, value []byte) error { return readHeaderTag(&h, tag, value) })
	}
	return h, rest, err
}

// readHeaderField reads the field at from b and returns what follows.
func readHeaderField(at any, b []byte) ([]byte, error) {
	size := fieldBytes(at)
	if len(b) < size {
		return nil, errShort
	}
	switch at := at.(type) {
	case *int16:
		*at = int16(binary.BigEndian.Uint16(b))
	case *int32:
		*at = int32(binary.BigEndian.Uint32(b))
	case *uuid.UUID:
		copy(at[:], b)
	case **string:
		if length := int(int16(binary.BigEndian.Uint16(b))); length >= 0 { // else null
			if b = b[size:]; len(b) < length {
				return nil, errShort
			}
			text := string(b[:length])
			*at, size = &text, length
		}
	}
	return b[size:], nil
}

// fieldBytes is the size of a field; of a string, that of its length.
func fieldBytes(at any) int {
	switch at.(type) {
	case *int32:
		return 4
	case *uuid.UUID:
		return 16
	}
	return 2
}

// readHeaderTag reads a tagged field.
//
// Unlike Kafka: a known field with a wrong size is an error. Kafka's reader passes over the size, and takes the bytes that
// follow for something that they aren't.
func readHeaderTag(h *RequestHeader, tag uint32, value []byte) error {
	for i := range headerFields {
		if f := &headerFields[i]; f.tag == int64(tag) {
			at := f.at(h)
			if len(value) != fieldBytes(at) {
				return &TagError{Field: f.name, Bytes: uint32(len(value))}
			}
			_, err := readHeaderField(at, value)
			return err
		}
	}
	return nil
}

// AppendRequestHeader appends h, in the version that its API and version have.
func AppendRequestHeader(dst []byte, h *RequestHeader) []byte {
	version := h.headerVersion()
	tags := 0
	for i := range headerFields {
		f := &headerFields[i]
		switch {
		case f.from > version:
		case f.tag == untagged:
			dst = appendHeaderField(dst, f.at(h))
		case !isDefault(f.at(h)):
			tags++
		}
	}
	if version < flexibleHeader {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(tags))
	for i := range headerFields {
		if f := &headerFields[i]; f.tag != untagged && !isDefault(f.at(h)) {
			dst = binary.AppendUvarint(dst, uint64(f.tag))
			dst = binary.AppendUvarint(dst, uint64(fieldBytes(f.at(h))))
			dst = appendHeaderField(dst, f.at(h))
		}
	}
	return dst
}

func appendHeaderField(dst []byte, at any) []byte {
	switch at := at.(type) {
	case *int16:
		return binary.BigEndian.AppendUint16(dst, uint16(*at))
	case *int32:
		return binary.BigEndian.AppendUint32(dst, uint32(*at))
	case *uuid.UUID:
		return append(dst, at[:]...)
	case **string:
		if *at == nil {
			return append(dst, 0xff, 0xff)
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(**at)))
		return append(dst, **at...)
	}
	panic(fmt.Sprintf("a request header has no %T", at))
}

// isDefault reports whether a field that can be tagged has its default.
func isDefault(at any) bool {
	id, ok := at.(*uuid.UUID)
	return ok && *id == uuid.Nil
}

// skipTags returns what follows a section of tagged fields (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	return eachTag(b, func(uint32, []byte) error { return nil })
}

// eachTag calls read for each field of a section of tagged fields and returns what follows it: their number, then for
// each its tag, its length and as many bytes. All numbers are unsigned varints. Errors: a section that is cut off, and
// those of read.
func eachTag(b []byte, read func(tag uint32, value []byte) error) ([]byte, error) {
	number, b, ok := uvarint(b)
	for ; ok && number > 0; number-- {
		var tag, length uint32
		if tag, b, ok = uvarint(b); !ok {
			break
		}
		if length, b, ok = uvarint(b); !ok {
			break
		}
		if uint64(length) > uint64(len(b)) {
			ok = false
			break
		}
		if err := read(tag, b[:length]); err != nil {
			return nil, err
		}
		b = b[length:]
	}
	if !ok {
		return nil, errShort
	}
	return b, nil
}

// uvarint reads an unsigned varint of at most five bytes; as with Kafka, bits above the 32nd are lost.
func uvarint(b []byte) (v uint32, rest []byte, ok bool) {
	wide, n := binary.Uvarint(b[:min(len(b), binary.MaxVarintLen32)])
	if n <= 0 {
		return 0, nil, false
	}
	return uint32(wide), b[n:], true
}

// firstFlexible has, by API key, the first version whose requests have header version 2; math.MaxInt16: none. All APIs
// behind these begin with it. It is written down because to ask kmsg for each takes a tenth of the start of a program.
var firstFlexible = [...]int16{
	9, 12, 6, 9, 4, 2, 6, 3, 8, 6, // 0: Produce
	3, 6, 4, 4, 4, 5, 3, math.MaxInt16, 3, 5, // 10: FindCoordinator
	4, 2, 2, 4, 3, 3, 3, 1, 3, 2, // 20: DeleteTopics
	2, 2, 4, 2, 2, 2, 2, 2, 2, 2, // 30: CreateAcls
	2, 2, 2, 2, 1, 0, 0, math.MaxInt16, 1, 1, // 40: ExpireDelegationToken
	0, 0, 0, 1, 1, // 50: DescribeUserScramCredentials
}

// flexibleRequest reports whether requests of this version have header version 2, and whether the API is known at all.
func flexibleRequest(key, version int16) (flexible, known bool) {
	if key < 0 || key > kmsg.MaxKey {
		return false, false
	}
	return int(key) >= len(firstFlexible) || version >= firstFlexible[key], true
}

// Self is how a client names itself in its requests.
type Self struct {
	ClientID string
	// InstanceID is one for all connections of a process (KIP-1313). The zero id: none.
	InstanceID uuid.UUID
}

// AppendRequest appends a whole frame: the length, the header and q in its version.
func AppendRequest(dst []byte, q kmsg.Request, self Self, correlationID int32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = AppendRequestHeader(dst, &RequestHeader{
		Key: q.Key(), Version: q.GetVersion(), CorrelationID: correlationID, ClientID: &self.ClientID, ClientInstanceID: self.InstanceID,
	})
	return setLength(q.AppendTo(dst), start)
}

// AppendResponse appends a whole frame: the length, the header and r in its version. The header is the correlation
// id and, in flexible versions, tagged fields, of which none is known. ApiVersions goes without them in all
// versions: its reader doesn't know yet what the other side speaks.
func AppendResponse(dst []byte, r kmsg.Response, correlationID int32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if r.IsFlexible() && r.Key() != int16(kmsg.ApiVersions) {
		dst = append(dst, 0) // no tagged fields
	}
	return setLength(r.AppendTo(dst), start)
}

// setLength writes the length of the frame that begins at start and ends with dst.
func setLength(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
