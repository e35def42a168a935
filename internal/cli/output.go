package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
)

// Problem is a failure as a person reads it: what, where, how to go on.
type Problem struct {
	// Verbatim says that What is a sentence that scripts know from Kafka's tools: it opens its
	// line without the program's name.
	Verbatim bool   `json:"-"`
	What     string `json:"what"`
	Where    string `json:"where,omitempty"`
	Fix      string `json:"fix,omitempty"`
}

func (p *Problem) Error() string { return p.What }

// Output prints what one command has to say: its result, as text or as one JSON document, its
// warnings and its failure.
type Output struct {
	Program string
	JSON    bool

	stdout, stderr io.Writer
	noting         sync.Mutex // notes come from several goroutines
	warnings       []string
}

// NewOutput writes to the streams of w.
func NewOutput(w World, program string) *Output {
	return &Output{Program: program, stdout: w.Stdout, stderr: w.Stderr}
}

// Warn tells of something that is no failure. Text goes to stderr at once; JSON has it in the document.
func (o *Output) Warn(text string) {
	o.warnings = append(o.warnings, text)
	if !o.JSON {
		o.note("WARNING: " + oneLine(text))
	}
}

// Note tells a person what goes on. It is on stderr, and not there at all when the result is JSON.
func (o *Output) Note(text string) {
	if !o.JSON {
		o.note(text)
	}
}

func (o *Output) note(text string) {
	o.noting.Lock()
	defer o.noting.Unlock()
	fmt.Fprintln(o.stderr, text)
}

// Document is what every JSON document begins with; results embed it.
type Document struct {
	Version  int      `json:"version"` // of the document's form; keys are only ever added
	Warnings []string `json:"warnings"`
}

// Document returns the head of a JSON document with the warnings so far.
func (o *Output) Document() Document {
	return Document{Version: 1, Warnings: append([]string{}, o.warnings...)}
}

// Result prints the result: document if JSON was asked for, else the text. Errors are those of stdout.
func (o *Output) Result(document any, text string) error {
	if o.JSON {
		return o.encode(o.stdout, document)
	}
	return Written(io.WriteString(o.stdout, text))
}

// Written is the error of a write to stdout. That nobody reads on is none: the reader has seen enough.
func Written(_ int, err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func (o *Output) encode(w io.Writer, document any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return err
	}
	return Written(w.Write(b.Bytes()))
}

// ErrReported is the failure of a command that has said what is wrong in its result.
var ErrReported = errors.New("the result says what is wrong")

// Fail prints err, each of the problems that it joins, and returns the exit code.
func (o *Output) Fail(err error) int {
	if errors.Is(err, ErrReported) {
		return 1
	}
	problems := o.problems(err)
	if o.JSON {
		o.encode(o.stderr, struct {
			Document
			Errors []*Problem `json:"errors"`
		}{o.Document(), problems})
		return 1
	}
	for _, p := range problems {
		what := oneLine(p.What)
		if !p.Verbatim {
			what = o.Program + ": " + what
		}
		o.note(what)
		o.detail("where", oneLine(p.Where))
		o.detail("fix", p.Fix)
	}
	return 1
}

// oneLine replaces control characters, which paths and ids may have, so that a problem stays a line and a terminal unharmed.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (o *Output) detail(label, text string) {
	if text == "" {
		return
	}
	indent := strings.Repeat(" ", len("  where: "))
	fmt.Fprintf(o.stderr, "  %-7s%s\n", label+":", strings.ReplaceAll(text, "\n", "\n"+indent))
}

// problems takes an error apart into what a person reads.
func (o *Output) problems(err error) []*Problem {
	var p *Problem
	if p, ok := err.(*Problem); ok {
		return []*Problem{p}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*Problem
		for _, e := range joined.Unwrap() {
			out = append(out, o.problems(e)...)
		}
		return out
	}
	if errors.As(err, &p) {
		return []*Problem{p}
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		command := strings.TrimSpace(o.Program + " " + usage.Command)
		fix := fmt.Sprintf("%s --help shows how it is written", command)
		if usage.Hint != "" {
			fix = usage.Hint + "\n" + fix
		}
		return []*Problem{{What: usage.Reason, Fix: fix}}
	}
	return []*Problem{{What: err.Error()}}
}
