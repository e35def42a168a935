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

var errTooLarge = fmt.Errorf("more than %d bytes when decompressed", maxReadBytes)

// decompress returns what data decompresses to, at most maxReadBytes.
func (c Compression) decompress(data []byte) ([]byte, error) {
	var r io.Reader
	switch c {
	case Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		r = z
	case Snappy:
		return unsnappy(data)
	case LZ4:
		r = lz4.NewReader(bytes.NewReader(data))
	case Zstd:
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxReadBytes))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, errors.New("this codec is unknown")
	}
	out, err := io.ReadAll(io.LimitReader(r, maxReadBytes+1))
	if err == nil && len(out) > maxReadBytes {
		err = errTooLarge
	}
	return out, err
}

// snappyHeader begins the stream that Kafka's Java library writes: magic, then a version and the oldest version that
// can read it, both 1; then come blocks, each with its length in front.
const snappyHeader = "\x82SNAPPY\x00"

func unsnappy(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte(snappyHeader)) {
		return unsnappyBlock(nil, data)
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
		if out, err = unsnappyBlock(out, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return out, nil
}

func unsnappyBlock(out, block []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > maxReadBytes-len(out) {
		return nil, errTooLarge
	}
	// The length is a claim, but the densest element of a block says 64 bytes with 3.
	if n > 22*len(block) {
		return nil, fmt.Errorf("a block of %d bytes that claims %d", len(block), n)
	}
	decoded, err := snappy.Decode(nil, block)
	return append(out, decoded...), err
}
