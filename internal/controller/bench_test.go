package controller

import (
	"testing"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
)

// BenchmarkHeartbeat is the heartbeat of an unfenced broker that has nothing new, in a cluster of 100.
func BenchmarkHeartbeat(b *testing.B) {
	w := newWorld(b, feature("metadata.version", 33))
	for id := range int32(100) {
		epoch, _ := w.register(id, 1)
		w.beat(heartbeat(id, epoch))
	}
	q := heartbeat(7, w.c.Image().Broker(7).Epoch)
	q.CordonedLogDirs = [][16]byte{}
	w.beat(q)
	b.ReportAllocs()
	for b.Loop() {
		w.c.Handle(w.now, w.end, q)
	}
}

// BenchmarkRegistration is a registration of a new incarnation and its first heartbeat, which unfences it, in a cluster of 100.
func BenchmarkRegistration(b *testing.B) {
	w := newWorld(b, feature("metadata.version", 33))
	for id := range int32(100) {
		w.register(id, 1)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		epoch, code := w.register(1, byte(n))
		if code != none || w.beat(heartbeat(1, epoch)).IsFenced {
			b.Fatal(code)
		}
		delete(w.c.sessions, 1)
	}
}

// BenchmarkFailover is a new Controller of a cluster of 1000 brokers.
func BenchmarkFailover(b *testing.B) {
	w := newWorld(b, feature("metadata.version", 33))
	for id := range int32(1000) {
		epoch, _ := w.register(id, 1)
		w.beat(heartbeat(id, epoch))
	}
	var image *metadata.Image
	b.ReportAllocs()
	for b.Loop() {
		image = w.c.Image().Clone()
		New(w.c.cfg, image, 2, raft.Millis(0), false)
	}
}
