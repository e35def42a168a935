package status

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// left has what a kstorage node does not tell, by the reason.
var left = map[string]string{
	"kafka_server_raft_metrics_poll_idle_ratio_avg":                      "of a thread of Kafka's",
	"kafka_server_raft_metrics_number_unknown_voter_connections":         "of a cache of Kafka's",
	"kafka_server_metadataloader_avgidleratio":                           "of a thread of Kafka's",
	"kafka_controller_kafkacontroller_eventqueueoperationsstartedcount":  "of a queue of Kafka's",
	"kafka_controller_kafkacontroller_eventqueueoperationstimedoutcount": "of a queue of Kafka's",
	"kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount":      "of a queue of Kafka's",
	"kafka_controller_kafkacontroller_timesincelastheartbeatreceivedms":  "the state of brokers says what follows from it",
	"kafka_controller_kafkacontroller_offlinepartitionscount":            "a node without topics does not look at partitions",
	"kafka_controller_kafkacontroller_preferredreplicaimbalancecount":    "likewise",
	"kafka_controller_kafkacontroller_ignoredstaticvoters":               "a contradiction between settings and log ends a node",
	"kafka_server_broker_metadata_metrics_ignored_static_voters":         "likewise",
}

// TestNames holds the names and labels of metrics against those of a real node by the exporter's rules.
func TestNames(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-4.4.0.jmx")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, label, ok := exported(strings.TrimSpace(line)); ok {
			theirs[name] = label
		}
	}
	ours := map[string]string{}
	for line := range strings.Lines(string(appendMetrics(nil, leading()))) {
		if m := regexp.MustCompile(`^(kafka_\w+)(?:\{(\w+)=)?`).FindStringSubmatch(line); m != nil {
			ours[m[1]] = m[2]
		}
	}
	delete(ours, "kafka_server_raft_metrics_current_state") // of older rules
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if label, ok := theirs[name]; !ok || label != ours[name] || left[name] != "" {
			t.Errorf("%s{%s}: a real node has it: %v, with the label %q", name, ours[name], ok, label)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if _, ok := ours[name]; !ok && left[name] == "" {
			t.Errorf("%s is missing, for no reason", name)
		}
	}
}

var (
	plainBean = regexp.MustCompile(`^(kafka)\.(server):type=([\w-]+) \| ([a-z-]+) = (.*)$`)
	namedBean = regexp.MustCompile(`^(kafka)\.(\w+):type=(\w+),name=(\w+)(?:,(\w+)=\S+)? \| Value = `)
)

// exported is a line by the rules: the name, and that of its label. A value that is a text becomes no metric, apart from the
// state of the node.
func exported(line string) (name, label string, ok bool) {
	if m := plainBean.FindStringSubmatch(line); m != nil {
		switch m[4] {
		case "current-state":
			return "kafka_server_raft_metrics_current_state_info", "state", true
		case "current-vote-directory-id":
			return "", "", false
		}
		name = strings.Join(m[1:5], "_")
	} else if m := namedBean.FindStringSubmatch(line); m != nil {
		name, label = strings.Join(m[1:5], "_"), m[5]
	} else {
		return "", "", false
	}
	return strings.ToLower(strings.ReplaceAll(name, "-", "_")), label, true
}
