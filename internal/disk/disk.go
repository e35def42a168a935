// Package disk is the one door to files that must survive a crash: a small interface, its
// implementation on the operating system, and the durable way to write a file: Temp writes it under another
// name, Replace gives it its own.
// The twin in crashdisk fails at any step and loses what was not synced, so that a test can
// crash its users anywhere.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// FS is a file system as the writers of this project need it. Errors are *fs.PathError or
// *os.LinkError, as those of package os.
type FS interface {
	ReadFile(name string) ([]byte, error)
	Open(name string) (Reader, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	// Create makes an empty file for writing; one that exists is emptied and keeps its mode.
	Create(name string, perm fs.FileMode) (File, error)
	// OpenAppend opens a file that exists for writing at its end.
	OpenAppend(name string) (File, error)
	Rename(oldName, newName string) error
	Remove(name string) error
	// SyncDir makes the entries of a directory durable: files created in it, renamed in it
	// or removed from it survive a crash from then on.
	SyncDir(name string) error
	// Access returns an error unless the effective user may list, search and write the directory name. It
	// sees a read-only mount, and writes nothing.
	Access(name string) error
	// Lock takes the lock of the running node on the file name, until release is called. It does not
	// create the file: where there is none, nobody runs, and there is nothing to lock. ErrLocked: another process has it.
	Lock(name string) (release func(), err error)
	// LockDir keeps other processes that do the same out of the directory name, until release is called. ErrLocked: another
	// process has it. It leaves no trace, and is no lock for those who take Lock. Where the file system has no such locks it is none.
	LockDir(name string) (release func(), err error)
}

// Reader is a file that is open for reading.
type Reader interface {
	io.ReadCloser
	io.ReaderAt
}

// File is an open file that is being written. What has been written may be read while more is.
type File interface {
	io.Writer // at the end of the file, or of what is in front of the zeros of Extend
	io.ReaderAt
	Chmod(perm fs.FileMode) error
	// Extend puts size zero bytes at the end of the file, in place of those that are there. What Write puts in their place later is
	// made durable by a SyncData that need not make the file longer: that is faster. They are there until Truncate.
	Extend(size int) error
	// Truncate cuts the file to size bytes, which it must have.
	Truncate(size int64) error
	// Sync makes what was done to the file durable. The file's name is made so by FS.SyncDir.
	Sync() error
	// SyncData is Sync, but leaves out what reading the content does not need: mode and times.
	SyncData() error
	Close() error
}

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) ReadFile(name string) ([]byte, error)       { return os.ReadFile(name) }
func (osFS) Open(name string) (Reader, error)           { return os.Open(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (osFS) Lstat(name string) (fs.FileInfo, error)     { return os.Lstat(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error {
	return os.MkdirAll(name, perm)
}
func (osFS) Create(name string, perm fs.FileMode) (File, error) {
	return openFile(name, os.O_CREATE|os.O_TRUNC, perm)
}
func (osFS) OpenAppend(name string) (File, error) { return openFile(name, 0, 0) }
func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }
func (osFS) Remove(name string) error             { return os.Remove(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// osFile adds to a file what it lacks. Its offset, which all that writes goes by, is where the zeros of Extend begin.
type osFile struct{ *os.File }

func openFile(name string, flags int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|flags, perm)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Extend(size int) error {
	end, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.WriteAt(make([]byte, size), end)
	}
	return err
}

func (f osFile) Truncate(size int64) error {
	err := f.File.Truncate(size)
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	return err
}

// Temp writes a file whose content is durable but whose name is not: after a crash the file may be gone or
// be empty, and once Replace has been called it is whole. write fills it; perm, under the umask, is the mode it ends with.
// Where it fails the file is removed again. One that a crash has left is replaced.
func Temp(d FS, name string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	// 1. The file was made read-only, 2. the process was killed, 3. now it could not be opened for writing.
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Writable for the owner while it is written, whatever mode it ends with.
	f, err := d.Create(name, perm|0o200)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			d.Remove(name)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if perm&0o200 == 0 {
		if err := f.Chmod(perm); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// Replace gives the file that Temp wrote its final name, durably; the rename is atomic, so a
// reader finds the file that was there before or the whole new one.
func Replace(d FS, temp, name string) error {
	if err := d.Rename(temp, name); err != nil {
		return err
	}
	return d.SyncDir(Parent(name))
}
