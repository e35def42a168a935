package main

import (
	"fmt"
	"io"

	"kstorage/checkpoint"
	"kstorage/internal/kafkaid"
	"kstorage/internal/record"
)

// zeroCheckpoint is what a zero checkpoint says, in a JSON document.
type zeroCheckpoint struct {
	Path              string  `json:"path"`
	KRaftVersion      int16   `json:"kraftVersion"`
	Voters            []voter `json:"voters"`
	Features          []level `json:"features"`
	ClusterIDProposal *string `json:"clusterIdProposal"`
	Records           int     `json:"records"`
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

// decodeZeroCheckpoint reads a zero checkpoint to its end.
func decodeZeroCheckpoint(r io.Reader, path string) (*zeroCheckpoint, error) {
	in, err := checkpoint.NewReader(r, path)
	if err != nil {
		return nil, err
	}
	z := &zeroCheckpoint{Path: path, KRaftVersion: in.Header.KRaftVersion, Voters: voters(in.Header.Voters), Features: []level{}}
	for raw, err := range in.Records() {
		if err != nil {
			return nil, err
		}
		z.Records++
		rec, err := record.Decode(raw.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", path, raw.Offset, err)
		}
		switch rec.Message {
		case record.FeatureLevel:
			z.Features = append(z.Features, level{rec.Text("Name"), int16(rec.Int("FeatureLevel"))})
		case record.ClusterID:
			id := rec.Text("ClusterId")
			z.ClusterIDProposal = &id
		}
	}
	return z, nil
}
