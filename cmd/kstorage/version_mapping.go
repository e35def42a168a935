package main

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
)

func (s *session) versionMappingCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "version-mapping",
		Usage:     "Show the level of each feature that a release stands for.",
		UsageText: "kstorage version-mapping [--release-version RELEASE]",
		Flags: []urfave.Flag{
			releaseFlag(fmt.Sprintf("The `RELEASE` or metadata.version to look up, from %s; %s if not given.", features.Minimum, features.LatestProduction)),
		},
		Description: `Example:
  kstorage version-mapping --release-version 4.0`,
	}, (*session).versionMapping)
}

func (s *session) versionMapping(ctx *urfave.Context) error {
	if err := s.out.VersionMapping(ctx.String("release-version"), ctx.IsSet("release-version")); err != nil {
		return s.explain(err)
	}
	return nil
}
