// Package status shows a running node over HTTP: to Prometheus, to whoever has to know whether it is alive and ready, and
// to a person. It reads and changes nothing; it has no TLS and asks nobody who they are, so what it shows holds no secrets.
//
//	/metrics  the text format of Prometheus, version 0.0.4
//	/healthz  200 as long as the loops of the node answer, else 503 with what is wrong
//	/readyz   200 as soon as the node is ready, 503 with what it waits for
//	/         a page that reloads itself; ?reload=off: one that does not
//
// Metrics have the names that those of Apache Kafka 4.4 get by the rules for KRaft which the JMX exporter of Prometheus comes
// with as an example, all in lower case:
//
//	kafka.server:type=raft-metrics                  current-leader             kafka_server_raft_metrics_current_leader
//	                                                current-state: leader      kafka_server_raft_metrics_current_state_info{state="leader"}
//	kafka.server:type=broker-metadata-metrics       last-applied-record-offset kafka_server_broker_metadata_metrics_last_applied_record_offset
//	kafka.controller:type=KafkaController,name=ActiveControllerCount  Value    kafka_controller_kafkacontroller_activecontrollercount
//
// They have Kafka's values too: -1 is what is not known, NaN an average of nothing. Latencies and rates are those of the last
// 30 to 60 seconds. What only a node with topics has is left out, as is what Kafka measures about its own threads. Beside
// them are the basics of the process and of Go's runtime, and what kstorage alone can tell:
//
//	kstorage_node_info{version,node_id,roles,cluster_id} 1
//	kstorage_ready                                       1 or 0, as /readyz
//	kstorage_quorum_replica_lag{replica_id,directory_id,voter}, on the leader
//	client_*                                             what clients have pushed (KIP-714), see clients.go
//
// Nothing is measured between two scrapes but the latencies and rates of the quorum (Meter) and the last lines of the
// log (Events), and those only for a node that has a Server.
package status
