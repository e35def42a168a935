//go:build bench && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"kstorage/bench/load"
	"kstorage/internal/wire"
)

const (
	commitRounds = 3
	commitTime   = 1500 * time.Millisecond
	batchBytes   = 115 // of one record in Kafka's log
)

// Warming up takes a JVM longer than the others, and it is given that.
var warmups = map[system]time.Duration{kafka: 5 * time.Second, kafkaNow: 5 * time.Second}

const warmup = time.Second

var commitClients = []int{1, 16, 256}

// grid has how fast some systems commit, each with some numbers of nodes and clients.
type grid struct {
	title   string
	systems []system // that of this project is the first
	disks   bool     // compared with what the disks alone can do
	rows    []*gridRow
}

type gridRow struct {
	nodes, clients int
	results        map[system][]load.Result
}

func (g *grid) row(nodes, clients int) *gridRow {
	for _, r := range g.rows {
		if r.nodes == nodes && r.clients == clients {
			return r
		}
	}
	r := &gridRow{nodes: nodes, clients: clients, results: map[system][]load.Result{}}
	g.rows = append(g.rows, r)
	return r
}

func measureCommits(l *lab) ([]*figure, error) {
	g := &grid{title: "Commits, clients inside of the leader", systems: []system{oursInside, etcdRaft, hashicorp}, disks: true}
	l.grids = append(l.grids, g)
	return nil, l.measureGrid(g)
}

func measureServers(l *lab) ([]*figure, error) {
	g := &grid{title: "Commits, clients over TCP", systems: []system{ours, etcd, kafkaNow, kafka}}
	l.grids = append(l.grids, g)
	return nil, l.measureGrid(g)
}

// measureGrid lets all systems take their turns, each alone on the machine.
func (l *lab) measureGrid(g *grid) error {
	for range commitRounds {
		for _, nodes := range []int{1, 3} {
			for _, s := range g.systems {
				if err := l.measureCluster(g, s, nodes); err != nil {
					return fmt.Errorf("%s, %d nodes: %w", s, nodes, err)
				}
			}
			if !g.disks {
				continue
			}
			for _, clients := range commitClients {
				r, err := l.measureDisks(nodes, clients)
				if err != nil {
					return err
				}
				row := g.row(nodes, clients)
				row.results[onlyTheDisks] = append(row.results[onlyTheDisks], r)
			}
		}
	}
	return nil
}

func (l *lab) measureCluster(g *grid, s system, count int) error {
	nodes, err := l.startCluster(s, count)
	if err != nil {
		return err
	}
	defer removeAll(nodes)
	leader, _, err := firstLeader(nodes)
	if err != nil {
		return err
	}
	order, done, err := l.clients(s, leader)
	if err != nil {
		return err
	}
	defer done()
	long := warmup
	if w, ok := warmups[s]; ok {
		long = w
	}
	if _, err := order(load.Order{Clients: 16, Millis: int(long.Milliseconds())}); err != nil {
		return err
	}
	for _, clients := range commitClients {
		r, err := order(load.Order{Clients: clients, Millis: int(commitTime.Milliseconds())})
		if err != nil {
			return fmt.Errorf("%d clients: %w", clients, err)
		}
		row := g.row(count, clients)
		row.results[s] = append(row.results[s], r)
	}
	return nil
}

// clients returns what loads a leader: itself, a process of its own, or this one.
func (l *lab) clients(s system, leader *node) (order func(load.Order) (load.Result, error), done func(), err error) {
	switch {
	case leader.takesOrders:
		return leader.order, func() {}, nil
	case s == etcd:
		put := &node{folder: leader.folder, takesOrders: true, command: func(string) *exec.Cmd {
			return exec.Command(l.program("etcdput"), "http://"+leader.address)
		}}
		if err := put.start(); err != nil {
			return nil, nil, err
		}
		return put.order, func() { put.kill(); put.gone() }, nil
	}
	clients := make([]*wire.Client, slices.Max(commitClients))
	for i := range clients {
		clients[i] = wire.NewClient(leader.address, wire.Self{ClientID: "bench"}, nil)
	}
	done = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	return func(o load.Order) (load.Result, error) {
		return load.Run(o, func(ctx context.Context, client int) error {
			_, err := register(ctx, clients[client], int32(1000+client))
			return err
		})
	}, done, nil
}

// measureDisks is what no log can beat: as many processes as nodes write the bytes of a batch for each client to the end
// of a file of their own, and make them durable. All clients share each of these writes. The slowest process counts.
func (l *lab) measureDisks(count, clients int) (worst load.Result, err error) {
	folder, err := os.MkdirTemp(l.scratch, "disks-")
	if err != nil {
		return worst, err
	}
	defer os.RemoveAll(folder)
	var all []*node
	defer func() {
		for _, n := range all {
			n.kill()
			n.gone()
		}
	}()
	for i := range count {
		n := &node{folder: folder, takesOrders: true, command: func(string) *exec.Cmd {
			return exec.Command(l.program("commit"), "disk", filepath.Join(folder, fmt.Sprint(i)), fmt.Sprint(clients*batchBytes))
		}}
		if err := n.start(); err != nil {
			return worst, err
		}
		all = append(all, n)
	}
	results, failures := make([]load.Result, count), make([]error, count)
	done := make(chan struct{})
	for i, n := range all {
		go func() {
			results[i], failures[i] = n.order(load.Order{Clients: 1, Millis: int(commitTime.Milliseconds())})
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	worst = slices.MaxFunc(results, func(a, b load.Result) int {
		if a.P50 < b.P50 {
			return -1
		}
		return 1
	})
	worst.PerSecond *= float64(clients)
	return worst, errors.Join(failures...)
}

// The targets of kstorage's p50, in those of the disks.
var diskTargets = map[int]float64{1: 1.5, 3: 2.5}

// markdown writes the grid as a table with a line for each number of nodes and clients. It reports whether one misses its target.
func (g *grid) markdown(w io.Writer) (missed bool, err error) {
	columns := slices.Clone(g.systems)
	if g.disks {
		columns = append(columns, onlyTheDisks)
	}
	fmt.Fprintf(w, "\n%s: p50 / p99 in ms, records a second\n\n| nodes | clients |", g.title)
	for _, s := range columns {
		fmt.Fprintf(w, " %s |", s)
	}
	fmt.Fprint(w, " missed |\n| --- | --- |")
	for range columns {
		fmt.Fprint(w, " --- |")
	}
	fmt.Fprint(w, " --- |\n")
	for _, r := range g.rows {
		fmt.Fprintf(w, "| %d | %d |", r.nodes, r.clients)
		for _, s := range columns {
			m := r.median(s)
			fmt.Fprintf(w, " %.3g / %.3g, %.0f |", m.P50, m.P99, m.PerSecond)
		}
		misses := r.misses(g)
		missed = missed || misses != ""
		if _, err = fmt.Fprintf(w, " %s |\n", misses); err != nil {
			return missed, err
		}
	}
	return missed, nil
}

// median returns the medians of the rounds.
func (r *gridRow) median(s system) load.Result {
	of := func(field func(load.Result) float64) float64 {
		var samples []float64
		for _, x := range r.results[s] {
			samples = append(samples, field(x))
		}
		return quantile(samples, 0.5)
	}
	return load.Result{
		P50:       of(func(x load.Result) float64 { return x.P50 }),
		P99:       of(func(x load.Result) float64 { return x.P99 }),
		PerSecond: of(func(x load.Result) float64 { return x.PerSecond }),
	}
}

// misses says which targets are missed.
func (r *gridRow) misses(g *grid) string {
	own, text := r.median(g.systems[0]), ""
	add := func(format string, arguments ...any) {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf(format, arguments...)
	}
	if g.disks {
		if ratio := own.P50 / r.median(onlyTheDisks).P50; ratio > diskTargets[r.nodes] {
			add("%.3g times the disks, not %.3g", ratio, diskTargets[r.nodes])
		}
	}
	for _, s := range g.systems[1:] {
		if other := r.median(s); own.P50 > other.P50 || own.PerSecond < other.PerSecond {
			add("behind %s", s)
		}
	}
	return text
}
