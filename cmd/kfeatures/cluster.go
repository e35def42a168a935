package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
	"kstorage/internal/client"
	"kstorage/internal/client/admin"
	"kstorage/internal/kafkaid"
)

// cluster is the cluster that the options mean, and the time that the command has.
func (s *session) cluster(ctx *urfave.Context) (*admin.Cluster, context.Context, context.CancelFunc, error) {
	options := admin.Options{Controllers: ctx.String(bootstrapController) != "", Settings: admin.DefaultSettings(), Software: version, Tell: s.out.Note}
	option := bootstrapServer
	if options.Controllers {
		option = bootstrapController
	}
	if ctx.String(option) == "" {
		return nil, nil, nil, &cli.Problem{
			Verbatim: true,
			What:     "Command line error: You must specify either --bootstrap-controller or --bootstrap-server.. Type --help for help.",
			Fix:      fmt.Sprintf("in front of the command: %s --%s localhost:9092 %s", program, bootstrapServer, ctx.Command.Name),
		}
	}
	var errs [4]error
	options.Bootstrap, errs[0] = client.ParseBootstrap(ctx.String(option), s.from(option))
	if ctx.IsSet(commandConfig) {
		path := ctx.String(commandConfig)
		var unknown []string
		options.Settings, unknown, errs[1] = admin.ReadSettings(path)
		if len(unknown) > 0 {
			s.out.Warn(fmt.Sprintf("%s: no setting of a client, and without effect: %s", path, strings.Join(unknown, ", ")))
		}
	}
	if text := ctx.String(timeout); text != "" {
		var err error
		options.Settings.Timeout, err = time.ParseDuration(text)
		if err != nil || options.Settings.Timeout <= 0 {
			errs[2] = usage(ctx.Command.Name, "the value of the option %s is no duration such as 30s or 1m30s: %q", s.from(timeout), text)
		}
	}
	options.InstanceID, errs[3] = kafkaid.New(s.world.Random)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, nil, nil, s.explain(err)
	}
	limited, cancel := context.WithTimeout(context.Background(), options.Settings.Timeout)
	return admin.NewCluster(options), limited, cancel, nil
}
