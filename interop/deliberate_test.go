//go:build interop

package interop

import (
	"path/filepath"
	"slices"
	"strings"
)

// differences are those that are meant, as far as the trials can come to them: kstorage ends with exit code 1 where
// Kafka's tool is content.
var differences = []struct {
	command string
	reason  string
	when    func(tr trial) bool
}{
	{"format", "a cluster id with a blank at an end is a mistake of the script", func(tr trial) bool {
		return strings.TrimSpace(tr.clusterID) != tr.clusterID
	}},
	{"format", "a reserved or repeated directory id can't tell one voter from another", func(tr trial) bool {
		return strings.Contains(tr.voters, zeroDirectoryID) || strings.Count(tr.voters, ownDirectoryID) > 1
	}},
	{"format", "a bad directory stops all on a first format, and a bad metadata directory always", func(tr trial) bool {
		dirs, metadata := tr.directories()
		return tr.unreadable(metadata) || slices.ContainsFunc(dirs, tr.unreadable) && !slices.ContainsFunc(dirs, tr.formatted)
	}},
	{"format", "--standalone would found a new cluster on a node that lost its metadata directory", func(tr trial) bool {
		dirs, metadata := tr.directories()
		return tr.standalone && !tr.formatted(metadata) && !tr.unreadable(metadata) && slices.ContainsFunc(dirs, tr.formatted)
	}},
	{"info", "two directories have the same directory id", func(tr trial) bool {
		dirs, _ := tr.directories()
		return slices.Contains(dirs, "d1") && slices.Contains(dirs, "d2") &&
			strings.Contains(tr.before["d1/meta.properties"], firstDirectoryID) && strings.Contains(tr.before["d2/meta.properties"], firstDirectoryID)
	}},
	{"info", "the zero checkpoint is damaged", func(tr trial) bool {
		_, empty := tr.before["d1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"]
		_, metadata := tr.directories()
		return empty && metadata == "d1" && (tr.formatted("d1") || tr.setting("process.roles") == "broker")
	}},
}

// formatted tells whether a directory has a meta.properties before the trial.
func (tr trial) formatted(dir string) bool { return tr.before[dir+"/meta.properties"] != "" }

// unreadable tells whether a directory is none, or its meta.properties is one.
func (tr trial) unreadable(dir string) bool {
	_, notFolder := tr.before[dir]
	_, notFile := tr.before[dir+"/meta.properties/"]
	return notFolder || notFile
}

// setting returns the value of a key of the configuration, "" without one.
func (tr trial) setting(key string) string {
	value := ""
	for _, s := range tr.settings {
		if s[0] == key {
			value = s[1]
		}
	}
	return value
}

// directories returns the names of the log directories and of the metadata directory in the trial's folder.
func (tr trial) directories() (dirs []string, metadata string) {
	list := tr.setting("log.dirs")
	if list == "" {
		list = tr.setting("log.dir")
	}
	for dir := range strings.SplitSeq(list, ",") {
		dirs = append(dirs, filepath.Base(strings.TrimSpace(dir)))
	}
	metadata = dirs[0]
	if own := tr.setting("metadata.log.dir"); own != "" {
		metadata = filepath.Base(own)
		dirs = append(dirs, metadata)
	}
	return dirs, metadata
}

// deliberate returns the reason why kstorage has to fail, whatever Kafka's tool does; "" if there is none.
func (tr trial) deliberate(command string) string {
	for _, d := range differences {
		if d.command == command && d.when(tr) {
			return d.reason
		}
	}
	return ""
}
