package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
	"kstorage/metaprops"
)

const lockFile = ".lock"

// contents is what a log directory holds beside its meta.properties.
type contents struct {
	data     string // the path of something that a node had there, or that does not belong there; "" for none
	topics   string // the path of a partition of a topic, "" for none
	metadata string // its folder of the metadata log, "" for none
	hasLog   bool   // there is something in that
	lost     bool   // it has lost+found
}

// checkDistinct refuses two paths that lead to one directory. Unlike Kafka: there the second
// meta.properties takes the place of the first.
func (st *storage) checkDistinct() error {
	var infos []fs.FileInfo
	for i, d := range st.dirs {
		info, err := st.fs.Stat(d.Path)
		if err != nil {
			info = nil
		}
		for j, other := range infos {
			if info != nil && other != nil && os.SameFile(info, other) {
				return &Error{What: fmt.Sprintf("%s and %s are one directory", st.dirs[j].Path, st.dirs[i].Path), Where: st.s.File, Fix: "remove one of them from the log directories"}
			}
		}
		infos = append(infos, info)
	}
	return nil
}

// look looks for what must not be in the log directories, and for what a lost meta.properties has left.
func (st *storage) look() error {
	var lost []string
	var errs []error
	for _, d := range st.dirs {
		if d.offline != nil || d.Missing {
			continue
		}
		if err := st.lookInto(d); err != nil {
			errs = append(errs, st.fail(d, "read", d.Path, err))
			continue
		}
		if d.contents.lost {
			lost = append(lost, d.Path)
		}
		c := &d.contents
		switch {
		case c.metadata != "" && !d.isMetadata:
			errs = append(errs, &Error{What: fmt.Sprintf("the metadata log is in %s, but the metadata directory is %s", c.metadata, st.s.MetadataDir), Where: st.s.File,
				Fix: fmt.Sprintf("set metadata.log.dir to %s, or if the folder is of no worth move it away", d.Path)})
		case d.State != metaprops.Formatted: // chooseMissing tells of it
		case c.topics != "":
			errs = append(errs, &Error{What: "this directory has a partition of a topic, and a kstorage node has no topics", Where: c.topics,
				Fix: "run Apache Kafka on these directories, or give this node directories of its own"})
		case c.data != "":
			errs = append(errs, &Error{What: "this folder is no partition, and nothing else belongs into a log directory", Where: c.data,
				Fix: "move it away, or use a folder below as log directory"})
		}
	}
	if len(lost) > 0 {
		st.log.Info("Ignoring lost+found; a Kafka broker refuses to start with it", "dirs", strings.Join(lost, ", "))
	}
	return errors.Join(errs...)
}

// partition is the name of a folder with data of a topic: topic-0, and topic-0.ID-delete, -future, -stray.
var partition = regexp.MustCompile(`^.+-\d+$|^.+-\d+\.[0-9a-f]+-(delete|future|stray)$`)

// dataFile is the name of a file that a node leaves in a log directory or in a partition, and nobody else.
var dataFile = regexp.MustCompile(`^\d{20}[-.]|-checkpoint$`)

func (st *storage) lookInto(d *logDir) error {
	entries, err := st.fs.ReadDir(d.Path)
	if err != nil {
		return err
	}
	c := &d.contents
	for _, entry := range entries {
		name, path := entry.Name(), disk.Join(d.Path, entry.Name())
		isDir := entry.IsDir()
		if entry.Type()&fs.ModeSymlink != 0 {
			info, err := st.fs.Stat(path)
			isDir = err == nil && info.IsDir()
		}
		switch {
		case name == checkpoint.MetadataDir && isDir:
			c.metadata = path
			log, err := st.fs.ReadDir(path)
			if err != nil {
				return err
			}
			c.hasLog = len(log) > 0
		case name == "lost+found" && isDir:
			c.lost = true
		case partition.MatchString(name) && isDir:
			c.topics = path
		case isDir:
			c.data = path
		case d.State == metaprops.Empty && dataFile.MatchString(name):
			c.data = path
		}
	}
	return nil
}

// chooseMissing returns the directories that get their first meta.properties.
func (st *storage) chooseMissing() ([]*logDir, error) {
	empty := st.online(metaprops.Empty)
	if len(st.online(metaprops.Formatted)) == 0 {
		return empty, st.refuseFirst(empty)
	}
	var errs []error
	for _, d := range empty {
		if d.isMetadata && st.s.IsController {
			errs = append(errs, st.lostMetadata(d))
			continue
		}
		errs = append(errs, st.lostProperties(d))
	}
	return empty, errors.Join(errs...)
}

// refuseFirst says why a node of which nothing is formatted must not start, if so.
func (st *storage) refuseFirst(empty []*logDir) error {
	var failed, paths []string
	causes := []error{metaprops.ErrNotFormatted}
	for _, d := range st.dirs {
		if d.offline != nil {
			failed, causes = append(failed, d.offline.Error()), append(causes, d.offline)
		}
		paths = append(paths, d.Path)
	}
	if len(failed) > 0 {
		// One of them may be formatted: a node that forgets so who it is would begin anew.
		return &Error{Verbatim: true, What: metaprops.ErrNotFormatted.Error(), Where: strings.Join(failed, "; "), Err: errors.Join(causes...),
			Fix: "the first start of a node needs all its log directories"}
	}
	isVoter := slices.ContainsFunc(st.s.Raft.StaticVoters, func(v raft.Voter) bool { return int32(v.Key.NodeID) == st.s.NodeID })
	metadata := st.metadata()
	if st.s.IsController && (isVoter || metadata.contents.hasLog) {
		e := &Error{Verbatim: true, Err: metaprops.ErrNotFormatted, Where: strings.Join(paths, ", ")}
		switch {
		case isVoter:
			e.What = metaprops.ErrNotFormatted.Error() + " This node is one of controller.quorum.voters, whose directories are formatted before they start."
			e.Fix = st.formatCommand("--cluster-id ID") + ", with the id of the cluster, or without one for a new cluster that gives itself one"
		default:
			e.What = fmt.Sprintf("%s But %s is there: this controller was formatted once, or was about to be.", metaprops.ErrNotFormatted, metadata.contents.metadata)
			e.Fix = "restore meta.properties from a copy, or format again: " + st.formatCommand("--standalone") +
				" (or --initial-controllers LIST, or --no-initial-controllers); where the folder holds a log, format says what is in it"
		}
		return e
	}
	var errs []error
	for _, d := range empty {
		errs = append(errs, st.lostProperties(d))
	}
	return errors.Join(errs...)
}

// lostProperties refuses a directory that has no meta.properties, but something else.
func (st *storage) lostProperties(d *logDir) error {
	c := &d.contents
	where := c.topics
	if where == "" && c.hasLog {
		where = c.metadata
	}
	if where == "" {
		where = c.data
	}
	if where == "" {
		return nil
	}
	return &Error{Verbatim: true, What: fmt.Sprintf("No `meta.properties` found in %s, and the directory is not empty", d.Path), Where: where,
		Fix: "restore the file from a copy, or move away what is there; a directory of a new node is empty"}
}

// lostMetadata refuses to start a controller without its metadata directory: a voter without its log can undo commits.
func (st *storage) lostMetadata(d *logDir) error {
	others := st.online(metaprops.Formatted)
	e := &Error{Verbatim: true, Where: "formatted is " + others[0].Path,
		What: fmt.Sprintf("No `meta.properties` found in %s, the metadata directory of a controller whose other directories are formatted", d.Path)}
	option := "--no-initial-controllers"
	if len(st.s.Raft.StaticVoters) > 0 {
		option = ""
	}
	e.Fix = "is the disk mounted? If it is lost, and the other voters still have the log: " + strings.TrimSpace(st.formatCommand("--ignore-formatted", option))
	if d.contents.hasLog {
		e.Where = d.contents.metadata
		e.Fix = "restore the file from a copy; format says which directory.id the voters have for this node"
	}
	return e
}
