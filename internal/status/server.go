package status

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	readTimeout   = 5 * time.Second // of a request
	writeTimeout  = 15 * time.Second
	idleTimeout   = 2 * time.Minute // longer than the usual interval between scrapes
	maxHeaders    = 16 << 10
	answerTimeout = 3 * time.Second // of the loops of the node; then it is no longer healthy
	closeTimeout  = time.Second     // for what is being answered at the end
)

// Server answers HTTP requests with the state of a node.
type Server struct {
	state func(context.Context) *State
	http  *http.Server
}

// NewServer returns a server that does not serve yet. state is asked for each request, also from several goroutines; it
// leaves Process to the server, and when its context ends it says so as State.Fault.
func NewServer(state func(context.Context) *State, log *slog.Logger) *Server {
	s := &Server{state: state}
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*State, *http.Request) (code int, contentType string, body []byte){
		"/metrics": metricsText, "/healthz": health, "/readyz": readiness, "/{$}": page,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, answer) })
	}
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // what clients do is no event of the node
	}
	return s
}

// Serve returns when Close was called (nil), or with the reason why it cannot go on.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(limit(l)); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Close closes the listener and all connections, those with a request under way after a moment for its answer.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, answer func(*State, *http.Request) (int, string, []byte)) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	code, contentType, body := answer(s.state(ctx), r)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(code)
	w.Write(body) //nolint:errcheck // the client has gone
}

const plainText = "text/plain; charset=utf-8"

// metricsText is an answer also where the node has a fault: what is known of it counts then above all.
func metricsText(s *State, _ *http.Request) (int, string, []byte) {
	s.Process = readProcess()
	return http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", appendMetrics(nil, s)
}

func health(s *State, _ *http.Request) (int, string, []byte) {
	if s.Fault != "" {
		return http.StatusServiceUnavailable, plainText, []byte(s.Fault + "\n")
	}
	return http.StatusOK, plainText, []byte("ok\n")
}

func readiness(s *State, _ *http.Request) (int, string, []byte) {
	switch {
	case s.Fault != "":
		return health(s, nil)
	case s.Waits != "":
		return http.StatusServiceUnavailable, plainText, []byte("waiting for " + s.Waits + "\n")
	}
	return http.StatusOK, plainText, []byte("ready\n")
}
