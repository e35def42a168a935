// Package controller is the active controller: it decides which metadata records the requests of brokers and
// controllers, and the passing of time, add to the log (KIP-631, KIP-919). It is a pure state machine that lives from
// the moment a leader has replayed all that is committed until it leads no more:
//
//	                   ┌ Activate ─> bootstrap records, or the abort of a transaction (KIP-868, KIP-1170, KIP-1262)
//	New(committed) ──> ┤ Handle ───> records and the response that holds once they are committed
//	                   └ Tick ─────> NoOpRecord, fencing of brokers that are silent
//	                         records ──> log ──> Appended(base offset, records) ──> speculative image
//
// Whoever owns a Controller appends the records as one atomic batch at the offset that was given as nextOffset, and
// then calls Appended. If the log had another end, it asks again with that one: nothing but the times of contact has
// changed meanwhile. Decisions are made against the speculative image, which is ahead of what is committed; so a
// response is sent only when all below the end of the log at the time of the decision is committed, also if the
// response has no records of its own. When the leader changes, the Controller is dropped with all that.
//
// Served are ControllerRegistration, UnregisterController, BrokerRegistration, BrokerHeartbeat and UnregisterBroker.
// Fences, controlled shutdowns, unregistrations, unclean restarts and lost log directories move the leaders of
// partitions and shrink their in-sync replicas, with eligible leader replicas where that feature is on (KIP-966): a log
// may have been taken over from a cluster with topics. Left out: everything else about topics (creation, ISR changes
// by leaders, preferred and later unclean elections, the end of reassignments).
//
// # Sessions
//
// A broker lives as long as it sends heartbeats. The time of its last one is kept in memory for its id and epoch; a
// broker that was silent for longer than broker.session.timeout.ms is fenced. A registration makes no session, the
// first heartbeat does. A new Controller gives one to each broker that is not fenced. While a broker has a session, no
// other incarnation takes its id.
//
// Unlike Kafka: the session of a broker that was told to shut down does not stop its next incarnation, which may so
// register at once; and a fenced broker whose session ends is not fenced once more.
package controller
