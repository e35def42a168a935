package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// brokenWriter fails each write.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// streams returns an Output and what it has written.
func streams(json bool) (o *Output, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	o = NewOutput(World{Stdout: stdout, Stderr: stderr}, "kstorage")
	o.JSON = json
	return o, stdout, stderr
}

func TestFail(t *testing.T) {
	problem := &Problem{What: "no such voter", Where: "--initial-controllers", Fix: "first line\nsecond line"}
	verbatim := &Problem{Verbatim: true, What: "No available log directories to format."}
	tests := []struct {
		name string
		err  error
		want string // on stderr, as text
		what []string
	}{
		{"the result has said it", fmt.Errorf("wrapped: %w", ErrReported), "", nil},
		{"an error of another package", errors.New("no entropy"), "kstorage: no entropy\n", []string{"no entropy"}},
		{"what, where and fix", problem, "kstorage: no such voter\n  where: --initial-controllers\n  fix:   first line\n         second line\n", []string{"no such voter"}},
		{"wrapped", fmt.Errorf("wrapped: %w", problem), "kstorage: no such voter\n  where: --initial-controllers\n  fix:   first line\n         second line\n", []string{"no such voter"}},
		{"a sentence of Kafka's", verbatim, "No available log directories to format.\n", []string{"No available log directories to format."}},
		{"joined", errors.Join(verbatim, errors.Join(errors.New("a"), errors.New("b"))), "No available log directories to format.\nkstorage: a\nkstorage: b\n", []string{"No available log directories to format.", "a", "b"}},
		{"usage of the program", &UsageError{Reason: "no command given"}, "kstorage: no command given\n  fix:   kstorage --help shows how it is written\n", []string{"no command given"}},
		{"usage of a command, with a hint", fmt.Errorf("wrapped: %w", &UsageError{Command: "format", Reason: "what", Hint: "try this"}),
			"kstorage: what\n  fix:   try this\n         kstorage format --help shows how it is written\n", []string{"what"}},
		{"control characters", &Problem{What: "d\x1b[31m1\r\nok\x7f\x00é\u2028", Where: "a\tb\n"}, "kstorage: d\\x1b[31m1\\x0d\\x0aok\\x7f\\x00é\u2028\n  where: a\\x09b\\x0a\n", []string{"d\x1b[31m1\r\nok\x7f\x00é\u2028"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, stdout, stderr := streams(false)
			if rc := o.Fail(tt.err); rc != 1 || stdout.Len() > 0 || stderr.String() != tt.want {
				t.Errorf("%d, stdout %q, stderr\n%q, want\n%q", rc, stdout, stderr, tt.want)
			}
			o, stdout, stderr = streams(true)
			o.Warn("a warning")
			if rc := o.Fail(tt.err); rc != 1 || stdout.Len() > 0 {
				t.Errorf("%d, stdout %q", rc, stdout)
			}
			if tt.what == nil {
				if stderr.Len() > 0 {
					t.Errorf("stderr %q", stderr)
				}
				return
			}
			var document struct {
				Version  int
				Warnings []string
				Errors   []Problem
			}
			if err := json.Unmarshal(stderr.Bytes(), &document); err != nil || document.Version != 1 || !slices.Equal(document.Warnings, []string{"a warning"}) {
				t.Fatalf("%v: %s", err, stderr)
			}
			var what []string
			for _, p := range document.Errors {
				what = append(what, p.What)
			}
			if !slices.Equal(what, tt.what) {
				t.Errorf("errors %q, want %q", what, tt.what)
			}
		})
	}
}

func TestProblemInJSON(t *testing.T) {
	o, _, stderr := streams(true)
	o.Fail(&Problem{Verbatim: true, What: "<what> & where", Where: "here"})
	want := `{
  "version": 1,
  "warnings": [],
  "errors": [
    {
      "what": "<what> & where",
      "where": "here"
    }
  ]
}
`
	if stderr.String() != want {
		t.Errorf("got %s", stderr)
	}
	if (&Problem{What: "what"}).Error() != "what" {
		t.Error("a Problem's text is not What")
	}
}

func TestWarnAndNote(t *testing.T) {
	o, stdout, stderr := streams(false)
	o.Warn("two\nlines")
	o.Note("a note")
	if stdout.Len() > 0 || stderr.String() != "WARNING: two\\x0alines\na note\n" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	o, stdout, stderr = streams(true)
	o.Warn("two\nlines")
	o.Note("a note")
	if stdout.Len() > 0 || stderr.Len() > 0 || !slices.Equal(o.Document().Warnings, []string{"two\nlines"}) {
		t.Errorf("stdout %q, stderr %q, warnings %q", stdout, stderr, o.Document().Warnings)
	}
	// The head of a document is not changed by what comes later.
	head := o.Document()
	o.Warn("later")
	if len(head.Warnings) != 1 {
		t.Errorf("warnings %q", head.Warnings)
	}
}

func TestResult(t *testing.T) {
	type result struct {
		Document
		Path string `json:"path"`
	}
	o, stdout, stderr := streams(false)
	if err := o.Result(result{o.Document(), "d1"}, "text\n"); err != nil || stdout.String() != "text\n" || stderr.Len() > 0 {
		t.Errorf("%v, stdout %q, stderr %q", err, stdout, stderr)
	}
	o, stdout, stderr = streams(true)
	if err := o.Result(result{o.Document(), "<d&1>"}, "text\n"); err != nil || stdout.String() != "{\n  \"version\": 1,\n  \"warnings\": [],\n  \"path\": \"<d&1>\"\n}\n" || stderr.Len() > 0 {
		t.Errorf("%v, stdout %q, stderr %q", err, stdout, stderr)
	}
	if err := o.Result(func() {}, ""); err == nil || stderr.Len() > 0 {
		t.Error("a document that is none")
	}
}

// A stdout that cannot be written is an error, but not a reader that has seen enough. A stderr that cannot be written is none.
func TestBrokenStreams(t *testing.T) {
	for _, json := range []bool{false, true} {
		for _, tt := range []struct{ err, want error }{
			{syscall.ENOSPC, syscall.ENOSPC},
			{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, nil},
			{io.ErrClosedPipe, io.ErrClosedPipe},
		} {
			o := NewOutput(World{Stdout: brokenWriter{tt.err}, Stderr: brokenWriter{tt.err}}, "kstorage")
			o.JSON = json
			if err := o.Result(o.Document(), "text"); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("JSON %v: %v, want %v", json, err, tt.want)
			}
			o.Warn("a warning")
			o.Note("a note")
			if rc := o.Fail(errors.New("what")); rc != 1 {
				t.Errorf("exit code %d", rc)
			}
		}
	}
}

func TestMachine(t *testing.T) {
	w := Machine()
	t.Setenv("KSTORAGE_X", "")
	if value, ok := w.Env("KSTORAGE_X"); value != "" || !ok {
		t.Errorf("a variable that is set to nothing: %q, %v", value, ok)
	}
	if _, ok := w.Env("KSTORAGE_NOT_SET"); ok {
		t.Error("a variable that is not set")
	}
	if w.Stdout != os.Stdout || w.Stderr != os.Stderr || w.LocalHostName != nil || w.Now().IsZero() {
		t.Errorf("got %+v", w)
	}
	b := make([]byte, 16)
	if _, err := io.ReadFull(w.Random, b); err != nil || slices.Equal(b, make([]byte, 16)) {
		t.Errorf("random bytes %x, %v", b, err)
	}
}

// The wish for JSON counts behind a mistake too.
func TestMistakesAsJSON(t *testing.T) {
	for _, argv := range []string{"--json @nothing", "format --json @nothing", "format --jsonx --json", "format -x --json", "nothing --json", "@nothing format --json", "format --json rest"} {
		a, err := storageGrammar().Canonical(strings.Fields(argv), noEnv)
		if usage, ok := errors.AsType[*UsageError](err); !ok || !a.JSON || usage.Error() != usage.Reason {
			t.Errorf("%s: %v, JSON %v", argv, err, a.JSON)
		}
	}
	for _, argv := range []string{"format", "nothing", "format -- --jsonx"} {
		if a, err := storageGrammar().Canonical(strings.Fields(argv), noEnv); err == nil || a.JSON {
			t.Errorf("%s: %v, JSON %v", argv, err, a.JSON)
		}
	}
}

// Words that may be a part of a credential are not repeated, in whatever message.
func TestCredentialsAreHidden(t *testing.T) {
	for _, argv := range []string{
		"format -S SCRAM-SHA-256=[name=a,password= geheim7", "SCRAM-SHA-256=[name=a,password= geheim7", "format -c F -s=SCRAM-SHA-256=[password=geheim7]",
		"format -r SCRAM-SHA-256=[password=geheim7]", "scramgeheim7", "format -S password= @geheim7", "format --add-scramgeheim7", "format --xgeheim7 -S scram", "-- password geheim7",
		"format -S -geheim7 scram", "format --cluster-id --geheim7 -S scram", "format -xgeheim7 -S scram",
	} {
		if _, err := storageGrammar().Canonical(strings.Fields(argv), noEnv); err == nil || strings.Contains(err.Error(), "geheim7") {
			t.Errorf("%s: %v", argv, err)
		}
	}
	// The names of options are, for they tell what is wrong.
	_, err := storageGrammar().Canonical(strings.Fields("format --add-scrum=SCRAM-SHA-256=[password=x] --ignore"), noEnv)
	if usage, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(usage.Hint, "--add-scram") {
		t.Errorf("got %#v", err)
	}
}
