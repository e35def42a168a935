package crashdisk

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// node is a file or a directory.
type node struct {
	mode fs.FileMode

	// A file. Content is only appended to, and never changed in place, so nodes may share it.
	data  []byte
	zeros int     // so many stand behind data, where the next writes go
	kept  int     // so much of data was there when it was last synced or cut
	stale []stage // what data was before each time that it was cut since the last sync; the first one's kept is synced

	// A directory.
	entries map[string]*node
	durable map[string]*node // as they were when they were last synced
	pending []change         // those since then: durable with them is entries
}

// stage is a file's content before it was cut.
type stage struct {
	data  []byte
	kept  int
	zeros int
}

// cut shortens a file to size bytes.
func (n *node) cut(size int) {
	if size == len(n.data) && n.zeros == 0 {
		return
	}
	n.stale = append(n.stale, stage{n.data, n.kept, n.zeros})
	n.data, n.kept, n.zeros = slices.Clip(n.data[:size]), size, 0
}

// content is all that the file has.
func (n *node) content() []byte {
	if n.zeros == 0 {
		return n.data
	}
	return append(slices.Clip(n.data), make([]byte, n.zeros)...)
}

func (n *node) sync() { n.kept, n.stale = len(n.data), nil }

// change of a directory's entries: name becomes node, or is removed (nil). A rename also removes from.
type change struct {
	name string
	node *node
	from string
}

func (c change) apply(entries map[string]*node) {
	delete(entries, c.from)
	if c.node == nil {
		delete(entries, c.name)
		return
	}
	entries[c.name] = c.node
}

func newDir(perm fs.FileMode) *node {
	return &node{mode: fs.ModeDir | perm.Perm(), entries: map[string]*node{}, durable: map[string]*node{}}
}

func (n *node) isDir() bool { return n.mode.IsDir() }

func (n *node) change(c change) {
	c.apply(n.entries)
	n.pending = append(n.pending, c)
}

// clone copies the tree as it is, with what is not durable yet.
func (n *node) clone() *node {
	copies := map[*node]*node{nil: nil} // a node may be in entries, durable and pending
	var clone func(n *node) *node
	cloneMap := func(m map[string]*node) map[string]*node {
		if m == nil {
			return nil
		}
		c := make(map[string]*node, len(m))
		for name, child := range m {
			c[name] = clone(child)
		}
		return c
	}
	clone = func(n *node) *node {
		if c, ok := copies[n]; ok {
			return c
		}
		c := &node{mode: n.mode, data: slices.Clip(n.data), zeros: n.zeros, kept: n.kept, stale: slices.Clip(n.stale)}
		copies[n] = c
		c.entries, c.durable = cloneMap(n.entries), cloneMap(n.durable)
		for _, p := range n.pending {
			c.pending = append(c.pending, change{p.name, clone(p.node), p.from})
		}
		return c
	}
	return clone(n)
}

// restart copies of the tree what survives a loss of power.
func (n *node) restart(seed uint64, random *rand.Rand) *node {
	if !n.isDir() {
		data := slices.Clip(n.survivor(seed, random))
		return &node{mode: n.mode, data: data, kept: len(data)}
	}
	entries := maps.Clone(n.durable)
	for _, c := range n.pending[:choose(len(n.pending), seed, random)] {
		c.apply(entries)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entries[name] = entries[name].restart(seed, random)
	}
	return &node{mode: n.mode, entries: entries, durable: maps.Clone(entries)}
}

// survivor returns what survives of a file's content.
func (n *node) survivor(seed uint64, random *rand.Rand) []byte {
	at := stage{n.data, n.kept, n.zeros}
	if i := choose(len(n.stale), seed, random); i < len(n.stale) {
		at = n.stale[i]
	}
	size := at.kept + choose(len(at.data)-at.kept, seed, random)
	switch seed {
	case Lost:
		return at.data[:size]
	case Kept:
		return n.content()
	}
	data := at.data[:size]
	if size > at.kept && random.IntN(4) == 0 {
		data = loseSectors(data, at.kept, random)
	}
	if lost := len(at.data) - size; lost > 0 && random.IntN(4) == 0 {
		// The new size came to the disk before the content.
		data = append(slices.Clip(data), make([]byte, 1+random.IntN(lost))...)
	}
	if at.zeros > 0 {
		data = append(slices.Clip(data), make([]byte, random.IntN(at.zeros+1))...)
	}
	return data
}

// sectorBytes is what a disk writes as a whole.
const sectorBytes = 512

// loseSectors returns a copy of data in which some of the sectors are zero from kept on.
func loseSectors(data []byte, kept int, random *rand.Rand) []byte {
	data = slices.Clone(data)
	share := 2 + random.IntN(3)
	for from := kept; from < len(data); {
		end := min(from-from%sectorBytes+sectorBytes, len(data))
		if random.IntN(share) == 0 {
			clear(data[from:end])
		}
		from = end
	}
	return data
}

// choose returns how many of n things that happened in order survive; none and all are as likely as what
// lies between.
func choose(n int, seed uint64, random *rand.Rand) int {
	switch {
	case seed == Lost || n == 0:
		return 0
	case seed == Kept:
		return n
	}
	switch random.IntN(4) {
	case 0:
		return 0
	case 1:
		return n
	default:
		return random.IntN(n + 1)
	}
}

// info is the fs.FileInfo of a node.
type info struct {
	name string
	mode fs.FileMode
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
