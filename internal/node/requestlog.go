package node

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
	"kstorage/internal/wire"
)

const (
	// maxPendingBytes are how many bytes of lines wait for the file.
	maxPendingBytes = 1 << 20
	// requestLogGrace is how long the last lines may take at the end.
	requestLogGrace = time.Second
)

// requestLog writes a line for each request, a JSON document. A goroutine of its own does that: a node goes on without
// its log, be it on a full disk or a pipe that nobody reads. Lines that find no place are lost, and that is told.
type requestLog struct {
	w    io.Writer
	log  *slog.Logger
	more chan struct{} // has a token while lines wait; closed by close
	done chan struct{} // all is written

	mu      sync.Mutex
	pending []byte // whole lines
	lost    int    // lines since the last that was written
	closed  bool
}

func newRequestLog(w io.Writer, log *slog.Logger) *requestLog {
	l := &requestLog{w: w, log: log, more: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

// requestLine is such a document. What is not known is null.
type requestLine struct {
	Time             string  `json:"time"` // when the request had been read
	Listener         string  `json:"listener"`
	Remote           string  `json:"remote"`
	API              string  `json:"api"`
	APIKey           int16   `json:"apiKey"`
	Version          int16   `json:"version"`
	ClientID         *string `json:"clientId"`
	ClientInstanceID *string `json:"clientInstanceId"` // KIP-1313
	LatencyMicros    int64   `json:"latencyMicros"`    // until the answer was written
	Error            *string `json:"error"`            // Kafka's name of the error, or why there was no answer
}

const requestTime = "2006-01-02T15:04:05.000Z07:00"

// write adds the line of a request, without waiting.
func (l *requestLog) write(h *wire.Handled) {
	line := requestLine{
		Time: h.Began.UTC().Format(requestTime), Listener: h.Listener, Remote: h.Remote.String(),
		API: kmsg.NameForKey(h.Header.Key), APIKey: h.Header.Key, Version: h.Header.Version, ClientID: h.Header.ClientID, LatencyMicros: h.Took.Microseconds(),
	}
	if h.Header.ClientInstanceID != uuid.Nil {
		id := kafkaid.String(h.Header.ClientInstanceID)
		line.ClientInstanceID = &id
	}
	if h.Error != "" {
		line.Error = &h.Error
	}
	text, _ := json.Marshal(line) // texts and numbers: it cannot fail
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
	case len(l.pending)+len(text) >= maxPendingBytes:
		l.lose(1, "reason", "it takes less than is written to it")
	default:
		l.pending = append(append(l.pending, text...), '\n')
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
}

// lose counts lost lines, and tells of the first.
func (l *requestLog) lose(lines int, why ...any) {
	if l.lost == 0 {
		l.log.Warn("Lines of the request log are lost", why...)
	}
	l.lost += lines
}

// run writes what is there.
func (l *requestLog) run() {
	defer close(l.done)
	torn := false // the file ends within a line
	for range l.more {
		l.mu.Lock()
		text := l.pending
		l.pending = nil
		l.mu.Unlock()
		if len(text) == 0 {
			continue
		}
		if torn {
			text = append([]byte{'\n'}, text...)
		}
		n, err := l.w.Write(text)
		if n > 0 {
			torn = text[n-1] != '\n'
		}
		l.mu.Lock()
		if err != nil {
			l.lose(bytes.Count(text[n:], []byte{'\n'}), "error", err)
		} else if l.lost > 0 {
			l.log.Warn("The request log goes on", "lost", l.lost)
			l.lost = 0
		}
		l.mu.Unlock()
	}
}

// close writes what is left, if the file takes it. Nothing is written any more then.
func (l *requestLog) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.more)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(requestLogGrace):
	}
}
