package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/kafkaid"
)

// dumped is a line of kstorage dump --json.
type dumped struct {
	File  string
	Batch *batch

	Offset int64
	Type   string
	Data   json.RawMessage
	Error  *string // a record that cannot be decoded
}

// batch is what makes two batches the same, and the records in it.
type batch struct {
	BaseOffset, LastOffset int64
	PartitionLeaderEpoch   int32
	CRC                    uint32
	Size                   int
	records                []dumped
}

func (b *batch) same(o *batch) bool {
	return b.BaseOffset == o.BaseOffset && b.LastOffset == o.LastOffset && b.PartitionLeaderEpoch == o.PartitionLeaderEpoch && b.CRC == o.CRC && b.Size == o.Size
}

// nodeLog is the metadata log of a node, from some offset on.
type nodeLog struct {
	name    string
	batches []*batch
}

// at returns the index of the batch that has an offset; len(batches) if there is none.
func (l *nodeLog) at(offset int64) int {
	i := sort.Search(len(l.batches), func(i int) bool { return l.batches[i].LastOffset >= offset })
	if i < len(l.batches) && l.batches[i].BaseOffset > offset {
		return len(l.batches)
	}
	return i
}

// ledger is what was seen in all logs.
type ledger struct {
	leaders   map[int32]int32     // by epoch
	batches   map[[2]int64]*batch // by epoch and base offset
	committed nodeLog             // from offset 0 on
	lines     map[string]*batch   // by what kstorage dump says about them
	snapshots map[string]snapshot // by name
}

// snapshot is one as a node has it.
type snapshot struct {
	node    string
	content string
}

func newLedger() *ledger {
	return &ledger{map[int32]int32{}, map[[2]int64]*batch{}, nodeLog{name: "the committed log"}, map[string]*batch{}, map[string]snapshot{}}
}

// check reads the log of a node and checks it against all that was seen before: a batch of an epoch at an offset
// is the same everywhere, for there is one leader an epoch. Segments that end below from are left out. runs: the
// node runs, or was killed and may have left a torn batch at the end.
func (l *ledger) check(c *cluster, n *node, from int64, runs bool) *nodeLog {
	c.t.Helper()
	own := &nodeLog{name: n.name}
	files, bases := segments(c, n)
	for i, file := range files {
		if i+1 < len(bases) && bases[i+1] <= from {
			continue
		}
		l.read(c, own, file, runs, i+1 == len(files))
	}
	epoch := int32(0)
	for i, b := range own.batches {
		key := [2]int64{int64(b.PartitionLeaderEpoch), b.BaseOffset}
		if seen, ok := l.batches[key]; ok && !seen.same(b) {
			c.t.Errorf("%s: two batches of one epoch at one offset: %+v, and %+v was seen before", n.name, b, seen)
		} else if ok {
			own.batches[i] = seen // for its memory
		} else {
			l.batches[key] = b
		}
		if b.PartitionLeaderEpoch < epoch {
			c.t.Errorf("%s: epoch %d behind epoch %d at offset %d", n.name, b.PartitionLeaderEpoch, epoch, b.BaseOffset)
		}
		if begins := i > 0 && b.PartitionLeaderEpoch > epoch; begins || b.BaseOffset == 0 {
			l.lead(c, n, b)
		}
		epoch = b.PartitionLeaderEpoch
	}
	return own
}

// lead checks the batch with which an epoch begins.
func (l *ledger) lead(c *cluster, n *node, b *batch) {
	c.t.Helper()
	var data struct{ LeaderID int32 }
	if first := b.records[0]; first.Type != "LeaderChange" || json.Unmarshal(first.Data, &data) != nil {
		c.t.Errorf("%s: epoch %d begins at offset %d with %s", n.name, b.PartitionLeaderEpoch, b.BaseOffset, first.Type)
	}
	if leader, ok := l.leaders[b.PartitionLeaderEpoch]; ok && leader != data.LeaderID {
		c.t.Errorf("%s: the leader of epoch %d is %d, and %d was seen before", n.name, b.PartitionLeaderEpoch, data.LeaderID, leader)
	}
	l.leaders[b.PartitionLeaderEpoch] = data.LeaderID
}

// segments are the files of a node's log, and their first offsets.
func segments(c *cluster, n *node) (files []string, bases []int64) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.logDir(), "*.log")) // sorted, and so in the order of their offsets
	must(c.t, err)
	for _, f := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".log"), 10, 64)
		must(c.t, err)
		bases = append(bases, base)
	}
	return files, bases
}

// dump runs kstorage dump, and gives its lines. It fails where a file is damaged, and what is intact is there.
func (c *cluster) dump(files ...string) ([]byte, error) {
	c.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(c.program, append([]string{"dump", "--json"}, files...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return out.Bytes(), nil
}

var (
	batchLine = []byte(`{"batch":`)
	position  = regexp.MustCompile(`"position":\d+,`) // in the file
)

// read adds a segment. Of a node that may run it may have gone, with all before it, by the retention; and the
// last one may be torn. A batch that was seen before is not looked into again: its checksum is the same.
func (l *ledger) read(c *cluster, own *nodeLog, file string, runs, last bool) {
	c.t.Helper()
	out, err := c.dump(file)
	if err != nil && !(runs && last) {
		if _, gone := os.Stat(file); !runs || !os.IsNotExist(gone) {
			c.fatalf("%v", err)
		}
		own.batches = nil
		return
	}
	seen := false
	for line := range bytes.Lines(out) {
		var d dumped
		if bytes.HasPrefix(line, batchLine) {
			var b *batch
			key := string(position.ReplaceAllLiteral(line, nil))
			if b, seen = l.lines[key]; !seen {
				must(c.t, json.Unmarshal(line, &d))
				b = d.Batch
				l.lines[key] = b
			}
			if n := len(own.batches); n > 0 && b.BaseOffset != own.batches[n-1].LastOffset+1 {
				c.t.Errorf("%s: a batch at offset %d behind %d", file, b.BaseOffset, own.batches[n-1].LastOffset)
			}
			own.batches = append(own.batches, b)
			continue
		}
		if seen {
			continue
		}
		must(c.t, json.Unmarshal(line, &d))
		switch {
		case d.Type != "":
			b := own.batches[len(own.batches)-1]
			b.records = append(b.records, d)
		case d.Error != nil:
			c.t.Errorf("%s: a record at offset %d: %s", file, d.Offset, *d.Error)
		}
	}
}

// commit takes what is committed from a log that has a marked record: that is committed, and so is all below.
// false: the log doesn't have it, or begins above what was committed so far.
func (l *ledger) commit(c *cluster, own *nodeLog, mark operation) bool {
	c.t.Helper()
	i := own.at(mark.epoch)
	if i == len(own.batches) || own.batches[i].find(mark) == nil {
		return false
	}
	next := int64(0)
	if n := len(l.committed.batches); n > 0 {
		next = l.committed.batches[n-1].LastOffset + 1
	}
	if own.batches[0].BaseOffset > next {
		return false
	}
	own.batches = own.batches[:i+1]
	l.compare(c, own)
	for _, b := range own.batches {
		if b.BaseOffset >= next {
			l.committed.batches = append(l.committed.batches, b)
		}
	}
	return true
}

// compare checks that a log is part of what is committed, as far as both go.
func (l *ledger) compare(c *cluster, own *nodeLog) {
	c.t.Helper()
	if len(own.batches) == 0 {
		return
	}
	first := l.committed.at(own.batches[0].BaseOffset)
	for i, b := range own.batches {
		if first+i >= len(l.committed.batches) {
			return
		}
		if other := l.committed.batches[first+i]; !other.same(b) {
			c.t.Errorf("%s has the batch %+v where %+v is committed", own.name, b, other)
			return
		}
	}
}

// compareSnapshots checks that the snapshots of a node have the records that those of others have.
func (l *ledger) compareSnapshots(c *cluster, n *node) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.logDir(), "*.checkpoint"))
	must(c.t, err)
	files = slices.DeleteFunc(files, func(file string) bool { return strings.TrimLeft(filepath.Base(file), "0-") == ".checkpoint" }) // what its node was formatted with
	if len(files) == 0 {
		return
	}
	out, err := c.dump(files...)
	must(c.t, err)
	contents := map[string]*strings.Builder{}
	var content *strings.Builder
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte(`"file":`)) {
			var d dumped
			must(c.t, json.Unmarshal(line, &d))
			content = new(strings.Builder)
			contents[filepath.Base(d.File)] = content
		} else if _, record, ok := bytes.Cut(line, []byte(`"type":`)); ok && !bytes.HasPrefix(record, []byte(`"Snapshot`)) {
			content.Write(record) // without its time, which is the node's; the header and the footer have only that
		}
	}
	for name, content := range contents {
		own := snapshot{n.name, content.String()}
		if seen, ok := l.snapshots[name]; ok && seen.content != own.content {
			c.t.Errorf("%s of %s and of %s differ:\n%s\n%s", name, n.name, seen.node, own.content, seen.content)
		}
		l.snapshots[name] = own
	}
}

// find returns the record of a registration, nil if there is none.
func (b *batch) find(o operation) *dumped {
	i := slices.IndexFunc(b.records, func(d dumped) bool { return d.Offset == o.epoch })
	if i < 0 {
		return nil
	}
	var data struct {
		BrokerID      int32
		BrokerEpoch   int64
		IncarnationID string
	}
	d := &b.records[i]
	if d.Type != "REGISTER_BROKER_RECORD" || json.Unmarshal(d.Data, &data) != nil || data.BrokerID != o.broker || data.BrokerEpoch != o.epoch || data.IncarnationID != kafkaid.String(o.incarnation) {
		return nil
	}
	return d
}

// checkAcknowledged checks that what was acknowledged is committed.
func (l *ledger) checkAcknowledged(c *cluster, history []operation) {
	c.t.Helper()
	unregistered := map[int32]int{}
	for _, b := range l.committed.batches {
		for _, d := range b.records {
			var data struct{ BrokerID int32 }
			if d.Type == "UNREGISTER_BROKER_RECORD" {
				must(c.t, json.Unmarshal(d.Data, &data))
				unregistered[data.BrokerID]++
			}
		}
	}
	for _, o := range history {
		if !o.answered {
			continue
		}
		if o.incarnation == uuid.Nil {
			if unregistered[o.broker]--; unregistered[o.broker] < 0 {
				c.t.Errorf("broker %d was unregistered more often than the log says", o.broker)
			}
			continue
		}
		i := l.committed.at(o.epoch)
		if i == len(l.committed.batches) || l.committed.batches[i].find(o) == nil {
			c.t.Errorf("acknowledged, and not in the log: %+v", o)
		}
	}
}
