package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOverrides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	text := "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n" +
		"controller.quorum.bootstrap.servers=127.0.0.1:9093\nlog.dirs=/file\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		overrides []string
		dirs      string
		source    string
	}{
		"none":                         {nil, "/file", file + " line 6"},
		"in place of the file's":       {[]string{"log.dirs=/other"}, "/other", "--override log.dirs"},
		"the last one counts":          {[]string{"log.dirs=/other", "log.dirs=/last"}, "/last", "--override log.dirs"},
		"the value may have an equals": {[]string{"log.dirs=/a=b"}, "/a=b", "--override log.dirs"},
		"blanks at the key's ends":     {[]string{" log.dirs =/other"}, "/other", "--override log.dirs"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(file, os.LookupEnv, tt.overrides...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.LogDirs, ","); got != tt.dirs || c.Source("log.dirs") != tt.source {
				t.Errorf("%s from %s, want %s from %s", got, c.Source("log.dirs"), tt.dirs, tt.source)
			}
		})
	}
	for name, tt := range map[string]struct{ override, want string }{
		"no equals":     {"log.dirs", `--override: "log.dirs" sets nothing`},
		"no key":        {"=x", `--override: "=x" sets nothing`},
		"no good value": {"node.id=one", "(from --override)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(file, os.LookupEnv, tt.override)
			if problem := (*Error)(nil); !errors.As(err, &problem) || !strings.Contains(problem.Where()+problem.What(), tt.want) {
				t.Errorf("error %v, want %s in it", err, tt.want)
			}
		})
	}
}
