package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// SecurityProtocol is how a listener is secured.
type SecurityProtocol string

const (
	Plaintext     SecurityProtocol = "PLAINTEXT"
	SSL           SecurityProtocol = "SSL"
	SASLPlaintext SecurityProtocol = "SASL_PLAINTEXT"
	SASLSSL       SecurityProtocol = "SASL_SSL"
)

var securityProtocols = [...]SecurityProtocol{Plaintext, SSL, SASLPlaintext, SASLSSL}

// Listener is an entry of listeners or advertised.listeners.
type Listener struct {
	Name     string // in upper case
	Protocol SecurityProtocol
	Host     string // "" where the entry names none; an IPv6 address is without brackets
	Port     int    // of 32 bits: Kafka takes any number here
}

// anyHost is the address to bind to all interfaces, which nobody can connect to.
const anyHost = "0.0.0.0"

const listenerForm = "the form is NAME://HOST:PORT, for example PLAINTEXT://localhost:9092"

// parseListener reads an entry NAME://HOST:PORT, where HOST may be empty or an IPv6 address in brackets. The protocol is left open.
func parseListener(entry string) (Listener, *problem) {
	malformed := &problem{reason: fmt.Sprintf("%q is no listener", entry), fix: listenerForm}
	i := strings.LastIndex(entry, "://")
	if i < 0 {
		return Listener{}, malformed
	}
	name, address := entry[:i], entry[i+3:]
	// Java's pattern has a dot there, which matches no line end.
	if strings.ContainsAny(name, "\n\r\u0085\u2028\u2029") {
		return Listener{}, malformed
	}
	host, portText, ok := cutPort(address)
	if !ok || !isHost(host) || !isDigits(strings.TrimPrefix(portText, "-")) {
		return Listener{}, malformed
	}
	port, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		return Listener{}, &problem{reason: fmt.Sprintf("%q has no port of 32 bits", entry), fix: listenerForm}
	}
	if name == "" {
		return Listener{}, &problem{reason: fmt.Sprintf("%q has no name", entry), fix: listenerForm}
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: int(port)}, nil
}

// cutPort cuts text at its last colon and takes the brackets off the host, each of which may be missing.
func cutPort(text string) (host, port string, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", "", false
	}
	return strings.TrimSuffix(strings.TrimPrefix(text[:i], "["), "]"), text[i+1:], true
}

// isHost reports whether host has only characters that Kafka takes in one; it may be empty.
func isHost(host string) bool {
	for _, c := range []byte(host) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("-%._:", c) >= 0) {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// pair is an entry of a list of NAME:VALUE.
type pair struct{ name, value string }

// parsePairs cuts a text at its commas, and each part at its last colon. Commas at the end do not count.
func parsePairs(text string) ([]pair, *problem) {
	entries := splitList(text)
	for len(entries) > 0 && entries[len(entries)-1] == "" {
		entries = entries[:len(entries)-1]
	}
	var pairs []pair
	for _, entry := range entries {
		i := strings.LastIndexByte(entry, ':')
		if i < 0 {
			return nil, &problem{reason: fmt.Sprintf("%q has no colon", entry), fix: "the form is NAME:VALUE,NAME:VALUE"}
		}
		pairs = append(pairs, pair{trim(entry[:i]), trim(entry[i+1:])})
	}
	return pairs, nil
}

// protocols returns the security protocol of each listener name: listener.security.protocol.map, and where the file
// does not set it, the protocols under their own names and PLAINTEXT for the controllers' listeners.
func (l *loader) protocols() map[string]SecurityProtocol {
	const key = "listener.security.protocol.map"
	pairs, problem := parsePairs(l.String(key))
	if problem != nil {
		l.fail(key, problem.reason, problem.fix)
		return nil
	}
	last := map[string]string{}
	for _, p := range pairs {
		last[p.name] = p.value
	}
	protocols := map[string]SecurityProtocol{}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		upper := strings.ToUpper(name)
		protocol := SecurityProtocol(strings.ToUpper(last[name]))
		_, twice := protocols[upper]
		switch {
		case name == "":
			l.fail(key, "an entry has no listener name", "the form is NAME:PROTOCOL,NAME:PROTOCOL")
		case !slices.Contains(securityProtocols[:], protocol):
			l.fail(key, fmt.Sprintf("%q is no security protocol", last[name]), "the protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL")
		case twice:
			l.fail(key, fmt.Sprintf("listener %s stands there in two spellings", upper), "remove one of them")
		}
		protocols[upper] = protocol
	}
	if l.failed[key] {
		return nil
	}
	if _, ok := l.given(key); !ok && !l.usesSecurity() {
		for _, name := range l.List("controller.listener.names") {
			protocols[name] = Plaintext
		}
	}
	return protocols
}

// usesSecurity reports whether a listener is named as a protocol other than PLAINTEXT: then no
// protocol is assumed for the controllers' listeners.
func (l *loader) usesSecurity() bool {
	secure := func(name string) bool {
		return name != string(Plaintext) && slices.Contains(securityProtocols[:], SecurityProtocol(name))
	}
	return slices.ContainsFunc(l.List("controller.listener.names"), secure) ||
		slices.ContainsFunc(l.List("listeners"), func(entry string) bool {
			name, _, _ := strings.Cut(entry, ":")
			return secure(strings.ToUpper(name))
		})
}

// parseListeners reads the entries of a setting and gives each its protocol.
func (l *loader) parseListeners(key string, protocols map[string]SecurityProtocol) []Listener {
	var listeners []Listener
	for _, entry := range l.List(key) {
		listener, problem := parseListener(entry)
		if problem != nil {
			l.fail(key, problem.reason, problem.fix)
			continue
		}
		protocol, ok := protocols[listener.Name]
		if !ok {
			l.fail(key, fmt.Sprintf("no security protocol is defined for listener %q", listener.Name),
				fmt.Sprintf("add %s:%s (or another protocol) to listener.security.protocol.map", listener.Name, Plaintext))
		}
		if slices.ContainsFunc(listeners, func(other Listener) bool { return other.Name == listener.Name }) {
			l.fail(key, "listener "+listener.Name+" stands there twice", "give each listener a name of its own")
		}
		listener.Protocol = protocol
		listeners = append(listeners, listener)
	}
	return listeners
}

// checkPorts refuses listeners that share a port, unless they are one with an IPv4 and one with an IPv6 address.
func (l *loader) checkPorts(key string, listeners []Listener) {
	for i, a := range listeners {
		for j, b := range listeners[:i] {
			if a.Port != b.Port || a.Port == 0 {
				continue
			}
			others := slices.ContainsFunc(listeners[:i], func(c Listener) bool { return c.Port == a.Port && c != listeners[j] })
			if others || !(isIPv4(a.Host) && isIPv6(b.Host) || isIPv6(a.Host) && isIPv4(b.Host)) {
				l.fail(key, fmt.Sprintf("listeners %s and %s have the same port %d", b.Name, a.Name, a.Port),
					"give each its own port; only an IPv4 and an IPv6 address can share one")
				return
			}
		}
	}
}

func isIPv4(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Is4()
}

func isIPv6(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Is6() && !strings.Contains(address.Zone(), "%")
}
