package client

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/config"
	"kstorage/internal/kafkaid"
)

func TestReadController(t *testing.T) {
	const (
		listeners = "listeners=CONTROLLER://127.0.0.1:9093\n"
		formatted = "version=1\nnode.id=2\ncluster.id=cid\ndirectory.id=0uxowEDmQBWimN46s2tlBA\n"
	)
	for reason, test := range map[string]struct {
		properties string // behind node.id and log.dirs
		meta       string // meta.properties; "": none
		cluster    string
		endpoints  []string
		err        string // "": none
	}{
		"what is bound":                  {listeners, formatted, "cid", []string{"CONTROLLER://127.0.0.1:9093"}, ""},
		"what is advertised":             {listeners + "advertised.listeners=CONTROLLER://c2:19093\n", formatted, "cid", []string{"CONTROLLER://c2:19093"}, ""},
		"no host: as the server says":    {"listeners=CONTROLLER://:9093\n", formatted, "cid", []string{"CONTROLLER://canonical:9093"}, ""},
		"any host":                       {"listeners=CONTROLLER://0.0.0.0:9093\n", formatted, "cid", []string{"CONTROLLER://canonical:9093"}, ""},
		"two listeners":                  {"listeners=A://a:1,B://b:2\ncontroller.listener.names=B,A\nlistener.security.protocol.map=A:PLAINTEXT,B:SSL\n", formatted, "cid", []string{"B://b:2", "A://a:1"}, ""},
		"no cluster id yet":              {listeners, "version=2\nnode.id=2\ndirectory.id=0uxowEDmQBWimN46s2tlBA\n", "", []string{"CONTROLLER://127.0.0.1:9093"}, ""},
		"a port that is chosen at start": {"listeners=CONTROLLER://127.0.0.1:0\n", formatted, "", nil, "set advertised.listeners"},
		"a broker":                       {"process.roles=broker\nlisteners=PLAINTEXT://a:1\n", formatted, "", nil, "node 2 is no controller"},
		"not formatted":                  {listeners, "", "", nil, "is not formatted"},
		"a damaged file":                 {listeners, "version=1\n", "", nil, "cannot read the directory id"},
		"no directory id":                {listeners, "version=1\nnode.id=2\ncluster.id=cid\n", "", nil, "has no directory id"},
		"the directory of another":       {listeners, strings.Replace(formatted, "node.id=2", "node.id=3", 1), "", nil, "belongs to node 3"},
		"another metadata directory":     {listeners + "metadata.log.dir=NOWHERE\n", formatted, "", nil, "is not formatted"},
	} {
		t.Run(reason, func(t *testing.T) {
			dir := t.TempDir()
			if test.meta != "" {
				write(t, filepath.Join(dir, "meta.properties"), test.meta)
			}
			properties := "node.id=2\nprocess.roles=controller\ncontroller.quorum.bootstrap.servers=a:1\ncontroller.listener.names=CONTROLLER\nlog.dirs=" + dir + "\n"
			file := filepath.Join(t.TempDir(), "server.properties")
			write(t, file, properties+strings.ReplaceAll(test.properties, "NOWHERE", filepath.Join(dir, "none")))
			conf, err := config.Load(file, func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			v, err := ReadController(conf, func() string { return "canonical" })
			if test.err != "" {
				var e *Error
				if !errors.As(err, &e) || !strings.Contains(e.What+e.Fix, test.err) {
					t.Fatalf("%#v", err)
				}
				return
			}
			var endpoints []string
			for _, e := range v.Endpoints {
				endpoints = append(endpoints, e.String())
			}
			if err != nil || v.NodeID != 2 || kafkaid.String(v.DirectoryID) != "0uxowEDmQBWimN46s2tlBA" || v.ClusterID != test.cluster || !slices.Equal(endpoints, test.endpoints) {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
