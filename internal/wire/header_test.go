package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordedFrame is a request and its answer, without their lengths.
type recordedFrame struct {
	key, version      int16
	request, response []byte
}

func recordedFrames(t testing.TB) (frames []recordedFrame) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var r recordedFrame
		if _, err := fmt.Sscanf(line, "%d %d %x %x", &r.key, &r.version, &r.request, &r.response); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		frames = append(frames, r)
	}
	return frames
}

func TestRecordedFrames(t *testing.T) {
	for _, r := range recordedFrames(t) {
		t.Run(fmt.Sprintf("%s v%d", kmsg.NameForKey(r.key), r.version), func(t *testing.T) {
			h, body, err := DecodeRequestHeader(r.request)
			if err != nil || h.Key != r.key || h.Version != r.version || h.ClientID == nil || *h.ClientID != "adminclient-1" {
				t.Fatalf("header %+v, %v", h, err)
			}
			q, err := decodeBody(h.Key, h.Version, body)
			if err != nil {
				t.Fatal(err)
			}
			if got := AppendRequest([]byte("before"), q, Self{ClientID: *h.ClientID}, h.CorrelationID); !bytes.Equal(got, append([]byte("before"), frameOf(r.request)...)) {
				t.Errorf("request encoded as %x", got)
			}
			headerBytes := 5
			if h.Key == int16(kmsg.ApiVersions) {
				headerBytes = 4
			}
			a := q.ResponseKind()
			if err := a.ReadFrom(r.response[headerBytes:]); err != nil {
				t.Fatal(err)
			}
			if got := AppendResponse([]byte("before"), a, h.CorrelationID); !bytes.Equal(got, append([]byte("before"), frameOf(r.response)...)) {
				t.Errorf("response encoded as\n%x, recorded\n%x", got, r.response)
			}
		})
	}
}

func TestDecodeRequestHeader(t *testing.T) {
	fixed := "0012 0003 00000007 "
	text := func(s string) *string { return &s }
	tests := []struct {
		name, frame string
		client      *string
		body        string
		err         string // "": none; "short", "unknown", "tag"
	}{
		{"header 1 ends with the client id", "0012 0002 00000007 0001 78 00aa", text("x"), "00aa", ""},
		{"header 2 ends with tagged fields", fixed + "0001 78 00 aa", text("x"), "aa", ""},
		{"no body", fixed + "0001 78 00", text("x"), "", ""},
		{"null client id", fixed + "ffff 00 aa", nil, "aa", ""},
		{"any negative length is null", fixed + "fffb 00 aa", nil, "aa", ""},
		{"empty client id", fixed + "0000 00 aa", text(""), "aa", ""},
		{"unknown tagged fields are skipped, in any order", fixed + "ffff 03 05 01 61 05 01 62 01 00 aa", nil, "aa", ""},
		{"tag of five bytes", fixed + "ffff 01 ffffffff0f 01 61 aa", nil, "aa", ""},
		{"varint that is longer than need be", fixed + "ffff 8000 aa", nil, "aa", ""},
		{"bits above the 32nd are lost", fixed + "ffff 8080808070 aa", nil, "aa", ""},
		{"nothing", "", nil, "", "short"},
		{"fixed part cut off", "0012 0003 000000", nil, "", "short"},
		{"length of the client id cut off", fixed + "00", nil, "", "short"},
		{"client id cut off", fixed + "0384 00", nil, "", "short"},
		{"tagged fields missing", fixed + "0001 78", nil, "", "short"},
		{"number of tags cut off", fixed + "ffff 80", nil, "", "short"},
		{"tagged field cut off", fixed + "ffff 01 00 7f 61", nil, "", "short"},
		{"as many tags as can be said", fixed + "ffff ffffffff0f", nil, "", "short"},
		{"varint of six bytes", fixed + "ffff 808080808000 aa", nil, "", "short"},
		{"instance id cut off", fixed + "ffff 01 00 10 616161", nil, "", "short"},
		{"instance id of 15 bytes", fixed + "ffff 01 00 0f " + strings.Repeat("61", 15) + "aa", nil, "", "tag"},
		{"instance id of 17 bytes", fixed + "ffff 01 00 11 " + strings.Repeat("61", 17) + "aa", nil, "", "tag"},
		{"instance id with a length of 2^31", fixed + "ffff 01 00 8080808008 " + strings.Repeat("61", 16) + "aa", nil, "", "short"},
		{"API that doesn't exist", "03e7 0000 00000007 ffff", nil, "", "unknown"},
		{"negative API", "ffff 0000 00000007 ffff", nil, "", "unknown"},
		{"version below the flexible ones", "0012 8000 00000007 ffff", nil, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			frame, err := hex.DecodeString(strings.ReplaceAll(test.frame, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			h, body, err := DecodeRequestHeader(frame)
			var unknown *UnknownAPIError
			var tag *TagError
			switch {
			case test.err == "short" && errors.Is(err, errShort), test.err == "unknown" && errors.As(err, &unknown), test.err == "tag" && errors.As(err, &tag):
				return
			case err != nil || test.err != "":
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if (h.ClientID == nil) != (test.client == nil) || test.client != nil && *h.ClientID != *test.client {
				t.Errorf("client id %q", h.client())
			}
			if h.CorrelationID != 7 || hex.EncodeToString(body) != test.body {
				t.Errorf("correlation id %d, body %x", h.CorrelationID, body)
			}
		})
	}
}

func TestClientInstanceID(t *testing.T) {
	id := func(b string) string { return strings.Repeat(b, 16) }
	tests := []struct {
		name, frame string
		want        string // the id
		canonical   bool   // the header is encoded as it came
	}{
		{"none", "0012 0003 00000007 0001 78 00", id("00"), true},
		{"one", "0012 0003 00000007 0001 78 01 00 10" + id("61"), id("61"), true},
		{"null client id", "0012 0003 00000007 ffff 01 00 10" + id("61"), id("61"), true},
		{"zero is none", "0012 0003 00000007 0001 78 01 00 10" + id("00"), id("00"), false},
		{"behind another field", "0012 0003 00000007 0001 78 02 05 01 61 00 10" + id("61"), id("61"), false},
		{"before another field", "0012 0003 00000007 0001 78 02 00 10" + id("61") + "05 01 61", id("61"), false},
		{"twice: the last one counts", "0012 0003 00000007 0001 78 02 00 10" + id("61") + "00 10" + id("62"), id("62"), false},
		{"tag of 2^32, bits above the 32nd are lost", "0012 0003 00000007 0001 78 01 8080808010 10" + id("61"), id("61"), false},
		{"header 1 has none", "0012 0002 00000007 0001 78", id("00"), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			frame, err := hex.DecodeString(strings.ReplaceAll(test.frame, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			h, body, err := DecodeRequestHeader(frame)
			if err != nil || len(body) > 0 || hex.EncodeToString(h.ClientInstanceID[:]) != test.want {
				t.Fatalf("%+v, %d bytes behind it, %v", h, len(body), err)
			}
			if got := AppendRequestHeader(nil, &h); bytes.Equal(got, frame) != test.canonical {
				t.Errorf("encoded as %x", got)
			}
		})
	}
}

// TestHeaderFields compares the schema with Kafka's, as KIP-1313 changes it.
func TestHeaderFields(t *testing.T) {
	var got []string
	for _, f := range headerFields {
		line := fmt.Sprintf("%s %T %d+", f.name, f.at(new(RequestHeader)), f.from)
		if f.tag != untagged {
			line += fmt.Sprint(" tag ", f.tag)
		}
		got = append(got, line)
	}
	want := []string{
		"RequestApiKey *int16 1+", "RequestApiVersion *int16 1+", "CorrelationId *int32 1+", "ClientId **string 1+",
		"ClientInstanceId *uuid.UUID 2+ tag 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestHostileTagsCostNoMemory(t *testing.T) {
	header, err := hex.DecodeString("0012000300000007" + "ffff")
	if err != nil {
		t.Fatal(err)
	}
	many := bytes.Repeat([]byte{9, 1, 0}, 1<<20)
	for name, tags := range map[string][]byte{
		"2^31 tags":           append(binary.AppendUvarint(nil, 1<<31), many...),
		"a tag of 2^31 bytes": append(binary.AppendUvarint([]byte{1, 0}, 1<<31), many...),
		"a million tags":      append(binary.AppendUvarint(nil, 1<<20), many...),
		"the id over and over": append(binary.AppendUvarint(nil, 1<<16),
			bytes.Repeat(append([]byte{0, 16}, make([]byte, 16)...), 1<<16)...),
	} {
		frame := append(slices.Clone(header), tags...)
		if got := testing.AllocsPerRun(1, func() { DecodeRequestHeader(frame) }); got > 4 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func TestFlexibleRequest(t *testing.T) {
	for key := int16(-1); key <= kmsg.MaxKey+1; key++ {
		q := kmsg.RequestForKey(key)
		if q == nil {
			if _, known := flexibleRequest(key, 0); known {
				t.Errorf("API %d is known", key)
			}
			continue
		}
		for version := range q.MaxVersion() + 1 {
			q.SetVersion(version)
			if flexible, known := flexibleRequest(key, version); flexible != q.IsFlexible() || !known {
				t.Errorf("%s version %d: flexible %v, known %v", kmsg.NameForKey(key), version, flexible, known)
			}
		}
	}
}
