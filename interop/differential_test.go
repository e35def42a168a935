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

// TestSameAsKafka runs generated calls of format, and of info after each, with both tools in the same folder, one after
// the other, and compares the exit code, standard output and all files. What differs on purpose stands in differences.
//
//	go test -tags interop -run TestSameAsKafka ./interop -args -seed 7 -trials 2000
func TestSameAsKafka(t *testing.T) {
	work := t.TempDir()
	good := 0
	for i := range *trials {
		tr := newTrial(rand.New(rand.NewPCG(*seed, uint64(i))), work)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			before := tr.prepare(t, work)
			theirs := kafkaTool(t, storageTool, tr.args...)
			theirFiles := snapshot(t, work)
			if theirs.exit == 0 {
				good++
			}
			tr.prepare(t, work)
			ours := kstorage(t, work, []string{"KSTORAGE_RELEASE_VERSION=4.4-IV2"}, tr.args...)
			ourFiles := snapshot(t, work)
			complaint := ""
			if reason := tr.deliberate("format"); reason == "" {
				complaint = difference(theirs, ours, before, theirFiles, ourFiles)
			} else if complaint = refusal(theirs, ours, before, ourFiles); complaint != "" {
				complaint = "on purpose not as Kafka (" + reason + "): " + complaint
			}
			if complaint == "" {
				// What both say about what lies there now.
				info := []string{"info", "-c", filepath.Join(work, "server.properties")}
				theirs, ours = kafkaTool(t, storageTool, info...), kstorage(t, work, nil, info...)
				if tr.deliberate("info") != "" {
					theirs.exit, theirs.stdout = 1, ours.stdout
				}
				if theirs.exit != ours.exit || comparable(theirs.stdout) != comparable(ours.stdout) {
					complaint = "other information"
				}
			}
			if complaint != "" {
				t.Errorf("%s\nconfiguration:\n%s\nbefore: %q\narguments: %q\n%s\n%s", complaint, tr.config, tr.before, tr.args, theirs, ours)
			}
		})
	}
	if t.Logf("kafka-storage did %d of %d calls", good, *trials); good < *trials/4 {
		t.Error("too few calls do something: choose more often what is usual")
	}
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
	writeFile(t, filepath.Join(work, "server.properties"), tr.config)
	return snapshot(t, work)
}

// files are the contents of a folder: for each path its mode, and for a file its text with what is random masked.
type files map[string]string

var (
	dateLine         = regexp.MustCompile(`(?m)^#\w{3} \w{3} .*$`)
	givenDirectories = []string{ownDirectoryID, firstDirectoryID, otherDirectoryID, zeroDirectoryID}
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

// difference compares as golden cases are compared; "" if there is none. Where Kafka's tool fails midway, kstorage fails
// before it begins.
func difference(theirs, ours result, before, theirFiles, ourFiles files) string {
	switch {
	case theirs.exit != ours.exit:
		return fmt.Sprintf("exit code %d, not %d", ours.exit, theirs.exit)
	case strings.Contains(theirs.stderr, "already formatted") && !strings.Contains(ours.stderr, "already formatted"):
		return "scripts search standard error for `already formatted`"
	case ours.exit != 0:
		return refusal(theirs, ours, before, ourFiles)
	case comparable(theirs.stdout) != comparable(ours.stdout):
		return "other standard output"
	}
	return theirFiles.diff(ourFiles)
}

// refusal says what is wrong with a failed call; "" if nothing is: exit code 1, a reason and all as it was.
func refusal(theirs, ours result, before, after files) string {
	switch {
	case ours.exit != 1:
		return "should be refused"
	case ours.stdout != "" && comparable(ours.stdout) != comparable(theirs.stdout):
		return "what fails says so on standard error alone"
	case strings.TrimSpace(ours.stderr) == "":
		return "fails without a word"
	case strings.Contains(ours.stderr, "already formatted") && !strings.Contains(theirs.stderr, "already formatted"):
		return "scripts go on after `already formatted`"
	case strings.Contains(ours.stderr, "panic:") || strings.Contains(ours.stderr, "goroutine "):
		return "a stack trace"
	}
	return before.diff(after)
}

var stackTrace = regexp.MustCompile(`(?m)^(\tat .*|[\w.]+(Exception|Error): .*|Caused by: .*|\t\.\.\. \d+ more)\n`)

// comparable sorts the lines about directories, whose order is that of a hash map, masks the list of records and
// removes the stack traces that Kafka's tool prints on standard output.
func comparable(stdout string) string {
	all := strings.Split(stackTrace.ReplaceAllString(stdout, ""), "\n")
	for i, line := range all {
		if strings.HasPrefix(line, "Bootstrap metadata: ") {
			all[i] = "Bootstrap metadata: "
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
