package record

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
)

// kafkaCase is a record that Kafka's own classes encoded and printed.
type kafkaCase struct {
	name    string
	message *Message
	version int16
	value   []byte
	json    string
}

// kafkaCases reads testdata/records.tsv (how it was made: testdata/README.md).
func kafkaCases(tb testing.TB) []kafkaCase {
	text, err := os.ReadFile("testdata/records.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	var cases []kafkaCase
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		key, _ := strconv.Atoi(f[0])
		version, _ := strconv.Atoi(f[2])
		value, err := hex.DecodeString(f[4])
		if err != nil || len(f) != 6 {
			tb.Fatalf("line %q: %v", line, err)
		}
		m := Lookup(int16(key))
		if m == nil || m.Name != f[1] {
			m = LookupControl(int16(key))
		}
		if m == nil || m.Name != f[1] {
			tb.Fatalf("no message %s with key %d", f[1], key)
		}
		cases = append(cases, kafkaCase{f[1] + "/" + f[2] + "/" + f[3], m, int16(version), value, f[5]})
	}
	return cases
}

func decodeAs(m *Message, value []byte) (Record, error) {
	if m.Control {
		return DecodeControl(New(m, 0).AppendKey(nil), value)
	}
	return Decode(value)
}

func TestRecordsOfKafka(t *testing.T) {
	for _, c := range kafkaCases(t) {
		t.Run(c.name, func(t *testing.T) {
			r, err := decodeAs(c.message, c.value)
			if err != nil {
				t.Fatal(err)
			}
			if r.Message != c.message || r.Version != c.version {
				t.Errorf("got %s version %d", r.Message.Name, r.Version)
			}
			again, err := r.AppendValue(nil)
			if err != nil || !bytes.Equal(again, c.value) {
				t.Errorf("encoded again: %v\n got %x\nwant %x", err, again, c.value)
			}
			text := string(r.AppendJSON(nil))
			if c.message.Control {
				text = string(r.AppendData(nil))
			}
			if text != c.json {
				t.Errorf("JSON\n got %s\nwant %s", text, c.json)
			}
			if strings.HasSuffix(c.name, "/default") {
				fresh, err := New(c.message, c.version).AppendValue(nil)
				if err != nil || !bytes.Equal(fresh, c.value) {
					t.Errorf("new record: %v\n got %x\nwant %x", err, fresh, c.value)
				}
			}
		})
	}
}
