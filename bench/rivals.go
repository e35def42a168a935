//go:build bench && linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"kstorage/bench/load"
)

// The systems beside Kafka.
const (
	etcd         system = "etcd"
	etcdRaft     system = "etcd-io/raft"   // with etcd's write-ahead log
	hashicorp    system = "hashicorp/raft" // with raft-wal
	kafkaNow     system = "Apache Kafka, linger 0"
	oursInside   system = "kstorage, clients inside"
	onlyTheDisks system = "write + fdatasync"
)

// buildRivals builds what is not Kafka's, from the module that has it as its dependency.
func (l *lab) buildRivals() error {
	for _, p := range []struct{ name, folder, path string }{
		{"commit", ".", "./bench/commit"},
		{"etcdraft", "bench/rivals", "./etcdraft"},
		{"hashicorpraft", "bench/rivals", "./hashicorpraft"},
		{"etcdput", "bench/rivals", "./etcdput"},
		{"etcd", "bench/rivals", "go.etcd.io/etcd/server/v3"},
	} {
		build := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs,bench", "-ldflags", "-s -w", "-o", l.program(p.name), p.path)
		build.Dir, build.Env = p.folder, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.path, err, out)
		}
	}
	return nil
}

func (l *lab) program(name string) string { return filepath.Join(l.scratch, name) }

// newRivals makes a quorum of one of the systems that are not configured as Kafka is.
func (l *lab) newRivals(s system, count int) ([]*node, error) {
	l.clusters++
	addresses, err := freeAddresses(2 * count)
	if err != nil {
		return nil, err
	}
	clients, peers := addresses[:count], addresses[count:]
	var members []string
	for i, peer := range peers {
		members = append(members, fmt.Sprintf("n%d=http://%s", i+1, peer))
	}
	var nodes []*node
	for i := range count {
		n := &node{id: int32(i + 1), address: clients[i]}
		n.folder = filepath.Join(l.scratch, fmt.Sprint(l.clusters), fmt.Sprint(n.id))
		if err := os.MkdirAll(n.folder, 0o755); err != nil {
			return nil, err
		}
		id, data := fmt.Sprint(n.id), filepath.Join(n.folder, "data")
		switch s {
		case etcd:
			n.commit, n.active = n.putAsLeader, n.put
			n.command = func(string) *exec.Cmd {
				return exec.Command(l.program("etcd"), "--name", "n"+id, "--data-dir", data, "--log-level", "error",
					"--listen-client-urls", "http://"+clients[i], "--advertise-client-urls", "http://"+clients[i],
					"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
					"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new")
			}
		case etcdRaft, hashicorp:
			n.commit, n.takesOrders = n.commitOne, true
			name := map[system]string{etcdRaft: "etcdraft", hashicorp: "hashicorpraft"}[s]
			n.command = func(string) *exec.Cmd {
				return exec.Command(l.program(name), "--id", id, "--dir", data, "--members", strings.Join(peers, ","))
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// freeAddresses returns addresses with ports that were free a moment ago: whoever takes one meanwhile ends the run.
func freeAddresses(count int) ([]string, error) {
	var all []string
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		all = append(all, listener.Addr().String())
	}
	return all, nil
}

// putAsLeader is put, but an error if the server is not the leader: the others would hand the put on.
func (n *node) putAsLeader(ctx context.Context) error {
	var status struct {
		Leader string
		Header struct {
			MemberID string `json:"member_id"`
		}
	}
	text, err := n.post(ctx, "/v3/maintenance/status", "{}")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return err
	}
	if status.Leader != status.Header.MemberID {
		return errNotYet
	}
	return n.put(ctx)
}

// put writes a key of an etcd server.
func (n *node) put(ctx context.Context) error {
	_, err := n.post(ctx, "/v3/kv/put", `{"key":"a2V5","value":"dmFsdWU="}`)
	return err
}

// post asks an etcd server. One that still believes in a leader that is dead would wait for seconds.
func (n *node) post(ctx context.Context, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return text, err
}

// commitOne lets a node that takes orders write one record.
func (n *node) commitOne(context.Context) error {
	_, err := n.order(load.Order{Clients: 1})
	return err
}

// order lets a process that takes orders carry one out.
func (n *node) order(o load.Order) (r load.Result, err error) {
	if err := n.orders.Encode(o); err != nil {
		return r, err
	}
	if err := n.results.Decode(&r); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// connectOrders is for the time before the process starts.
func (n *node) connectOrders(cmd *exec.Cmd) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	n.orders, n.results = json.NewEncoder(in), json.NewDecoder(out)
	return nil
}
