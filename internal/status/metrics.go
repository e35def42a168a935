package status

import (
	"strconv"
	"strings"

	"kstorage/internal/kafkaid"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
)

// appendMetrics writes all metrics of a state.
func appendMetrics(dst []byte, s *State) []byte {
	e := &exposition{b: dst}
	e.node(s)
	if q := s.Quorum; q != nil {
		e.quorum(q)
	}
	if m := s.Metadata; m != nil {
		e.metadata(s, m)
		if s.Controller != nil {
			e.controller(s, m)
		}
		if s.Broker != nil {
			e.broker(s, m)
		}
	}
	e.process(s)
	e.clients(s.Pushes)
	return e.b
}

func (e *exposition) node(s *State) {
	e.family("kstorage_node_info", gauge, "What this node is; cluster_id is empty as long as it does not know it.")
	e.value(1, "version", s.Version, "node_id", strconv.Itoa(int(s.NodeID)), "roles", s.Roles, "cluster_id", s.ClusterID)
	e.one("kstorage_ready", gauge, "1 if the node waits for nothing, as /readyz says.", truth(s.Waits == "" && s.Fault == ""))
}

func (e *exposition) quorum(q *Quorum) {
	const p = "kafka_server_raft_metrics_"
	state := q.State()
	for _, name := range []string{"current_state_info", "current_state"} { // the second as older rules have it
		e.family(p+name, gauge, "The state of this node in the quorum: leader, follower, observer, candidate, prospective or unattached.")
		e.value(1, "state", state)
	}
	e.one(p+"current_leader", gauge, "The id of the quorum's leader; -1: none is known.", float64(q.LeaderID))
	e.one(p+"current_vote", gauge, "The id of the node that this one has voted for in the epoch; -1: none.", float64(q.Vote()))
	e.one(p+"current_epoch", gauge, "The epoch of the quorum.", float64(q.Epoch))
	e.one(p+"high_watermark", gauge, "The end of what is known to be committed; -1: not known.", float64(q.HighWatermark))
	e.one(p+"log_end_epoch", gauge, "The epoch of the last record in this node's log.", float64(q.LastEpoch))
	e.one(p+"log_end_offset", gauge, "The end of this node's log.", float64(q.LogEnd))
	e.one(p+"number_of_voters", gauge, "The voters of the latest voter set.", float64(len(q.Voters)))
	if q.Replicas != nil {
		e.one(p+"number_of_observers", gauge, "The observers that the leader knows.", float64(q.Observers()))
		e.one(p+"uncommitted_voter_change", gauge, "1 if there is a voter set that is not committed.", truth(q.VotersOffset >= q.HighWatermark && q.VotersOffset >= 0))
	}
	e.one(p+"commit_latency_avg", gauge, "Milliseconds from the append of a record to its commit, on the leader.", q.Rates.Commit.Avg)
	e.one(p+"commit_latency_max", gauge, "The longest of them.", q.Rates.Commit.Max)
	e.one(p+"election_latency_avg", gauge, "Milliseconds from the first vote that this node asks for to a known leader.", q.Rates.Election.Avg)
	e.one(p+"election_latency_max", gauge, "The longest of them.", q.Rates.Election.Max)
	e.one(p+"append_records_rate", gauge, "Records a second that this node appends as the leader.", q.Rates.Append)
	e.one(p+"fetch_records_rate", gauge, "Records a second that this node fetches from the leader.", q.Rates.Fetch)
	e.family("kstorage_quorum_replica_lag", gauge, "Records that a replica lacks of the leader's log, as the leader knows; -1: it has not fetched yet.")
	for _, r := range q.Replicas {
		e.value(float64(q.lag(r)), "replica_id", strconv.Itoa(int(r.Key.NodeID)), "directory_id", kafkaid.String(r.Key.DirectoryID), "voter", strconv.FormatBool(r.Voter))
	}
}

// lag is how many records a replica lacks, -1 if that is not known.
func (q *Quorum) lag(r Replica) int64 {
	if r.LogEnd == raft.Unknown {
		return -1
	}
	return int64(q.LogEnd - min(r.LogEnd, q.LogEnd))
}

func (e *exposition) metadata(s *State, m *Metadata) {
	const p = "kafka_server_metadataloader_"
	leader := raft.None
	if s.Quorum != nil {
		leader = s.Quorum.LeaderID
	}
	e.one(p+"currentcontrollerid", gauge, "The id of the active controller; -1: none is known.", float64(leader))
	e.one(p+"currentmetadataversion", gauge, "The level of metadata.version; 0: none is finalized.", float64(m.Version))
	e.family(p+"finalizedlevel", gauge, "The finalized level of a feature.")
	for _, l := range m.Levels {
		e.value(float64(l.Level), "featureName", camel(l.Name))
	}
	e.one(p+"handleloadsnapshotcount", counter, "The snapshots that were loaded since the start.", float64(m.Loads))
	if !m.Snapshot.Written.IsZero() {
		e.one("kafka_server_snapshotemitter_latestsnapshotgeneratedbytes", gauge, "The size of the last snapshot that this node has written.", float64(m.Snapshot.SizeBytes))
		e.one("kafka_server_snapshotemitter_latestsnapshotgeneratedagems", gauge, "Milliseconds since then.", milliseconds(s.Now.Sub(m.Snapshot.Written)))
	}
}

// camel is a feature as Kafka's metrics name it: metadataVersion.
func camel(feature string) string {
	words := strings.Split(feature, ".")
	for i, w := range words {
		if i > 0 && w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// Kafka's numbers of a broker's registration.
const (
	fenced             = 10
	controlledShutdown = 20
	activeBroker       = 30
)

func registrationState(b *metadata.Broker) (code int, name string) {
	switch {
	case b.Fenced:
		return fenced, "fenced"
	case b.InControlledShutdown:
		return controlledShutdown, "in controlled shutdown"
	}
	return activeBroker, "active"
}

func (e *exposition) controller(s *State, m *Metadata) {
	const p = "kafka_controller_kafkacontroller_"
	brokers := map[int]int{}
	for _, b := range m.Brokers {
		state, _ := registrationState(b)
		brokers[state]++
	}
	e.one(p+"activecontrollercount", gauge, "1 on the active controller.", truth(s.Controller.Active))
	e.one(p+"newactivecontrollerscount", counter, "How often a node became the active controller, as far as this one saw it.", float64(s.Controller.Claims))
	e.one(p+"activebrokercount", gauge, "The brokers that are registered and not fenced.", float64(len(m.Brokers)-brokers[fenced]))
	e.one(p+"fencedbrokercount", gauge, "The brokers that are registered and fenced.", float64(brokers[fenced]))
	e.one(p+"controlledshutdownbrokercount", gauge, "The brokers that were told to shut down.", float64(brokers[controlledShutdown]))
	e.family(p+"brokerregistrationstate", gauge, "10: fenced, 20: in controlled shutdown, 30: active.")
	for _, b := range m.Brokers {
		state, _ := registrationState(b)
		e.value(float64(state), "broker", strconv.Itoa(int(b.ID)))
	}
	e.one(p+"globaltopiccount", gauge, "The topics of the cluster.", float64(m.Topics))
	e.one(p+"globalpartitioncount", gauge, "The partitions of the cluster.", float64(m.Partitions))
	e.one(p+"metadataerrorcount", counter, "Always 0: a node that cannot apply a record stops.", 0)
	e.one(p+"lastappliedrecordoffset", gauge, "The offset of the last record of the metadata that is applied; -1: none.", float64(m.Offset))
	e.one(p+"lastappliedrecordtimestamp", gauge, "Its time, in milliseconds since 1970.", float64(m.Timestamp))
	e.one(p+"lastappliedrecordlagms", gauge, "Milliseconds since then.", lagMillis(s, m))
	if s.Quorum != nil {
		e.one(p+"lastcommittedrecordoffset", gauge, "The offset of the last committed record; -1: not known.", float64(max(s.Quorum.HighWatermark-1, raft.Unknown)))
	}
}

func (e *exposition) broker(s *State, m *Metadata) {
	e.one("kafka_server_kafkaserver_brokerstate", gauge, "1: starting, 2: recovery, 3: running, 6: pending controlled shutdown.", float64(s.Broker.StateCode))
	const p = "kafka_server_broker_metadata_metrics_"
	e.one(p+"last_applied_record_offset", gauge, "The offset of the last record of the metadata that is applied; -1: none.", float64(m.Offset))
	e.one(p+"last_applied_record_timestamp", gauge, "Its time, in milliseconds since 1970.", float64(m.Timestamp))
	e.one(p+"last_applied_record_lag_ms", gauge, "Milliseconds since then.", lagMillis(s, m))
	e.one(p+"metadata_load_error_count", gauge, "Always 0: a node that cannot load the metadata stops.", 0)
	e.one(p+"metadata_apply_error_count", gauge, "Always 0, likewise.", 0)
}

// lagMillis is how old the last record is.
func lagMillis(s *State, m *Metadata) float64 {
	if m.Offset == raft.Unknown {
		return 0
	}
	return float64(max(s.Now.UnixMilli()-m.Timestamp, 0))
}

func (e *exposition) process(s *State) {
	p := &s.Process
	e.one("process_start_time_seconds", gauge, "When the process was started, in seconds since 1970.", float64(s.Started.UnixMilli())/1000)
	for _, m := range []struct {
		name, kind, help string
		v                float64
	}{
		{"process_cpu_seconds_total", counter, "Processor time, of the user and of the system.", p.CPUSeconds},
		{"process_resident_memory_bytes", gauge, "Resident memory.", p.ResidentBytes},
		{"process_virtual_memory_bytes", gauge, "Virtual memory.", p.VirtualBytes},
		{"process_open_fds", gauge, "Open file descriptors.", p.OpenFiles},
		{"process_max_fds", gauge, "How many there may be.", p.MaxFiles},
		{"go_goroutines", gauge, "Goroutines that exist.", p.Goroutines},
		{"go_memstats_alloc_bytes", gauge, "Bytes of objects on the heap.", p.HeapBytes},
		{"go_memstats_sys_bytes", gauge, "Bytes that the runtime has from the operating system.", p.RuntimeBytes},
		{"go_gc_cycles_total_gc_cycles_total", counter, "Garbage collections.", p.Collections},
	} {
		if m.v >= 0 {
			e.one(m.name, m.kind, m.help, m.v)
		}
	}
	e.family("go_info", gauge, "The version of Go that the program was built with.")
	e.value(1, "version", p.GoVersion)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
