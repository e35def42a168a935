package main

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"kstorage/format"
	"kstorage/internal/cli"
	"kstorage/internal/client"
	"kstorage/internal/config"
	"kstorage/internal/kafkaid"
)

// changedController is the JSON document of add-controller and remove-controller.
type changedController struct {
	cli.Document
	NodeID       int32    `json:"nodeId"`
	DirectoryID  string   `json:"directoryId"`
	Endpoints    []string `json:"endpoints,omitempty"`
	DryRun       bool     `json:"dryRun"`
	Unregistered *bool    `json:"unregistered,omitempty"` // if --unregister was given
}

func (s *session) addController(ctx *urfave.Context) error {
	option := "config"
	if ctx.String(option) == "" || !s.typed(option) && s.typed("command-config") {
		option = "command-config" // as in Kafka's tool; what was typed counts more than a variable
	}
	if ctx.String(option) == "" {
		return quorumUsage("add-controller needs the option --config (or KSTORAGE_CONFIG) with the configuration of the controller that is to be added")
	}
	conf, err := s.controllerConfig(ctx, option)
	if err != nil {
		return err
	}
	localHostName := s.world.LocalHostName
	if localHostName == nil {
		localHostName = format.LocalHostName
	}
	controller, err := client.ReadController(conf, localHostName)
	if err != nil {
		return err
	}
	cluster, err := s.cluster(ctx, option == "command-config")
	if err != nil {
		return err
	}
	defer cluster.Close()
	document := changedController{
		Document: s.out.Document(), NodeID: controller.NodeID, DirectoryID: kafkaid.String(controller.DirectoryID),
		Endpoints: endpoints(controller.Endpoints), DryRun: ctx.Bool("dry-run"),
	}
	if !document.DryRun {
		if err := cluster.AddController(context.Background(), controller); err != nil {
			return err
		}
	}
	return s.out.Result(document, controller.AddedText(document.DryRun))
}

func (s *session) removeController(ctx *urfave.Context) error {
	var missing []string
	for _, option := range []string{"controller-id", "controller-directory-id"} {
		if ctx.String(option) == "" {
			missing = append(missing, "--"+option)
		}
	}
	if len(missing) > 0 {
		return quorumUsage("remove-controller needs %s", strings.Join(missing, " and "))
	}
	nodeID, err := strconv.ParseInt(ctx.String("controller-id"), 10, 32)
	if err != nil || nodeID < 0 {
		return quorumUsage("the value of the option %s is no id of a node, a number from 0 to %d: %q", s.from("controller-id"), math.MaxInt32, ctx.String("controller-id"))
	}
	directoryID, err := kafkaid.Parse(ctx.String("controller-directory-id"))
	if err != nil {
		return quorumUsage("the value of the option %s is no directory id: %v", s.from("controller-directory-id"), err)
	}
	cluster, err := s.cluster(ctx, false)
	if err != nil {
		return err
	}
	defer cluster.Close()
	document := changedController{NodeID: int32(nodeID), DirectoryID: kafkaid.String(directoryID), DryRun: ctx.Bool("dry-run")}
	if !document.DryRun {
		if err := cluster.RemoveController(context.Background(), document.NodeID, directoryID); err != nil {
			return err
		}
	}
	text := client.RemovedText(document.NodeID, directoryID, document.DryRun)
	if ctx.Bool("unregister") {
		if !document.DryRun {
			err = cluster.UnregisterController(context.Background(), document.NodeID)
		}
		unregistered := err == nil && !document.DryRun
		document.Unregistered = &unregistered
		if err == nil {
			text += client.UnregisteredText(document.NodeID, document.DryRun)
		}
	}
	document.Document = s.out.Document()
	return errors.Join(s.out.Result(document, text), err)
}

// controllerConfig reads the configuration of a controller that one of the options names.
func (s *session) controllerConfig(ctx *urfave.Context, option string) (*config.Config, error) {
	if option == "config" {
		return s.config(ctx)
	}
	conf, err := config.Load(ctx.String(option), s.world.Env)
	if err != nil {
		return nil, s.explain(err)
	}
	for _, w := range conf.Warnings {
		s.out.Warn(w.String())
	}
	return conf, nil
}
