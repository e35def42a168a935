package format

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// AlreadyFormattedError says that a directory was formatted before and that nobody asked to
// leave such directories alone. Its text is Kafka's; container entrypoints look for it.
type AlreadyFormattedError struct {
	Dir         string
	Unformatted []string // the directories that are still to be formatted
}

func (e *AlreadyFormattedError) Error() string {
	return fmt.Sprintf("Log directory %s is already formatted. Use --ignore-formatted to ignore this directory and format the others.", e.Dir)
}

// Fix is the way out.
func (e *AlreadyFormattedError) Fix() string {
	if len(e.Unformatted) == 0 {
		return ""
	}
	return "not formatted yet: " + strings.Join(e.Unformatted, ", ") + "; with --ignore-formatted they are"
}

// Refusal says that what was asked for would do harm or cannot work.
type Refusal struct {
	Reason string // one line; the sentences of Kafka's tool that scripts know are kept to the byte
	Known  bool   // Reason is such a sentence
	Option string // the long name of the option it is about, if it is about one
	Where  string // directory or file, where that is not in the reason
	Help   string // the way out
}

func (e *Refusal) Error() string { return e.Reason }

// DirError is a directory that cannot be formatted, or the step in which that failed.
type DirError struct {
	Dir  string // the log directory
	Op   string // the step: read, lock, create, write, ...
	Path string // the file or folder it concerns
	Err  error
	Help string // the way out, if there is another than to remove the cause
}

// Error has the path, the reason of the system and, where it is about permissions, the user as a
// number, by which containers know their users.
func (e *DirError) Error() string {
	reason := e.Err
	if pathErr, ok := errors.AsType[*fs.PathError](reason); ok {
		reason = pathErr.Err
	}
	if linkErr, ok := errors.AsType[*os.LinkError](reason); ok {
		reason = linkErr.Err
	}
	text := fmt.Sprintf("cannot %s %s: %v", e.Op, e.Path, reason)
	if errors.Is(reason, fs.ErrPermission) {
		text += fmt.Sprintf(" for user id %d", os.Geteuid())
	}
	return text
}

func (e *DirError) Unwrap() error { return e.Err }

// UnusableError says that none of the log directories can be used. Its text is Kafka's.
type UnusableError struct{ Dirs []*DirError }

func (e *UnusableError) Error() string { return "No available log directories to format." }

// Unwrap returns the errors of the directories.
func (e *UnusableError) Unwrap() []error {
	errs := make([]error, len(e.Dirs))
	for i, d := range e.Dirs {
		errs[i] = d
	}
	return errs
}
