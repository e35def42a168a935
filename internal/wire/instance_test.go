package wire

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kstorage/internal/raft"
)

var (
	instanceA = uuid.UUID{0xa}
	instanceB = uuid.UUID{0xb}
)

// ask is a request of a test: one with header version 2 unless old, and served unless its kind says otherwise.
type ask struct {
	kind askKind
	id   uuid.UUID
}

type askKind int

const (
	served         askKind = iota // UnregisterBroker
	old                           // ApiVersions v0: header version 1
	versions                      // ApiVersions v3
	unknownVersion                // ApiVersions v99: header version 2
)

// answerTo sends the request and says what came back: "" for an answer without an error, else the error, or closed.
func (a ask) answerTo(c net.Conn) string {
	var q kmsg.Request
	unregister := kmsg.NewPtrUnregisterBrokerRequest()
	unregister.BrokerID = 1
	apiVersions := kmsg.NewPtrApiVersionsRequest()
	apiVersions.ClientSoftwareName, apiVersions.ClientSoftwareVersion = "test", "1"
	q = apiVersions
	answered := int16(0)
	switch a.kind {
	case served:
		q = unregister
	case versions:
		apiVersions.Version, answered = 3, 3
	case unknownVersion:
		apiVersions.Version = 99
	}
	frame := AppendRequest(nil, q, Self{ClientID: "test", InstanceID: a.id}, 1)
	go c.Write(frame)
	payload, err := ReadFrame(c, MaxFrame, nil)
	if err != nil {
		return "closed"
	}
	q.SetVersion(answered)
	r, _, err := DecodeResponse(q, payload)
	if err != nil {
		return err.Error()
	}
	if code := ErrorCode(r); code != 0 {
		return ErrorName(code)
	}
	return ""
}

func TestConnectionRule(t *testing.T) {
	const refused = "INVALID_REQUEST"
	none := uuid.Nil
	tests := []struct {
		name string
		asks []ask
		want []string
	}{
		{"one id all along", []ask{{served, instanceA}, {versions, instanceA}, {served, instanceA}}, []string{"", "", ""}},
		{"none all along", []ask{{served, none}, {versions, none}, {served, none}}, []string{"", "", ""}},
		{"another id", []ask{{served, instanceA}, {served, instanceB}}, []string{"", refused}},
		{"an id, then none", []ask{{served, instanceA}, {served, none}}, []string{"", refused}},
		{"none, then an id", []ask{{served, none}, {served, instanceA}}, []string{"", refused}},
		{"the connection goes on behind a refusal", []ask{{served, instanceA}, {served, instanceB}, {served, instanceA}}, []string{"", refused, ""}},
		{"a refusal changes nothing", []ask{{served, instanceA}, {served, instanceB}, {served, instanceB}}, []string{"", refused, refused}},
		{"header 1 never counts", []ask{{old, none}, {served, instanceA}, {old, none}, {served, instanceA}}, []string{"", "", "", ""}},
		{"ApiVersions counts as the first", []ask{{versions, instanceA}, {served, none}}, []string{"", refused}},
		{"ApiVersions is refused", []ask{{served, instanceA}, {versions, instanceB}, {versions, instanceA}}, []string{"", refused, ""}},
		{"a version that is not served counts as the first", []ask{{unknownVersion, instanceA}, {served, instanceA}, {served, none}}, []string{"UNSUPPORTED_VERSION", "", refused}},
		{"a version that is not served has no shape to be refused in", []ask{{served, instanceA}, {unknownVersion, instanceB}, {versions, instanceA}}, []string{"", "UNSUPPORTED_VERSION", ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(nil)
				c := s.dial()
				for i, a := range test.asks {
					if got := a.answerTo(c); got != test.want[i] {
						t.Errorf("answer %d: %q, want %q", i, got, test.want[i])
					}
				}
				fresh := s.dial() // the rule is one of the connection
				if got := (ask{served, instanceB}).answerTo(fresh); got != "" {
					t.Errorf("on another connection: %q", got)
				}
				s.stop(t)
				lines := 0
				for line := range strings.Lines(s.log.String()) {
					if strings.Contains(line, "level=WARN") {
						lines++
					}
					if !strings.Contains(line, `msg="request refused"`) || !strings.Contains(line, "instance=") || !strings.Contains(line, "client=test") {
						t.Errorf("log: %s", line)
					}
				}
				if want := min(1, strings.Count(strings.Join(test.want, " "), refused)); lines != want {
					t.Errorf("%d lines in the log, want %d", lines, want)
				}
			})
		})
	}
}

// TestConnectionRuleIsThatOfTheModel sends any sequence of requests; the model is in the loop.
func TestConnectionRuleIsThatOfTheModel(t *testing.T) {
	ids := rapid.SampledFrom([]uuid.UUID{uuid.Nil, instanceA, instanceB})
	kinds := rapid.SampledFrom([]askKind{served, old, versions, unknownVersion})
	rapid.Check(t, func(t *rapid.T) {
		s := startServer(nil)
		c := s.dial()
		defer func() {
			c.Close()
			s.Server.Close()
		}()
		var first *uuid.UUID
		for i := range rapid.IntRange(1, 12).Draw(t, "requests") {
			a := ask{kinds.Draw(t, "kind"), ids.Draw(t, "id")}
			want := ""
			if a.kind != old && first == nil {
				first = &a.id
			}
			if a.kind == unknownVersion {
				want = "UNSUPPORTED_VERSION"
			} else if a.kind != old && a.id != *first {
				want = "INVALID_REQUEST"
			}
			if got := a.answerTo(c); got != want {
				t.Fatalf("answer %d is %q, want %q", i, got, want)
			}
		}
	})
}

// TestRefusedRequestHasTheShapeOfItsAPI looks at each API and version that could be served: the answer to a request of
// another instance says INVALID_REQUEST, and nobody handles the request.
func TestRefusedRequestHasTheShapeOfItsAPI(t *testing.T) {
	for key := range int16(kmsg.MaxKey + 1) {
		q := kmsg.RequestForKey(key)
		if q == nil {
			continue
		}
		for version := range q.MaxVersion() + 1 {
			q := kmsg.RequestForKey(key)
			q.SetVersion(version)
			message := "why"
			r := ErrorResponse(q, int16(raft.InvalidRequest), message)
			frame := AppendResponse(nil, r, 7)
			back, id, err := DecodeResponse(q, frame[4:])
			if err != nil || id != 7 {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(key), version, err)
				continue
			}
			hasCode := ErrorCode(back) == int16(raft.InvalidRequest)
			switch {
			case key == int16(kmsg.Metadata) && version < 13: // in its topics, see below
			case key == int16(kmsg.Fetch) && version < 7: // no place, and header version 1
			case raftOrServed[kmsg.Key(key)] && !hasCode:
				t.Errorf("%s v%d has no error: %+v", kmsg.NameForKey(key), version, back)
			}
		}
	}
	name := "orders"
	q := kmsg.NewPtrMetadataRequest()
	q.Version, q.Topics = 12, []kmsg.MetadataRequestTopic{{Topic: &name}, {TopicID: instanceA}}
	r := ErrorResponse(q, int16(raft.InvalidRequest), "").(*kmsg.MetadataResponse)
	if len(r.Topics) != 2 || r.Topics[0].ErrorCode != 42 || *r.Topics[0].Topic != name || r.Topics[1].ErrorCode != 42 || r.Topics[1].TopicID != instanceA || r.ControllerID != -1 {
		t.Errorf("Metadata v12: %+v", r)
	}
}

// raftOrServed are the APIs that nodes serve.
var raftOrServed = func() map[kmsg.Key]bool {
	keys := map[kmsg.Key]bool{
		kmsg.ApiVersions: true, kmsg.Metadata: true, kmsg.DescribeCluster: true, kmsg.UpdateFeatures: true, kmsg.Envelope: true,
		kmsg.BrokerRegistration: true, kmsg.BrokerHeartbeat: true, kmsg.UnregisterBroker: true, kmsg.ControllerRegistration: true,
		kmsg.UnregisterController: true, kmsg.GetTelemetrySubscriptions: true, kmsg.PushTelemetry: true,
	}
	for _, a := range RaftAPIs {
		keys[kmsg.Key(a.Key)] = true
	}
	return keys
}()

// TestHostileFramesWithAnID closes the connection as Kafka does.
func TestHostileFramesWithAnID(t *testing.T) {
	whole := AppendRequest(nil, kmsg.NewPtrUnregisterBrokerRequest(), Self{ClientID: "x", InstanceID: instanceA}, 1)[4:]
	for name, frame := range map[string][]byte{
		"cut in the id":     whole[:20],
		"cut behind the id": whole[:len(whole)-5],
		"an id too short":   append(append([]byte{}, whole[:13]...), 15),
		"2^31 tags":         append(append([]byte{}, whole[:11]...), binary.AppendUvarint(nil, 1<<31)...),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(nil)
				c := s.dial()
				go c.Write(frameOf(frame))
				wantClosed(t, c)
				s.stop(t)
			})
		})
	}
}

// BenchmarkHeaderCheck is all that a request's header costs: reading it and the rule.
func BenchmarkHeaderCheck(b *testing.B) {
	frame := AppendRequest(nil, kmsg.NewPtrUnregisterBrokerRequest(), Self{ClientID: "bench", InstanceID: instanceA}, 1)[4:]
	for _, part := range []string{"header and rule", "rule"} {
		b.Run(part, func(b *testing.B) {
			var c clientInstance
			h, _, _ := DecodeRequestHeader(frame)
			b.ReportAllocs()
			for b.Loop() {
				if part != "rule" {
					h, _, _ = DecodeRequestHeader(frame)
				}
				if !c.admits(&h) {
					b.Fatal("refused")
				}
			}
		})
	}
}
