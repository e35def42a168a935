package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

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
	dryRun := ctx.Bool("dry-run")
	if !dryRun {
		removed, err := plan.Apply()
		for _, path := range removed {
			s.out.Note(fmt.Sprintf("Removed %s: the zero checkpoint takes its place.", path))
		}
		if err != nil {
			return s.explain(err)
		}
	}
	if n := notice(plan); n != "" {
		s.out.Note(n)
	}
	err = s.out.Result(s.formatResult(plan, dryRun), formatText(plan, dryRun))
	if err != nil && !dryRun && len(plan.Format) > 0 {
		var paths []string
		for _, d := range plan.Format {
			paths = append(paths, d.Path)
		}
		return &cli.Problem{What: fmt.Sprintf("the report cannot be written: %v", err), Where: "formatted: " + strings.Join(paths, ", "), Fix: "nothing is left to be done"}
	}
	return err
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
		o.Scram = append(o.Scram, format.NewScramArgument(arg))
	}
	release, levels := s.chosenVersion(ctx)
	if release != nil {
		if o.Release, err = features.ParseVersion(*release, o.Unstable); err != nil {
			return o, s.explain(err)
		}
	}
	if o.Features, err = features.ParseLevels(levels); err != nil {
		return o, s.explain(err)
	}
	return o, nil
}

// chosenVersion returns --release-version (nil: not given) and --feature. Where a variable and an option both say
// something of metadata.version, what the variable says is dropped.
func (s *session) chosenVersion(ctx *urfave.Context) (release *string, levels []string) {
	isVersion := func(level string) bool {
		name, _, _ := strings.Cut(level, "=")
		return strings.TrimSpace(name) == features.MetadataVersionName
	}
	levels = ctx.StringSlice("feature")
	if ctx.IsSet("release-version") {
		text := ctx.String("release-version")
		release = &text
	}
	releaseFromEnv, levelsFromEnv := s.args.FromEnv["release-version"] != "", s.args.FromEnv["feature"] != ""
	switch {
	case releaseFromEnv && !levelsFromEnv && slices.ContainsFunc(levels, isVersion):
		return nil, levels
	case levelsFromEnv && !releaseFromEnv && release != nil:
		return release, slices.DeleteFunc(slices.Clone(levels), isVersion)
	}
	return release, levels
}

// notice says which level was chosen where nobody did, why, and who reads it; "" if there is nothing to say.
func notice(p *format.Plan) string {
	if !p.DefaultVersion || len(p.Format) == 0 {
		return ""
	}
	why := "a cluster id is known, and this is the newest level that released Apache Kafka reads; Apache Kafka " + features.LatestKafka.Release() + " is the first that does"
	switch {
	case p.MetadataVersion.SupportsClusterID():
		why = "no cluster id is known, and this is the first level at which a cluster gives itself one; release " + p.MetadataVersion.Release() +
			" is the first that reads it, no released Apache Kafka does, and there is no way back from it"
	case !p.MetadataVersion.Production():
		why = "a cluster id is known, and with unstable.feature.versions.enable this is the newest level that Apache Kafka " + features.LatestKafka.Release() + " reads"
	}
	return fmt.Sprintf("Using metadata.version %s: %s. --release-version chooses another.", p.MetadataVersion, why)
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
	if len(records) == 0 {
		records = []string{"none, it is in the metadata directory of the controllers"}
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
	MetadataVersion   *string           `json:"metadataVersion"`
	Notice            string            `json:"notice,omitempty"`
	KRaftVersion      int16             `json:"kraftVersion"`
	Features          []cli.Level       `json:"features"`
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
		Notice: notice(p), KRaftVersion: p.KRaftVersion, Features: cli.Levels(p.Features),
		Users: []user{}, Voters: voters(p.Voters), Formatted: []formatDirectory{},
		AlreadyFormatted: append([]string{}, p.Formatted...), Skipped: []string{},
	}
	if len(p.Format) > 0 {
		r.MetadataVersion = optional(p.MetadataVersion.String())
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
