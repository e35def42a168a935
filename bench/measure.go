//go:build bench && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How often each is measured. What takes milliseconds is measured more often than what takes seconds.
var (
	startRounds    = []rounds{{ours, 30}, {kafka, 6}, {etcd, 6}} // they take turns
	failoverRounds = []rounds{{ours, 20}, {kafka, 7}, {etcd, 7}, {hashicorp, 7}}
)

type rounds struct {
	system system
	count  int
}

const (
	idleRounds = 3
	idleTime   = 30 * time.Second
)

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func measureStart(l *lab) ([]*figure, error) {
	f := &figure{name: "start of a standalone controller", unit: "ms", rivals: []rival{{kafka, 50}, {etcd, 1}}}
	once := func(s system) (time.Duration, error) {
		nodes, err := l.newCluster(s, 1)
		if err != nil {
			return 0, err
		}
		defer removeAll(nodes)
		began := time.Now()
		if err := nodes[0].start(); err != nil {
			return 0, err
		}
		err = nodes[0].untilActive()
		return time.Since(began), err
	}
	return []*figure{f}, f.inTurn(startRounds, once)
}

// inTurn measures each system its number of times, spread over all rounds, so that a busy machine is busy for all. The first
// time, when the files are read from the disk, doesn't count.
func (f *figure) inTurn(all []rounds, once func(system) (time.Duration, error)) error {
	for _, r := range all {
		if _, err := once(r.system); err != nil {
			return err
		}
	}
	most := slices.MaxFunc(all, func(a, b rounds) int { return a.count - b.count }).count
	for i := range most {
		for _, r := range all {
			if i%(most/r.count) != 0 {
				continue
			}
			took, err := once(r.system)
			if err != nil {
				return err
			}
			f.add(r.system, milliseconds(took))
		}
	}
	return nil
}

func measureIdle(l *lab) ([]*figure, error) {
	rss := &figure{name: "memory when idle, RSS", unit: "MiB", rivals: []rival{{kafka, 12}, {etcd, 1}}}
	pss := &figure{name: "memory when idle, PSS", unit: "MiB", rivals: []rival{{kafka, 12}, {etcd, 1}}}
	cpu := &figure{name: "CPU time when idle, a second", unit: "ms", rivals: []rival{{kafka, 0}, {etcd, 0}}}
	once := func() error {
		all := make(map[system]*node)
		for _, s := range []system{ours, kafka, etcd} { // all at once: none minds that the others are there
			nodes, err := l.newCluster(s, 1)
			if err != nil {
				return err
			}
			defer removeAll(nodes)
			all[s] = nodes[0]
			if err := nodes[0].start(); err != nil {
				return err
			}
		}
		for _, n := range all {
			if err := n.untilActive(); err != nil {
				return err
			}
		}
		time.Sleep(idleTime)
		before := make(map[system]time.Duration)
		for s, n := range all {
			r, p, err := n.memory()
			if err != nil {
				return err
			}
			rss.add(s, r)
			pss.add(s, p)
			if before[s], err = n.cpuTime(); err != nil {
				return err
			}
		}
		time.Sleep(idleTime)
		for s, n := range all {
			after, err := n.cpuTime()
			if err != nil {
				return err
			}
			cpu.add(s, milliseconds(after-before[s])/idleTime.Seconds())
		}
		return nil
	}
	for range idleRounds {
		if err := once(); err != nil {
			return nil, err
		}
	}
	return []*figure{rss, pss, cpu}, nil
}

func (n *node) proc(name string) string {
	return filepath.Join("/proc", fmt.Sprint(n.running.Process.Pid), name)
}

// memory returns the resident set size of the process, and its proportional one, in MiB.
func (n *node) memory() (rss, pss float64, err error) {
	text, err := os.ReadFile(n.proc("smaps_rollup"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return 0, 0, err
		}
		switch fields[0] {
		case "Rss:":
			rss = kib / 1024
		case "Pss:":
			pss = kib / 1024
		}
	}
	return rss, pss, nil
}

// cpuTime returns the time that all threads of the process have had on a CPU.
func (n *node) cpuTime() (sum time.Duration, err error) {
	threads, err := filepath.Glob(n.proc("task/*/schedstat"))
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		nanoseconds, _, _ := strings.Cut(string(text), " ")
		spent, err := strconv.ParseInt(nanoseconds, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(spent)
	}
	return sum, err
}

func measureFailover(l *lab) ([]*figure, error) {
	f := &figure{name: "failover of three controllers", unit: "ms", rivals: []rival{{kafka, 10}, {etcd, 1}, {hashicorp, 1}}}
	for _, r := range failoverRounds {
		if err := failovers(l, r.system, func(took time.Duration) { f.add(r.system, milliseconds(took)) }, r.count); err != nil {
			return nil, err
		}
	}
	return []*figure{f}, nil
}

func failovers(l *lab, s system, add func(time.Duration), rounds int) error {
	nodes, err := l.startCluster(s, 3)
	if err != nil {
		return err
	}
	defer removeAll(nodes)
	for range rounds {
		leader, err := caughtUp(nodes)
		if err != nil {
			return err
		}
		time.Sleep(time.Second) // whatever a node does behind its start
		var survivors []*node
		for _, n := range nodes {
			if n != leader {
				survivors = append(survivors, n)
			}
		}
		began := time.Now()
		leader.kill()
		_, at, err := firstLeader(survivors)
		if err != nil {
			return err
		}
		add(at.Sub(began))
		leader.gone()
		if err := leader.start(); err != nil {
			return err
		}
	}
	return nil
}

// firstLeader asks all nodes to write a record, until one of them has. It returns that one, and when that was.
func firstLeader(nodes []*node) (leader *node, at time.Time, err error) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	found, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, n := range nodes {
		asking.Go(func() {
			failure := n.until(func(ctx context.Context) error {
				ctx, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(found, stop)()
				err := n.commit(ctx)
				now := time.Now()
				mu.Lock()
				defer mu.Unlock()
				if err == nil && leader == nil {
					leader, at = n, now
					cancel()
				}
				if leader != nil {
					return nil
				}
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failure)
		})
	}
	asking.Wait()
	return leader, at, err
}

// caughtUp waits until one of the nodes leads the quorum, and the others have what it has committed; where nobody tells, they get
// time for it. It returns the leader.
func caughtUp(nodes []*node) (*node, error) {
	leader, _, err := firstLeader(nodes)
	if err != nil {
		return nil, err
	}
	if leader.client == nil {
		time.Sleep(2 * time.Second)
		return leader, nil
	}
	end := int64(-1)
	return leader, leader.until(func(ctx context.Context) error {
		q, err := leader.quorum(ctx)
		if err != nil {
			return err
		}
		if end < 0 {
			end = q.HighWatermark
		}
		for _, v := range q.CurrentVoters {
			if v.LogEndOffset < end {
				return errNotYet
			}
		}
		return nil
	})
}
