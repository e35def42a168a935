// Package javaprops reads and writes the text format of java.util.Properties, in which
// server.properties, meta.properties and the Java clients' configuration files are written.
//
//	file     = logical lines; a line ends at \n, \r or \r\n
//	comment  = blanks ("#" | "!") anything, to the end of the natural line
//	property = blanks key [blanks] ["=" | ":"] [blanks] value
//	key      = up to the first "=", ":" or blank that no backslash escapes
//	blank    = space, tab, form feed
//
// A natural line that ends in an odd number of backslashes goes on in the next one, whose leading
// blanks are dropped. `\t`, `\n`, `\r`, `\f` and `\uXXXX` stand for a character, a backslash before any
// other character is dropped. Blanks at the end of a value belong to it. A file read as bytes has one
// character a byte (ISO-8859-1); keys and values here are UTF-8.
//
// It is our own parser because github.com/magiconair/properties differs from Java where no wrapper
// can help (on more than a third of the generated inputs that were compared): it keeps no line
// numbers, ends a value at the \r of a backslash and CRLF, refuses a backslash at the end of the
// file, loses properties whose key is empty, and reads a line end that is escaped within a key as a part of the key.
// testdata holds results of Java 17.
package javaprops

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Property is one property of a file, at the number of the natural line (from 1) on which its key begins.
type Property struct {
	Key, Value string
	Line       int
}

// SyntaxError is the one error that the format knows: a `\u` without four hexadecimal digits. It
// does not quote the text, which may be a password.
type SyntaxError struct {
	Line int // on which the property begins
}

func (e *SyntaxError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Reason() }

// Reason is what is wrong, without the place.
func (*SyntaxError) Reason() string {
	return `\u is not followed by four hexadecimal digits (a backslash itself is written \\)`
}

// Parse returns the properties of an ISO-8859-1 file, as Properties.load(InputStream) does, in the order of the file. A
// key that stands there twice is there twice: the last one counts. The result does not share memory with
// b. Errors: *SyntaxError.
func Parse(b []byte) ([]Property, error) { return parse(string(b), true) }

// ParseText is Parse for UTF-8 text, as Properties.load(Reader) reads it.
func ParseText(text string) ([]Property, error) { return parse(text, false) }

func parse(in string, latin1 bool) ([]Property, error) {
	r := lineReader{in: in, line: 1}
	var properties []Property
	for {
		line, number, ok := r.next()
		if !ok {
			return properties, nil
		}
		rawKey, rawValue := split(line)
		key, keyOK := unescape(rawKey, latin1)
		value, valueOK := unescape(rawValue, latin1)
		if !keyOK || !valueOK {
			return nil, &SyntaxError{Line: number}
		}
		properties = append(properties, Property{Key: key, Value: value, Line: number})
	}
}

// lineReader cuts logical lines: without comments, empty lines, leading blanks and the
// backslashes that join natural lines.
type lineReader struct {
	in   string
	at   int // position in in
	line int // number of the natural line at at
}

// next returns a logical line and the number of the natural line on which it begins.
func (r *lineReader) next() (text string, number int, ok bool) {
	var joined []byte // the parts of this logical line before the natural line at at
	started := false
	for r.at < len(r.in) {
		natural := strings.TrimLeft(r.natural(), " \t\f")
		first := len(joined) == 0
		// A comment is recognized wherever the logical line is still empty, so also behind a line
		// with nothing but a backslash. There an empty line is skipped as well, elsewhere it ends the line.
		if first && (natural == "" || natural[0] == '#' || natural[0] == '!') {
			r.endLine()
			continue
		}
		if first && !started {
			number = r.line
		}
		started = true
		continues := backslashesAtEnd(natural)%2 == 1
		if continues {
			natural = natural[:len(natural)-1]
		}
		end := r.endLine()
		// A file that ends within a logical line ends the line, even where nothing stands in it but a backslash:
		// that is a property with an empty key. Behind a backslash and CRLF Java has gone on and finds no line.
		if !continues || r.at == len(r.in) && end < 2 {
			if first {
				return natural, number, true
			}
			return string(append(joined, natural...)), number, true
		}
		joined = append(joined, natural...)
	}
	return string(joined), number, len(joined) > 0
}

// natural returns the rest of the natural line at the position and moves it to the line's end.
func (r *lineReader) natural() string {
	rest := r.in[r.at:]
	if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
		rest = rest[:end]
	}
	r.at += len(rest)
	return rest
}

// endLine skips the line end at the position and returns its length, 0 at the end of the file.
func (r *lineReader) endLine() int {
	rest := r.in[r.at:]
	length := min(len(rest), 1)
	if strings.HasPrefix(rest, "\r\n") {
		length = 2
	}
	if length > 0 {
		r.at += length
		r.line++
	}
	return length
}

func backslashesAtEnd(s string) int {
	return len(s) - len(strings.TrimRight(s, `\`))
}

// split cuts a logical line into the escaped key and the escaped value.
func split(line string) (key, value string) {
	end := 0
	for ; end < len(line); end++ {
		c := line[end]
		if c == '\\' {
			end++ // the next character is escaped
		} else if c == '=' || c == ':' || isBlank(c) {
			break
		}
	}
	if end >= len(line) {
		return line, ""
	}
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\f' }

// unescape replaces escapes, and turns ISO-8859-1 into UTF-8. It fails on a malformed `\u`.
func unescape(s string, latin1 bool) (text string, ok bool) {
	i := 0
	for i < len(s) && s[i] != '\\' && (s[i] < utf8.RuneSelf || !latin1) {
		i++
	}
	if i == len(s) {
		return s, true
	}
	out := append(make([]byte, 0, len(s)+8), s[:i]...)
	for i < len(s) {
		c := s[i]
		i++
		if c == '\\' && i < len(s) {
			c = s[i]
			i++
			switch c {
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 'f':
				c = '\f'
			case 'u':
				r, length, ok := unicodeEscape(s[i-2:])
				if !ok {
					return "", false
				}
				out = utf8.AppendRune(out, r)
				i += length - 2
				continue
			}
		}
		if latin1 {
			out = utf8.AppendRune(out, rune(c))
		} else {
			out = append(out, c)
		}
	}
	return string(out), true
}

// unicodeEscape reads the `\uXXXX` that s begins with, or the pair of them that makes one
// character beyond U+FFFF. Half of such a pair is no text: where Java writes or prints it, it becomes a
// question mark.
func unicodeEscape(s string) (r rune, length int, ok bool) {
	high, ok := codeUnit(s)
	if !ok || !utf16.IsSurrogate(high) {
		return high, 6, ok
	}
	if low, ok := codeUnit(s[6:]); ok {
		if r = utf16.DecodeRune(high, low); r != utf8.RuneError {
			return r, 12, true
		}
	}
	return '?', 6, true
}

// codeUnit returns the value of the `\uXXXX` that s begins with.
func codeUnit(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	// Of 16 bits in base 16: ParseUint takes neither a sign nor underscores there.
	unit, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(unit), err == nil
}
