package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// written is a connection that keeps what is written to it.
type written struct {
	net.Conn
	got    bytes.Buffer
	writes int
}

func (w *written) Write(b []byte) (int, error) { w.writes++; return w.got.Write(b) }

func TestWithInstance(t *testing.T) {
	fixed := "0012 0003 00000007 "
	id := strings.Repeat("61", 16)
	tests := []struct{ name, frame, want string }{ // without the length
		{"header 2", fixed + "0001 78 00 aabb", fixed + "0001 78 01 00 10" + id + "aabb"},
		{"no body", fixed + "0001 78 00", fixed + "0001 78 01 00 10" + id},
		{"null client id", fixed + "ffff 00 aa", fixed + "ffff 01 00 10" + id + "aa"},
		{"in front of other fields", fixed + "0001 78 02 01 00 05 02 aabb cc", fixed + "0001 78 03 00 10" + id + "01 00 05 02 aabb cc"},
		{"127 other fields", fixed + "ffff 7f" + strings.Repeat("0900", 127), fixed + "ffff 8001 00 10" + id + strings.Repeat("0900", 127)},
		{"has one", fixed + "ffff 01 00 10" + strings.Repeat("62", 16) + "aa", fixed + "ffff 01 00 10" + strings.Repeat("62", 16) + "aa"},
		{"says that it has none", fixed + "ffff 01 00 10" + strings.Repeat("00", 16) + "aa", fixed + "ffff 01 00 10" + strings.Repeat("00", 16) + "aa"},
		{"header 1", "0012 0002 00000007 0001 78 00", "0012 0002 00000007 0001 78 00"},
		{"no such API", "7fff 0002 00000007 0001 78 00", "7fff 0002 00000007 0001 78 00"},
		{"no whole header", "0012 0003 0000", "0012 0003 0000"},
		{"empty", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in, err := hex.DecodeString(strings.ReplaceAll(test.frame, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			out := &written{}
			c := WithInstance(out, uuid.UUID(bytes.Repeat([]byte{0x61}, 16)))
			if n, err := c.Write(frameOf(in)); err != nil || n != len(in)+4 {
				t.Errorf("%d, %v", n, err)
			}
			payload, err := ReadFrame(&out.got, MaxFrame, nil)
			if err != nil || hex.EncodeToString(payload) != strings.ReplaceAll(test.want, " ", "") || out.got.Len() > 0 || out.writes != 1 {
				t.Errorf("%x, %v, %d bytes behind it, %d writes", payload, err, out.got.Len(), out.writes)
			}
		})
	}
}

// TestWithInstanceHoweverItIsWritten cuts the bytes of some requests anywhere and joins them anyhow.
func TestWithInstanceHoweverItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, want []byte
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0: // header 1
				q := kmsg.NewPtrApiVersionsRequest()
				in, want = AppendRequest(in, q, Self{ClientID: "c"}, 1), AppendRequest(want, q, Self{ClientID: "c"}, 1)
			case 1: // no request
				junk := frameOf(rapid.SliceOfN(rapid.Byte(), 0, 7).Draw(t, "junk"))
				in, want = append(in, junk...), append(want, junk...)
			default:
				q := kmsg.NewPtrEnvelopeRequest()
				q.RequestData = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
				client := strings.Repeat("c", rapid.IntRange(0, 200).Draw(t, "client"))
				in, want = AppendRequest(in, q, Self{ClientID: client}, 7), AppendRequest(want, q, Self{client, instanceA}, 7)
			}
		}
		out := &written{}
		c := WithInstance(out, instanceA)
		for len(in) > 0 {
			n := rapid.IntRange(1, len(in)).Draw(t, "cut")
			if rapid.Bool().Draw(t, "one byte") {
				n = 1
			}
			if m, err := c.Write(in[:n]); m != n || err != nil {
				t.Fatalf("%d of %d, %v", m, n, err)
			}
			in = in[n:]
		}
		if !bytes.Equal(out.got.Bytes(), want) {
			t.Fatalf("written\n%x, want\n%x", out.got.Bytes(), want)
		}
	})
}

func TestWithInstanceAfterNoFrame(t *testing.T) {
	out := &written{}
	c := WithInstance(out, instanceA)
	text := append(binary.BigEndian.AppendUint32(nil, 1<<31), brokerRequest(1, 1)...)
	for _, b := range text {
		c.Write([]byte{b})
	}
	if !bytes.Equal(out.got.Bytes(), text) {
		t.Errorf("written %x", out.got.Bytes())
	}
}

func TestWithInstanceTellsErrors(t *testing.T) {
	own, other := net.Pipe()
	other.Close()
	if n, err := WithInstance(own, instanceA).Write(brokerRequest(1, 1)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d, %v", n, err)
	}
}

// FuzzWithInstance looks at any bytes, written at once and cut: the same comes out, and what isn't the id goes through.
func FuzzWithInstance(f *testing.F) {
	f.Add(brokerRequest(1, 1), 9)
	f.Add(append(brokerRequest(1, 1), brokerRequest(2, 2)...), 30)
	for _, odd := range oddRequests(f) {
		f.Add(frameOf(odd.request), 13)
	}
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		whole, parts := &written{}, &written{}
		WithInstance(whole, instanceA).Write(in)
		c := WithInstance(parts, instanceA)
		cut = min(max(cut, 0), len(in))
		c.Write(in[:cut])
		c.Write(in[cut:])
		if !bytes.Equal(whole.got.Bytes(), parts.got.Bytes()) {
			t.Fatalf("cut at %d: %x, at once %x", cut, parts.got.Bytes(), whole.got.Bytes())
		}
	})
}
