// Package wire is Kafka's protocol on a connection: frames, request headers, the server's and the client's side of a
// connection, and the messages of the consensus core as requests and responses of Kafka.
//
// # Frames
//
// Both directions are frames of a length and a payload. The payload of a request is a header and a body, that of a
// response too; which header it is follows from the API and its version, as for the body:
//
//	           request header 1               request header 2            response header 0   response header 1
//	int32      length of all that follows
//	int16      api key                        the same
//	int16      api version                    the same
//	int32      correlation id                 the same                    correlation id      correlation id
//	string     client id (int16 length)       the same, not compact
//	tags                                      tagged fields (KIP-482)                         tagged fields
//	           body                           body                        body                body
//
// Header 2 of a request has one tagged field, ClientInstanceId, tag 0, 16 bytes (KIP-1313); readers skip all others.
// Header 2 and header 1 go with the flexible versions of an API. The response of ApiVersions has header 0 in all
// versions, because its reader doesn't know yet what the server speaks (KIP-511).
//
// # Server
//
// A Server serves one listener. A connection is one goroutine that reads a request, has it answered and writes the
// answer, then reads the next: a client may send several at once and gets the answers in the order of its requests.
// ApiVersions is answered here (KIP-511, KIP-584, KIP-1242), all other APIs by a Handler.
//
// All requests with header 2 on a connection must have the same client instance id, or all none, which the zero id is too
// (KIP-1313). One that differs from the first is answered with INVALID_REQUEST, in the shape of its API, and the connection
// goes on. The first is the first whose header was read, whatever became of it. The header in an Envelope is not checked.
//
// A connection is closed without an answer, as Kafka does, and with a line in the log, after
//
//   - a length that is negative or above the limit,
//   - a header that ends too early or whose client instance id has another length, or an API that doesn't exist,
//   - an API that this listener doesn't serve, or a version out of its range; ApiVersions alone has an answer then,
//   - a body that doesn't decode,
//   - a tagged field in a version that doesn't define it. It is noticed where its value isn't the default.
//
// Tagged fields that nobody knows are skipped.
//
// # Client
//
// A Client has one connection to one address, which carries one request at a time; ApiVersions goes first, and each
// request in the newest version that both sides speak, with the client instance id of the process. Peers sends the
// requests of the consensus core that way, a Client for each destination. Node to node only, so there is no pool, no
// retry and no metadata here. WithInstance gives the id to the requests of a client that knows none.
//
// Left out: request quotas, throttling, and limits to the rate of new connections.
package wire
