package client

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"kstorage/internal/wire"
)

// TLS and SASL have their place here: checkSecurityProtocol lets a protocol through, and dialer makes its connections.

func checkSecurityProtocol(value, where string) error {
	switch strings.ToUpper(strings.TrimSpace(value)) {
	case "PLAINTEXT":
		return nil
	case "SSL", "SASL_PLAINTEXT", "SASL_SSL":
		return &Error{
			What:  "security.protocol=" + strings.ToUpper(strings.TrimSpace(value)) + " is not supported yet",
			Where: where,
			Fix:   "use the address of a listener with PLAINTEXT, or kafka-metadata-quorum for this one",
		}
	}
	return &Error{What: fmt.Sprintf("security.protocol is %q, which is no security protocol", value), Where: where, Fix: "PLAINTEXT is the one that is supported"}
}

// dialer limits the time that a connection may take to be made.
func dialer(dial wire.DialFunc, timeout time.Duration) wire.DialFunc {
	if dial == nil {
		dial = wire.Dial
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no connection within %v", timeout))
		defer cancel()
		conn, err := dial(ctx, addr)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return conn, err
	}
}
