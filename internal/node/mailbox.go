package node

import "sync"

// mailbox hands messages of any goroutine to one that takes them, in the order of the calls of put. It has no
// bound, so that nobody who puts something in ever waits: the loops of a node put into each other's mailboxes,
// and two that waited for each other would stand still for ever. What bounds it is that each sender has one thing
// under way: a connection its request, the disk its fsync.
type mailbox[T any] struct {
	ready chan struct{} // has a token if there may be something to take

	mu     sync.Mutex
	items  []T
	closed bool
}

// maxSpare is how long a list may be that is kept for reuse.
const maxSpare = 1024

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{ready: make(chan struct{}, 1)}
}

// put adds a message, unless the mailbox is closed.
func (m *mailbox[T]) put(item T) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.items = append(m.items, item)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take returns all that is there. done is what the take before returned, whose memory is used again.
func (m *mailbox[T]) take(done []T) []T {
	clear(done)
	if cap(done) > maxSpare {
		done = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = done[:0]
	return items
}

// close drops what is there, and what is put in from now on.
func (m *mailbox[T]) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items, m.closed = nil, true
}
