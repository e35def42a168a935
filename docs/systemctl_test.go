package docs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// service is a unit of systemd on a machine of a page.
type service struct {
	machine
	name, log, pid string
}

// systemctl does what systemctl does with a unit of Type=notify, and journalctl: so what a unit runs is run as it is written.
// It knows the lines ExecStartPre, ExecStart, Environment and StateDirectory.
func systemctl(args []string) int {
	verb, unit, block := "", "", true
	for _, arg := range args {
		switch {
		case arg == "--no-block":
			block = false
		case strings.HasPrefix(arg, "-"):
		case verb == "":
			verb = arg
		default:
			unit = arg
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return fault(err)
	}
	s := &service{machine: machine{os.Getenv("HOSTNAME"), root, os.Getenv("PAGE_ADDRESS")}, name: unit, log: unit + ".log", pid: unit + ".pid"}
	switch verb {
	case "daemon-reload":
	case "enable", "start":
		err = s.start(block)
	case "stop":
		err = s.stop()
	case "restart":
		if err = s.stop(); err == nil {
			err = s.start(block)
		}
	default:
		err = fmt.Errorf("%s is not known here", verb)
	}
	if err != nil {
		return fault(err)
	}
	return 0
}

// journalctl prints the log of the unit that follows -u.
func journalctl(args []string) int {
	for i, arg := range args {
		if arg == "-u" && i+1 < len(args) {
			text, err := os.ReadFile(args[i+1] + ".log")
			if err != nil {
				return fault(err)
			}
			os.Stdout.Write(text)
			return 0
		}
	}
	return fault(fmt.Errorf("no unit"))
}

func fault(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

var unitLine = regexp.MustCompile(`(?m)^(ExecStartPre|ExecStart|Environment|StateDirectory)=(.*)$`)

// start returns when the service is ready, or, if it shall not block, when its process is there.
func (s *service) start(block bool) error {
	unit, err := os.ReadFile(filepath.Join(s.root, "etc/systemd/system", s.name+".service"))
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	notify := filepath.Join(s.root, s.name+".notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer os.Remove(notify)
	defer socket.Close()
	env := append(os.Environ(), "NOTIFY_SOCKET="+notify)
	for _, m := range unitLine.FindAllStringSubmatch(strings.ReplaceAll(string(unit), "\\\n", ""), -1) {
		value := s.here(m[2])
		command := exec.Command("bash", "-c", "exec "+value)
		command.Env, command.Stdout, command.Stderr = env, log, log
		switch m[1] {
		case "StateDirectory":
			if err := os.MkdirAll(filepath.Join(s.root, "var/lib", value), 0o755); err != nil {
				return err
			}
		case "Environment":
			env = append(env, strings.Trim(value, `"`))
		case "ExecStartPre":
			if command.Run() != nil {
				return fmt.Errorf("Job for %s.service failed because the control process exited with error code.", s.name) //nolint:staticcheck // systemd's words
			}
		case "ExecStart":
			if err := command.Start(); err != nil {
				return err
			}
			if err := os.WriteFile(s.pid, []byte(strconv.Itoa(command.Process.Pid)), 0o644); err != nil {
				return err
			}
			if !block {
				return nil
			}
			ended := make(chan error, 1)
			go func() {
				command.Wait() //nolint:errcheck // it should not end
				ended <- fmt.Errorf("Job for %s.service failed because the control process exited with error code.", s.name)
				socket.Close()
			}()
			message := make([]byte, 1024)
			for {
				n, err := socket.Read(message)
				if err != nil {
					return <-ended
				}
				if strings.Contains(string(message[:n]), "READY=1") {
					return nil
				}
			}
		}
	}
	return nil
}

// stop returns when the process has ended. It may remain a zombie, of whoever takes orphans.
func (s *service) stop() error {
	text, err := os.ReadFile(s.pid)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	syscall.Kill(pid, syscall.SIGTERM) //nolint:errcheck // it may have ended
	for {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return os.Remove(s.pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
