package main

import (
	"fmt"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
	"kstorage/internal/cli"
	"kstorage/internal/client/admin"
)

func (s *session) describeCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "describe",
		Usage:     "Show the levels that the cluster has and those that a node supports.",
		UsageText: "kfeatures --bootstrap-server ADDRESSES describe [--node-id ID]",
		Flags: []urfave.Flag{
			text(nodeID, "Ask the node with this `ID`. If it is not given: one that answers for the cluster."),
			timeoutFlag(),
		},
		Description: `Example:
  kfeatures --bootstrap-server localhost:9092 describe`,
	}, (*session).describe)
}

func (s *session) describe(ctx *urfave.Context) error {
	id := int64(admin.AnyNode)
	if ctx.IsSet(nodeID) {
		var err error
		if id, err = strconv.ParseInt(ctx.String(nodeID), 10, 32); err != nil || id < 0 {
			return usage("describe", "the value of the option %s is no id of a node, a number from 0 on: %q", s.from(nodeID), ctx.String(nodeID))
		}
	}
	cluster, limited, cancel, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	defer cluster.Close()
	d, err := cluster.Describe(limited, int32(id))
	if err != nil {
		return s.explain(err)
	}
	return s.out.Result(s.descriptionDocument(d), descriptionText(d))
}

func descriptionText(d admin.Description) string {
	epoch := "-"
	if d.Epoch >= 0 {
		epoch = strconv.FormatInt(d.Epoch, 10)
	}
	var b strings.Builder
	for _, f := range d.Features {
		fmt.Fprintf(&b, "Feature: %-40s  SupportedMinVersion: %-15s  SupportedMaxVersion: %-15s  FinalizedVersionLevel: %-15s  Epoch: %s\n",
			f.Name, levelText(f.Name, f.Min), levelText(f.Name, f.Max), levelText(f.Name, f.Level), epoch)
	}
	return b.String()
}

// levelText is a level as Kafka shows it: that of metadata.version by its name.
func levelText(feature string, level int16) string {
	if feature != features.MetadataVersionName {
		return strconv.Itoa(int(level))
	}
	if v := features.MetadataVersion(level); v.Known() {
		return v.String()
	}
	return fmt.Sprintf("UNKNOWN %d", level)
}

func (s *session) descriptionDocument(d admin.Description) any {
	type row struct {
		Name      string `json:"name"`
		Min       int16  `json:"supportedMinVersion"`
		Max       int16  `json:"supportedMaxVersion"`
		Finalized int16  `json:"finalizedVersionLevel"`
		// For metadata.version the names of the levels.
		MinName       string `json:"supportedMinName,omitempty"`
		MaxName       string `json:"supportedMaxName,omitempty"`
		FinalizedName string `json:"finalizedName,omitempty"`
	}
	rows := []row{}
	for _, f := range d.Features {
		r := row{Name: f.Name, Min: f.Min, Max: f.Max, Finalized: f.Level}
		if f.Name == features.MetadataVersionName {
			r.MinName, r.MaxName, r.FinalizedName = levelText(f.Name, f.Min), levelText(f.Name, f.Max), levelText(f.Name, f.Level)
		}
		rows = append(rows, r)
	}
	var epoch *int64
	if d.Epoch >= 0 {
		epoch = &d.Epoch
	}
	return struct {
		cli.Document
		Epoch    *int64 `json:"epoch"`
		Features []row  `json:"features"`
	}{s.out.Document(), epoch, rows}
}
