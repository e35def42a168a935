package sim

// micros is a time of the simulated world, in microseconds since its beginning.
type micros int64

const (
	millisecond micros = 1000
	second      micros = 1000 * millisecond
)

// event is something that happens at a time; events of one time happen in the order in which they were added.
type event struct {
	at  micros
	seq uint64
	run func()
}

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// queue holds the events to come: a binary heap.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) add(at micros, run func()) {
	q.seq++
	e := event{at, q.seq, run}
	i := len(q.heap)
	q.heap = append(q.heap, e)
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(q.heap[parent]) {
			break
		}
		q.heap[i] = q.heap[parent]
		i = parent
	}
	q.heap[i] = e
}

// next takes the first event out. The queue must not be empty.
func (q *queue) next() event {
	first := q.heap[0]
	n := len(q.heap) - 1
	e := q.heap[n]
	q.heap[n] = event{}
	q.heap = q.heap[:n]
	for i := 0; n > 0; {
		child := 2*i + 1
		if child+1 < n && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if child >= n || !q.heap[child].before(e) {
			q.heap[i] = e
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	return first
}
