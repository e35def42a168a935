package main

import (
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
)

func (s *session) completionCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name: "completion", Category: own,
		Usage:     "Print a script that completes commands and options in a shell.",
		UsageText: "kfeatures completion " + strings.Join(cli.Shells, "|"),
		Args:      true,
		Description: `Example, for the running bash:
  source <(kfeatures completion bash)`,
	}, (*session).completion)
}

func (s *session) completion(ctx *urfave.Context) error {
	return s.out.Completion(s.grammar(), ctx.Args().Slice())
}
