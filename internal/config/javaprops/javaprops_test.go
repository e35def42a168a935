package javaprops

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// javaCase is a line of testdata/java.jsonl: what java.util.Properties of Java 17 made of an input that was
// written by hand (the first ones) or generated. In stands for bytes, one character each, or with Text for characters.
type javaCase struct {
	In        string      `json:"in"`
	Text      bool        `json:"text"`
	Want      [][2]string `json:"want"`
	Malformed bool        `json:"malformed"`
}

func (c javaCase) parse() ([]Property, error) {
	if c.Text {
		return ParseText(c.In)
	}
	var b []byte
	for _, r := range c.In {
		b = append(b, byte(r))
	}
	return Parse(b)
}

func javaCases(t testing.TB) []javaCase {
	f, err := os.Open("testdata/java.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []javaCase
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c javaCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

func TestParseIsJava(t *testing.T) {
	for _, c := range javaCases(t) {
		properties, err := c.parse()
		if (err != nil) != c.Malformed {
			t.Errorf("%q: error %v, Java says malformed: %v", c.In, err, c.Malformed)
			continue
		}
		var got [][2]string
		for _, p := range properties {
			got = append(got, [2]string{p.Key, p.Value})
		}
		if !slices.Equal(got, c.Want) {
			t.Errorf("%q (text %v): got %q, Java has %q", c.In, c.Text, got, c.Want)
		}
	}
}

func TestLine(t *testing.T) {
	tests := []struct {
		name, in string
		want     []int
	}{
		{"each line end counts once", "a=1\nb=2\r\nc=3\rd=4", []int{1, 2, 3, 4}},
		{"comments and empty lines count", "# x\n\n  ! y\na=1\n\r\n\nb=2", []int{4, 7}},
		{"a property stands where its key begins", "a=1\\\n  2\\\n  3\nb=2", []int{1, 4}},
		{"also behind a line with nothing but a backslash", "\\\n\n a=1", []int{1}},
		{"and behind a comment that follows one", "\\\n# x\na=1", []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			properties, err := Parse([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, p := range properties {
				got = append(got, p.Line)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("lines of %q: %v, want %v", tt.in, got, tt.want)
			}
		})
	}
}

func TestSyntaxErrorNamesTheLineAndNoText(t *testing.T) {
	_, err := Parse([]byte("a=1\n\nssl.key.password=secret\\users\n"))
	var syntax *SyntaxError
	if !errors.As(err, &syntax) || syntax.Line != 3 {
		t.Fatalf("error %v, want a *SyntaxError of line 3", err)
	}
	if strings.Contains(err.Error(), "sers") {
		t.Errorf("%q shows a part of the value", err)
	}
}

func TestAppendIsJava(t *testing.T) {
	// Written by Properties.store(Writer) of Java 17.
	tests := []struct{ in, key, value string }{
		{"a=b:c#d!e", `a\=b\:c\#d\!e`, `a\=b\:c\#d\!e`},
		{"  a  b ", `\ \ a\ \ b\ `, `\  a  b `},
		{"\ta\t\n\r\f\\", `\ta\t\n\r\f\\`, `\ta\t\n\r\f\\`},
		{"clúster-中😀\x01\x7f\u0085", "clúster-中😀\x01\x7f\u0085", "clúster-中😀\x01\x7f\u0085"},
		{"", "", ""},
	}
	for _, tt := range tests {
		if got := string(AppendKey(nil, tt.in)); got != tt.key {
			t.Errorf("key %q: %s, want %s", tt.in, got, tt.key)
		}
		if got := string(AppendValue(nil, tt.in)); got != tt.value {
			t.Errorf("value %q: %s, want %s", tt.in, got, tt.value)
		}
	}
}

func TestParseReadsWhatAppendWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, value := rapid.String().Draw(t, "key"), rapid.String().Draw(t, "value")
		line := append(AppendValue(append(AppendKey([]byte("x=y\n"), key), '='), value), '\n')
		properties, err := ParseText(string(line))
		want := []Property{{"x", "y", 1}, {key, value, 2}}
		if err != nil || !slices.Equal(properties, want) {
			t.Fatalf("%q: %q comes back as %v, %v", key, value, properties, err)
		}
		// Beyond ASCII the bytes of UTF-8 are characters of their own, in Java too.
		properties, err = Parse(line)
		want[1].Key, want[1].Value = fromLatin1(key), fromLatin1(value)
		if err != nil || !slices.Equal(properties, want) {
			t.Fatalf("%q: %q comes back as %v, %v", key, value, properties, err)
		}
	})
}

func fromLatin1(s string) string {
	var out []byte
	for i := range len(s) {
		out = utf8.AppendRune(out, rune(s[i]))
	}
	return string(out)
}

func FuzzParse(f *testing.F) {
	for _, c := range javaCases(f) {
		f.Add([]byte(c.In))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		properties, err := Parse(b)
		if err != nil {
			return
		}
		var file []byte
		line := 0
		for i, p := range properties {
			if p.Line <= line || !utf8.ValidString(p.Key) || !utf8.ValidString(p.Value) {
				t.Fatalf("property %d is %v behind line %d", i, p, line)
			}
			line = p.Line
			file = append(AppendValue(append(AppendKey(file, p.Key), '='), p.Value), '\n')
		}
		again, err := ParseText(string(file))
		if err != nil || len(again) != len(properties) {
			t.Fatalf("%v is written as %q and read as %v, %v", properties, file, again, err)
		}
		for i, p := range properties {
			if again[i] != (Property{p.Key, p.Value, i + 1}) {
				t.Fatalf("%v comes back as %v", p, again[i])
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var file []byte
	for range 20 {
		file = append(file, "# a comment of usual length\nlog.dirs = /var/lib/kafka/data-1,/var/lib/kafka/data-2\nnum.io.threads=8\n"...)
	}
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(file); err != nil {
			b.Fatal(err)
		}
	}
}
