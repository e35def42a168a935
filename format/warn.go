package format

import (
	"fmt"
	"net"
	"strings"

	"kstorage/features"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

// warn tells of what works, but perhaps not as its author thinks.
func (p *planner) warn() {
	for _, d := range p.Skipped {
		p.warning("%v; the directory is left out, as a failed disk", d)
	}
	if len(p.Format) > 0 && p.ClusterID != "" && p.ClusterID != p.known {
		p.warnClusterID()
	}
	p.warnDirectories()
	p.warnVoters()
	p.warnWithoutEffect()
	if p.checkpointDir != "" && !p.MetadataVersion.SupportsZeroCheckpoint() {
		p.warning("these files need a server of Kafka 4.4 or newer, although metadata.version %s is older: servers before 4.4 do not read the metadata in the zero checkpoint", p.MetadataVersion)
	}
}

func (p *planner) warnClusterID() {
	id := p.ClusterID
	if _, err := kafkaid.Parse(id); err != nil || len(id) != kafkaid.TextLen {
		p.warning("the cluster id %q is no UUID of %d characters, as random-uuid makes them", id, kafkaid.TextLen)
	} else if !kafkaid.Canonical(id) {
		p.warning("the last character of the cluster id %s is not the one that base64 gives; it is kept as it is", id)
	}
}

func (p *planner) warnDirectories() {
	for _, d := range p.dirs {
		if d.Properties.Version == metaprops.V0 && d.State == metaprops.Formatted {
			p.warning("%s is of version 0, from before KRaft: a server in KRaft mode does not start with it", d.File())
		}
	}
	p.Warnings = append(p.Warnings, hazards(p.disk, p.o.LogDirs)...)
	if p.checkpointDir == "" || len(p.Formatted) == 0 {
		return
	}
	p.warning("node %d comes back without its metadata log: %s is empty, but %s is formatted. If it was a voter and a majority of voters loses its log so, what they committed is lost; format one such node at a time and wait until it has caught up",
		p.o.NodeID, p.checkpointDir, strings.Join(p.Formatted, ", "))
}

// Hazards are the things in the log directories of a node with which a Kafka broker refuses to
// start, though they can be formatted.
func Hazards(logDirs []string) []string { return hazards(disk.OS, logDirs) }

func hazards(fsys disk.FS, logDirs []string) []string {
	var out []string
	for _, dir := range logDirs {
		if info, err := fsys.Stat(child(dir, "lost+found")); err == nil && info.IsDir() {
			out = append(out, fmt.Sprintf("%s has a folder lost+found: a Kafka broker refuses to start with it; use a folder below the mount point as log directory", dir))
		}
	}
	return out
}

func (p *planner) warnVoters() {
	v := p.voter()
	if p.o.InitialControllers == nil || len(p.Format) == 0 {
		return
	}
	if v == nil {
		p.warning("node %d is none of the initial controllers: it will be no voter", p.o.NodeID)
		return
	}
	if port := p.o.ControllerListener.Port; p.o.Controller && v.Endpoints[0].Port != port {
		p.warning("--initial-controllers gives node %d the port %d, but its controller listener %s has %d", p.o.NodeID, v.Endpoints[0].Port, p.o.ControllerListener.Name, port)
	}
}

// warnWithoutEffect names in one line the options that only count for directories that are formatted now.
func (p *planner) warnWithoutEffect() {
	if len(p.o.Scram) > 0 && !p.o.Controller {
		p.warning("--add-scram has no effect on a broker: the credentials are stored by the controllers, which are formatted with it")
		return
	}
	var unused []string
	metadata := p.metadataDir()
	if len(p.o.Scram) > 0 && p.checkpointDir == "" {
		unused = append(unused, "--add-scram (kafka-configs --alter --add-config adds users to a running cluster)")
	}
	if v := p.voter(); v != nil && metadata != nil && metadata.State == metaprops.Formatted && metadata.Properties.DirectoryID != v.DirectoryID {
		unused = append(unused, fmt.Sprintf("--initial-controllers (it gives node %d the directory id %s, but %s has %s)",
			v.NodeID, kafkaid.String(v.DirectoryID), metadata.Path, kafkaid.String(metadata.Properties.DirectoryID)))
	}
	if len(unused) > 0 {
		p.warning("without effect, because %s is not formatted now: %s", p.o.MetadataLogDir, strings.Join(unused, ", "))
	}
}

func (p *planner) metadataDir() *directory {
	for i := range p.dirs {
		if p.dirs[i].Path == p.o.MetadataLogDir {
			return &p.dirs[i]
		}
	}
	return nil
}

// wildcard reports whether a listener with this host listens on all addresses.
func wildcard(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || ip != nil && ip.IsUnspecified()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Notice says which level was chosen where nobody did, why, and which release first reads it; "" if there is nothing to say.
func (p *Plan) Notice() string {
	if p.VersionFrom == "" || len(p.Format) == 0 {
		return ""
	}
	reader := "Apache Kafka " + p.MetadataVersion.Release()
	if p.MetadataVersion > features.LatestKafka && p.MetadataVersion.SupportsClusterID() {
		reader = "kstorage " + p.MetadataVersion.Release() + " (no released Apache Kafka does, and there is no way back from it)"
	}
	return fmt.Sprintf("Using metadata.version %s: %s; first read by %s. Choose another with --release-version.", p.MetadataVersion, p.VersionFrom, reader)
}
