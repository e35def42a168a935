//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The main classes of Kafka's tools, and of Java's keytool.
const (
	storageTool      = "kafka.tools.StorageTool"
	dumpTool         = "org.apache.kafka.tools.DumpLogSegments"
	quorumTool       = "org.apache.kafka.tools.MetadataQuorumCommand"
	featureTool      = "org.apache.kafka.tools.FeatureCommand"
	clusterTool      = "org.apache.kafka.tools.ClusterTool"
	topicTool        = "org.apache.kafka.tools.TopicCommand"
	configTool       = "org.apache.kafka.tools.ConfigCommand"
	aclTool          = "org.apache.kafka.tools.AclCommand"
	tokenTool        = "org.apache.kafka.tools.DelegationTokenCommand"
	partitionsTool   = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	performanceTool  = "org.apache.kafka.tools.ProducerPerformance"
	keyTool          = "sun.security.tools.keytool.Main"
	toolLimit        = 90 * time.Second
	maxToolTextBytes = 64 << 20
)

// result is what a command did.
type result struct {
	command        string
	exit           int
	stdout, stderr string
	took           time.Duration // of a tool of Kafka's, without the start of its JVM
}

func (r result) String() string {
	return fmt.Sprintf("%s\nexit %d\n-- stdout --\n%s-- stderr --\n%s", r.command, r.exit, r.stdout, r.stderr)
}

// kafkaTool runs a tool of Kafka's. A tool that doesn't end fails the test.
func kafkaTool(t *testing.T, class string, args ...string) result {
	t.Helper()
	r, err := lab.tools.run(class, args...)
	if err != nil {
		t.Fatalf("%s %q: %v", class, args, err)
	}
	return r
}

// mustKafkaTool is kafkaTool for a call that has to end with exit code 0.
func mustKafkaTool(t *testing.T, class string, args ...string) result {
	t.Helper()
	r := kafkaTool(t, class, args...)
	if r.exit != 0 {
		t.Fatal(r)
	}
	return r
}

// retryKafkaTool is mustKafkaTool for what may depend on the command before: a broker hears of that a moment later.
func retryKafkaTool(t *testing.T, class string, args ...string) result {
	t.Helper()
	var r result
	eventually(t, class, func() error {
		if r = kafkaTool(t, class, args...); r.exit != 0 {
			return errors.New(r.String())
		}
		return nil
	})
	return r
}

// kstorage runs the command under test in folder dir. Of the environment it sees only PATH and env, so that no
// KSTORAGE_ variable of the person who runs the tests counts.
func kstorage(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	return runCommand(t, lab.kstorage, dir, env, args...)
}

// kfeatures is kstorage for the other command under test.
func kfeatures(t *testing.T, args ...string) result {
	t.Helper()
	return runCommand(t, lab.kfeatures, lab.scratch, nil, args...)
}

func runCommand(t *testing.T, path, dir string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolLimit)
	defer cancel()
	name := filepath.Base(path)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C.UTF-8"}, env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) || cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, stdout.String(), stderr.String())
	}
	return result{
		command: strings.Join(append(env, append([]string{name}, args...)...), " "),
		exit:    cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(),
	}
}

// toolHost is a JVM that runs tools, one at a time. It starts with the first and again after one that took too long.
type toolHost struct {
	mu     sync.Mutex
	jvm    *process
	answer *bufio.Reader
}

func (h *toolHost) run(class string, args ...string) (result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jvm == nil {
		if err := h.start(); err != nil {
			return result{}, err
		}
	}
	var frame []byte
	frame = binary.BigEndian.AppendUint32(frame, uint32(1+len(args)))
	for _, s := range append([]string{class}, args...) {
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(s)))
		frame = append(frame, s...)
	}
	type reply struct {
		result
		err error
	}
	replies := make(chan reply, 1)
	go func(jvm *process, answer *bufio.Reader) {
		var r reply
		if _, r.err = jvm.stdin.Write(frame); r.err == nil {
			r.result, r.err = readAnswer(answer)
		}
		replies <- r
	}(h.jvm, h.answer)
	var r reply
	begin := time.Now()
	select {
	case r = <-replies:
	case <-time.After(toolLimit):
		r.err = fmt.Errorf("no end after %s", toolLimit)
	}
	if r.err != nil {
		h.jvm.kill()
		r.err = fmt.Errorf("%w; log of the JVM:\n%s", r.err, h.jvm.log.tail())
		h.jvm = nil
	}
	r.command, r.took = class+" "+strings.Join(args, " "), time.Since(begin)
	return r.result, r.err
}

func readAnswer(r *bufio.Reader) (result, error) {
	number := func() (int32, error) {
		var n int32
		err := binary.Read(r, binary.BigEndian, &n)
		return n, err
	}
	text := func() (string, error) {
		n, err := number()
		if err == nil && (n < 0 || n > maxToolTextBytes) {
			err = fmt.Errorf("the tool printed %d bytes", n)
		}
		if err != nil {
			return "", err
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return string(b), err
	}
	exit, err := number()
	if err != nil {
		return result{}, err
	}
	stdout, err := text()
	if err != nil {
		return result{}, err
	}
	stderr, err := text()
	return result{exit: int(exit), stdout: stdout, stderr: stderr}, err
}

func (h *toolHost) start() error {
	cmd := javaCommand("warn", "InteropHost", "tools")
	cmd.Args = slices.Insert(cmd.Args, 1, "--add-exports=java.base/sun.security.tools.keytool=ALL-UNNAMED")
	answer, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close() // the JVM has its own
	cmd.Stdout = stdout
	if h.jvm, err = startProcess(cmd); err != nil {
		answer.Close()
		return err
	}
	h.answer = bufio.NewReader(answer)
	return nil
}

func (h *toolHost) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jvm != nil {
		h.jvm.kill()
	}
}

// javaCommand is a JVM that starts quickly and stays small: this machine may have two cores and runs several.
func javaCommand(logLevel string, args ...string) *exec.Cmd {
	return javaCommandIn(lab.classPath, logLevel, args...)
}

// javaCommandIn is javaCommand with another class path than that of the Kafka under test.
func javaCommandIn(classPath, logLevel string, args ...string) *exec.Cmd {
	flags := []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC",
		"-Dlog4j2.configurationFile=" + lab.logConfig, "-Dinterop.log.level=" + logLevel, "-cp", classPath}
	cmd := exec.Command("java", append(flags, args...)...)
	cmd.Dir = lab.scratch
	return cmd
}
