package format

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/internal/scram"
	"kstorage/metaprops"
)

// Plan is what a run of format will do.
type Plan struct {
	NodeID int32
	// ClusterID is what the new meta.properties get, "" if no id is known.
	ClusterID string
	// ClusterIDProposal is what the ClusterIdRecord in the zero checkpoint says, "" if it gets none.
	ClusterIDProposal string

	MetadataVersion features.MetadataVersion
	KRaftVersion    int16
	Features        []features.Level // the records of the zero checkpoint, in their order
	Users           []User           // the users with SCRAM credentials in the zero checkpoint, in their order
	Voters          []checkpoint.Voter

	Format    []Directory // what is formatted now, in the given order
	Formatted []string    // what was formatted before and stays as it is
	Skipped   []*DirError // what cannot be used and was left out, as a failed disk is

	// VersionFrom says why MetadataVersion was chosen where nobody did, "" where somebody did.
	VersionFrom string
	Warnings    []string

	checkpointDir string // the directory that gets the zero checkpoint, "" for none
	scram         []scram.Argument
	options       Options
	disk          disk.FS
}

// Directory is a directory that a plan formats.
type Directory struct {
	Path                string
	Kind                Kind
	DirectoryID         uuid.UUID
	RemovesOldBootstrap bool // it has a bootstrap.checkpoint, which goes

	missing bool
}

// User is a user whose credentials a plan writes.
type User struct {
	Name, Mechanism string
	Iterations      int32
}

// New looks at the directories and decides what Apply will do; it writes nothing. Independent
// problems are joined. Errors: *Refusal, *AlreadyFormattedError, *UnusableError, *DirError, *VoterError, those of
// features.Resolve, metaprops.Ensemble.Verify and internal/scram, and those of Options.Random.
func New(o Options) (*Plan, error) { return newPlan(o, disk.OS) }

func newPlan(o Options, fsys disk.FS) (*Plan, error) {
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LocalHostName == nil {
		o.LocalHostName = func() string {
			name, _ := os.Hostname()
			return name
		}
	}
	p := &planner{
		Plan: &Plan{NodeID: o.NodeID, options: o, disk: fsys},
		o:    o,
	}
	// In the order in which Kafka's tool checks, so that the first thing said is the same.
	steps := []func() error{p.quorum, p.clusterIDText, p.load, p.levels, p.credentials, p.verify, p.choose, p.version, p.draw, p.unlocked}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.warn()
	return p.Plan, nil
}

// unlocked checks that Apply will get its locks.
func (p *planner) unlocked() error {
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

// planner is a plan in the making.
type planner struct {
	*Plan
	o        Options
	dirs     []directory
	ensemble metaprops.Ensemble
	initial  []checkpoint.Voter // of InitialControllers
	known    string             // the cluster id of the files
	given    string             // the cluster id of the options, as a server reads it
}

func (p *planner) warning(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// quorum checks how the first voters are chosen against the kind of quorum.
func (p *planner) quorum() error {
	o := p.o
	if o.StaticVoters && (o.Standalone || o.InitialControllers != nil) {
		option := "standalone"
		if !o.Standalone {
			option = "initial-controllers"
		}
		return &Refusal{Known: true, Option: option,
			Reason: "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.",
			Help:   "leave the option out to keep the static voters"}
	}
	if o.Standalone && !o.Controller {
		return &Refusal{Known: true, Option: "standalone", Reason: "You can only use --standalone on a controller.",
			Help: "a broker needs no option; its controllers are formatted with one"}
	}
	if o.InitialControllers != nil {
		voters, err := ParseInitialControllers(*o.InitialControllers, o.ControllerListener.Name)
		if err != nil {
			return err
		}
		p.initial = voters
	}
	if o.Controller && !o.StaticVoters && !o.Standalone && !o.NoInitialControllers && o.InitialControllers == nil {
		return &Refusal{Known: true,
			Reason: "Because controller.quorum.voters is not set on this controller, you must specify one of the following: --standalone, --initial-controllers, or --no-initial-controllers.",
			Help:   "--standalone for a new cluster with this one controller, --initial-controllers for one with several, --no-initial-controllers to join a cluster"}
	}
	return nil
}

// clusterIDText refuses ids that are a mistake: Unlike Kafka, whose server would run with them.
func (p *planner) clusterIDText() error {
	if p.o.ClusterID == nil {
		return nil
	}
	id := *p.o.ClusterID
	switch {
	case id == "":
		return &Refusal{Reason: "the cluster id is empty", Option: "cluster-id",
			Help: "pass the id of the cluster; without the option and its variable the node gets its id from the quorum"}
	case strings.TrimFunc(id, blankOrControl) != id:
		return &Refusal{Reason: fmt.Sprintf("the cluster id %q begins or ends with a blank or a control character", id), Option: "cluster-id",
			Help: "pass the id without it"}
	}
	p.given = metaprops.AsKafkaReads(id)
	return nil
}

func blankOrControl(r rune) bool { return r <= ' ' || r >= 0x7f && r <= 0xa0 }

func (p *planner) load() error {
	p.ensemble = metaprops.Load(p.o.LogDirs, p.o.MetadataLogDir, p.disk)
	p.dirs = look(p.disk, p.ensemble)
	p.known, _ = p.ensemble.ClusterID()
	p.ClusterID = p.known
	if p.known == "" && p.decidesItself() {
		p.ClusterID = p.given
	}
	return sameDirectory(p.dirs)
}

// decidesItself reports whether no formatted directory has a say in what new ones get: there is none, or only such of
// the time before KRaft.
func (p *planner) decidesItself() bool {
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		if d.Properties.Version != metaprops.V0 {
			return false
		}
	}
	return true
}

// sameDirectory refuses two paths to one directory: the second meta.properties would replace the first.
func sameDirectory(dirs []directory) error {
	var errs []error
	for i, a := range dirs {
		for _, b := range dirs[:i] {
			if a.info != nil && b.info != nil && os.SameFile(a.info, b.info) {
				errs = append(errs, &Refusal{Reason: fmt.Sprintf("%s and %s are one directory", b.Path, a.Path), Help: "remove one of them from the log directories"})
			}
		}
	}
	return errors.Join(errs...)
}

// levels resolves the feature levels. The cluster id decides about the default.
func (p *planner) levels() error {
	choice := features.Choice{
		Release:      p.o.Release,
		Default:      features.DefaultVersion(p.ClusterID != "", p.o.Unstable),
		Features:     p.o.Features,
		StaticVoters: p.o.StaticVoters,
		Unstable:     p.o.Unstable,
	}
	resolved, err := features.Resolve(choice)
	if err != nil {
		return err
	}
	p.MetadataVersion, p.KRaftVersion, p.Features = resolved.MetadataVersion, resolved.KRaftVersion, resolved.Records
	chosen := p.o.Release != 0 || slices.ContainsFunc(p.o.Features, func(l features.Level) bool { return l.Name == features.MetadataVersionName })
	if !chosen {
		p.VersionFrom = "a cluster id is known, and this is the newest level that released Apache Kafka reads"
		if p.ClusterID == "" {
			p.VersionFrom = "no cluster id is known, and this is the first level at which a cluster gives itself one"
		}
	}
	return nil
}

// credentials checks the SCRAM arguments, also where they will have no effect.
func (p *planner) credentials() error {
	if len(p.o.Scram) > 0 && !p.MetadataVersion.SupportsScram() {
		return &Refusal{Known: true, Option: "add-scram", Reason: "SCRAM is only supported in metadata.version 3.5-IV2 or later.",
			Where: "metadata.version is " + p.MetadataVersion.String()}
	}
	var errs []error
	for i, text := range p.o.Scram {
		arg, err := scram.Parse(string(text))
		if err != nil {
			errs = append(errs, &Refusal{Option: "add-scram", Reason: fmt.Sprintf("SCRAM credential %d of %d: %v", i+1, len(p.o.Scram), err),
				Help: "the form is SCRAM-SHA-256=[name=alice,password=alice-secret]"})
			continue
		}
		p.scram = append(p.scram, arg)
		p.Users = append(p.Users, User{arg.Name(), arg.Mechanism().String(), arg.Iterations()})
	}
	return errors.Join(errs...)
}

// verify checks the files that are there against the options and each other.
func (p *planner) verify() error {
	expect := metaprops.Expect{NodeID: p.o.NodeID, NodeIDFrom: p.o.NodeIDFrom}
	if p.o.ClusterID != nil {
		expect.ClusterID, expect.ClusterIDFrom = *p.o.ClusterID, p.o.ClusterIDFrom
	}
	if err := p.ensemble.Verify(expect); err != nil {
		return err
	}
	var errs []error
	var without []string // directories that wait for a cluster id
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		if d.Properties.Blank() {
			errs = append(errs, &Refusal{Reason: d.File() + " is empty",
				Help: "a crash or a full disk left it so: restore it from a copy, or if the directory holds nothing of worth remove the file and format again"})
		}
		if d.Properties.Version == metaprops.V2 {
			without = append(without, d.Path)
		}
	}
	if len(without) > 0 && p.known == "" && p.o.ClusterID != nil {
		reason := strings.Join(without, ", ") + ": formatted without a cluster id; it gets its id from the quorum"
		if p.o.Controller {
			errs = append(errs, &Refusal{Option: "cluster-id", Reason: reason, Help: "leave the cluster id out"})
		} else {
			p.warning("%s, and %s is not stored", reason, p.o.ClusterIDFrom)
		}
	}
	return errors.Join(errs...)
}

// choose decides which directories are formatted.
func (p *planner) choose() error {
	var formatted, empty []directory
	var bad []error
	for _, d := range p.dirs {
		switch {
		case d.unusable != nil && d.State == metaprops.Formatted:
			// Its own business is not ours: it stays as it is.
			formatted = append(formatted, d)
		case d.unusable != nil:
			bad = append(bad, d.unusable)
			p.Skipped = append(p.Skipped, d.unusable)
		case d.State == metaprops.Formatted:
			formatted = append(formatted, d)
		default:
			empty = append(empty, d)
		}
	}
	for _, d := range formatted {
		p.Formatted = append(p.Formatted, d.Path)
	}
	if len(formatted) > 0 && !p.o.IgnoreFormatted {
		e := &AlreadyFormattedError{Dir: formatted[0].Path}
		for _, d := range empty {
			e.Unformatted = append(e.Unformatted, d.Path)
		}
		return e
	}
	// Unlike Kafka: on a first format all directories must be good, for the one that is left out would be
	// missed at the start. On a node that is formatted a bad one is a failed disk.
	if len(bad) > 0 && len(formatted) == 0 {
		if len(p.ensemble.In(metaprops.Failed)) == len(p.dirs) {
			return &UnusableError{p.Skipped}
		}
		return errors.Join(bad...)
	}
	var errs []error
	for _, d := range empty {
		errs = append(errs, p.refuseEmpty(d, formatted))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, d := range empty {
		p.Format = append(p.Format, Directory{
			Path: d.Path, Kind: p.kind(d.Path), RemovesOldBootstrap: d.bootstrap, missing: d.Missing,
		})
		if d.Path == p.o.MetadataLogDir && p.o.Controller {
			p.checkpointDir = d.Path
		}
	}
	return nil
}

// refuseEmpty says why a directory without meta.properties must not be formatted, if so.
func (p *planner) refuseEmpty(d directory, formatted []directory) error {
	if d.live() {
		return p.lostProperties(d)
	}
	if !p.o.Standalone || d.Path != p.o.MetadataLogDir || len(formatted) == 0 {
		return nil
	}
	r := &Refusal{
		Reason: fmt.Sprintf("--standalone would start an empty cluster: %s belongs to an already bootstrapped node %d, whose metadata directory %s is empty",
			formatted[0].Path, p.o.NodeID, d.Path),
		Help: "is the disk mounted? If it is lost: --no-initial-controllers joins the quorum that the other controllers still have, or restore it from a copy",
	}
	for _, f := range formatted {
		if len(f.metadata) > 0 {
			r.Where = fmt.Sprintf("the metadata log is in %s", child(f.Path, checkpoint.MetadataDir))
			r.Help = "the metadata directory has moved: set metadata.log.dir to " + f.Path
		}
	}
	return r
}

// lostProperties refuses a directory with a live metadata log: with a new directory id the node
// would be no voter any more, and a new zero checkpoint would not be of its log.
func (p *planner) lostProperties(d directory) error {
	folder := child(d.Path, checkpoint.MetadataDir)
	r := &Refusal{
		Reason: fmt.Sprintf("%s has a metadata log, but %s has no meta.properties", folder, d.Path),
		Help:   "restore meta.properties from a copy, or move the folder away if the node is to begin anew",
	}
	if id, ok := storedVoter(p.disk, folder, d.metadata, p.o.NodeID); ok {
		r.Help = fmt.Sprintf("restore %s by hand: version=1, node.id=%d, the cluster.id of the cluster, and directory.id=%s, which the stored voters have for node %d; "+
			"or move the folder away if the node is to begin anew", child(d.Path, metaprops.FileName), p.o.NodeID, kafkaid.String(id), p.o.NodeID)
	}
	return r
}

func (p *planner) kind(path string) Kind {
	switch {
	case path != p.o.MetadataLogDir:
		return DataDirectory
	case p.o.Standalone || p.voter() != nil:
		return DynamicMetadataVoterDirectory
	case p.o.InitialControllers != nil:
		return DynamicMetadataDirectory
	}
	return MetadataDirectory
}

// voter is this node in the initial controllers, nil if it is none of them.
func (p *planner) voter() *checkpoint.Voter {
	for i := range p.initial {
		if p.initial[i].NodeID == p.o.NodeID {
			return &p.initial[i]
		}
	}
	return nil
}

// version decides about the cluster id of the new files, which the version must fit.
func (p *planner) version() error {
	if len(p.Format) == 0 || p.ClusterID != "" || p.MetadataVersion.SupportsClusterID() {
		return nil
	}
	option := "release-version"
	if p.o.Release == 0 {
		option = "feature"
	}
	return &Refusal{
		Option: option,
		Reason: fmt.Sprintf("metadata.version %s needs a cluster id, and none is known", p.MetadataVersion),
		Help: fmt.Sprintf("pass --cluster-id with the id of the cluster (random-uuid makes one for a new cluster), or format with --release-version %s or newer, at which the cluster gives itself an id",
			features.LatestProduction),
	}
}

// draw makes the random ids and the voters.
func (p *planner) draw() error {
	taken := map[uuid.UUID]string{}
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		taken[d.Properties.DirectoryID] = d.Path
	}
	for i := range p.Format {
		d := &p.Format[i]
		if v := p.voter(); v != nil && d.Path == p.o.MetadataLogDir {
			if other, ok := taken[v.DirectoryID]; ok {
				return &Refusal{Option: "initial-controllers", Reason: fmt.Sprintf("the directory id %s in --initial-controllers is that of %s already", kafkaid.String(v.DirectoryID), other),
					Help: "each log directory has an id of its own: random-uuid makes one"}
			}
			d.DirectoryID = v.DirectoryID
			continue
		}
		id, err := kafkaid.New(p.o.Random)
		if err != nil {
			return err
		}
		d.DirectoryID = id
	}
	p.Voters = p.initial
	if p.o.Standalone {
		v, err := p.standalone()
		if err != nil {
			return err
		}
		p.Voters = []checkpoint.Voter{v}
	}
	if p.checkpointDir == "" || !p.MetadataVersion.SupportsClusterID() {
		return nil
	}
	p.ClusterIDProposal = p.ClusterID
	if p.ClusterIDProposal == "" {
		id, err := kafkaid.New(p.o.Random)
		if err != nil {
			return err
		}
		p.ClusterIDProposal = kafkaid.String(id)
	}
	return nil
}

// standalone is this node as the only voter, under the id of its metadata directory.
func (p *planner) standalone() (checkpoint.Voter, error) {
	listener := p.o.ControllerListener
	if wildcard(listener.Host) {
		listener.Host = p.o.LocalHostName()
		if loopback(listener.Host) && p.checkpointDir != "" {
			p.warning("the controller listener %s has no host, so the voter's address is %s:%d, which other nodes cannot reach: set advertised.listeners",
				listener.Name, listener.Host, listener.Port)
		}
	}
	var id uuid.UUID
	for _, d := range p.Format {
		if d.Path == p.o.MetadataLogDir {
			id = d.DirectoryID
		}
	}
	return standaloneVoter(p.o.NodeID, id, listener.Name, listener.Host, listener.Port)
}
