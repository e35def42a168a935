package main

import (
	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
)

var downgraded = operation{"downgrade", "downgraded", true}

func (s *session) downgradeCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "downgrade",
		Usage:     "Lower the levels of features.",
		UsageText: "kfeatures --bootstrap-server ADDRESSES downgrade --feature FEATURE=LEVEL",
		Flags:     levelOptions("lower", unsafeFlag(), timeoutFlag()),
		Description: `All of the levels are lowered or none. The cluster refuses to lower metadata.version over a
level that changed the metadata.

Example:
  kfeatures --bootstrap-server localhost:9092 downgrade --feature transaction.version=1`,
	}, (*session).downgrade)
}

func unsafeFlag() urfave.Flag {
	return onOff(unsafe, "Do it even if it may destroy metadata. Apache Kafka up to 4.4 refuses that for metadata.version all the same.")
}

func (s *session) downgrade(ctx *urfave.Context) error {
	return s.update(ctx, downgraded, func() ([]features.Level, error) { return s.levels(ctx, downgraded, false) })
}
