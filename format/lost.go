package format

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/record"
)

// storedVoter returns the directory id that the newest voters in a folder of the metadata log have
// for a node. names are the files in it. What cannot be read is passed over: the answer is a hint.
func storedVoter(fsys disk.FS, folder string, names []string, nodeID int32) (uuid.UUID, bool) {
	names = slices.Clone(names)
	slices.Sort(names)
	// A voters record in a segment is newer than what the snapshots before it have.
	for _, suffix := range []string{".log", checkpoint.Suffix} {
		for _, name := range slices.Backward(names) {
			if !strings.HasSuffix(name, suffix) {
				continue
			}
			if ids := lastVoters(fsys, disk.Join(folder, name)); ids != nil {
				id, ok := ids[nodeID]
				return id, ok
			}
		}
	}
	return uuid.Nil, false
}

// lastVoters returns the directory ids by node in the last KRaftVoters record of a segment or
// snapshot, nil if it has none.
func lastVoters(fsys disk.FS, path string) (ids map[int32]uuid.UUID) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for batches := record.NewBatchReader(f); ; {
		b, err := batches.Next()
		if err != nil {
			return ids // io.EOF, or damage: what came before it counts
		}
		if !b.Control {
			continue
		}
		for e, err := range b.Entries() {
			if err != nil {
				break
			}
			r, err := record.DecodeControl(e.Key, e.Value)
			if err != nil || r.Message != record.KRaftVoters {
				continue
			}
			ids = map[int32]uuid.UUID{}
			for _, v := range r.Structs("Voters") {
				ids[int32(v.Int("VoterId"))] = v.UUID("VoterDirectoryId")
			}
		}
	}
}
