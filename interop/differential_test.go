//go:build interop

package interop

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	seed   = flag.Uint64("seed", 1, "of the trials of TestSameAsKafka")
	trials = flag.Int("trials", 300, "how many trials TestSameAsKafka makes")
)

// trial is one call of format: a configuration, what lies in its directories before, and arguments. $WORK stands for
// the folder of the trial in all of them.
type trial struct {
	properties []string
	before     map[string]string // path: content; a path that ends in a slash is a folder
	args       []string
}

// TestSameAsKafka runs generated calls of format with both tools in the same folder, one after the other, and compares
// the exit code, standard output and all files. What differs on purpose stands in deliberate.
//
//	go test -tags interop -run TestSameAsKafka ./interop -args -seed 7 -trials 2000
func TestSameAsKafka(t *testing.T) {
	work := t.TempDir()
	for i := range *trials {
		random := rand.New(rand.NewPCG(*seed, uint64(i)))
		tr := newTrial(random, work)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			empty := tr.prepare(t, work)
			theirs := kafkaTool(t, storageTool, tr.args...)
			theirFiles := snapshot(t, work)
			tr.prepare(t, work)
			ours := kstorage(t, work, []string{"KSTORAGE_RELEASE_VERSION=4.4-IV2"}, tr.args...)
			ourFiles := snapshot(t, work)
			complaint := ""
			if d := tr.deliberate(theirs); d != nil {
				if complaint = d.check(ours, empty, ourFiles); complaint != "" {
					complaint = "on purpose not as Kafka (" + d.reason + "): " + complaint
				}
			} else {
				complaint = difference(theirs, ours, theirFiles, ourFiles)
			}
			if complaint != "" {
				t.Errorf("%s\nconfiguration:\n  %s\nbefore: %q\n%s\n%s", complaint, strings.Join(tr.properties, "\n  "), tr.before, theirs, ours)
			}
		})
	}
}

// newTrial chooses mostly what is usual, so that many trials come to writing files, and always something unusual.
func newTrial(random *rand.Rand, work string) trial {
	pick := func(usual string, others ...string) string {
		if random.IntN(10) < 8 {
			return usual
		}
		return others[random.IntN(len(others))]
	}
	const (
		voterID = "JEXY6aqzQY-32P5TStzaFg"
		other   = "2@c2:9093:MvDxzVmcRsaTz33bUuRU6A"
	)
	roles := pick("broker,controller", "controller", "broker", "controller,broker")
	listeners := "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
	switch roles {
	case "controller":
		listeners = pick("CONTROLLER://127.0.0.1:19093", "CONTROLLER://localhost:19093", "CONTROLLER://:19093")
	case "broker":
		listeners = "PLAINTEXT://127.0.0.1:19092"
	}
	quorum := pick("controller.quorum.bootstrap.servers=127.0.0.1:19093", "controller.quorum.voters=1@127.0.0.1:19093",
		"controller.quorum.voters=1@127.0.0.1:19093,2@c2:9093", "controller.quorum.bootstrap.servers=c1:9093,c2:9093")
	dirs := pick("$WORK/d1", "$WORK/d1,$WORK/d2", "$WORK/d2,$WORK/d1", "$WORK/a b,$WORK/d1", "$WORK/x/y/z", "$WORK/d1,$WORK/d2,$WORK/d3", "$WORK/d1, $WORK/d1")
	tr := trial{before: map[string]string{}, properties: []string{
		"process.roles=" + roles,
		pick("node.id=1", "node.id=1", "broker.id=1", "node.id=01"),
		"listeners=" + listeners,
		"controller.listener.names=CONTROLLER",
		quorum,
		pick("log.dirs=", "log.dir=") + dirs,
	}}
	if random.IntN(5) == 0 {
		tr.properties = append(tr.properties, pick("metadata.log.dir=$WORK/d2", "metadata.log.dir=$WORK/m"))
	}
	if random.IntN(8) == 0 {
		tr.properties = append(tr.properties, pick("num.io.threads=4", "log.segment.bytes=7", "advertised.listeners=PLAINTEXT://h:1", "node.id=2", "nonsense=x",
			"advertised.listeners=PLAINTEXT://h:1,CONTROLLER://h:2", "process.roles=", "controller.quorum.auto.join.enable=true"))
	}

	// What is in the directories already.
	meta := func(version, cluster, node, directory string) string {
		return "#\n#Mon Jan 01 00:00:00 UTC 2024\n" + version + cluster + node + directory
	}
	const v1, cid, nid = "version=1\n", "cluster.id=" + clusterID + "\n", "node.id=1\n"
	if random.IntN(3) == 0 {
		tr.before["d1/meta.properties"] = pick(meta(v1, cid, nid, "directory.id=IO8aYqGKTIGJlHOKaLK-aw\n"),
			meta(v1, "cluster.id=XcZZOzUqS4yHOjhMQB6JLQ\n", nid, "directory.id=IO8aYqGKTIGJlHOKaLK-aw\n"), // another cluster
			meta(v1, cid, "node.id=7\n", "directory.id=IO8aYqGKTIGJlHOKaLK-aw\n"),                         // another node
			meta(v1, cid, nid, ""),                                                 // no directory id
			meta("version=0\n", cid, "broker.id=1\n", ""),                          // before KRaft
			meta(v1, cid, nid, "directory.id=AAAAAAAAAAAAAAAAAAAAAA\n"),            // reserved
			meta(v1, cid, nid, "directory.id=IO8aYqGKTIGJlHOKaLK-aw\nextra=yes\n")) // unknown key
	}
	if random.IntN(6) == 0 {
		tr.before["d2/meta.properties"] = pick(meta(v1, cid, nid, "directory.id=P93iaE5oRLgeYDvLvCyQuA\n"),
			meta(v1, cid, nid, "directory.id=IO8aYqGKTIGJlHOKaLK-aw\n")) // the same as in d1
	}
	if random.IntN(6) == 0 {
		left := pick("d1/", "d1/meta.properties.tmp", "d1/topic-0/00000000000000000000.log", "d1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
		tr.before[left] = ""
	}

	// The command line.
	tr.args = []string{"format", "-c", "$WORK/server.properties"}
	add := func(args ...string) { tr.args = append(tr.args, args...) }
	add(pick("-t", "--cluster-id"), pick(clusterID, "my-cluster", "a=b:c#d!e\\f", "Größe", "7", "-5", "XcZZOzUqS4yHOjhMQB6JLQ", " x"))
	switch static := strings.Contains(quorum, "voters"); {
	case static && random.IntN(10) < 8, !static && roles == "broker" && random.IntN(10) < 6:
	default:
		switch pick("-s", "-N", "-I", "-I", "") {
		case "-s":
			add(pick("-s", "--standalone"))
		case "-N":
			add(pick("-N", "--no-initial-controllers"))
		case "-I":
			own := "1@127.0.0.1:19093:" + voterID
			add(pick("-I", "--initial-controllers"), pick(own, own+","+other, other+", "+own, other, own+",", "1@127.0.0.1:19093", own+","+own,
				"1@[::1]:19093:"+voterID, "1@c1:0:"+voterID, "1@:9:"+voterID, "x@c1:1:"+voterID, "1@c1:1:AAAAAAAAAAAAAAAAAAAAAA"))
		}
	}
	if random.IntN(3) > 0 {
		add(pick("-r", "--release-version"), pick("4.0", "3.3-IV3", "3.5", "3.5-IV2", "3.7-IV2", "3.9", "4.0-IV3", "4.1-IV0", "4.2", "4.3-IV0", "4.4-IV1", "4.4", "4.4.0", "4.0.1.2", "3.2", "4.9", "x"))
	}
	for range random.IntN(3) {
		name := pick("transaction.version", "group.version", "share.version", "streams.version", "eligible.leader.replicas.version", "kraft.version", "metadata.version", "nosuch.version")
		add(pick("-f", "--feature"), name+"="+pick("1", "0", "2", "3", "-1", "17", "29", "+1", "x"))
	}
	for range random.IntN(2) {
		salt := `,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="`
		add(pick("-S", "--add-scram"), pick("SCRAM-SHA-256", "SCRAM-SHA-512", "SCRAM-SHA-1")+"=["+pick("name=alice", `name="alice"`, "name=", "user=alice", "name=Zoë")+
			pick(salt, ",salt=N3E=", ",salt=%%%")+pick("", ",iterations=8192", ",iterations=100", ",iterations=x")+
			pick(",password=wonderland", `,saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="`, ",password=", ",password=a=b", ",password=a,b", "")+"]")
	}
	if random.IntN(4) == 0 {
		add(pick("-g", "--ignore-formatted"))
	}
	if random.IntN(15) == 0 {
		add(pick("--nonsense", "left-over", "-g", "-t"))
	}
	for i, p := range tr.properties {
		tr.properties[i] = strings.ReplaceAll(p, "$WORK", work)
	}
	for i, a := range tr.args {
		tr.args[i] = strings.ReplaceAll(a, "$WORK", work)
	}
	return tr
}

// prepare empties the folder, fills it with what the trial begins with and returns that.
func (tr trial) prepare(t *testing.T, work string) files {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(work, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range tr.before {
		full := filepath.Join(work, path)
		folder := filepath.Dir(full)
		if strings.HasSuffix(path, "/") {
			folder = full
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "/") {
			writeFile(t, full, content)
		}
	}
	writeFile(t, filepath.Join(work, "server.properties"), strings.Join(tr.properties, "\n")+"\n")
	return snapshot(t, work)
}

// files are the contents of a folder: for each path its mode, and for a file its text with what is random masked.
type files map[string]string

var (
	dateLine         = regexp.MustCompile(`(?m)^#\w{3} \w{3} .*$`)
	givenDirectories = []string{"JEXY6aqzQY-32P5TStzaFg", "IO8aYqGKTIGJlHOKaLK-aw", "P93iaE5oRLgeYDvLvCyQuA", "AAAAAAAAAAAAAAAAAAAAAA"}
	directoryLine    = regexp.MustCompile(`(?m)^directory\.id=(.*)$`)
)

func snapshot(t *testing.T, work string) files {
	t.Helper()
	found := files{}
	err := filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case d.IsDir():
		case strings.HasSuffix(path, ".checkpoint") && info.Size() > 0:
			text += lines(masked(kafkaDump(t, path)))
		case d.Name() == "meta.properties":
			text += " " + dateLine.ReplaceAllString(directoryLine.ReplaceAllStringFunc(readFile(t, path), func(line string) string {
				if slices.Contains(givenDirectories, strings.TrimPrefix(line, "directory.id=")) {
					return line
				}
				return "directory.id=RANDOM"
			}), "#DATE")
		default:
			text += " " + readFile(t, path)
		}
		found[path] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// diff names a path that differs.
func (want files) diff(got files) string {
	for path, text := range want {
		if got[path] != text {
			return fmt.Sprintf("%s\n got: %s\nwant: %s", path, got[path], text)
		}
	}
	for path, text := range got {
		if _, ok := want[path]; !ok {
			return fmt.Sprintf("%s should not be there: %s", path, text)
		}
	}
	return ""
}

// difference compares as golden cases are compared; "" if there is none.
func difference(theirs, ours result, theirFiles, ourFiles files) string {
	switch {
	case theirs.exit != ours.exit:
		return fmt.Sprintf("exit code %d, not %d", ours.exit, theirs.exit)
	case theirs.exit != 0 && ours.stderr == "":
		return "fails without a word"
	case comparable(theirs.stdout) != comparable(ours.stdout):
		return "other standard output"
	case strings.Contains(theirs.stderr, "already formatted") != strings.Contains(ours.stderr, "already formatted"):
		return "scripts search standard error for `already formatted`"
	case strings.Contains(ours.stderr, "panic:") || strings.Contains(ours.stderr, "goroutine "):
		return "a stack trace"
	}
	return theirFiles.diff(ourFiles)
}

// comparable sorts the lines about directories, whose order is that of a hash map, and masks the list of records.
func comparable(stdout string) string {
	all := strings.Split(stdout, "\n")
	for i, line := range all {
		if strings.HasPrefix(line, "Bootstrap metadata: ") {
			all[i] = "Bootstrap metadata: "
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
