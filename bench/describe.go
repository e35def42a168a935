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

var describeRounds = [2]int{ours: 49, theirs: 7} // they take turns

func measureDescribe(l *lab) ([]*figure, error) {
	f := &figure{name: "description of the features", unit: "ms", target: 100}
	nodes, err := l.newCluster(theirs, 1)
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
	once := func(program int) (time.Duration, error) {
		command := l.features[program]("--bootstrap-controller", nodes[0].address, "describe")
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
	for i := range describeRounds[ours] + 1 {
		for program, rounds := range describeRounds {
			if i > 0 && (i-1)%(describeRounds[ours]/rounds) != 0 {
				continue
			}
			took, err := once(program)
			if err != nil {
				return nil, err
			}
			if i > 0 { // the first time the files are read from the disk, and the server has not answered any
				f.add(program, milliseconds(took))
			}
		}
	}
	return []*figure{f}, nil
}
