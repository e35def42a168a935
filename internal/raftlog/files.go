package raftlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
)

// Names of the small files.
const (
	quorumStateName       = "quorum-state"
	epochStartsName       = "leader-epoch-checkpoint"
	partitionMetadataName = "partition.metadata"
)

// partitionMetadata is the content of partition.metadata.
const partitionMetadata = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"

// AppendQuorumState appends the content of a quorum-state file, to the byte as Kafka writes it: version 0 (KIP-595) or 1
// (KIP-853), as s.Version says.
func AppendQuorumState(dst []byte, s raft.QuorumState) []byte {
	if s.Version != 0 {
		return fmt.Appendf(dst, `{"leaderId":%d,"leaderEpoch":%d,"votedId":%d,"votedDirectoryId":"%s","data_version":%d}`,
			s.LeaderID, s.Epoch, s.Voted.NodeID, kafkaid.String(s.Voted.DirectoryID), s.Version)
	}
	dst = fmt.Appendf(dst, `{"clusterId":"","leaderId":%d,"leaderEpoch":%d,"votedId":%d,"appliedOffset":0,"currentVoters":[`,
		s.LeaderID, s.Epoch, s.Voted.NodeID)
	for i, id := range s.Voters {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"voterId":%d}`, id)
	}
	return append(dst, `],"data_version":0}`...)
}

// DecodeQuorumState reads the content of a quorum-state file. Kafka's rules: one JSON object, with the fields of its
// version; others don't matter. Errors say what is wrong.
func DecodeQuorumState(data []byte) (raft.QuorumState, error) {
	var file struct {
		LeaderID         *raft.NodeID `json:"leaderId"`
		LeaderEpoch      *raft.Epoch  `json:"leaderEpoch"`
		VotedID          *raft.NodeID `json:"votedId"`
		VotedDirectoryID *string      `json:"votedDirectoryId"`
		CurrentVoters    []struct {
			VoterID raft.NodeID `json:"voterId"`
		} `json:"currentVoters"`
		DataVersion *int16 `json:"data_version"`
	}
	in := json.NewDecoder(bytes.NewReader(data))
	if err := in.Decode(&file); err != nil {
		if err == io.EOF {
			err = errors.New("the file is empty")
		}
		return raft.QuorumState{}, err
	}
	if _, err := in.Token(); err != io.EOF {
		return raft.QuorumState{}, errors.New("something stands behind the object")
	}
	missing := func(name string) (raft.QuorumState, error) {
		return raft.QuorumState{}, fmt.Errorf("no field %s", name)
	}
	switch {
	case file.DataVersion == nil:
		return missing("data_version")
	case *file.DataVersion < 0 || *file.DataVersion > 1:
		return raft.QuorumState{}, fmt.Errorf("data_version %d, known are 0 and 1", *file.DataVersion)
	case file.LeaderID == nil:
		return missing("leaderId")
	case file.LeaderEpoch == nil:
		return missing("leaderEpoch")
	case file.VotedID == nil:
		return missing("votedId")
	case *file.LeaderEpoch < 0 || *file.LeaderID < raft.None || *file.VotedID < raft.None:
		return raft.QuorumState{}, fmt.Errorf("leaderEpoch %d, leaderId %d, votedId %d: a negative number that stands for nothing",
			*file.LeaderEpoch, *file.LeaderID, *file.VotedID)
	}
	s := raft.QuorumState{
		Version:  *file.DataVersion,
		Epoch:    *file.LeaderEpoch,
		LeaderID: *file.LeaderID,
		Voted:    raft.ReplicaKey{NodeID: *file.VotedID},
	}
	if s.Version == 0 {
		for _, v := range file.CurrentVoters {
			s.Voters = append(s.Voters, v.VoterID)
		}
		return s, nil
	}
	if file.VotedDirectoryID == nil {
		return missing("votedDirectoryId")
	}
	var err error
	if s.Voted.DirectoryID, err = kafkaid.Parse(*file.VotedDirectoryID); err != nil {
		return raft.QuorumState{}, fmt.Errorf("votedDirectoryId: %w", err)
	}
	if s.Voted.NodeID == raft.None && s.Voted.DirectoryID != uuid.Nil {
		return raft.QuorumState{}, fmt.Errorf("votedDirectoryId %s without a votedId", *file.VotedDirectoryID)
	}
	return s, nil
}

// AppendEpochStarts appends the content of a leader-epoch-checkpoint file, to the byte as Kafka writes it.
func AppendEpochStarts(dst []byte, entries []raft.EpochStart) []byte {
	dst = fmt.Appendf(dst, "0\n%d\n", len(entries))
	for _, e := range entries {
		dst = fmt.Appendf(dst, "%d %d\n", e.Epoch, e.Start)
	}
	return dst
}

// DecodeEpochStarts reads the content of a leader-epoch-checkpoint file. Errors are *CorruptError, without the file.
func DecodeEpochStarts(data []byte) ([]raft.EpochStart, error) {
	text, offset := string(data), 0
	wrong := func(format string, args ...any) error {
		return &CorruptError{Offset: int64(offset), Reason: fmt.Sprintf(format, args...)}
	}
	// next returns the next line, the place of which is offset from then on.
	end := 0
	next := func() (line string, ok bool) {
		offset = end
		if offset == len(text) {
			return "", false
		}
		line, _, _ = strings.Cut(text[offset:], "\n")
		end = min(offset+len(line)+1, len(text))
		return line, true
	}
	if line, ok := next(); !ok || line != "0" {
		return nil, wrong("the first line is %.20q, it should be the version 0", line)
	}
	line, _ := next()
	count, err := strconv.Atoi(line)
	if err != nil || count < 0 {
		return nil, wrong("the second line is %.20q, it should be the number of entries", line)
	}
	var entries []raft.EpochStart
	for line, ok := next(); ok; line, ok = next() {
		left, right, _ := strings.Cut(line, " ")
		epoch, err1 := strconv.ParseInt(left, 10, 32)
		start, err2 := strconv.ParseInt(right, 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 || start == math.MaxInt64 {
			return nil, wrong("the line is %.50q, it should be an epoch and its first offset", line)
		}
		e := raft.EpochStart{Epoch: raft.Epoch(epoch), Start: raft.Offset(start)}
		if n := len(entries); n > 0 && (e.Epoch <= entries[n-1].Epoch || e.Start < entries[n-1].Start) {
			return nil, wrong("epoch %d from offset %d on stands behind epoch %d from offset %d on", e.Epoch, e.Start, entries[n-1].Epoch, entries[n-1].Start)
		}
		entries = append(entries, e)
	}
	if len(entries) != count {
		return nil, wrong("%d entries, the second line says %d", len(entries), count)
	}
	return entries, nil
}

// checkPartitionMetadata checks the content of partition.metadata.
func checkPartitionMetadata(data []byte) error {
	if strings.TrimSuffix(string(data), "\n") != partitionMetadata {
		return fmt.Errorf("%.100q, for the metadata log it is %q", data, partitionMetadata)
	}
	return nil
}
