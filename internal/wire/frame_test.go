package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf puts the length in front of a payload.
func frameOf(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func TestReadFrame(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 2000)
	tests := []struct {
		name string
		in   []byte
		max  int
		want []byte
		err  error // nil: no error
	}{
		{"payload", frameOf([]byte("abc")), 3, []byte("abc"), nil},
		{"no payload", frameOf(nil), 0, []byte{}, nil},
		{"the next frame is left alone", append(frameOf([]byte("abc")), frameOf([]byte("d"))...), 3, []byte("abc"), nil},
		{"longer than a buffer grows at once", frameOf(long), 1 << 20, long, nil},
		{"nothing", nil, 3, nil, io.EOF},
		{"length cut off", []byte{0, 0, 0}, 3, nil, io.ErrUnexpectedEOF},
		{"payload missing", []byte{0, 0, 0, 3}, 3, nil, io.ErrUnexpectedEOF},
		{"payload cut off", frameOf(long)[:10000], 1 << 20, nil, io.ErrUnexpectedEOF},
		{"above the limit", frameOf([]byte("abcd")), 3, nil, &FrameError{Length: 4, Max: 3}},
		{"negative", []byte{0xff, 0xff, 0xff, 0xff, 1}, 3, nil, &FrameError{Length: -1, Max: 3}},
		{"text of another protocol", []byte("GET / HTTP/1.1\r\n"), MaxFrame, nil, &FrameError{Length: 0x47455420, Max: MaxFrame}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, buf := range [][]byte{nil, make([]byte, 0, 2), make([]byte, 7), make([]byte, 100<<10)} {
				got, err := ReadFrame(iotest.HalfReader(bytes.NewReader(test.in)), test.max, buf)
				var gotFrame, wantFrame *FrameError
				if errors.As(test.err, &wantFrame) {
					if !errors.As(err, &gotFrame) || *gotFrame != *wantFrame {
						t.Fatalf("error %v, want %v", err, test.err)
					}
				} else if err != test.err {
					t.Fatalf("error %v, want %v", err, test.err)
				}
				if !bytes.Equal(got, test.want) {
					t.Fatalf("%d bytes, want %d", len(got), len(test.want))
				}
			}
		})
	}
}

// greedyReader notes the largest buffer it is asked to fill beyond what it has given already.
type greedyReader struct {
	r     io.Reader
	given int
	worst int
}

func (g *greedyReader) Read(p []byte) (int, error) {
	g.worst = max(g.worst, len(p)-g.given)
	n, err := g.r.Read(p)
	g.given += n
	return n, err
}

func TestReadFrameMemoryGrowsWithWhatArrives(t *testing.T) {
	in := frameOf(make([]byte, MaxFrame))[:50<<10] // claims 100 MiB, gives 50 KiB
	g := &greedyReader{r: bytes.NewReader(in)}
	if _, err := ReadFrame(g, MaxFrame, nil); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if g.worst > firstRead {
		t.Errorf("room for %d bytes more than had arrived, at most %d are fine", g.worst, firstRead)
	}
}

// FuzzRequest goes the way of the bytes from a client: frame, header, body. An accepted request means the same after
// it was encoded anew, and all bytes of its body were needed.
func FuzzRequest(f *testing.F) {
	for _, r := range recordedFrames(f) {
		f.Add(frameOf(r.request))
	}
	for key := range int16(kmsg.MaxKey + 1) {
		if q := kmsg.RequestForKey(key); q != nil {
			q.SetVersion(q.MaxVersion())
			f.Add(AppendRequest(nil, q, Self{ClientID: "fuzz"}, 1))
		}
	}
	for _, odd := range oddRequests(f) {
		f.Add(frameOf(odd.request))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		frame, err := ReadFrame(bytes.NewReader(in), 1<<20, nil)
		if err != nil {
			return
		}
		if !bytes.Equal(frame, in[4:4+len(frame)]) || cap(frame) > 2*len(in)+firstRead {
			t.Fatalf("frame of %d bytes in %d", len(frame), cap(frame))
		}
		h, body, err := DecodeRequestHeader(frame)
		if err != nil {
			return
		}
		if h.Version < 0 || h.Version > kmsg.RequestForKey(h.Key).MaxVersion() {
			return
		}
		q, err := decodeBody(h.Key, h.Version, body)
		if err != nil {
			return
		}
		// The decoder of kmsg takes what it doesn't encode, such as null for an array that can't be null: so the
		// second encoding is compared with the first one.
		first := AppendRequest(nil, q, Self{h.client(), h.ClientInstanceID}, h.CorrelationID)
		h2, body2, err := DecodeRequestHeader(first[4:])
		if err != nil || h2.Key != h.Key || h2.Version != h.Version || h2.CorrelationID != h.CorrelationID || h2.client() != h.client() || h2.ClientInstanceID != h.ClientInstanceID {
			t.Fatalf("header %+v, then %+v, %v", h, h2, err)
		}
		q2, err := decodeBody(h2.Key, h2.Version, body2)
		if err != nil {
			t.Fatalf("%s v%d: own encoding refused: %v", kmsg.NameForKey(h.Key), h.Version, err)
		}
		if second := AppendRequest(nil, q2, Self{h2.client(), h2.ClientInstanceID}, h.CorrelationID); !bytes.Equal(first, second) {
			t.Fatalf("%s v%d: encoded as\n%x\nthen\n%x", kmsg.NameForKey(h.Key), h.Version, first, second)
		}
	})
}

// FuzzRequestHeader: a header that is accepted means the same after it was encoded anew, and costs nothing beyond its client id.
func FuzzRequestHeader(f *testing.F) {
	for _, r := range recordedFrames(f) {
		f.Add(r.request)
	}
	for _, odd := range oddRequests(f) {
		f.Add(odd.request)
	}
	f.Add(AppendRequest(nil, kmsg.NewPtrUnregisterBrokerRequest(), Self{ClientID: "fuzz", InstanceID: instanceA}, 1)[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := DecodeRequestHeader(frame)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(frame, body) || h.headerVersion() < flexibleHeader && h.ClientInstanceID != uuid.Nil {
			t.Fatalf("%+v and %d bytes of %d", h, len(body), len(frame))
		}
		encoded := AppendRequestHeader(nil, &h)
		again, rest, err := DecodeRequestHeader(append(encoded, body...))
		if err != nil || !bytes.Equal(rest, body) || again.client() != h.client() || (again.ClientID == nil) != (h.ClientID == nil) ||
			again.ClientInstanceID != h.ClientInstanceID || again.Key != h.Key || again.Version != h.Version || again.CorrelationID != h.CorrelationID {
			t.Fatalf("%+v, then %+v, %v", h, again, err)
		}
		if h.headerVersion() == flexibleHeader && len(encoded) > len(frame)-len(body)+18 {
			t.Fatalf("%d bytes, then %d", len(frame)-len(body), len(encoded))
		}
	})
}

// FuzzFrames reads frames one after the other, however the bytes come.
func FuzzFrames(f *testing.F) {
	f.Add(append(frameOf([]byte("abc")), frameOf(nil)...), 3)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1)
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 1, 2}, 1<<30)
	var all []byte
	for _, odd := range oddRequests(f) {
		all = append(all, frameOf(odd.request)...)
	}
	f.Add(all, MaxFrame)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		r := iotest.OneByteReader(bytes.NewReader(in))
		rest := in
		var buf []byte
		for {
			frame, err := ReadFrame(r, limit, buf)
			if err != nil {
				return
			}
			if len(frame) > limit || cap(frame) > 2*len(in)+firstRead || !bytes.Equal(frameOf(frame), rest[:4+len(frame)]) {
				t.Fatalf("frame of %d bytes in %d", len(frame), cap(frame))
			}
			rest, buf = rest[4+len(frame):], frame
		}
	})
}
