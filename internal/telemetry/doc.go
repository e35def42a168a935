// Package telemetry takes the metrics that clients push to a broker (KIP-714), and keeps the newest of each client.
//
// An operator subscribes to metrics with configurations of the type client-metrics, which stand in the metadata: prefixes of
// the names of metrics, the interval, and patterns for the clients that are meant. A client asks which ones are its own
// (GetTelemetrySubscriptions), then pushes these metrics at the interval (PushTelemetry), as OTLP, perhaps compressed. Each
// instance of a client has an id: in the request, and since KIP-1313 also in the header of all requests.
//
//	header  body                 GetTelemetrySubscriptions                  PushTelemetry
//	none    zero                 a new id is assigned                       INVALID_REQUEST
//	none    an id                this id counts                             this id counts
//	an id   zero, or another     INVALID_REQUEST                            INVALID_REQUEST
//	an id   the same             this id counts                             this id counts
//
// An answer without an error has the id that counts. Then, in this order:
//
//	GetTelemetrySubscriptions    before the interval is over        THROTTLING_QUOTA_EXCEEDED, unless the last push named
//	                                                                another subscription or an unknown codec
//	PushTelemetry                behind one that was the last       INVALID_REQUEST
//	                             before the interval is over        THROTTLING_QUOTA_EXCEEDED, unless it is the last one, or
//	                                                                the first since the subscriptions were asked for
//	                             for another subscription           UNKNOWN_SUBSCRIPTION_ID
//	                             an unknown codec                   UNSUPPORTED_COMPRESSION_TYPE
//	                             more than telemetry.max.bytes      TELEMETRY_TOO_LARGE
//	                             not what OTLP and the codec say    INVALID_RECORD
//
// The intervals begin anew when subscriptions change and when the connection of the client ends.
//
// The id of a subscription follows from what is subscribed and the client's id, so that all brokers give the same. Memory is
// bounded: instances are forgotten after a time without requests, the oldest first where there are too many.
//
// Unlike Kafka: metrics are asked for as cumulative values, not as deltas, so that the newest push says all. And patterns
// are Go's regular expressions: one of Java's that they don't have matches nobody, and is told in the log.
package telemetry
