package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MaxFrame is how long a request may be, without its length: the default of socket.request.max.bytes.
const MaxFrame = 100 << 20

// firstRead is how much memory the length of a frame alone is worth, in bytes.
const firstRead = 4096

// FrameError is a frame whose length is negative or above the limit. What follows on the connection means nothing.
type FrameError struct {
	Length int32
	Max    int
}

func (e *FrameError) Error() string {
	if e.Length < 0 {
		return fmt.Sprintf("frame of %d bytes", e.Length)
	}
	return fmt.Sprintf("frame of %d bytes, at most %d are allowed", e.Length, e.Max)
}

// ReadFrame reads an int32 length and as many bytes, which it returns. They stand in buf as far as it has the
// room; else in new memory, which grows with the bytes that arrive and is never more than twice of them (or
// firstRead). Errors: io.EOF before the first byte, io.ErrUnexpectedEOF later, *FrameError, else the error of r.
func ReadFrame(r io.Reader, limit int, buf []byte) ([]byte, error) {
	if cap(buf) < 4 {
		buf = make([]byte, 0, firstRead)
	}
	length, err := readLength(r, limit, buf[:4])
	if err != nil {
		return nil, err
	}
	return readPayload(r, length, buf)
}

// readLength reads a length into buf, which is four bytes long. Errors: those of ReadFrame.
func readLength(r io.Reader, limit int, buf []byte) (int, error) {
	if _, err := io.ReadFull(r, buf); err != nil {
		return 0, err
	}
	claimed := int32(binary.BigEndian.Uint32(buf))
	if claimed < 0 || int64(claimed) > int64(limit) {
		return 0, &FrameError{Length: claimed, Max: limit}
	}
	return int(claimed), nil
}

// readPayload reads what follows a length, as ReadFrame does.
func readPayload(r io.Reader, length int, buf []byte) ([]byte, error) {
	buf = buf[:0]
	for {
		have := len(buf)
		if have == length {
			return buf, nil
		}
		if have == cap(buf) {
			grown := make([]byte, have, min(length, max(firstRead, 2*have)))
			copy(grown, buf)
			buf = grown
		}
		buf = buf[:min(length, cap(buf))]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}
