// Package nodetest runs kstorage nodes for tests: processes of their own, on loopback addresses that no other test has. For
// scripts there are Commands, for tests in Go there is Process. No program has it.
package nodetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const program = "kstorage"

// Patience is how long a test waits for what must come. Only a test that fails waits so long.
const Patience = 60 * time.Second

// Trace is in what a program writes when it panics.
var Trace = regexp.MustCompile(`(?m)^panic: |^goroutine `)

// Process is a kstorage that runs on its own, with what it has written to stderr.
type Process struct {
	name  string
	cmd   *exec.Cmd
	copy  *os.File
	ended chan struct{}

	mu   sync.Mutex
	log  []byte
	more chan struct{} // closed when there is more
}

// Launch starts the program kstorage, which is in the file path, in the folder dir. Its stderr is appended to the file log, too.
func Launch(path, name, dir, log string, env []string, args ...string) (*Process, error) {
	p := &Process{name: name, ended: make(chan struct{}), more: make(chan struct{})}
	var err error
	if p.copy, err = os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{program}, args...), Dir: dir, Env: env, Stderr: p,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, // it does not outlive a test that is killed
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, p.copy.Close())
	}
	go func() {
		p.cmd.Wait() //nolint:errcheck // the state has it
		p.copy.Close()
		close(p.ended)
	}()
	return p, nil
}

// Write takes what the process writes.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, b...)
	close(p.more)
	p.more = make(chan struct{})
	return p.copy.Write(b)
}

// Read returns the log so far, and what is closed when there is more.
func (p *Process) Read() ([]byte, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.log), p.more
}

// Await waits for a match in the log.
func (p *Process) Await(pattern *regexp.Regexp) error {
	timeout := time.After(Patience)
	for {
		ended := false
		select {
		case <-p.ended:
			ended = true // all it wrote is there
		default:
		}
		log, more := p.Read()
		if pattern.Match(log) {
			return nil
		}
		if ended {
			return p.Fault("has ended (%v) without %q", p.cmd.ProcessState, pattern)
		}
		select {
		case <-more:
		case <-p.ended:
		case <-timeout:
			return p.Fault("has not written %q", pattern)
		}
	}
}

// End waits for the end and returns the exit code, -1 if it was killed.
func (p *Process) End() (int, error) {
	select {
	case <-p.ended:
		if log, _ := p.Read(); Trace.Match(log) {
			return 0, p.Fault("has left a stack trace")
		}
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(Patience):
		return 0, p.Fault("has not ended")
	}
}

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Quit lets the process shut down.
func (p *Process) Quit(signal syscall.Signal) error {
	p.cmd.Process.Signal(signal) //nolint:errcheck // if it has ended, end tells
	code, err := p.End()
	if err == nil && code != 0 {
		err = p.Fault("has ended with exit code %d behind %v", code, signal)
	}
	return err
}

// Crash is kill -9. It is an error if the process had ended before.
func (p *Process) Crash() error {
	p.cmd.Process.Kill() //nolint:errcheck // if it has ended, end tells
	code, err := p.End()
	if err == nil && code != -1 {
		err = p.Fault("had ended before, with exit code %d", code)
	}
	return err
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Kill ends the process, if it has not ended yet.
func (p *Process) Kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-p.ended
}

// Fault is an error with the end of the log.
func (p *Process) Fault(format string, args ...any) error {
	log, _ := p.Read()
	if len(log) > 8<<10 {
		log = append([]byte("...\n"), log[len(log)-8<<10:]...)
	}
	return fmt.Errorf("%s %s; its log:\n%s", p.name, fmt.Sprintf(format, args...), log)
}

var claimed = regexp.MustCompile(`msg="Active controller" epoch=(\d+)`)

// AwaitActive waits for the node that became the active controller last, and is not but.
func AwaitActive(nodes []*Process, but *Process) (*Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		var last *Process
		newest := -1
		for _, p := range nodes {
			log, _ := p.Read()
			for _, m := range claimed.FindAllSubmatch(log, -1) {
				if epoch, _ := strconv.Atoi(string(m[1])); epoch > newest {
					last, newest = p, epoch
				}
			}
		}
		if last != nil && last != but {
			return last, nil
		}
		if Pause(ctx) != nil {
			return nil, errors.New("no node, or no other one, has become the active controller")
		}
	}
}

// Loopback is an address of this process alone, where each port that nobody else is given is free. Ports below
// the ephemeral ones are not taken by outgoing connections either. Linux has all of 127/8 on its loopback device.
func Loopback() string { return LoopbackOf(os.Getpid()) }

// LoopbackOf is such an address of another process, and its own as long as it lives.
func LoopbackOf(pid int) string {
	return fmt.Sprintf("127.%d.%d.%d", pid>>16&0xff, pid>>8&0xff, pid&0xff)
}

// ports hands each port out once.
var ports struct {
	sync.Mutex
	next int
}

// FreshPort returns a port of Loopback that nobody else has.
func FreshPort() int {
	ports.Lock()
	defer ports.Unlock()
	ports.next++
	return 10000 + ports.next
}
