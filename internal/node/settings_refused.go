package node

import (
	"fmt"
	"slices"
	"strings"

	"kstorage/internal/config"
	"kstorage/internal/config/javaprops"
)

// refused are the settings by which somebody wants something protected that this node leaves open. It would
// be worse to start without than not to start.
var refused = [...]struct {
	key, off string // off: the value that asks for nothing, beside the default
	reason   string
}{
	{"alter.config.policy.class.name", "", "changes of configurations are not checked by a policy here"},
	{"authorizer.class.name", "", "requests are not authorized here"},
	{"create.topic.policy.class.name", "", "new topics are not checked by a policy here"},
	{"ssl.client.auth", "none", "clients are not authenticated here"},
}

// refuse reports the settings that cannot be honoured though they protect something.
func (r *settingsReader) refuse() {
	plaintext := "until this node supports it, remove it, or run Apache Kafka here"
	for _, setting := range refused {
		if r.Has(setting.key) && !r.Null(setting.key) && r.String(setting.key) != setting.off {
			r.fail(setting.key, setting.reason, plaintext)
		}
	}
	inUse := map[string]bool{}
	for _, l := range r.Listeners {
		inUse[l.Name] = true
		if l.Protocol != config.Plaintext {
			r.fail("listeners", fmt.Sprintf("listener %s has the security protocol %s, and only %s is supported here", l.Name, l.Protocol, config.Plaintext), plaintext)
		}
	}
	for _, name := range r.ControllerListenerNames {
		name = strings.ToUpper(name)
		if protocol := r.protocol(name); !inUse[name] && protocol != string(config.Plaintext) {
			r.fail("controller.listener.names", fmt.Sprintf("listener %s has the security protocol %s, and only %s is supported here", name, protocol, config.Plaintext), plaintext)
		}
		inUse[name] = true
	}
	for _, key := range r.Keys() {
		// As in listener.name.internal.ssl.client.auth and listener.name.internal.plain.sasl.jaas.config.
		rest, ok := strings.CutPrefix(key, "listener.name.")
		name, setting, _ := strings.Cut(rest, ".")
		setting = "." + setting
		if ok && inUse[strings.ToUpper(name)] && (strings.Contains(setting, ".sasl.") || strings.Contains(setting, ".ssl.")) {
			r.fail(key, fmt.Sprintf("listener %s is not secured here", strings.ToUpper(name)), plaintext)
		}
	}
}

// protocol is that of a listener which is not this node's own: of the controllers', for a broker.
func (r *settingsReader) protocol(name string) string {
	for entry := range strings.SplitSeq(r.String("listener.security.protocol.map"), ",") {
		listener, protocol, _ := strings.Cut(entry, ":")
		if strings.EqualFold(strings.TrimSpace(listener), name) {
			return strings.ToUpper(strings.TrimSpace(protocol))
		}
	}
	return string(config.Plaintext)
}

// honoured are the settings that have an effect here.
var honoured = [...]string{
	"advertised.listeners",
	"broker.heartbeat.interval.ms",
	"broker.id",
	"broker.rack",
	"broker.session.timeout.ms",
	"config.providers",
	"connections.max.idle.ms",
	"controller.listener.names",
	"controller.quorum.append.linger.ms",
	"controller.quorum.auto.join.enable",
	"controller.quorum.bootstrap.servers",
	"controller.quorum.election.backoff.max.ms",
	"controller.quorum.election.timeout.ms",
	"controller.quorum.fetch.max.bytes",
	"controller.quorum.fetch.snapshot.max.bytes",
	"controller.quorum.fetch.timeout.ms",
	"controller.quorum.request.timeout.ms",
	"controller.quorum.retry.backoff.ms",
	"controller.quorum.voters",
	"initial.broker.registration.timeout.ms",
	"inter.broker.listener.name",
	"listener.security.protocol.map",
	"listeners",
	"log.dir",
	"log.dirs",
	"max.connections",
	"max.connections.per.ip",
	"metadata.log.dir",
	"metadata.log.max.record.bytes.between.snapshots",
	"metadata.log.max.snapshot.interval.ms",
	"metadata.log.segment.bytes",
	"metadata.log.segment.ms",
	"metadata.max.idle.interval.ms",
	"metadata.max.retention.bytes",
	"metadata.max.retention.ms",
	"min.insync.replicas",
	"node.id",
	"process.roles",
	"security.inter.broker.protocol",
	"socket.request.max.bytes",
	"telemetry.max.bytes",
	"unstable.feature.versions.enable",
}

// warnings tell of what works, but perhaps not as its author thinks.
func (r *settingsReader) warnings() []string {
	var unused, out []string
	for _, key := range r.Keys() {
		isRefused := slices.ContainsFunc(refused[:], func(s struct{ key, off, reason string }) bool { return s.key == key })
		if !isRefused && !slices.Contains(honoured[:], key) && !strings.HasPrefix(key, "config.providers.") {
			if !javaprops.IsName(key) {
				key = "what " + r.Source(key) + " begins with"
			}
			unused = append(unused, key)
		}
	}
	if len(unused) > 0 {
		slices.Sort(unused)
		out = append(out, fmt.Sprintf("%s has settings without effect here: %s", r.File, strings.Join(unused, ", ")))
	}
	return out
}
