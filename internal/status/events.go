package status

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxEvents     = 64
	maxEventBytes = 1 << 10 // of the text of one, cut at its end
)

// Event is a line of the log.
type Event struct {
	Time  time.Time
	Level slog.Level
	Text  string // the message
	Attrs string // key=value, as in the log
}

// Events keeps the last lines of a log from the level Info on. All its methods may be called from any goroutine.
type Events struct {
	mu   sync.Mutex
	ring [maxEvents]Event
	n    int // of all that ever came
}

// Recent returns what is kept, the newest last.
func (e *Events) Recent() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Event
	for i := max(0, e.n-maxEvents); i < e.n; i++ {
		out = append(out, e.ring[i%maxEvents])
	}
	return out
}

func (e *Events) add(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ring[e.n%maxEvents] = event
	e.n++
}

// Handler returns a handler that keeps each line and passes it on to next.
func (e *Events) Handler(next slog.Handler) slog.Handler { return &eventHandler{events: e, next: next} }

type eventHandler struct {
	events *Events
	next   slog.Handler
	attrs  string // of WithAttrs
	group  string // the prefix of keys, of WithGroup
}

func (h *eventHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *eventHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		var b strings.Builder
		b.WriteString(h.attrs)
		r.Attrs(func(a slog.Attr) bool {
			appendAttr(&b, h.group, a)
			return b.Len() <= maxEventBytes
		})
		h.events.add(Event{Time: r.Time, Level: r.Level, Text: cut(r.Message, maxEventBytes), Attrs: cut(b.String(), maxEventBytes)})
	}
	return h.next.Handle(ctx, r)
}

func (h *eventHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		appendAttr(&b, h.group, a)
	}
	return &eventHandler{h.events, h.next.WithAttrs(attrs), b.String(), h.group}
}

func (h *eventHandler) WithGroup(name string) slog.Handler {
	return &eventHandler{h.events, h.next.WithGroup(name), h.attrs, h.group + name + "."}
}

func appendAttr(b *strings.Builder, group string, a slog.Attr) {
	if a.Equal(slog.Attr{}) {
		return
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(group + a.Key + "=" + a.Value.Resolve().String())
}

// cut returns valid UTF-8 of about n bytes at most.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
