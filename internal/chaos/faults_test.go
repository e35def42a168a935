package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// faults does harm to a cluster.
type faults struct {
	cluster *cluster
	load    *load
	ledger  *ledger
	random  *rand.Rand
	counts  map[string]int
	removed map[int32]bool // controllers that are no voters
}

// fault begins one at a node and returns what ends it.
type fault struct {
	name  string
	begin func(f *faults, n *node) (mend func())
	may   func(n *node) bool // whether a node may have it; nil: it may
}

var kill = fault{"kill", (*faults).kill, nil}

// kinds are the faults that a node may have.
var kinds = []fault{
	kill,
	{"stop", (*faults).stop, nil},
	{"cut", links(cut, to, from), nil},
	{"black hole", links(hole, to, from), nil},
	{"one way in", links(hole, to), served},
	{"one way out", links(hole, from), nil},
	{"requests lost", links(unsent, to, from), nil},
	{"answers lost", links(mute, to, from), nil},
	{"slow", links(slow, to, from), nil},
	{"refuse", (*faults).refuse, served},
	{"full disk", (*faults).fullDisk, ownsDisk},
	{"torn write", (*faults).tornWrite, nil},
	{"not a voter", (*faults).remove, served},
}

// served is a node to which others connect.
func served(n *node) bool { return n.controller }

// ownsDisk is a node whose folder is a file system of its own.
func ownsDisk(n *node) bool { return n.disk.owned }

// blows hit all nodes at once, and are over at once.
var blows = []fault{
	{"kill all", (*faults).killAll, nil},
	{"storm", (*faults).storm, nil},
	{"reset all", (*faults).resetAll, nil},
	{"reset the leader", (*faults).resetLeader, nil},
}

const (
	enough   = 20 // acknowledged requests that show that a cluster works
	longest  = time.Second
	lull     = 50 * time.Millisecond // in a storm
	blowEach = 5                     // rounds
	stayEach = 4                     // faults: one that goes on into the next round
)

func (f *faults) String() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.counts)) {
		list = append(list, fmt.Sprintf("%d %s", f.counts[name], name))
	}
	return strings.Join(list, ", ")
}

// round is one round of faults.
func (f *faults) round() {
	f.load.await(1 + f.random.IntN(enough))
	if f.random.IntN(blowEach) == 0 {
		f.mendAll()
		f.begin(blows[f.random.IntN(len(blows))], nil)
	} else {
		for _, n := range f.victims() {
			f.begin(f.kind(n), n)
		}
	}
	f.load.await(enough) // by the others
	time.Sleep(time.Duration(f.random.Int64N(int64(longest))))
	f.cluster.alive()
	var mended []*node
	for _, n := range f.cluster.nodes {
		if n.mend != nil && f.random.IntN(stayEach) > 0 {
			mended = append(mended, n)
		}
	}
	for _, n := range mended {
		// A node comes back that is behind, and finds an election.
		if leader := f.cluster.leader(); n.controller && leader.mend == nil && len(f.removed) == 0 && f.random.IntN(2) == 0 {
			f.begin(kill, leader)
		}
		f.mend(n)
	}
	f.load.await(enough)
	f.look()
}

func (f *faults) begin(k fault, n *node) {
	f.counts[k.name]++
	if n == nil {
		f.cluster.t.Logf("%s", k.name)
		k.begin(f, nil)
		return
	}
	f.cluster.t.Logf("%s: %s", n.name, k.name)
	n.mend = k.begin(f, n)
}

func (f *faults) mend(n *node) {
	n.mend()
	n.mend = nil
}

func (f *faults) mendAll() {
	for _, n := range f.cluster.nodes {
		if n.mend != nil {
			f.mend(n)
		}
	}
}

// victims are nodes without a fault that get one: controllers, most often the leader, but a minority of them with
// those that have one; and now and then a broker.
func (f *faults) victims() []*node {
	var out []*node
	controllers := f.cluster.controllers()
	minority := (len(controllers) - 1) / 2
	for _, n := range controllers {
		if n.mend != nil {
			minority--
		}
	}
	if minority > 0 {
		first := f.cluster.leader()
		if first.mend != nil || f.random.IntN(3) == 0 {
			first = nil
		}
		for _, i := range f.random.Perm(len(controllers)) {
			n := controllers[i]
			if first != nil {
				n, first = first, nil
			} else if n.mend != nil || slices.Contains(out, n) {
				continue
			}
			if out = append(out, n); len(out) == minority || f.random.IntN(2) == 0 {
				break
			}
		}
	}
	broker := f.cluster.nodes[len(controllers)+f.random.IntN(brokers)]
	if broker.mend == nil && (len(out) == 0 || f.random.IntN(4) == 0) {
		out = append(out, broker)
	}
	return out
}

// kind is a fault for a node.
func (f *faults) kind(n *node) fault {
	for {
		if k := kinds[f.random.IntN(len(kinds))]; k.may == nil || k.may(n) {
			return k
		}
	}
}

// seen is the offset up to where it is known what is committed.
func (f *faults) seen() int64 {
	if n := len(f.ledger.committed.batches); n > 0 {
		return f.ledger.committed.batches[n-1].LastOffset
	}
	return 0
}

// look reads what was committed.
func (f *faults) look() {
	mark := f.load.mark()
	from := f.seen()
	f.cluster.eventually("what was acknowledged is in the log of a controller", func() bool {
		for _, n := range append([]*node{f.cluster.leader()}, f.cluster.controllers()...) {
			if f.ledger.commit(f.cluster, f.ledger.check(f.cluster, n, from, true), mark) {
				return true
			}
		}
		return false
	})
}

func (f *faults) kill(n *node) func() {
	f.cluster.crash(n)
	f.ledger.check(f.cluster, n, f.seen(), true)
	return func() { f.cluster.start(n) }
}

func (f *faults) killAll(*node) func() {
	for _, n := range f.cluster.nodes {
		f.cluster.crash(n)
	}
	for _, n := range f.cluster.nodes {
		f.cluster.start(n)
	}
	return nil
}

// storm kills one controller after the other, most of them while a leader is being elected.
func (f *faults) storm(*node) func() {
	controllers := f.cluster.controllers()
	for range 5 * len(controllers) {
		n := controllers[f.random.IntN(len(controllers))]
		f.cluster.crash(n)
		f.cluster.start(n)
		time.Sleep(time.Duration(f.random.Int64N(int64(lull))))
	}
	return nil
}

func (f *faults) stop(n *node) func() {
	f.cluster.must(n.Signal(syscall.SIGSTOP))
	return func() { f.cluster.must(n.Signal(syscall.SIGCONT)) }
}

// refuse closes the port of a node that runs.
func (f *faults) refuse(n *node) func() {
	f.cluster.network.refuse(n.id)
	f.cluster.network.reset(n.id)
	return func() { f.cluster.must(f.cluster.network.accept(n.id)) }
}

func (f *faults) resetAll(*node) func() {
	for _, n := range f.cluster.controllers() {
		f.cluster.network.reset(n.id)
	}
	return nil
}

func (f *faults) resetLeader(*node) func() {
	f.cluster.network.reset(f.cluster.leader().id)
	return nil
}

// to are the links to a node, from are those from it. The one to itself is no network's.
func to(c *cluster, n *node) (out [][2]int) {
	out = append(out, [2]int{clientID, n.id})
	for _, other := range c.nodes {
		if other != n {
			out = append(out, [2]int{other.id, n.id})
		}
	}
	return out
}

func from(c *cluster, n *node) (out [][2]int) {
	for _, other := range c.controllers() {
		if other != n {
			out = append(out, [2]int{n.id, other.id})
		}
	}
	return out
}

func links(state link, which ...func(*cluster, *node) [][2]int) func(*faults, *node) func() {
	return func(f *faults, n *node) func() {
		var all [][2]int
		for _, some := range which {
			all = append(all, some(f.cluster, n)...)
		}
		f.cluster.network.set(state, all...)
		return func() { f.cluster.network.set(sound, all...) }
	}
}

// remove makes a controller an observer.
func (f *faults) remove(n *node) func() {
	var without []int32
	for _, v := range f.voters() {
		if v != int32(n.id) {
			without = append(without, v)
		}
	}
	f.cluster.voters(n, without, "remove-controller", "--controller-id", strconv.Itoa(n.id), "--controller-directory-id", n.directory)
	f.removed[int32(n.id)] = true
	return func() {
		delete(f.removed, int32(n.id))
		f.cluster.voters(n, f.voters(), "add-controller", "--config", filepath.Join(n.dir, "server.properties"))
	}
}

// voters are those that were not removed.
func (f *faults) voters() (ids []int32) {
	for _, n := range f.cluster.controllers() {
		if !f.removed[int32(n.id)] {
			ids = append(ids, int32(n.id))
		}
	}
	return ids
}

// stopped is what a node says whose disk has no room.
var stopped = regexp.MustCompile(`cannot write \S+: (no space left on device|file too large)\n(.*\n)*?  fix: +see to the disk, the space that is left`)

// fullDisk waits for the end of a node on a full disk: it must be for that reason, and for the first write that
// fails.
func (f *faults) fullDisk(n *node) func() {
	f.cluster.must(n.disk.fill())
	f.ends(n)
	return func() {
		f.cluster.must(n.disk.free())
		f.cluster.start(n)
	}
}

func (f *faults) tornWrite(n *node) func() {
	more, limited := f.random.Int64N(300), ""
	f.cluster.eventually(n.name+" ends", func() bool {
		// A segment that was begun meanwhile would have room.
		segment, err := lastSegment(n.logDir())
		if err == nil && segment != limited {
			limited, err = limitFiles(n.PID(), n.logDir(), more)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // a segment, or the process, has just gone
			f.cluster.must(err)
		}
		return n.Ended()
	})
	f.ends(n)
	return func() { f.cluster.start(n) }
}

func (f *faults) ends(n *node) {
	code, err := n.End()
	f.cluster.network.refuse(n.id)
	f.cluster.must(err)
	if log, _ := n.Read(); code != 1 || !stopped.Match(log) {
		f.cluster.fatalf("%v", n.Fault("has ended with exit code %d and not as one whose disk is full", code))
	}
	f.ledger.check(f.cluster, n, f.seen(), true)
}
