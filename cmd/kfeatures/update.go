package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/features"
	"kstorage/internal/cli"
	"kstorage/internal/client"
	"kstorage/internal/client/admin"
)

// operation is a kind of change, in its words.
type operation struct {
	verb, done string
	level      bool // says to which level
}

// changed is how a level is named: share.version to 2.
func (o operation) changed(l features.Level, between string) string {
	text := l.Name + between
	if o.level {
		text += fmt.Sprintf(" to %d", l.Level)
	}
	return text
}

// line is the line of a level. What each begins with, scripts know from Kafka.
func (o operation) line(l features.Level, dry bool, refused error) string {
	could, did := "Could", "was"
	if dry {
		could, did = "Can", "can be"
	}
	if refused != nil {
		return fmt.Sprintf("%s not %s %s. %s\n", could, o.verb, o.changed(l, ""), refused)
	}
	return o.changed(l, fmt.Sprintf(" %s %s", did, o.done)) + ".\n"
}

// errNoNode is what Kafka's lines say where no node answers.
//
//lint:ignore ST1005 scripts know the sentence
var errNoNode = errors.New("Timed out waiting for a node assignment. Call: updateFeatures")

// update changes levels, which levels returns.
func (s *session) update(ctx *urfave.Context, o operation, levels func() ([]features.Level, error)) error {
	cluster, limited, cancel, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	defer cluster.Close()
	wanted, err := levels()
	if err != nil {
		return s.explain(err)
	}
	slices.SortFunc(wanted, func(a, b features.Level) int { return strings.Compare(a.Name, b.Name) })
	t := admin.Upgrade
	switch {
	case o.verb != upgraded.verb && ctx.Bool(unsafe):
		t = admin.UnsafeDowngrade
	case o.verb != upgraded.verb:
		t = admin.SafeDowngrade
	}
	refused, err := cluster.Update(limited, wanted, t, ctx.Bool(dryRun))
	if err != nil {
		refused = slices.Repeat([]error{lineReason(err)}, len(wanted))
	}
	var out strings.Builder
	failed := 0
	for i, l := range wanted {
		out.WriteString(o.line(l, ctx.Bool(dryRun), refused[i]))
		if refused[i] != nil {
			failed++
		}
	}
	if failed > 0 {
		total := &cli.Problem{Verbatim: true, What: fmt.Sprintf("%d out of %d operation(s) failed.", failed, len(wanted))}
		return errors.Join(s.out.Result(s.updateDocument(ctx, o, wanted, refused, nil), out.String()), total, s.explain(err))
	}
	if !ctx.Bool(wait) {
		return s.out.Result(s.updateDocument(ctx, o, wanted, refused, nil), out.String())
	}
	return s.wait(ctx, limited, cluster, o, wanted, out.String())
}

// lineReason is why nothing was decided, as it stands in the line of each level.
func lineReason(err error) error {
	if errors.Is(err, admin.ErrNoNode) {
		return errNoNode
	}
	var e *client.Error
	if errors.As(err, &e) {
		return errors.New(strings.ReplaceAll(e.Error(), "\n", "; "))
	}
	return err
}

// wait ends a change when every node reports it. What was done is told before.
func (s *session) wait(ctx *urfave.Context, limited context.Context, cluster *admin.Cluster, o operation, wanted []features.Level, lines string) error {
	var err error
	if !s.out.JSON {
		err = s.out.Result(nil, lines)
	}
	nodes, waitErr := cluster.Wait(limited, wanted)
	if waitErr != nil {
		s.out.Note("The levels are changed, but not every node has been seen to report them.")
	}
	refused := make([]error, len(wanted))
	if s.out.JSON {
		if waitErr != nil {
			nodes = nil
		}
		err = s.out.Result(s.updateDocument(ctx, o, wanted, refused, nodes), "")
	} else if waitErr == nil {
		err = errors.Join(err, s.out.Result(nil, reportedText(nodes)))
	}
	return errors.Join(err, s.explain(waitErr))
}

func reportedText(nodes []admin.Node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, fmt.Sprintf("%d at %s", n.ID, n.Address))
	}
	return "Reported by every node: " + strings.Join(names, ", ") + ".\n"
}

func (s *session) updateDocument(ctx *urfave.Context, o operation, wanted []features.Level, refused []error, nodes []admin.Node) any {
	type row struct {
		Name  string `json:"name"`
		Level int16  `json:"level"`
		Error string `json:"error,omitempty"`
	}
	type node struct {
		NodeID  int32  `json:"nodeId"`
		Address string `json:"address"`
	}
	rows := []row{}
	for i, l := range wanted {
		r := row{Name: l.Name, Level: l.Level}
		if refused[i] != nil {
			r.Error = refused[i].Error()
		}
		rows = append(rows, r)
	}
	var reported []node
	for _, n := range nodes {
		reported = append(reported, node{n.ID, n.Address})
	}
	return struct {
		cli.Document
		Operation string `json:"operation"`
		DryRun    bool   `json:"dryRun"`
		Features  []row  `json:"features"`
		Nodes     []node `json:"reportedBy,omitempty"` // all nodes, if they were waited for
	}{s.out.Document(), o.verb, ctx.Bool(dryRun), rows, reported}
}

// levelOptions are the options that say to which levels a command moves.
func levelOptions(to string, more ...urfave.Flag) []urfave.Flag {
	return append([]urfave.Flag{
		text(releaseVersion, "The `RELEASE` or metadata.version whose levels all features get; version-mapping shows them."),
		&urfave.StringSliceFlag{Name: feature, Usage: "A `FEATURE=LEVEL` to " + to + "."},
		text(metadata, "The `RELEASE` whose metadata.version is meant. Deprecated: --release-version takes its place."),
		onOff(dryRun, "Ask the cluster whether it could be done, and change nothing."),
	}, more...)
}

// levels are those that --release-version, or --metadata and --feature, mean. A release leaves out features that it has off
// if skipOff is set.
func (s *session) levels(ctx *urfave.Context, o operation, skipOff bool) ([]features.Level, error) {
	if ctx.IsSet(releaseVersion) {
		if ctx.IsSet(metadata) || ctx.IsSet(feature) {
			return nil, usage(o.verb, "the option --%s is not allowed with --%s or --%s", releaseVersion, feature, metadata)
		}
		v, err := features.ParseVersion(ctx.String(releaseVersion), true)
		if err != nil {
			return nil, err
		}
		off := func(l features.Level) bool { return skipOff && l.Level == 0 }
		return slices.DeleteFunc(features.Mapping(v), off), nil
	}
	var out []features.Level
	var errs []error
	if ctx.IsSet(metadata) {
		if err := s.deprecated(); err != nil {
			return nil, err
		}
		v, err := features.ParseVersion(ctx.String(metadata), true)
		if err != nil {
			return nil, err
		}
		out = append(out, features.Level{Name: features.MetadataVersionName, Level: int16(v)})
	}
	for _, arg := range ctx.StringSlice(feature) {
		l, err := features.ParseLevel(arg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, l)
	}
	if len(out) == 0 && len(errs) == 0 {
		return nil, usage(o.verb, "nothing to %s: --%s or --%s is required", o.verb, releaseVersion, feature)
	}
	return out, errors.Join(append(errs, checkNames(o, out))...)
}

// deprecated tells of --metadata as Kafka does: on stdout, with a blank in front.
func (s *session) deprecated() error {
	const line = " `metadata` flag is deprecated and may be removed in a future release."
	if s.out.JSON {
		s.out.Warn(strings.TrimSpace(line))
		return nil
	}
	return s.out.Result(nil, line+"\n")
}

// checkNames refuses what no cluster could take.
func checkNames(o operation, levels []features.Level) error {
	var errs []error
	seen := map[string]bool{}
	for _, l := range levels {
		switch {
		case l.Name == "":
			errs = append(errs, usage(o.verb, "the option --%s has no name of a feature", feature))
		case seen[l.Name]:
			errs = append(errs, usage(o.verb, "the feature %s is given twice", l.Name))
		case l.Level < 0:
			errs = append(errs, usage(o.verb, "%v: a level is not negative", l))
		case l.Level == 0 && o.verb == upgraded.verb:
			errs = append(errs, &cli.UsageError{Command: o.verb, Reason: fmt.Sprintf("%v: level 0 is that of a feature that is off", l), Hint: "downgrade or disable turns it off"})
		}
		seen[l.Name] = true
	}
	return errors.Join(errs...)
}
