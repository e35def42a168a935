package main

import (
	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
)

var disabled = operation{"disable", "disabled", false}

func (s *session) disableCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "disable",
		Usage:     "Turn features off. It is the same as lowering them to level 0.",
		UsageText: "kfeatures --bootstrap-server ADDRESSES disable --feature FEATURE",
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: feature, Usage: "The `FEATURE` to turn off."},
			onOff(dryRun, "Ask the cluster whether it could be done, and change nothing."),
			unsafeFlag(),
			timeoutFlag(),
		},
		Description: `Example:
  kfeatures --bootstrap-server localhost:9092 disable --feature share.version`,
	}, (*session).disable)
}

func (s *session) disable(ctx *urfave.Context) error {
	return s.update(ctx, disabled, func() ([]features.Level, error) {
		var out []features.Level
		for _, name := range ctx.StringSlice(feature) {
			out = append(out, features.Level{Name: name})
		}
		if len(out) == 0 {
			return nil, usage(disabled.verb, "nothing to disable: --%s is required", feature)
		}
		return out, checkNames(disabled, out)
	})
}
