package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
	"kstorage/internal/client"
	"kstorage/internal/kafkaid"
)

func (s *session) quorumCommand() *urfave.Command {
	text := func(name, usage string, aliases ...string) urfave.Flag {
		return &urfave.StringFlag{Name: name, Aliases: aliases, Usage: usage}
	}
	onOff := func(name, usage string) urfave.Flag { return &urfave.BoolFlag{Name: name, Usage: usage} }
	return s.command(&urfave.Command{
		Name: "quorum", Category: own, Args: true,
		Usage:     "Describe the quorum of a running cluster, add a controller to it or remove one.",
		UsageText: "kstorage quorum --bootstrap-controller HOST:PORT describe|add-controller|remove-controller",
		Flags: []urfave.Flag{
			text("bootstrap-controller", "The `ADDRESSES` of controllers, host:port with commas between them; they are tried in this order."),
			text("bootstrap-server", "The `ADDRESSES` of brokers, in place of controllers; they pass it on to the active controller."),
			text("command-config", "The configuration `FILE` of a Kafka client: timeouts, client id. For add-controller it is also the controller's, if --config is not given."),
			onOff("status", "describe: print a summary."),
			onOff("replication", "describe: print a table of the nodes that have the metadata log."),
			onOff("human-readable", "describe --replication: print how long ago it was in place of timestamps."),
			text("controller-id", "remove-controller: the `ID` of the controller.", "i"),
			text("controller-directory-id", "remove-controller: the `ID` of its metadata directory.", "d"),
			onOff("unregister", "remove-controller: let the cluster also forget the registration of the controller."),
			onOff("dry-run", "add-controller, remove-controller: print what would be done."),
			&urfave.StringFlag{Name: "config", Aliases: []string{"c"}, Category: own, Usage: "add-controller: the configuration `FILE` of the controller, its server.properties."},
			&urfave.StringFlag{Name: "timeout", Category: own, Usage: "How long all of it may take, a `DURATION` such as 30s. If it is not given: default.api.timeout.ms of the client, 1m0s."},
		},
		Description: `It takes the place of kafka-metadata-quorum. Options stand before or behind the action.

describe asks the leader for the state of the quorum, with --status or --replication.
add-controller makes a controller that runs and follows the quorum a voter. It has to run on the
machine of the controller, whose metadata directory it reads.
remove-controller makes a voter an observer; stop it afterwards.

The connection is not encrypted and nobody logs in: TLS and SASL are not supported yet.

Example:
  kstorage quorum --bootstrap-controller localhost:9093 describe --status
  kstorage quorum --bootstrap-controller localhost:9093 add-controller --config server.properties`,
	}, (*session).quorum)
}

// quorumAction is a word behind quorum.
type quorumAction struct {
	name    string
	options []string // those that belong to it alone or to some actions
	run     func(*session, *urfave.Context) error
}

var quorumActions = []quorumAction{
	{"describe", []string{"status", "replication", "human-readable"}, (*session).describeQuorum},
	{"add-controller", []string{"config", "dry-run"}, (*session).addController},
	{"remove-controller", []string{"controller-id", "controller-directory-id", "unregister", "dry-run"}, (*session).removeController},
}

func quorumUsage(format string, args ...any) error {
	return &cli.UsageError{Command: "quorum", Reason: fmt.Sprintf(format, args...)}
}

func (s *session) quorum(ctx *urfave.Context) error {
	var names []string
	var found []quorumAction
	for _, a := range quorumActions {
		names = append(names, a.name)
		if word := ctx.Args().First(); word != "" && strings.HasPrefix(a.name, word) {
			found = append(found, a)
		}
	}
	switch {
	case ctx.NArg() == 0:
		return quorumUsage("no action given; the actions are %s", strings.Join(names, ", "))
	case len(found) != 1:
		return quorumUsage("there is no action %q; the actions are %s", ctx.Args().First(), strings.Join(names, ", "))
	case ctx.NArg() > 1:
		return quorumUsage("unrecognized arguments: %q", ctx.Args().Get(1))
	}
	action := found[0]
	for _, other := range quorumActions {
		for _, option := range other.options {
			if s.typed(option) && !slices.Contains(action.options, option) {
				return quorumUsage("the option --%s does not belong to %s", option, action.name)
			}
		}
	}
	if ctx.String("bootstrap-controller") == "" && ctx.String("bootstrap-server") == "" {
		return quorumUsage("the option --bootstrap-controller or --bootstrap-server is required (or KSTORAGE_BOOTSTRAP_CONTROLLER or KSTORAGE_BOOTSTRAP_SERVER)")
	}
	return s.explainClient(action.run(s, ctx))
}

// typed reports whether an option was given as an argument, not by a variable.
func (s *session) typed(option string) bool {
	return s.ctx.IsSet(option) && s.args.FromEnv[option] == ""
}

// explainClient turns the errors of package client into what a person reads.
func (s *session) explainClient(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, s.explainClient(e))
		}
		return errors.Join(out...)
	}
	if e, ok := err.(*client.Error); ok {
		return &cli.Problem{What: e.What, Where: e.Where, Fix: e.Fix}
	}
	return err
}

// cluster is the cluster that the options mean. quiet leaves out the warning about settings that no client knows.
func (s *session) cluster(ctx *urfave.Context, quiet bool) (*client.Cluster, error) {
	options := client.Options{Controllers: ctx.String("bootstrap-controller") != "", Settings: client.DefaultSettings(), Tell: s.out.Note}
	option := "bootstrap-server"
	if options.Controllers {
		option = "bootstrap-controller"
	}
	var errs [4]error
	options.Bootstrap, errs[0] = client.ParseBootstrap(ctx.String(option), s.from(option))
	if path := ctx.String("command-config"); path != "" {
		var unknown []string
		options.Settings, unknown, errs[1] = client.ReadSettings(path)
		if len(unknown) > 0 && !quiet {
			s.out.Warn(fmt.Sprintf("%s: no setting of a client, and without effect: %s", path, strings.Join(unknown, ", ")))
		}
	}
	if text := ctx.String("timeout"); text != "" {
		timeout, err := time.ParseDuration(text)
		if err != nil || timeout <= 0 {
			errs[2] = quorumUsage("the value of the option %s is no duration such as 30s or 1m30s: %q", s.from("timeout"), text)
		}
		options.Settings.Timeout = timeout
	}
	options.InstanceID, errs[3] = kafkaid.New(s.world.Random)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return client.NewCluster(options), nil
}
