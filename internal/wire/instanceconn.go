package wire

import (
	"encoding/binary"
	"math"
	"net"

	"github.com/google/uuid"
)

// WithInstance returns a connection that puts the client instance id into the requests that are written to it, for a client
// that has no way to do so (KIP-1313). It belongs above TLS. Requests with header 1, those that have an id already, and what
// is no request go through as they are.
//
// A request goes on as soon as its header is complete: until then Write keeps what it gets. After an error of Write nobody
// knows how much was written.
func WithInstance(c net.Conn, id uuid.UUID) net.Conn { return &instanceConn{Conn: c, id: id} }

type instanceConn struct {
	net.Conn
	id   uuid.UUID
	held []byte // the beginning of a frame, whose header isn't complete
	rest int64  // bytes of the frame behind its header that are still to come
	out  []byte // for its memory
}

func (c *instanceConn) Write(p []byte) (int, error) {
	in := append(c.held, p...)
	out := c.out[:0]
	for len(in) > 0 {
		if c.rest > 0 {
			n := min(c.rest, int64(len(in)))
			out, in, c.rest = append(out, in[:n]...), in[n:], c.rest-n
			continue
		}
		n, complete := 0, false
		if out, n, c.rest, complete = c.appendHeader(out, in); !complete {
			break
		}
		in = in[n:]
	}
	c.held, c.out = append(c.held[:0], in...), out[:0]
	if len(in) == 0 && max(cap(c.held), cap(c.out)) > keptBytes {
		c.held, c.out = nil, nil
	}
	if len(out) > 0 {
		if _, err := c.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// appendHeader appends the length and the header of the frame at the beginning of in, with the id; n is how much of in that is,
// and rest how much of the frame follows. It is not complete if in ends within the header.
func (c *instanceConn) appendHeader(dst, in []byte) (out []byte, n int, rest int64, complete bool) {
	const lengthBytes = 4
	if len(in) < lengthBytes {
		return dst, 0, 0, false
	}
	length := int64(int32(binary.BigEndian.Uint32(in)))
	if length < 0 { // no frame, and so is nothing behind it
		return dst, 0, math.MaxInt64, true
	}
	frame := in[lengthBytes:]
	frame = frame[:min(length, int64(len(frame)))]
	h, body, err := DecodeRequestHeader(frame)
	if err == errShort && int64(len(frame)) < length {
		return dst, 0, 0, false
	}
	if err != nil || h.headerVersion() < flexibleHeader {
		return append(dst, in[:lengthBytes]...), lengthBytes, length, true
	}
	end := len(frame) - len(body)
	tags := fixedHeaderBytes + 2 + len(h.client())
	number, fields, _ := uvarint(frame[tags:end])
	hasID := false
	if _, err := eachTag(frame[tags:end], func(tag uint32, _ []byte) error { hasID = hasID || tag == 0; return nil }); err != nil || hasID {
		return append(dst, in[:lengthBytes]...), lengthBytes, length, true
	}
	start := len(dst)
	dst = append(dst, in[:lengthBytes+tags]...)
	dst = binary.AppendUvarint(dst, uint64(number)+1)
	dst = append(dst, 0, byte(len(c.id)))
	dst = append(dst, c.id[:]...)
	dst = append(dst, fields...)
	rest = length - int64(end)
	binary.BigEndian.PutUint32(dst[start:], uint32(int64(len(dst)-start-lengthBytes)+rest))
	return dst, lengthBytes + end, rest, true
}
