package client

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kstorage/internal/config/javaprops"
	"kstorage/internal/disk"
)

// Properties are those of a client's properties file. Each command takes out those that it knows; a key that nobody
// took and that no client of Kafka has is unknown. No error has a value in it: it may be a password.
type Properties struct {
	path       string
	properties []javaprops.Property // in the order of the file, each key once
	taken      map[string]bool
}

// ReadProperties reads a file. Errors: *Error.
func ReadProperties(path string) (*Properties, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{What: "cannot read the client's configuration", Where: path + ": " + disk.Reason(err), Fix: "pass a properties file as Kafka's clients have it, or leave the option out", Err: err}
	}
	return parseProperties(path, b)
}

func parseProperties(path string, b []byte) (*Properties, error) {
	all, err := javaprops.Parse(b)
	if err != nil {
		return nil, &Error{What: "the client's configuration is no properties file", Where: path + ": " + err.Error(), Err: err}
	}
	p := &Properties{path: path, taken: map[string]bool{}}
	for i, property := range all {
		again := func(later javaprops.Property) bool { return later.Key == property.Key }
		if !slices.ContainsFunc(all[i+1:], again) { // the last one counts
			p.properties = append(p.properties, property)
		}
	}
	return p, nil
}

// Take returns the value of a key without the blanks at its ends, and where it stands. ok is false if the file does not
// have it.
func (p *Properties) Take(key string) (value, where string, ok bool) {
	value, where, ok = p.TakeSecret(key)
	return strings.TrimSpace(value), where, ok
}

// TakeSecret is Take with the blanks, which can belong to a password.
func (p *Properties) TakeSecret(key string) (value, where string, ok bool) {
	i := slices.IndexFunc(p.properties, func(property javaprops.Property) bool { return property.Key == key })
	if i < 0 {
		return "", "", false
	}
	p.taken[key] = true
	return p.properties[i].Value, fmt.Sprintf("%s line %d", p.path, p.properties[i].Line), true
}

// Settings takes those settings that are about no kind of security.
func (p *Properties) Settings() (Settings, error) {
	s := DefaultSettings()
	errs := []error{
		p.takeMillis("request.timeout.ms", &s.RequestTimeout),
		p.takeMillis("default.api.timeout.ms", &s.Timeout),
		p.takeMillis("socket.connection.setup.timeout.ms", &s.ConnectTimeout),
		p.takeMillis("retry.backoff.ms", &s.RetryBackoff),
		p.takeMillis("retry.backoff.max.ms", &s.RetryBackoffMax),
	}
	if id, where, _ := p.TakeSecret("client.id"); len(id) > math.MaxInt16 {
		errs = append(errs, &Error{What: "client.id is too long", Where: where})
	} else if id != "" {
		s.ClientID = id
	}
	return s, errors.Join(errs...)
}

// takeMillis sets target. Kafka takes 0 for some of them; nothing comes of it but a timeout.
func (p *Properties) takeMillis(key string, target *time.Duration) error {
	value, where, ok := p.Take(key)
	if !ok {
		return nil
	}
	millis, err := strconv.ParseInt(value, 10, 64)
	if err != nil || millis < 0 || millis > math.MaxInt32 {
		return &Error{What: fmt.Sprintf("%s is not a number of milliseconds from 0 to %d", key, math.MaxInt32), Where: where}
	}
	*target = time.Duration(millis) * time.Millisecond
	return nil
}

// Unknown returns the keys that nobody took and no client knows. Of one that cannot be the name of a setting only the line
// is told: it may be a part of a secret.
func (p *Properties) Unknown() []string {
	var out []string
	for _, property := range p.properties {
		key := property.Key
		if !p.taken[key] && !slices.Contains(known, key) && !hasPrefixOf(key, knownPrefixes) {
			if !javaprops.IsName(key) {
				key = fmt.Sprintf("what line %d begins with", property.Line)
			}
			out = append(out, key)
		}
	}
	return out
}

func hasPrefixOf(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// known has the settings of an admin client of Kafka 4.4 that some command here leaves alone: they are about
// connections that live longer than a command, or about a kind of security that is not used.
var known = []string{
	"bootstrap.controllers", "bootstrap.resolve.timeout.ms", "bootstrap.servers", "client.dns.lookup", "config.providers",
	"connections.max.idle.ms", "enable.metrics.push", "metadata.cluster.check.enable", "metadata.max.age.ms",
	"metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples",
	"metrics.recording.level", "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms",
	"reconnect.backoff.ms", "retries", "security.providers", "send.buffer.bytes",
	"socket.connection.setup.timeout.max.ms",

	"sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.mechanism",
	"ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class",
	"ssl.key.password", "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
	"ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation",
	"ssl.trustmanager.algorithm", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
	"ssl.truststore.type",
}

// knownPrefixes are those of settings with a prefix of their own: of mechanisms that are not supported, of the classes of a
// login, of config providers.
var knownPrefixes = []string{"sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "config.providers."}
