//go:build bench && linux

// Command bench measures `kstorage start` and kfeatures beside real Apache Kafka, both on this machine and in one run:
//
//	go run -tags urfave_cli_no_docs,bench ./bench [start | idle | failover | describe]...
//
//	start     from the spawn of a standalone controller, formatted before, until a client that asks it is told the
//	          metadata.version: an active controller has committed the bootstrap records
//	idle      memory of a standalone controller that has run for half a minute and has nothing to do, and the CPU time that
//	          it takes in the half minute after that
//	failover  from the kill -9 of the leader of three voters, with default timeouts, until its successor has registered a
//	          broker: the record is committed
//	describe  kfeatures and kafka-features from their spawn to their exit, while they describe a standalone controller of
//	          Kafka's
//
// Both are formatted by kstorage, so with the same files, and configured alike. One client asks both, about once in a
// millisecond. Kafka and its tool run with the JVM options of their own start scripts, less those for JMX and the garbage
// collector's log, and without the scripts. Starts of the two take turns, so that a busy machine is busy for both, and so do
// descriptions; what is idle is so at the same time; failovers come one after the other. All takes six minutes on two cores.
//
// The table has medians, with the quartiles behind them, and how many times Kafka's median is ours. The exit code is 1 if
// one of these ratios is below its target. It needs a JDK and, until Kafka's jars are fetched, Maven: see the package
// kafkajars for what the environment can choose.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"kstorage/interop/kafkajars"
)

func main() {
	missed, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	}
	if err != nil || missed {
		os.Exit(1)
	}
}

// figure is a line of the table: what was measured of each of the two programs. Less is better.
type figure struct {
	name, unit string
	target     float64 // the least ratio; 0: none
	samples    [2][]float64
}

// The indexes of the programs, and of the samples of a figure.
const (
	ours = iota
	theirs
)

func (f *figure) add(program int, sample float64) {
	f.samples[program] = append(f.samples[program], sample)
}

func (f *figure) ratio() float64 {
	return quantile(f.samples[theirs], 0.5) / quantile(f.samples[ours], 0.5)
}

// show writes the samples of a program for people.
func (f *figure) show(program int) string {
	s := f.samples[program]
	return fmt.Sprintf("%.4g %s (%.4g-%.4g, n=%d)", quantile(s, 0.5), f.unit, quantile(s, 0.25), quantile(s, 0.75), len(s))
}

// quantile returns the q-quantile of samples, between two of them in proportion.
func quantile(samples []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

func run(names []string) (missed bool, err error) {
	scratch, err := os.MkdirTemp("", "kstorage-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	l, version, err := newLab(scratch)
	if err != nil {
		return false, err
	}
	var figures []*figure
	for _, m := range []struct {
		name    string
		measure func(*lab) ([]*figure, error)
	}{{"start", measureStart}, {"idle", measureIdle}, {"failover", measureFailover}, {"describe", measureDescribe}} {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: measuring %s\n", m.name)
		f, err := m.measure(l)
		if err != nil {
			return false, fmt.Errorf("%s: %w", m.name, err)
		}
		figures = append(figures, f...)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tkstorage, kfeatures\tApache Kafka %s\tratio\ttarget\t\n", version)
	for _, f := range figures {
		target := ""
		if f.target > 0 {
			target = fmt.Sprintf("%.0f", f.target)
		}
		if f.ratio() < f.target {
			missed, target = true, target+" MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%s\t\n", f.name, f.show(ours), f.show(theirs), f.ratio(), target)
	}
	return missed, w.Flush()
}

// lab has the two programs, and where their nodes live.
type lab struct {
	scratch, kstorage string
	commands          [2]func(config string) *exec.Cmd       // that run a node
	features          [2]func(arguments ...string) *exec.Cmd // kfeatures and kafka-features
	clusters          int
}

func newLab(scratch string) (l *lab, version string, err error) {
	version, jars, err := kafkajars.Get("interop/pom.xml")
	if err != nil {
		return nil, "", err
	}
	logging, err := filepath.Abs("interop/java/log4j2.properties")
	if err != nil {
		return nil, "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w", "-o", scratch, "./cmd/kstorage", "./cmd/kfeatures")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("build kstorage and kfeatures: %w\n%s", err, out)
	}
	l = &lab{scratch: scratch, kstorage: filepath.Join(scratch, "kstorage")}
	java := func(memory []string, logLevel string, command ...string) *exec.Cmd {
		return exec.Command("java", slices.Concat(memory, []string{"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
			"-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dinterop.log.level=" + logLevel, "-Dlog4j2.configurationFile=" + logging,
			"-cp", filepath.Join(jars, "*")}, command)...)
	}
	l.commands = [2]func(string) *exec.Cmd{
		ours: func(config string) *exec.Cmd { return exec.Command(l.kstorage, "start", "--config", config) },
		theirs: func(config string) *exec.Cmd {
			return java([]string{"-Xmx1G", "-Xms1G"}, "info", "kafka.Kafka", config)
		},
	}
	l.features = [2]func(...string) *exec.Cmd{
		ours: func(arguments ...string) *exec.Cmd {
			return exec.Command(filepath.Join(scratch, "kfeatures"), arguments...)
		},
		theirs: func(arguments ...string) *exec.Cmd {
			return java([]string{"-Xmx256M"}, "warn", append([]string{"org.apache.kafka.tools.FeatureCommand"}, arguments...)...)
		},
	}
	return l, version, nil
}
