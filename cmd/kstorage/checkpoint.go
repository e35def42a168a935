package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"kstorage/checkpoint"
	"kstorage/internal/cli"
	"kstorage/internal/disk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

// oldBootstrap is what a bootstrap.checkpoint says, in a JSON document.
type oldBootstrap struct {
	Path     string      `json:"path"`
	Features []cli.Level `json:"features"`
	Records  int         `json:"records"`
}

// zeroCheckpoint is what a zero checkpoint says, in a JSON document.
type zeroCheckpoint struct {
	Path              string      `json:"path"`
	KRaftVersion      int16       `json:"kraftVersion"`
	Voters            []voter     `json:"voters"`
	Features          []cli.Level `json:"features"`
	ClusterIDProposal *string     `json:"clusterIdProposal"`
	Records           int         `json:"records"`
}

type voter struct {
	NodeID      int32      `json:"nodeId"`
	DirectoryID string     `json:"directoryId"`
	Endpoints   []endpoint `json:"endpoints"`
}

type endpoint struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port uint16 `json:"port"`
}

func voters(from []checkpoint.Voter) []voter {
	out := []voter{}
	for _, v := range from {
		endpoints := []endpoint{}
		for _, e := range v.Endpoints {
			endpoints = append(endpoints, endpoint(e))
		}
		out = append(out, voter{v.NodeID, kafkaid.String(v.DirectoryID), endpoints})
	}
	return out
}

// readZeroCheckpoint reads the zero checkpoint of a formatted metadata directory to its end. Both results are nil where
// there is none, as on brokers. Errors: *checkpoint.CorruptError, those of the file.
func readZeroCheckpoint(e metaprops.Ensemble) (*zeroCheckpoint, error) {
	path := disk.Join(disk.Join(e.MetadataDir, checkpoint.MetadataDir), checkpoint.ID{}.String())
	b, err := readBootstrap(e, path)
	if b == nil {
		return nil, err
	}
	return &zeroCheckpoint{Path: path, KRaftVersion: b.Header.KRaftVersion, Voters: voters(b.Header.Voters), Features: bootstrapLevels(b),
		ClusterIDProposal: optional(b.ClusterID), Records: b.Records}, nil
}

// readOldBootstrap is readZeroCheckpoint for the bootstrap.checkpoint there, which servers before 4.4 read.
func readOldBootstrap(e metaprops.Ensemble) (*oldBootstrap, error) {
	path := disk.Join(e.MetadataDir, checkpoint.BootstrapName)
	b, err := readBootstrap(e, path)
	if b == nil {
		return nil, err
	}
	return &oldBootstrap{path, bootstrapLevels(b), b.Records}, nil
}

func readBootstrap(e metaprops.Ensemble, path string) (*checkpoint.Bootstrap, error) {
	i := slices.IndexFunc(e.Dirs, func(d metaprops.Dir) bool { return d.Path == e.MetadataDir && d.State == metaprops.Formatted })
	if i < 0 {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &cli.Problem{What: fmt.Sprintf("cannot read %s: %s", path, disk.Reason(err))}
	}
	defer f.Close()
	b, err := checkpoint.ReadBootstrap(f, path)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

func bootstrapLevels(b *checkpoint.Bootstrap) []cli.Level {
	out := []cli.Level{}
	for _, f := range b.Features {
		out = append(out, cli.Level(f))
	}
	return out
}
