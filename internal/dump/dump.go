// Package dump prints what is in the files of a node that nobody reads with an editor: snapshots (also the
// zero checkpoint and bootstrap.checkpoint of older releases), segments of the metadata log, quorum-state, meta.properties.
//
// What a file is follows from its name; if that says nothing, as for a copy, from what it begins with. Files of
// batches are streamed, one batch in memory. All that is intact is printed, then the error names
// file, byte and reason. Salts and keys of SCRAM credentials are printed, as Kafka's dump tool does: they are
// what the file holds.
//
// As text: a line about the file, a line a batch, a line a record, a line about the end. The data of a record is JSON
// as Kafka's dump tool prints it; what helps a person stands behind it:
//
//	d1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint: zero checkpoint
//	batch at byte 166: offsets 3-8, 6 records, epoch 0, 2026-11-30T05:36:50.964Z, 253 bytes, checksum bf0ba9a3
//	  3 FEATURE_LEVEL_RECORD v0 {"name":"metadata.version","featureLevel":33}  # 4.4-IV2
//	end: 3 batches, 10 records, 494 bytes
//
// As JSON each line is a document, and the key in front tells which (keys may be added):
//
//	{"version":1,"file":"…","kind":"checkpoint","endOffset":0,"epoch":0}          of the documents' form: version 1
//	{"batch":{"baseOffset":3,"lastOffset":8,"count":6,"partitionLeaderEpoch":0,"isControl":false,"position":166,
//	          "timestamp":1796017010964,"size":253,"compression":"none","crc":3205212579}}
//	{"offset":3,"timestamp":1796017010964,"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":33}}
//	{"end":{"batches":3,"records":10,"bytes":494,"zeroBytes":0,"error":null}}     error: {"offset":…,"reason":"…"}
//
// A control record has "control":true in front of its type. A record that this program cannot decode has "error"
// and "value" (base64) in place of type, version and data. quorum-state and meta.properties are
// {"quorumState":{…}} and {"metaProperties":{…}} between the first and the last line.
//
// Not here: segments of other topics, indexes, producer snapshots.
package dump

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"kstorage/checkpoint"
	"kstorage/internal/record"
	"kstorage/metaprops"
)

// Options says how to print.
type Options struct {
	JSON bool // a document a line, else text
}

// File prints the file at path to w. Errors: *checkpoint.CorruptError for a damaged file, with what is intact printed;
// *FileError; those of the file and of w.
func File(w io.Writer, path string, o Options) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return stream(w, f, path, o)
}

// FileError says that a file is of another kind, or that its content means nothing.
type FileError struct {
	File   string
	Reason string
}

func (e *FileError) Error() string { return fmt.Sprintf("%s: %s", e.File, e.Reason) }

type kind string

const (
	kindCheckpoint     kind = "checkpoint"
	kindBootstrap      kind = "bootstrap-checkpoint"
	kindSegment        kind = "segment"
	kindQuorumState    kind = "quorum-state"
	kindMetaProperties kind = "meta.properties"
)

var segmentName = regexp.MustCompile(`^(\d{20})\.log$`)

// head is the first line about a file.
type head struct {
	kind       kind
	id         *checkpoint.ID // of a checkpoint, where the name says it
	baseOffset *int64         // of a segment, where the name says it
}

// identify tells what a file is from its name, or from its first bytes.
func identify(path string, first []byte) (head, error) {
	name := filepath.Base(path)
	if id, ok := checkpoint.ParseName(name); ok {
		return head{kind: kindCheckpoint, id: &id}, nil
	}
	if m := segmentName.FindStringSubmatch(name); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return head{kind: kindSegment, baseOffset: &n}, nil
		}
	}
	switch name {
	case checkpoint.BootstrapName:
		return head{kind: kindBootstrap}, nil
	case string(kindQuorumState):
		return head{kind: kindQuorumState}, nil
	case metaprops.FileName:
		return head{kind: kindMetaProperties}, nil
	}
	switch filepath.Ext(name) {
	case ".index", ".timeindex", ".txnindex":
		return head{}, &FileError{path, "an index of a segment: it says nothing that the .log file next to it does not say"}
	case ".snapshot":
		return head{}, &FileError{path, "a snapshot of producers, which the metadata log has none of; snapshots of the metadata end in .checkpoint"}
	}
	return identifyContent(path, first)
}

// versionLine is in each meta.properties and in no configuration of a node.
var versionLine = regexp.MustCompile(`(?m)^version\s*[=:]`)

func identifyContent(path string, first []byte) (head, error) {
	const magicAt, recordsAt = 16, 61
	switch {
	case len(first) > recordsAt && first[magicAt] == 2:
		if beginsWithHeader(first[recordsAt:]) {
			return head{kind: kindCheckpoint}, nil
		}
		return head{kind: kindSegment}, nil
	case bytes.HasPrefix(bytes.TrimSpace(first), []byte("{")) && bytes.Contains(first, []byte(`"leaderEpoch"`)):
		return head{kind: kindQuorumState}, nil
	case versionLine.Match(first):
		return head{kind: kindMetaProperties}, nil
	}
	return head{}, &FileError{path, "neither its name nor its content is that of a snapshot (.checkpoint), a segment of the metadata log (.log), quorum-state or meta.properties"}
}

// beginsWithHeader reports whether the first record of a batch has the key of a SnapshotHeader.
func beginsWithHeader(records []byte) bool {
	_, n := binary.Varint(records) // its length
	// Attributes, two deltas and the length of the key are bytes that the batch of a header has at 0, 0, 0 and 4 (zigzag 8).
	key := record.New(record.SnapshotHeader, 0).AppendKey([]byte{0, 0, 0, 8})
	return n > 0 && bytes.HasPrefix(records[n:], key)
}

// stream prints what in holds. path is its name.
func stream(w io.Writer, in io.Reader, path string, o Options) error {
	buffered := bufio.NewReaderSize(in, 64<<10)
	first, err := buffered.Peek(4 << 10)
	if err != nil && err != io.EOF {
		return err
	}
	h, err := identify(path, first)
	if err != nil {
		return err
	}
	p := &printer{w: w, json: o.JSON}
	p.head(path, h)
	var end summary
	switch h.kind {
	case kindQuorumState, kindMetaProperties:
		end, err = state(p, buffered, path, h.kind)
	default:
		end, err = batches(p, buffered, path, h)
	}
	p.end(end, err)
	if flushErr := p.flush(); err == nil {
		err = flushErr
	}
	return err
}

// summary is the last line about a file.
type summary struct {
	batches, records, bytes, zeroBytes int64
}

// printed is path without what would break a line.
func printed(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '\uFFFD'
		}
		return r
	}, path)
}
