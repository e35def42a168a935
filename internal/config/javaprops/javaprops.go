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
// Logical lines are cut here and decoded by github.com/magiconair/properties, one at a time. Given a
// whole file that library differs from Java on more than a third of the generated inputs that were compared: it keeps
// no line numbers, ends a value at the \r of a backslash and CRLF, refuses a backslash at the end
// of the file, and reads a line end that is escaped within a key as a part of the key. On a
// logical line two differences are left, which decode makes up for: empty keys, and characters beyond U+FFFF. testdata
// holds results of Java 17.
package javaprops

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/magiconair/properties"
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

// IsName reports whether a key can be the name of a setting: nearly all have a dot. Others are better not shown: where a
// backslash is missing at the end of a line, a password or a private key goes on as the key of the next one.
func IsName(key string) bool {
	const characters = "abcdefghijklmnopqrstuvwxyz0123456789.-_"
	return strings.Contains(key, ".") && strings.Trim(key, characters) == ""
}

func parse(in string, latin1 bool) ([]Property, error) {
	r := lineReader{in: in, line: 1}
	var properties []Property
	for {
		line, number, ok := r.next()
		if !ok {
			return properties, nil
		}
		key, value, ok := decode(line, latin1)
		if !ok {
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

// loader decodes one logical line. `${…}` is Kafka's business.
var loader = properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}

// decode splits a logical line into key and value and replaces escapes. It fails on a malformed `\u`.
func decode(line string, latin1 bool) (key, value string, ok bool) {
	// The blank keeps a byte order mark from being taken off, the letter stands for an empty key.
	text := []byte{' '}
	emptyKey := line == "" || line[0] == '=' || line[0] == ':'
	if emptyKey {
		text = append(text, 'k')
	}
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' && i+1 < len(line) {
			if r, length, ok := unicodeEscape(line[i:]); ok && (r > 0xffff || r == '?') {
				text = utf8.AppendRune(text, r)
				i += length - 1
				continue
			}
			text = append(text, '\\')
			i++
		}
		if latin1 {
			text = utf8.AppendRune(text, rune(line[i]))
		} else {
			text = append(text, line[i])
		}
	}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return "", "", false
	}
	key = p.Keys()[0]
	value, _ = p.Get(key)
	if emptyKey {
		key = ""
	}
	return key, value, true
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
