package client

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

// network has the nodes that can be reached, by their address. At any other nobody listens.
type network map[string]server

// server answers requests with frames without their length; nil closes the connection, silence gives no answer at all.
type server func(frame []byte) []byte

var silence = []byte{}

func (n network) dial(_ context.Context, addr string) (net.Conn, error) {
	serve := n[addr]
	if serve == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		for {
			request, err := wire.ReadFrame(far, wire.MaxFrame, nil)
			if err != nil {
				return
			}
			response := serve(request)
			if response == nil {
				return
			}
			if len(response) == 0 {
				continue
			}
			length := uint32(len(response))
			if _, err := far.Write(append([]byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}, response...)); err != nil {
				return
			}
		}
	}()
	return near, nil
}

var (
	errSilent = errors.New("no answer")
	errClosed = errors.New("closed")
)

// speaks is a node that serves APIs by a function, which returns errSilent or errClosed for what is no answer.
func speaks(t *testing.T, keys []int16, answer func(kmsg.Request) (kmsg.Response, error)) server {
	return func(frame []byte) []byte {
		header, body, err := wire.DecodeRequestHeader(frame)
		if err != nil {
			t.Error(err)
			return nil
		}
		q := kmsg.RequestForKey(header.Key)
		q.SetVersion(header.Version)
		if err := q.ReadFrom(body); err != nil {
			t.Error(err)
			return nil
		}
		var r kmsg.Response
		if _, ok := q.(*kmsg.ApiVersionsRequest); ok {
			versions := q.ResponseKind().(*kmsg.ApiVersionsResponse)
			for _, key := range keys {
				versions.ApiKeys = append(versions.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: kmsg.RequestForKey(key).MaxVersion()})
			}
			r = versions
		} else if r, err = answer(q); err == errSilent {
			return silence
		} else if err == errClosed {
			return nil
		}
		r.SetVersion(header.Version)
		return wire.AppendResponse(nil, r, header.CorrelationID)[4:]
	}
}
