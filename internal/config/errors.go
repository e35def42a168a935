package config

import (
	"fmt"
	"strings"
)

// Error is one problem of a configuration. What and Where are its text; the value of a setting of type password
// is in neither.
type Error struct {
	File string
	Line int    // of File on which the key stands; 0 where it does not stand there, or File could not be read
	Key  string // "" where the problem is none of a setting
	// Setting is the line of the file without its escapes, with (hidden) in place of a password.
	Setting string
	// From names what a config provider took the value from: "environment variable X", "file F".
	From string

	Reason   string
	Verbatim bool // Reason is a sentence of Kafka's that names the key: it opens its line without a prefix
	Fix      string
}

// What is the reason with the key in front.
func (e *Error) What() string {
	if e.Verbatim || e.Key == "" {
		return e.Reason
	}
	return e.Key + ": " + e.Reason
}

// Where is the place: the file, the line and what stands there.
func (e *Error) Where() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, " line %d", e.Line)
	}
	if e.Setting != "" {
		b.WriteString(": " + e.Setting)
	}
	if e.From != "" {
		b.WriteString(" (from " + e.From + ")")
	}
	return b.String()
}

func (e *Error) Error() string {
	return strings.TrimPrefix(e.Where()+": ", ": ") + e.What()
}

// Warning is something that Kafka takes as it stands, and that is hardly what its writer meant.
type Warning struct {
	File string
	Line int // 0 where it is about the whole file
	Key  string
	Text string
}

func (w Warning) String() string {
	s := w.File
	if w.Line > 0 {
		s = fmt.Sprintf("%s line %d", s, w.Line)
	}
	if w.Key != "" {
		s += ": " + w.Key
	}
	return s + ": " + w.Text
}
