package main

import (
	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
)

const program = "kfeatures"

// own is the category of commands and options that kafka-features does not have.
const own = "Beyond kafka-features"

// session is one call of the program.
type session struct {
	world cli.World
	out   *cli.Output
	args  cli.Args
	ctx   *urfave.Context // of the command that runs
}

// action is a command behind the parsing of its options.
type action func(*session, *urfave.Context) error

// run executes the command that args name and returns the exit code.
func run(args []string, world cli.World) int {
	s := &session{world: world, out: cli.NewOutput(world, program)}
	grammar := s.grammar()
	canonical, err := grammar.Canonical(args, world.Env)
	if err != nil {
		s.out.JSON = canonical.JSON
		return s.out.Fail(explainUsage(grammar, err))
	}
	s.args = canonical
	if canonical.Help {
		return s.end(s.out.Result(nil, grammar.Help(canonical.Command)))
	}
	return s.end(grammar.App.Run(append([]string{program}, canonical.Argv...)))
}

func (s *session) end(err error) int {
	if err != nil {
		return s.out.Fail(err)
	}
	return 0
}

// Names of options.
const (
	bootstrapServer     = "bootstrap-server"
	bootstrapController = "bootstrap-controller"
	commandConfig       = "command-config"
	nodeID              = "node-id"
	feature             = "feature"
	metadata            = "metadata"
	releaseVersion      = "release-version"
	unsafe              = "unsafe"
	dryRun              = "dry-run"
	wait                = "wait"
	timeout             = "timeout"
)

func (s *session) grammar() *cli.Grammar {
	app := &urfave.App{
		Name:      program,
		Usage:     "kfeatures shows which feature levels an Apache Kafka cluster has, and changes them.",
		UsageText: "kfeatures --bootstrap-server ADDRESSES COMMAND [OPTIONS]",
		Flags: []urfave.Flag{
			text(bootstrapServer, "The `ADDRESSES` of brokers, host:port with commas between them; they are tried in this order."),
			text(bootstrapController, "The `ADDRESSES` of controllers, in place of brokers. Each command that asks the cluster needs one of both."),
			text(commandConfig, "The properties `FILE` of a Kafka client: TLS, SASL, timeouts."),
		},
		Description: `Each command has a help text of its own: kfeatures COMMAND --help. An option that is
not given takes its value from the environment variable named beside it.

The file for --command-config is that of a Java client. It may have security.protocol
(PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL), sasl.mechanism (PLAIN, SCRAM-SHA-256,
SCRAM-SHA-512) with sasl.jaas.config, ssl.truststore.* and ssl.keystore.* (PEM, JKS,
PKCS12), request.timeout.ms, default.api.timeout.ms.

Example:
  kfeatures --bootstrap-server localhost:9092 describe
  kfeatures --bootstrap-controller localhost:9093 upgrade --release-version 4.4 --wait`,
		Commands: []*urfave.Command{
			s.describeCommand(),
			s.upgradeCommand(),
			s.downgradeCommand(),
			s.disableCommand(),
			s.versionMappingCommand(),
			s.featureDependenciesCommand(),
			s.completionCommand(),
			s.versionCommand(),
		},
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true, // a comma in a feature is a mistake to be told of
		Writer:                    s.world.Stdout,
		ErrWriter:                 s.world.Stderr,
		ExitErrHandler:            func(*urfave.Context, error) {}, // run prints errors
	}
	return &cli.Grammar{
		App:       app,
		EnvPrefix: "KFEATURES_",
		Exclusive: [][]string{{bootstrapServer, bootstrapController}, {dryRun, wait}},
		// What a command changes is never in the environment.
		ArgumentsOnly: map[string][]string{
			"upgrade":              {feature, metadata, releaseVersion},
			"downgrade":            {feature, metadata, releaseVersion, unsafe},
			"disable":              {feature, unsafe},
			"feature-dependencies": {feature},
		},
	}
}

// command completes c: its action, and the options that all commands have.
func (s *session) command(c *urfave.Command, run action) *urfave.Command {
	c.Flags = append(c.Flags, &urfave.BoolFlag{Name: "json", Category: own, Usage: "Print one JSON document instead of text."})
	c.HideHelp = true
	c.Action = func(ctx *urfave.Context) error {
		s.ctx, s.out.JSON = ctx, ctx.Bool("json")
		return run(s, ctx)
	}
	return c
}

// from says where the value of an option came from: the option, or the variable that stood in for it.
func (s *session) from(option string) string {
	if variable := s.args.FromEnv[option]; variable != "" {
		return variable
	}
	return "--" + option
}

func text(name, usage string) urfave.Flag { return &urfave.StringFlag{Name: name, Usage: usage} }

func onOff(name, usage string) urfave.Flag { return &urfave.BoolFlag{Name: name, Usage: usage} }

func timeoutFlag() urfave.Flag {
	return &urfave.StringFlag{Name: timeout, Category: own, Usage: "How long all of it may take, a `DURATION` such as 30s. If it is not given: default.api.timeout.ms of the client, 1m0s."}
}
