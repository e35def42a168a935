package main

import (
	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
	"kstorage/internal/kafkaid"
)

func (s *session) randomUUIDCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "random-uuid",
		Usage:     "Print a random UUID, for use as a cluster id or a directory id.",
		UsageText: "kstorage random-uuid",
		Description: `It is 22 characters long and never begins with a dash.

Example:
  kstorage random-uuid`,
	}, (*session).randomUUID)
}

func (s *session) randomUUID(*urfave.Context) error {
	id, err := kafkaid.New(s.world.Random)
	if err != nil {
		return err
	}
	text := kafkaid.String(id)
	return s.out.Result(struct {
		cli.Document
		UUID string `json:"uuid"`
	}{s.out.Document(), text}, text+"\n")
}
