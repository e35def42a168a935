package raft_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

const metadataTopic = "__cluster_metadata"

// metadataTopicID is the id of that topic. Fetch goes by it.
var metadataTopicID = [16]byte{15: 1}

// traceFrame is a frame of a recording.
type traceFrame struct {
	name     string // "8.149 Vote 2>1"
	time     string
	api      kmsg.Key
	version  int16
	response bool
	from, to string // node ids, or "tool"
	bytes    []byte
	made     bool // of the recording's JSON, records are zeros
}

// trace is a recording: testdata/traces says what its lines are.
type trace struct {
	name   string
	frames []*traceFrame
	byName map[string]*traceFrame
	shown  map[string]bool // frames that are a step of a replay
	made   map[string]bool // frames that a core has made, byte for byte
}

var traceLine = regexp.MustCompile(`^([ ~])([0-9.]+) (\w+) (request|response) v(\d+) (\w+)>(\w+) ([0-9a-f]+)$`)

func readTrace(t *testing.T, name string) *trace {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "traces", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr := &trace{name: name, byName: map[string]*traceFrame{}, shown: map[string]bool{}, made: map[string]bool{}}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' || line[0] == '=' {
			continue
		}
		m := traceLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s, line %d is no frame", name, n)
		}
		frame := &traceFrame{made: m[1] == "~", time: m[2], response: m[4] == "response", from: m[6], to: m[7]}
		frame.name = fmt.Sprintf("%s %s %s>%s", m[2], m[3], m[6], m[7])
		version, err := strconv.ParseInt(m[5], 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		frame.version = int16(version)
		frame.api = keyOf(m[3])
		if frame.bytes, err = hex.DecodeString(m[8]); err != nil {
			t.Fatal(err)
		}
		if tr.byName[frame.name] != nil {
			t.Fatalf("%s has %q twice", name, frame.name)
		}
		tr.frames = append(tr.frames, frame)
		tr.byName[frame.name] = frame
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return tr
}

// request returns the decoded request; of a response, one that it could answer.
func (f *traceFrame) request(t *testing.T) (q kmsg.Request, clientID string, correlationID int32) {
	t.Helper()
	if f.response {
		q = kmsg.RequestForKey(int16(f.api))
		q.SetVersion(f.version)
		return q, "", 0
	}
	q, clientID, correlationID, err := decodeRequestFrame(f.bytes)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return q, clientID, correlationID
}

func (f *traceFrame) decodedResponse(t *testing.T) (r kmsg.Response, correlationID int32) {
	t.Helper()
	q, _, _ := f.request(t)
	r, correlationID, err := wire.DecodeResponse(q, f.bytes)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	return r, correlationID
}

// diffBytes shows where two frames differ, as hex and as the fields of their messages.
func diffBytes(got, want []byte, gotMessage, wantMessage any) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	show := func(m any) string {
		return strings.ReplaceAll(fmt.Sprintf("%+v", m), "UnknownTags:{keyvals:map[]}", "")
	}
	return fmt.Sprintf("from byte %d on\n got %x\nwant %x\n got %s\nwant %s", at, got, want, show(gotMessage), show(wantMessage))
}

func keyOf(name string) kmsg.Key {
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) == name {
			return kmsg.Key(key)
		}
	}
	panic(name)
}

// served returns the versions of an API that are served.
func served(api kmsg.Key) (oldest, newest int16) {
	for _, a := range wire.RaftAPIs {
		if a.Key == int16(api) {
			return a.Min, a.Max
		}
	}
	panic(api.Name())
}

// Frames, without the length in front.

func requestFrame(q kmsg.Request, clientID string, correlationID int32) []byte {
	return wire.AppendRequest(nil, q, wire.Self{ClientID: clientID}, correlationID)[4:]
}

// decodeRequestFrame reads a request, its client id and its correlation id.
func decodeRequestFrame(frame []byte) (q kmsg.Request, clientID string, correlationID int32, err error) {
	h, body, err := wire.DecodeRequestHeader(frame)
	if err != nil {
		return nil, "", 0, err
	}
	if h.ClientID != nil {
		clientID = *h.ClientID
	}
	q = kmsg.RequestForKey(h.Key)
	q.SetVersion(h.Version)
	return q, clientID, h.CorrelationID, q.ReadFrom(body)
}

func responseFrame(r kmsg.Response, correlationID int32) []byte {
	return wire.AppendResponse(nil, r, correlationID)[4:]
}
