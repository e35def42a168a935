package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("locked by another process")

// Lock takes a write lock by fcntl on the whole file, as FileChannel.tryLock of Java does, so a Kafka server
// and we keep each other out. Such a lock belongs to the process: a second Lock of the same process succeeds, and
// when the process closes any descriptor of the file, one that only read it too, the lock is gone. So
// open it once, here, and nowhere else.
func (osFS) Lock(name string) (release func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart} // length 0: the whole file
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		defer f.Close()
		if err != syscall.EAGAIN && err != syscall.EACCES {
			return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
		}
		err = ErrLocked
		// The holder may be gone by now, or live in another container, which has no number here.
		if syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock) == nil && lock.Type != syscall.F_UNLCK && lock.Pid > 0 {
			err = fmt.Errorf("%w, number %d", ErrLocked, lock.Pid)
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return func() { f.Close() }, nil
}
