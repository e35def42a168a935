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
			err = fmt.Errorf("%w (%d)", ErrLocked, lock.Pid)
		}
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return func() { f.Close() }, nil
}

// LockDir takes the lock of flock on the directory itself, which belongs to the open descriptor.
func (osFS) LockDir(name string) (release func(), err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil, syscall.ENOTSUP, syscall.ENOSYS, syscall.EINVAL, syscall.EBADF, syscall.ENOLCK:
		// Network file systems emulate these locks by those of fcntl, which a directory cannot have.
		return func() { f.Close() }, nil
	case syscall.EWOULDBLOCK:
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	default:
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
}
