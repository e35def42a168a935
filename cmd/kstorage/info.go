package main

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	urfave "github.com/urfave/cli/v2"

	"kstorage/format"
	"kstorage/internal/cli"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

func (s *session) infoCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "info",
		Usage:     "Show how the log directories of a node are formatted.",
		UsageText: "kstorage info --config FILE",
		Flags:     []urfave.Flag{configFlag()},
		Description: `The exit code is 0 only if all directories are formatted and belong together.

Example:
  kstorage info --config server.properties`,
	}, (*session).info)
}

// infoResult is the JSON document of info.
type infoResult struct {
	cli.Document
	NodeID         int32           `json:"nodeId"`
	Directories    []infoDirectory `json:"directories"`
	Problems       []string        `json:"problems"`
	ZeroCheckpoint *zeroCheckpoint `json:"zeroCheckpoint"`
	OldBootstrap   *oldBootstrap   `json:"bootstrapCheckpoint"` // only where the zero checkpoint has no metadata, so that it counts
}

type infoDirectory struct {
	Path        string  `json:"path"`
	State       string  `json:"state"`
	Metadata    bool    `json:"metadataDirectory"`
	Version     *int8   `json:"metaPropertiesVersion"`
	NodeID      *int32  `json:"nodeId"`
	ClusterID   *string `json:"clusterId"`
	DirectoryID *string `json:"directoryId"`
	Reason      string  `json:"reason,omitempty"`
}

func (s *session) info(ctx *urfave.Context) error {
	conf, err := s.config(ctx)
	if err != nil {
		return err
	}
	dirs, metadataDir := conf.LogDirs, conf.MetadataLogDir
	ensemble := metaprops.Load(dirs, metadataDir, nil)
	report := ensemble.Report(conf.NodeID)
	if report.Unreadable != nil {
		return s.explain(report.Unreadable)
	}
	for _, w := range append(report.Warnings, format.Hazards(dirs)...) {
		s.out.Warn(w)
	}
	var zero *zeroCheckpoint
	var damage error
	if conf.IsController { // a broker does not read it
		zero, damage = readZeroCheckpoint(ensemble)
	}
	var old *oldBootstrap
	if conf.IsController && damage == nil && (zero == nil || zero.Records == 0) {
		old, damage = readOldBootstrap(ensemble)
	}
	result := infoResult{
		Document: s.out.Document(), NodeID: conf.NodeID, Directories: infoDirectories(ensemble),
		Problems: append([]string{}, report.Problems...), ZeroCheckpoint: zero, OldBootstrap: old,
	}
	if damage != nil && s.out.JSON {
		result.Problems = append(result.Problems, damage.Error())
	}
	if err := s.out.Result(result, infoText(report, ensemble, zero)); err != nil {
		return err
	}
	switch {
	case damage != nil && !s.out.JSON:
		// On stderr: what is on stdout is Kafka's report, which does not look into the file.
		return s.explain(damage)
	case damage != nil || len(report.Problems) > 0:
		return cli.ErrReported
	}
	return nil
}

// infoText has the lines of Kafka's tool, which scripts read, and behind them what only a node with this project's files has.
func infoText(report metaprops.Report, ensemble metaprops.Ensemble, zero *zeroCheckpoint) string {
	var b strings.Builder
	section := func(one, many string, lines []string) {
		if len(lines) == 0 {
			return
		}
		if len(lines) > 1 {
			one = many
		}
		fmt.Fprintf(&b, "%s\n", one)
		for _, line := range lines {
			fmt.Fprintf(&b, "  %s\n", line)
		}
		b.WriteByte('\n')
	}
	section("Found log directory:", "Found log directories:", report.Found)
	if report.Metadata != "" {
		fmt.Fprintf(&b, "Found metadata: %s\n\n", report.Metadata)
	}
	section("Found problem:", "Found problems:", report.Problems)
	for _, d := range ensemble.In(metaprops.Formatted) {
		if d.Properties.Version == metaprops.V2 && d.Properties.ClusterID == "" {
			fmt.Fprintf(&b, "%s has no cluster id yet: the node gets it from the quorum.\n", d.Path)
		}
	}
	if zero != nil && zero.ClusterIDProposal != nil {
		fmt.Fprintf(&b, "The zero checkpoint proposes the cluster id %s. It is no cluster's id yet: it counts only if this node writes the bootstrap records of a new cluster.\n",
			*zero.ClusterIDProposal)
	}
	return b.String()
}

func infoDirectories(e metaprops.Ensemble) []infoDirectory {
	states := map[metaprops.State]string{metaprops.Formatted: "formatted", metaprops.Empty: "not formatted", metaprops.Failed: "failed"}
	out := []infoDirectory{}
	for _, d := range e.Dirs {
		i := infoDirectory{Path: d.Path, State: states[d.State], Metadata: d.Path == e.MetadataDir}
		switch {
		case d.State == metaprops.Formatted:
			version := int8(d.Properties.Version)
			i.Version = &version
			if d.Properties.NodeID != metaprops.NoNode {
				i.NodeID = &d.Properties.NodeID
			}
			if d.Properties.ClusterID != "" {
				i.ClusterID = &d.Properties.ClusterID
			}
			if d.Properties.DirectoryID != uuid.Nil {
				text := kafkaid.String(d.Properties.DirectoryID)
				i.DirectoryID = &text
			}
		case d.State == metaprops.Failed:
			i.Reason = d.Err.Error()
		case d.Missing:
			i.State = "missing"
		}
		out = append(out, i)
	}
	return out
}
