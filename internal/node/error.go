package node

import (
	"errors"
	"fmt"
)

// Error is a reason to stop that a person can do something about. Independent ones are joined.
type Error struct {
	What     string // one line
	Where    string // the file, directory or setting; "" where What names it
	Fix      string // the way out
	Verbatim bool   // What begins with a sentence of Kafka's that scripts look for: it opens its line without a prefix
	Err      error  // the cause, nil for none
}

// Error is What, and Where in brackets.
func (e *Error) Error() string {
	if e.Where == "" {
		return e.What
	}
	return fmt.Sprintf("%s (%s)", e.What, e.Where)
}

func (e *Error) Unwrap() error { return e.Err }

// unjoin takes what errors.Join has put together apart.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// joined is errors.Join of errors that are of this package.
func joined(errs []*Error) error {
	out := make([]error, len(errs))
	for i, e := range errs {
		out[i] = e
	}
	return errors.Join(out...)
}
