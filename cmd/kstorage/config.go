package main

import (
	"errors"
	"fmt"
	"math"

	urfave "github.com/urfave/cli/v2"

	"kstorage/checkpoint"
	"kstorage/internal/cli"
	"kstorage/internal/config"
)

// config reads the configuration that --config names and passes its warnings on.
func (s *session) config(ctx *urfave.Context, overrides ...string) (*config.Config, error) {
	conf, err := config.Load(ctx.String("config"), s.world.Env, overrides...)
	if unreadable := (*config.Error)(nil); errors.As(err, &unreadable) && unreadable.Line == 0 && unreadable.Key == "" {
		where := "--config " + ctx.String("config")
		if variable := s.args.FromEnv["config"]; variable != "" {
			where += " (from " + variable + ")"
		}
		return nil, &cli.Problem{What: unreadable.Reason, Where: where, Fix: unreadable.Fix}
	}
	if err != nil {
		return nil, s.explain(err)
	}
	for _, w := range conf.Warnings {
		s.out.Warn(w.String())
	}
	return conf, nil
}

// nodeIDFrom says where the node id stands, for errors about it.
func nodeIDFrom(conf *config.Config) string {
	key := "node.id"
	if !conf.Has(key) {
		key = "broker.id"
	}
	return fmt.Sprintf("%s (%s)", key, conf.Source(key))
}

// controllerEndpoint is what a controller advertises under the first controller listener. A port that
// is none, which Kafka's configuration takes, becomes 0.
func controllerEndpoint(conf *config.Config) checkpoint.Endpoint {
	e := checkpoint.Endpoint{Name: conf.ControllerListenerNames[0]}
	if conf.IsController {
		l := conf.AdvertisedControllerListeners[0]
		e.Host = l.Host
		if l.Port >= 0 && l.Port <= math.MaxUint16 {
			e.Port = uint16(l.Port)
		}
	}
	return e
}
