package status

import (
	"cmp"
	"slices"
	"strings"

	"kstorage/internal/kafkaid"
	"kstorage/internal/telemetry"
)

// Bounds of what clients have pushed, as far as a scrape shows it. What a client pushes it may choose freely.
const (
	maxClientSeries = 10_000 // of all clients; those of the newest pushes come first
	maxSeriesOfOne  = 1_000
	maxLabels       = 16 // of a series, beside client_id and client_instance_id
	maxNameBytes    = 200
	maxValueBytes   = 200
)

// clientSeries is a line.
type clientSeries struct {
	name   string
	labels []string // names and values
	value  float64
}

// clients writes the newest metrics of each client that pushes (KIP-714). A metric org.apache.kafka.producer.request.rate
// becomes client_org_apache_kafka_producer_request_rate: no client can write a line among those of the node. The labels
// client_id and client_instance_id come first; those of the resource and the metric follow. One without a type
// is what Prometheus calls untyped, as two clients may differ about that.
//
// A text that has a name twice in a line, or a line twice, would cost the whole scrape, so the first one counts.
func (e *exposition) clients(pushes []telemetry.Push) {
	if len(pushes) == 0 {
		return
	}
	slices.SortFunc(pushes, func(a, b telemetry.Push) int {
		return cmp.Or(b.At.Compare(a.At), slices.Compare(a.InstanceID[:], b.InstanceID[:]))
	})
	var all []clientSeries
	complete := true
	for _, p := range pushes {
		of, isAll := seriesOf(p, min(maxSeriesOfOne, maxClientSeries-len(all)))
		all = append(all, of...)
		complete = complete && isAll
	}
	slices.SortStableFunc(all, func(a, b clientSeries) int { return strings.Compare(a.name, b.name) })
	e.one("kstorage_client_instances", gauge, "The client instances whose pushed metrics are kept.", float64(len(pushes)))
	e.one("kstorage_client_metrics_complete", gauge, "0 if there are too many metrics of clients for this text, so that some are left out.", truth(complete))
	name := ""
	for _, s := range all {
		if s.name != name {
			name = s.name
			e.family(name, "untyped", "Pushed by clients.")
		}
		e.value(s.value, s.labels...)
	}
}

// seriesOf returns up to n series of a client, and whether these are all.
func seriesOf(p telemetry.Push, n int) (out []clientSeries, isAll bool) {
	seen := map[string]bool{}
	own := []string{"client_id", cut(p.ClientID, maxValueBytes), "client_instance_id", kafkaid.String(p.InstanceID)}
	for s, err := range telemetry.Samples(p.Metrics) {
		if err != nil {
			break // it was read before, so there is none
		}
		if len(out) >= n {
			return out, false
		}
		labels := slices.Clip(own)
		for _, l := range append(slices.Clip(s.Resource), s.Labels...) {
			if name := labelName(l.Name); len(labels) < 2*maxLabels+len(own) && !hasLabel(labels, name) {
				labels = append(labels, name, cut(l.Value, maxValueBytes))
			}
		}
		name := "client_" + identifier(s.Name)
		if id := name + "\x00" + strings.Join(labels, "\x00"); !seen[id] {
			seen[id] = true
			out = append(out, clientSeries{name, labels, s.Value})
		}
	}
	return out, true
}

func hasLabel(labels []string, name string) bool {
	for i := 0; i < len(labels); i += 2 {
		if labels[i] == name {
			return true
		}
	}
	return false
}

// labelName is none of those that begin with two underscores, which are Prometheus' own, nor with a digit.
func labelName(s string) string {
	s = strings.TrimLeft(identifier(s), "_")
	if s == "" || '0' <= s[0] && s[0] <= '9' {
		return "label_" + s
	}
	return s
}

// identifier replaces all but letters, digits and underscores.
func identifier(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, s[:min(len(s), maxNameBytes)])
}
