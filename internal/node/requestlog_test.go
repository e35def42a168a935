package node

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kstorage/internal/wire"
)

// stuck is a file that takes nothing until it is released.
type stuck struct {
	release chan struct{}
	lines
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.release
	return s.lines.Write(b)
}

func handled() *wire.Handled {
	name := strings.Repeat("c", 10_000)
	return &wire.Handled{Listener: "L", Remote: &net.TCPAddr{}, Header: wire.RequestHeader{Key: 18, ClientID: &name}, Began: time.Now()}
}

// TestRequestLogHoldsNoRequestUp has a file that hangs, as a pipe does that nobody reads: requests go on, memory is bounded,
// the loss is told, and so is when it goes on; the end of the node doesn't wait for it.
func TestRequestLogHoldsNoRequestUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told lines
		w := &stuck{release: make(chan struct{})}
		l := newRequestLog(w, slog.New(slog.NewTextHandler(&told, nil)))
		for range 1000 {
			l.write(handled())
		}
		synctest.Wait()
		if len(l.pending) > maxPendingBytes || l.lost < 500 {
			t.Errorf("%d bytes wait, %d lines are lost", len(l.pending), l.lost)
		}
		if n := strings.Count(told.String(), "Lines of the request log are lost"); n != 1 {
			t.Errorf("told %d times:\n%s", n, told.String())
		}
		w.release <- struct{}{}
		synctest.Wait()
		start := time.Now()
		l.close()
		if took := time.Since(start); took != requestLogGrace {
			t.Errorf("the end took %v", took)
		}
		l.write(handled()) // a connection that is still open
		close(w.release)
		<-l.done
		if !strings.Contains(told.String(), "The request log goes on") {
			t.Errorf("told:\n%s", told.String())
		}
		if n := strings.Count(w.String(), "\n"); n < 50 || n+l.lost > 1000 {
			t.Errorf("%d lines", n)
		}
	})
}

// full is a disk that is full within the first line.
type full struct {
	lines
	tries int
}

func (f *full) Write(b []byte) (int, error) {
	if f.tries++; f.tries == 1 {
		f.lines.Write(b[:10])
		return 10, errors.New("no space left on device")
	}
	return f.lines.Write(b)
}

// TestRequestLogBehindAFullDisk has a line that came on the disk in part: the next one stands on a line of its own.
func TestRequestLogBehindAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told lines
		w := &full{}
		l := newRequestLog(w, slog.New(slog.NewTextHandler(&told, nil)))
		for range 3 {
			l.write(handled())
			synctest.Wait()
		}
		l.close()
		got := strings.SplitAfter(w.String(), "\n")
		if len(got) != 4 || !strings.HasPrefix(got[1], "{") || !strings.HasPrefix(got[2], "{") || got[3] != "" {
			t.Errorf("%d lines", len(got))
		}
		if text := told.String(); strings.Count(text, "no space left on device") != 1 || !strings.Contains(text, "lost=1") {
			t.Errorf("told:\n%s", text)
		}
	})
}
