package format

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/metaprops"
)

// The cluster id of the tests is one that a file holds with escapes.
const (
	storedID  = "Wq9rPWnzQ4uv0sRyMKXc1w=="
	escapedID = `Wq9rPWnzQ4uv0sRyMKXc1w\=\=`
	otherID   = "K1hPz5rNQ3ODiMrn4pLjMA"
)

// what a directory may be before the run.
const (
	absent      = ""
	v0          = "broker.id=1\nversion=0\ncluster.id=" + escapedID + "\n"
	v0WithoutID = "broker.id=1\nversion=0\n"
	v1          = "node.id=1\nversion=1\ncluster.id=" + escapedID + "\n"
	v1EmptyID   = "node.id=1\nversion=1\ncluster.id=\n"
	v2WithoutID = "node.id=1\nversion=2\n"
	v2Learned   = "node.id=1\nversion=2\ncluster.id=" + escapedID + "\n"
	blank       = "# nothing but a comment\n"
)

// planCase is a run on a node whose metadata directory is /d1 and which may have /d2 too.
type planCase struct {
	controller bool
	existing   string // the meta.properties of /d1
	given      string // the cluster id, "" for none
	ignore     bool
	added      bool // /d2 is configured, and does not exist yet
	release    features.MetadataVersion
}

func (c planCase) String() string {
	return fmt.Sprintf("controller=%v given=%q -g=%v /d2=%v release=%d /d1: %q", c.controller, c.given, c.ignore, c.added, c.release, c.existing)
}

func eachPlanCase(f func(planCase)) {
	for _, controller := range []bool{false, true} {
		for _, existing := range []string{absent, v0, v0WithoutID, v1, v1EmptyID, v2WithoutID, v2Learned, blank} {
			for _, given := range []string{"", storedID, otherID, escapedID} {
				for _, ignore := range []bool{false, true} {
					for _, added := range []bool{false, true} {
						for _, release := range []features.MetadataVersion{0, 30, features.LatestProduction} {
							f(planCase{controller, existing, given, ignore, added, release})
						}
					}
				}
			}
		}
	}
}

func (c planCase) options() Options {
	o := nodeOptions("/d1")
	if c.added {
		o.LogDirs = append(o.LogDirs, "/d2")
	}
	o.Controller, o.Standalone = c.controller, c.controller
	o.IgnoreFormatted, o.Release = c.ignore, c.release
	if c.given != "" {
		o.ClusterID = &c.given
	}
	return o
}

// hasID reports whether /d1 has the cluster id of the tests.
func (c planCase) hasID() bool { return strings.Contains(c.existing, escapedID) }

// fresh are the directories that are not formatted yet.
func (c planCase) fresh() (dirs []string) {
	if c.existing == absent {
		dirs = append(dirs, "/d1")
	}
	if c.added {
		dirs = append(dirs, "/d2")
	}
	return dirs
}

func (c planCase) below() bool { return c.release != 0 && c.release < features.LatestProduction }

func refused(rule Rule) func(error) bool {
	return func(err error) bool {
		r, ok := errors.AsType[*Refusal](err)
		return ok && r.Rule == rule
	}
}

func isA[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

// planRules are the rules about cluster ids (DESIGN 4). The first whose condition holds decides: an error, or the
// id that new directories get.
var planRules = []struct {
	name string
	when func(planCase) bool
	err  func(error) bool
	id   string // what new files have; given: what is given
}{
	{"an empty meta.properties is refused",
		func(c planCase) bool { return c.existing == blank }, refused(EmptyProperties), ""},
	{"--cluster-id must equal the id of the files",
		func(c planCase) bool { return c.hasID() && c.given == otherID }, isA[*metaprops.ClusterIDError], ""},
	{"an id of version 1 that is empty is another one too",
		func(c planCase) bool { return c.existing == v1EmptyID && c.given != "" }, isA[*metaprops.ClusterIDError], ""},
	{"a controller without an id gets it from the quorum, not from --cluster-id",
		func(c planCase) bool { return c.existing == v2WithoutID && c.given != "" && c.controller }, refused(ClusterIDNotStored), ""},
	{"what is formatted needs -g",
		func(c planCase) bool { return c.existing != absent && !c.ignore }, isA[*AlreadyFormattedError], ""},
	{"nothing to do",
		func(c planCase) bool { return len(c.fresh()) == 0 }, nil, ""},
	{"an id that is empty goes into no other directory",
		func(c planCase) bool { return c.existing == v1EmptyID }, refused(EmptyClusterID), ""},
	{"the id of the files goes into new directories, in whatever form it is given",
		planCase.hasID, nil, storedID},
	{"an id that is given is the id",
		func(c planCase) bool { return c.given != "" && c.existing != v2WithoutID }, nil, "given"},
	{"without an id metadata.version must support ClusterIdRecord",
		planCase.below, refused(ClusterIDRequired), ""},
	{"a broker without an id stays without, also if one is given",
		func(c planCase) bool { return c.existing == v2WithoutID && c.given != "" }, nil, ""},
	{"without an id new directories get version 2",
		func(planCase) bool { return true }, nil, ""},
}

// planWarnings are the warnings of runs that go on.
var planWarnings = []struct {
	text string
	when func(planCase) bool
}{
	{"of version 0, from before KRaft", func(c planCase) bool { return c.existing == v0 || c.existing == v0WithoutID }},
	{"it gets its id from the quorum, and --cluster-id is not stored", func(c planCase) bool { return c.existing == v2WithoutID && c.given != "" }},
	{"is no UUID of 22 characters", func(c planCase) bool {
		return c.given != "" && c.given != otherID && len(c.fresh()) > 0 && !c.hasID() && c.existing != v2WithoutID
	}},
	{"need a server of Kafka 4.4 or newer", func(c planCase) bool { return c.controller && c.existing == absent && c.release == 30 }},
}

func TestClusterIDRules(t *testing.T) {
	used := map[string]bool{}
	eachPlanCase(func(c planCase) {
		d := crashdisk.New()
		if c.existing != absent {
			put(t, d, "/d1/meta.properties", c.existing)
		}
		p, err := newPlan(c.options(), d)
		for _, rule := range planRules {
			if !rule.when(c) {
				continue
			}
			used[rule.name] = true
			switch {
			case rule.err != nil && (err == nil || !rule.err(err)):
				t.Errorf("%v: %s; got %v", c, rule.name, err)
			case rule.err != nil:
			case err != nil:
				t.Errorf("%v: %s; got the error %v", c, rule.name, err)
			default:
				id := rule.id
				if id == "given" {
					id = c.given
				}
				checkPlan(t, c, p, id)
				checkApplied(t, c, p, d, id)
			}
			return
		}
	})
	for _, rule := range planRules {
		if !used[rule.name] {
			t.Errorf("no case for %q", rule.name)
		}
	}
}

func checkPlan(t *testing.T, c planCase, p *Plan, id string) {
	t.Helper()
	var paths []string
	for _, dir := range p.Format {
		paths = append(paths, dir.Path)
		kind := DataDirectory
		if dir.Path == "/d1" {
			kind = MetadataDirectory
			if c.controller {
				kind = DynamicMetadataVoterDirectory
			}
		}
		if dir.Kind != kind {
			t.Errorf("%v: %s is a %s, want a %s", c, dir.Path, dir.Kind, kind)
		}
	}
	if fmt.Sprint(paths) != fmt.Sprint(c.fresh()) || len(p.Skipped) != 0 || len(p.Formatted) != len(c.options().LogDirs)-len(paths) {
		t.Errorf("%v: formats %v, formatted before %v, skipped %v", c, paths, p.Formatted, p.Skipped)
	}
	for _, w := range planWarnings {
		if n := strings.Count(strings.Join(p.Warnings, "\n"), w.text); n != 1 && w.when(c) || n != 0 && !w.when(c) {
			t.Errorf("%v: %d warnings with %q: %q", c, n, w.text, p.Warnings)
		}
	}
	if warnings := countWarnings(c); len(p.Warnings) != warnings {
		t.Errorf("%v: %d warnings, want %d: %q", c, len(p.Warnings), warnings, p.Warnings)
	}
	if len(paths) == 0 {
		return
	}
	version := c.release
	if version == 0 {
		version = features.LatestKafka
		if id == "" {
			version = features.LatestProduction
		}
	}
	if p.ClusterID != id || p.MetadataVersion != version || p.DefaultVersion != (c.release == 0) {
		t.Errorf("%v: cluster id %q, metadata.version %v (default: %v); want %q, %v", c, p.ClusterID, p.MetadataVersion, p.DefaultVersion, id, version)
	}
	wantProposal := c.controller && c.existing == absent && version == features.LatestProduction
	if (p.ClusterIDProposal != "") != wantProposal || id != "" && wantProposal && p.ClusterIDProposal != id {
		t.Errorf("%v: proposal %q", c, p.ClusterIDProposal)
	}
	if wantVoters := c.controller && c.existing == absent; (len(p.Voters) == 1) != wantVoters || (len(p.Features) > 0) != wantVoters {
		t.Errorf("%v: voters %v, features %v", c, p.Voters, p.Features)
	}
}

func countWarnings(c planCase) (n int) {
	for _, w := range planWarnings {
		if w.when(c) {
			n++
		}
	}
	return n
}

// checkApplied carries the plan out: new directories get files of the right version, the old one stays.
func checkApplied(t *testing.T, c planCase, p *Plan, d disk.FS, id string) {
	t.Helper()
	if _, err := p.Apply(); err != nil {
		t.Errorf("%v: %v", c, err)
		return
	}
	version := metaprops.V1
	if id == "" {
		version = metaprops.V2
	}
	for i, path := range c.fresh() {
		b, err := d.ReadFile(path + "/meta.properties")
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		got, err := metaprops.Decode(b)
		want := metaprops.Properties{Version: version, NodeID: 1, ClusterID: id, DirectoryID: p.Format[i].DirectoryID}
		if err != nil || got != want {
			t.Errorf("%v: %s is %+v, want %+v", c, path, got, want)
		}
	}
	if b, err := d.ReadFile("/d1/meta.properties"); c.existing != absent && string(b) != c.existing {
		t.Errorf("%v: /d1/meta.properties has changed to %q, %v", c, b, err)
	}
}

// nodeOptions are those of node 1, a broker, with the directories dirs, the first of which is for the metadata. Random ids are
// the same in each run.
func nodeOptions(dirs ...string) Options {
	return Options{
		NodeID: 1, NodeIDFrom: "node.id", ClusterIDFrom: "--cluster-id",
		LogDirs: dirs, MetadataLogDir: dirs[0],
		ControllerListener: checkpoint.Endpoint{Name: "CONTROLLER", Host: "c1", Port: 9093},
		Random:             rand.NewChaCha8([32]byte{1}),
		Now:                func() time.Time { return time.Unix(1_796_017_003, 0).UTC() },
		LocalHostName:      func() string { return "c1" },
	}
}

// standaloneOptions are those of a controller that begins a cluster.
func standaloneOptions(dirs ...string) Options {
	o := nodeOptions(dirs...)
	o.Controller, o.Standalone = true, true
	return o
}

// put makes a file durable, with the folders above it. A name that ends with a slash is that of a folder.
func put(t testing.TB, d disk.FS, name, content string) {
	t.Helper()
	dir := name[:strings.LastIndexByte(name, '/')]
	if err := d.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, "/") {
		return
	}
	if err := disk.Temp(d, name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, content); return err }); err != nil {
		t.Fatal(err)
	}
}
