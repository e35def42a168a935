package disk

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

func (f osFile) SyncData() error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for syncErr = unix.EINTR; syncErr == unix.EINTR; {
			syncErr = unix.Fdatasync(int(fd))
		}
	})
	if err == nil && syncErr != nil {
		err = &fs.PathError{Op: "sync", Path: f.Name(), Err: syncErr}
	}
	return err
}
