package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Join is the path of name in dir. Unlike filepath.Join it leaves dir as it is written: behind a symbolic
// link ".." is another folder than the one in front of the link.
func Join(dir, name string) string {
	if dir == "" || strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// Split cuts path into the folder that holds an entry and the entry's name. Like Join it resolves nothing.
func Split(path string) (parent, name string) {
	path = strings.TrimRight(path, "/")
	cut := strings.LastIndexByte(path, '/')
	name = path[cut+1:]
	switch parent = strings.TrimRight(path[:cut+1], "/"); {
	case parent != "":
	case cut >= 0 || path == "":
		parent = "/"
	default:
		parent = "."
	}
	return parent, name
}

// Parent is the folder that holds the entry path names.
func Parent(path string) string {
	parent, _ := Split(path)
	return parent
}

// Reason is what the system says of err, without the path. Where it is about permissions the number of the
// user stands behind it, by which containers know their users.
func Reason(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if linkErr, ok := errors.AsType[*os.LinkError](err); ok {
		err = linkErr.Err
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Sprintf("%v for user id %d", err, os.Geteuid())
	}
	return err.Error()
}
