//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kstorage/features"
	"kstorage/interop/kafkajars"
)

// olderKafkas are the versions of Kafka whose servers read other files than those of 4.4, which --kafka-version writes.
var olderKafkas = []string{"4.0.0", "3.9.1", "4.1.1", "4.2.0", "4.3.0"}

// startServerOf starts servers of an older Kafka.
func startServerOf(t *testing.T, version string) func(*testing.T, *node) *server {
	t.Helper()
	jars, err := kafkajars.Version("pom.xml", version)
	if err != nil {
		t.Fatal(err)
	}
	classPath := filepath.Join(jars, "*")
	if strings.HasPrefix(version, "3.") {
		classPath = withoutLog4j1(t, jars)
	}
	classPath = filepath.Join(lab.scratch, "classes") + string(filepath.ListSeparator) + classPath
	return func(t *testing.T, n *node) *server {
		t.Helper()
		return runServer(t, n, javaCommandIn(classPath, "info", "InteropHost", "server", n.config))
	}
}

// withoutLog4j1 returns a class path on which Kafka 3.9 logs as the others do. It calls Log4j 1 for its levels, so
// only the binding goes.
func withoutLog4j1(t *testing.T, jars string) string {
	t.Helper()
	entries, err := os.ReadDir(jars)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "slf4j-reload4j") {
			paths = append(paths, filepath.Join(jars, e.Name()))
		}
	}
	return strings.Join(paths, string(filepath.ListSeparator))
}

// TestKafkaVersion formats for servers of older releases, lets those boot, and then servers of 4.4 on the same
// directories, which can be upgraded to its level.
func TestKafkaVersion(t *testing.T) {
	versions := olderKafkas
	if !all() {
		versions = versions[:1]
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			start := startServerOf(t, version)
			t.Run("standalone controller", func(t *testing.T) {
				n := newNode(t, t.TempDir(), 1, "controller", []string{"d1"})
				n.write(t, bootstrapServers(n))
				bootOlder(t, version, start, "1", []string{"-s"}, n)
			})
			t.Run("combined with two directories", func(t *testing.T) {
				n := newNode(t, t.TempDir(), 1, "broker,controller", []string{"data", "metadata"}).putMetadataLast()
				n.write(t, bootstrapServers(n))
				bootOlder(t, version, start, "1", []string{"-s"}, n)
			})
			t.Run("static voters and a broker", func(t *testing.T) {
				folder := t.TempDir()
				controller := newNode(t, folder, 1, "controller", []string{"d1"})
				broker := newNode(t, folder, 2, "broker", []string{"d1"})
				quorum := staticVoters(controller)
				bootOlder(t, version, start, "0", nil, controller.write(t, quorum), broker.write(t, quorum))
			})
			t.Run("initial controllers and a broker", func(t *testing.T) {
				folder := t.TempDir()
				nodes := []*node{newNode(t, folder, 1, "controller", []string{"d1"}), newNode(t, folder, 2, "controller", []string{"d1"}),
					newNode(t, folder, 3, "controller", []string{"d1"}), newNode(t, folder, 4, "broker", []string{"d1", "d2"})}
				for _, n := range nodes {
					n.write(t, bootstrapServers(nodes[:3]...))
				}
				bootOlder(t, version, start, "1", []string{"-I", initialControllers(nodes[:3]...)}, nodes...)
			})
		})
	}
}

// bootOlder formats nodes, whose brokers come last, for servers of version and lets them boot; then Kafka 4.4.
func bootOlder(t *testing.T, version string, start func(*testing.T, *node) *server, kraftVersion string, flags []string, nodes ...*node) {
	release, err := features.ParseRelease(version)
	if err != nil {
		t.Fatal(err)
	}
	level := release.DefaultVersion(false).String()
	var voters, observers []int
	for _, n := range nodes {
		of := slices.Concat([]string{"--kafka-version", version}, scram)
		if n.controller {
			of = append(of, flags...)
			voters = append(voters, n.id)
		} else {
			observers = append(observers, n.id)
		}
		byKstorage.format(t, n, of...)
		for _, dir := range n.dirs {
			if _, err := os.Stat(filepath.Join(dir, "bootstrap.checkpoint")); err != nil {
				t.Error(err)
			}
		}
	}
	check := func(c *cluster, end func()) {
		t.Helper()
		c.checkQuorum(t, voters, observers)
		c.checkFeatures(t, kraftVersion)
		if last := nodes[len(nodes)-1]; last.broker {
			c.checkLogins(t, last)
		}
		end()
		c.stop(t)
		c.checkFiles(t)
	}
	older := bootBy(t, start, level, nodes...)
	for _, s := range slices.Concat(older.controllers, older.brokers) {
		if lines, _ := s.log.from(0); !strings.Contains(strings.Join(lines, "\n"), "Kafka version: "+version) {
			t.Errorf("node %d does not say that it is of Kafka %s", s.node.id, version)
		}
	}
	check(older, func() {})

	newer := boot(t, level, nodes...)
	check(newer, func() {
		eventually(t, "the upgrade", func() error {
			r := kafkaTool(t, featureTool, slices.Concat(newer.admin, []string{"upgrade", "--release-version", "4.4"})...)
			if r.exit != 0 {
				return fmt.Errorf("%v", r)
			}
			return nil
		})
		newer.level = features.LatestKafka.String()
		newer.checkFeatures(t, "1") // the upgrade takes kraft.version with it
	})
}
