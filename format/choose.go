package format

import (
	"errors"
	"fmt"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

// chooseDirectories decides which directories are formatted.
func (p *planner) chooseDirectories() error {
	var formatted, empty []*directory
	for i := range p.dirs {
		switch d := &p.dirs[i]; {
		case d.State == metaprops.Formatted:
			formatted = append(formatted, d) // whatever else is the matter with it: it stays as it is
			p.Formatted = append(p.Formatted, d.Path)
		case d.unusable != nil:
			p.Skipped = append(p.Skipped, d.unusable)
		default:
			empty = append(empty, d)
		}
	}
	if len(formatted) > 0 && !p.options.IgnoreFormatted {
		e := &AlreadyFormattedError{Dir: formatted[0].Path, Unusable: p.Skipped}
		for _, d := range empty {
			e.Unformatted = append(e.Unformatted, d.Path)
		}
		return e
	}
	if err := p.refuseUnusable(len(formatted) > 0); err != nil {
		return err
	}
	var errs []error
	for _, d := range empty {
		errs = append(errs, p.refuseEmpty(d, formatted))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.bootstrap = p.options.Server != nil && !p.options.Server.ReadsZeroCheckpoint()
	for _, d := range empty {
		p.Format = append(p.Format, Directory{Path: d.Path, Kind: p.kind(d.Path),
			RemovesOldBootstrap: d.bootstrap && !p.bootstrap, WritesBootstrap: p.bootstrap})
		if d.Path == p.options.MetadataLogDir && p.getsZeroCheckpoint() {
			p.checkpointDir = d.Path
		}
	}
	if p.checkpointDir == "" && !(p.bootstrap && len(p.Format) > 0) {
		p.Features, p.Users = nil, nil
	}
	return nil
}

// getsZeroCheckpoint reports whether the metadata directory, when it is formatted, gets a zero checkpoint.
func (p *planner) getsZeroCheckpoint() bool {
	if p.bootstrap {
		// As those releases do it, on a broker too.
		return p.options.Standalone || p.options.InitialControllers != nil
	}
	return p.options.Controller
}

// refuseUnusable says when directories that cannot be used stop the run. Unlike Kafka: on a first format all
// must be good, for one that is left out would be missed at the start. On a node that is formatted a bad data directory
// is a failed disk, but without its metadata directory it does not start.
func (p *planner) refuseUnusable(nodeFormatted bool) error {
	if !nodeFormatted && len(p.Skipped) == len(p.dirs) && len(p.ensemble.In(metaprops.Failed)) == len(p.dirs) {
		return &UnusableError{p.Skipped}
	}
	var errs []error
	for _, d := range p.Skipped {
		if !nodeFormatted || d.Dir == p.options.MetadataLogDir {
			errs = append(errs, d)
		}
	}
	return errors.Join(errs...)
}

// refuseEmpty says why a directory without meta.properties must not be formatted, if so.
func (p *planner) refuseEmpty(d *directory, formatted []*directory) error {
	if d.live() {
		return p.lostProperties(d)
	}
	if !p.options.Standalone || d.Path != p.options.MetadataLogDir || len(formatted) == 0 {
		return nil
	}
	r := &Refusal{Rule: LostMetadata, Reason: fmt.Sprintf("%s belongs to an already bootstrapped node %d, its metadata directory %s is empty: --standalone would start an empty cluster",
		formatted[0].Path, p.NodeID, d.Path)}
	for _, f := range formatted {
		if len(f.metadata) > 0 {
			r.Hint = fmt.Sprintf("the metadata log is in %s: metadata.log.dir should be %s", disk.Join(f.Path, checkpoint.MetadataDir), f.Path)
		}
	}
	return r
}

// lostProperties refuses a directory with a live metadata log: with a new directory id the node
// would be no voter any more, and a new zero checkpoint would not be of its log.
func (p *planner) lostProperties(d *directory) error {
	folder := disk.Join(d.Path, checkpoint.MetadataDir)
	r := &Refusal{Rule: LostProperties, Reason: fmt.Sprintf("%s has a metadata log, but %s has no meta.properties", folder, d.Path)}
	if id, ok := storedVoter(p.disk, folder, d.metadata, p.NodeID); ok {
		r.Hint = fmt.Sprintf("in %s: version=1, node.id=%d, the cluster.id of the cluster, and directory.id=%s, which the stored voters have for node %d",
			d.File(), p.NodeID, kafkaid.String(id), p.NodeID)
	}
	return r
}

func (p *planner) kind(path string) Kind {
	switch {
	case path != p.options.MetadataLogDir:
		return DataDirectory
	case p.options.Standalone || p.voter() != nil:
		return DynamicMetadataVoterDirectory
	case p.options.InitialControllers != nil:
		return DynamicMetadataDirectory
	}
	return MetadataDirectory
}

// voter is this node in the initial controllers, nil if it is none of them.
func (p *planner) voter() *checkpoint.Voter {
	for i := range p.initial {
		if p.initial[i].NodeID == p.NodeID {
			return &p.initial[i]
		}
	}
	return nil
}
