package controller

import (
	"slices"
	"strconv"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// nobody leads a partition without a leader.
const nobody int32 = -1

// partition is the state of a partition.
type partition struct {
	topic       uuid.UUID
	id          int32
	replicas    []int32
	directories []uuid.UUID // of the replicas
	isr         []int32
	elr         []int32 // eligible leader replicas: out of the ISR, but with all that is committed (KIP-966)
	lastKnown   []int32 // the last leader, while there is none
	leader      int32
	recovering  bool // the leader was elected though it may have lost records
}

func partitionOf(r record.Record) partition {
	return partition{
		topic:       r.UUID("TopicId"),
		id:          int32(r.Int("PartitionId")),
		replicas:    r.Int32s("Replicas"),
		directories: r.UUIDs("Directories"),
		isr:         r.Int32s("Isr"),
		elr:         r.Int32s("EligibleLeaderReplicas"),
		lastKnown:   r.Int32s("LastKnownElr"),
		leader:      int32(r.Int("Leader")),
		recovering:  r.Int("LeaderRecoveryState") == 1,
	}
}

// directory returns where the replica of a broker is.
func (p *partition) directory(broker int32) uuid.UUID {
	if i := slices.Index(p.replicas, broker); i >= 0 && i < len(p.directories) {
		return p.directories[i]
	}
	return uuid.Nil
}

// leads reports whether a broker leads a partition.
func leads(image *metadata.Image, broker int32) bool {
	for r := range image.Partitions(broker) {
		if int32(r.Int("Leader")) == broker {
			return true
		}
	}
	return false
}

// leave takes a broker out of the ISRs, of all partitions or of those that it has in lost directories. After an
// unclean restart it may have lost records, so that it is not eligible as a leader either.
func (d *draft) leave(broker int32, lost []uuid.UUID, unclean bool) {
	d.move(broker, broker, unclean, func(p *partition) bool {
		if lost != nil && !slices.Contains(lost, p.directory(broker)) {
			return false
		}
		return slices.Contains(p.isr, broker) || unclean && slices.Contains(p.elr, broker)
	})
}

// lead elects leaders where there are none and a broker has a replica.
func (d *draft) lead(broker int32) {
	d.move(broker, nobody, false, func(p *partition) bool { return p.leader == nobody })
}

// move adds a PartitionChangeRecord for each partition on a broker that is concerned and changes when gone leaves it.
func (d *draft) move(broker, gone int32, unclean bool, concerned func(p *partition) bool) {
	var list []partition
	for r := range d.image.Partitions(broker) {
		if p := partitionOf(r); concerned(&p) {
			list = append(list, p)
		}
	}
	for i := range list {
		if r, ok := d.without(&list[i], gone, unclean); ok {
			d.add(r)
		}
	}
}

// without returns how a partition changes when gone leaves its ISR: the leader stays if it can; else the first replica
// leads that is in the ISR or eligible, and active; else, where the ISR and the eligible are all lost, the last leader
// may come back, and where the topic allows it anyone may lead. What is left of an ISR that would be empty stays
// without eligible leader replicas: then that is who may lead later.
func (d *draft) without(p *partition, gone int32, unclean bool) (record.Record, bool) {
	r := record.New(record.PartitionChange, partitionChangeVersion(d.level))
	r.SetInt("PartitionId", int64(p.id))
	r.SetUUID("TopicId", p.topic)
	changed := false

	withELR := d.level >= eligibleReplicas && d.image.FeatureLevel(elrVersion) > 0
	isr := remove(p.isr, gone)
	var elr []int32
	if withELR && len(isr) < min(d.minInSync(p.topic), len(p.replicas)) {
		for _, b := range union(p.elr, p.isr) {
			if !slices.Contains(isr, b) && !(unclean && b == gone) {
				elr = append(elr, b)
			}
		}
	}

	active := func(b int32) bool { return b != gone && d.active(b, p.directory(b)) }
	eligible := func(b int32) bool { return active(b) && (slices.Contains(isr, b) || slices.Contains(elr, b)) }
	leader, risky := p.leader, false
	if !eligible(leader) {
		leader = first(p.replicas, eligible)
		if leader == nobody && withELR && len(isr)+len(elr) == 0 && len(p.lastKnown) == 1 && active(p.lastKnown[0]) {
			leader, risky = p.lastKnown[0], true
		}
		if leader == nobody && d.uncleanElections(p.topic) {
			leader = first(p.replicas, active)
			risky = leader != nobody
		}
	}
	switch {
	case risky:
		isr, elr = []int32{leader}, nil
		if !p.recovering {
			r.SetInt("LeaderRecoveryState", 1)
		}
	case leader != nobody && !slices.Contains(isr, leader):
		isr, elr = []int32{leader}, remove(elr, leader)
	}

	if leader != p.leader || d.level < noEpochBump && len(isr) > 0 && len(isr) < len(p.isr) {
		r.SetInt("Leader", int64(leader))
		changed = true
	}
	if !slices.Equal(isr, p.isr) && (len(isr) > 0 || withELR) {
		r.SetInt32s("Isr", isr)
		changed = true
	}
	if !withELR {
		return r, changed
	}
	if !slices.Equal(elr, union(p.elr, nil)) {
		r.SetInt32s("EligibleLeaderReplicas", elr)
		changed = true
	}
	switch {
	case leader == nobody && len(p.isr) > 0 && !slices.Equal(p.lastKnown, []int32{p.leader}):
		r.SetInt32s("LastKnownElr", []int32{p.leader})
		changed = true
	case leader != nobody && len(p.lastKnown) > 0:
		r.SetInt32s("LastKnownElr", nil)
		changed = true
	}
	return r, changed
}

// active reports whether a broker can lead a replica in one of its directories.
func (d *draft) active(broker int32, directory uuid.UUID) bool {
	b := d.image.Broker(broker)
	if b == nil || b.Fenced || b.InControlledShutdown {
		return false
	}
	// A reserved id is no directory: the broker has not said yet where the replica is. But directoryLost says that it
	// is gone.
	if kafkaid.Reserved(directory) {
		return directory != directoryLost
	}
	return len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, directory)
}

// directoryLost is the id of a directory that a broker lost before it could say which one. KIP-858.
var directoryLost = uuid.UUID{15: 2}

// minInSync returns min.insync.replicas of a topic.
func (d *draft) minInSync(topic uuid.UUID) int {
	n, err := strconv.Atoi(d.topicConfig(topic, minInSyncReplicas, d.minISR))
	if err != nil {
		return 1
	}
	return n
}

// uncleanElections reports whether replicas that may have lost records can lead a topic.
func (d *draft) uncleanElections(topic uuid.UUID) bool {
	return d.topicConfig(topic, "unclean.leader.election.enable", "false") == "true"
}

const minInSyncReplicas = "min.insync.replicas"

// topicConfig returns a configuration of a topic: its own, else the one for all brokers, else static.
func (d *draft) topicConfig(topic uuid.UUID, name, static string) string {
	if v, ok := d.image.Config(metadata.TopicConfig, d.image.TopicName(topic), name); ok {
		return v
	}
	if v, ok := d.image.Config(metadata.BrokerConfig, "", name); ok {
		return v
	}
	return static
}

// remove returns list without b.
func remove(list []int32, b int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(x int32) bool { return x == b })
}

// union returns what is in a or b, ascending.
func union(a, b []int32) []int32 {
	list := slices.Concat(a, b)
	slices.Sort(list)
	return slices.Compact(list)
}

func first(list []int32, ok func(int32) bool) int32 {
	if i := slices.IndexFunc(list, ok); i >= 0 {
		return list[i]
	}
	return nobody
}
