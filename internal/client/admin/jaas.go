package admin

import (
	"errors"
	"fmt"
	"strings"
)

// jaasEntry is the one entry of sasl.jaas.config:
//
//	MODULE FLAG (NAME=VALUE)* ;
//
// A value is a word, or quoted with " or ', in which \ has Java's meanings. Comments are /* */ and //.
type jaasEntry struct {
	module  string
	options map[string]string
}

// parseJAAS reads an entry. No error has a value in it.
func parseJAAS(text string) (jaasEntry, error) {
	t := jaasText{text}
	e := jaasEntry{options: map[string]string{}}
	var err error
	if e.module, err = t.word(); err != nil || e.module == "" {
		return e, errors.Join(err, errors.New("the name of a login module is expected"))
	}
	flag, err := t.word()
	if err != nil {
		return e, err
	}
	switch strings.ToLower(flag) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return e, errors.New("required is expected behind the login module")
	}
	for {
		switch t.peek() {
		case 0:
			return e, errors.New("a semicolon is expected at the end")
		case ';':
			t.rest = t.rest[1:]
			if t.peek() != 0 {
				return e, errors.New("there is more than one login module")
			}
			return e, nil
		}
		name, err := t.word()
		if err == nil && (name == "" || t.peek() != '=') {
			err = errors.New("options of the form name=value are expected, with a semicolon at the end")
		}
		if err != nil {
			return e, err
		}
		t.rest = t.rest[1:]
		if c := t.peek(); c == ';' || c == '=' || c == 0 {
			return e, fmt.Errorf("an option, the one behind %d others, has no value", len(e.options))
		}
		if e.options[name], err = t.word(); err != nil {
			return e, err
		}
	}
}

// jaasText is what has not been read yet.
type jaasText struct{ rest string }

// peek skips blanks and comments and returns the next byte, 0 at the end.
func (t *jaasText) peek() byte {
	for {
		t.rest = strings.TrimLeft(t.rest, " \t\r\n\f")
		switch {
		case strings.HasPrefix(t.rest, "//"):
			_, t.rest, _ = strings.Cut(t.rest, "\n")
		case strings.HasPrefix(t.rest, "/*"):
			_, t.rest, _ = strings.Cut(t.rest, "*/")
		case t.rest == "":
			return 0
		default:
			return t.rest[0]
		}
	}
}

// word reads a word or a quoted text.
func (t *jaasText) word() (string, error) {
	quote := t.peek()
	if quote != '"' && quote != '\'' {
		end := strings.IndexAny(t.rest, " \t\r\n\f;=\"'")
		if end < 0 {
			end = len(t.rest)
		}
		word := t.rest[:end]
		t.rest = t.rest[end:]
		return word, nil
	}
	var b strings.Builder
	for i := 1; i < len(t.rest); i++ {
		switch c := t.rest[i]; c {
		case quote:
			t.rest = t.rest[i+1:]
			return b.String(), nil
		case '\n', '\r':
			return "", errors.New("a quoted text goes on behind the end of its line")
		case '\\':
			value, length := unescape(t.rest[i+1:])
			b.WriteString(value)
			i += length
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("a quotation mark is missing")
}

// unescape returns what follows a backslash, and its length: up to three octal digits, a letter for a control
// character, else the character itself.
func unescape(s string) (value string, length int) {
	digits := 0
	n := 0
	for digits < len(s) && digits < 3 && s[digits] >= '0' && s[digits] <= '7' && n*8+int(s[digits]-'0') <= 0o377 {
		n = n*8 + int(s[digits]-'0')
		digits++
	}
	switch {
	case digits > 0:
		return string(rune(n)), digits
	case s == "":
		return "", 0
	}
	if i := strings.IndexByte("abfnrtv", s[0]); i >= 0 {
		return "\a\b\f\n\r\t\v"[i : i+1], 1
	}
	return s[:1], 1
}
