package format

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/javatext"
	"kstorage/internal/kafkaid"
)

// VoterError is an entry of a list of initial controllers that names no voter.
type VoterError struct {
	Entry  string // as given, without the blanks around it; the whole list where that has no entry
	Reason string
}

func (e *VoterError) Error() string {
	return fmt.Sprintf("initial controller %q: %s; the form is id@host:port:directory-id", e.Entry, e.Reason)
}

// ParseInitialControllers reads the list of --initial-controllers, id@host:port:directory-id,...
// (KIP-853), and returns the voters in the order of their ids. listenerName is the first of
// controller.listener.names; the voters have it in upper case, as Kafka writes it.
//
// What an entry may be is what Kafka's tool takes. Control characters and blanks around it are
// dropped; nothing at all between two commas is skipped, a blank is not. Numbers may have a sign,
// leading zeros and digits of any script. A host with colons stands in brackets, any other may. IP
// addresses are written as Java does, 0:0:0:0:0:0:0:1 for ::1 and 127.0.0.1 for 127.1, an empty
// host is localhost, names stay as they are and are not looked up. The directory id is written in
// its canonical form.
//
// Errors are *VoterError, one for each bad entry, joined in the order of the list.
func ParseInitialControllers(list, listenerName string) ([]checkpoint.Voter, error) {
	var voters []checkpoint.Voter
	var errs []error
	list = javatext.Trim(list)
	for entry := range strings.SplitSeq(list, ",") {
		if entry == "" {
			continue
		}
		entry = javatext.Trim(entry)
		v, reason := parseVoter(entry, listenerName)
		if reason == "" {
			reason = conflict(voters, v)
		}
		if reason != "" {
			errs = append(errs, &VoterError{entry, reason})
			continue
		}
		voters = append(voters, v)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	if voters == nil {
		return nil, &VoterError{list, "the list is empty"}
	}
	slices.SortFunc(voters, func(a, b checkpoint.Voter) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return voters, nil
}

// standaloneVoter is the voter that --standalone makes of the advertised endpoint of this node's
// first controller listener. Kafka's tool cannot express an IPv6 address there; nor does this one,
// so that both give the same files or none. Error: *VoterError.
func standaloneVoter(nodeID int32, directoryID uuid.UUID, listenerName, host string, port uint16) (checkpoint.Voter, error) {
	if strings.Contains(host, ":") {
		// The directory's id may be a random one that is gone when the command ends.
		const id = "DIRECTORY-ID"
		return checkpoint.Voter{}, &VoterError{
			Entry: fmt.Sprintf("%d@%s:%d:%s", nodeID, host, port, id),
			Reason: fmt.Sprintf("--standalone takes no IPv6 address, use --initial-controllers %d@[%s]:%d:%s with an id from random-uuid",
				nodeID, host, port, id),
		}
	}
	return newVoter(nodeID, directoryID, listenerName, host, port), nil
}

func newVoter(nodeID int32, directoryID uuid.UUID, listenerName, host string, port uint16) checkpoint.Voter {
	return checkpoint.Voter{
		NodeID:      nodeID,
		DirectoryID: directoryID,
		Endpoints:   []checkpoint.Endpoint{{Name: strings.ToUpper(listenerName), Host: hostString(host), Port: port}},
		// Kafka's tool writes what it supports itself, for every voter.
		MinKRaftVersion: 0,
		MaxKRaftVersion: 1,
	}
}

// parseVoter reads one entry. A reason says that it is none.
func parseVoter(entry, listenerName string) (v checkpoint.Voter, reason string) {
	if !utf8.ValidString(entry) {
		// Unlike Kafka: Java puts U+FFFD for the bad bytes, and no node has such a host.
		return v, "it is not UTF-8"
	}
	idText, rest, ok := strings.Cut(entry, "@")
	if !ok {
		return v, "there is no @ after a node id"
	}
	nodeID, err := javatext.ParseInt(idText, 32)
	if err != nil || nodeID < 0 {
		return v, fmt.Sprintf("node id %q is not a number from 0 to %d", idText, math.MaxInt32)
	}
	if bareIPv6(rest) {
		return v, "an IPv6 address stands in brackets"
	}

	var host string
	if bracketed, found := strings.CutPrefix(rest, "["); found {
		if host, rest, ok = strings.Cut(bracketed, "]"); !ok {
			return v, "there is no ] after the host"
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			return v, "there is no port after the ] of the host"
		}
	} else if host, rest, ok = strings.Cut(rest, ":"); !ok {
		return v, "there is no port after the host"
	}
	portText, directoryText, ok := strings.Cut(rest, ":")
	port, err := javatext.ParseInt(portText, 32)
	switch {
	case err != nil || port < 0 || port > math.MaxUint16:
		return v, fmt.Sprintf("port %q is not a number from 0 to %d", portText, math.MaxUint16)
	case !ok || directoryText == "":
		return v, "there is no directory id after the port"
	}
	directoryID, err := kafkaid.Parse(directoryText)
	if err != nil {
		return v, "directory id: " + err.Error()
	}
	return newVoter(int32(nodeID), directoryID, listenerName, host, uint16(port)), ""
}

// conflict says why v cannot be a voter beside the others.
func conflict(voters []checkpoint.Voter, v checkpoint.Voter) string {
	id := kafkaid.String(v.DirectoryID)
	for _, other := range voters {
		if other.NodeID == v.NodeID {
			return fmt.Sprintf("node id %d was given before", v.NodeID)
		}
		if other.DirectoryID == v.DirectoryID {
			// Unlike Kafka: it writes such voters, though two directories never have the same id.
			return fmt.Sprintf("directory id %s is that of node %d", id, other.NodeID)
		}
	}
	if kafkaid.Reserved(v.DirectoryID) {
		// Unlike Kafka: it writes such a voter, though a server refuses such a directory.
		return fmt.Sprintf("directory id %s is a reserved one", id)
	}
	return ""
}

// bareIPv6 reports whether s is an IPv6 address without brackets, a port and a directory id.
func bareIPv6(s string) bool {
	for range 2 {
		s = s[:max(0, strings.LastIndexByte(s, ':'))]
	}
	address, _, _ := strings.Cut(s, "%")
	_, ok := parseIPv6(address)
	return ok
}

// hostString is what Java makes of a host (InetSocketAddress.getHostString) without looking up names.
func hostString(host string) string {
	if host == "" {
		return "localhost"
	}
	if ip, ok := parseIPv4(host); ok {
		return ip.String()
	}
	address, zone, scoped := strings.Cut(host, "%")
	ip, ok := parseIPv6(address)
	switch {
	case !ok, scoped && (zone == "" || ip.Is4In6()):
		return host
	case ip.Is4In6():
		return ip.Unmap().String()
	}
	address = strings.Join(hexGroups(ip.AsSlice()), ":")
	if !scoped {
		return address
	}
	if n, err := strconv.ParseUint(zone, 10, 31); err == nil {
		zone = strconv.FormatUint(n, 10)
	}
	// Unlike Kafka: where this machine has no such interface it writes the host as given. But the
	// other nodes get the same list, and their records must not differ by interfaces.
	return address + "%" + zone
}

// parseIPv4 reads an IPv4 address of one to four decimal numbers, the last of which fills the bytes
// that are left. Java takes no more than 15 characters, and a leading zero makes no octal number.
func parseIPv4(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	last := len(parts) - 1
	if len(s) > len("255.255.255.255") || last > 3 {
		return netip.Addr{}, false
	}
	var ip uint32
	for i, part := range parts {
		bits := 8
		if i == last {
			bits = 32 - 8*last
		}
		n, err := strconv.ParseUint(part, 10, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		ip = ip<<bits | uint32(n)
	}
	return netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)}), true
}

// parseIPv6 reads an IPv6 address without a zone. Beyond the usual forms Java takes any number of
// leading zeros, also in an IPv4 address at the end.
func parseIPv6(s string) (netip.Addr, bool) {
	groups := strings.Split(s, ":")
	last := len(groups) - 1
	if ip, ok := parseIPv4(groups[last]); ok && strings.Count(groups[last], ".") == 3 {
		groups = append(groups[:last], hexGroups(ip.AsSlice())...)
	}
	for i, group := range groups {
		if strings.HasPrefix(group, "0") && !strings.Contains(group, ".") {
			groups[i] = cmp.Or(strings.TrimLeft(group, "0"), "0")
		}
	}
	ip, err := netip.ParseAddr(strings.Join(groups, ":"))
	return ip, err == nil
}

// hexGroups writes pairs of bytes as the groups of an IPv6 address.
func hexGroups(b []byte) (groups []string) {
	for pair := range slices.Chunk(b, 2) {
		groups = append(groups, strconv.FormatUint(uint64(pair[0])<<8|uint64(pair[1]), 16))
	}
	return groups
}
