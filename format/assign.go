package format

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

// assignIDs gives the directories their ids and makes the voters and the proposal of a cluster id.
func (p *planner) assignIDs() error {
	taken := map[uuid.UUID]string{}
	for _, d := range p.ensemble.In(metaprops.Formatted) {
		taken[d.Properties.DirectoryID] = d.Path
	}
	var metadataID uuid.UUID
	for i := range p.Format {
		d := &p.Format[i]
		isMetadata := d.Path == p.options.MetadataLogDir
		if v := p.voter(); isMetadata && v != nil {
			if other, ok := taken[v.DirectoryID]; ok {
				return &Refusal{Rule: DirectoryIDTaken, Reason: fmt.Sprintf("the directory id %s of node %d in the initial controllers is that of %s already", kafkaid.String(v.DirectoryID), v.NodeID, other)}
			}
			d.DirectoryID = v.DirectoryID
		} else {
			id, err := kafkaid.New(p.options.Random)
			if err != nil {
				return err
			}
			d.DirectoryID = id
		}
		if isMetadata {
			metadataID = d.DirectoryID
		}
	}
	if p.checkpointDir == "" {
		return nil
	}
	p.Voters = p.initial
	if p.options.Standalone {
		v, err := p.standaloneVoter(metadataID)
		if err != nil {
			return err
		}
		p.Voters = []checkpoint.Voter{v}
	}
	if !p.MetadataVersion.SupportsClusterID() {
		return nil
	}
	p.ClusterIDProposal = p.ClusterID
	if p.ClusterIDProposal == "" {
		id, err := kafkaid.New(p.options.Random)
		if err != nil {
			return err
		}
		p.ClusterIDProposal = kafkaid.String(id)
	}
	return nil
}

// standaloneVoter is this node as the only voter, under the id of its metadata directory.
func (p *planner) standaloneVoter(directoryID uuid.UUID) (checkpoint.Voter, error) {
	listener := p.options.ControllerListener
	if ip := net.ParseIP(strings.Trim(listener.Host, "[]")); listener.Host == "" || ip != nil && ip.IsUnspecified() {
		listener.Host = p.options.LocalHostName()
		if isLoopback(listener.Host) {
			p.warning("the controller listener %s has no host, so the voter's address is %s:%d, which other nodes cannot reach: set advertised.listeners",
				listener.Name, listener.Host, listener.Port)
		}
	}
	return standaloneVoter(p.NodeID, directoryID, listener.Name, listener.Host, listener.Port)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "localhost") || ip != nil && ip.IsLoopback()
}

// LocalHostName is what Java calls the canonical name of the local host: the name that the
// first address of the host name resolves back to, if it resolves to that address again, else
// the address. Where the host name does not resolve at all it is the host name.
func LocalHostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	addresses, err := net.LookupHost(host)
	if err != nil || len(addresses) == 0 {
		return host
	}
	address := addresses[0]
	for _, a := range addresses {
		if net.ParseIP(a).To4() != nil {
			address = a // Java prefers IPv4 unless told otherwise
			break
		}
	}
	names, err := net.LookupAddr(address)
	if err != nil || len(names) == 0 {
		return address
	}
	name := strings.TrimSuffix(names[0], ".")
	back, err := net.LookupHost(name)
	if err != nil {
		return address
	}
	for _, a := range back {
		if a == address {
			return name
		}
	}
	return address
}
