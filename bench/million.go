//go:build bench && linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/record"
)

var dumpRounds = []rounds{{ours, 9}, {kafka, 3}} // they take turns

const (
	dumpPeakTimes = 2
	dumpVersion   = features.MetadataVersion(33) // 4.4-IV2, which Kafka 4.4 has
)

const segmentName = "00000000000000000000.log"

func measureDump(l *lab) ([]*figure, error) {
	took := &figure{name: "dump of 1,000,000 records", unit: "ms", rivals: []rival{{kafka, 10}}}
	most := &figure{name: "dump of 1,000,000 records, peak memory", unit: "MiB", rivals: []rival{{kafka, 0}}}
	path := filepath.Join(l.scratch, segmentName)
	err := writeFile(path, func(w io.Writer) error {
		_, err := writeLog(w, record.BatchHeader{LeaderEpoch: 1, Timestamp: time.Now().UnixMilli()}, dumpVersion)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer os.Remove(path)
	command := func(s system) *exec.Cmd {
		if s == ours {
			return exec.Command(l.kstorage, "dump", "--json", path)
		}
		return l.java([]string{"-Xmx256M"}, "warn", "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", path)
	}
	once := func(s system) (time.Duration, error) {
		cmd := command(s) // its output goes to /dev/null
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%q: %w\n%s", cmd.Args, err, &complaint)
		}
		return time.Since(began), nil
	}
	if err := took.inTurn(dumpRounds, once); err != nil {
		return nil, err
	}
	for range dumpPeakTimes {
		for _, s := range []system{ours, kafka} {
			mib, err := peakOf(command(s))
			if err != nil {
				return nil, err
			}
			most.add(s, mib)
		}
	}
	return []*figure{took, most}, nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// measureMillion measures starts on the log, then on the checkpoint.
func measureMillion(l *lab) ([]*figure, error) {
	nodes, err := l.newCluster(ours, 1)
	if err != nil {
		return nil, err
	}
	defer removeAll(nodes)
	m := &million{lab: l, node: nodes[0], levels: make(map[string]int16)}
	// No broker of the cluster runs, and to fence them all, after nine seconds, would be another measure.
	if err := m.node.configure("broker.session.timeout.ms=3600000"); err != nil {
		return nil, err
	}
	if err := m.begin(); err != nil {
		return nil, err
	}
	onLog, err := m.measure("log", m.appendLog)
	if err != nil {
		return nil, err
	}
	onCheckpoint, err := m.measure("checkpoint", m.putCheckpoint)
	return append(onLog, onCheckpoint...), err
}

// million is a standalone controller with a million records.
type million struct {
	lab  *lab
	node *node

	end     int64 // of the log with which the cluster began
	size    int64 // of its batches in bytes; the file may be larger
	epoch   int32
	version features.MetadataVersion
	levels  map[string]int16 // of all features
	records [][]byte         // of that log, as they stand in a snapshot

	contents contents
}

func (m *million) data() string  { return filepath.Join(m.node.folder, "data") }
func (m *million) began() string { return filepath.Join(m.node.folder, "began") }
func (m *million) in(folder, name string) string {
	return filepath.Join(folder, "__cluster_metadata-0", name)
}

// begin lets kstorage found the cluster and keeps its data, whose log has then a few records.
func (m *million) begin() error {
	if err := m.node.start(); err != nil {
		return err
	}
	if err := m.node.untilActive(); err != nil {
		return err
	}
	m.node.kill()
	m.node.gone()
	if err := os.Rename(m.data(), m.began()); err != nil {
		return err
	}
	f, err := os.Open(m.in(m.began(), segmentName))
	if err != nil {
		return err
	}
	defer f.Close()
	in := record.NewBatchReader(f)
	for {
		b, err := in.Next()
		if err == io.EOF {
			m.size = in.Position()
			m.version = features.MetadataVersion(m.levels[features.MetadataVersionName])
			m.contents = manyContents(m.version)
			return nil
		}
		if err != nil {
			return err
		}
		m.end, m.epoch = b.LastOffset()+1, b.LeaderEpoch
		for e, err := range b.Entries() {
			if err != nil {
				return err
			}
			if b.Control {
				continue
			}
			r, err := record.Decode(e.Value)
			if err != nil {
				return err
			}
			if r.Message == record.FeatureLevel {
				m.levels[r.Text("Name")] = int16(r.Int("FeatureLevel"))
			}
			switch r.Message {
			case record.FeatureLevel, record.RegisterController, record.Config:
				m.records = append(m.records, bytes.Clone(e.Value))
			}
		}
	}
}

// appendLog appends the million records to the log. It returns its end.
func (m *million) appendLog(folder string) (end int64, err error) {
	path := m.in(folder, segmentName)
	old, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	err = writeFile(path, func(w io.Writer) error {
		if _, err := w.Write(old[:m.size]); err != nil {
			return err
		}
		h := record.BatchHeader{BaseOffset: m.end, LeaderEpoch: m.epoch, Timestamp: time.Now().UnixMilli()}
		end, err = writeLog(w, h, m.version)
		return err
	})
	return end, err
}

// putCheckpoint replaces the log by a snapshot of the million records, behind which it goes on. It returns its end.
func (m *million) putCheckpoint(folder string) (end int64, err error) {
	zero, err := os.Open(m.in(folder, checkpoint.ID{}.String()))
	if err != nil {
		return 0, err
	}
	defer zero.Close()
	bootstrap, err := checkpoint.ReadBootstrap(zero, zero.Name())
	if err != nil {
		return 0, err
	}
	h := bootstrap.Header
	h.LeaderEpoch, h.AppendTime = m.epoch, time.Now().UnixMilli()
	h.LastContainedLogTime = h.AppendTime
	end = 2 * manyRecords
	path := m.in(folder, checkpoint.ID{EndOffset: end, Epoch: m.epoch}.String())
	if err := writeFile(path, func(w io.Writer) error { return writeCheckpoint(w, h, m.records, m.version) }); err != nil {
		return 0, err
	}
	return end, errors.Join(
		os.Remove(m.in(folder, segmentName)),
		os.WriteFile(m.in(folder, fmt.Sprintf("%020d.log", end)), nil, 0o644),
		os.WriteFile(m.in(folder, "leader-epoch-checkpoint"), []byte("0\n0\n"), 0o644),
	)
}

// measure measures starts of both systems on copies of what prepare makes of the cluster's beginning.
func (m *million) measure(on string, prepare func(folder string) (end int64, err error)) ([]*figure, error) {
	took := &figure{name: "start on a " + on + " of 1,000,000 records", unit: "s", rivals: []rival{{kafka, 10}}}
	most := &figure{name: took.name + ", peak memory", unit: "MiB", limit: 300, rivals: []rival{{kafka, 0}}}
	template := m.began() + "-" + on
	if err := os.CopyFS(template, os.DirFS(m.began())); err != nil {
		return nil, err
	}
	defer os.RemoveAll(template)
	end, err := prepare(template)
	if err != nil {
		return nil, err
	}
	once := func(s system) error {
		if err := os.RemoveAll(m.data()); err != nil {
			return err
		}
		if err := os.CopyFS(m.data(), os.DirFS(template)); err != nil {
			return err
		}
		m.node.command = m.lab.commands[s]
		began := time.Now()
		if err := m.node.start(); err != nil {
			return err
		}
		defer func() {
			m.node.kill()
			m.node.gone()
		}()
		if err := m.node.until(m.node.registerBroker); err != nil {
			return err
		}
		took.add(s, time.Since(began).Seconds())
		if err := m.check(s, end); err != nil {
			return err
		}
		mib, err := peak(m.node.running.Process.Pid)
		most.add(s, mib)
		return err
	}
	for _, s := range []system{ours, kafka, ours, ours, kafka, ours} {
		if err := once(s); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	return []*figure{took, most}, nil
}

// check finds out whether the node has loaded all: its log goes on behind end, it tells the features, and the snapshot that
// kstorage writes then, while Kafka waits for more, has the million records.
func (m *million) check(s system, end int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	q, err := m.node.quorum(ctx)
	if err != nil {
		return err
	}
	if q.HighWatermark <= end {
		return fmt.Errorf("its log ends at offset %d, what it was given at %d", q.HighWatermark, end)
	}
	levels, err := m.node.levels(ctx)
	if err != nil {
		return err
	}
	delete(levels, features.KRaftVersionName) // stands in control records
	if !maps.Equal(levels, m.levels) {
		return fmt.Errorf("its features are %v instead of %v", levels, m.levels)
	}
	if s != ours {
		return nil
	}
	path, err := m.snapshot()
	if err != nil {
		return err
	}
	got, err := readContents(path)
	if err == nil && got != m.contents {
		err = fmt.Errorf("its snapshot has %v instead of %v", got, m.contents)
	}
	return err
}

// snapshot waits for a snapshot and returns its path.
func (m *million) snapshot() (path string, err error) {
	err = m.node.until(func(context.Context) error {
		all, err := filepath.Glob(m.in(m.data(), "*"+checkpoint.Suffix))
		if err != nil {
			return err
		}
		for _, path = range all {
			if filepath.Base(path) != (checkpoint.ID{}).String() {
				return nil
			}
		}
		return errNotYet
	})
	return path, err
}
