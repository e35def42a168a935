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
		UsageText: "kfeatures feature-dependencies --feature FEATURE=LEVEL ...",
		Flags:     []urfave.Flag{&urfave.StringSliceFlag{Name: feature, Required: true, Usage: "The `FEATURE=LEVEL` to look up."}},
		Description: `Example:
  kfeatures feature-dependencies --feature eligible.leader.replicas.version=1`,
	}, (*session).featureDependencies)
}

func (s *session) featureDependencies(ctx *urfave.Context) error {
	found, errs := cli.FindDependencies(ctx.StringSlice(feature))
	for i, err := range errs {
		errs[i] = s.explain(err)
	}
	if len(found.Levels) > 0 { // beside what is wrong stands what is right, as in Kafka's tool
		errs = append([]error{s.out.Dependencies(found)}, errs...)
	}
	return errors.Join(errs...)
}
