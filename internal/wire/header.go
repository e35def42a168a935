package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// RequestHeader stands in front of the body of each request:
//
//	api key         int16
//	api version     int16
//	correlation id  int32
//	client id       int16 length (below 0: null) and as many bytes; never compact
//	tagged fields   header version 2 only, which comes with the flexible versions of an API
//
// No tagged field of it is known yet; they are checked for their lengths and skipped.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string
}

// client returns the client id as text, "" for null.
func (h *RequestHeader) client() string {
	if h.ClientID == nil {
		return ""
	}
	return *h.ClientID
}

// errShort is a header that ends too early.
var errShort = errors.New("request header ends too early")

// UnknownAPIError is a request of an API that nobody knows, so that its header version is unknown too.
type UnknownAPIError struct{ Key int16 }

func (e *UnknownAPIError) Error() string { return fmt.Sprintf("unknown API %d", e.Key) }

// DecodeRequestHeader reads the header of a request from frame, which is without its length. body is the rest of
// frame, and not copied. With an error, h has what was read. Errors: *UnknownAPIError, else a header that is cut off.
func DecodeRequestHeader(frame []byte) (h RequestHeader, body []byte, err error) {
	if len(frame) < 8 {
		return h, nil, errShort
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	flexible, known := flexibleRequest(h.Key, h.Version)
	if !known {
		return h, nil, &UnknownAPIError{Key: h.Key}
	}
	rest := frame[8:]
	if len(rest) < 2 {
		return h, nil, errShort
	}
	length := int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	if length >= 0 {
		if length > len(rest) {
			return h, nil, errShort
		}
		id := string(rest[:length])
		h.ClientID, rest = &id, rest[length:]
	}
	if flexible {
		if rest, err = skipTags(rest); err != nil {
			return h, nil, err
		}
	}
	return h, rest, nil
}

// skipTags returns what follows a section of tagged fields (KIP-482): their number, then for each its tag, its
// length and as many bytes. All numbers are unsigned varints.
func skipTags(b []byte) ([]byte, error) {
	number, b, ok := uvarint(b)
	for ; ok && number > 0; number-- {
		var length uint32
		if _, b, ok = uvarint(b); !ok {
			break
		}
		if length, b, ok = uvarint(b); !ok {
			break
		}
		if uint64(length) > uint64(len(b)) {
			ok = false
			break
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

// firstFlexible has, by API key, the first version whose requests have header version 2; math.MaxInt16: none,
// -1: no such API.
var firstFlexible = func() (first [kmsg.MaxKey + 1]int16) {
	for key := range first {
		q := kmsg.RequestForKey(int16(key))
		if q == nil {
			first[key] = -1
			continue
		}
		first[key] = math.MaxInt16
		for version := range q.MaxVersion() + 1 {
			if q.SetVersion(version); q.IsFlexible() {
				first[key] = version
				break
			}
		}
	}
	return first
}()

// flexibleRequest reports whether requests of this version have header version 2, and whether the API is known at all.
func flexibleRequest(key, version int16) (flexible, known bool) {
	if key < 0 || key > kmsg.MaxKey || firstFlexible[key] < 0 {
		return false, false
	}
	return version >= firstFlexible[key], true
}

// AppendRequest appends a whole frame: the length, the header and q in its version.
func AppendRequest(dst []byte, q kmsg.Request, clientID string, correlationID int32) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(q.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(q.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if q.IsFlexible() {
		dst = append(dst, 0) // no tagged fields
	}
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
