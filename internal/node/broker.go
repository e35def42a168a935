package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
)

// Kafka's intervals of a broker's life, beside broker.heartbeat.interval.ms.
const (
	channelTimeout     = 5 * time.Second       // of one request to the active controller
	startHeartbeats    = 10 * time.Millisecond // between heartbeats until the broker runs, and while it shuts down; doubled by each failure
	controlledShutdown = 5 * time.Second       // then the broker goes without leave
)

// brokerState is where a broker is in its life.
type brokerState int32

const (
	brokerStarting brokerState = iota // registers, and reads up to its own registration
	brokerRecovery                    // has caught up, and asks to be unfenced
	brokerRunning
	brokerStopping // asks for leave to go
)

func (s brokerState) String() string {
	return [...]string{"STARTING", "RECOVERY", "RUNNING", "PENDING_CONTROLLED_SHUTDOWN"}[s]
}

// code is Kafka's number of the state.
func (s brokerState) code() int { return [...]int{1, 2, 3, 6}[s] }

// broker is the life of a broker as the active controller sees it (KIP-631): registration, then heartbeats, first
// fenced until it has caught up, then unfenced; at the end it asks for leave.
//
// It has no topics and takes no replicas: from 4.3-IV0 on it reports all its directories as cordoned, below it warns. It
// stops if the cluster counts on it for a replica all the same.
type broker struct {
	registration *kmsg.BrokerRegistrationRequest // without the cluster id, and without log directories until it registers
	logDirs      func() (online, offline []uuid.UUID)
	interval     time.Duration // broker.heartbeat.interval.ms
	patience     time.Duration // initial.broker.registration.timeout.ms
	views        *views
	channel      *controllerChannel
	log          *slog.Logger

	running chan struct{} // closed when the broker is in RUNNING
	state   atomic.Int32
	refusal atomic.Pointer[error] // of the last attempt to register; nil: there was none yet
}

// run asks for leave when work ends. It ends when it has that (nil), when ctx ends, or with the reason why the broker
// cannot go on.
func (b *broker) run(ctx, work context.Context) error {
	defer b.channel.close()
	asking, cancel := context.WithCancel(ctx) // what is asked for does not outlive work
	defer cancel()
	defer context.AfterFunc(work, cancel)()
	epoch, registered, err := b.register(asking)
	if !registered {
		return err
	}
	fenced, failure, failures := true, "", 0
	for {
		state := brokerState(b.state.Load())
		resp, err := b.heartbeat(asking, epoch, state)
		switch v := b.views.get(); {
		case v.replicas > 0 && state != brokerStopping && (state != brokerStarting || err == nil && resp.IsCaughtUp):
			return &Error{
				What: fmt.Sprintf("the cluster has replicas of %d partitions on broker %d, and a kstorage node has no topics", v.replicas, b.registration.BrokerID),
				Fix:  "run Apache Kafka as this broker, or move its partitions to other brokers first (kafka-reassign-partitions)",
			}
		case state == brokerStopping && resp != nil && resp.ErrorCode == codeStaleBrokerEpoch:
			return nil // it was unregistered
		case err != nil:
			if text := err.Error(); text != failure && !errors.Is(err, context.Canceled) {
				failure = text
				b.log.Warn("Heartbeat failed", "error", err)
			}
		case state == brokerStarting && resp.IsCaughtUp:
			b.enter(brokerRecovery)
			continue
		case state == brokerRecovery && !resp.IsFenced:
			b.enter(brokerRunning)
			close(b.running)
			if !v.version.SupportsCordonedDirectories() {
				b.log.Warn("The cluster may give this broker partitions, of which it takes none: below metadata.version 4.3-IV0 it cannot say so", "metadata.version", v.version)
			}
			fenced = false
			continue // reports the cordoned directories at once
		case state == brokerStopping && resp.ShouldShutdown:
			return nil
		case state == brokerRunning && resp.IsFenced != fenced:
			b.log.Info("The controller changed its mind about this broker", "fenced", resp.IsFenced)
		}
		if err == nil {
			fenced, failure, failures = resp.IsFenced, "", 0
		} else {
			failures++
		}
		pause := b.interval
		if state != brokerRunning || failures > 0 {
			pause = min(pause, startHeartbeats<<min(failures, 20)) // 20: hours
		}
		select {
		case <-time.After(pause):
			continue
		case <-asking.Done():
		}
		switch {
		case ctx.Err() != nil, state == brokerStarting: // nobody counts on it yet
			return nil
		case state == brokerStopping:
			b.log.Warn("The controller did not give leave to shut down in time", "waited", controlledShutdown)
			return nil
		}
		b.enter(brokerStopping)
		asking, cancel = context.WithTimeout(ctx, controlledShutdown)
		defer cancel() // once
	}
}

// heartbeat returns the answer also where it has an error.
func (b *broker) heartbeat(ctx context.Context, epoch int64, state brokerState) (*kmsg.BrokerHeartbeatResponse, error) {
	v := b.views.get()
	q := kmsg.NewPtrBrokerHeartbeatRequest()
	q.BrokerID, q.BrokerEpoch, q.CurrentMetadataOffset = b.registration.BrokerID, epoch, int64(v.offset)
	q.WantFence, q.WantShutdown = state == brokerStarting, state == brokerStopping
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	resp, err := b.channel.call(ctx, q.Key(), q.MaxVersion(), func(version int16) (kmsg.Request, error) {
		q.SetVersion(version)
		if version >= 2 && state != brokerStarting && v.version.SupportsCordonedDirectories() {
			q.CordonedLogDirs = b.registration.LogDirs
		}
		return q, nil
	})
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.BrokerHeartbeatResponse)
	return r, codeError(r.ErrorCode)
}

func (b *broker) enter(s brokerState) {
	b.log.Info(fmt.Sprintf("Transitioning from %s to %s", brokerState(b.state.Load()), s), "broker", b.registration.BrokerID)
	b.state.Store(int32(s))
}

// register returns the broker's epoch. It needs a leader and the cluster id, and waits for both as long as that takes.
func (b *broker) register(ctx context.Context) (epoch int64, registered bool, err error) {
	var timeout <-chan time.Time
	var failure error
	for {
		v := b.views.get()
		var pause <-chan time.Time
		if v.clusterID != "" && v.leader.LeaderID != raft.None {
			if timeout == nil {
				timeout = time.After(b.patience)
			}
			if epoch, failure = b.ask(ctx, v.clusterID); failure == nil {
				b.refusal.Store(nil)
				b.log.Info("Broker registered", "broker", b.registration.BrokerID, "epoch", epoch)
				return epoch, true, nil
			}
			refusal := failure
			b.refusal.Store(&refusal)
			wait := registrationBackoff
			if errors.Is(failure, answerError(codeNotController)) {
				wait = startHeartbeats // it leads, and has not loaded all yet
			}
			pause = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return 0, false, nil
		case <-timeout:
			return 0, false, &Error{
				What:  fmt.Sprintf("broker %d could not register within %v: %v", b.registration.BrokerID, b.patience, failure),
				Where: "initial.broker.registration.timeout.ms",
				Fix:   wayOut(failure),
			}
		case <-pause:
		case <-next(v, pause):
		}
	}
}

// wayOut is what a person can do about a registration that fails.
func wayOut(failure error) string {
	code, _ := errors.AsType[answerError](failure)
	switch int16(code) {
	case codeDuplicateBroker:
		return "another node runs with this node.id: give each an id of its own, or stop the other one"
	case codeInvalidRegistration:
		return "a log directory has the directory.id of one of another broker: it is a copy, start without it"
	case codeUnsupportedVersion:
		return "the cluster has finalized features that this release does not support (kfeatures describe): run the release that the other nodes run"
	}
	return "see to the active controller, and to the network between"
}

// next is v's channel where there is no pause to keep.
func next(v *view, pause <-chan time.Time) <-chan struct{} {
	if pause != nil {
		return nil
	}
	return v.next
}

func (b *broker) ask(ctx context.Context, clusterID string) (epoch int64, err error) {
	b.registration.LogDirs = nil
	online, _ := b.logDirs() // now: one may have failed when the cluster id was stored
	for _, id := range online {
		b.registration.LogDirs = append(b.registration.LogDirs, id)
	}
	q := *b.registration
	q.ClusterID = clusterID
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	resp, err := b.channel.do(ctx, &q)
	if err != nil {
		return 0, err
	}
	r := resp.(*kmsg.BrokerRegistrationResponse)
	return r.BrokerEpoch, codeError(r.ErrorCode)
}
