package kstorage

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// layers has the packages from the commands down to the disk. A package imports only from the layers behind
// its own, and within its layer.
var layers = [][]string{
	{"internal/sim", "internal/nodetest"},
	{"cmd/kstorage", "cmd/kfeatures", "internal/cli"},
	{"internal/node", "internal/client", "internal/client/admin", "internal/dump"},
	{"internal/controller", "internal/telemetry", "internal/status"},
	{"internal/wire"},
	{"internal/metadata", "format"},
	{"internal/raftlog"},
	{"checkpoint", "metaprops", "features", "internal/scram", "internal/raft"},
	{"internal/record", "internal/config", "internal/config/javaprops"},
	{"internal/disk", "internal/disk/crashdisk", "internal/kafkaid", "internal/javatext"},
}

// testOnly has the folders that hold nothing but tests.
var testOnly = map[string]bool{"interop": true, "bench": true}

func TestLayers(t *testing.T) {
	layer := map[string]int{}
	for i, packages := range layers {
		for _, p := range packages {
			layer[p] = i
		}
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		from := filepath.ToSlash(filepath.Dir(path))
		if testOnly[strings.SplitN(from, "/", 2)[0]] {
			return nil
		}
		own, ok := layer[from]
		if !ok {
			t.Errorf("%s belongs to no layer: add it", from)
			return nil
		}
		seen[from] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if to, ok := strings.CutPrefix(name, "kstorage/"); ok && layer[to] < own {
				t.Errorf("%s imports %s, which is above it", path, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for p := range layer {
		if !seen[p] {
			t.Errorf("the layers name %s, which does not exist", p)
		}
	}
}
