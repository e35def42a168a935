package controller

import (
	"testing"

	"github.com/google/uuid"

	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// TestWithout has what the recordings have not, of a topic t with replicas on 1, 2 and 3. Active are those that the
// case names.
func TestWithout(t *testing.T) {
	dir := func(n byte) uuid.UUID { return uuid.UUID{0: 2, 15: n} }
	for _, test := range []struct {
		reason  string
		levels  []record.Record
		active  []int32
		p       partition
		gone    int32
		unclean bool
		config  string // of unclean.leader.election.enable
		want    string
	}{
		{
			"an unclean restart: not eligible any more", withELR, []int32{1},
			partition{elr: []int32{1, 2}, lastKnown: []int32{1}, leader: nobody}, 1, true, "",
			`"eligibleLeaderReplicas":[2]`,
		},
		{
			"the last leader may not lead while others have all that is committed", withELR, []int32{1},
			partition{elr: []int32{2}, lastKnown: []int32{1}, leader: nobody}, nobody, false, "", ``,
		},
		{
			"the last leader may lead if nobody has it", withELR, []int32{1},
			partition{lastKnown: []int32{1}, leader: nobody}, nobody, false, "",
			`"isr":[1],"leader":1,"leaderRecoveryState":1,"lastKnownElr":[]`,
		},
		{
			"recovering already", withELR, []int32{1}, partition{lastKnown: []int32{1}, leader: nobody, recovering: true}, nobody, false, "",
			`"isr":[1],"leader":1,"lastKnownElr":[]`,
		},
		{
			"several last known ones: none may lead", withELR, []int32{1},
			partition{lastKnown: []int32{1, 2}, leader: nobody}, nobody, false, "", ``,
		},
		{
			"the eligible before an unclean leader", withELR, []int32{1, 3},
			partition{elr: []int32{3}, lastKnown: []int32{3}, leader: nobody}, nobody, false, "true",
			`"isr":[3],"leader":3,"eligibleLeaderReplicas":[],"lastKnownElr":[]`,
		},
		{
			"an unclean leader", without33, []int32{3}, partition{isr: []int32{1}, leader: 1}, 1, false, "true",
			`"isr":[3],"leader":3,"leaderRecoveryState":1`,
		},
		{"unclean leaders are not wanted", without33, []int32{3}, partition{isr: []int32{1}, leader: 1}, 1, false, "false", `"leader":-1`},
		{
			"a lost directory leads nothing", without33, []int32{1, 2},
			partition{isr: []int32{1, 2}, leader: nobody, directories: []uuid.UUID{directoryLost, {}, {}}}, nobody, false, "", `"leader":2`,
		},
		{
			"a directory that the broker doesn't have leads nothing", without33, []int32{1, 2},
			partition{isr: []int32{1, 2}, leader: nobody, directories: []uuid.UUID{dir(9), dir(2), dir(3)}}, nobody, false, "", `"leader":2`,
		},
		{
			"unassigned is no lost one", without33, []int32{1, 2},
			partition{isr: []int32{1, 2}, leader: nobody, directories: []uuid.UUID{{15: 1}, {}, {}}}, nobody, false, "", `"leader":1`,
		},
		{"who leads stays", without33, []int32{1, 2, 3}, partition{isr: []int32{1, 2, 3}, leader: 2}, 3, false, "", `"isr":[1,2]`},
		{"a new epoch for each smaller ISR before 3.6", []record.Record{feature("metadata.version", 11)}, []int32{1, 2, 3}, partition{isr: []int32{1, 2, 3}, leader: 2}, 3, false, "", `"isr":[1,2],"leader":2`},
		{"nothing to change", without33, []int32{1, 2}, partition{isr: []int32{1, 2}, leader: 1}, nobody, false, "", ``},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, test.levels...)
			w.append(topicOf(1, 2, 3))
			for _, id := range test.active {
				b := &metadata.Broker{ID: id, LogDirs: []uuid.UUID{dir(byte(id))}}
				w.append([]record.Record{b.Record(33)})
			}
			if test.config != "" {
				r := record.New(record.Config, 0)
				r.SetInt("ResourceType", int64(metadata.TopicConfig))
				r.SetText("ResourceName", "t")
				r.SetText("Name", "unclean.leader.election.enable")
				r.SetText("Value", test.config)
				w.append([]record.Record{r})
			}
			p := test.p
			p.topic, p.replicas = uuid.UUID{0: 1, 1: 1}, []int32{1, 2, 3}
			r, changed := w.c.draft(0).without(&p, test.gone, test.unclean)
			if changed != (test.want != "") {
				t.Fatalf("changed %v: %s", changed, r.AppendData(nil))
			}
			want := `{"partitionId":0,"topicId":"AQEAAAAAAAAAAAAAAAAAAA",` + test.want + `}`
			if got := string(r.AppendData(nil)); changed && got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

var (
	without33 = []record.Record{feature("metadata.version", 33)}
	withELR   = []record.Record{feature("metadata.version", 33), feature(elrVersion, 1)}
)

// TestBrokerWithoutDirectories: a registration of an old level names none, and leads wherever its replicas are.
func TestBrokerWithoutDirectories(t *testing.T) {
	w := newWorld(t, without33...)
	w.append([]record.Record{(&metadata.Broker{ID: 1}).Record(12)})
	if d := w.c.draft(0); !d.active(1, uuid.UUID{0: 7}) {
		t.Error("not active")
	}
}

func TestMinInSync(t *testing.T) {
	config := func(kind int8, resource, value string) record.Record {
		r := record.New(record.Config, 0)
		r.SetInt("ResourceType", int64(kind))
		r.SetText("ResourceName", resource)
		r.SetText("Name", minInSyncReplicas)
		r.SetText("Value", value)
		return r
	}
	for _, test := range []struct {
		reason  string
		records []record.Record
		want    int
	}{
		{"server.properties", nil, 5},
		{"all brokers", []record.Record{config(metadata.BrokerConfig, "", "3")}, 3},
		{"one broker doesn't count", []record.Record{config(metadata.BrokerConfig, "1", "3")}, 5},
		{"the topic", []record.Record{config(metadata.BrokerConfig, "", "3"), config(metadata.TopicConfig, "t", "2")}, 2},
		{"no number", []record.Record{config(metadata.TopicConfig, "t", "two")}, 1},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, without33...)
			w.c.cfg.MinInSyncReplicas = "5"
			w.append(topicOf(1, 2, 3))
			w.append(test.records)
			if got := w.c.draft(0).minInSync(uuid.UUID{0: 1, 1: 1}); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
