package disk

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func (osFS) Access(name string) error {
	// The effective user, as for every other call; the real one may be another.
	err := unix.Faccessat(unix.AT_FDCWD, name, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err == nil {
		return nil
	}
	if err == unix.EACCES {
		// Containers know their users by number.
		return &fs.PathError{Op: "access", Path: name, Err: fmt.Errorf("%w for user id %d", err, os.Geteuid())}
	}
	return &fs.PathError{Op: "access", Path: name, Err: err}
}
