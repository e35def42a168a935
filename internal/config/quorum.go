package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Address is an entry of controller.quorum.bootstrap.servers.
type Address struct {
	Host string // as the file has it; "" is the loopback address
	Port uint16
}

// Voter is an entry of controller.quorum.voters.
type Voter struct {
	NodeID int32
	Address
}

// The forms of settings whose entries are addresses.
const (
	addresses = "addresses"
	voters    = "voters"
)

const (
	addressForm = "the form is HOST:PORT,HOST:PORT"
	voterForm   = "the form is ID@HOST:PORT,ID@HOST:PORT"
)

func parseAddresses(entries []string) ([]Address, *problem) {
	var out []Address
	for _, entry := range entries {
		address, ok := parseAddress(entry)
		if !ok {
			return nil, &problem{reason: fmt.Sprintf("%q is no address", entry), fix: addressForm}
		}
		out = append(out, address)
	}
	return out, nil
}

// parseVoters returns the voters in the order of their ids; of two with one id the last counts.
func parseVoters(entries []string) ([]Voter, *problem) {
	byID := map[int32]Voter{}
	for _, entry := range entries {
		idText, addressText, hasAt := strings.Cut(entry, "@")
		addressText = strings.TrimRight(addressText, "@")
		id, isID := parseInteger(idText, 32)
		address, isAddress := parseAddress(addressText)
		switch {
		case !hasAt || !isAddress:
			return nil, &problem{reason: fmt.Sprintf("%q is no voter", entry), fix: voterForm}
		case !isID:
			return nil, &problem{reason: fmt.Sprintf("%q of %q is no node id", idText, entry), fix: voterForm}
		}
		byID[int32(id)] = Voter{int32(id), address}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b Voter) int { return cmp.Compare(a.NodeID, b.NodeID) }), nil
}

// parseAddress reads HOST:PORT; as Kafka does, it takes SCHEME:// in front.
func parseAddress(text string) (Address, bool) {
	if scheme, rest, ok := strings.Cut(text, "://"); ok && !strings.Contains(scheme, ":") && isHost(scheme) {
		text = rest
	}
	host, portText, ok := cutPort(text)
	if !ok || !isHost(host) || !isDigits(portText) {
		return Address{}, false
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	return Address{host, uint16(port)}, err == nil
}

// quorum reads who the controllers are.
func (l *loader) quorum() {
	if l.usable("controller.quorum.voters") {
		l.QuorumVoters, _ = parseVoters(l.List("controller.quorum.voters"))
	}
	if l.usable("controller.quorum.bootstrap.servers") {
		l.BootstrapServers, _ = parseAddresses(l.List("controller.quorum.bootstrap.servers"))
	}
	l.AutoJoin = l.usable("controller.quorum.auto.join.enable") && l.Bool("controller.quorum.auto.join.enable")

	if l.usable("controller.quorum.voters", "controller.quorum.bootstrap.servers") && len(l.QuorumVoters) == 0 && len(l.BootstrapServers) == 0 {
		l.fail("controller.quorum.bootstrap.servers", "neither it nor controller.quorum.voters names a controller",
			"set controller.quorum.bootstrap.servers to the addresses of the controllers, as HOST:PORT")
	}
	if l.usable("controller.quorum.voters", "node.id", "process.roles") && len(l.QuorumVoters) > 0 {
		_, isVoter := l.voter(l.NodeID)
		switch {
		case l.IsController && !isVoter:
			l.fail("controller.quorum.voters", fmt.Sprintf("node %d (%s) is a controller, but none of the voters", l.NodeID, l.Source("node.id")),
				"add it, or correct node.id, or remove controller from process.roles")
		case !l.IsController && isVoter:
			l.fail("controller.quorum.voters", fmt.Sprintf("node %d (%s) is one of the voters, but no controller", l.NodeID, l.Source("node.id")),
				"remove it, or correct node.id, or add controller to process.roles")
		}
	}
	if l.AutoJoin && l.usable("process.roles") && !l.IsController {
		l.fail("controller.quorum.auto.join.enable", "it is for controllers only", "remove the line, or add controller to process.roles")
	}
}

func (c *Config) voter(id int32) (Voter, bool) {
	for _, v := range c.QuorumVoters {
		if v.NodeID == id {
			return v, true
		}
	}
	return Voter{}, false
}
