package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is the codec of a batch's records. Kafka writes metadata without, but a reader must know them.
type Compression uint8

const (
	None Compression = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var compressionNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is Kafka's name of the codec.
func (c Compression) String() string {
	if int(c) < len(compressionNames) {
		return compressionNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ErrTooLarge says that data decompresses to more than is allowed.
var ErrTooLarge = errors.New("too large")

func tooLarge(limit int) error {
	return fmt.Errorf("%w: more than %d bytes when decompressed", ErrTooLarge, limit)
}

// leastWindow is a window that a decoder of zstd must have (RFC 8878), in bytes.
const leastWindow = 8 << 20

// Decompress returns what data decompresses to, in memory of its own, at most limit bytes. Errors: ErrTooLarge, data that is
// damaged, a codec that is none.
func (c Compression) Decompress(data []byte, limit int) ([]byte, error) {
	var r io.Reader
	switch c {
	case None:
		r = bytes.NewReader(data)
	case Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		r = z
	case Snappy:
		return unsnappy(data, limit)
	case LZ4:
		r = lz4.NewReader(bytes.NewReader(data))
	case Zstd:
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(max(limit, leastWindow))))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, errors.New("this codec is unknown")
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(out) > limit {
		err = tooLarge(limit)
	}
	return out, err
}

// snappyHeader begins the stream that Kafka's Java library writes: magic, then a version and the oldest version that
// can read it, both 1; then come blocks, each with its length in front.
const snappyHeader = "\x82SNAPPY\x00"

func unsnappy(data []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(snappyHeader)) {
		return unsnappyBlock(nil, data, limit)
	}
	var out []byte
	rest := data[min(len(data), len(snappyHeader)+8):]
	for len(rest) > 0 {
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n > int64(len(rest)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = unsnappyBlock(out, rest[:n], limit); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return out, nil
}

func unsnappyBlock(out, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > limit-len(out) {
		return nil, tooLarge(limit)
	}
	// The length is a claim, but the densest element of a block says 64 bytes with 3.
	if n > 22*len(block) {
		return nil, fmt.Errorf("a block of %d bytes that claims %d", len(block), n)
	}
	decoded, err := snappy.Decode(nil, block)
	return append(out, decoded...), err
}
