package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"kstorage/internal/javatext"
)

// setting is what Kafka defines of one key.
type setting struct {
	name     string
	kind     kind
	fallback string // the default as a file would have it; null or required
	valid    string // what is allowed, see check; "" for anything of the kind
}

const (
	null     = "\x00null"     // a default that is no value
	required = "\x00required" // no default: the file must have the key
)

// kind is the type of a setting's value.
type kind uint8

const (
	intKind kind = iota
	longKind
	shortKind
	doubleKind
	booleanKind
	stringKind
	listKind
	classKind
	passwordKind
)

// value is the value of a setting: one field, as the kind has it.
type value struct {
	null    bool
	text    string   // string, class; a password's is not kept
	number  int64    // int, long, short, and boolean as 0 or 1
	double  float64  // double
	list    []string // list, without the entries in duplicates
	doubled []string // the entries of a list that stood there again and were dropped
}

// find returns the setting of that name.
func find(name string) (*setting, bool) {
	i, ok := slices.BinarySearchFunc(settings[:], name, func(s setting, name string) int { return strings.Compare(s.name, name) })
	if !ok {
		return nil, false
	}
	return &settings[i], true
}

// defaultValue is the value of a setting that no file sets.
func (s *setting) defaultValue() value {
	if s.fallback == null || s.fallback == required {
		return value{null: true}
	}
	v, problem := s.parse(s.fallback)
	if problem != nil {
		panic(fmt.Sprintf("config: default of %s: %s", s.name, problem.reason))
	}
	return v
}

// problem is what is wrong with a value, and the way out.
type problem struct {
	reason, fix string
	verbatim    bool // reason is a sentence of Kafka's, which names the key
}

// parse reads text as Kafka does: blanks and control characters at its ends do not count.
func (s *setting) parse(text string) (value, *problem) {
	text = trim(text)
	v, p := s.kind.parse(text)
	if p == nil {
		p = s.check(text, &v)
	}
	return v, p
}

func (k kind) parse(text string) (value, *problem) {
	switch k {
	case intKind, longKind, shortKind:
		bits := 32
		switch k {
		case longKind:
			bits = 64
		case shortKind:
			bits = 16
		}
		n, ok := parseInteger(text, bits)
		if !ok {
			return value{}, &problem{reason: fmt.Sprintf("%q is no whole number of %d bits", text, bits), fix: "write digits only, without a unit or a comment behind them"}
		}
		return value{number: n}, nil
	case doubleKind:
		f, ok := parseDouble(text)
		if !ok {
			return value{}, &problem{reason: fmt.Sprintf("%q is no number", text), fix: "write digits, with a point where it has a fraction"}
		}
		return value{double: f}, nil
	case booleanKind:
		switch {
		case strings.EqualFold(text, "true"):
			return value{number: 1}, nil
		case strings.EqualFold(text, "false"):
			return value{}, nil
		}
		return value{}, &problem{reason: fmt.Sprintf("%q is neither true nor false", text), fix: "write true or false"}
	case listKind:
		return value{list: splitList(text)}, nil
	case classKind:
		if !isClassName(text) {
			return value{}, &problem{reason: fmt.Sprintf("%q is no name of a Java class", text), fix: "write the full name of the class, or remove the line"}
		}
	case passwordKind:
		return value{}, nil
	}
	return value{text: text}, nil
}

// check applies s.valid, in the forms that Kafka's documentation has:
//
//	[1,...]  [1,...,9]  [1,...,9] or -1   a number in a range
//	[a, b]  (any case) [A, B]             a text, or each entry of a list, is one of these
//	non-empty                             a text, or the list, is not empty
//	addresses  voters                     each entry of a list is HOST:PORT or ID@HOST:PORT
//
// No entry of a list may be empty, and what stands there again is dropped, save addresses and voters.
func (s *setting) check(text string, v *value) *problem {
	rule, nonEmpty := strings.CutPrefix(s.valid, "non-empty")
	rule = strings.TrimPrefix(rule, " ")
	switch s.kind {
	case intKind, longKind, shortKind:
		return checkRange(rule, text, float64(v.number))
	case doubleKind:
		return checkRange(rule, text, v.double)
	case stringKind:
		if nonEmpty && text == "" {
			return &problem{reason: "the value is empty", fix: "write a value, or remove the line"}
		}
		return checkChoice(rule, text)
	case listKind:
		switch s.valid {
		case voters:
			_, p := parseVoters(v.list)
			return p
		case addresses:
			_, p := parseAddresses(v.list)
			return p
		}
		if nonEmpty && len(v.list) == 0 {
			return &problem{reason: "the list is empty", fix: "write at least one value"}
		}
		for i, entry := range v.list {
			if entry == "" {
				return &problem{reason: fmt.Sprintf("Configuration '%s' values must not be empty.", s.name), verbatim: true,
					fix: "remove the comma at the start or the end, or the one that follows another"}
			}
			if p := checkChoice(rule, entry); p != nil {
				return p
			}
			if slices.Contains(v.list[:i], entry) {
				v.doubled = append(v.doubled, entry)
			}
		}
		if v.doubled != nil {
			v.list = distinct(v.list)
		}
	}
	return nil
}

// checkRange compares as Kafka does: as floating-point numbers, so that NaN passes.
func checkRange(rule, text string, n float64) *problem {
	if rule == "" {
		return nil
	}
	span, exception, _ := strings.Cut(rule, " or ")
	if exception != "" && text == exception {
		return nil
	}
	least, most, _ := strings.Cut(strings.Trim(span, "[]"), ",...")
	if limit, _ := strconv.ParseFloat(least, 64); n < limit {
		return &problem{reason: fmt.Sprintf("%s is less than %s, the least that is allowed", text, least), fix: "allowed is " + rule}
	}
	if most = strings.TrimPrefix(most, ","); most == "" {
		return nil
	}
	if limit, _ := strconv.ParseFloat(most, 64); n > limit {
		return &problem{reason: fmt.Sprintf("%s is more than %s, the most that is allowed", text, most), fix: "allowed is " + rule}
	}
	return nil
}

func checkChoice(rule, text string) *problem {
	if rule == "" {
		return nil
	}
	choices, anyCase := strings.CutPrefix(rule, "(any case) ")
	for choice := range strings.SplitSeq(strings.Trim(choices, "[]"), ", ") {
		if text == choice || anyCase && strings.EqualFold(text, choice) {
			return nil
		}
	}
	return &problem{reason: fmt.Sprintf("%q is none of the allowed values", text), fix: "allowed is one of " + choices}
}

// trim drops blanks and control characters from both ends of s.
func trim(s string) string { return javatext.Trim(s) }

// splitList cuts a list at its commas; white space around them does not count.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	entries := strings.Split(text, ",")
	for i, entry := range entries {
		entries[i] = strings.Trim(entry, " \t\n\v\f\r")
	}
	return entries
}

// distinct returns entries without those that stood there before.
func distinct(entries []string) []string {
	var out []string
	for _, entry := range entries {
		if !slices.Contains(out, entry) {
			out = append(out, entry)
		}
	}
	return out
}

// parseInteger reads what Integer.parseInt and its sisters read.
func parseInteger(text string, bits int) (int64, bool) {
	n, err := javatext.ParseInt(text, bits)
	return n, err == nil
}

// parseDouble reads what Double.parseDouble reads: NaN and Infinity in just this case, decimal and
// hexadecimal numbers without underscores, and the f or d of a Java literal behind them.
func parseDouble(text string) (float64, bool) {
	digits := strings.TrimLeft(text, "+-")
	switch {
	case digits == "NaN":
		return math.NaN(), len(text)-len(digits) <= 1
	case digits != "Infinity":
		if digits == "" || digits[0] != '.' && !('0' <= digits[0] && digits[0] <= '9') || strings.Contains(text, "_") {
			return 0, false
		}
		isHex := strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X")
		if suffixed := strings.ContainsAny(text[len(text)-1:], "fFdD"); suffixed && (!isHex || strings.ContainsAny(digits, "pP")) {
			text = text[:len(text)-1]
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	// Too large and too small numbers are infinite and zero.
	return f, err == nil || f != 0 && math.IsInf(f, 0)
}

// isClassName reports whether text is a well-formed name of a Java class. Whether there is such a class only Kafka can tell.
func isClassName(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" {
			return false
		}
		for i, r := range part {
			if !(unicode.IsLetter(r) || r == '_' || r == '$' || i > 0 && unicode.IsDigit(r)) {
				return false
			}
		}
	}
	return true
}
