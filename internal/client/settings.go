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

// Settings are what a client can be told in a properties file, as Kafka's Java clients have it.
type Settings struct {
	ClientID        string        // client.id
	RequestTimeout  time.Duration // request.timeout.ms: for each answer
	Timeout         time.Duration // default.api.timeout.ms: for all that a command does
	ConnectTimeout  time.Duration // socket.connection.setup.timeout.ms: for each connection
	RetryBackoff    time.Duration // retry.backoff.ms: after the first try; doubled after each other
	RetryBackoffMax time.Duration // retry.backoff.max.ms
}

// DefaultSettings are Kafka's, but for a name that tells who asks.
func DefaultSettings() Settings {
	return Settings{
		ClientID:        "kstorage",
		RequestTimeout:  30 * time.Second,
		Timeout:         60 * time.Second,
		ConnectTimeout:  10 * time.Second,
		RetryBackoff:    100 * time.Millisecond,
		RetryBackoffMax: time.Second,
	}
}

// known has the settings of an admin client of Kafka 4.4 that have no effect here; those that begin with ssl. and sasl.
// come on top. With PLAINTEXT they have none in Kafka either, or are about connections that live longer than a command.
var known = []string{
	"bootstrap.controllers", "bootstrap.resolve.timeout.ms", "bootstrap.servers", "client.dns.lookup", "config.providers",
	"connections.max.idle.ms", "enable.metrics.push", "metadata.cluster.check.enable", "metadata.max.age.ms",
	"metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples",
	"metrics.recording.level", "metrics.sample.window.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms",
	"reconnect.backoff.ms", "retries", "security.providers", "send.buffer.bytes",
	"socket.connection.setup.timeout.max.ms",
}

// ReadSettings reads a properties file. unknown has the keys in it that no client knows. Errors: the file cannot be
// read, or a value is none that works here; the values of other keys, which may be passwords, are in no error.
func ReadSettings(path string) (s Settings, unknown []string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return s, nil, &Error{What: "cannot read the client's configuration", Where: path + ": " + disk.Reason(err), Fix: "pass a properties file as Kafka's clients have it, or leave the option out", Err: err}
	}
	return decodeSettings(path, b)
}

func decodeSettings(path string, b []byte) (s Settings, unknown []string, err error) {
	properties, err := javaprops.Parse(b)
	if err != nil {
		return s, nil, &Error{What: "the client's configuration is no properties file", Where: path + ": " + err.Error(), Err: err}
	}
	s = DefaultSettings()
	durations := map[string]*time.Duration{
		"request.timeout.ms":                 &s.RequestTimeout,
		"default.api.timeout.ms":             &s.Timeout,
		"socket.connection.setup.timeout.ms": &s.ConnectTimeout,
		"retry.backoff.ms":                   &s.RetryBackoff,
		"retry.backoff.max.ms":               &s.RetryBackoffMax,
	}
	var errs []error
	for i, p := range properties {
		again := func(later javaprops.Property) bool { return later.Key == p.Key }
		if slices.ContainsFunc(properties[i+1:], again) {
			continue // the last one counts
		}
		where := fmt.Sprintf("%s line %d", path, p.Line)
		target, isDuration := durations[p.Key]
		switch {
		case isDuration:
			// Kafka takes 0 for some of them; nothing comes of it but a timeout.
			millis, err := strconv.ParseInt(strings.TrimSpace(p.Value), 10, 64)
			if err != nil || millis < 0 || millis > math.MaxInt32 {
				errs = append(errs, &Error{What: fmt.Sprintf("%s is not a number of milliseconds from 0 to %d", p.Key, math.MaxInt32), Where: where})
				continue
			}
			*target = time.Duration(millis) * time.Millisecond
		case p.Key == "client.id":
			if p.Value != "" {
				s.ClientID = p.Value
			}
		case p.Key == "security.protocol":
			if err := checkSecurityProtocol(p.Value, where); err != nil {
				errs = append(errs, err)
			}
		case strings.HasPrefix(p.Key, "ssl.") || strings.HasPrefix(p.Key, "sasl.") || slices.Contains(known, p.Key):
		default:
			unknown = append(unknown, p.Key)
		}
	}
	if len(s.ClientID) > math.MaxInt16 {
		errs = append(errs, &Error{What: "client.id is too long", Where: path})
	}
	return s, unknown, errors.Join(errs...)
}
