//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// savedScram are users whose records are the same each time: nothing is random in them.
var savedScram = []string{
	"-S", `SCRAM-SHA-256=[name=alice,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=",saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]`,
	"-S", `SCRAM-SHA-512=[name=bob,salt="MXMyMDU1ZWRuMWFxYjl1cjQ3Zmk=",iterations=8192,password=builder]`,
}

// modes are the ways to format the nodes of a cluster.
var modes = []struct {
	name  string
	nodes func(t *testing.T, folder string) []*node
	flags func(nodes []*node) []string
}{
	{
		name: "standalone",
		nodes: func(t *testing.T, folder string) []*node {
			n := newNode(t, folder, 1, "broker,controller", []string{"d1"})
			return []*node{n.write(t, bootstrapServers(n))}
		},
		flags: func([]*node) []string { return slices.Concat([]string{"-s"}, savedScram) },
	},
	{
		name: "initial controllers",
		nodes: func(t *testing.T, folder string) []*node {
			var nodes []*node
			for id := 1; id <= 3; id++ {
				nodes = append(nodes, newNode(t, folder, id, "controller", []string{"d1"}))
			}
			for _, n := range nodes {
				n.write(t, bootstrapServers(nodes...))
			}
			return nodes
		},
		flags: func(nodes []*node) []string {
			return slices.Concat([]string{"-I", initialControllers(nodes...)}, savedScram)
		},
	},
	{
		name: "static voters",
		nodes: func(t *testing.T, folder string) []*node {
			n := newNode(t, folder, 1, "controller", []string{"d1"})
			return []*node{n.write(t, staticVoters(n))}
		},
		flags: func([]*node) []string { return savedScram },
	},
	{
		name: "no initial controllers",
		nodes: func(t *testing.T, folder string) []*node {
			n := newNode(t, folder, 1, "controller", []string{"d1"})
			return []*node{n.write(t, bootstrapServers(n))}
		},
		flags: func([]*node) []string { return slices.Concat([]string{"-N"}, savedScram) },
	},
	{
		name: "broker only",
		nodes: func(t *testing.T, folder string) []*node {
			n := newNode(t, folder, 2, "broker", []string{"d1"})
			return []*node{n.write(t, "controller.quorum.bootstrap.servers="+host+":19093")}
		},
		flags: func([]*node) []string { return nil },
	},
	{
		name: "two log directories",
		nodes: func(t *testing.T, folder string) []*node {
			n := newNode(t, folder, 1, "broker,controller", []string{"data", "metadata"}).putMetadataLast()
			return []*node{n.write(t, bootstrapServers(n))}
		},
		flags: func([]*node) []string { return slices.Concat([]string{"-s"}, savedScram) },
	},
}

// TestKafkaReadsFormatted formats in each mode at each level, once with each tool, and compares: the text, what both
// `info` say about both, and every entry of the zero checkpoint as DumpLogSegments prints it.
func TestKafkaReadsFormatted(t *testing.T) {
	for _, level := range testedLevels() {
		for _, mode := range modes {
			t.Run(level+" "+mode.name, func(t *testing.T) {
				folder := t.TempDir()
				nodes := mode.nodes(t, folder)
				flags := slices.Concat([]string{"-t", clusterID, "-r", level}, mode.flags(nodes))
				if scramAt(t, level) == nil {
					flags = slices.DeleteFunc(flags, func(f string) bool { return f == "-S" || strings.HasPrefix(f, "SCRAM-") })
				}
				for _, n := range nodes {
					theirs := byKafka.run(t, n, "format", flags...)
					checkInfo(t, n)
					want := zeroCheckpoint(t, n)
					for _, dir := range n.dirs {
						if err := os.RemoveAll(dir); err != nil {
							t.Fatal(err)
						}
					}
					ours := byKstorage.run(t, n, "format", flags...)
					checkInfo(t, n)
					got := zeroCheckpoint(t, n)
					if theirs.exit != 0 || ours.exit != 0 || formatting(theirs) != formatting(ours) {
						t.Errorf("the tools don't agree:\n%s\n%s", theirs, ours)
					}
					if want, got := masked(want), masked(got); !slices.Equal(want, got) {
						t.Errorf("other records than kafka-storage's\n got: %s\nwant: %s", lines(got), lines(want))
					}
				}
			})
		}
	}
}

// zeroCheckpoint is what is in the file that a controller is formatted with, and nothing for a broker.
func zeroCheckpoint(t *testing.T, n *node) []entry {
	t.Helper()
	path := filepath.Join(n.metadataDir(), "00000000000000000000-0000000000.checkpoint")
	if !n.controller {
		if _, err := os.Stat(n.metadataDir()); err == nil {
			t.Errorf("a broker has %s", n.metadataDir())
		}
		return nil
	}
	return checkDump(t, path)
}

// formatting returns the lines that say which directories were formatted, sorted: Kafka's order is that of a hash map.
func formatting(r result) string {
	found := regexp.MustCompile(`(?m)^Formatting .*$`).FindAllString(r.stdout, -1)
	slices.Sort(found)
	return strings.Join(found, "\n")
}

var randomData = regexp.MustCompile(`"(crc|lastContainedLogTimestamp)":\d+|"voterDirectoryId":"[^"]*"`)

// masked removes what differs from run to run: times, what is computed from them, and random directory ids (those
// that -I gives stand in meta.properties too, which info shows). The voters are sorted.
func masked(entries []entry) []entry {
	var out []entry
	for _, e := range entries {
		e.Timestamp = 0
		e.Data = randomData.ReplaceAllString(e.Data, `$1`)
		if e.Kind == "KRaftVoters" {
			e.Data = sortedVoters(e.Data)
		}
		out = append(out, e)
	}
	return out
}

// sortedVoters sorts the pieces of the text that begin with a voter: Kafka's order is that of a hash map.
func sortedVoters(data string) string {
	voters := strings.Split(data, `{"endpoints"`)
	slices.Sort(voters)
	return strings.Join(voters, "\n")
}

func lines(entries []entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "\n%+v", e)
	}
	return b.String()
}

// TestKafkaRefusesLevel45 holds what the documentation promises: Kafka 4.4.0 doesn't read what kstorage writes at
// 4.5-IV1, and says so instead of starting with less.
func TestKafkaRefusesLevel45(t *testing.T) {
	t.Run("without a cluster id", func(t *testing.T) {
		n := newNode(t, t.TempDir(), 1, "broker,controller", []string{"d1"})
		n.write(t, bootstrapServers(n))
		if r := kstorage(t, n.folder(), nil, "format", "-c", n.config, "-s"); r.exit != 0 || !strings.Contains(r.stdout, "metadata.version 4.5-IV1.") {
			t.Fatal(r)
		}
		const reason = "Unknown meta.properties version number 2"
		if r := byKafka.run(t, n, "info"); r.exit != 1 || !strings.Contains(r.stdout, "  Error loading "+n.dirs[0]+"/meta.properties: "+reason+"\n") {
			t.Errorf("info should report version 2: %s", r)
		}
		if log := startServer(t, n).endsByItself(t); !strings.Contains(log, reason) {
			t.Error("the server should end because of version 2")
		}
	})
	t.Run("with a cluster id", func(t *testing.T) {
		n := newNode(t, t.TempDir(), 1, "broker,controller", []string{"d1"})
		byKstorage.format(t, n.write(t, bootstrapServers(n)), "-s", "-r", "4.5-IV1")
		if r := byKafka.run(t, n, "info"); r.exit != 0 {
			t.Errorf("meta.properties of version 1 is nothing new: %s", r)
		}
		if log := startServer(t, n).endsByItself(t); !strings.Contains(log, "Unknown metadata id 30") {
			t.Error("the server should end because of ClusterIdRecord")
		}
	})
}
