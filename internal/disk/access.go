package disk

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

func (osFS) Access(name string) error {
	// The slash lets it fail for what is no directory. The effective user counts for every other call too.
	err := unix.Faccessat(unix.AT_FDCWD, name+"/", unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "access", Path: name, Err: err}
}
