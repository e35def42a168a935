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
	if ctx.NArg() != 1 {
		return &cli.UsageError{Command: "completion", Reason: "the name of one shell is expected: " + strings.Join(cli.Shells, ", ")}
	}
	script, err := s.grammar().Completion(ctx.Args().First())
	if err != nil {
		return err
	}
	return s.out.Result(struct {
		cli.Document
		Script string `json:"script"`
	}{s.out.Document(), script}, script)
}
