package status

import (
	"net"
	"sync"
)

// maxConnections is more than scrapers, probes and people need; the node needs its file descriptors for the quorum.
const maxConnections = 128

// limitedListener accepts maxConnections at a time. Further clients wait until another one goes.
type limitedListener struct {
	net.Listener
	free   chan struct{} // takes one value for each connection
	closed chan struct{}
	close  sync.Once
}

func limit(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, free: make(chan struct{}, maxConnections), closed: make(chan struct{})}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &limitedConn{Conn: c, done: sync.OnceFunc(func() { <-l.free })}, nil
}

func (l *limitedListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	done func()
}

func (c *limitedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}
