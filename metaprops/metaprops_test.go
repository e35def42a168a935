package metaprops

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"kstorage/internal/config/javaprops"
	"kstorage/internal/kafkaid"
)

// records reads a file that testdata/Record.java wrote.
func records[T any](t testing.TB, name string) []T {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v in %s", name, err, lines.Text())
		}
		all = append(all, one)
	}
	return all
}

type decodeRecord struct {
	File         []byte
	Shown, Error string
}

func TestDecodeAsKafka(t *testing.T) {
	for _, record := range records[decodeRecord](t, "decode.jsonl") {
		if strings.HasPrefix(record.Error, "Unknown meta.properties version number 2") {
			continue // ours since KIP-1262
		}
		p, err := Decode(record.File)
		if (err == nil) != (record.Error == "") {
			t.Errorf("Decode(%q) = %+v, %v; Kafka: %s", record.File, p, err, record.Error)
			continue
		}
		if err == nil {
			want := record.Shown
			if p.Version == V0 { // in which an empty id and -1 mean none
				want = strings.NewReplacer("cluster.id=, ", "", "broker.id=-1, ", "").Replace(want)
			}
			if got := p.text(); got != want {
				t.Errorf("Decode(%q) shows %s; Kafka: %s", record.File, got, want)
			}
			continue
		}
		var value *ValueError
		var syntax *javaprops.SyntaxError
		switch {
		case record.Error == `Malformed \uxxxx encoding.`:
			if !errors.As(err, &syntax) {
				t.Errorf("Decode(%q) = %T %v, want a SyntaxError", record.File, err, err)
			}
		case !errors.As(err, &value):
			t.Errorf("Decode(%q) = %T %v, want a ValueError", record.File, err, err)
		case err.Error() != record.Error && !ownWords(err.Error(), record.Error):
			t.Errorf("Decode(%q) = %v; Kafka: %s", record.File, err, record.Error)
		}
	}
}

// ownWords reports whether the texts differ only in what Java's base64 decoder says.
func ownWords(ours, kafkas string) bool {
	const prefix = "Unable to read directory.id as a Uuid: "
	detail, ok := strings.CutPrefix(kafkas, prefix)
	return ok && strings.HasPrefix(ours, prefix) && !strings.HasPrefix(detail, "Input string")
}

func TestDecodeVersion2(t *testing.T) {
	id := uuid.UUID{15: 200}
	tests := []struct {
		name, file string
		want       Properties
		shown, err string
	}{
		{"whole", "version=2\nnode.id=7\ncluster.id=x\ndirectory.id=" + kafkaid.String(id),
			Properties{Version: V2, NodeID: 7, ClusterID: "x", DirectoryID: id},
			"{cluster.id=x, directory.id=" + kafkaid.String(id) + ", node.id=7, version=2}", ""},
		{"no cluster id", "version=2\nnode.id=7", Properties{Version: V2, NodeID: 7}, "{node.id=7, version=2}", ""},
		{"empty cluster id means none", "version=2\nnode.id=7\ncluster.id=", Properties{Version: V2, NodeID: 7}, "{node.id=7, version=2}", ""},
		{"no node id", "version=2\ncluster.id=x", Properties{}, "", "Failed to find node.id"},
		{"the node id of version 0", "version=2\nbroker.id=7", Properties{}, "", "Failed to find node.id"},
		{"unknown version", "version=3\nnode.id=7", Properties{}, "", "Unknown meta.properties version number 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Decode([]byte(tt.file))
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || p != tt.want || p.text() != tt.shown {
				t.Errorf("Decode = %+v %s, %v; want %+v %s", p, p.text(), err, tt.want, tt.shown)
			}
		})
	}
}

func TestBlank(t *testing.T) {
	for file, want := range map[string]bool{
		"":                                      true,
		"\x00\x00\x00\x00":                      true, // what a crash leaves on some file systems
		"#\n#a date\n":                          true,
		"other=1\n":                             true,
		"broker.id=0\n":                         false,
		"cluster.id=x\n":                        false,
		"version=2\nnode.id=0":                  false,
		"directory.id=AAAAAAAAAAAAAAAAAAAAAA\n": false,
	} {
		if p, err := Decode([]byte(file)); err != nil || p.Blank() != want {
			t.Errorf("%q: Blank = %v, %v; want %v", file, p.Blank(), err, want)
		}
	}
}

func TestReservedDirectoryID(t *testing.T) {
	for id, want := range map[string]bool{
		"":                                      false,
		"directory.id=AAAAAAAAAAAAAAAAAAAAAA":   true,
		"directory.id=AAAAAAAAAAAAAAAAAAAAYw":   true,
		"directory.id=AAAAAAAAAAAAAAAAAAAAZA":   false,
		"directory.id=IPSRFnY5RtqEmJV5clXmdA==": false,
	} {
		if p, err := Decode([]byte(id)); err != nil || p.ReservedDirectoryID() != want {
			t.Errorf("%q: reserved = %v, %v; want %v", id, p.ReservedDirectoryID(), err, want)
		}
	}
}

type encodeRecord struct {
	Version   Version
	Node      *int32
	Directory string
	Given     *string
	File      []byte // without the date
	Read      string
}

// The bytes are Kafka's, and the id is the one that a server reads from them.
func TestEncodeAsKafka(t *testing.T) {
	date := time.Date(2026, 11, 30, 5, 36, 43, 0, time.UTC)
	for _, record := range records[encodeRecord](t, "encode.jsonl") {
		p := Properties{Version: record.Version, NodeID: NoNode}
		if record.Node != nil {
			p.NodeID = *record.Node
		}
		if record.Directory != "-" {
			var err error
			if p.DirectoryID, err = kafkaid.Parse(record.Directory); err != nil {
				t.Fatal(err)
			}
			p.zeroDirectoryID = p.DirectoryID == uuid.Nil
		}
		if record.Given != nil {
			if p.ClusterID = AsKafkaReads(*record.Given); p.ClusterID != record.Read {
				t.Errorf("AsKafkaReads(%q) = %q; Kafka: %q", *record.Given, p.ClusterID, record.Read)
			}
			if !SameClusterID(p.ClusterID, *record.Given) {
				t.Errorf("%q is not the same as %q, which was given for it", p.ClusterID, *record.Given)
			}
		}
		want := "#\n#Mon Nov 30 05:36:43 UTC 2026\n" + string(record.File)
		if got := string(p.Encode(date)); got != want {
			t.Errorf("Encode(%+v) = %q; Kafka: %q", p, got, want)
		}
	}
}

func TestEncodeVersion2(t *testing.T) {
	date := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", -9000))
	p := Properties{Version: V2, NodeID: 1, DirectoryID: uuid.UUID{15: 200}}
	want := "#\n#Fri Jan 02 03:04:05 GMT-02:30 2026\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAyA\nversion=2\n"
	if got := string(p.Encode(date)); got != want {
		t.Errorf("without an id: %q, want %q", got, want)
	}
	p.ClusterID = "x="
	if got := string(p.Encode(date)); got != want+"cluster.id=x\\=\n" {
		t.Errorf("with an id: %q", got)
	}
}

// The lines are those of new Date(1764481003000L) and new Date(1753747200000L) in Java 17.
func TestDateAsJava(t *testing.T) {
	for _, want := range []string{
		"UTC Sun Nov 30 05:36:43 UTC 2025",
		"Europe/Berlin Sun Nov 30 06:36:43 CET 2025",
		"Europe/Berlin Tue Jul 29 02:00:00 CEST 2025",
		"America/New_York Mon Jul 28 20:00:00 EDT 2025",
		"Asia/Kolkata Tue Jul 29 05:30:00 IST 2025",
		"Etc/GMT+3 Sun Nov 30 02:36:43 GMT-03:00 2025",
		"Etc/GMT-14 Sun Nov 30 19:36:43 GMT+14:00 2025",
	} {
		name, line, _ := strings.Cut(want, " ")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		date := time.UnixMilli(1764481003000)
		if strings.Contains(line, "Jul") {
			date = time.UnixMilli(1753747200000)
		}
		if got := string(appendDate(nil, date.In(zone))); got != line {
			t.Errorf("%s: %s, want %s", name, got, line)
		}
	}
}

func anyProperties(t *rapid.T) Properties {
	p := Properties{
		Version: rapid.SampledFrom([]Version{V0, V1, V2}).Draw(t, "version"),
		// Text with more escapes than a random string has.
		ClusterID: rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune(" \t\r\n\f\\=:#!ux0é\u0080中\U0001F600")))).Draw(t, "cluster"),
		NodeID:    rapid.Int32Min(NoNode).Draw(t, "node"),
	}
	copy(p.DirectoryID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "directory"))
	return p
}

func TestDecodeEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProperties(t)
		got, err := Decode(p.Encode(time.UnixMilli(0)))
		if err != nil || got != p {
			t.Fatalf("Decode(%q) = %+v, %v; want %+v", p.Encode(time.UnixMilli(0)), got, err, p)
		}
	})
}

// What a script cuts from the file with its escapes means the id in it.
func TestSameClusterIDFromFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProperties(t)
		p.Version = V1
		_, cut, _ := strings.Cut(string(p.Encode(time.UnixMilli(0))), "\ncluster.id=")
		cut = strings.TrimSuffix(cut, "\n")
		if !SameClusterID(p.ClusterID, cut) {
			t.Fatalf("SameClusterID(%q, %q) = false", p.ClusterID, cut)
		}
	})
}

func TestSameClusterID(t *testing.T) {
	tests := []struct {
		name, stored, given string
		want                bool
	}{
		{"equal", "my-cluster", "my-cluster", true},
		{"another", "my-cluster", "my-cluste", false},
		{"cut from the file", "MkU3OEVBNkI4OUIxNDM2Mg==", `MkU3OEVBNkI4OUIxNDM2Mg\=\=`, true},
		{"an id with a backslash as it is", `a\b`, `a\b`, true},
		{"an id with a backslash, cut from the file", `a\b`, `a\\b`, true},
		{"UTF-8 that Kafka reads byte by byte", "clÃº", "clú", true},
		{"the same escaped by hand", "clú", `cl\u00fa`, true},
		{"case counts", "A", "a", false},
		{"blank at the end counts", "a", "a ", false},
		{"bad escape", "a", `\u00`, false},
		{"a second line is no part of the value", "a", "a\nb=c", false},
		{"nothing", "a", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := SameClusterID(tt.stored, tt.given); got != tt.want {
				t.Errorf("SameClusterID(%q, %q) = %v", tt.stored, tt.given, got)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, record := range records[decodeRecord](f, "decode.jsonl") {
		f.Add(record.File)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err != nil {
			return
		}
		if !utf8.ValidString(p.ClusterID) {
			t.Errorf("cluster id %q is no UTF-8", p.ClusterID)
		}
		again, err := Decode(p.Encode(time.UnixMilli(0)))
		if err != nil || again != p {
			t.Errorf("%q: %+v comes back as %+v, %v", b, p, again, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	file := Properties{Version: V1, NodeID: 1, ClusterID: "Wq9rPWnzQ4uv0sRyMKXc1w", DirectoryID: uuid.UUID{1}}.Encode(time.Now())
	for b.Loop() {
		if _, err := Decode(file); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	p := Properties{Version: V1, NodeID: 1, ClusterID: "Wq9rPWnzQ4uv0sRyMKXc1w", DirectoryID: uuid.UUID{1}}
	now := time.Now()
	for b.Loop() {
		p.Encode(now)
	}
}
