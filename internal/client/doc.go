// Package client asks a running cluster, and changes it: the calls of `kstorage quorum`, which takes the place of Kafka's
// kafka-metadata-quorum (KIP-836, KIP-853, KIP-919).
//
//	bootstrap addresses --DescribeCluster--> the node that answers for the cluster --> the request
//
// The bootstrap addresses are tried in their order until one answers. If they are controllers (KIP-919), the answer
// names the leader of the quorum and its address, and the request goes there. If they are brokers, it goes to the one
// that answered: a broker forwards it to the leader.
//
// What cannot be reached is not tried again: who types a wrong address should know at once. A cluster that answers and
// has no leader at the moment is asked again, with Kafka's backoff, until the time is up. A change whose answer got lost
// is not sent again either, because it may have been made.
//
// Settings are those of a Java client's properties file. Of the security protocols there is PLAINTEXT alone.
//
// Errors are *Error, several of them joined with errors.Join.
package client

import "kstorage/internal/raft"

// Error is a failure as a person reads it. What comes from a server names it in Where.
type Error struct {
	What, Where, Fix string
	Code             raft.Code // if a server sent one
	Err              error     // nil if nothing else is known
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.What
	}
	return e.What + ": " + e.Where
}

func (e *Error) Unwrap() error { return e.Err }
