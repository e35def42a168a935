package main

import (
	"errors"
	"fmt"
	"strings"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/format"
	"kstorage/internal/cli"
	"kstorage/internal/config"
	"kstorage/internal/disk"
	"kstorage/internal/dump"
	"kstorage/metaprops"
)

// advice is what a person hears about a rule of format beside the reason.
type advice struct {
	known   bool     // the reason is a sentence of Kafka's that scripts know
	options []string // those that it may be about
	fix     string
}

var rules = map[format.Rule]advice{
	format.StaticQuorum:     {true, []string{"standalone", "initial-controllers"}, "leave the option out to keep the static voters"},
	format.StandaloneBroker: {true, []string{"standalone"}, "a broker needs no option; its controllers are formatted with one"},
	format.NoFirstVoters: {true, nil,
		"--standalone for a new cluster with this one controller, --initial-controllers for one with several, --no-initial-controllers to join a cluster"},
	format.ScramUnsupported: {true, []string{"add-scram", "release-version", "feature"}, "choose a newer release, or add the users to the running cluster"},
	format.BadCredential:    {false, []string{"add-scram"}, "the form is SCRAM-SHA-256=[name=alice,password=alice-secret]"},
	format.ClusterIDRequired: {false, []string{"release-version", "feature"},
		fmt.Sprintf("pass --cluster-id with the id of the cluster (random-uuid makes one for a new cluster), or format with --release-version %s or newer, at which the cluster gives itself an id", features.LatestProduction)},
	format.EmptyClusterID:     {false, []string{"cluster-id"}, "pass the id of the cluster; without the option and its variable the node gets its id from the quorum"},
	format.BadClusterID:       {false, []string{"cluster-id"}, "pass the id as the cluster has it"},
	format.ClusterIDNotStored: {false, []string{"cluster-id"}, "leave the cluster id out; if the log of the node says that the cluster carries none, empty its directories first"},
	format.EmptyProperties:    {false, nil, "a crash or a full disk left it so: restore it from a copy, or if the directory holds nothing of worth remove the file and format again"},
	format.OneDirectory:       {false, nil, "remove one of them from the log directories"},
	format.LostProperties:     {false, nil, "restore meta.properties from a copy or by hand, or move the folder away if the node is to begin anew"},
	format.LostMetadata: {false, []string{"standalone"},
		"is the disk mounted? If it is lost: --no-initial-controllers joins the quorum that the other controllers still have, or restore it from a copy"},
	format.DirectoryIDTaken:  {false, []string{"initial-controllers"}, "each log directory has an id of its own: random-uuid makes one"},
	format.ReplacedMeanwhile: {false, nil, "look with info at what is there"},
	format.ServerNeedsClusterID: {false, []string{"kafka-version"},
		"pass --cluster-id with the id of the cluster (random-uuid makes one for a new cluster)"},
}

// explain turns the errors of the packages into what a person reads.
func (s *session) explain(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		if _, ok := err.(*format.UnusableError); ok {
			out = append(out, &cli.Problem{Verbatim: true, What: err.Error()})
		}
		for _, e := range joined.Unwrap() {
			out = append(out, s.explain(e))
		}
		return errors.Join(out...)
	}
	p := &cli.Problem{What: err.Error()}
	switch e := err.(type) {
	case *cli.Problem:
		return e
	case *format.Refusal:
		a := rules[e.Rule]
		p.Verbatim, p.Where, p.Fix = a.known, s.given(a.options...), join("\n", e.Hint, a.fix)
	case *format.AlreadyFormattedError:
		p.Verbatim = true
		if len(e.Unformatted) > 0 {
			p.Fix = "not yet formatted: " + strings.Join(e.Unformatted, ", ") + "; they are, if --ignore-formatted is given too"
		}
		var unusable []string
		for _, d := range e.Unusable {
			unusable = append(unusable, d.Error())
		}
		p.Where = strings.Join(unusable, "; ")
	case *format.DirError:
		if errors.Is(e, disk.ErrLocked) {
			p.Fix = "stop the node or the other run that works on this directory before you format"
		}
		if len(e.Done) > 0 {
			p.Where = "formatted before it failed: " + strings.Join(e.Done, ", ")
			p.Fix = "run the same command with --ignore-formatted for the others"
		}
	case *format.VoterError:
		p.Where = s.given("initial-controllers")
	case *config.Error:
		p.What, p.Where, p.Fix, p.Verbatim = e.What(), e.Where(), e.Fix, e.Verbatim
	case *checkpoint.CorruptError:
		p.What, p.Where = "a file is damaged: "+e.Reason, fmt.Sprintf("%s, byte %d", e.File, e.Offset)
	case *dump.FileError:
		p.What, p.Where = e.Reason, e.File
	case *metaprops.DirError:
		p.What = fmt.Sprintf("cannot %s %s: %s", e.Op, e.Path, disk.Reason(e.Err))
	case *metaprops.ClusterIDError:
		p.Verbatim, p.Fix = true, "pass the id that is on disk, or none; another id belongs to another cluster, whose nodes have directories of their own"
	case *metaprops.NodeIDError:
		p.Verbatim, p.Fix = true, "configure the node id that is on disk; a new node needs empty directories"
	case *metaprops.DirectoryIDError:
		p.Fix = "remove the copy, or its meta.properties, from the log directories"
		if e.Reserved {
			p.Fix = "no directory has a reserved id: give it the one that the cluster knows it by, or format it again without its meta.properties"
		}
	case *features.UnknownVersionError:
		p.Verbatim, p.Where = true, s.given("release-version")
	case *features.AmbiguousVersionError:
		p.Verbatim, p.Where = true, s.given("release-version", "feature")
	case *features.UnsupportedFeatureError:
		p.Verbatim, p.Where = true, s.given("feature")
		if e.Server != nil {
			p.Where = s.given("feature", "kafka-version")
		}
	case *features.KRaftVersionError:
		p.Verbatim, p.Where = true, s.given("feature")
	case *features.UnknownReleaseError:
		p.Where, p.Fix = s.given("kafka-version"), "an older server is formatted by the tool of its own release; for a newer one leave the option out"
	case *features.NewerThanReleaseError:
		p.Where, p.Fix = s.given("release-version", "feature", "kafka-version"), "choose an older level; kfeatures upgrade raises it when all servers are newer"
	case *features.SyntaxError, *features.UnknownLevelError, *features.UnstableVersionError, *features.RequirementError:
		p.Where = s.given("feature")
	}
	return p
}

// given names those of the options that have a value, or the variables that gave it to them.
func (s *session) given(options ...string) string {
	var names []string
	for _, option := range options {
		if s.ctx.IsSet(option) {
			names = append(names, s.from(option))
		}
	}
	return strings.Join(names, " and ")
}

// join is strings.Join without the empty parts.
func join(separator string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, separator)
}
