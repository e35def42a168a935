package telemetry

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
	"kstorage/internal/wire"
)

const (
	// defaultInterval is that of a subscription without interval.ms, and of a client without subscriptions.
	defaultInterval = 5 * time.Minute
	// Bounds of interval.ms, in milliseconds.
	minInterval = 100
	maxInterval = 3600_000

	allMetrics = "*"
)

// subscription is a configuration of the type client-metrics.
type subscription struct {
	metrics  []string // prefixes of names, or allMetrics
	interval time.Duration
	match    map[string]*regexp.Regexp // by what of a client it is for; all must match
}

// attributes are what a client can be chosen by, as the patterns name them.
var attributes = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

// readSubscriptions returns the subscriptions that can be understood; Kafka's controller lets no others through.
func readSubscriptions(configs iter.Seq2[string, map[string]string], log *slog.Logger) []subscription {
	var list []subscription
	for name, values := range configs {
		s, err := parseSubscription(values)
		if err != nil {
			log.Warn("subscription to client metrics without effect", "name", name, "reason", err)
			continue
		}
		list = append(list, s)
	}
	return list
}

func parseSubscription(values map[string]string) (s subscription, err error) {
	s.interval = defaultInterval
	if text, ok := values["interval.ms"]; ok {
		millis, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || millis < minInterval || millis > maxInterval {
			return s, fmt.Errorf("interval.ms is %q, not a number from %d to %d", text, minInterval, maxInterval)
		}
		s.interval = time.Duration(millis) * time.Millisecond
	}
	s.metrics = words(values["metrics"])
	s.match = map[string]*regexp.Regexp{}
	for _, pair := range words(values["match"]) {
		attribute, pattern, ok := strings.Cut(pair, "=")
		if attribute = strings.TrimSpace(attribute); !ok || !slices.Contains(attributes, attribute) {
			return s, fmt.Errorf("match has %q, which chooses by none of %s", pair, strings.Join(attributes, ", "))
		}
		if s.match[attribute], err = regexp.Compile(`\A(?:` + strings.TrimSpace(pattern) + `)\z`); err != nil {
			return s, fmt.Errorf("match: %w", err)
		}
	}
	return s, nil
}

// words are the elements of a list.
func words(list string) []string {
	var out []string
	for _, w := range strings.Split(list, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// about are the attributes of a client.
func about(r *wire.Request, id uuid.UUID) map[string]string {
	client := map[string]string{
		"client_instance_id":      kafkaid.String(id),
		"client_software_name":    r.Software.Name,
		"client_software_version": r.Software.Version,
	}
	if r.Header.ClientID != nil {
		client["client_id"] = *r.Header.ClientID
	}
	if host, port, err := net.SplitHostPort(r.Remote.String()); err == nil {
		client["client_source_address"], client["client_source_port"] = host, port
	}
	return client
}

func (s *subscription) matches(client map[string]string) bool {
	for attribute, pattern := range s.match {
		if value, ok := client[attribute]; !ok || !pattern.MatchString(value) {
			return false
		}
	}
	return true
}

// assignment is what a client is to push: what all subscriptions that match it say together.
type assignment struct {
	id       int32
	metrics  []string // sorted; allMetrics alone where it is one of them
	interval time.Duration
}

func assign(list []subscription, client map[string]string, id uuid.UUID) assignment {
	a := assignment{interval: defaultInterval}
	for i := range list {
		if s := &list[i]; s.matches(client) {
			a.metrics = append(a.metrics, s.metrics...)
			a.interval = min(a.interval, s.interval)
		}
	}
	slices.Sort(a.metrics)
	a.metrics = slices.Compact(a.metrics)
	if slices.Contains(a.metrics, allMetrics) {
		a.metrics = []string{allMetrics}
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for _, m := range a.metrics {
		fmt.Fprintf(sum, "%q", m)
	}
	fmt.Fprint(sum, a.interval)
	a.id = int32(sum.Sum32())
	for i := 0; i < len(id); i += 4 {
		a.id ^= int32(binary.BigEndian.Uint32(id[i:]))
	}
	return a
}
