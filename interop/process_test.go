//go:build interop

package interop

import (
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	serverLimit = 2 * time.Minute // for one thing that a server does; most take a second or two
	tailLines   = 60
)

// process is a JVM or a kstorage in a process group of its own. It ends with this process, however that ends.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   processLog
	ended chan struct{} // closed when the process is gone and its log complete
	// toldToEnd: it was sent a signal to end, or is meant to end by itself.
	toldToEnd atomic.Bool
}

// startProcess starts cmd. Its standard error, and its standard output if that goes nowhere else, is the log.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	p.log.changed = make(chan struct{})
	cmd.Stderr = &p.log
	if cmd.Stdout == nil {
		cmd.Stdout = &p.log
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// signal sends s to the whole group, unless the process has ended.
func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		if s == syscall.SIGTERM || s == syscall.SIGKILL {
			p.toldToEnd.Store(true)
		}
		syscall.Kill(-p.cmd.Process.Pid, s)
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// processLog collects lines and wakes who waits for one.
type processLog struct {
	mu      sync.Mutex
	lines   []string
	rest    string // the beginning of a line
	changed chan struct{}
}

func (l *processLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(l.rest+string(b), "\n")
	l.lines = append(l.lines, lines[:len(lines)-1]...)
	l.rest = lines[len(lines)-1]
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

// from returns the lines from index n on and a channel that is closed when there are more.
func (l *processLog) from(n int) ([]string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[n:], l.changed
}

func (l *processLog) tail() string {
	lines, _ := l.from(0)
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// server is a running node.
type server struct {
	*process
	node *node
	seen int // lines of the log that an earlier wait has passed
}

// startServer starts a real Kafka server for n.
func startServer(t *testing.T, n *node) *server {
	t.Helper()
	return runServer(t, n, javaCommand("info", "InteropHost", "server", n.config))
}

// runServer starts a server of n. It ends with the test at the latest, and not before it is told to; when the test has failed,
// the end of its log is printed.
func runServer(t *testing.T, n *node, cmd *exec.Cmd) *server {
	t.Helper()
	p, err := startProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-p.ended:
			if !p.toldToEnd.Load() {
				t.Errorf("node %d ended by itself: %v", n.id, p.cmd.ProcessState)
			}
		default:
		}
		p.kill()
		if t.Failed() {
			t.Logf("log of node %d:\n%s", n.id, p.log.tail())
		}
	})
	return &server{process: p, node: n}
}

// wait waits for the next line of the log that matches pattern, behind the one that the last wait found.
func (s *server) wait(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	limit := time.After(serverLimit)
	ended := false
	for {
		lines, changed := s.log.from(s.seen)
		for _, line := range lines {
			s.seen++
			if want.MatchString(line) {
				return line
			}
		}
		if ended {
			t.Fatalf("node %d ended (%v) without a line %q", s.node.id, s.cmd.ProcessState, pattern)
		}
		select {
		case <-changed:
		case <-s.ended:
			ended = true // one more look: the log is complete only now
		case <-limit:
			t.Fatalf("node %d logged no line %q within %s", s.node.id, pattern, serverLimit)
		}
	}
}

// waitEnd waits until the process has ended and returns its whole log.
func (p *process) waitEnd(t *testing.T) string {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(serverLimit):
		t.Fatalf("%q still runs after %s", p.cmd.Args, serverLimit)
	}
	lines, _ := p.log.from(0)
	return strings.Join(lines, "\n")
}

// endsByItself is waitEnd for a process that nobody tells to end.
func (p *process) endsByItself(t *testing.T) string {
	t.Helper()
	p.toldToEnd.Store(true)
	return p.waitEnd(t)
}

// stopServers stops servers as an operator does, all at the same time.
func stopServers(t *testing.T, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		s.signal(syscall.SIGTERM)
	}
	for _, s := range servers {
		s.waitEnd(t)
		s.checkInOrder(t)
	}
}

// checkInOrder checks that a server that was told to end has done so in order.
func (s *server) checkInOrder(t *testing.T) {
	t.Helper()
	// A JVM reports the signal.
	if code := s.cmd.ProcessState.ExitCode(); code != 0 && code != 128+int(syscall.SIGTERM) {
		t.Errorf("node %d ended behind SIGTERM with %v", s.node.id, s.cmd.ProcessState)
	}
}

// killServers kills all at once, so that none sees another one gone and does something about it.
func killServers(servers ...*server) {
	for _, s := range servers {
		s.signal(syscall.SIGKILL)
	}
	for _, s := range servers {
		<-s.ended
	}
}

// eventually asks until done has no complaint any more. Asking costs a few milliseconds of another process's time, so
// the pause between two questions is short.
func eventually(t *testing.T, what string, done func() error) {
	t.Helper()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	limit := time.After(serverLimit)
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-pause.C:
		case <-limit:
			t.Fatal(fmt.Errorf("%s: not within %s: %w", what, serverLimit, err))
		}
	}
}
