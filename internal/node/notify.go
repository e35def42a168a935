package node

import (
	"net"
	"os"
)

// Notify tells the service manager that started the process, if there is one, of its state: READY=1, STOPPING=1,
// STATUS=... (the protocol of sd_notify: a datagram to the socket that NOTIFY_SOCKET names). That nobody listens
// is no failure of the node.
func Notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if socket[0] == '@' { // an abstract one
		socket = "\x00" + socket[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	conn.Write([]byte(state)) //nolint:errcheck // see above
}
