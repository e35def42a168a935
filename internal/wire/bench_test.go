package wire

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// serveTCP serves answerBroker on a port of its own.
func serveTCP(b *testing.B) (*Server, string) {
	s := NewServer(ServerConfig{
		Listener: "CONTROLLER", APIs: testAPIs, Handler: handlerFunc(answerBroker), Logger: slog.New(slog.DiscardHandler),
		IdleTimeout: 600e9, Versions: func() VersionInfo { return testVersions },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(l)
	b.Cleanup(s.Close)
	return s, l.Addr().String()
}

func dialTCP(b *testing.B, address string) net.Conn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// BenchmarkRequests sends one request after the other over one connection.
func BenchmarkRequests(b *testing.B) {
	apiVersions := kmsg.NewPtrApiVersionsRequest()
	apiVersions.Version, apiVersions.ClientSoftwareName, apiVersions.ClientSoftwareVersion = 5, "bench", "1"
	for name, request := range map[string][]byte{
		"UnregisterBroker": brokerRequest(1, 1), "ApiVersions": AppendRequest(nil, apiVersions, Self{ClientID: "bench"}, 1),
	} {
		b.Run(name, func(b *testing.B) {
			_, address := serveTCP(b)
			c := dialTCP(b, address)
			r := bufio.NewReader(c)
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := ReadFrame(r, MaxFrame, buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkIdleConnection measures the memory of connections that have been answered once, the client's socket included.
func BenchmarkIdleConnection(b *testing.B) {
	_, address := serveTCP(b)
	request := brokerRequest(1, 1)
	answer := make([]byte, len(brokerAnswer(1, 1)))
	const connections = 200
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		open := make([]net.Conn, connections)
		for i := range open {
			open[i] = dialTCP(b, address)
			if _, err := open[i].Write(request); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(open[i], answer); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/connections, "B/connection")
		for _, c := range open {
			c.Close()
		}
	}
}
