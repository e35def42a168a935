package main

import (
	"fmt"
	"runtime"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
	"kstorage/internal/cli"
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

func (s *session) version(*urfave.Context) error {
	return s.out.Result(struct {
		cli.Document
		Program         string `json:"program"`
		ProgramVersion  string `json:"programVersion"`
		Go              string `json:"go"`
		MetadataVersion string `json:"latestMetadataVersion"`
	}{s.out.Document(), program, version, runtime.Version(), features.LatestProduction.String()},
		fmt.Sprintf("%s %s (metadata.version up to %s, %s)\n", program, version, features.LatestProduction, runtime.Version()))
}
