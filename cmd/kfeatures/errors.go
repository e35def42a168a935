package main

import (
	"errors"
	"fmt"

	"kstorage/features"
	"kstorage/internal/cli"
	"kstorage/internal/client"
)

// explainUsage turns an option behind the command that belongs in front of it into Kafka's sentence, and says where it belongs:
// many guides have it behind.
func explainUsage(g *cli.Grammar, err error) error {
	var usage *cli.UsageError
	if !errors.As(err, &usage) || usage.Command == "" {
		return err
	}
	for _, f := range g.App.Flags {
		option := "--" + f.Names()[0]
		if usage.Unrecognized == option {
			return &cli.Problem{
				Verbatim: true,
				What:     fmt.Sprintf("Command line error: unrecognized arguments: '%s'. Type --help for help.", option),
				Fix:      fmt.Sprintf("%s belongs in front of the command: %s %s … %s", option, program, option, usage.Command),
			}
		}
	}
	return err
}

func usage(command, format string, args ...any) error {
	return &cli.UsageError{Command: command, Reason: fmt.Sprintf(format, args...)}
}

// explain turns the errors of the packages into what a person reads.
func (s *session) explain(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, s.explain(e))
		}
		return errors.Join(out...)
	}
	switch e := err.(type) {
	case *client.Error:
		return &cli.Problem{What: e.What, Where: e.Where, Fix: e.Fix}
	case *features.UnknownVersionError:
		option := "--" + releaseVersion
		if s.ctx.IsSet(metadata) {
			option = "--" + metadata
		} else if s.ctx.IsSet(releaseVersion) {
			option = s.from(releaseVersion)
		}
		return &cli.Problem{Verbatim: true, What: e.Error(), Where: option}
	case *features.UnsupportedFeatureError:
		return &cli.Problem{Verbatim: true, What: e.Error(), Where: "--" + feature}
	case *features.SyntaxError, *features.UnknownLevelError:
		return &cli.Problem{What: e.Error(), Where: "--" + feature}
	}
	return err
}
