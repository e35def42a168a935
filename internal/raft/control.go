package raft

import (
	"errors"
	"fmt"

	"kstorage/internal/record"
)

// ControlRecord is a record that raft itself writes and reads (KIP-595, KIP-630, KIP-853): one of the types below.
type ControlRecord interface{ record() record.Record }

type (
	// LeaderChange begins a leader's epoch.
	LeaderChange struct {
		LeaderID NodeID
		Voters   []NodeID
		Granting []NodeID // who voted for it
	}
	// KRaftVersion finalizes kraft.version.
	KRaftVersion struct{ Version int16 }
	// Voters is the whole voter set from here on.
	Voters struct{ Voters []Voter }
)

func (r LeaderChange) record() record.Record {
	// Version 0, though version 1 has directory ids: Kafka 4.4.0 never writes it.
	out := record.New(record.LeaderChange, 0)
	out.SetInt("LeaderId", int64(r.LeaderID))
	for _, list := range []struct {
		name string
		ids  []NodeID
	}{{"Voters", r.Voters}, {"GrantingVoters", r.Granting}} {
		for _, id := range list.ids {
			out.Add(list.name).SetInt("VoterId", int64(id))
		}
	}
	return out
}

func (r KRaftVersion) record() record.Record {
	out := record.New(record.KRaftVersion, 0)
	out.SetInt("KRaftVersion", int64(r.Version))
	return out
}

func (r Voters) record() record.Record {
	out := record.New(record.KRaftVoters, 0)
	for _, v := range r.Voters {
		voter := out.Add("Voters")
		voter.SetInt("VoterId", int64(v.Key.NodeID))
		voter.SetUUID("VoterDirectoryId", v.Key.DirectoryID)
		for _, e := range v.Endpoints {
			endpoint := voter.Add("Endpoints")
			endpoint.SetText("Name", e.Listener)
			endpoint.SetText("Host", e.Host)
			endpoint.SetInt("Port", int64(e.Port))
		}
		feature := voter.Struct("KRaftVersionFeature")
		feature.SetInt("MinSupportedVersion", int64(v.MinKRaftVersion))
		feature.SetInt("MaxSupportedVersion", int64(v.MaxKRaftVersion))
	}
	return out
}

// decodeControl reads a control record of a log. Snapshot headers and footers stand only in snapshots.
func decodeControl(key, value []byte) (ControlRecord, error) {
	r, err := record.DecodeControl(key, value)
	if err != nil {
		return nil, err
	}
	switch r.Message {
	case record.LeaderChange:
		return LeaderChange{
			LeaderID: NodeID(r.Int("LeaderId")),
			Voters:   voterIDs(r, "Voters"),
			Granting: voterIDs(r, "GrantingVoters"),
		}, nil
	case record.KRaftVersion:
		return KRaftVersion{int16(r.Int("KRaftVersion"))}, nil
	case record.KRaftVoters:
		return Voters{decodeVoters(r)}, nil
	default:
		return nil, fmt.Errorf("control record %s in a log", r.Message.Type)
	}
}

func voterIDs(r record.Record, name string) []NodeID {
	ids := []NodeID{}
	for _, row := range r.Structs(name) {
		ids = append(ids, NodeID(row.Int("VoterId")))
	}
	return ids
}

func decodeVoters(r record.Record) []Voter {
	voters := []Voter{}
	for _, row := range r.Structs("Voters") {
		feature := row.Struct("KRaftVersionFeature")
		v := Voter{
			Key:             ReplicaKey{NodeID(row.Int("VoterId")), row.UUID("VoterDirectoryId")},
			MinKRaftVersion: int16(feature.Int("MinSupportedVersion")),
			MaxKRaftVersion: int16(feature.Int("MaxSupportedVersion")),
		}
		for _, e := range row.Structs("Endpoints") {
			v.Endpoints = append(v.Endpoints, Endpoint{e.Text("Name"), e.Text("Host"), uint16(e.Int("Port"))})
		}
		voters = append(voters, v)
	}
	return voters
}

// Encode returns the bytes of a batch: its Bytes, or those of its control records, written at timestamp (milliseconds
// since the Unix epoch). Errors: a control record that doesn't fit its schema.
func (b Batch) Encode(timestamp int64) ([]byte, error) {
	if b.Bytes != nil {
		return b.Bytes, nil
	}
	var entries []record.Entry
	for _, r := range b.Control {
		e, err := record.ControlEntry(r.record())
		if err != nil {
			return nil, fmt.Errorf("encode the control record at offset %d: %w", b.BaseOffset+Offset(len(entries)), err)
		}
		entries = append(entries, e)
	}
	h := record.BatchHeader{
		BaseOffset:  int64(b.BaseOffset),
		LeaderEpoch: int32(b.Epoch),
		Timestamp:   timestamp,
		Control:     true,
	}
	return record.AppendBatch(nil, h, entries...), nil
}

// DecodeBatch reads the batch that data begins with, checks its checksum, and decodes its control records. The
// result's Bytes are a part of data.
func DecodeBatch(data []byte) (Batch, error) {
	b, err := record.DecodeBatch(data)
	if err != nil {
		return Batch{}, err
	}
	out := Batch{
		BaseOffset: Offset(b.BaseOffset),
		LastOffset: Offset(b.LastOffset()),
		Epoch:      Epoch(b.LeaderEpoch),
		Bytes:      data[:b.Size:b.Size],
	}
	if !b.Control {
		return out, nil
	}
	for e, err := range b.Entries() {
		if err != nil {
			return Batch{}, err
		}
		r, err := decodeControl(e.Key, e.Value)
		if err != nil {
			return Batch{}, fmt.Errorf("decode the control record at offset %d: %w", e.Offset, err)
		}
		out.Control = append(out.Control, r)
	}
	return out, nil
}

// DecodeBatches splits the records of a Fetch response. What a leader cut off at the end, a part of a batch, is
// left out.
func DecodeBatches(data []byte) ([]Batch, error) {
	var batches []Batch
	for len(data) > 0 {
		b, err := DecodeBatch(data)
		if corrupt, ok := errors.AsType[*record.CorruptError](err); ok && corrupt.Cut {
			break
		}
		if err != nil {
			return nil, err
		}
		batches = append(batches, b)
		data = data[len(b.Bytes):]
	}
	return batches, nil
}
