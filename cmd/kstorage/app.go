package main

import (
	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
)

const program = "kstorage"

// own is the category of commands and options that kafka-storage does not have.
const own = "Beyond kafka-storage"

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
		return s.out.Fail(err)
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

func (s *session) grammar() *cli.Grammar {
	app := &urfave.App{
		Name:      program,
		Usage:     "kstorage formats the log directories of an Apache Kafka node, shows what is in them, and runs a node of its own.",
		UsageText: "kstorage COMMAND [OPTIONS]",
		Description: `Each command has a help text of its own: kstorage COMMAND --help. An option that is
not given takes its value from the environment variable named beside it.

Example:
  kstorage format --config server.properties --standalone
  kstorage info --config server.properties`,
		Commands: []*urfave.Command{
			s.infoCommand(),
			s.formatCommand(),
			s.startCommand(),
			s.versionMappingCommand(),
			s.featureDependenciesCommand(),
			s.randomUUIDCommand(),
			s.dumpCommand(),
			s.quorumCommand(),
			s.completionCommand(),
			s.versionCommand(),
		},
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true, // SCRAM arguments have commas
		Writer:                    s.world.Stdout,
		ErrWriter:                 s.world.Stderr,
		ExitErrHandler:            func(*urfave.Context, error) {}, // run prints errors
	}
	return &cli.Grammar{
		App:           app,
		EnvPrefix:     "KSTORAGE_",
		ArgumentFiles: true,
		Exclusive:     [][]string{{"standalone", "no-initial-controllers", "initial-controllers"}, {"bootstrap-server", "bootstrap-controller"}, {"status", "replication"}},
		EmptyCounts:   []string{"cluster-id"},
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

func configFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "config", Aliases: []string{"c"}, Required: true, Usage: "The configuration `FILE` of the node, its server.properties."}
}

func releaseFlag(usage string) urfave.Flag {
	return &urfave.StringFlag{Name: "release-version", Aliases: []string{"r"}, Usage: usage}
}

func featureFlag(usage string, required bool) urfave.Flag {
	return &urfave.StringSliceFlag{Name: "feature", Aliases: []string{"f"}, Required: required, Usage: usage}
}
