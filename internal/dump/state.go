package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/kafkaid"
	"kstorage/internal/record"
	"kstorage/metaprops"
)

// state prints a file of a few lines.
func state(p *printer, in io.Reader, path string, k kind) (summary, error) {
	const limit = 1 << 20
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	sum := summary{bytes: int64(len(b))}
	switch {
	case err != nil:
		return sum, err
	case len(b) > limit:
		return sum, &FileError{path, fmt.Sprintf("more than %d bytes are no %s", limit, k)}
	case k == kindQuorumState:
		err = quorumState(p, b)
	default:
		err = metaProperties(p, b)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return sum, &checkpoint.CorruptError{File: path, Offset: syntax.Offset, Reason: err.Error()}
	}
	if err != nil {
		return sum, &FileError{path, err.Error()}
	}
	return sum, nil
}

// quorumField is a field of quorum-state, and what its value must fit into.
type quorumField struct {
	name string
	into any
}

// quorumFields returns the fields that quorum-state has at a data_version. KIP-595, KIP-853.
func quorumFields(version int) []quorumField {
	switch version {
	case 0:
		return []quorumField{
			{"clusterId", new(string)}, {"leaderId", new(int32)}, {"leaderEpoch", new(int32)}, {"votedId", new(int32)},
			{"appliedOffset", new(int64)}, {"currentVoters", new([]struct {
				VoterID int32 `json:"voterId"`
			})},
		}
	case 1:
		return []quorumField{
			{"leaderId", new(int32)}, {"leaderEpoch", new(int32)}, {"votedId", new(int32)}, {"votedDirectoryId", new(string)},
		}
	}
	return nil
}

func quorumState(p *printer, b []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(b, &values); err != nil {
		return err
	}
	version, err := strconv.Atoi(string(values["data_version"]))
	fields := quorumFields(version)
	if err != nil || fields == nil {
		return fmt.Errorf("data_version is %q, known are 0 and 1", values["data_version"])
	}
	text, document := fmt.Appendf(nil, "  data_version %d", version), fmt.Appendf(nil, `{"quorumState":{"dataVersion":%d`, version)
	for _, f := range fields {
		value, ok := values[f.name]
		if !ok {
			return fmt.Errorf("%s is missing in data_version %d", f.name, version)
		}
		if err := json.Unmarshal(value, f.into); err != nil {
			return fmt.Errorf("%s is %s: %w", f.name, value, err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return err
		}
		text = fmt.Appendf(text, "\n  %s %s", f.name, compact.Bytes())
		document = fmt.Appendf(document, `,"%s":%s`, f.name, compact.Bytes())
	}
	if p.json {
		p.buf = append(append(p.buf, document...), "}}"...)
	} else {
		p.buf = append(p.buf, text...)
	}
	p.line()
	return nil
}

func metaProperties(p *printer, b []byte) error {
	props, err := metaprops.Decode(b)
	if err != nil {
		return err
	}
	if !p.json {
		p.printf("  version %d\n", props.Version)
		p.text("  cluster.id ", props.ClusterID, props.ClusterID != "")
		p.text("\n  node.id ", strconv.Itoa(int(props.NodeID)), props.NodeID != metaprops.NoNode)
		p.text("\n  directory.id ", kafkaid.String(props.DirectoryID), props.DirectoryID != uuid.Nil)
		p.line()
		return nil
	}
	p.printf(`{"metaProperties":{"version":%d,"clusterId":`, props.Version)
	p.nullable(record.AppendText(nil, []byte(props.ClusterID)), props.ClusterID != "")
	p.printf(`,"nodeId":`)
	p.nullable(strconv.AppendInt(nil, int64(props.NodeID), 10), props.NodeID != metaprops.NoNode)
	p.printf(`,"directoryId":`)
	p.nullable(record.AppendText(nil, []byte(kafkaid.String(props.DirectoryID))), props.DirectoryID != uuid.Nil)
	p.printf("}}")
	p.line()
	return nil
}

func (p *printer) text(label, value string, known bool) {
	if !known {
		value = "(none)"
	}
	p.printf("%s%s", label, printed(value))
}

func (p *printer) nullable(value []byte, known bool) {
	if !known {
		value = []byte("null")
	}
	p.buf = append(p.buf, value...)
}
