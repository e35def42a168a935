package main

import (
	urfave "github.com/urfave/cli/v2"
)

// version is set by the linker, see Makefile.
var version = "devel"

func (s *session) versionCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name: "version", Category: own,
		Usage:     "Print the version of this program.",
		UsageText: "kfeatures version",
		Description: `Example:
  kfeatures version --json`,
	}, (*session).version)
}

func (s *session) version(*urfave.Context) error { return s.out.Version(version) }
