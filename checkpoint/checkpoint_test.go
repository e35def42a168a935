package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/record"
)

func TestName(t *testing.T) {
	tests := []struct {
		why, name string
		id        ID
		ok        bool
	}{
		{"zero checkpoint", "00000000000000000000-0000000000.checkpoint", ID{}, true},
		{"snapshot", "00000000000000000175-0000000002.checkpoint", ID{175, 2}, true},
		{"largest numbers", "09223372036854775807-2147483647.checkpoint", ID{1<<63 - 1, 1<<31 - 1}, true},
		{"offset too large", "09223372036854775808-0000000000.checkpoint", ID{}, false},
		{"epoch too large", "00000000000000000000-2147483648.checkpoint", ID{}, false},
		{"bootstrap", BootstrapName, ID{}, false},
		{"being written", "00000000000000000175-0000000002.checkpoint.part", ID{}, false},
		{"being deleted", "00000000000000000175-0000000002.checkpoint.deleted", ID{}, false},
		{"no suffix", "00000000000000000175-0000000002", ID{}, false},
		{"sign", "+0000000000000000175-0000000002.checkpoint", ID{}, false},
		{"negative", "-0000000000000000175-0000000002.checkpoint", ID{}, false},
		{"few digits", "175-2.checkpoint", ID{}, false},
		{"many digits", "000000000000000000175-0000000002.checkpoint", ID{}, false},
		{"a segment", "00000000000000000175.log", ID{}, false},
		{"nothing", "", ID{}, false},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			id, ok := ParseName(test.name)
			if id != test.id || ok != test.ok {
				t.Errorf("got %+v, %v", id, ok)
			}
			if ok && id.String() != test.name {
				t.Errorf("back: %s", id)
			}
		})
	}
}

type golden struct {
	name, file string
	data       []byte
}

// goldens reads the files that Apache Kafka wrote, see testdata/README.md.
func goldens(tb testing.TB) []golden {
	text, err := os.ReadFile("testdata/golden.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	var list []golden
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		data, err := hex.DecodeString(f[2])
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, golden{f[0], f[1], data})
	}
	return list
}

// rewrite reads a snapshot and writes it again, batch by batch with the times of the original.
func rewrite(data []byte) ([]byte, error) {
	r, err := NewReader(bytes.NewReader(data), "original")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, r.Header)
	if err != nil {
		return nil, err
	}
	var offset int64 = -1
	for rec, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		if offset >= 0 && rec.Offset != offset+1 {
			return nil, errors.New("gap between offsets")
		}
		offset = rec.Offset
	}
	batches := record.NewBatchReader(bytes.NewReader(data))
	for {
		b, err := batches.Next()
		if err == io.EOF {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		w.AppendTime = b.Timestamp
		if b.Control {
			if b.BaseOffset > 0 {
				err = w.Close()
			}
		} else {
			var values [][]byte
			for e := range b.Entries() {
				values = append(values, e.Value)
			}
			err = w.Append(values...)
		}
		if err != nil {
			return nil, err
		}
	}
}

// TestGolden writes Kafka's files again from what the reader gives.
func TestGolden(t *testing.T) {
	byID := func(a, b Voter) int { return cmp.Compare(a.NodeID, b.NodeID) }
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			again, err := rewrite(g.data)
			if err != nil {
				t.Fatal(err)
			}
			was, err := NewReader(bytes.NewReader(g.data), g.file)
			if err != nil {
				t.Fatal(err)
			}
			if slices.IsSortedFunc(was.Header.Voters, byID) {
				if !bytes.Equal(again, g.data) {
					t.Errorf("written again\n got %x\nwant %x", again, g.data)
				}
				return
			}
			// Kafka's order of voters is another one: sorted, the rest must be the same.
			is, err := NewReader(bytes.NewReader(again), g.file)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(was.Header.Voters, byID)
			if !reflect.DeepEqual(is.Header, was.Header) {
				t.Errorf("header\n got %+v\nwant %+v", is.Header, was.Header)
			}
			first, err := record.DecodeBatch(g.data)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again[first.Size:], g.data[first.Size:]) {
				t.Errorf("behind the header\n got %x\nwant %x", again[first.Size:], g.data[first.Size:])
			}
		})
	}
}
