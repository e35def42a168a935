package config

import (
	"fmt"
	"slices"
	"strings"
)

// endpoints reads the listeners and checks them against the roles.
func (l *loader) endpoints() {
	if !l.usable("listeners", "advertised.listeners", "controller.listener.names", "listener.security.protocol.map") {
		return
	}
	l.ControllerListenerNames = l.List("controller.listener.names")
	protocols := l.protocols()
	if protocols == nil {
		return
	}
	l.Listeners = l.parseListeners("listeners", protocols)
	l.checkPorts("listeners", l.Listeners)
	advertised := l.parseListeners("advertised.listeners", protocols)
	if !l.usable("listeners", "advertised.listeners", "controller.quorum.voters", "node.id", "process.roles") {
		return
	}
	l.advertiseBroker(advertised)
	l.advertiseController(advertised)
	l.checkNotAnyHost()
	l.checkEarlyStart()
	l.interBroker(protocols)
	if l.IsController {
		l.checkController()
	} else {
		l.checkNotController(protocols)
	}
	if l.IsBroker {
		l.checkBroker()
	}
}

func (c *Config) ofController(e Listener) bool {
	return slices.Contains(c.ControllerListenerNames, e.Name)
}

func (l *loader) advertiseBroker(advertised []Listener) {
	if l.Null("advertised.listeners") {
		advertised = l.Listeners
	}
	l.AdvertisedListeners = slices.DeleteFunc(slices.Clone(advertised), l.ofController)
}

// advertiseController finds what a controller tells the other voters: for each of its listeners the advertised one,
// else the one to bind. Where the first of these binds to any address, controller.quorum.voters may know better.
func (l *loader) advertiseController(advertised []Listener) {
	for i, name := range l.ControllerListenerNames {
		named := func(e Listener) bool { return e.Name == strings.ToUpper(name) && l.ofController(e) }
		if j := slices.IndexFunc(advertised, named); j >= 0 {
			l.AdvertisedControllerListeners = append(l.AdvertisedControllerListeners, advertised[j])
			continue
		}
		j := slices.IndexFunc(l.Listeners, named)
		if j < 0 {
			continue
		}
		e := l.Listeners[j]
		if e.Host == "" || e.Host == anyHost {
			e.Host = ""
			if i == 0 {
				l.advertiseVoter(&e)
			}
		}
		l.AdvertisedControllerListeners = append(l.AdvertisedControllerListeners, e)
	}
}

// advertiseVoter gives e the address that this node has in controller.quorum.voters.
func (l *loader) advertiseVoter(e *Listener) {
	for _, v := range l.QuorumVoters {
		if v.Host == anyHost {
			l.fail("controller.quorum.voters", fmt.Sprintf("voter %d has the address %s, to which nobody can connect", v.NodeID, anyHost), "write the voter's name or address")
			return
		}
	}
	if v, ok := l.voter(l.NodeID); ok {
		e.Host, e.Port = v.Host, int(v.Port)
	}
}

// checkNotAnyHost refuses to advertise the address that means all of this host's.
func (l *loader) checkNotAnyHost() {
	for _, e := range slices.Concat(l.AdvertisedListeners, l.AdvertisedControllerListeners) {
		if e.Host != anyHost {
			continue
		}
		key := "advertised.listeners"
		if l.Null(key) {
			key = "listeners"
		}
		l.report(key, &problem{
			reason:   "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
			verbatim: true,
			fix:      fmt.Sprintf("set advertised.listeners to an address by which others reach this node, such as %s://host.example.com:%d", e.Name, e.Port),
		})
		return
	}
}

// checkEarlyStart compares the names as they are written.
func (l *loader) checkEarlyStart() {
	const key = "early.start.listeners"
	if !l.usable(key) {
		return
	}
	for _, name := range l.List(key) {
		if !slices.ContainsFunc(l.Listeners, func(e Listener) bool { return e.Name == name }) {
			l.fail(key, fmt.Sprintf("%q is none of the listeners", name), "name one of listeners, in upper case")
		}
	}
}

// interBroker finds the listener for the traffic between brokers, and whether its SASL mechanism is enabled.
func (l *loader) interBroker(protocols map[string]SecurityProtocol) {
	const nameKey, protocolKey = "inter.broker.listener.name", "security.inter.broker.protocol"
	if !l.usable(nameKey, protocolKey) {
		return
	}
	protocol := SecurityProtocol(l.String(protocolKey))
	l.InterBrokerListenerName = string(protocol)
	if !l.Null(nameKey) {
		l.InterBrokerListenerName = strings.ToUpper(l.String(nameKey))
		if l.Has(protocolKey) {
			l.fail(protocolKey, fmt.Sprintf("only one of it and %s (%s) can be set", nameKey, l.Source(nameKey)), "remove "+protocolKey)
			return
		}
		var ok bool
		if protocol, ok = protocols[l.InterBrokerListenerName]; !ok {
			l.fail(nameKey, fmt.Sprintf("listener %q is not in listener.security.protocol.map", l.InterBrokerListenerName), "name a listener of this node that is there")
			return
		}
	}
	if protocol == SASLPlaintext || protocol == SASLSSL {
		l.checkMechanism()
	}
}

// checkMechanism reads the settings that the file has for this listener alone, which win over those for all. Kafka does
// this only here when it formats.
func (l *loader) checkMechanism() {
	const key = "sasl.enabled.mechanisms"
	if !l.usable(key, "sasl.mechanism.inter.broker.protocol") {
		return
	}
	enabled, mechanism := l.List(key), l.String("sasl.mechanism.inter.broker.protocol")
	prefix := "listener.name." + strings.ToLower(l.InterBrokerListenerName) + "."
	for _, p := range l.properties {
		name, ok := strings.CutPrefix(p.Key, prefix)
		if !ok || name == "" {
			continue
		}
		s, ok := find(name)
		if !ok { // A mechanism can stand in between: listener.name.internal.plain.sasl.jaas.config.
			_, name, _ = strings.Cut(name, ".")
			if s, ok = find(name); !ok {
				continue
			}
		}
		v, problem := s.parse(p.resolved)
		if problem != nil {
			l.report(p.Key, problem)
			return
		}
		if p.Key == prefix+key {
			enabled = v.list
		}
	}
	if !slices.Contains(enabled, mechanism) {
		l.fail("sasl.mechanism.inter.broker.protocol", fmt.Sprintf("%q is not in %s, but SASL is used between brokers", mechanism, key),
			fmt.Sprintf("add it to %s, or choose one of %q", key, enabled))
	}
}

// checkController is for nodes with the controller role.
func (l *loader) checkController() {
	const key = "controller.listener.names"
	for _, name := range l.ControllerListenerNames {
		if !slices.ContainsFunc(l.Listeners, func(e Listener) bool { return e.Name == name }) {
			l.fail(key, fmt.Sprintf("%q is not in listeners, and this node is a controller", name),
				fmt.Sprintf("add %s://HOST:PORT to listeners, or correct the name, which is in upper case", strings.ToUpper(name)))
		}
	}
	if l.IsBroker || !l.usable(key) {
		return
	}
	for _, e := range l.Listeners {
		if !l.ofController(e) {
			l.fail("listeners", fmt.Sprintf("%s is not in %s, and this node is only a controller", e.Name, key), "remove it, or add it to "+key)
		}
	}
	const brokerKey = "inter.broker.listener.name"
	if !l.Null(brokerKey) && l.usable(brokerKey) && slices.Contains(l.ControllerListenerNames, l.InterBrokerListenerName) {
		l.fail(brokerKey, fmt.Sprintf("%s is a listener of controllers", l.InterBrokerListenerName), "remove the line from this controller's file")
	}
}

// checkNotController is for nodes that are only brokers.
func (l *loader) checkNotController(protocols map[string]SecurityProtocol) {
	const key = "controller.listener.names"
	for _, name := range l.ControllerListenerNames {
		if _, ok := protocols[strings.ToUpper(name)]; !ok {
			l.fail(key, fmt.Sprintf("listener %q has no security protocol", name), "add it to listener.security.protocol.map, in upper case")
		}
	}
	for _, e := range l.Listeners {
		if l.ofController(e) {
			l.fail("listeners", fmt.Sprintf("%s is in %s, and this node is no controller", e.Name, key), "remove it from listeners: a broker only connects to the controllers'")
		}
	}
}

// checkBroker is for nodes with the broker role.
func (l *loader) checkBroker() {
	key := "advertised.listeners"
	if l.Null(key) {
		key = "listeners"
	}
	if !l.usable(key) {
		return
	}
	if len(l.AdvertisedListeners) == 0 {
		l.fail(key, "a broker needs a listener for clients", "add one whose name is not in controller.listener.names")
		return
	}
	named := func(name string) func(Listener) bool {
		return func(e Listener) bool { return e.Name == name }
	}
	for _, e := range l.AdvertisedListeners {
		if !slices.ContainsFunc(l.Listeners, named(e.Name)) {
			l.fail(key, e.Name+" is not in listeners", "advertise only what listeners has")
		}
	}
	if l.usable("inter.broker.listener.name", "security.inter.broker.protocol") && !slices.ContainsFunc(l.AdvertisedListeners, named(l.InterBrokerListenerName)) {
		var names []string
		for _, e := range l.AdvertisedListeners {
			names = append(names, e.Name)
		}
		l.fail("inter.broker.listener.name", fmt.Sprintf("%s is none of the advertised listeners, by which brokers reach each other", l.InterBrokerListenerName),
			"set it to one of "+strings.Join(names, ", "))
	}
}
