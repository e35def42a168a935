//go:build bench && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

var toolRounds = []rounds{{ours, 48}, {kafka, 8}} // they take turns

const toolPeakTimes = 3

// storage is kstorage and kafka-storage.
func (l *lab) storage(s system, arguments ...string) *exec.Cmd {
	if s == ours {
		return exec.Command(l.kstorage, arguments...)
	}
	return l.java([]string{"-Xmx256M"}, "warn", append([]string{"kafka.tools.StorageTool"}, arguments...)...)
}

func measureTools(l *lab) ([]*figure, error) {
	format, err := l.measureTool("format", func(config string) []string {
		return []string{"format", "--config", config, "--cluster-id", clusterID, "--standalone"}
	}, true)
	if err != nil {
		return nil, err
	}
	info, err := l.measureTool("info", func(config string) []string { return []string{"info", "--config", config} }, false)
	return append(format, info...), err
}

// measureTool measures a command for one controller; anew: on empty directories each time.
func (l *lab) measureTool(name string, arguments func(config string) []string, anew bool) ([]*figure, error) {
	took := &figure{name: name, unit: "ms", rivals: []rival{{kafka, 250}}}
	most := &figure{name: name + ", peak memory", unit: "MiB", rivals: []rival{{kafka, 10}}}
	nodes, err := l.newCluster(ours, 1)
	if err != nil {
		return nil, err
	}
	defer removeAll(nodes)
	n := nodes[0]
	command := func(s system) (*exec.Cmd, error) {
		cmd := l.storage(s, arguments(n.config())...)
		if !anew {
			return cmd, nil
		}
		return cmd, os.RemoveAll(filepath.Join(n.folder, "data"))
	}
	err = took.inTurn(toolRounds, func(s system) (time.Duration, error) {
		cmd, err := command(s)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(began)
		if err != nil {
			return 0, fmt.Errorf("%q: %w\n%s", cmd.Args, err, out)
		}
		return took, nil
	})
	if err != nil {
		return nil, err
	}
	for range toolPeakTimes {
		for _, s := range []system{ours, kafka} {
			cmd, err := command(s)
			if err != nil {
				return nil, err
			}
			mib, err := peakOf(cmd)
			if err != nil {
				return nil, err
			}
			most.add(s, mib)
		}
	}
	return []*figure{took, most}, nil
}
