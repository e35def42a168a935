//go:build interop

package interop

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// lab is what all tests share. TestMain fills it and no test changes it.
var lab struct {
	scratch   string    // a folder that is gone afterwards; JVMs run in it
	kstorage  string    // the command under test
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
	version, jars, err := kafkaJars()
	if err != nil {
		return err
	}
	err = checkJava()
	if _, missing := os.Stat(jars); missing != nil {
		if err = errors.Join(err, checkMaven()); err == nil {
			err = fetchKafka(version, jars)
		}
	}
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

	if lab.kstorage = os.Getenv("INTEROP_KSTORAGE"); lab.kstorage == "" {
		lab.kstorage = filepath.Join(lab.scratch, "kstorage")
		build := exec.Command("go", "build", "-o", lab.kstorage, "./cmd/kstorage")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build kstorage: %w\n%s", err, out)
		}
	}
	return nil
}

func checkJava() error {
	const fix = "install a JDK of version 17 or newer and put its bin folder on the PATH (Debian: apt-get install openjdk-17-jdk-headless)"
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("no java on the PATH: %s", fix)
	}
	out, err := exec.Command("javac", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("no javac on the PATH: %s", fix)
	}
	match := regexp.MustCompile(`javac (\d+)`).FindSubmatch(out)
	if match == nil {
		return fmt.Errorf("javac -version says %q, which names no version: %s", bytes.TrimSpace(out), fix)
	}
	if major, _ := strconv.Atoi(string(match[1])); major < 17 {
		return fmt.Errorf("javac is of version %d, Kafka's servers need 17: %s", major, fix)
	}
	return nil
}

func checkMaven() error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return errors.New("no mvn on the PATH, it fetches Kafka's jars: install Maven (Debian: apt-get install maven)")
	}
	return nil
}

// kafkaJars returns the version of Kafka and the folder for its jars and all that they need.
func kafkaJars() (version, folder string, err error) {
	if version = os.Getenv("INTEROP_KAFKA"); version == "" {
		pom, err := os.ReadFile("pom.xml")
		if err != nil {
			return "", "", err
		}
		match := regexp.MustCompile(`<kafka.version>(.*)</kafka.version>`).FindSubmatch(pom)
		if match == nil {
			return "", "", errors.New("pom.xml has no kafka.version")
		}
		version = string(match[1])
	}
	cache := os.Getenv("INTEROP_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", "", fmt.Errorf("no cache folder for Kafka's jars, set INTEROP_CACHE: %w", err)
		}
		cache = filepath.Join(user, "kstorage")
	}
	return version, filepath.Join(cache, "kafka-"+version), nil
}

// fetchKafka fills the folder. Maven puts the jars into a temporary one beside it first, so the folder is there only
// when it is complete, and two runs at the same time do no harm.
func fetchKafka(version, jars string) error {
	if err := os.MkdirAll(filepath.Dir(jars), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(jars), "partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	fmt.Fprintf(os.Stderr, "interop: fetching Apache Kafka %s with Maven into %s\n", version, jars)
	mvn := exec.Command("mvn", "-q", "-B", "-f", "pom.xml", "-Dkafka.version="+version,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+partial)
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s: %w\n%s", version, err, out)
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	if err := os.Rename(partial, jars); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
