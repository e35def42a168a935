package format

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/disk"
	"kstorage/internal/scram"
	"kstorage/metaprops"
)

// Plan is what a run of format will do. Its fields are for reading.
type Plan struct {
	NodeID int32
	// ClusterID is what the new meta.properties get, "" if no id is known.
	ClusterID string
	// ClusterIDProposal is what the ClusterIdRecord in the zero checkpoint says, "" if it gets none.
	ClusterIDProposal string

	MetadataVersion features.MetadataVersion
	DefaultVersion  bool // nobody chose MetadataVersion
	KRaftVersion    int16

	// What the zero checkpoint gets, all empty where none is written. For a server before 4.4 it gets the
	// voters only, and the rest is in the bootstrap.checkpoint of each directory.
	Features []features.Level // in the order of the records
	Users    []User           // in the given order
	Voters   []checkpoint.Voter

	Format    []Directory // what is formatted now, in the given order
	Formatted []string    // what was formatted before and stays as it is
	Skipped   []*DirError // what cannot be used and is left out, as a failed disk is

	Warnings []string

	checkpointDir string // the directory that gets the zero checkpoint, "" for none
	bootstrap     bool   // the bootstrap metadata goes into bootstrap.checkpoint, not into the zero checkpoint
	scram         []scram.Argument
	options       Options
	disk          disk.FS
	applied       bool
}

// Directory is a directory that a plan formats.
type Directory struct {
	Path                string
	Kind                Kind
	DirectoryID         uuid.UUID
	RemovesOldBootstrap bool // it has a bootstrap.checkpoint, which goes
	WritesBootstrap     bool // it gets a bootstrap.checkpoint, as servers before 4.4 read it
}

// User is a user whose credentials a plan writes.
type User struct {
	Name, Mechanism string
	Iterations      int32
}

// New looks at the directories and decides what Apply will do; it writes nothing. Independent
// problems are joined. Errors: *Refusal, *AlreadyFormattedError, *UnusableError, *DirError, *VoterError, those of
// features.Resolve and metaprops.Ensemble.Verify, and those of Options.Random.
func New(o Options) (*Plan, error) { return newPlan(o, disk.OS) }

func newPlan(o Options, fsys disk.FS) (*Plan, error) {
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LocalHostName == nil {
		o.LocalHostName = LocalHostName
	}
	p := &planner{Plan: &Plan{NodeID: o.NodeID, options: o, disk: fsys}}
	// In the order in which Kafka's tool checks, so that the first thing said is the same.
	steps := []func() error{
		p.checkQuorum, p.checkClusterID, p.look, p.resolveLevels, p.checkCredentials, p.checkFiles,
		p.chooseDirectories, p.requireClusterID, p.assignIDs, p.checkLocks,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.warn()
	return p.Plan, nil
}

// planner is a plan in the making.
type planner struct {
	*Plan
	dirs     []directory
	ensemble metaprops.Ensemble
	initial  []checkpoint.Voter // of Options.InitialControllers
	known    string             // the cluster id of the files
}

func (p *planner) warning(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// checkQuorum checks how the first voters are chosen against the kind of quorum.
func (p *planner) checkQuorum() error {
	o := &p.options
	if o.StaticVoters && (o.Standalone || o.InitialControllers != nil) {
		return &Refusal{Rule: StaticQuorum, Reason: "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead."}
	}
	if o.Standalone && !o.Controller {
		return &Refusal{Rule: StandaloneBroker, Reason: "You can only use --standalone on a controller."}
	}
	if o.InitialControllers != nil {
		voters, err := ParseInitialControllers(*o.InitialControllers, o.ControllerListener.Name)
		if err != nil {
			return err
		}
		p.initial = voters
	}
	if o.Controller && !o.StaticVoters && !o.Standalone && !o.NoInitialControllers && o.InitialControllers == nil {
		return &Refusal{Rule: NoFirstVoters, Reason: "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers."}
	}
	return nil
}

// checkClusterID refuses ids that are a mistake. Unlike Kafka, whose server runs with them.
func (p *planner) checkClusterID() error {
	if p.options.ClusterID == nil {
		return nil
	}
	id := *p.options.ClusterID
	switch {
	case id == "":
		return &Refusal{Rule: EmptyClusterID, Reason: "the cluster id is empty"}
	case strings.TrimFunc(id, blankOrControl) != id:
		return &Refusal{Rule: BadClusterID, Reason: fmt.Sprintf("the cluster id %q begins or ends with a blank or a control character", id)}
	case !utf8.ValidString(id):
		return &Refusal{Rule: BadClusterID, Reason: fmt.Sprintf("the cluster id %q is not UTF-8", id)}
	}
	return nil
}

func blankOrControl(r rune) bool { return r <= ' ' || r >= 0x7f && r <= 0xa0 }

// look reads the directories. From them follows the cluster id that new ones get.
func (p *planner) look() error {
	p.ensemble = metaprops.Load(p.options.LogDirs, p.options.MetadataLogDir, p.disk)
	if err := p.settled(); err != nil {
		return err
	}
	p.dirs = look(p.disk, p.ensemble)
	p.known, _ = p.ensemble.ClusterID()
	p.ClusterID = p.known
	if p.known == "" && p.options.ClusterID != nil && !p.waitsForClusterID() {
		p.ClusterID = metaprops.AsKafkaReads(*p.options.ClusterID)
	}
	var errs []error
	for i := range p.dirs {
		for j := range i {
			if p.dirs[i].same(&p.dirs[j]) {
				errs = append(errs, &Refusal{Rule: OneDirectory, Reason: fmt.Sprintf("%s and %s are one directory", p.dirs[j].Path, p.dirs[i].Path)})
			}
		}
	}
	return errors.Join(errs...)
}

// settled checks that a node of which a part is formatted is not just being formatted by another run. That run
// formats the metadata directory first, so that a second reading finds more than the first.
func (p *planner) settled() error {
	if formatted := len(p.ensemble.In(metaprops.Formatted)); formatted == 0 || formatted == len(p.ensemble.Dirs) {
		return nil
	}
	again := metaprops.Load(p.options.LogDirs, p.options.MetadataLogDir, p.disk)
	for i, d := range again.Dirs {
		if was := p.ensemble.Dirs[i]; d.State != was.State {
			return &Refusal{Rule: ReplacedMeanwhile, Reason: d.Path + " is being formatted by somebody else"}
		}
	}
	return nil
}

// waitsForClusterID reports whether the node was formatted without an id, which it is to get from the
// quorum. Directories of the time before KRaft have no say.
func (p *planner) waitsForClusterID() bool {
	return slices.ContainsFunc(p.ensemble.In(metaprops.Formatted), func(d metaprops.Dir) bool { return d.Properties.Version == metaprops.V2 }) && p.known == ""
}

// resolveLevels completes the levels of the features. The cluster id decides about the default.
func (p *planner) resolveLevels() error {
	o := &p.options
	defaultVersion := features.DefaultVersion(p.ClusterID != "", o.Unstable)
	if o.Server != nil {
		defaultVersion = o.Server.DefaultVersion(o.Unstable)
	}
	resolved, err := features.Resolve(features.Choice{
		Release:      o.Release,
		Default:      defaultVersion,
		Features:     o.Features,
		StaticVoters: o.StaticVoters,
		Unstable:     o.Unstable,
		Server:       o.Server,
	})
	if err != nil {
		return err
	}
	p.MetadataVersion, p.KRaftVersion, p.Features = resolved.MetadataVersion, resolved.KRaftVersion, resolved.Records
	p.DefaultVersion = o.Release == 0 && !slices.ContainsFunc(o.Features, func(l features.Level) bool { return l.Name == features.MetadataVersionName })
	return nil
}

// checkCredentials checks the SCRAM arguments, also where they will have no effect.
func (p *planner) checkCredentials() error {
	arguments := p.options.Scram
	if len(arguments) > 0 && !p.MetadataVersion.SupportsScram() {
		return &Refusal{Rule: ScramUnsupported, Reason: "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
			Hint: fmt.Sprintf("metadata.version is %s", p.MetadataVersion)}
	}
	var errs []error
	for i, argument := range arguments {
		parsed, err := scram.Parse(argument.reveal())
		if err != nil {
			errs = append(errs, &Refusal{Rule: BadCredential, Reason: fmt.Sprintf("SCRAM credential %d of %d: %v", i+1, len(arguments), err)})
			continue
		}
		p.scram = append(p.scram, parsed)
		p.Users = append(p.Users, User{parsed.Name(), parsed.Mechanism().String(), parsed.Iterations()})
	}
	return errors.Join(errs...)
}

// checkFiles checks the files that are there against the options and each other.
func (p *planner) checkFiles() error {
	o := &p.options
	expect := metaprops.Expect{NodeID: o.NodeID, NodeIDFrom: o.NodeIDFrom}
	if o.ClusterID != nil {
		expect.ClusterID, expect.ClusterIDFrom = *o.ClusterID, o.ClusterIDFrom
	}
	if err := p.ensemble.Verify(expect); err != nil {
		return err
	}
	var errs []error
	var waiting []string
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		if d.Properties.Blank() {
			errs = append(errs, &Refusal{Rule: EmptyProperties, Reason: d.File() + " is empty"})
		}
		if d.Properties.Version == metaprops.V2 {
			waiting = append(waiting, d.Path)
		}
	}
	if o.ClusterID != nil && p.waitsForClusterID() {
		reason := strings.Join(waiting, ", ") + ": formatted without a cluster id; it gets its id from the quorum"
		if o.Controller {
			errs = append(errs, &Refusal{Rule: ClusterIDNotStored, Reason: reason})
		} else {
			p.warning("%s, and %s is not stored", reason, o.ClusterIDFrom)
		}
	}
	return errors.Join(errs...)
}

// requireClusterID refuses new files without a cluster id where the metadata.version has no record that could bring one.
func (p *planner) requireClusterID() error {
	if len(p.Format) == 0 || p.ClusterID != "" {
		return nil
	}
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		if d.Properties.Version == metaprops.V1 {
			// Kafka's tool once took the value of an unset variable.
			return &Refusal{Rule: EmptyClusterID, Reason: d.File() + " has an empty cluster id", Hint: "give it the id that the other nodes of the cluster have"}
		}
	}
	if p.MetadataVersion.SupportsClusterID() {
		return nil
	}
	if s := p.options.Server; s != nil {
		return &Refusal{Rule: ServerNeedsClusterID, Reason: fmt.Sprintf("servers of Kafka %v need a cluster id, and none is known", s)}
	}
	return &Refusal{Rule: ClusterIDRequired, Reason: fmt.Sprintf("metadata.version %s needs a cluster id, and none is known", p.MetadataVersion)}
}

// checkLocks checks that Apply will get its locks.
func (p *planner) checkLocks() error {
	if len(p.Format) == 0 {
		return nil
	}
	release, err := p.lock()
	if err != nil {
		return err
	}
	release()
	return nil
}
