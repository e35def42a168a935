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
	i := slices.IndexFunc(e.Dirs, func(d metaprops.Dir) bool { return d.Path == e.MetadataDir && d.State == metaprops.Formatted })
	if i < 0 {
		return nil, nil
	}
	path := disk.Join(disk.Join(e.MetadataDir, checkpoint.MetadataDir), checkpoint.ID{}.String())
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
	z := &zeroCheckpoint{Path: path, KRaftVersion: b.Header.KRaftVersion, Voters: voters(b.Header.Voters), Features: []cli.Level{},
		ClusterIDProposal: optional(b.ClusterID), Records: b.Records}
	for _, f := range b.Features {
		z.Features = append(z.Features, cli.Level(f))
	}
	return z, nil
}
