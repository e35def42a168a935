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
// other character is dropped. Blanks at the end of a value belong to it. Each byte of a file is
// one character (ISO-8859-1); text here is the same in UTF-8.
//
// It is our own parser because github.com/magiconair/properties differs from Java where no wrapper
// can help: it keeps no line numbers for values, ends a value at the \r of `\`+CRLF, refuses a
// backslash at the end of the file, drops properties whose key is empty, reads an escaped line
// end in a key as a part of it, and makes two characters of an escaped surrogate pair.
// Recorded results of Java are in testdata.
package javaprops

import (
	"fmt"
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

// SyntaxError is the one error that the format knows: a `\u` without four hexadecimal digits.
type SyntaxError struct {
	Line   int // on which the property begins
	Reason string
}

func (e *SyntaxError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Reason }

// Parse returns the properties of a file in its order. A key that stands there twice is there twice: the last
// one counts. The result does not share memory with b. Errors: *SyntaxError.
func Parse(b []byte) ([]Property, error) {
	r := lineReader{in: string(b), line: 1}
	var properties []Property
	for {
		line, number, ok := r.next()
		if !ok {
			return properties, nil
		}
		key, value := split(line)
		p := Property{Line: number}
		var err error
		if p.Key, err = unescape(key); err == nil {
			p.Value, err = unescape(value)
		}
		if err != nil {
			return nil, &SyntaxError{Line: number, Reason: err.Error()}
		}
		properties = append(properties, p)
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

// unescape replaces escapes and turns ISO-8859-1 into UTF-8.
func unescape(s string) (string, error) {
	i := 0
	for i < len(s) && s[i] != '\\' && s[i] < utf8.RuneSelf {
		i++
	}
	if i == len(s) {
		return s, nil
	}
	out := append(make([]byte, 0, len(s)+8), s[:i]...)
	for i < len(s) {
		c := s[i]
		i++
		if c != '\\' || i == len(s) {
			out = utf8.AppendRune(out, rune(c))
			continue
		}
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
			unit, err := codeUnit(s[i:])
			if err != nil {
				return "", err
			}
			i += 4
			// Two escapes make one character beyond U+FFFF. Half of such a pair is no text;
			// where Java writes or names it, it becomes a question mark.
			if utf16.IsSurrogate(unit) {
				low, err := escapedCodeUnit(s[i:])
				if err != nil {
					return "", err
				}
				if unit = utf16.DecodeRune(unit, low); unit == utf8.RuneError {
					unit = '?'
				} else {
					i += 6
				}
			}
			out = utf8.AppendRune(out, unit)
			continue
		}
		out = utf8.AppendRune(out, rune(c))
	}
	return string(out), nil
}

// escapedCodeUnit returns the code unit of the `\uXXXX` that s begins with, 0 where it begins with something else.
func escapedCodeUnit(s string) (rune, error) {
	if !strings.HasPrefix(s, `\u`) {
		return 0, nil
	}
	return codeUnit(s[2:])
}

// codeUnit returns the value of the four hexadecimal digits that s begins with.
func codeUnit(s string) (rune, error) {
	if len(s) < 4 {
		return 0, fmt.Errorf(`\u%s is no character: four hexadecimal digits belong behind \u`, printable(s))
	}
	// Bit size 16 and no sign: ParseUint takes neither signs nor underscores in base 16.
	unit, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil {
		return 0, fmt.Errorf(`\u%s is no character: four hexadecimal digits belong behind \u`, printable(s[:4]))
	}
	return rune(unit), nil
}

// printable quotes ISO-8859-1 text for a message.
func printable(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}
