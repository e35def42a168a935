//go:build interop

package interop

import (
	"os"
	"strings"
	"testing"
)

// TestFormatAddsDirectory gives a log directory more to a node that kafka-storage formatted and that has run. While the
// server runs, its lock keeps kstorage out.
func TestFormatAddsDirectory(t *testing.T) {
	n := newNode(t, t.TempDir(), 1, "broker,controller", []string{"d1"})
	byKafka.format(t, n.write(t, bootstrapServers(n)), "-s")
	c := boot(t, "4.4-IV2", n)

	n.dirs = append(n.dirs, n.dirs[0]+"-added")
	n.properties = append(n.properties, "log.dirs="+strings.Join(n.dirs, ","))
	n.write(t, bootstrapServers(n))
	more := []string{"-t", clusterID, "-s", "-g"}
	if r := byKstorage.run(t, n, "format", more...); r.exit != 1 || !strings.Contains(r.stderr, n.dirs[0]) {
		t.Errorf("format should be refused while the server holds its lock: %s", r)
	}
	if _, err := os.Stat(n.dirs[1]); err == nil {
		t.Errorf("a refused format made %s", n.dirs[1])
	}

	c.stop(t)
	if r := byKstorage.run(t, n, "format", more...); r.exit != 0 || formatting(r) != "Formatting data directory "+n.dirs[1]+" with metadata.version 4.4-IV2." {
		t.Error(r)
	}
	checkInfo(t, n)
	c = boot(t, "4.4-IV2", n)
	c.checkQuorum(t, []int{1}, nil)
	c.checkFeatures(t, "1")
	mustKafkaTool(t, topicTool, "--bootstrap-server", n.brokerAddress(), "--create", "--topic", "both", "--partitions", "2")
	eventually(t, "a partition in the added directory", func() error {
		_, err := os.Stat(n.dirs[1] + "/both-0")
		if err != nil {
			_, err = os.Stat(n.dirs[1] + "/both-1")
		}
		return err
	})
	c.stop(t)
	checkInfo(t, n)
	checkDumps(t, n)
}
