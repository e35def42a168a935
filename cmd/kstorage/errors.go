package main

import (
	"errors"
	"fmt"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/format"
	"kstorage/internal/cli"
	"kstorage/internal/config"
	"kstorage/internal/dump"
	"kstorage/metaprops"
)

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
	case *format.AlreadyFormattedError:
		p.Verbatim, p.Fix = true, e.Fix()
	case *format.Refusal:
		p.Verbatim, p.Where, p.Fix = e.Known, e.Where, e.Help
		if e.Option != "" && p.Where == "" {
			p.Where = s.from(e.Option)
		}
	case *format.VoterError:
		p.Where = s.from("initial-controllers")
	case *format.DirError:
		p.Fix = e.Help
	case *config.Error:
		p.What, p.Where, p.Fix, p.Verbatim = e.What(), e.Where(), e.Fix, e.Verbatim
	case *checkpoint.CorruptError:
		p.What = "a file is damaged: " + e.Reason
		p.Where = fmt.Sprintf("%s, byte %d", e.File, e.Offset)
	case *dump.FileError:
		p.What, p.Where = e.Reason, e.File
	case *metaprops.ClusterIDError:
		p.Verbatim, p.Fix = true, "pass the id that is on disk, or none; another id belongs to another cluster, whose nodes have directories of their own"
	case *metaprops.NodeIDError:
		p.Verbatim, p.Fix = true, "configure the node id that is on disk; a new node needs empty directories"
	case *metaprops.DirectoryIDError:
		p.Fix = "remove the copy, or its meta.properties, from the log directories"
	case *features.UnknownVersionError:
		p.Verbatim, p.Where = true, s.from("release-version")
	case *features.AmbiguousVersionError:
		p.Verbatim, p.Where = true, s.from("release-version")+" and "+s.from("feature")
	case *features.UnsupportedFeatureError, *features.KRaftVersionError:
		p.Verbatim, p.Where = true, s.from("feature")
	case *features.SyntaxError, *features.UnknownLevelError, *features.UnstableVersionError, *features.RequirementError:
		p.Where = s.from("feature")
	}
	return p
}
