package status

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestConnectionsAreLimited: those above the limit wait, until another one goes, and Close ends while they do.
func TestConnectionsAreLimited(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(func(context.Context) *State { return leading() }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	get := func() *http.Response { // on a connection of its own, which stays open until the body is closed
		client := &http.Client{Transport: &http.Transport{}}
		r, err := client.Get("http://" + l.Addr().String() + "/readyz")
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(client.CloseIdleConnections)
		return r
	}
	var open []net.Conn
	for range maxConnections {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// Answered, so it has been accepted.
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	answered := make(chan *http.Response, 1)
	go func() { answered <- get() }()
	select {
	case <-answered:
		t.Error("one too many was served")
	case <-time.After(100 * time.Millisecond): // only shows the fault more often, never a fault that isn't there
	}
	open[0].Close()
	if r := <-answered; r == nil || r.StatusCode != http.StatusOK {
		t.Errorf("%+v", r)
	}
	waiting, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
