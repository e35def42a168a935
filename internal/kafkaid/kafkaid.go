// Package kafkaid is Kafka's 16-byte id: a UUID whose text form is URL-safe base64
// without padding, 22 characters (org.apache.kafka.common.Uuid). Directory ids and the
// cluster ids that the tools make are of this kind.
package kafkaid

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
)

// TextLen is the length of the text form that String returns.
const TextLen = 22

// maxTextLen is the longest text that Kafka decodes: 22 characters and two of padding.
const maxTextLen = 24

// reservedBelow bounds the reserved ids: those whose high half is zero and whose low half,
// as a signed number, is below it (UNASSIGNED, LOST, MIGRATING and room for more; KIP-858).
const reservedBelow = 100

// String returns the 22-character text form of id.
func String(id uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// Parse reads the text form. As Kafka does, it takes padding, and ignores the four bits of
// the 22nd character that stand for nothing: such a text denotes the id whose String is the
// canonical form. Errors say what is wrong with s, without its content where s is too long.
func Parse(s string) (uuid.UUID, error) {
	if len(s) > maxTextLen {
		return uuid.Nil, fmt.Errorf("%d characters are too long for an id, which has %d", len(s), TextLen)
	}
	// The standard decoder skips line breaks; Java's does not.
	if strings.ContainsAny(s, "\r\n") {
		return uuid.Nil, fmt.Errorf("%q has a line break", s)
	}
	text := s
	switch {
	case strings.HasSuffix(text, "=="):
		text = text[:len(text)-2]
	case strings.HasSuffix(text, "="):
		text = text[:len(text)-1]
	}
	if text != s && len(s)%4 != 0 {
		return uuid.Nil, fmt.Errorf("%q has wrong padding", s)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return uuid.Nil, fmt.Errorf("%q is not base64 of the URL-safe alphabet", s)
	}
	id, err := uuid.FromBytes(b)
	if err != nil {
		return uuid.Nil, fmt.Errorf("%q holds %d bytes, an id has 16", s, len(b))
	}
	return id, nil
}

// Canonical reports whether s is the text form that String gives for the id it denotes.
func Canonical(s string) bool {
	id, err := Parse(s)
	return err == nil && String(id) == s
}

// Reserved reports whether id is set aside by Kafka and so can be no directory's id.
func Reserved(id uuid.UUID) bool {
	return binary.BigEndian.Uint64(id[:8]) == 0 && int64(binary.BigEndian.Uint64(id[8:])) < reservedBelow
}

// New draws a random (version 4) id from random. It never returns a reserved id, nor one
// whose text form begins with a dash, which a command line would take for an option.
// Errors are those of random.
func New(random io.Reader) (uuid.UUID, error) {
	for {
		id, err := uuid.NewRandomFromReader(random)
		if err != nil {
			return uuid.Nil, err
		}
		if !Reserved(id) && String(id)[0] != '-' {
			return id, nil
		}
	}
}
