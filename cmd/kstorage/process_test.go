package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// patience is how long a test waits for what must come. Only a test that fails waits so long.
const patience = 60 * time.Second

// process is a kstorage that runs on its own, with what it has written to stderr.
type process struct {
	name  string
	cmd   *exec.Cmd
	copy  *os.File
	ended chan struct{}

	mu   sync.Mutex
	log  []byte
	more chan struct{} // closed when there is more
}

// launch starts the program in dir. Its stderr is appended to the file log, too.
func launch(name, dir, log string, env []string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, ended: make(chan struct{}), more: make(chan struct{})}
	if p.copy, err = os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	p.cmd = &exec.Cmd{
		Path: self, Args: append([]string{program}, args...), Dir: dir, Env: env, Stderr: p,
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
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, b...)
	close(p.more)
	p.more = make(chan struct{})
	return p.copy.Write(b)
}

// read returns the log so far, and what is closed when there is more.
func (p *process) read() ([]byte, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.log), p.more
}

// await waits for a match in the log.
func (p *process) await(pattern *regexp.Regexp) error {
	timeout := time.After(patience)
	for {
		ended := false
		select {
		case <-p.ended:
			ended = true // all it wrote is there
		default:
		}
		log, more := p.read()
		if pattern.Match(log) {
			return nil
		}
		if ended {
			return p.fault("has ended (%v) without %q", p.cmd.ProcessState, pattern)
		}
		select {
		case <-more:
		case <-p.ended:
		case <-timeout:
			return p.fault("has not written %q", pattern)
		}
	}
}

// end waits for the end and returns the exit code, -1 if it was killed.
func (p *process) end() (int, error) {
	select {
	case <-p.ended:
		if log, _ := p.read(); trace.Match(log) {
			return 0, p.fault("has left a stack trace")
		}
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, p.fault("has not ended")
	}
}

// quit lets the process shut down.
func (p *process) quit(signal syscall.Signal) error {
	p.cmd.Process.Signal(signal) //nolint:errcheck // if it has ended, end tells
	code, err := p.end()
	if err == nil && code != 0 {
		err = p.fault("has ended with exit code %d behind %v", code, signal)
	}
	return err
}

// crash is kill -9. It is an error if the process had ended before.
func (p *process) crash() error {
	p.cmd.Process.Kill() //nolint:errcheck // if it has ended, end tells
	code, err := p.end()
	if err == nil && code != -1 {
		err = p.fault("had ended before, with exit code %d", code)
	}
	return err
}

func (p *process) kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-p.ended
}

// fault is an error with the end of the log.
func (p *process) fault(format string, args ...any) error {
	log, _ := p.read()
	if len(log) > 8<<10 {
		log = append([]byte("...\n"), log[len(log)-8<<10:]...)
	}
	return fmt.Errorf("%s %s; its log:\n%s", p.name, fmt.Sprintf(format, args...), log)
}

// loopback is an address of this process alone, where each port that nobody else is given is free. Ports below
// the ephemeral ones are not taken by outgoing connections either. Linux has all of 127/8 on its loopback device.
func loopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", pid>>16&0xff, pid>>8&0xff, pid&0xff)
}

// ports hands each port out once.
var ports struct {
	sync.Mutex
	next int
}

func freshPort() int {
	ports.Lock()
	defer ports.Unlock()
	ports.next++
	return 10000 + ports.next
}
