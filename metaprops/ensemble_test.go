package metaprops

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// disk is log directories in memory, for what a file system shows only to users without privileges, and the
// errors that it gives for a path.
type disk struct {
	fstest.MapFS
	errs map[string]error
}

func (d disk) ReadFile(name string) ([]byte, error) {
	if err := d.errs[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	b, err := fs.ReadFile(d.MapFS, strings.TrimPrefix(name, "/"))
	return b, systemError(name, err)
}

func (d disk) Stat(name string) (fs.FileInfo, error) {
	if err := d.errs["stat "+name]; err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	info, err := fs.Stat(d.MapFS, strings.Trim(name, "/"))
	return info, systemError(name, err)
}

func systemError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return err
}

// newDisk has a directory for each path; files are contents of meta.properties, "-" stands for none.
func newDisk(files map[string]string) disk {
	d := disk{fstest.MapFS{}, map[string]error{}}
	for dir, text := range files {
		dir = strings.TrimPrefix(dir, "/")
		d.MapFS[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		if text != "-" {
			d.MapFS[dir+"/"+FileName] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return d
}

func (d disk) load() Ensemble {
	dirs := map[string]bool{}
	for path, file := range d.MapFS {
		if file.Mode.IsDir() {
			dirs["/"+path] = true
		}
	}
	return Load(slices.Sorted(maps.Keys(dirs)), "", d)
}

func TestLoad(t *testing.T) {
	d := newDisk(map[string]string{
		"/formatted": "version=1\nnode.id=1\ncluster.id=x\n",
		"/empty":     "-",
		"/version9":  "version=9\n",
		"/escape":    `a=\u00`,
		"/secret":    "version=1\nnode.id=1\ncluster.id=x\n",
		"/locked":    "version=1\nnode.id=1\ncluster.id=x\n",
	})
	d.MapFS["plain"] = &fstest.MapFile{}
	d.errs["/plain/meta.properties"] = syscall.ENOTDIR
	d.errs["/secret/meta.properties"] = syscall.EACCES
	d.errs["/locked/meta.properties"] = syscall.EACCES
	d.errs["stat /locked/meta.properties"] = syscall.EACCES
	d.errs["stat /hidden/dir"] = syscall.EACCES

	tests := []struct {
		dir, reason string
		state       State
		missing     bool
		err         string
		is          error
	}{
		{dir: "/formatted", state: Formatted},
		{dir: "/formatted/", state: Formatted, reason: "a slash at the end means nothing"},
		{dir: "/empty", state: Empty},
		{dir: "/none", state: Empty, missing: true},
		{dir: "/version9", state: Failed, err: "cannot decode /version9/meta.properties: Unknown meta.properties version number 9"},
		{dir: "/escape", state: Failed, err: "cannot decode /escape/meta.properties: line 1: "},
		{dir: "/plain", state: Failed, err: "cannot open /plain: not a directory", is: syscall.ENOTDIR},
		{dir: "/secret", state: Failed, err: "cannot read /secret/meta.properties: permission denied", is: fs.ErrPermission},
		{dir: "/locked", state: Failed, err: "cannot search /locked: permission denied", is: fs.ErrPermission},
		{dir: "/hidden/dir", state: Failed, err: "cannot stat /hidden/dir: permission denied", is: fs.ErrPermission},
	}
	for _, tt := range tests {
		t.Run(tt.dir, func(t *testing.T) {
			got := Load([]string{tt.dir}, "", d).Dirs[0]
			if got.Path != tt.dir || got.State != tt.state || got.Missing != tt.missing {
				t.Errorf("%+v, want state %d, missing %v", got, tt.state, tt.missing)
			}
			if tt.err == "" != (got.Err == nil) || got.Err != nil && !strings.HasPrefix(got.Err.Error(), tt.err) {
				t.Errorf("error %v, want %s", got.Err, tt.err)
			}
			if tt.is != nil && !errors.Is(got.Err, tt.is) {
				t.Errorf("%v is no %v", got.Err, tt.is)
			}
		})
	}
}

func TestLoadMetadataDir(t *testing.T) {
	d := newDisk(map[string]string{"/a": "-", "/b": "-", "/meta": "-"})
	for metadataDir, want := range map[string]string{"": "/b /a", "/a": "/b /a", "/meta": "/b /a /meta"} {
		e := Load([]string{"/b", "/a"}, metadataDir, d)
		var got []string
		for _, d := range e.In(Empty) {
			got = append(got, d.Path)
		}
		if strings.Join(got, " ") != want || e.MetadataDir != metadataDir {
			t.Errorf("metadata directory %q: %s (%q), want %s", metadataDir, got, e.MetadataDir, want)
		}
	}
}

func TestFile(t *testing.T) {
	for dir, want := range map[string]string{
		"d1":         "d1/meta.properties",
		"/a//b/":     "/a/b/meta.properties",
		"./a/../b/.": "./a/../b/./meta.properties",
		"/":          "/meta.properties",
	} {
		if got := (Dir{Path: dir}).File(); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

func TestVerify(t *testing.T) {
	const (
		d  = "directory.id=IPSRFnY5RtqEmJV5clXmdA\n"
		d2 = "directory.id=MvDxzVmcRsaTz33bUuRU6A\n"
		a1 = "version=1\nnode.id=1\ncluster.id=A\n"
		b1 = "version=1\nnode.id=1\ncluster.id=B\n"
		a7 = "version=1\nnode.id=7\ncluster.id=A\n"
		v2 = "version=2\nnode.id=1\n"
	)
	given := Expect{ClusterID: "A", ClusterIDFrom: "--cluster-id", NodeID: 1, NodeIDFrom: "node.id (server.properties:2)"}
	alone := Expect{NodeID: NoNode}
	tests := []struct {
		name   string
		expect Expect
		files  map[string]string
		want   []string // lines of the joined errors
	}{
		{"as expected", given, map[string]string{"/d1": a1 + d, "/d2": a1 + d2}, nil},
		{"nothing there", given, map[string]string{"/d1": "-"}, nil},
		{"nothing there, but must be", Expect{Formatted: true}, map[string]string{"/d1": "-"},
			[]string{"No readable meta.properties files found."}},
		{"another cluster id", given, map[string]string{"/d1": a1, "/d2": b1},
			[]string{"Invalid cluster.id in: /d2/meta.properties. Expected A, but read B (on disk: B; --cluster-id: A)"}},
		{"the escaped form of the stored id", Expect{ClusterID: `x\=\=`, NodeID: NoNode}, map[string]string{"/d1": "version=1\nnode.id=1\ncluster.id=x=="}, nil},
		{"another node id", given, map[string]string{"/d1": a7},
			[]string{"Stored node id 7 doesn't match previous node id 1 in /d1/meta.properties. 7 is on disk, 1 comes from node.id (server.properties:2)."}},
		{"both in one directory and one in the next", given, map[string]string{"/d1": strings.Replace(a7, "=A", "=B", 1), "/d2": b1}, []string{
			"Invalid cluster.id in: /d1/meta.properties. Expected A, but read B (on disk: B; --cluster-id: A)",
			"Stored node id 7 doesn't match previous node id 1 in /d1/meta.properties. 7 is on disk, 1 comes from node.id (server.properties:2).",
			"Invalid cluster.id in: /d2/meta.properties. Expected A, but read B (on disk: B; --cluster-id: A)"}},
		{"files that contradict each other", alone, map[string]string{"/d1": a1, "/d2": strings.Replace(a7, "=A", "=B", 1)}, []string{
			"Invalid cluster.id in: /d2/meta.properties. Expected A, but read B (on disk: B; /d1/meta.properties: A)",
			"Stored node id 7 doesn't match previous node id 1 in /d2/meta.properties. 7 is on disk, 1 comes from /d1/meta.properties."}},
		{"two files are compared without escapes", alone, map[string]string{"/d1": "version=1\nnode.id=1\ncluster.id=x\\=", "/d2": "version=1\nnode.id=1\ncluster.id=x\\\\="},
			[]string{`Invalid cluster.id in: /d2/meta.properties. Expected x=, but read x\= (on disk: x\=; /d1/meta.properties: x=)`}},
		{"version 2 without an id fits any", given, map[string]string{"/d1": v2, "/d2": a1}, nil},
		{"version 2 without an id, others agree", alone, map[string]string{"/d1": v2, "/d2": a1, "/d3": v2}, nil},
		{"an empty id of version 1 fits none", given, map[string]string{"/d1": "version=1\nnode.id=1\ncluster.id="},
			[]string{"Invalid cluster.id in: /d1/meta.properties. Expected A, but read  (on disk: ; --cluster-id: A)"}},
		{"version 0 without a node id", given, map[string]string{"/d1": "version=0\ncluster.id=A"}, nil},
		{"version 0 with another node id", given, map[string]string{"/d1": "version=0\nbroker.id=7"},
			[]string{"Stored node id 7 doesn't match previous node id 1 in /d1/meta.properties. 7 is on disk, 1 comes from node.id (server.properties:2)."}},
		{"reserved directory id", given, map[string]string{"/d1": a1 + "directory.id=AAAAAAAAAAAAAAAAAAAAAA", "/d2": a1 + "directory.id=AAAAAAAAAAAAAAAAAAAAYw"}, []string{
			"Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAAA found in /d1",
			"Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAYw found in /d2"}},
		{"a disk was copied", given, map[string]string{"/d1": a1 + d, "/d2": a1 + d, "/d3": a1 + d2, "/d4": a1 + d},
			[]string{"Duplicate directory ID IPSRFnY5RtqEmJV5clXmdA found in /d1 and /d2 and /d4: one of them is a copy"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := newDisk(tt.files).load().Verify(tt.expect)
			if got, want := errorText(err), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("Verify:\n%s\nwant:\n%s", got, want)
			}
			if strings.Contains(strings.ToLower(errorText(err)), "already formatted") {
				t.Error("entrypoints search the output for these words and carry on")
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestVerifyErrorTypes(t *testing.T) {
	e := newDisk(map[string]string{
		"/d1": "version=1\nnode.id=1\ncluster.id=A\ndirectory.id=IPSRFnY5RtqEmJV5clXmdA",
		"/d2": "version=1\nnode.id=2\ncluster.id=B\ndirectory.id=IPSRFnY5RtqEmJV5clXmdA",
	}).load()
	err := e.Verify(Expect{NodeID: NoNode})
	if c, ok := errors.AsType[*ClusterIDError](err); !ok || c.Stored != "B" || c.Expected != "A" || c.Path != "/d2/meta.properties" || c.From != "/d1/meta.properties" {
		t.Errorf("cluster: %+v", c)
	}
	if n, ok := errors.AsType[*NodeIDError](err); !ok || n.Stored != 2 || n.Expected != 1 {
		t.Errorf("node: %+v", n)
	}
	if d, ok := errors.AsType[*DirectoryIDError](err); !ok || d.Reserved || !slices.Equal(d.Dirs, []string{"/d1", "/d2"}) {
		t.Errorf("directory: %+v", d)
	}
	if err := (Ensemble{}).Verify(Expect{Formatted: true}); !errors.Is(err, ErrNotFormatted) {
		t.Errorf("%v is no ErrNotFormatted", err)
	}
}

func TestClusterID(t *testing.T) {
	e := newDisk(map[string]string{"/d1": "-", "/d2": "version=2\nnode.id=1", "/d3": "version=1\nnode.id=1\ncluster.id=A"}).load()
	if id, file := e.ClusterID(); id != "A" || file != "/d3/meta.properties" {
		t.Errorf("ClusterID = %q, %q", id, file)
	}
	if id, file := (Ensemble{Dirs: e.Dirs[:2]}).ClusterID(); id != "" || file != "" {
		t.Errorf("without an id: %q, %q", id, file)
	}
}

type dirsRecord struct {
	Cluster *string
	Node    *int32
	Dirs    []struct {
		Name, State string
		File        []byte
	}
	Verify string
	Status int
	Info   string
}

func (r dirsRecord) load() Ensemble {
	d := disk{fstest.MapFS{}, map[string]error{}}
	var dirs []string
	for _, dir := range r.Dirs {
		path := filepath.Join("/work", dir.Name)
		dirs = append(dirs, path)
		switch dir.State {
		case "plain":
			d.MapFS[path[1:]] = &fstest.MapFile{}
			d.errs[path+"/meta.properties"] = syscall.ENOTDIR
		case "dir":
			d.MapFS[path[1:]] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			if dir.File != nil {
				d.MapFS[path[1:]+"/"+FileName] = &fstest.MapFile{Data: dir.File}
			}
		}
	}
	return Load(dirs, "", d)
}

// The same ensembles are refused for the same reason. Kafka reports one of several, in the order of a hash
// table, and compares with whichever file comes first there, so without an expectation only the kind of the reason counts.
func TestVerifyAsKafka(t *testing.T) {
	for _, record := range records[dirsRecord](t, "dirs.jsonl") {
		expect := Expect{NodeID: NoNode, Formatted: true}
		if record.Cluster != nil {
			expect.ClusterID = *record.Cluster
		}
		if record.Node != nil {
			expect.NodeID = *record.Node
		}
		err := record.load().Verify(expect)
		got, want := errorText(err), strings.ReplaceAll(record.Verify, "$WORK", "/work")
		if (got == "") != (want == "") {
			t.Errorf("%+v: %q; Kafka: %q", record, got, want)
			continue
		}
		var ok bool
		switch {
		case want == "":
			ok = true
		case want == "No readable meta.properties files found.":
			ok = errors.Is(err, ErrNotFormatted)
		case strings.HasPrefix(want, "Invalid cluster.id in: "):
			ok = errors.As(err, new(*ClusterIDError)) && (record.Cluster == nil || strings.Contains(got, want))
		case strings.HasPrefix(want, "Stored node id "):
			want, _, _ = strings.Cut(want, " If you moved")
			ok = errors.As(err, new(*NodeIDError)) && (record.Node == nil || strings.Contains(got, want))
		case strings.HasPrefix(want, "Invalid reserved directory ID "):
			ok = strings.Contains(got, want)
		case strings.HasPrefix(want, "Duplicate directory ID "):
			ok = strings.Contains(got, "Duplicate directory ID ")
		}
		if !ok {
			t.Errorf("%+v: %q; Kafka: %q", record, got, want)
		}
	}
}
