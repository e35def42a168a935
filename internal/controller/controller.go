package controller

import (
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/metadata"
	"kstorage/internal/raft"
	"kstorage/internal/record"
)

// Config is what a Controller knows of its node.
type Config struct {
	NodeID    int32
	ClusterID string // of meta.properties; "" while the node has none (KIP-1262)

	SessionTimeoutMillis  raft.Millis // broker.session.timeout.ms
	MaxIdleIntervalMillis raft.Millis // metadata.max.idle.interval.ms; 0: no NoOpRecords
	MinInSyncReplicas     string      // min.insync.replicas of server.properties, "1" if it isn't there

	Supported    []metadata.FeatureRange // what this node supports
	Unstable     bool                    // unstable.feature.versions.enable
	StaticVoters []int32                 // controller.quorum.voters

	Random io.Reader // of a cluster id that is drawn
}

// Controller is the active controller of one leader epoch. One goroutine owns it.
type Controller struct {
	cfg           Config
	epoch         raft.Epoch
	image         *metadata.Image // speculative: committed and appended
	aborts        bool            // a transaction was open when the epoch began
	kraftVersion  int16
	voters        []int32               // the latest ones
	sessions      map[int32]session     // by broker
	registrations map[int32]raft.Offset // of the RegisterBrokerRecords that this Controller has appended, by broker

	nextNoOp  raft.Millis
	nextCheck raft.Millis // of the sessions
}

// session is what a broker said last.
type session struct {
	epoch          int64 // of the broker; the session of another one doesn't count
	contact        raft.Millis
	metadataOffset int64
	shutdownOffset int64 // where the log ended when it began to shut down; -1: it hasn't
	leaving        bool  // it was told to shut down
}

// fenceEvery is the part of the session timeout after which sessions are looked at again, and fenceNextMillis the
// time after a broker was fenced: one broker is fenced at a time.
const (
	fenceEvery                  = 8
	fenceNextMillis raft.Millis = 10
)

// New returns the controller of an epoch that this node leads. image is the committed state up to the last stable
// offset, and the Controller's from now on. transactionOpen tells whether a transaction begins there.
func New(cfg Config, image *metadata.Image, epoch raft.Epoch, now raft.Millis, transactionOpen bool) *Controller {
	c := &Controller{
		cfg:           cfg,
		epoch:         epoch,
		image:         image,
		aborts:        transactionOpen,
		sessions:      map[int32]session{},
		registrations: map[int32]raft.Offset{},
		nextNoOp:      now + cfg.MaxIdleIntervalMillis,
		nextCheck:     now + cfg.SessionTimeoutMillis/fenceEvery,
	}
	for _, b := range image.Brokers() {
		if !b.Fenced {
			c.sessions[b.ID] = newSession(b.Epoch, now)
		}
	}
	return c
}

func newSession(epoch int64, now raft.Millis) session {
	return session{epoch: epoch, contact: now, metadataOffset: -1, shutdownOffset: -1}
}

// Image returns the speculative image. It is the Controller's.
func (c *Controller) Image() *metadata.Image { return c.image }

// ClusterID returns the id of the cluster: the one in the log, else the node's own, else "".
func (c *Controller) ClusterID() string {
	if id := c.image.ClusterID(); id != "" {
		return id
	}
	return c.cfg.ClusterID
}

// SetQuorum says what stands in control records: at which level kraft.version is finalized, and the ids of the voters.
func (c *Controller) SetQuorum(kraftVersion int16, voters []int32) {
	c.kraftVersion, c.voters = kraftVersion, voters
}

// Handle decides about a request: which records it adds at nextOffset, and the response that is true once they are
// committed. A request that it does not serve gets no response.
func (c *Controller) Handle(now raft.Millis, nextOffset raft.Offset, q kmsg.Request) ([]record.Record, kmsg.Response) {
	switch q := q.(type) {
	case *kmsg.BrokerHeartbeatRequest:
		return c.heartbeat(now, nextOffset, q)
	case *kmsg.BrokerRegistrationRequest:
		return c.registerBroker(now, nextOffset, q)
	case *kmsg.UnregisterBrokerRequest:
		return c.unregisterBroker(nextOffset, q)
	case *kmsg.ControllerRegistrationRequest:
		return c.registerController(q)
	case *kmsg.UnregisterControllerRequest:
		return c.unregisterController(q)
	case *kmsg.AllocateProducerIDsRequest:
		return c.allocateProducerIDs(q)
	}
	return nil, nil
}

// Appended says that the log has taken records, the first one at base. Error: *metadata.ReplayError; the node then
// has to stop, as those would that replay the log.
func (c *Controller) Appended(base raft.Offset, records []record.Record) error {
	end := base + raft.Offset(len(records)) - 1
	for i, r := range records {
		at := base + raft.Offset(i)
		if err := c.image.Replay(r, at); err != nil {
			return fmt.Errorf("epoch %d: %w", c.epoch, err)
		}
		switch r.Message {
		case record.BrokerRegistrationChange:
			c.changed(r, end)
		case record.RegisterBroker:
			id := int32(r.Int("BrokerId"))
			c.registrations[id] = at
			if c.sessions[id].epoch != r.Int("BrokerEpoch") {
				delete(c.sessions, id)
			}
		case record.UnregisterBroker:
			delete(c.sessions, int32(r.Int("BrokerId")))
		}
	}
	return nil
}

// changed notes when a broker begins to shut down and when that ends.
func (c *Controller) changed(r record.Record, end raft.Offset) {
	id := int32(r.Int("BrokerId"))
	s, ok := c.sessions[id]
	if !ok {
		return
	}
	if r.Int("InControlledShutdown") == 1 {
		s.shutdownOffset = int64(end)
	}
	if r.Int("Fenced") != 0 {
		s.shutdownOffset = -1
	}
	c.sessions[id] = s
}

// Deadline returns when to call Tick.
func (c *Controller) Deadline() raft.Millis {
	if c.cfg.MaxIdleIntervalMillis > 0 && c.nextNoOp < c.nextCheck {
		return c.nextNoOp
	}
	return c.nextCheck
}

// Tick decides what the passing of time adds at nextOffset: the records that fence a silent broker, or a NoOpRecord.
func (c *Controller) Tick(now raft.Millis, nextOffset raft.Offset) []record.Record {
	if now >= c.nextCheck {
		c.nextCheck = now + max(c.cfg.SessionTimeoutMillis/fenceEvery, 1)
		if id, ok := c.expired(now); ok {
			c.nextCheck = now + fenceNextMillis
			d := c.draft(nextOffset)
			d.fence(id)
			return d.records
		}
	}
	if c.cfg.MaxIdleIntervalMillis > 0 && now >= c.nextNoOp {
		c.nextNoOp = now + c.cfg.MaxIdleIntervalMillis
		return []record.Record{record.New(record.NoOp, 0)}
	}
	return nil
}

// live reports whether a session has not ended.
func (c *Controller) live(s session, now raft.Millis) bool {
	return now-s.contact <= c.cfg.SessionTimeoutMillis
}

// expired forgets the sessions of fenced brokers that have ended, and returns the broker to be fenced: of those that
// are silent for too long the one that is so for longest.
func (c *Controller) expired(now raft.Millis) (id int32, ok bool) {
	var first session
	for broker, s := range c.sessions {
		if c.live(s, now) {
			continue
		}
		if c.image.Broker(broker).Fenced {
			delete(c.sessions, broker)
			continue
		}
		if !ok || s.contact < first.contact || s.contact == first.contact && broker < id {
			id, first, ok = broker, s, true
		}
	}
	return id, ok
}
