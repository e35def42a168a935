package metadata

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// generator draws records that an image takes, of few names and ids, so that they meet.
type generator struct {
	t      *rapid.T
	epochs map[int32]int64 // of registered brokers
	topics map[uuid.UUID][]int32
	acls   map[uuid.UUID]bool
	count  int64
}

func (g *generator) id(max int) int64 { return int64(rapid.IntRange(0, max).Draw(g.t, "id")) }
func (g *generator) name() string     { return rapid.SampledFrom([]string{"a", "b", ""}).Draw(g.t, "name") }
func (g *generator) yes() bool        { return rapid.Bool().Draw(g.t, "yes") }
func (g *generator) uuid() (id uuid.UUID) {
	id[7], id[15] = byte(g.id(3)), byte(200+g.id(1))
	return id
}
func (g *generator) brokers(n int) []int32 {
	return rapid.SliceOfN(rapid.Int32Range(0, 3), n, n).Draw(g.t, "brokers")
}
func (g *generator) uuids(n int) (list []uuid.UUID) {
	for range n {
		list = append(list, g.uuid())
	}
	return list
}

// node fills in the parts that registrations of brokers and controllers share.
func (g *generator) node(r record.Record) {
	r.SetUUID("IncarnationId", g.uuid())
	for range g.id(2) {
		e := r.Add("EndPoints")
		e.SetText("Name", g.name())
		e.SetText("Host", g.name())
		e.SetInt("Port", g.id(65535))
		e.SetInt("SecurityProtocol", g.id(3))
	}
	for range g.id(2) {
		f := r.Add("Features")
		f.SetText("Name", g.name())
		f.SetInt("MaxSupportedVersion", g.id(40))
	}
}

// records draws one record, or none where it would be refused.
func (g *generator) records() []record.Record {
	m := rapid.SampledFrom([]*record.Message{
		record.RegisterBroker, record.UnregisterBroker, record.BrokerRegistrationChange,
		record.FenceBroker, record.UnfenceBroker, record.RegisterController, record.UnregisterController,
		record.Topic, record.RemoveTopic, record.Partition, record.Partition, record.PartitionChange, record.ClearElr,
		record.Config, record.Config, record.FeatureLevel, record.ProducerIds, record.ClientQuota,
		record.AccessControlEntry, record.RemoveAccessControlEntry,
		record.UserScramCredential, record.RemoveUserScramCredential,
		record.DelegationToken, record.RemoveDelegationToken, record.NoOp,
	}).Draw(g.t, "message")
	r := record.New(m, m.Latest)
	broker := int32(g.id(3))
	epoch, registered := g.epochs[broker]
	g.count++
	switch m {
	case record.RegisterBroker:
		r.SetInt("BrokerId", int64(broker))
		r.SetInt("BrokerEpoch", g.count)
		g.node(r)
		if g.yes() {
			r.SetNull("Rack")
		}
		r.SetBool("InControlledShutdown", g.yes())
		r.SetBool("IsMigratingZkBroker", g.yes())
		r.SetUUIDs("LogDirs", g.uuids(int(g.id(3))))
		if g.yes() {
			r.SetUUIDs("CordonedLogDirs", g.uuids(int(g.id(2))))
		}
		g.epochs[broker] = g.count
	case record.UnregisterBroker, record.BrokerRegistrationChange:
		r.SetInt("BrokerId", int64(broker))
		r.SetInt("BrokerEpoch", epoch)
		if !registered {
			return nil
		}
		if m == record.UnregisterBroker {
			delete(g.epochs, broker)
			break
		}
		r.SetInt("Fenced", g.id(2)-1)
		r.SetInt("InControlledShutdown", g.id(1))
		if g.yes() {
			r.SetUUIDs("LogDirs", g.uuids(2))
			r.SetUUIDs("CordonedLogDirs", g.uuids(int(g.id(2))))
		}
	case record.FenceBroker, record.UnfenceBroker:
		r.SetInt("Id", int64(broker))
		r.SetInt("Epoch", epoch)
		if !registered {
			return nil
		}
	case record.RegisterController:
		r.SetInt("ControllerId", g.id(3))
		g.node(r)
	case record.UnregisterController:
		r.SetInt("ControllerId", g.id(3))
	case record.Topic:
		id := g.uuid()
		r.SetUUID("TopicId", id)
		r.SetText("Name", fmt.Sprint("t", id[15]%2)) // also two topics of one name
		g.topics[id] = nil
	case record.RemoveTopic:
		id := g.uuid()
		r.SetUUID("TopicId", id)
		if _, ok := g.topics[id]; !ok {
			return nil
		}
		delete(g.topics, id)
	case record.Partition, record.PartitionChange:
		id, partition, n := g.uuid(), int32(g.id(4)), int(g.id(3))
		partitions, ok := g.topics[id]
		if !ok || m == record.PartitionChange && len(partitions) == 0 {
			return nil
		}
		if m == record.PartitionChange {
			partition = rapid.SampledFrom(partitions).Draw(g.t, "partition")
		} else {
			g.topics[id] = append(partitions, partition)
		}
		r.SetInt("PartitionId", int64(partition))
		r.SetUUID("TopicId", id)
		r.SetInt("Leader", g.id(3)-2)
		if g.yes() {
			r.SetInt32s("Replicas", g.brokers(n))
			if g.yes() {
				r.SetUUIDs("Directories", g.uuids(n))
			}
		}
		if g.yes() {
			r.SetInt32s("Isr", g.brokers(1))
			r.SetInt32s("EligibleLeaderReplicas", g.brokers(int(g.id(1))))
			r.SetInt("LeaderRecoveryState", g.id(1))
		}
	case record.ClearElr:
		if len(g.topics) == 0 || g.yes() {
			break
		}
		for _, id := range []byte{200, 201} {
			for t := range g.topics {
				if t[15] == id {
					r.SetText("TopicName", fmt.Sprint("t", id%2))
					return []record.Record{r}
				}
			}
		}
	case record.Config:
		r.SetInt("ResourceType", 2*g.id(2))
		r.SetText("ResourceName", rapid.SampledFrom([]string{"", "t0", "t1"}).Draw(g.t, "resource"))
		r.SetText("Name", g.name())
		r.SetText("Value", g.name())
		if g.yes() {
			r.SetNull("Value")
		}
	case record.FeatureLevel:
		names := []string{"group.version", "eligible.leader.replicas.version", "kraft.version"}
		r.SetText("Name", rapid.SampledFrom(names).Draw(g.t, "feature"))
		r.SetInt("FeatureLevel", g.id(2))
	case record.ProducerIds:
		r.SetInt("NextProducerId", g.count)
	case record.ClientQuota:
		for _, entity := range []string{"user", "client-id"} {
			if g.yes() {
				e := r.Add("Entity")
				e.SetText("EntityType", entity)
				if e.SetText("EntityName", g.name()); g.yes() {
					e.SetNull("EntityName")
				}
			}
		}
		r.SetText("Key", g.name())
		r.SetFloat("Value", float64(g.count))
		r.SetBool("Remove", g.yes())
	case record.AccessControlEntry:
		id := g.uuid()
		r.SetUUID("Id", id)
		r.SetText("Principal", g.name())
		g.acls[id] = true
	case record.RemoveAccessControlEntry:
		id := g.uuid()
		r.SetUUID("Id", id)
		if !g.acls[id] {
			return nil
		}
		delete(g.acls, id)
	case record.UserScramCredential, record.RemoveUserScramCredential:
		r.SetText("Name", g.name())
		r.SetInt("Mechanism", 1+g.id(1))
	case record.DelegationToken, record.RemoveDelegationToken:
		r.SetText("TokenId", g.name())
	}
	return []record.Record{r}
}

// plain returns an image without what doesn't count: who owns parts of it.
func plain(i *Image) *Image {
	p := i.Clone()
	p.owner, p.topics.byID.owner, p.configs.owner = nil, nil, nil
	p.topics.byID.rows = map[uuid.UUID]*topic{}
	for id, t := range i.topics.byID.rows {
		p.topics.byID.rows[id] = &topic{id: t.id, name: t.name, partitions: append([]partition{}, t.partitions...)}
	}
	p.configs.rows = map[configResource]map[string]string{}
	for k, v := range i.configs.rows {
		p.configs.rows[k] = v
	}
	for k := range p.kept {
		p.kept[k].owner = nil
		p.kept[k].rows = map[string]string{}
		for key, v := range i.kept[k].rows {
			p.kept[k].rows[key] = v
		}
	}
	p.metricsOffset = 0 // a snapshot does not tell
	return p
}

func TestSnapshotGivesTheSameImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{t: t, epochs: map[int32]int64{}, topics: map[uuid.UUID][]int32{}, acls: map[uuid.UUID]bool{}}
		log := &logBuilder{epoch: 3}
		l := newTestLoader()
		replay := func(l *Loader, batch []byte) {
			if err := l.Replay(batch); err != nil {
				t.Fatal(err)
			}
		}
		replay(l, log.batch(version(35), clusterID("x"), feature("eligible.leader.replicas.version", 1)))
		for range rapid.IntRange(0, 60).Draw(t, "records") {
			if records := g.records(); records != nil {
				replay(l, log.batch(records...))
			}
		}
		// Without the feature snapshots leave eligible leader replicas out, as Kafka's do.
		replay(l, log.batch(feature("eligible.leader.replicas.version", 1)))

		before := plain(l.Image())
		file := snapshotOf(t, l.Image())
		if !reflect.DeepEqual(before, plain(l.Image())) {
			t.Fatal("writing a snapshot changes the image")
		}
		again := newTestLoader()
		id := raft.SnapshotID{EndOffset: raft.Offset(log.next), Epoch: 3}
		if err := again.LoadSnapshot(bytes.NewReader(file), "f", id, 0); err != nil {
			t.Fatal(err)
		}
		if got, want := plain(again.Image()), plain(l.Image()); !reflect.DeepEqual(got, want) {
			t.Fatalf("image of the snapshot\n%+v\nimage of the log\n%+v", got, want)
		}
		if !bytes.Equal(snapshotOf(t, again.Image()), file) {
			t.Fatal("the snapshot's image has another snapshot")
		}

		// A clone and its origin don't see what the other does.
		clone := l.Image().Clone()
		seen := plain(clone)
		for range rapid.IntRange(0, 20).Draw(t, "more") {
			if records := g.records(); records != nil {
				replay(l, log.batch(records...))
			}
		}
		if !reflect.DeepEqual(seen, plain(clone)) {
			t.Fatal("a change of the image shows in its clone")
		}
		changed := plain(l.Image())
		for _, r := range []record.Record{config("z", "z"), version(33)} {
			if err := clone.Replay(r, 0); err != nil {
				t.Fatal(err)
			}
		}
		for id := range clone.topics.byID.rows {
			r := record.New(record.RemoveTopic, 0)
			r.SetUUID("TopicId", id)
			if err := clone.Replay(r, 0); err != nil {
				t.Fatal(err)
			}
		}
		if len(clone.topics.brokerReplicas) != 0 {
			t.Fatalf("replicas of no topic: %v", clone.topics.brokerReplicas)
		}
		if !reflect.DeepEqual(changed, plain(l.Image())) {
			t.Fatal("a change of the clone shows in the image")
		}
	})
}
