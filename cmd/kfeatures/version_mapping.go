package main

import (
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
	"kstorage/internal/cli"
)

// level is a feature at a level in a JSON document.
type level struct {
	Name  string `json:"name"`
	Level int16  `json:"level"`
}

func levels(from []features.Level) []level {
	out := make([]level, len(from))
	for i, l := range from {
		out[i] = level(l)
	}
	return out
}

func (s *session) versionMappingCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "version-mapping",
		Usage:     "Show the level of each feature that a release stands for.",
		UsageText: "kfeatures version-mapping [--release-version RELEASE]",
		Flags: []urfave.Flag{
			text(releaseVersion, fmt.Sprintf("The `RELEASE` or metadata.version to look up, from %s; %s if not given.", features.Minimum, features.LatestProduction)),
		},
		Description: `Example:
  kfeatures version-mapping --release-version 4.0`,
	}, (*session).versionMapping)
}

func (s *session) versionMapping(ctx *urfave.Context) error {
	version, name := features.LatestProduction, features.LatestProduction.String()
	if ctx.IsSet(releaseVersion) {
		name = ctx.String(releaseVersion)
		var err error
		if version, err = features.ParseVersion(name, true); err != nil {
			return s.explain(err)
		}
	}
	mapping := features.Mapping(version)
	var text strings.Builder
	for _, l := range mapping {
		if l.Name == features.MetadataVersionName {
			fmt.Fprintf(&text, "%s=%d (%s)\n", l.Name, l.Level, name)
		} else {
			fmt.Fprintln(&text, l)
		}
	}
	return s.out.Result(struct {
		cli.Document
		Release  string  `json:"release"`
		Features []level `json:"features"`
	}{s.out.Document(), name, levels(mapping)}, text.String())
}
