package dump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"kstorage/checkpoint"
)

func FuzzDump(f *testing.F) {
	names := []string{"00000000000000000000.log", zeroName, "quorum-state", "meta.properties", "copy"}
	for _, file := range kafkaFiles(f) {
		if len(file.data) < 2000 {
			f.Add(byte(0), file.data)
			f.Add(byte(1), file.data)
		}
	}
	f.Add(byte(2), []byte(`{"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}`))
	f.Add(byte(2), []byte(`{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`))
	f.Add(byte(3), []byte("node.id=1\nversion=1\ncluster.id=x\n"))
	f.Add(byte(4), batch(0, 0, []byte{1, 99, 0, 0}))
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		path := names[int(kind)%len(names)]
		fuzzDump(t, path, data)
		fuzzDump(t, path, repaired(data))
	})
}

func fuzzDump(t *testing.T, path string, data []byte) {
	out, err := dumped(data, path, Options{JSON: true})
	var wrong *FileError
	if errors.As(err, &wrong) && out == "" {
		return // no kind that can be printed
	}
	docs := parse(t, out)
	end := docs[len(docs)-1].End
	var corrupt *checkpoint.CorruptError
	switch {
	case err == nil && end.Error != nil || err != nil && end.Error == nil:
		t.Fatalf("error %v, end %+v", err, end)
	case errors.As(err, &corrupt) && (corrupt.Offset < 0 || corrupt.Offset > int64(len(data))):
		t.Fatalf("error %v of %d bytes", err, len(data))
	case err != nil && corrupt == nil && wrong == nil:
		t.Fatalf("error %#v", err)
	}
	text, textErr := dumped(data, path, Options{})
	if fmt.Sprint(textErr) != fmt.Sprint(err) {
		t.Fatalf("error %v, as text %v", err, textErr)
	}
	if !isState(docs) && strings.Count(text, "\n") != len(docs) {
		t.Fatalf("%d documents, text\n%s", len(docs), text)
	}
}

// repaired returns data with the checksums of its batches made right, so that what lies behind them is tried too.
func repaired(data []byte) []byte {
	data = bytes.Clone(data)
	for rest := data; len(rest) > 61; {
		size := 12 + int64(int32(binary.BigEndian.Uint32(rest[8:])))
		if size < 61 || size > int64(len(rest)) {
			break
		}
		binary.BigEndian.PutUint32(rest[17:], crc32.Checksum(rest[21:size], crc32.MakeTable(crc32.Castagnoli)))
		rest = rest[size:]
	}
	return data
}

// isState tells files whose text has more lines than documents.
func isState(docs []document) bool {
	return docs[0].Kind == string(kindQuorumState) || docs[0].Kind == string(kindMetaProperties)
}
