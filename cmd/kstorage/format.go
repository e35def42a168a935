package main

import (
	"errors"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/format"
	"kstorage/internal/cli"
	"kstorage/internal/kafkaid"
)

func (s *session) formatCommand() *urfave.Command {
	return s.command(&urfave.Command{
		Name:      "format",
		Usage:     "Format the log directories of a node.",
		UsageText: "kstorage format --config FILE [--standalone | --initial-controllers LIST | --no-initial-controllers] [options]",
		Flags: []urfave.Flag{
			configFlag(),
			&urfave.StringFlag{Name: "cluster-id", Aliases: []string{"t"}, Usage: "The `ID` of the cluster. Without it the cluster gives itself one, from metadata.version " + features.LatestProduction.String() + " on."},
			&urfave.StringSliceFlag{Name: "add-scram", Aliases: []string{"S"}, Usage: "A `CREDENTIAL` of a user that the new cluster knows, such as 'SCRAM-SHA-256=[name=alice,password=alice-secret]' or 'SCRAM-SHA-512=[name=alice,iterations=8192,salt=\"N3E=\",saltedpassword=\"YCE=\"]'."},
			&urfave.BoolFlag{Name: "ignore-formatted", Aliases: []string{"g"}, Usage: "Leave directories alone that are formatted, and format the others."},
			releaseFlag(fmt.Sprintf("The `RELEASE` or metadata.version whose features the new cluster has, from %s on. If not given: %s with a cluster id, else %s.",
				features.Minimum, features.DefaultVersion(true, false), features.DefaultVersion(false, false))),
			featureFlag("A `FEATURE=LEVEL` to use instead of that of the release.", false),
			&urfave.BoolFlag{Name: "standalone", Aliases: []string{"s"}, Usage: "The node is the only controller of a new cluster."},
			&urfave.BoolFlag{Name: "no-initial-controllers", Aliases: []string{"N"}, Usage: "The controller joins a cluster that exists."},
			&urfave.StringFlag{Name: "initial-controllers", Aliases: []string{"I"}, Usage: "The controllers of a new cluster, a `LIST` of id@host:port:directory-id with commas between. All of them are formatted with the same list."},
			&urfave.BoolFlag{Name: "dry-run", Category: own, Usage: "Check everything and print what would be done, but write nothing."},
		},
		Description: `Format all first controllers of a cluster alike: all with the same --cluster-id, or all
without. Without one, the cluster id in the zero checkpoint is a proposal; the node that
becomes the first leader decides, and all nodes learn the id from it. metadata.version
` + features.LatestProduction.String() + `, which that needs, has no way back, and no released Apache Kafka reads it. With a
cluster id the default is ` + features.LatestKafka.String() + `, which Kafka ` + features.LatestKafka.Release() + ` reads. Controllers need a server of Kafka 4.4 or
newer whatever the metadata.version, because they find the metadata in the zero checkpoint.

Example:
  kstorage format --config server.properties --standalone
  kstorage format -c server.properties -t "$(kstorage random-uuid)" -s -r 4.4`,
	}, (*session).format)
}

func (s *session) format(ctx *urfave.Context) error {
	options, err := s.formatOptions(ctx)
	if err != nil {
		return err
	}
	plan, err := format.New(options)
	if unusable := (*format.UnusableError)(nil); errors.As(err, &unusable) && !s.out.JSON {
		// The one failure of which Kafka's tool tells on stdout.
		return errors.Join(s.out.Result(nil, skippedText(unusable.Dirs)), s.explain(err))
	}
	if err != nil {
		return s.explain(err)
	}
	for _, w := range plan.Warnings {
		s.out.Warn(w)
	}
	if notice := plan.Notice(); notice != "" {
		s.out.Note(notice)
	}
	dryRun := ctx.Bool("dry-run")
	if !dryRun {
		if err := plan.Apply(); err != nil {
			return s.explain(err)
		}
		for _, d := range plan.Format {
			if d.RemovesOldBootstrap {
				s.out.Note(fmt.Sprintf("Removed %s/%s: the zero checkpoint takes its place.", strings.TrimSuffix(d.Path, "/"), checkpoint.BootstrapName))
			}
		}
	}
	return s.out.Result(s.formatResult(plan, dryRun), formatText(plan, dryRun))
}

// formatOptions reads the configuration and the options of the command.
func (s *session) formatOptions(ctx *urfave.Context) (format.Options, error) {
	conf, err := s.config(ctx)
	if err != nil {
		return format.Options{}, err
	}
	o := format.Options{
		NodeID:               conf.NodeID,
		NodeIDFrom:           nodeIDFrom(conf),
		Controller:           conf.IsController,
		LogDirs:              conf.LogDirs,
		MetadataLogDir:       conf.MetadataLogDir,
		ControllerListener:   controllerEndpoint(conf),
		StaticVoters:         len(conf.QuorumVoters) > 0,
		ClusterIDFrom:        s.from("cluster-id"),
		IgnoreFormatted:      ctx.Bool("ignore-formatted"),
		Standalone:           ctx.Bool("standalone"),
		NoInitialControllers: ctx.Bool("no-initial-controllers"),
		Unstable:             conf.UnstableFeatureVersions,
		Random:               s.world.Random,
		Now:                  s.world.Now,
		LocalHostName:        s.world.LocalHostName,
	}
	if ctx.IsSet("cluster-id") {
		id := ctx.String("cluster-id")
		o.ClusterID = &id
	}
	if ctx.IsSet("initial-controllers") {
		list := ctx.String("initial-controllers")
		o.InitialControllers = &list
	}
	for _, arg := range ctx.StringSlice("add-scram") {
		o.Scram = append(o.Scram, format.ScramArgument(arg))
	}
	if ctx.IsSet("release-version") {
		if o.Release, err = features.ParseVersion(ctx.String("release-version"), o.Unstable); err != nil {
			return o, s.explain(err)
		}
	}
	if o.Features, err = features.ParseLevels(ctx.StringSlice("feature")); err != nil {
		return o, s.explain(err)
	}
	s.preferExplicit(&o)
	return o, nil
}

// preferExplicit drops what a variable says of metadata.version where an option says it.
func (s *session) preferExplicit(o *format.Options) {
	isVersion := func(l features.Level) bool { return l.Name == features.MetadataVersionName }
	featuresFromEnv, releaseFromEnv := s.args.FromEnv["feature"] != "", s.args.FromEnv["release-version"] != ""
	switch {
	case releaseFromEnv && !featuresFromEnv:
		for _, l := range o.Features {
			if isVersion(l) {
				o.Release = 0
			}
		}
	case featuresFromEnv && !releaseFromEnv && o.Release != 0:
		var rest []features.Level
		for _, l := range o.Features {
			if !isVersion(l) {
				rest = append(rest, l)
			}
		}
		o.Features = rest
	}
}

// formatText is the result as Kafka's tool prints it, whose lines scripts read.
func formatText(p *format.Plan, dryRun bool) string {
	var b strings.Builder
	b.WriteString(skippedText(p.Skipped))
	if len(p.Format) == 0 {
		b.WriteString("All of the log directories are already formatted.\n")
		return b.String()
	}
	var records []string
	for _, f := range p.Features {
		records = append(records, f.String())
	}
	if p.ClusterIDProposal != "" {
		records = append(records, "cluster.id="+p.ClusterIDProposal)
	}
	for _, u := range p.Users {
		records = append(records, fmt.Sprintf("%s=[name=%s,iterations=%d]", u.Mechanism, u.Name, u.Iterations))
	}
	fmt.Fprintf(&b, "Bootstrap metadata: %s\n", strings.Join(records, ", "))
	verb := "Formatting"
	if dryRun {
		verb = "Would format"
	}
	for _, d := range p.Format {
		fmt.Fprintf(&b, "%s %s %s with metadata.version %s.\n", verb, d.Kind, d.Path, p.MetadataVersion)
	}
	return b.String()
}

func skippedText(dirs []*format.DirError) string {
	var b strings.Builder
	for _, d := range dirs {
		fmt.Fprintf(&b, "I/O error trying to read log directory %s. Ignoring...\n", d.Dir)
	}
	return b.String()
}

// formatDocument is the JSON document of format.
type formatDocument struct {
	cli.Document
	DryRun            bool              `json:"dryRun"`
	NodeID            int32             `json:"nodeId"`
	ClusterID         *string           `json:"clusterId"`
	ClusterIDProposal *string           `json:"clusterIdProposal"`
	MetadataVersion   string            `json:"metadataVersion"`
	KRaftVersion      int16             `json:"kraftVersion"`
	Features          []level           `json:"features"`
	Users             []user            `json:"users"`
	Voters            []voter           `json:"voters"`
	Formatted         []formatDirectory `json:"formatted"`
	AlreadyFormatted  []string          `json:"alreadyFormatted"`
	Skipped           []string          `json:"skipped"`
}

type user struct {
	Name       string `json:"name"`
	Mechanism  string `json:"mechanism"`
	Iterations int32  `json:"iterations"`
}

type formatDirectory struct {
	Path                string `json:"path"`
	Kind                string `json:"kind"`
	DirectoryID         string `json:"directoryId"`
	RemovesOldBootstrap bool   `json:"removesBootstrapCheckpoint"`
}

func (s *session) formatResult(p *format.Plan, dryRun bool) formatDocument {
	r := formatDocument{
		Document: s.out.Document(), DryRun: dryRun, NodeID: p.NodeID,
		ClusterID: optional(p.ClusterID), ClusterIDProposal: optional(p.ClusterIDProposal),
		MetadataVersion: p.MetadataVersion.String(), KRaftVersion: p.KRaftVersion, Features: levels(p.Features),
		Users: []user{}, Voters: voters(p.Voters), Formatted: []formatDirectory{},
		AlreadyFormatted: append([]string{}, p.Formatted...), Skipped: []string{},
	}
	for _, u := range p.Users {
		r.Users = append(r.Users, user(u))
	}
	for _, d := range p.Format {
		r.Formatted = append(r.Formatted, formatDirectory{d.Path, string(d.Kind), kafkaid.String(d.DirectoryID), d.RemovesOldBootstrap})
	}
	for _, d := range p.Skipped {
		r.Skipped = append(r.Skipped, d.Dir)
	}
	return r
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
