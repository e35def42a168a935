//go:build bench && linux

// Command bench measures this project beside real Apache Kafka, and beside other systems that do what its core does, all on this
// machine and in one run:
//
//	go run -tags urfave_cli_no_docs,bench ./bench [start | idle | failover | describe | commits | servers | observers |
//		tools | dump | million]...
//
//	start     from the spawn of a standalone controller, formatted before, until a client that asks it is told the
//	          metadata.version: an active controller has committed the bootstrap records. etcd: until a put is committed
//	idle      memory of a standalone controller that has run for half a minute and has nothing to do, and the CPU time that
//	          it takes in the half minute after that
//	failover  from the kill -9 of the leader of three voters, with default timeouts, until its successor has registered a
//	          broker: the record is committed
//	describe  kfeatures and kafka-features from their spawn to their exit, while they describe a standalone controller of
//	          Kafka's
//	commits   how long a record takes until a majority has it on its disks, and how many records a second that makes, with 1, 16 and
//	          256 clients inside of the leader's process, on one node and on three: the logs and their replication alone. Beside
//	          them what the disks alone can do: as many processes as nodes append the bytes that all clients write at once to
//	          a file of their own, and fdatasync it
//	servers   the same with clients in another process, each with a connection to the leader, through all of a server: the
//	          registration of a broker, or a put of etcd
//	observers the leader of one and of three voters, with 1,000 observers that connect at once: until all have the log, from
//	          the request of a client until an observer knows that its record is committed, and what the leader needs
//	tools     kstorage format and info, and kafka-storage, from their spawn to their exit
//	dump      a log of 1,000,000 records as JSON, into /dev/null
//	million   from the spawn of a standalone controller with 1,000,000 records until it has registered a broker: on a log and on
//	          a checkpoint; memory: that of the snapshot too which kstorage writes behind such a log
//
// Controllers are formatted by kstorage, so with the same files, and configured alike. One client asks all, about once in a
// millisecond. Kafka and its tool run with the JVM options of their own start scripts, less those for JMX and the garbage
// collector's log, and without the scripts. Starts of all systems take turns, so that a busy machine is busy for all, and so do
// descriptions and, each alone on the machine and warm, the loads of commits and servers; what is idle is so at the same
// time; failovers, and leaders with observers, come one after the other. All takes twenty minutes on two cores.
//
// The table has medians, with the quartiles behind them, and how many times the other's median is ours. Those of commits and
// servers have the medians of the rounds. The exit code is 1 if a target is missed, or a limit that our median must be below.
// It needs a JDK and, until Kafka's jars are fetched, Maven: see the package kafkajars for what the environment can choose.
// The other systems come as Go modules: bench/rivals/go.mod has their versions.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

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

// system is what can be measured.
type system string

const (
	ours  system = "kstorage"
	kafka system = "Apache Kafka"
)

// figure is what was measured of kstorage and of others that do the same. Less is better, unless it is a rate.
type figure struct {
	name, unit string
	rate       bool
	limit      float64 // that kstorage has to stay below, in the unit; 0: none
	rivals     []rival
	samples    map[system][]float64
}

// rival is what kstorage is compared with: by at least target times it should be better. 0: there is no target.
type rival struct {
	system system
	target float64
}

func (f *figure) add(s system, sample float64) {
	if f.samples == nil {
		f.samples = make(map[system][]float64)
	}
	f.samples[s] = append(f.samples[s], sample)
}

// ratio returns how many times better kstorage is.
func (f *figure) ratio(r rival) float64 {
	ratio := quantile(f.samples[r.system], 0.5) / quantile(f.samples[ours], 0.5)
	if f.rate {
		return 1 / ratio
	}
	return ratio
}

// show writes the samples of a system for people.
func (f *figure) show(s system) string {
	all := f.samples[s]
	return fmt.Sprintf("%.4g %s (%.4g-%.4g, n=%d)", quantile(all, 0.5), f.unit, quantile(all, 0.25), quantile(all, 0.75), len(all))
}

// markdown writes the figures as a table with a line for each rival. It reports whether one misses its target.
func markdown(w io.Writer, figures []*figure) (missed bool, err error) {
	fmt.Fprint(w, "| | kstorage | beside | | times better | target |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, f := range figures {
		for _, r := range f.rivals {
			target := ""
			if r.target > 0 {
				target = fmt.Sprintf("%.3g", r.target)
			}
			if f.limit > 0 {
				target = fmt.Sprintf("below %.3g %s", f.limit, f.unit)
			}
			if f.ratio(r) < r.target || f.limit > 0 && quantile(f.samples[ours], 0.5) >= f.limit {
				missed, target = true, target+" MISSED"
			}
			_, err = fmt.Fprintf(w, "| %s | %s | %s | %s | %.3g | %s |\n", f.name, f.show(ours), r.system, f.show(r.system), f.ratio(r), target)
		}
	}
	return missed, err
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
	}{
		{"start", measureStart}, {"idle", measureIdle}, {"failover", measureFailover}, {"describe", measureDescribe},
		{"commits", measureCommits}, {"servers", measureServers}, {"observers", measureObservers},
		{"tools", measureTools}, {"dump", measureDump}, {"million", measureMillion},
	} {
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
	fmt.Printf("Apache Kafka %s, %s, %d CPUs\n\n", version, runtime.Version(), runtime.NumCPU())
	if len(figures) > 0 {
		if missed, err = markdown(os.Stdout, figures); err != nil {
			return missed, err
		}
	}
	for _, g := range l.grids {
		m, err := g.markdown(os.Stdout)
		if err != nil {
			return missed, err
		}
		missed = missed || m
	}
	return missed, nil
}

// lab has the programs, and where their nodes live.
type lab struct {
	scratch, kstorage string
	commands          map[system]func(config string) *exec.Cmd                            // that run a node
	features          map[system]func(arguments ...string) *exec.Cmd                      // kfeatures and kafka-features
	java              func(memory []string, logLevel string, command ...string) *exec.Cmd // a class of Kafka's
	clusters          int
	grids             []*grid
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
	l.java = func(memory []string, logLevel string, command ...string) *exec.Cmd {
		return exec.Command("java", slices.Concat(memory, []string{"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
			"-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dinterop.log.level=" + logLevel, "-Dlog4j2.configurationFile=" + logging,
			"-cp", filepath.Join(jars, "*")}, command)...)
	}
	l.commands = map[system]func(string) *exec.Cmd{
		ours: func(config string) *exec.Cmd { return exec.Command(l.kstorage, "start", "--config", config) },
		kafka: func(config string) *exec.Cmd {
			return l.java([]string{"-Xmx1G", "-Xms1G"}, "info", "kafka.Kafka", config)
		},
	}
	l.features = map[system]func(...string) *exec.Cmd{
		ours: func(arguments ...string) *exec.Cmd {
			return exec.Command(filepath.Join(scratch, "kfeatures"), arguments...)
		},
		kafka: func(arguments ...string) *exec.Cmd {
			return l.java([]string{"-Xmx256M"}, "warn", append([]string{"org.apache.kafka.tools.FeatureCommand"}, arguments...)...)
		},
	}
	l.commands[oursInside] = func(config string) *exec.Cmd { return exec.Command(l.program("commit"), "node", config) }
	l.commands[kafkaNow] = l.commands[kafka]
	return l, version, l.buildRivals()
}
