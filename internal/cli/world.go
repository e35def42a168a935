package cli

import (
	"crypto/rand"
	"io"
	"os"
	"time"
)

// World is what a command sees of the machine it runs on. Tests give fixed ids and times.
type World struct {
	Stdout, Stderr io.Writer
	Env            func(string) (string, bool)
	Now            func() time.Time
	Random         io.Reader
	// LocalHostName is the name other machines reach this one by; nil: the one that package format finds.
	LocalHostName func() string
}

// Machine is the real one.
func Machine() World {
	return World{
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Env:    os.LookupEnv,
		Now:    time.Now,
		Random: rand.Reader,
	}
}
