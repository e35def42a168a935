//go:build bench && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// peak returns the most memory that a process has had resident so far, in MiB.
func peak(pid int) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d: no VmHWM", pid)
}

// peakOf runs a command to its end and returns its peak. What wait4 says of a process counts the memory of the one that
// started it too, so the command is stopped when it is about to exit, and looked at. Its output must be files.
func peakOf(cmd *exec.Cmd) (mib float64, err error) {
	runtime.LockOSThread() // only the thread that traces the command may do so
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer cmd.Process.Release()
	pid := cmd.Process.Pid
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &state, 0, nil); err != nil { // it stops when it has become the command
		return 0, err
	}
	if err := syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACEEXIT); err != nil {
		return 0, err
	}
	for {
		signal := 0
		switch {
		case state.Exited() && state.ExitStatus() == 0:
			return mib, nil
		case state.Exited() || state.Signaled():
			return 0, fmt.Errorf("%q: status %#x", cmd.Args, state)
		case state.TrapCause() == syscall.PTRACE_EVENT_EXIT:
			if mib, err = peak(pid); err != nil {
				return 0, err
			}
		case state.StopSignal() != syscall.SIGTRAP:
			signal = int(state.StopSignal())
		}
		if err := syscall.PtraceCont(pid, signal); err != nil {
			return 0, err
		}
		if _, err := syscall.Wait4(pid, &state, 0, nil); err != nil {
			return 0, err
		}
	}
}
