package raft

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// check returns what a core cannot run with. Times of 0 are allowed, as in Kafka.
func (c *Config) check() error {
	switch {
	case c.NodeID < 0:
		return fmt.Errorf("the node's id is %d", c.NodeID)
	case c.DirectoryID == uuid.Nil:
		return fmt.Errorf("node %d has no directory id", c.NodeID)
	case c.Random == nil:
		return errors.New("there is no source of randomness")
	case c.MinKRaftVersion < 0 || c.MaxKRaftVersion < c.MinKRaftVersion:
		return fmt.Errorf("the supported range of kraft.version is %d to %d", c.MinKRaftVersion, c.MaxKRaftVersion)
	case c.FetchMaxBytes < 1 || c.SnapshotMaxBytes < 1:
		return fmt.Errorf("at most %d bytes of the log and %d of a snapshot are to be fetched at once", c.FetchMaxBytes, c.SnapshotMaxBytes)
	}
	for _, t := range []Millis{c.ElectionTimeoutMillis, c.ElectionBackoffMaxMillis, c.FetchTimeoutMillis, c.RequestTimeoutMillis, c.RetryBackoffMillis} {
		if t < 0 || t > 1<<31-1 {
			return fmt.Errorf("a time of %d ms", t)
		}
	}
	if _, ok := endpoint(c.Listeners, c.DefaultListener); !ok && c.CanBeVoter {
		return fmt.Errorf("a controller without an endpoint of the listener %q", c.DefaultListener)
	}
	for i, v := range c.StaticVoters {
		_, ok := endpoint(v.Endpoints, c.DefaultListener)
		if v.Key.NodeID < 0 || v.Key.DirectoryID != uuid.Nil || !ok || voterByID(c.StaticVoters[:i], v.Key.NodeID) != nil {
			return fmt.Errorf("voter %v of the configuration is there twice, has a negative id, a directory id, or no endpoint of the listener %q", v.Key, c.DefaultListener)
		}
	}
	return nil
}
