package raft

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pendingFetches beside a list that is searched and sorted each time.
func TestPendingFetches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pendingFetches
		var twin []pendingFetch
		var now Millis
		same := func(got pendingFetch, found bool, i int) {
			if found != (i >= 0) || found && got != twin[i] {
				t.Fatalf("%+v, %v, where the list has %d of %+v", got, found, i, twin)
			}
			if i >= 0 {
				twin = slices.Delete(twin, i, i+1)
			}
		}
		for id := range RequestID(rapid.IntRange(0, 50).Draw(t, "steps")) {
			key := ReplicaKey{NodeID: NodeID(rapid.IntRange(-1, 4).Draw(t, "node"))}
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				i := slices.IndexFunc(twin, func(f pendingFetch) bool { return key.NodeID >= 0 && f.request.Replica == key })
				got, found := p.take(key)
				same(got, found, i)
				f := pendingFetch{Received{ID: id}, &FetchRequest{Replica: key}, now + Millis(rapid.IntRange(0, 3).Draw(t, "wait"))}
				p.add(f)
				twin = append(twin, f)
				slices.SortStableFunc(twin, func(a, b pendingFetch) int { return int(a.by - b.by) })
			case 1:
				now++
				got, found := p.takeDue(now)
				same(got, found, slices.IndexFunc(twin, func(f pendingFetch) bool { return f.by <= now }))
			case 2:
				goes := func(f pendingFetch) bool { return f.request.Replica.NodeID%2 == 0 }
				p.keep(func(f pendingFetch) bool { return !goes(f) })
				twin = slices.DeleteFunc(twin, goes)
			}
			if !slices.Equal(p.list, twin) {
				t.Fatalf("%+v, not %+v", p.list, twin)
			}
			if at := p.deadline(); len(twin) == 0 && at != never || len(twin) > 0 && at != twin[0].by {
				t.Fatalf("the deadline is %d, of %+v", at, twin)
			}
		}
	})
}
