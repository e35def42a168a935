package cli

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

// World is what a command sees of the machine it runs on. Tests give fixed ids and times.
type World struct {
	Stdout, Stderr io.Writer
	Env            func(string) (string, bool)
	Now            func() time.Time
	Random         io.Reader
	// LocalHostName is the name other machines reach this one by, as far as it knows.
	LocalHostName func() string
}

// Machine is the real one.
func Machine() World {
	return World{
		Stdout:        os.Stdout,
		Stderr:        os.Stderr,
		Env:           os.LookupEnv,
		Now:           time.Now,
		Random:        rand.Reader,
		LocalHostName: localHostName,
	}
}

// localHostName is what Java calls the canonical name of the local host: the name that the
// first address of the host name resolves back to, if it resolves to that address again, else
// the address. Where the host name does not resolve at all it is the host name.
func localHostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	addresses, err := net.LookupHost(host)
	if err != nil || len(addresses) == 0 {
		return host
	}
	address := addresses[0]
	for _, a := range addresses {
		if net.ParseIP(a).To4() != nil {
			address = a // Java prefers IPv4 unless told otherwise
			break
		}
	}
	names, err := net.LookupAddr(address)
	if err != nil || len(names) == 0 {
		return address
	}
	name := strings.TrimSuffix(names[0], ".")
	back, err := net.LookupHost(name)
	if err != nil {
		return address
	}
	for _, a := range back {
		if a == address {
			return name
		}
	}
	return address
}

// reason is what the operating system says of err, without the path that the caller names.
func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
