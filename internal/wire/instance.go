package wire

import "github.com/google/uuid"

// clientInstance is which instance of a client a connection belongs to, as its first request with header version 2 says
// (KIP-1313): one id, or none, which the zero id says too. A request counts as soon as its header has been read, whatever
// becomes of it then.
type clientInstance struct {
	known bool
	id    uuid.UUID
}

// admits reports whether a request may come over the connection: those with header version 2 must all say the same.
func (c *clientInstance) admits(h *RequestHeader) bool {
	if h.headerVersion() < flexibleHeader {
		return true
	}
	if !c.known {
		c.known, c.id = true, h.ClientInstanceID
	}
	return c.id == h.ClientInstanceID
}

// anotherInstance is why a request is refused.
const anotherInstance = "The client instance id in the request header is not that of the first request on this connection."
