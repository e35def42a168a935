package client

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
)

// StatusText is what Kafka's tool prints for --status.
func (q *Quorum) StatusText() string {
	records, millis := q.MaxFollowerLag()
	return fmt.Sprintf(`ClusterId:              %s
LeaderId:               %d
LeaderEpoch:            %d
HighWatermark:          %d
MaxFollowerLag:         %d
MaxFollowerLagTimeMs:   %d
CurrentVoters:          %s
CurrentObservers:       %s
`, q.ClusterID, q.LeaderID, q.LeaderEpoch, q.HighWatermark, records, millis, replicasText(q.Voters), replicasText(q.Observers))
}

// replicasText is nearly JSON.
func replicasText(replicas []Replica) string {
	var out []string
	for _, r := range replicas {
		text := fmt.Sprintf(`{"id": %d`, r.NodeID)
		if r.DirectoryID != uuid.Nil {
			text += fmt.Sprintf(`, "directoryId": "%s"`, kafkaid.String(r.DirectoryID))
		}
		if len(r.Endpoints) > 0 {
			text += fmt.Sprintf(`, "endpoints": ["%s"]`, endpointsText(r.Endpoints, `", "`))
		}
		out = append(out, text+"}")
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// endpointsText joins endpoints, each LISTENER://host:port.
func endpointsText(endpoints []Endpoint, separator string) string {
	var out []string
	for _, e := range endpoints {
		out = append(out, e.String())
	}
	return strings.Join(out, separator)
}

func (e Endpoint) String() string {
	return e.Listener + "://" + net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// AddedText is what Kafka's tool prints when a controller was added, or with dryRun would be.
func (v Controller) AddedText(dryRun bool) string {
	done := "Added"
	if dryRun {
		done = "DRY RUN of adding"
	}
	return fmt.Sprintf("%s controller %d with directory id %s and endpoints: %s\n", done, v.NodeID, kafkaid.String(v.DirectoryID), endpointsText(v.Endpoints, ", "))
}

// RemovedText is what it prints when one was removed.
func RemovedText(nodeID int32, directoryID uuid.UUID, dryRun bool) string {
	done := "Removed"
	if dryRun {
		done = "DRY RUN of removing"
	}
	return fmt.Sprintf("%s KRaft controller %d with directory id %s\n", done, nodeID, kafkaid.String(directoryID))
}

// UnregisteredText is what it prints when one was unregistered.
func UnregisteredText(nodeID int32, dryRun bool) string {
	done := "Unregistered"
	if dryRun {
		done = "DRY RUN of unregistering"
	}
	return fmt.Sprintf("%s KRaft controller %d\n", done, nodeID)
}

// ReplicationText is the table that Kafka's tool prints for --replication. With human set times are told as how long
// before now they were.
//
// Unlike Kafka: where the leader's clock is ahead of this machine's a time is 0 ms ago; Kafka's tool prints no table.
func (q *Quorum) ReplicationText(human bool, now time.Time) string {
	moment := func(millis int64) string {
		if human && millis >= 0 {
			return fmt.Sprintf("%d ms ago", max(0, now.UnixMilli()-millis))
		}
		return strconv.FormatInt(millis, 10)
	}
	table := [][]string{{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}}
	for _, r := range q.Rows() {
		table = append(table, []string{
			strconv.Itoa(int(r.NodeID)), kafkaid.String(r.DirectoryID), strconv.FormatInt(r.LogEndOffset, 10),
			strconv.FormatInt(r.Lag, 10), moment(r.LastFetch), moment(r.LastCaughtUp), r.Status,
		})
	}
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, row := range table {
		for i, cell := range row {
			fmt.Fprintf(&b, "%-*s\t", widths[i], cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
