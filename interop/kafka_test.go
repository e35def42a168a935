//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kstorage/interop/kafkajars"
)

// lab is what all tests share. TestMain fills it and no test changes it.
var lab struct {
	scratch   string // a folder that is gone afterwards; JVMs run in it
	kstorage  string // the commands under test
	kfeatures string
	classPath string    // Kafka's jars and InteropHost
	logConfig string    // log4j2.properties for both kinds of JVM
	tools     *toolHost // runs Kafka's command line tools
}

func TestMain(m *testing.M) {
	var err error
	if lab.scratch, err = os.MkdirTemp("", "kstorage-interop-"); err == nil {
		err = fillLab()
	}
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "interop: %v\n", err)
	} else {
		code = m.Run()
		lab.tools.stop()
	}
	os.RemoveAll(lab.scratch)
	os.Exit(code)
}

func fillLab() error {
	_, jars, err := kafkajars.Get("pom.xml")
	if err != nil {
		return err
	}
	if lab.logConfig, err = filepath.Abs("java/log4j2.properties"); err != nil {
		return err
	}
	classes := filepath.Join(lab.scratch, "classes")
	if out, err := exec.Command("javac", "-d", classes, "java/InteropHost.java").CombinedOutput(); err != nil {
		return fmt.Errorf("compile java/InteropHost.java: %w\n%s", err, out)
	}
	lab.classPath = classes + string(filepath.ListSeparator) + filepath.Join(jars, "*")
	lab.tools = &toolHost{}

	for name, path := range map[string]*string{"kstorage": &lab.kstorage, "kfeatures": &lab.kfeatures} {
		if *path = os.Getenv("INTEROP_" + strings.ToUpper(name)); *path != "" {
			continue
		}
		*path = filepath.Join(lab.scratch, name)
		build := exec.Command("go", "build", "-o", *path, "./cmd/"+name)
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}
