// Package kafkajars fetches the jars of Apache Kafka with Maven, once for each version, into the user's cache folder. The
// environment chooses something else:
//
//	INTEROP_KAFKA  the version; without it that of the pom.xml
//	INTEROP_CACHE  the folder for the jars; without it kstorage in the user's cache folder
package kafkajars

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
)

// Get returns the version of Kafka and the folder with its jars and all that they need, and fetches them if they are not
// there. pom is the path of the pom.xml that names them. An error says what is missing on this machine.
func Get(pom string) (version, folder string, err error) {
	if version, err = versionOf(pom); err != nil {
		return "", "", err
	}
	folder, err = Version(pom, version)
	return version, folder, err
}

// Version is Get with a version of Kafka that is given.
func Version(pom, version string) (folder string, err error) {
	cache := os.Getenv("INTEROP_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder for Kafka's jars, set INTEROP_CACHE: %w", err)
		}
		cache = filepath.Join(user, "kstorage")
	}
	folder = filepath.Join(cache, "kafka-"+version)
	err = checkJava()
	if _, missing := os.Stat(folder); missing != nil {
		if err = errors.Join(err, checkMaven()); err == nil {
			err = fetch(pom, version, folder)
		}
	}
	return folder, err
}

func versionOf(pom string) (string, error) {
	if version := os.Getenv("INTEROP_KAFKA"); version != "" {
		return version, nil
	}
	text, err := os.ReadFile(pom)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(`<kafka.version>(.*)</kafka.version>`).FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("%s has no kafka.version", pom)
	}
	return string(match[1]), nil
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

// fetch fills the folder. Maven puts the jars into a temporary one beside it first, so the folder is there only when it
// is complete, and two runs at the same time do no harm.
func fetch(pom, version, folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(folder), "partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	fmt.Fprintf(os.Stderr, "fetching Apache Kafka %s with Maven into %s\n", version, folder)
	mvn := exec.Command("mvn", "-q", "-B", "-f", pom, "-Dkafka.version="+version,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+partial)
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s: %w\n%s", version, err, out)
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	if err := os.Rename(partial, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
