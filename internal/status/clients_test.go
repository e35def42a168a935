package status

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"

	"kstorage/internal/telemetry"
)

// message encodes a field of OTLP that is a message, or text.
func message(number int, parts ...[]byte) []byte {
	var content []byte
	for _, p := range parts {
		content = append(content, p...)
	}
	b := binary.AppendUvarint(nil, uint64(number<<3|2))
	b = binary.AppendUvarint(b, uint64(len(content)))
	return append(b, content...)
}

func label(number int, name, value string) []byte {
	return message(number, message(1, []byte(name)), message(2, message(1, []byte(value))))
}

// metric is a gauge of one point with labels: names and values.
func metric(name string, value float64, labels ...string) []byte {
	point := [][]byte{binary.LittleEndian.AppendUint64([]byte{4<<3 | 1}, math.Float64bits(value))}
	for i := 0; i < len(labels); i += 2 {
		point = append(point, label(7, labels[i], labels[i+1]))
	}
	return message(2, message(1, []byte(name)), message(5, message(1, point...)))
}

// metricsData has one resource, in a rack.
func metricsData(metrics ...[]byte) []byte {
	return message(1, message(2, metrics...), message(1, label(1, "client_rack", "r1")))
}

// pushes are what two clients have pushed: a producer, and one that means harm.
func pushes(testing.TB) []telemetry.Push {
	const prefix = "org.apache.kafka.producer."
	producer := metricsData(
		metric(prefix+"connection.creation.total", 2),
		metric(prefix+"node.request.latency.avg", 1.5, "node_id", "1"),
		metric(prefix+"node.request.latency.avg", math.NaN(), "node_id", "2"),
	)
	harmful := metricsData(
		metric("kafka_server_raft_metrics_current_leader", 666),
		metric("a\n# TYPE b gauge\nb 1", 1),
		metric("same", 1, "client_id", "another", "x.y", "1", "x-y", "2", "__name__", "n", "1st", "v\"\n\\"),
		metric("same", 2, "client_id", "another", "x.y", "1", "x-y", "2", "__name__", "n", "1st", "v\"\n\\"),
		metric("", math.Inf(1), "", ""),
		metric(strings.Repeat("long", 100), 1, "l", strings.Repeat("ü", 1000)),
	)
	return []telemetry.Push{
		{InstanceID: uuid.UUID{0: 1}, ClientID: "producer-1", At: now.Add(-1), Metrics: producer},
		{InstanceID: uuid.UUID{0: 2}, ClientID: "x\"y\n\xff", At: now, Metrics: harmful},
	}
}

// TestClientsAreBounded: however much clients push, a scrape stays small, and says that it is not all.
func TestClientsAreBounded(t *testing.T) {
	var list [][]byte
	for i := range 2 * maxSeriesOfOne {
		list = append(list, metric("m", 1, "i", fmt.Sprint(i)))
	}
	much := metricsData(list...)
	var all []telemetry.Push
	for i := range 50 {
		all = append(all, telemetry.Push{InstanceID: uuid.UUID{0: 1, 15: byte(i)}, Metrics: much})
	}
	for _, n := range []int{1, 50} {
		text := string(appendMetrics(nil, &State{Pushes: all[:n]}))
		if got, want := strings.Count(text, "\nclient_m{"), min(n*maxSeriesOfOne, maxClientSeries); got != want {
			t.Errorf("%d clients: %d lines, want %d", n, got, want)
		}
		if !strings.Contains(text, "\nkstorage_client_metrics_complete 0\n") {
			t.Errorf("%d clients: it does not say that there are more", n)
		}
		checkFormat(t, []byte(text))
	}
	many := make([]string, 0, 200)
	for i := range 100 {
		many = append(many, fmt.Sprintf("l%d", i), "v")
	}
	series, _ := seriesOf(telemetry.Push{Metrics: metricsData(metric("m", 1, many...))}, 10)
	if n := len(series[0].labels) / 2; n != maxLabels+2 {
		t.Errorf("%d labels", n)
	}
}
