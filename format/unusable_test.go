package format

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"kstorage/internal/disk"
)

// brokenDisk is a disk on which some calls fail, by the method's name and the path.
type brokenDisk struct {
	disk.FS
	errs map[string]error
}

func (b brokenDisk) fail(op, name string) error {
	if err := b.errs[op+" "+name]; err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (b brokenDisk) ReadFile(name string) ([]byte, error) {
	if err := b.fail("ReadFile", name); err != nil {
		return nil, err
	}
	return b.FS.ReadFile(name)
}

func (b brokenDisk) Stat(name string) (fs.FileInfo, error) {
	if err := b.fail("Stat", name); err != nil {
		return nil, err
	}
	return b.FS.Stat(name)
}

func (b brokenDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := b.fail("ReadDir", name); err != nil {
		return nil, err
	}
	return b.FS.ReadDir(name)
}

func (b brokenDisk) Access(name string) error {
	if err := b.fail("Access", name); err != nil {
		return err
	}
	return b.FS.Access(name)
}

func (b brokenDisk) Lock(name string) (func(), error) {
	if err := b.fail("Lock", name); err != nil {
		return nil, err
	}
	return b.FS.Lock(name)
}

// A directory that cannot be used stops the run, unless it is one of the data directories of a node that is formatted.
func TestUnusableDirectories(t *testing.T) {
	faults := []struct {
		name  string
		files map[string]string // X is the directory
		errs  map[string]error
		path  string // in the error
		cause error  // nil: any
	}{
		{"it is a file", map[string]string{"X": ""}, nil, "X", syscall.ENOTDIR},
		{"nothing is known about it", map[string]string{"X/": ""}, map[string]error{"ReadFile X/meta.properties": syscall.EIO, "Stat X": syscall.EIO}, "X", syscall.EIO},
		{"it cannot be searched", map[string]string{"X/": ""}, map[string]error{"ReadFile X/meta.properties": syscall.EACCES, "Stat X/meta.properties": syscall.EACCES}, "X", syscall.EACCES},
		{"meta.properties is damaged", map[string]string{"X/meta.properties": "version=7\n"}, nil, "X/meta.properties", nil},
		{"it is gone between two looks", map[string]string{"X/": ""}, map[string]error{"Stat X": syscall.ESTALE}, "X", syscall.ESTALE},
		{"it cannot be listed", map[string]string{"X/": ""}, map[string]error{"ReadDir X": syscall.EACCES}, "X", syscall.EACCES},
		{"it is read-only", map[string]string{"X/": ""}, map[string]error{"Access X": syscall.EROFS}, "X", syscall.EROFS},
		{"its folder of the metadata log cannot be listed", map[string]string{"X/__cluster_metadata-0/": ""}, map[string]error{"ReadDir X/__cluster_metadata-0": syscall.EACCES}, "X/__cluster_metadata-0", syscall.EACCES},
		{"its folder of the metadata log is read-only", map[string]string{"X/__cluster_metadata-0/": ""}, map[string]error{"Access X/__cluster_metadata-0": syscall.EACCES}, "X/__cluster_metadata-0", syscall.EACCES},
		{"its folder of the metadata log is a file", map[string]string{"X/__cluster_metadata-0": ""}, nil, "X/__cluster_metadata-0", syscall.ENOTDIR},
		{"its meta.properties.tmp is a folder", map[string]string{"X/meta.properties.tmp/": ""}, nil, "X/meta.properties.tmp", syscall.EISDIR},
		{"its bootstrap.checkpoint is a folder", map[string]string{"X/bootstrap.checkpoint/": ""}, nil, "X/bootstrap.checkpoint", syscall.EISDIR},
		{"it does not exist, and the folder above is read-only", nil, map[string]error{"Access /mnt": syscall.EROFS}, "X", syscall.EROFS},
		{"it does not exist, and nothing is known about the folder above", nil, map[string]error{"Stat /mnt": syscall.EIO}, "X", syscall.EIO},
		{"it does not exist, and a file is above it", map[string]string{"/mnt/dN": ""}, nil, "X", syscall.ENOTDIR},
	}
	for _, f := range faults {
		for _, isMetadata := range []bool{false, true} {
			if !isMetadata && strings.Contains(f.name, "folder of the metadata log is a file") {
				continue // a data directory has no use for it: a file of any name is as good
			}
			for _, formatted := range []bool{false, true} {
				for _, ignore := range []bool{false, true} {
					path := "/mnt/dX"
					if strings.Contains(f.name, "a file is above it") {
						path = "/mnt/dN/dX"
					}
					replace := strings.NewReplacer("X", path).Replace
					files, errs := map[string]string{"/mnt/": "", "/d1/": ""}, map[string]error{}
					for name, content := range f.files {
						files[replace(name)] = content
					}
					for call, err := range f.errs {
						errs[replace(call)] = err
					}
					if formatted {
						files["/d1/meta.properties"] = v1
					}
					o := nodeOptions("/d1", path)
					o.ClusterID, o.IgnoreFormatted = ptr(storedID), ignore
					if isMetadata {
						o.MetadataLogDir = path
					}
					p, err := newPlan(o, brokenDisk{diskWith(t, files), errs})
					at := func(format string, args ...any) {
						t.Helper()
						t.Errorf("%s; metadata directory: %v, other is formatted: %v, -g: %v: "+format, append([]any{f.name, isMetadata, formatted, ignore}, args...)...)
					}
					matches := func(e *DirError) bool {
						return e.Dir == path && e.Path == replace(f.path) && e.Op != "" && (f.cause == nil || errors.Is(e, f.cause)) && len(e.Done) == 0
					}
					switch {
					case formatted && !ignore:
						already, ok := errors.AsType[*AlreadyFormattedError](err)
						if !ok || already.Dir != "/d1" || len(already.Unusable) != 1 || !matches(already.Unusable[0]) || len(already.Unformatted) != 0 {
							at("%#v", err)
						}
					case formatted && !isMetadata:
						if err != nil || len(p.Skipped) != 1 || !matches(p.Skipped[0]) || len(p.Format) != 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], p.Skipped[0].Error()) {
							at("%+v, %v", p, err)
						}
					default:
						if dirErr, ok := errors.AsType[*DirError](err); !ok || !matches(dirErr) {
							at("%v", err)
						}
					}
				}
			}
		}
	}
}

func TestAllDirectoriesUnusable(t *testing.T) {
	files := map[string]string{"/d1": "", "/d2": ""}
	_, err := newPlan(nodeOptions("/d1", "/d2"), diskWith(t, files))
	unusable, ok := errors.AsType[*UnusableError](err)
	if !ok || len(unusable.Dirs) != 2 || unusable.Dirs[1].Dir != "/d2" || err.Error() != "No available log directories to format." || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %#v", err)
	}
	// Directories that can be read but not written are no such case in Kafka's tool.
	_, err = newPlan(nodeOptions("/d1"), brokenDisk{diskWith(t, map[string]string{"/d1/": ""}), map[string]error{"Access /d1": syscall.EROFS}})
	if dirErr, ok := errors.AsType[*DirError](err); !ok || isA[*UnusableError](err) || !strings.HasPrefix(dirErr.Error(), "cannot write to /d1: read-only file system for user id ") {
		t.Errorf("got %v", err)
	}
}

func TestLocked(t *testing.T) {
	for _, dir := range []string{"/d1", "/d2"} {
		d := diskWith(t, map[string]string{"/d1/meta.properties": v1, "/d2/": ""})
		o := nodeOptions("/d1", "/d2")
		o.IgnoreFormatted = true
		_, err := newPlan(o, brokenDisk{d, map[string]error{"Lock " + dir + "/.lock": disk.ErrLocked}})
		if dirErr, ok := errors.AsType[*DirError](err); !ok || !errors.Is(err, disk.ErrLocked) || dirErr.Dir != dir || dirErr.Path != dir+"/.lock" {
			t.Errorf("got %v", err)
		}
		// The lock may also be taken between New and Apply.
		p, err := newPlan(o, d)
		if err != nil {
			t.Fatal(err)
		}
		steps := d.Steps()
		p.disk = brokenDisk{d, map[string]error{"Lock " + dir + "/.lock": disk.ErrLocked}}
		if _, err := p.Apply(); !errors.Is(err, disk.ErrLocked) || d.Steps() > steps+3 {
			t.Errorf("got %v, last step %s", err, d.LastStep())
		}
	}
}
