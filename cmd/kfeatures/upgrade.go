package main

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
)

var upgraded = operation{"upgrade", "upgraded", true}

func (s *session) upgradeCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "upgrade",
		Usage:     "Raise the levels of features.",
		UsageText: "kfeatures --bootstrap-server ADDRESSES upgrade --release-version RELEASE",
		Flags: levelOptions("raise",
			&urfave.BoolFlag{Name: wait, Category: own, Usage: "Return when every node reports the new levels: every broker, or with --bootstrap-controller every controller."},
			timeoutFlag()),
		Description: fmt.Sprintf(`All of the levels are raised or none. Every node of the cluster has to support them.
metadata.version %s commits the cluster id (KIP-1262). No release of Apache Kafka up to
%s reads it, and there is no way back.

Example:
  kfeatures --bootstrap-server localhost:9092 upgrade --release-version 4.4 --dry-run`, features.LatestProduction, features.LatestKafka.Release()),
	}, (*session).upgrade)
}

func (s *session) upgrade(ctx *urfave.Context) error {
	return s.update(ctx, upgraded, func() ([]features.Level, error) { return s.levels(ctx, upgraded, true) })
}
