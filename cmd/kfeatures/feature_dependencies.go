package main

import (
	"errors"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
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
	type dependencies struct {
		level
		Requires []level `json:"requires"`
	}
	var text strings.Builder
	var errs []error
	result := []dependencies{}
	for _, arg := range ctx.StringSlice(feature) {
		l, err := features.ParseLevel(arg)
		if err != nil {
			errs = append(errs, s.explain(err))
			continue
		}
		required, err := features.Requirements(l)
		if err != nil {
			errs = append(errs, s.explain(err))
			continue
		}
		result = append(result, dependencies{level(l), levels(required)})
		if len(required) == 0 {
			fmt.Fprintf(&text, "%v has no dependencies.\n", l)
			continue
		}
		fmt.Fprintf(&text, "%v requires:\n", l)
		for _, r := range required {
			fmt.Fprintf(&text, "    %v\n", r)
		}
	}
	if len(result) == 0 {
		return errors.Join(errs...)
	}
	// Beside what is wrong stands what is right, as in Kafka's tool.
	err := s.out.Result(struct {
		cli.Document
		Features []dependencies `json:"features"`
	}{s.out.Document(), result}, text.String())
	return errors.Join(append([]error{err}, errs...)...)
}
