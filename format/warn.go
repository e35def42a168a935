package format

import (
	"fmt"
	"slices"
	"strings"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

// warn tells of what works, but perhaps not as its author thinks.
func (p *planner) warn() {
	for _, d := range p.Skipped {
		p.warning("%v; the directory is left out, as a failed disk", d)
	}
	if len(p.Format) > 0 && p.ClusterID != p.known {
		p.warnClusterID()
	}
	p.warnDirectories()
	p.warnServer()
	p.warnVoters()
	p.warnWithoutEffect()
	if p.checkpointDir != "" && p.options.Server == nil && !p.MetadataVersion.SupportsZeroCheckpoint() {
		p.warning("these files need a server of Kafka 4.4 or newer, although metadata.version %s is older: servers before 4.4 do not read the metadata in the zero checkpoint; for one of them format with --kafka-version", p.MetadataVersion)
	}
}

func (p *planner) warnClusterID() {
	id := *p.options.ClusterID // as it was given: a server reads one beyond ASCII otherwise
	if _, err := kafkaid.Parse(id); err != nil || len(id) != kafkaid.TextLen {
		p.warning("the cluster id %q is no UUID of %d characters, as random-uuid makes them", id, kafkaid.TextLen)
	} else if !kafkaid.Canonical(id) {
		p.warning("the last character of the cluster id %s is not the one that base64 gives; it is kept as it is", id)
	}
}

func (p *planner) warnDirectories() {
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		if d.Properties.Version == metaprops.V0 {
			p.warning("%s is of version 0, from before KRaft: a server in KRaft mode does not start with it", d.File())
		}
	}
	p.Warnings = append(p.Warnings, hazards(p.disk, p.options.LogDirs)...)
	if p.losesMetadataLog() {
		p.warning("node %d comes back without its metadata log: %s is empty, but %s is formatted. If it was a voter and a majority of voters loses its log so, what they committed is lost; format one such node at a time and wait until it has caught up",
			p.NodeID, p.options.MetadataLogDir, strings.Join(p.Formatted, ", "))
	}
}

// warnServer says that what was formatted before is for another server. What cannot be read is passed over.
func (p *planner) warnServer() {
	if !p.bootstrap || !slices.Contains(p.Formatted, p.options.MetadataLogDir) {
		return
	}
	name := disk.Join(disk.Join(p.options.MetadataLogDir, checkpoint.MetadataDir), zeroCheckpoint)
	f, err := p.disk.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	if b, err := checkpoint.ReadBootstrap(f, name); err == nil && b.Records > 0 {
		p.warning("%s has the metadata that servers of Kafka 4.4 and newer begin with: the directory was formatted for one of those, and servers of Kafka %v do not begin a cluster with it",
			name, p.options.Server)
	}
}

// losesMetadataLog reports whether the node was formatted before, but its metadata directory is formatted only now.
func (p *planner) losesMetadataLog() bool {
	return p.options.Controller && len(p.Formatted) > 0 &&
		slices.ContainsFunc(p.Format, func(d Directory) bool { return d.Path == p.options.MetadataLogDir })
}

// Hazards are the things in the log directories of a node with which a Kafka broker refuses to
// start, though they can be formatted.
func Hazards(logDirs []string) []string { return hazards(disk.OS, logDirs) }

func hazards(fsys disk.FS, logDirs []string) []string {
	var out []string
	for _, dir := range logDirs {
		if info, err := fsys.Stat(disk.Join(dir, "lost+found")); err == nil && info.IsDir() {
			out = append(out, fmt.Sprintf("%s has a folder lost+found: a Kafka broker refuses to start with it; use a folder below the mount point as log directory", dir))
		}
	}
	return out
}

func (p *planner) warnVoters() {
	if p.options.InitialControllers == nil || len(p.Format) == 0 || !p.options.Controller {
		return
	}
	v := p.voter()
	if v == nil {
		p.warning("node %d is none of the initial controllers: it will be no voter", p.NodeID)
		return
	}
	if listener := p.options.ControllerListener; v.Endpoints[0].Port != listener.Port {
		p.warning("--initial-controllers gives node %d the port %d, but its controller listener %s has %d", p.NodeID, v.Endpoints[0].Port, listener.Name, listener.Port)
	}
}

// warnWithoutEffect names in one line the options that only count for directories that are formatted now.
func (p *planner) warnWithoutEffect() {
	o := &p.options
	if len(o.Scram) > 0 && !o.Controller {
		p.warning("--add-scram has no effect on a broker: the credentials are stored by the controllers, which are formatted with it")
		return
	}
	var unused []string
	if len(o.Scram) > 0 && p.Features == nil {
		unused = append(unused, "--add-scram (kafka-configs --alter --add-config adds users to a running cluster)")
	}
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		if v := p.voter(); v != nil && d.Path == o.MetadataLogDir && d.Properties.DirectoryID != v.DirectoryID {
			unused = append(unused, fmt.Sprintf("--initial-controllers (it gives node %d the directory id %s, but %s has %s)",
				v.NodeID, kafkaid.String(v.DirectoryID), d.Path, kafkaid.String(d.Properties.DirectoryID)))
		}
	}
	if len(unused) > 0 {
		p.warning("without effect, because %s is not formatted now: %s", o.MetadataLogDir, strings.Join(unused, ", "))
	}
}
