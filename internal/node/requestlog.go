package node

import (
	"encoding/json"
	"io"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
	"kstorage/internal/wire"
)

// requestLog writes a line for each request, a JSON document.
type requestLog struct {
	w   io.Writer
	log *slog.Logger

	mu     sync.Mutex
	failed bool // the last write
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

// write adds the line of a request. A node goes on without its log.
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
	text, err := json.Marshal(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.w.Write(append(text, '\n'))
	}
	if err != nil && !l.failed {
		l.log.Warn("A line of the request log is lost", "error", err)
	}
	l.failed = err != nil
}
