package controller

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

const testTimeout raft.Millis = 9000

// world is a Controller with a log that takes all.
type world struct {
	t   testing.TB
	c   *Controller
	end raft.Offset
	now raft.Millis
}

func newWorld(t testing.TB, levels ...record.Record) *world {
	w := &world{t: t, c: New(Config{NodeID: 100, ClusterID: "the id", SessionTimeoutMillis: testTimeout, MinInSyncReplicas: "1"}, imageOf(t, levels...), 1, 0, false)}
	w.end = w.c.Image().Offset + 1
	return w
}

func (w *world) append(records []record.Record) {
	w.t.Helper()
	if err := w.c.Appended(w.end, records); err != nil {
		w.t.Fatal(err)
	}
	w.end += raft.Offset(len(records))
}

func (w *world) handle(q kmsg.Request) kmsg.Response {
	w.t.Helper()
	records, resp := w.c.Handle(w.now, w.end, q)
	w.append(records)
	return resp
}

func (w *world) tick() []record.Record {
	w.t.Helper()
	records := w.c.Tick(w.now, w.end)
	w.append(records)
	return records
}

func registration(id int32, incarnation byte) *kmsg.BrokerRegistrationRequest {
	q := kmsg.NewPtrBrokerRegistrationRequest()
	q.Version = 4
	q.BrokerID, q.ClusterID, q.PreviousBrokerEpoch = id, "the id", -1
	q.IncarnationID = [16]byte{0: 1, 15: incarnation}
	q.Listeners = []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "b", Port: 9092}}
	q.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: "metadata.version", MinSupportedVersion: 7, MaxSupportedVersion: 35}}
	q.LogDirs = [][16]byte{{0: 2, 15: byte(id)}}
	return q
}

func heartbeat(id int32, epoch int64) *kmsg.BrokerHeartbeatRequest {
	q := kmsg.NewPtrBrokerHeartbeatRequest()
	q.Version = 2
	q.BrokerID, q.BrokerEpoch, q.CurrentMetadataOffset = id, epoch, 1<<40
	return q
}

func (w *world) register(id int32, incarnation byte) (epoch int64, code int16) {
	w.t.Helper()
	resp := w.handle(registration(id, incarnation)).(*kmsg.BrokerRegistrationResponse)
	return resp.BrokerEpoch, resp.ErrorCode
}

func (w *world) beat(q *kmsg.BrokerHeartbeatRequest) *kmsg.BrokerHeartbeatResponse {
	w.t.Helper()
	return w.handle(q).(*kmsg.BrokerHeartbeatResponse)
}

// TestRegistrationRefused has what the recordings have not: a finalized kraft.version (answers of a real 4.4.0), and
// what the real one does not survive.
func TestRegistrationRefused(t *testing.T) {
	type request = *kmsg.BrokerRegistrationRequest
	kraft := func(min, max int16) func(request) {
		return func(q request) {
			q.Features = append(q.Features, kmsg.BrokerRegistrationRequestFeature{Name: "kraft.version", MinSupportedVersion: min, MaxSupportedVersion: max})
		}
	}
	listener := func(name, host string, port uint16, protocol int16) func(request) {
		return func(q request) {
			q.Listeners = append(q.Listeners, kmsg.BrokerRegistrationRequestListener{Name: name, Host: host, Port: port, SecurityProtocol: protocol})
		}
	}
	for _, test := range []struct {
		reason string
		kraft  int16
		change func(request)
		want   int16
	}{
		{"kraft.version 0 may be left out", 0, func(request) {}, none},
		{"kraft.version 1 may not", 1, func(request) {}, unsupportedVersion},
		{"kraft.version 1 is in the range", 1, kraft(0, 1), none},
		{"kraft.version 1 is above the range", 1, kraft(0, 0), unsupportedVersion},
		{"kraft.version 0 is below the range", 0, kraft(1, 1), unsupportedVersion},
		{"two listeners", 0, listener("SSL", "b", 1, 1), none},
		{"the same listener twice", 0, listener("PLAINTEXT", "b", 1, 1), invalidRegistration},
		{"no host", 0, listener("SSL", "", 1, 1), invalidRegistration},
		{"no port", 0, listener("SSL", "b", 0, 1), invalidRegistration},
		{"no such security protocol", 0, listener("SSL", "b", 1, 4), invalidRegistration},
		{"a negative security protocol", 0, listener("SSL", "b", 1, -1), invalidRegistration},
		{"another cluster", 0, func(q request) { q.ClusterID = "The id" }, inconsistentClusterID},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, feature("metadata.version", 33))
			w.c.SetQuorum(test.kraft, nil)
			q := registration(1, 1)
			test.change(q)
			resp := w.handle(q).(*kmsg.BrokerRegistrationResponse)
			if resp.ErrorCode != test.want {
				t.Errorf("error %d, want %d", resp.ErrorCode, test.want)
			}
			if registered := w.c.Image().Broker(1) != nil; registered != (test.want == none) {
				t.Errorf("registered: %v", registered)
			}
		})
	}
}

func TestClusterID(t *testing.T) {
	w := newWorld(t, feature("metadata.version", 35), clusterID("of the log"))
	w.c.cfg.ClusterID = ""
	q := registration(1, 1)
	for id, want := range map[string]int16{"": inconsistentClusterID, "the id": inconsistentClusterID, "of the log": none} {
		q.ClusterID = id
		if _, resp := w.c.Handle(0, w.end, q); resp.(*kmsg.BrokerRegistrationResponse).ErrorCode != want {
			t.Errorf("cluster id %q: %+v", id, resp)
		}
	}
	w = newWorld(t, feature("metadata.version", 33))
	w.c.cfg.ClusterID, q.ClusterID = "", ""
	if _, resp := w.c.Handle(0, w.end, q); resp.(*kmsg.BrokerRegistrationResponse).ErrorCode != inconsistentClusterID {
		t.Errorf("nobody knows the id: %+v", resp)
	}
}

func TestControllerWithoutEndpoint(t *testing.T) {
	w := newWorld(t, feature("metadata.version", 33))
	q := kmsg.NewPtrControllerRegistrationRequest()
	q.Listeners = []kmsg.ControllerRegistrationRequestListener{{Name: "CONTROLLER", Host: "c"}}
	if resp := w.handle(q).(*kmsg.ControllerRegistrationResponse); resp.ErrorCode != invalidRequest || resp.ErrorMessage == nil {
		t.Errorf("%+v", resp)
	}
	if len(w.c.Image().Controllers()) != 0 {
		t.Error("registered")
	}
}

func TestUnknownRequest(t *testing.T) {
	if records, resp := newWorld(t).c.Handle(0, 0, kmsg.NewPtrMetadataRequest()); records != nil || resp != nil {
		t.Errorf("%v, %v", records, resp)
	}
}

// TestRestartAfterShutdown is a broker that shuts down and comes back at once.
func TestRestartAfterShutdown(t *testing.T) {
	w := newWorld(t, feature("metadata.version", 33))
	epoch, _ := w.register(1, 1)
	w.beat(heartbeat(1, epoch))
	if _, code := w.register(1, 2); code != duplicateBrokerRegistration {
		t.Fatalf("it lives, and another one gets %d", code)
	}
	q := heartbeat(1, epoch)
	q.WantShutdown = true
	if resp := w.beat(q); !resp.ShouldShutdown || !resp.IsFenced {
		t.Fatalf("%+v", resp)
	}
	if _, code := w.register(1, 2); code != none {
		t.Errorf("it is gone, and the next one gets %d", code)
	}

	// One that thinks better of it is in the way again.
	w = newWorld(t, feature("metadata.version", 33))
	epoch, _ = w.register(1, 1)
	q.BrokerEpoch = epoch
	w.beat(q)
	w.beat(heartbeat(1, epoch))
	if _, code := w.register(1, 2); code != duplicateBrokerRegistration {
		t.Errorf("it lives, and another one gets %d", code)
	}
}

func TestSessionsOfAnotherLeader(t *testing.T) {
	old := newWorld(t, feature("metadata.version", 33))
	fenced, _ := old.register(1, 1)
	unfenced, _ := old.register(2, 1)
	old.beat(heartbeat(2, unfenced))

	w := &world{t: t, now: 50_000, end: old.end}
	w.c = New(old.c.cfg, old.c.Image().Clone(), 2, w.now, false)
	if _, code := w.register(1, 2); code != none {
		t.Errorf("broker 1 was fenced, and the next one gets %d", code)
	}
	if _, code := w.register(2, 2); code != duplicateBrokerRegistration {
		t.Errorf("broker 2 was not fenced, and another one gets %d", code)
	}
	if resp := w.beat(heartbeat(1, fenced)); resp.ErrorCode != staleBrokerEpoch {
		t.Errorf("old epoch: %+v", resp)
	}
	w.now += testTimeout
	if r := w.tick(); r != nil {
		t.Errorf("fenced in time: %s", texts(r))
	}
	w.now++
	if w.now < w.c.Deadline() {
		w.now = w.c.Deadline()
	}
	if r := w.tick(); len(r) != 1 || !w.c.Image().Broker(2).Fenced {
		t.Errorf("not fenced: %s", texts(r))
	}
	if _, code := w.register(2, 2); code != none {
		t.Errorf("broker 2 is gone, and the next one gets %d", code)
	}
}

func TestFencedOneByOne(t *testing.T) {
	w := newWorld(t, feature("metadata.version", 33))
	for id := int32(5); id > 0; id-- {
		epoch, _ := w.register(id, 1)
		w.beat(heartbeat(id, epoch))
		w.now++
	}
	w.now += testTimeout
	var order []int64
	for len(order) < 5 {
		for _, r := range w.tick() {
			order = append(order, r.Int("BrokerId"))
		}
		if at := w.c.Deadline(); at > w.now+fenceNextMillis && len(order) < 5 {
			t.Fatalf("after %v the next look is in %d ms", order, at-w.now)
		}
		w.now = w.c.Deadline()
	}
	if want := []int64{5, 4, 3, 2, 1}; !slices.Equal(order, want) {
		t.Errorf("fenced %v, want %v: silent for longest first", order, want)
	}
	w.tick()
	if len(w.c.sessions) != 0 {
		t.Errorf("%d sessions of fenced brokers left", len(w.c.sessions))
	}
	if r := w.tick(); r != nil {
		t.Errorf("fenced again: %s", texts(r))
	}
}

func TestNoOp(t *testing.T) {
	cfg := Config{SessionTimeoutMillis: testTimeout, MaxIdleIntervalMillis: 500}
	c := New(cfg, metadata.NewImage(), 1, 10_000, false)
	written := 0
	for now := raft.Millis(10_000); now < 20_000; now = c.Deadline() {
		for _, r := range c.Tick(now, 0) {
			if r.Message != record.NoOp || now != 10_500+500*raft.Millis(written) {
				t.Errorf("%s at %d", r.Message.Name, now)
			}
			written++
		}
	}
	if written != 19 {
		t.Errorf("%d written", written)
	}
	cfg.MaxIdleIntervalMillis = 0
	c = New(cfg, metadata.NewImage(), 1, 0, false)
	for now := raft.Millis(0); now < 10_000; now = c.Deadline() {
		if r := c.Tick(now, 0); r != nil {
			t.Errorf("switched off: %s", texts(r))
		}
	}
}

func TestAppendedForeignRecord(t *testing.T) {
	r := record.New(record.UnregisterBroker, 0)
	if err := newWorld(t).c.Appended(7, []record.Record{r}); err == nil {
		t.Error("a broker that isn't there was unregistered")
	}
}

// TestSameDirectoryAfterUnregistration: a log directory is free when its broker is.
func TestSameDirectoryAfterUnregistration(t *testing.T) {
	w := newWorld(t, feature("metadata.version", 33))
	w.register(1, 1)
	q := registration(2, 1)
	q.LogDirs = registration(1, 1).LogDirs
	if resp := w.handle(q).(*kmsg.BrokerRegistrationResponse); resp.ErrorCode != invalidRegistration {
		t.Errorf("%+v", resp)
	}
	u := kmsg.NewPtrUnregisterBrokerRequest()
	u.BrokerID = 1
	w.handle(u)
	if resp := w.handle(q).(*kmsg.BrokerRegistrationResponse); resp.ErrorCode != none {
		t.Errorf("its owner is gone: %+v", resp)
	}
}

// TestHeartbeats has what the recordings have not of controlled shutdowns. Brokers 1 and 2 lead a partition each.
func TestHeartbeats(t *testing.T) {
	type beat struct {
		broker         int32
		behind         bool // has read its registration only
		fence, down    bool
		fenced, mayGo  bool // wanted
		failoverBefore bool
	}
	for _, test := range []struct {
		reason string
		beats  []beat
	}{
		{"brokers that shut down don't wait for each other", []beat{
			{broker: 1, behind: true, down: true}, {broker: 2, behind: true, down: true}, {broker: 3}, {broker: 1, behind: true, down: true, fenced: true, mayGo: true},
		}},
		{"the others have to read of it", []beat{
			{broker: 1, down: true}, {broker: 2}, {broker: 1, down: true}, {broker: 3}, {broker: 1, down: true, fenced: true, mayGo: true},
		}},
		{"a fenced broker need not", []beat{
			{broker: 3, behind: true, fence: true, fenced: true}, {broker: 1, down: true}, {broker: 2}, {broker: 1, down: true, fenced: true, mayGo: true},
		}},
		{"fenced after a shutdown, it starts anew", []beat{
			{broker: 1, down: true}, {broker: 2}, {broker: 3}, {broker: 1, down: true, fenced: true, mayGo: true},
			{broker: 1}, {broker: 1}, {broker: 1, fence: true, fenced: true},
		}},
		{"a new leader has not seen the shutdown begin, but nothing is led", []beat{
			{broker: 1, down: true}, {broker: 1, down: true, failoverBefore: true, fenced: true, mayGo: true},
		}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, feature("metadata.version", 33))
			epochs := map[int32]int64{}
			for id := int32(1); id <= 3; id++ {
				epochs[id], _ = w.register(id, 1)
				w.beat(heartbeat(id, epochs[id]))
			}
			w.append(topicOf(1, 2, 3))
			w.append(topicOf(2, 1, 3))
			for id := int32(1); id <= 3; id++ {
				q := heartbeat(id, epochs[id])
				q.CurrentMetadataOffset = epochs[id]
				w.beat(q)
			}
			for i, b := range test.beats {
				if b.failoverBefore {
					w.c = New(w.c.cfg, w.c.Image().Clone(), 2, w.now, false)
				}
				q := heartbeat(b.broker, epochs[b.broker])
				q.WantFence, q.WantShutdown = b.fence, b.down
				if b.behind {
					q.CurrentMetadataOffset = epochs[b.broker]
				}
				if resp := w.beat(q); resp.ErrorCode != none || resp.IsFenced != b.fenced || resp.ShouldShutdown != b.mayGo {
					t.Fatalf("heartbeat %d: %+v", i, resp)
				}
			}
		})
	}
}

// topicOf returns the records of a topic with one partition.
func topicOf(replicas ...int32) []record.Record {
	topic := record.New(record.Topic, 0)
	topic.SetText("Name", "t")
	id := uuid.UUID{0: byte(replicas[0]), 1: 1}
	topic.SetUUID("TopicId", id)
	p := record.New(record.Partition, 2)
	p.SetInt("PartitionId", 0)
	p.SetUUID("TopicId", id)
	p.SetInt32s("Replicas", replicas)
	p.SetInt32s("Isr", replicas)
	p.SetInt("Leader", int64(replicas[0]))
	p.SetInt("LeaderEpoch", 0)
	p.SetInt("PartitionEpoch", 0)
	p.SetUUIDs("Directories", make([]uuid.UUID, len(replicas)))
	return []record.Record{topic, p}
}

// TestCaughtUpAfterAnotherRegistration: the same incarnation registers again, and has to read that record too.
func TestCaughtUpAfterAnotherRegistration(t *testing.T) {
	w := newWorld(t, feature("metadata.version", 33))
	epoch, _ := w.register(1, 1)
	again := int64(w.end)
	w.register(1, 1)
	q := heartbeat(1, epoch)
	for offset, want := range map[int64]bool{epoch: false, again - 1: false, again: true} {
		q.CurrentMetadataOffset = offset
		if _, resp := w.c.Handle(w.now, w.end, q); resp.(*kmsg.BrokerHeartbeatResponse).IsCaughtUp != want {
			t.Errorf("offset %d of %d: %+v", offset, again, resp)
		}
	}
}
