package main

import (
	"errors"

	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
)

func (s *session) featureDependenciesCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "feature-dependencies",
		Usage:     "Show the levels of other features that a level of a feature requires.",
		UsageText: "kstorage feature-dependencies --feature FEATURE=LEVEL ...",
		Flags:     []urfave.Flag{featureFlag("The `FEATURE=LEVEL` to look up.", true)},
		Description: `Example:
  kstorage feature-dependencies --feature eligible.leader.replicas.version=1`,
	}, (*session).featureDependencies)
}

func (s *session) featureDependencies(ctx *urfave.Context) error {
	found, errs := cli.FindDependencies(ctx.StringSlice("feature"))
	if len(errs) == 0 {
		return s.out.Dependencies(found)
	}
	for i, err := range errs {
		errs[i] = s.explain(err)
	}
	return errors.Join(errs...)
}
