package javatext

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// rows reads what testdata/Record.java recorded. Cells that are quoted come without quotes.
func rows(t testing.TB) [][]string {
	t.Helper()
	b, err := os.ReadFile("testdata/java-17.txt")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, cell := range row {
			if strings.HasPrefix(cell, `"`) {
				if row[i], err = strconv.Unquote(cell); err != nil {
					t.Fatalf("%s: %v", cell, err)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func first(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

func TestJava(t *testing.T) {
	values := map[rune]int64{}
	blanks := map[string]map[rune]bool{"drops at the start": {}, "drops at the end": {}}
	for _, row := range rows(t) {
		switch kind, cells := row[0], row[1:]; kind {
		case "drops at the start", "drops at the end":
			for r := first(cells[0]); r <= first(cells[1]); r++ {
				blanks[kind][r] = true
			}
		case "digits":
			for i := range rune(10) {
				values[first(cells[0])+i] = int64(i)
			}
		case "trim":
			if got := Trim(cells[0]); got != cells[1] {
				t.Errorf("Trim(%q) = %q, Java: %q", cells[0], got, cells[1])
			}
		case "parse":
			for i, bits := range []int{16, 32, 64} {
				got := "-"
				if n, err := ParseInt(cells[0], bits); err == nil {
					got = strconv.FormatInt(n, 10)
				}
				if got != cells[1+i] {
					t.Errorf("ParseInt(%q, %d) = %s, Java: %s", cells[0], bits, got, cells[1+i])
				}
			}
		default:
			t.Fatalf("unknown row %q", row)
		}
	}

	// The other characters are no blanks and no digits.
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		if got := Trim(string(r)+"x") == "x"; got != blanks["drops at the start"][r] {
			t.Errorf("%U: dropped at the start: %v", r, got)
		}
		if got := Trim("x"+string(r)) == "x"; got != blanks["drops at the end"][r] {
			t.Errorf("%U: dropped at the end: %v", r, got)
		}
		n, err := ParseInt(string(r), 32)
		if want, ok := values[r]; ok != (err == nil) || n != want {
			t.Errorf("%U = %d, %v; Java: %d, %v", r, n, err, want, ok)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, row := range rows(f) {
		f.Add(row[1])
	}
	f.Add("\xff1\xff")
	f.Fuzz(func(t *testing.T, s string) {
		trimmed := Trim(s)
		before, after, _ := strings.Cut(s, trimmed)
		for _, c := range []byte(before + after) {
			if c > ' ' {
				t.Errorf("Trim(%q) = %q, without %q", s, trimmed, c)
			}
		}
		if trimmed != "" && (trimmed[0] <= ' ' || trimmed[len(trimmed)-1] <= ' ') {
			t.Errorf("Trim(%q) = %q", s, trimmed)
		}

		n, err := ParseInt(s, 64)
		for _, bits := range []int{16, 32} {
			fits := n == n<<(64-bits)>>(64-bits)
			narrow, narrowErr := ParseInt(s, bits)
			if (narrowErr == nil) != (err == nil && fits) || narrowErr == nil && narrow != n {
				t.Errorf("ParseInt(%q, %d) = %d, %v; with 64 bits %d, %v", s, bits, narrow, narrowErr, n, err)
			}
		}
		if err != nil {
			return
		}
		if back, err := ParseInt(strconv.FormatInt(n, 10), 64); err != nil || back != n {
			t.Errorf("ParseInt(%q) = %d, which is read as %d, %v", s, n, back, err)
		}
		for i, r := range s {
			if !unicode.IsDigit(r) && (i > 0 || r != '-' && r != '+') || r > 0xffff {
				t.Errorf("ParseInt(%q) = %d, with %q", s, n, r)
			}
		}
	})
}
