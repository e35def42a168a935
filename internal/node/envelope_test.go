package node

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/controller"
	"kstorage/internal/disk"
	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

func describeMetadataQuorum() *kmsg.DescribeQuorumRequest {
	q := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, topic)
	return q
}

// TestForwardedToNoController: a broker that asks a node which is not the active controller learns that from the
// envelope, whatever the request; the answer in it would go to the client, and the broker would ask the same node again.
func TestForwardedToNoController(t *testing.T) {
	n := newLab(t).start(labConfig(1, 1, 2), disk.OS, t.TempDir())
	t.Cleanup(func() { kill(n) })
	c := loaded(t, finalized(features.MetadataVersionName, 33))
	h := &controllerHandler{quorum: n.q, cluster: c, views: c.views}
	for _, q := range []kmsg.Request{
		describeMetadataQuorum(),
		kmsg.NewPtrUpdateFeaturesRequest(),
		kmsg.NewPtrUnregisterBrokerRequest(),
		kmsg.NewPtrAddRaftVoterRequest(),
		kmsg.NewPtrRemoveRaftVoterRequest(),
		kmsg.NewPtrUnregisterControllerRequest(),
	} {
		e := kmsg.NewPtrEnvelopeRequest()
		e.RequestData = wire.AppendRequest(nil, q, wire.Self{ClientID: "admin"}, 7)[4:]
		answer := h.Handle(t.Context(), &wire.Request{Listener: "CONTROLLER", Body: e}).(*kmsg.EnvelopeResponse)
		if answer.ErrorCode != codeNotController || answer.ResponseData != nil {
			t.Errorf("%s: %+v", kmsg.NameForKey(q.Key()), answer)
		}
	}
}

// TestBrokerForwards: what a broker's listener forwards is what Kafka 4.4.0's does, and the answer is the active controller's.
// Where there is none, or another node than the one that is asked, the answer is NOT_CONTROLLER, as in Kafka.
func TestBrokerForwards(t *testing.T) {
	want := map[kmsg.Key]int16{ // as kafka-broker-api-versions shows them
		kmsg.DescribeQuorum: 2, kmsg.UpdateFeatures: 2, kmsg.UnregisterBroker: 0, kmsg.AddRaftVoter: 1, kmsg.RemoveRaftVoter: 0, kmsg.UnregisterController: 0,
	}
	for _, api := range forwardedAPIs() {
		if newest, ok := want[kmsg.Key(api.Key)]; !ok || api.Min != 0 || api.Max != newest || !slices.Contains(brokerAPIs, api) {
			t.Errorf("%+v", api)
		}
		delete(want, kmsg.Key(api.Key))
	}
	if len(want) > 0 {
		t.Errorf("not forwarded: %v", want)
	}

	direct, address := answered(t)
	n := newLab(t).start(labConfig(1, 1, 2), disk.OS, t.TempDir())
	t.Cleanup(func() { kill(n) })
	c := loaded(t, finalized(features.MetadataVersionName, 33))
	other := listenWith(t, &controllerHandler{quorum: n.q, cluster: c, views: c.views})
	for _, api := range forwardedAPIs() {
		for version := range api.Max + 1 {
			q := kmsg.RequestForKey(api.Key)
			q.SetVersion(version)
			if q, ok := q.(*kmsg.DescribeQuorumRequest); ok {
				q.Topics = describeMetadataQuorum().Topics
			}
			through := func(address string) kmsg.Response {
				v := view{leader: raft.LeaderChanged{LeaderID: raft.None}}
				if address != "" {
					at := netip.MustParseAddrPort(address)
					v.leader = raft.LeaderChanged{LeaderID: 1, Endpoint: raft.Endpoint{Host: at.Addr().String(), Port: at.Port()}}
				}
				h := &brokerHandler{channel: &controllerChannel{views: newViews(v)}}
				defer h.channel.close()
				return h.Handle(t.Context(), &wire.Request{Listener: "PLAINTEXT", Body: q})
			}
			want, err := direct.Do(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := want.(*kmsg.DescribeQuorumResponse); ok && r.Topics[0].Partitions[0].LeaderID != 1 {
				t.Errorf("%+v", want)
			}
			if got := through(address); len(want.AppendTo(nil)) == 0 || wire.ErrorCode(got) != wire.ErrorCode(want) || reflect.TypeOf(got) != reflect.TypeOf(want) {
				t.Errorf("%s v%d: %+v\nwant %+v", kmsg.NameForKey(api.Key), version, got, want)
			}
			for _, address := range []string{other, ""} {
				if got := through(address); wire.ErrorCode(got) != codeNotController {
					t.Errorf("%s v%d, no controller at %q: %+v", kmsg.NameForKey(api.Key), version, address, got)
				}
			}
		}
	}
}

// answered is a controller listener on which node 1 leads a cluster at 4.4-IV2, of one voter; the requests of the test
// write nothing.
func answered(t *testing.T) (*wire.Client, string) {
	t.Helper()
	l := newLab(t)
	n := l.start(labConfig(1, 1), disk.OS, t.TempDir())
	t.Cleanup(func() { kill(n) })
	l.leader(n)
	c := loaded(t, finalized(features.MetadataVersionName, 33))
	if err := c.do(t.Context(), func() {
		config := controller.Config{NodeID: 1, ClusterID: c.clusterID, Supported: ranges(false)}
		c.active = &active{controller: controller.New(config, c.loader.Image().Clone(), 1, 0, false)}
	}); err != nil {
		t.Fatal(err)
	}
	address := listenWith(t, &controllerHandler{quorum: n.q, cluster: c, views: c.views, clock: clock{start: time.Now(), wall: time.Now}})
	client := wire.NewClient(address, wire.Self{ClientID: "broker"}, nil)
	t.Cleanup(client.Close)
	return client, address
}

// listenWith serves h on a controller listener, whose address it returns.
func listenWith(t *testing.T, h wire.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.NewServer(wire.ServerConfig{
		Listener: "CONTROLLER", APIs: controllerAPIs, Logger: slog.New(slog.DiscardHandler), Handler: h,
		Versions: func() wire.VersionInfo { return wire.VersionInfo{} },
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestEnvelope has the answers of a real 4.4.0 controller, but for what is marked.
func TestEnvelope(t *testing.T) {
	client, _ := answered(t)
	// frame is a request without its length, with a client id unless that is null.
	frame := func(q kmsg.Request, version int16, correlationID int32, null bool) []byte {
		q.SetVersion(version)
		b := wire.AppendRequest(nil, q, wire.Self{ClientID: "me"}, correlationID)[4:]
		if null {
			b = slices.Replace(b, 8, 12, 0xff, 0xff)
		}
		return b
	}
	update := kmsg.NewPtrUpdateFeaturesRequest()
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = features.MetadataVersionName, 33, 1
	update.FeatureUpdates = append(update.FeatureUpdates, f)
	update.ValidateOnly = true
	good := frame(update, 2, 7, false)
	as := func(key, version uint16) []byte {
		b := slices.Clone(good)
		binary.BigEndian.PutUint16(b, key)
		binary.BigEndian.PutUint16(b[2:], version)
		return b
	}
	broker, other := kmsg.NewPtrUnregisterBrokerRequest(), kmsg.NewPtrUnregisterControllerRequest()
	broker.BrokerID, other.ControllerID = 77, 77
	for _, test := range []struct {
		reason string
		inner  []byte
		code   int16
		want   string // hex; "": a null
	}{
		{"UpdateFeatures", good, 0, "00000007000000000000000000"},
		{"null as client id", frame(update, 2, -7, true), 0, "fffffff9000000000000000000"},
		{"bytes behind it", append(slices.Clone(good), 1, 2, 3), 0, "00000007000000000000000000"},
		{"UpdateFeatures v1", frame(update, 1, 7, false), 0,
			"00000007000000000000000002116d657461646174612e76657273696f6e0000054e4f4e450000"},
		{"UnregisterBroker", frame(broker, 0, 7, false), 0,
			"0000000700000000000066" + "29" + hex.EncodeToString([]byte("Broker ID 77 is not currently registered")) + "00"},
		{"UnregisterController", frame(other, 0, 7, false), 0,
			"0000000700000000000088" + "2e" + hex.EncodeToString([]byte("Controller ID 77 is not currently registered.")) + "00"},

		{"UpdateFeatures in a version to come", as(57, 3), 35, ""},
		{"UpdateFeatures in a negative version", as(57, 0xffff), 35, ""},
		{"unknown API", as(825, 3), 35, ""},
		{"negative API", as(0xffff, 0), 35, ""},
		{"empty", nil, 35, ""},
		{"cut in the API", good[:1], 35, ""},
		{"cut behind the version", good[:4], 35, ""},
		{"cut in front of the client id", good[:8], 35, ""},
		{"cut in the client id", good[:11], 35, ""},
		{"cut in front of the tagged fields", good[:12], 35, ""},
		{"cut behind the header", good[:13], 35, ""},
		{"cut in the body", good[:20], 35, ""},
		{"cut by a byte", good[:len(good)-1], 35, ""},
		{"garbage", []byte("garbage garbage garbage"), 35, ""},

		{"Fetch", frame(kmsg.NewPtrFetchRequest(), 17, 7, false), 42, ""},
		{"Vote", frame(kmsg.NewPtrVoteRequest(), 2, 7, false), 42, ""},
		{"ApiVersions, header version 1", frame(kmsg.NewPtrApiVersionsRequest(), 0, 7, false), 42, ""},
		{"ApiVersions in a version to come", as(18, 9), 42, ""},
		{"BrokerHeartbeat", frame(kmsg.NewPtrBrokerHeartbeatRequest(), 1, 7, false), 42, ""},
		{"ControllerRegistration", frame(kmsg.NewPtrControllerRegistrationRequest(), 0, 7, false), 42, ""},
		{"DescribeCluster", frame(kmsg.NewPtrDescribeClusterRequest(), 1, 7, false), 42, ""},
		{"Metadata, which controllers don't serve", frame(kmsg.NewPtrMetadataRequest(), 12, 7, false), 42, ""},
		{"Envelope", frame(kmsg.NewPtrEnvelopeRequest(), 0, 7, false), 42, ""},
		{"CreateTopics, header version 1; Kafka serves it", frame(kmsg.NewPtrCreateTopicsRequest(), 4, 7, true), 42, ""},
	} {
		q := kmsg.NewPtrEnvelopeRequest()
		q.RequestData = test.inner
		resp, err := client.Do(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		e := resp.(*kmsg.EnvelopeResponse)
		if e.ErrorCode != test.code || hex.EncodeToString(e.ResponseData) != test.want || (e.ResponseData == nil) != (test.want == "") {
			t.Errorf("%s: error %d, %x\nwant  %d, %s", test.reason, e.ErrorCode, e.ResponseData, test.code, test.want)
		}
	}
	for version := int16(0); version < 3; version++ {
		q := kmsg.NewPtrEnvelopeRequest()
		q.RequestData = frame(describeMetadataQuorum(), version, 8, version == 2)
		resp, err := client.Do(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		e := resp.(*kmsg.EnvelopeResponse)
		inner := kmsg.NewPtrDescribeQuorumResponse()
		inner.Version = version
		header, body := e.ResponseData[:min(5, len(e.ResponseData))], e.ResponseData[min(5, len(e.ResponseData)):]
		if err := inner.ReadFrom(body); err != nil || !bytes.Equal(header, []byte{0, 0, 0, 8, 0}) || inner.Topics[0].Partitions[0].LeaderID != 1 {
			t.Errorf("DescribeQuorum v%d: %v, %+v, %x", version, err, inner, e.ResponseData)
		}
	}
}
