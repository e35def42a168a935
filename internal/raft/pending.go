package raft

import (
	"cmp"
	"slices"
)

// pendingFetch is a Fetch that waits for news.
type pendingFetch struct {
	in      Received
	request *FetchRequest
	by      Millis // when it has waited enough
}

// pendingFetches are all of them. There may be thousands, and each is touched only when it is its turn: none is looked
// for, and its end is not looked for either.
type pendingFetches struct {
	list     []pendingFetch      // in the order in which their waits end, then in that of arrival
	replicas map[ReplicaKey]bool // that have one in the list
}

func (p *pendingFetches) add(f pendingFetch) {
	i, _ := slices.BinarySearchFunc(p.list, f.by, func(f pendingFetch, by Millis) int { return cmp.Or(cmp.Compare(f.by, by), -1) })
	p.list = slices.Insert(p.list, i, f)
	if key := f.request.Replica; key.NodeID >= 0 { // others are none, and may have several
		if p.replicas == nil {
			p.replicas = map[ReplicaKey]bool{}
		}
		p.replicas[key] = true
	}
}

// deadline is never if nothing waits.
func (p *pendingFetches) deadline() Millis {
	if len(p.list) == 0 {
		return never
	}
	return p.list[0].by
}

// takeDue removes and returns one that has waited enough.
func (p *pendingFetches) takeDue(now Millis) (f pendingFetch, ok bool) {
	if p.deadline() > now {
		return f, false
	}
	f, p.list[0] = p.list[0], pendingFetch{}
	p.list = p.list[1:]
	delete(p.replicas, f.request.Replica)
	return f, true
}

// take removes and returns that of a replica.
func (p *pendingFetches) take(key ReplicaKey) (f pendingFetch, ok bool) {
	if !p.replicas[key] {
		return f, false
	}
	i := slices.IndexFunc(p.list, func(f pendingFetch) bool { return f.request.Replica == key })
	f = p.list[i]
	p.list = slices.Delete(p.list, i, i+1)
	delete(p.replicas, key)
	return f, true
}

// keep removes those for which keep reports false.
func (p *pendingFetches) keep(keep func(pendingFetch) bool) {
	p.list = slices.DeleteFunc(p.list, func(f pendingFetch) bool {
		kept := keep(f)
		if !kept {
			delete(p.replicas, f.request.Replica)
		}
		return !kept
	})
}
