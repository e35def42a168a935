//go:build interop

package interop

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// deliberate is a difference to Kafka's tool that is meant: kstorage refuses what Kafka's tool does.
type deliberate struct {
	reason string
	when   func(tr trial) bool
}

// differences has all of them that the trials can come to.
var differences = []deliberate{
	{"a cluster id with a blank at an end is a mistake of the script", func(tr trial) bool {
		return tr.hasArg(`^\s|\s$`)
	}},
	{"a reserved or repeated directory id can't tell one voter from another", func(tr trial) bool {
		return tr.hasArg(`:AAAAAAAAAAAAAAAAAAAAAA\b`)
	}},
	{"--standalone would found a new cluster on a node that lost its metadata directory", func(tr trial) bool {
		dirs, metadata := tr.directories()
		formatted := func(dir string) bool { return tr.before[dir+"/meta.properties"] != "" }
		return tr.hasArg(`^(-s|--standalone)$`) && !formatted(metadata) && slices.ContainsFunc(dirs, formatted)
	}},
}

func (tr trial) hasArg(pattern string) bool {
	return slices.ContainsFunc(tr.args, regexp.MustCompile(pattern).MatchString)
}

// directories returns the names of the log directories and of the metadata directory in the trial's folder.
func (tr trial) directories() (dirs []string, metadata string) {
	for _, property := range tr.properties {
		key, value, _ := strings.Cut(property, "=")
		switch key {
		case "log.dir", "log.dirs":
			for dir := range strings.SplitSeq(value, ",") {
				dirs = append(dirs, filepath.Base(dir))
			}
		case "metadata.log.dir":
			metadata = filepath.Base(value)
		}
	}
	if metadata == "" {
		metadata = dirs[0]
	}
	return dirs, metadata
}

// deliberate finds the reason why kstorage may refuse what Kafka's tool did.
func (tr trial) deliberate(theirs result) *deliberate {
	if theirs.exit != 0 {
		return nil
	}
	for i, d := range differences {
		if d.when(tr) {
			return &differences[i]
		}
	}
	return nil
}

// check says what is wrong with a refusal: it has a reason, exit code 1 and changes nothing.
func (d *deliberate) check(ours result, before, after files) string {
	switch {
	case ours.exit != 1:
		return "should be refused"
	case strings.TrimSpace(ours.stderr) == "":
		return "refused without a word"
	case strings.Contains(ours.stderr, "already formatted"):
		return "scripts go on after `already formatted`"
	}
	return before.diff(after)
}
