package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// warnOfFile looks at the file as a whole.
func (l *loader) warnOfFile(data []byte) {
	if !bytes.HasPrefix(data, []byte("\xEF\xBB\xBF")) {
		return
	}
	const text = "the file begins with a byte order mark, which Kafka reads as a part of the first line"
	if l.problems == nil {
		l.Warnings = append(l.Warnings, Warning{File: l.File, Line: 1, Text: text})
		return
	}
	l.problems = append(l.problems, &Error{File: l.File, Line: 1, Reason: text, Fix: "save the file without it"})
}

// warn looks for what Kafka takes in another meaning than the writer of the file will have had.
func (l *loader) warn() {
	key := l.dirsKey()
	for _, dir := range l.LogDirs {
		l.warnOfPath(key, dir)
	}
	if !l.Null("metadata.log.dir") {
		l.warnOfPath("metadata.log.dir", l.MetadataLogDir)
		l.warnOfNesting()
	}
	for _, p := range l.properties {
		if doubled := l.values[p.Key].doubled; doubled != nil {
			l.warning(p.Key, fmt.Sprintf("%q stands there more than once and counts once", distinct(doubled)))
		}
	}
	if l.number("broker.heartbeat.interval.ms")*2 > l.number("broker.session.timeout.ms") {
		l.warning(l.set("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
			fmt.Sprintf("%s is more than half of %s: a broker that is late once is fenced", l.describe("broker.heartbeat.interval.ms"), l.describe("broker.session.timeout.ms")))
	}
}

func (l *loader) warning(key, text string) {
	p, _ := l.given(key)
	l.Warnings = append(l.Warnings, Warning{File: l.File, Line: p.Line, Key: key, Text: text})
}

func (l *loader) warnOfPath(key, dir string) {
	if strings.Contains(dir, " #") || strings.Contains(dir, "\t#") {
		l.warning(key, fmt.Sprintf("the directory is %q: what follows # is no comment, as it does not start the line", dir))
	}
	if strings.Contains(dir, "${") {
		p, _ := l.given(key)
		why := l.unresolved(p)
		if why == "" {
			why = "${ means nothing there"
		}
		l.warning(key, fmt.Sprintf("the directory is %q: %s", dir, why))
	}
	if strings.ContainsFunc(dir, unicode.IsControl) && !isMisreadUTF8(dir) {
		l.warning(key, fmt.Sprintf("the directory %q has a control character in its name (a backslash is written twice)", dir))
	}
	if isMisreadUTF8(dir) {
		l.warning(key, fmt.Sprintf("the directory is %q: Kafka reads the file as ISO-8859-1, each byte a character; write characters beyond ASCII as \\uXXXX", dir))
	}
}

// isMisreadUTF8 reports whether text makes UTF-8 with characters beyond ASCII of its characters, taken as bytes.
func isMisreadUTF8(text string) bool {
	var b []byte
	for _, r := range text {
		if r > 0xFF {
			return false
		}
		b = append(b, byte(r))
	}
	return utf8.Valid(b) && utf8.RuneCount(b) < len(b)
}

// warnOfNesting names a metadata directory inside of a log directory: a broker takes its folder for that of a topic.
func (l *loader) warnOfNesting() {
	if !l.IsBroker {
		return
	}
	metadata := absolute(l.MetadataLogDir)
	i := slices.IndexFunc(l.LogDirs, func(dir string) bool {
		rel, err := filepath.Rel(absolute(dir), metadata)
		return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
	})
	if i >= 0 {
		l.warning("metadata.log.dir", fmt.Sprintf("%s is inside of the log directory %s: a Kafka broker does not start with it", l.MetadataLogDir, l.LogDirs[i]))
	}
}
