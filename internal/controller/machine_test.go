package controller

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// machine drives a Controller with requests, time, appends that come too late, and changes of the leader. All that it
// appends is kept as bytes; an image that replays them is the judge of the speculative one.
type machine struct {
	c     *Controller
	cfg   Config
	now   raft.Millis
	epoch raft.Epoch
	log   [][]byte // by offset

	contacts map[contact]raft.Millis // the last heartbeat of an id and epoch that was accepted, or a new leader's start
	told     map[contact]bool        // the last one was answered with the permission to go
	epochs   map[int32]int64         // the highest epoch that a broker had
	level    features.MetadataVersion
	withELR  bool
}

type contact struct {
	id    int32
	epoch int64
}

func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{
			cfg:      Config{NodeID: 100, ClusterID: "the id", SessionTimeoutMillis: 800, MinInSyncReplicas: "1"},
			contacts: map[contact]raft.Millis{}, told: map[contact]bool{}, epochs: map[int32]int64{},
			level: rapid.SampledFrom([]features.MetadataVersion{11, 12, 17, 33, 35}).Draw(t, "level"),
		}
		m.withELR = m.level >= eligibleReplicas && rapid.Bool().Draw(t, "elr")
		m.c = New(m.cfg, metadata.NewImage(), m.epoch, m.now, false)
		boot := []record.Record{feature("metadata.version", int64(m.level)), feature("kraft.version", 1)}
		if m.withELR {
			boot = append(boot, feature(elrVersion, 1))
		}
		appends, err := m.c.Activate(Bootstrap{Records: boot})
		if err != nil {
			t.Fatal(err)
		}
		for _, records := range appends {
			m.append(t, records)
		}
		t.Repeat(map[string]func(*rapid.T){
			"registers":   m.register,
			"heartbeats":  m.heartbeat,
			"heartbeats2": m.heartbeat, // more often than the others
			"unregister":  m.unregister,
			"controller":  m.controller,
			"time":        m.time,
			"topic":       m.topic,
			"isr":         m.growISR,
			"leader":      m.failover,
			"":            m.check,
		})
	})
}

func (m *machine) next() raft.Offset { return raft.Offset(len(m.log)) }

func (m *machine) append(t *rapid.T, records []record.Record) {
	if err := m.c.Appended(m.next(), records); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		value, err := r.AppendValue(nil)
		if err != nil {
			t.Fatal(err)
		}
		m.log = append(m.log, value)
	}
}

// handle lets the Controller decide. Now and then the log has another end, and it is asked again.
func (m *machine) handle(t *rapid.T, q kmsg.Request) kmsg.Response {
	before := snapshot(t, m.c.Image())
	late := rapid.IntRange(0, 5).Draw(t, "too late") == 0
	records, resp := m.c.Handle(m.now, m.next(), q)
	if !bytes.Equal(before, snapshot(t, m.c.Image())) {
		t.Fatalf("Handle has changed the image")
	}
	if late {
		first := len(records)
		m.append(t, []record.Record{record.New(record.NoOp, 0)})
		if records, resp = m.c.Handle(m.now, m.next(), q); len(records) != first {
			t.Fatalf("asked again, it writes %d records instead of %d", len(records), first)
		}
	}
	if code := errorCode(resp); code != none && len(records) > 0 {
		t.Fatalf("error %d and %s", code, texts(records))
	}
	m.append(t, records)
	return resp
}

func errorCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.BrokerRegistrationResponse:
		return r.ErrorCode
	case *kmsg.BrokerHeartbeatResponse:
		return r.ErrorCode
	case *kmsg.UnregisterBrokerResponse:
		return r.ErrorCode
	case *kmsg.ControllerRegistrationResponse:
		return r.ErrorCode
	}
	panic(fmt.Sprintf("%T", resp))
}

func (m *machine) broker(t *rapid.T) int32 { return int32(rapid.IntRange(1, 4).Draw(t, "broker")) }

func (m *machine) register(t *rapid.T) {
	q := registration(m.broker(t), byte(rapid.IntRange(1, 3).Draw(t, "incarnation")))
	q.Version = int16(rapid.IntRange(2, 4).Draw(t, "version"))
	q.LogDirs = [][16]byte{{0: 2, 14: 1, 15: byte(q.BrokerID)}, {0: 2, 14: 2, 15: byte(q.BrokerID)}}
	for _, name := range []string{"kraft.version", elrVersion} {
		q.Features = append(q.Features, kmsg.BrokerRegistrationRequestFeature{Name: name, MaxSupportedVersion: 1})
	}
	old := m.c.Image().Broker(q.BrokerID)
	if old != nil && old.IncarnationID == q.IncarnationID {
		// What a process has lost does not come back to it.
		q.LogDirs = nil
		for _, dir := range old.LogDirs {
			q.LogDirs = append(q.LogDirs, dir)
		}
	}
	if old != nil && rapid.Bool().Draw(t, "clean") {
		q.PreviousBrokerEpoch = old.Epoch
	}
	resp := m.handle(t, q).(*kmsg.BrokerRegistrationResponse)
	b := m.c.Image().Broker(q.BrokerID)

	inTheWay := false
	if old != nil && old.IncarnationID != q.IncarnationID {
		key := contact{old.ID, old.Epoch}
		at, ok := m.contacts[key]
		inTheWay = ok && m.now-at <= m.cfg.SessionTimeoutMillis && !m.told[key]
	}
	switch {
	case inTheWay != (resp.ErrorCode == duplicateBrokerRegistration):
		t.Fatalf("broker %d: error %d; a live session of another incarnation: %v", q.BrokerID, resp.ErrorCode, inTheWay)
	case resp.ErrorCode != none && !inTheWay:
		t.Fatalf("broker %d: error %d", q.BrokerID, resp.ErrorCode)
	case resp.ErrorCode != none:
		return
	}
	same := old != nil && old.IncarnationID == q.IncarnationID
	if b == nil || b.Epoch != resp.BrokerEpoch || b.IncarnationID != q.IncarnationID {
		t.Fatalf("registered with the epoch %d: %+v", resp.BrokerEpoch, b)
	}
	if same && (b.Epoch != old.Epoch || b.Fenced != old.Fenced) || !same && (b.Epoch <= m.epochs[b.ID] || !b.Fenced) {
		t.Fatalf("before %+v, the highest epoch %d, now %+v", old, m.epochs[b.ID], b)
	}
	m.epochs[b.ID] = b.Epoch
}

func (m *machine) heartbeat(t *rapid.T) {
	id := m.broker(t)
	q := heartbeat(id, rapid.SampledFrom([]int64{0, m.epochs[id]}).Draw(t, "epoch"))
	if rapid.Bool().Draw(t, "current") {
		q.BrokerEpoch = m.epochs[id]
	}
	q.CurrentMetadataOffset = int64(rapid.IntRange(-1, len(m.log)).Draw(t, "offset"))
	if rapid.Bool().Draw(t, "caught up") {
		q.CurrentMetadataOffset = int64(len(m.log)) - 1
	}
	q.WantFence = rapid.IntRange(0, 4).Draw(t, "fence") == 0
	q.WantShutdown = rapid.IntRange(0, 4).Draw(t, "shutdown") == 0
	if rapid.IntRange(0, 6).Draw(t, "loses a directory") == 0 {
		q.OfflineLogDirs = [][16]byte{{0: 2, 14: 1, 15: byte(id)}}
	}
	if rapid.Bool().Draw(t, "says what is cordoned") {
		q.CordonedLogDirs = [][16]byte{{0: 2, 14: 2, 15: byte(id)}}
	}
	old := m.c.Image().Broker(id)
	resp := m.handle(t, q).(*kmsg.BrokerHeartbeatResponse)
	b := m.c.Image().Broker(id)
	if valid := old != nil && old.Epoch == q.BrokerEpoch; valid != (resp.ErrorCode == none) {
		t.Fatalf("%+v gets %+v of %+v", q, resp, old)
	} else if !valid {
		return
	}
	key := contact{id, q.BrokerEpoch}
	m.contacts[key], m.told[key] = m.now, resp.ShouldShutdown
	if resp.IsFenced != b.Fenced || resp.ShouldShutdown && !b.Fenced {
		t.Fatalf("answered %+v, and it is %+v", resp, b)
	}
	if !b.Fenced && old.Fenced && (!resp.IsCaughtUp || q.WantFence) {
		t.Fatalf("unfenced by %+v, answered %+v", q, resp)
	}
	if resp.ShouldShutdown && leads(m.c.Image(), id) {
		t.Fatal("may go, and leads")
	}
}

func (m *machine) unregister(t *rapid.T) {
	q := kmsg.NewPtrUnregisterBrokerRequest()
	q.BrokerID = m.broker(t)
	known := m.c.Image().Broker(q.BrokerID) != nil
	code := m.handle(t, q).(*kmsg.UnregisterBrokerResponse).ErrorCode
	if known != (code == none) || m.c.Image().Broker(q.BrokerID) != nil {
		t.Fatalf("registered %v, error %d", known, code)
	}
}

func (m *machine) controller(t *rapid.T) {
	if m.level < controllerRegistration {
		return
	}
	q := kmsg.NewPtrControllerRegistrationRequest()
	q.ControllerID = m.broker(t)
	q.IncarnationID = [16]byte{15: byte(q.ControllerID)}
	if m.handle(t, q); m.c.Image().Controller(q.ControllerID).IncarnationID != q.IncarnationID {
		t.Fatal("not registered")
	}
}

// time passes, with Ticks when they are due.
func (m *machine) time(t *rapid.T) {
	end := m.now + raft.Millis(rapid.IntRange(0, 1200).Draw(t, "ms"))
	for m.c.Deadline() <= end {
		m.now = max(m.now, m.c.Deadline())
		for _, r := range m.c.Tick(m.now, m.next()) {
			m.append(t, []record.Record{r})
		}
		if m.c.Deadline() <= m.now {
			t.Fatalf("at %d the deadline is %d", m.now, m.c.Deadline())
		}
	}
	m.now = end
}

// topic creates a topic of one partition, as a controller before this one did.
func (m *machine) topic(t *rapid.T) {
	var isr []int32
	for _, b := range m.c.Image().Brokers() {
		if d := m.c.draft(0); d.active(b.ID, uuid.Nil) && rapid.Bool().Draw(t, "replica") {
			isr = append(isr, b.ID)
		}
	}
	id := uuid.UUID{0: 9, 14: byte(len(m.log) >> 8), 15: byte(len(m.log))}
	name := fmt.Sprint("t", len(m.log))
	if len(isr) == 0 || m.c.Image().TopicName(id) != "" {
		return
	}
	topic := record.New(record.Topic, 0)
	topic.SetText("Name", name)
	topic.SetUUID("TopicId", id)
	config := record.New(record.Config, 0)
	config.SetInt("ResourceType", int64(metadata.TopicConfig))
	config.SetText("ResourceName", name)
	config.SetText("Name", minInSyncReplicas)
	config.SetText("Value", rapid.SampledFrom([]string{"1", "2"}).Draw(t, "min"))
	p := record.New(record.Partition, partitionChangeVersion(m.level))
	p.SetInt("PartitionId", 0)
	p.SetUUID("TopicId", id)
	p.SetInt32s("Replicas", isr)
	p.SetInt32s("Isr", isr)
	p.SetInt("Leader", int64(isr[0]))
	p.SetInt("LeaderEpoch", 0)
	p.SetInt("PartitionEpoch", 0)
	var dirs []uuid.UUID
	for _, b := range isr {
		if m.level < directoryAssignment {
			break
		}
		all := m.c.Image().Broker(b).LogDirs
		dirs = append(dirs, all[rapid.IntRange(0, len(all)-1).Draw(t, "directory")])
	}
	if dirs != nil {
		p.SetUUIDs("Directories", dirs)
	}
	m.append(t, []record.Record{topic, config, p})
}

// growISR takes active replicas back into an ISR, as leaders do.
func (m *machine) growISR(t *rapid.T) {
	for _, b := range m.c.Image().Brokers() {
		for _, p := range partitionsOn(m.c.Image(), b.ID) {
			if p.leader != b.ID {
				continue
			}
			var isr []int32
			for _, other := range p.replicas {
				if m.c.draft(0).active(other, p.directory(other)) {
					isr = append(isr, other)
				}
			}
			r := record.New(record.PartitionChange, partitionChangeVersion(m.level))
			r.SetInt("PartitionId", int64(p.id))
			r.SetUUID("TopicId", p.topic)
			r.SetInt32s("Isr", isr)
			if m.withELR {
				r.SetInt32s("EligibleLeaderReplicas", nil)
			}
			m.append(t, []record.Record{r})
		}
	}
}

func partitionsOn(image *metadata.Image, broker int32) (list []partition) {
	for r := range image.Partitions(broker) {
		list = append(list, partitionOf(r))
	}
	return list
}

func (m *machine) failover(t *rapid.T) {
	m.epoch++
	m.c = New(m.cfg, m.replayed(t), m.epoch, m.now, false)
	m.contacts, m.told = map[contact]raft.Millis{}, map[contact]bool{}
	for _, b := range m.c.Image().Brokers() {
		if !b.Fenced {
			m.contacts[contact{b.ID, b.Epoch}] = m.now
		}
	}
}

func (m *machine) replayed(t *rapid.T) *metadata.Image {
	image := metadata.NewImage()
	for offset, value := range m.log {
		r, err := record.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := image.Replay(r, raft.Offset(offset)); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

func snapshot(t *rapid.T, image *metadata.Image) []byte {
	var b bytes.Buffer
	w, err := checkpoint.NewWriter(&b, checkpoint.Header{})
	if err == nil {
		err = image.WriteSnapshot(w)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (m *machine) check(t *rapid.T) {
	image := m.replayed(t)
	if !bytes.Equal(snapshot(t, image), snapshot(t, m.c.Image())) {
		t.Fatal("the speculative image is not what the log gives")
	}
	if err := image.Check(); err != nil {
		t.Fatal(err)
	}
	slack := m.cfg.SessionTimeoutMillis/fenceEvery + 4*fenceNextMillis
	for _, b := range image.Brokers() {
		at, ok := m.contacts[contact{b.ID, b.Epoch}]
		if !b.Fenced && (!ok || m.now-at > m.cfg.SessionTimeoutMillis+slack) {
			t.Fatalf("broker %d is not fenced; last contact %d, now %d", b.ID, at, m.now)
		}
		for _, p := range partitionsOn(image, b.ID) {
			m.checkPartition(t, image, &p)
		}
	}
}

func (m *machine) checkPartition(t *rapid.T, image *metadata.Image, p *partition) {
	d := m.c.draft(0)
	active := func(b int32) bool { return d.active(b, p.directory(b)) }
	for _, b := range p.isr {
		if !slices.Contains(p.replicas, b) || slices.Contains(p.elr, b) || image.Broker(b) != nil && !active(b) && (m.withELR || len(p.isr) > 1) {
			t.Fatalf("broker %d in the ISR of %+v", b, p)
		}
	}
	switch {
	case p.leader != nobody && (!active(p.leader) || !slices.Contains(p.isr, p.leader)):
		t.Fatalf("the leader of %+v", p)
	case p.leader == nobody && first(slices.Concat(p.isr, p.elr), active) != nobody:
		t.Fatalf("no leader of %+v", p)
	case !m.withELR && (len(p.isr) == 0 || len(p.elr) > 0):
		t.Fatalf("without eligible leader replicas: %+v", p)
	case len(p.isr) >= min(d.minInSync(p.topic), len(p.replicas)) && len(p.elr) > 0:
		t.Fatalf("more than is needed: %+v", p)
	}
}
