package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"kstorage/format"
	"kstorage/internal/cli"
	"kstorage/internal/disk"
	"kstorage/internal/node"
)

func (s *session) startCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "start",
		Category:  own,
		Usage:     "Run a node of a KRaft quorum.",
		UsageText: "kstorage start --config FILE [--override KEY=VALUE]... [--request-log FILE] [--metrics-listen ADDR]",
		Flags: []urfave.Flag{
			configFlag(),
			&urfave.StringSliceFlag{Name: "override", Usage: "A setting `KEY=VALUE` in place of the file's."},
			&urfave.StringFlag{Name: "request-log", Usage: "Append a JSON document a line to this `FILE` for each request that the node answers or refuses."},
			&urfave.StringFlag{Name: "metrics-listen", Usage: "Show the node over HTTP at this `ADDR`, host:port: /metrics for Prometheus, /healthz, /readyz, and a status page at /."},
		},
		Description: `The node runs in the foreground, logs to stderr (with --json a document a line), and ends on SIGTERM or SIGINT: a
broker asks for leave, a leader hands over. It speaks Kafka's own protocol, so it forms a quorum with nodes of its
kind or of Apache Kafka.

The first controllers of a new cluster are formatted before, all with the same --cluster-id or all without. Brokers
and further controllers need no format: they learn the id of the cluster from its metadata (KIP-1262).

Example:
  kstorage format --config server.properties --standalone
  kstorage start --config server.properties`,
	}, (*session).start)
}

func (s *session) start(ctx *urfave.Context) error {
	conf, err := s.config(ctx, ctx.StringSlice("override")...)
	if err != nil {
		return err
	}
	var requestLog io.Writer
	if path := ctx.String("request-log"); path != "" {
		f, err := appendTo(path)
		if err != nil {
			return &cli.Problem{What: "cannot open the request log", Where: s.from("request-log") + " " + path + ": " + disk.Reason(err), Fix: "pass a file in a folder that this user may write"}
		}
		defer f.Close()
		requestLog = f
	}
	var status net.Listener
	if address := ctx.String("metrics-listen"); address != "" {
		if status, err = net.Listen("tcp", address); err != nil {
			fix := "pass a free address of this host, such as localhost:9404"
			if errors.Is(err, syscall.EADDRINUSE) {
				fix = "does this node run already? If it is another program, " + fix
			}
			return &cli.Problem{What: "cannot show the node", Where: s.from("metrics-listen") + " " + address + ": " + listenReason(err), Fix: fix}
		}
		defer status.Close()
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(stopped, stop) // a second signal ends the process at once
	localHostName := s.world.LocalHostName
	if localHostName == nil {
		localHostName = format.LocalHostName
	}
	err = node.Run(stopped, node.Options{
		Config:        conf,
		FS:            disk.OS,
		Random:        s.world.Random,
		Now:           s.world.Now,
		LocalHostName: localHostName,
		Log:           s.logger(),
		Notify:        node.Notify,
		RequestLog:    requestLog,
		Status:        status,
		Version:       version,
	})
	return s.explainStart(err)
}

// listenReason is what is wrong with an address.
func listenReason(err error) string {
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	}
	return disk.Reason(err)
}

// appendTo opens a file for writing at its end, and makes it if there is none. To open a pipe that nobody reads fails; else
// it would wait.
func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
}

// logger logs to stderr, with --json a document a line.
func (s *session) logger() *slog.Logger {
	var h slog.Handler = slog.NewTextHandler(s.world.Stderr, nil)
	if s.out.JSON {
		h = slog.NewJSONHandler(s.world.Stderr, nil)
	}
	return slog.New(h)
}

// explainStart turns the errors of a node into what a person reads.
func (s *session) explainStart(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, s.explainStart(e))
		}
		return errors.Join(all...)
	}
	if reason, ok := errors.AsType[*node.Error](err); ok {
		return &cli.Problem{What: reason.What, Where: reason.Where, Fix: reason.Fix, Verbatim: reason.Verbatim}
	}
	return err
}
