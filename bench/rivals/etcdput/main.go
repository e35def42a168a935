//go:build bench && linux

// Command etcdput is the clients of an etcd server: it takes orders of a load, each client with a connection of its own.
// They go to the leader, as those of a controller do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kstorage/bench/load"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "etcdput: %v\n", err)
		os.Exit(1)
	}
}

// run takes the URL of one of the servers.
func run(address string) error {
	leader, err := findLeader(address)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var clients []*clientv3.Client
	connect := func(client int) (*clientv3.Client, error) {
		mu.Lock()
		defer mu.Unlock()
		for len(clients) <= client {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{leader}, Logger: zap.NewNop()})
			if err != nil {
				return nil, err
			}
			clients = append(clients, c)
		}
		return clients[client], nil
	}
	value := strings.Repeat("v", load.PayloadBytes)
	return load.Serve(os.Stdin, os.Stdout, func(ctx context.Context, client int) error {
		c, err := connect(client)
		if err != nil {
			return err
		}
		_, err = c.Put(ctx, fmt.Sprintf("client-%d", client), value)
		return err
	})
}

var errNoLeader = errors.New("the cluster has no leader")

func findLeader(address string) (url string, err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		return "", err
	}
	defer c.Close()
	status, err := c.Status(context.Background(), address)
	if err != nil {
		return "", err
	}
	members, err := c.MemberList(context.Background())
	if err != nil {
		return "", err
	}
	for _, m := range members.Members {
		if m.ID == status.Leader {
			return m.ClientURLs[0], nil
		}
	}
	return "", errNoLeader
}
