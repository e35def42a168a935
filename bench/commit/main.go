//go:build bench && linux

// Command commit is what the benchmark of commits runs of this project, in processes of its own.
//
//	commit node CONFIG      a node as `kstorage start` runs it, which takes orders of a load: its clients are inside of the process
//	commit disk FILE BYTES  what no log can beat: it takes orders, and lets one client write so many bytes to the end of the file
//	                        and make them durable, again and again
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"kstorage/bench/load"
	"kstorage/format"
	"kstorage/internal/config"
	"kstorage/internal/disk"
	"kstorage/internal/node"
	"kstorage/internal/record"
)

func main() {
	var err error
	switch os.Args[1] {
	case "node":
		err = runNode(os.Args[2])
	case "disk":
		err = runDisk(os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "commit: %v\n", err)
		os.Exit(1)
	}
}

func runNode(file string) error {
	conf, err := config.Load(file, os.LookupEnv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	err = node.RunForCommits(ctx, node.Options{
		Config: conf, FS: disk.OS, Random: rand.Reader, Now: time.Now, LocalHostName: format.LocalHostName,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Notify: func(string) {},
	}, func(commit node.CommitFunc) {
		r := brokerConfig()
		cancel(load.Serve(os.Stdin, os.Stdout, func(ctx context.Context, _ int) error { return commit(ctx, r) }))
	})
	return err
}

// brokerConfig is a record whose value has the length of all.
func brokerConfig() record.Record {
	const broker = 4
	r := record.New(record.Config, 0)
	r.SetInt("ResourceType", broker)
	r.SetText("ResourceName", "1")
	r.SetText("Name", "log.retention.ms")
	size := func() int {
		value, err := r.AppendValue(nil)
		if err != nil {
			panic(err)
		}
		return len(value)
	}
	r.SetText("Value", strings.Repeat("0", load.PayloadBytes-size()))
	if size() != load.PayloadBytes {
		panic(fmt.Sprintf("the value of the record has %d bytes instead of %d", size(), load.PayloadBytes))
	}
	return r
}

func runDisk(name, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	f, err := disk.OS.Create(name, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	data := bytes.Repeat([]byte{1}, n)
	return load.Serve(os.Stdin, os.Stdout, func(context.Context, int) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.SyncData()
	})
}
