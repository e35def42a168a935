//go:build bench && linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"kstorage/features"
)

var describeRounds = []rounds{{ours, 49}, {kafka, 7}} // they take turns

func measureDescribe(l *lab) ([]*figure, error) {
	f := &figure{name: "description of the features", unit: "ms", rivals: []rival{{kafka, 100}}}
	nodes, err := l.newCluster(kafka, 1)
	if err != nil {
		return nil, err
	}
	defer removeAll(nodes)
	if err := nodes[0].start(); err != nil {
		return nil, err
	}
	if err := nodes[0].untilActive(); err != nil {
		return nil, err
	}
	once := func(s system) (time.Duration, error) {
		command := l.features[s]("--bootstrap-controller", nodes[0].address, "describe")
		var complaint bytes.Buffer
		command.Stderr = &complaint
		began := time.Now()
		out, err := command.Output()
		took := time.Since(began)
		if err == nil && !strings.Contains(string(out), "Feature: "+features.MetadataVersionName+" ") {
			err = errors.New("it does not describe metadata.version")
		}
		if err != nil {
			return 0, fmt.Errorf("%q: %w\n%s%s", command.Args, err, out, &complaint)
		}
		return took, nil
	}
	return []*figure{f}, f.inTurn(describeRounds, once)
}
