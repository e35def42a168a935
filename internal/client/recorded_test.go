package client

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
	"kstorage/internal/wire"
)

// TestRecorded plays what Kafka's tool and servers said to each other: the same requests have to be sent, and the same
// lines printed.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, f := range archive.Files {
		parts[f.Name] = string(f.Data)
	}
	args := strings.Fields(string(archive.Comment))[1:]
	o := Options{Controllers: args[0] == "--bootstrap-controller", Settings: DefaultSettings()}
	if o.Bootstrap, err = ParseBootstrap(args[1], args[0]); err != nil {
		t.Fatal(err)
	}
	tape := newTape(t, parts["wire"])
	o.Dial = tape.network().dial
	cluster := NewCluster(o)
	stdout, err := perform(t, cluster, tape, args[2:])
	cluster.Close()
	if stdout != parts["stdout"] {
		t.Errorf("stdout:\n%s\nKafka's tool prints\n%s", stdout, parts["stdout"])
	}
	if failed := parts["rc"] != "0\n"; (err != nil) != failed {
		t.Fatalf("error %v, exit code of Kafka's tool %s", err, parts["rc"])
	}
	if err == nil {
		tape.checkAllSent()
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Fix == "" || e.Where == "" {
		t.Fatalf("%T %#v", err, err)
	}
	// What the server says reaches the person, but for the mix-ups of brokers and controllers, which have words of ours.
	_, says, _ := strings.Cut(strings.TrimSpace(parts["stderr"]), ": ")
	if e.Code != mismatchedEndpointType && !strings.Contains(e.Error(), says) {
		t.Errorf("error %q, Kafka's tool says %q", e, says)
	}
}

// perform does what args say, as the command does it, and returns what it prints.
func perform(t *testing.T, cluster *Cluster, tape *tape, args []string) (string, error) {
	switch strings.Join(args, " ") {
	case "describe --status":
		q, err := cluster.DescribeQuorum(t.Context())
		if err != nil {
			return "", err
		}
		return q.StatusText(), nil
	case "describe --replication":
		q, err := cluster.DescribeQuorum(t.Context())
		if err != nil {
			return "", err
		}
		return q.ReplicationText(false, time.Time{}), nil
	case "add-controller":
		q := tape.sent(int16(kmsg.AddRaftVoter)).(*kmsg.AddRaftVoterRequest)
		v := Controller{NodeID: q.VoterID, DirectoryID: q.VoterDirectoryID}
		for _, l := range q.Listeners {
			v.Endpoints = append(v.Endpoints, Endpoint{l.Name, l.Host, l.Port})
		}
		if err := cluster.AddController(t.Context(), v); err != nil {
			return "", err
		}
		return v.AddedText(false), nil
	}
	var id int32
	var directory string
	if _, err := fmt.Sscanf(strings.Join(args, " "), "remove-controller -i %d -d %s", &id, &directory); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	directoryID, err := kafkaid.Parse(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.RemoveController(t.Context(), id, directoryID); err != nil {
		return "", err
	}
	text := RemovedText(id, directoryID, false)
	if args[len(args)-1] == "--unregister" {
		err = cluster.UnregisterController(t.Context(), id)
		text += UnregisteredText(id, false)
	}
	return text, err
}

// tape has the recorded frames of a command.
type tape struct {
	t        *testing.T
	versions map[string][]byte // answers to ApiVersions
	takes    []*take
}

// take is a request with its answer, at a node.
type take struct {
	address           string
	key               int16
	request, response []byte
	sent              bool
}

func newTape(t *testing.T, lines string) *tape {
	tape := &tape{t: t, versions: map[string][]byte{}}
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		w := &take{address: "127.0.0.1:" + f[0], request: unhex(t, f[3]), response: unhex(t, f[4])}
		w.key = int16(binary.BigEndian.Uint16(w.request))
		tape.takes = append(tape.takes, w)
	}
	b, err := os.ReadFile("testdata/recorded/api_versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		kind, frame, _ := strings.Cut(strings.TrimSpace(line), " ")
		tape.versions[kind] = unhex(t, frame)
	}
	return tape
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// network has a node for each address on the tape. The ports of brokers end in 2.
func (p *tape) network() network {
	nodes := network{}
	for _, w := range p.takes {
		kind := "controller"
		if strings.HasSuffix(w.address, "2") {
			kind = "broker"
		}
		nodes[w.address] = func(frame []byte) []byte { return p.answer(w.address, kind, frame) }
	}
	return nodes
}

func (p *tape) answer(address, kind string, frame []byte) []byte {
	header, body, err := wire.DecodeRequestHeader(frame)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	answer := func(response []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(header.CorrelationID)), response[4:]...)
	}
	if header.Key == int16(kmsg.ApiVersions) {
		return answer(p.versions[kind])
	}
	for _, w := range p.takes {
		if w.address != address || w.key != header.Key {
			continue
		}
		recorded, theirs, err := wire.DecodeRequestHeader(w.request)
		if err != nil || header.Version != recorded.Version || !bytes.Equal(untimed(body, header), untimed(theirs, recorded)) {
			p.t.Errorf("%s version %d: %x\nKafka's tool sends version %d: %x (%v)", kmsg.NameForKey(w.key), header.Version, body, recorded.Version, theirs, err)
		}
		w.sent = true
		return answer(w.response)
	}
	p.t.Errorf("%s was not asked for %s", address, kmsg.NameForKey(header.Key))
	return nil
}

// untimed leaves out of AddRaftVoter how much time is left.
func untimed(body []byte, header wire.RequestHeader) []byte {
	if header.Key == int16(kmsg.AddRaftVoter) {
		return append([]byte{body[0]}, body[5:]...) // behind the cluster id, which is null
	}
	return body
}

// sent returns the recorded request of an API.
func (p *tape) sent(key int16) kmsg.Request {
	for _, w := range p.takes {
		if w.key == key {
			header, body, err := wire.DecodeRequestHeader(w.request)
			if err != nil {
				p.t.Fatal(err)
			}
			q := kmsg.RequestForKey(key)
			q.SetVersion(header.Version)
			if err := q.ReadFrom(body); err != nil {
				p.t.Fatal(err)
			}
			return q
		}
	}
	p.t.Fatalf("no %s on the tape", kmsg.NameForKey(key))
	return nil
}

// checkAllSent reports recorded requests that were not sent. Kafka's tool asks for the cluster at the leader again.
func (p *tape) checkAllSent() {
	for _, w := range p.takes {
		if !w.sent && w.key != int16(kmsg.DescribeCluster) {
			p.t.Errorf("%s was not sent to %s", kmsg.NameForKey(w.key), w.address)
		}
	}
}
