package main

import (
	"bufio"
	"errors"
	"path/filepath"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
	"kstorage/internal/dump"
)

func (s *session) dumpCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name: "dump", Category: own,
		Usage:     "Print what is in files of a node: snapshots, log segments, quorum-state, meta.properties.",
		UsageText: "kstorage dump [--json] FILE...",
		Args:      true,
		Description: `With --json each line is a document of its own. A damaged file is printed up to the damage.
The keys of SCRAM credentials and tokens are printed, as Kafka's dump does: they are what the
files hold.

Example:
  kstorage dump data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint`,
	}, (*session).dump)
}

func (s *session) dump(ctx *urfave.Context) error {
	if ctx.NArg() == 0 {
		return &cli.UsageError{Command: "dump", Reason: "the name of at least one file is expected"}
	}
	w := bufio.NewWriterSize(s.world.Stdout, 1<<16)
	var errs []error
	for _, path := range ctx.Args().Slice() {
		err := dump.File(w, path, dump.Options{JSON: s.out.JSON})
		if errors.Is(err, syscall.EPIPE) {
			return nil // nobody reads on
		}
		if errors.Is(err, syscall.EISDIR) {
			err = &cli.Problem{What: path + " is a directory", Fix: "name the files in it, such as " + filepath.Join(path, "*.log")}
		}
		if err != nil {
			errs = append(errs, s.explain(err))
		}
	}
	return errors.Join(append(errs, cli.Written(0, w.Flush()))...)
}
