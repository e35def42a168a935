package raft

import (
	"fmt"
	"slices"
	"strings"
)

// requests is what the node has asked others and not heard of yet: at most one request a destination, because a
// connection carries one at a time. A destination that failed is left alone for the retry backoff.
type requests struct {
	last     RequestID
	inFlight []outgoing
	backoffs []backoff
}

type outgoing struct {
	id      RequestID
	to      NodeID
	by      Millis // the end of its timeout
	request Request
}

type backoff struct {
	to    NodeID
	until Millis
}

// reset forgets everything. Answers to what was under way find no request any more and are dropped.
func (r *requests) reset() { r.inFlight, r.backoffs = nil, nil }

// waitsFor reports whether a request to a node is under way.
func (r *requests) waitsFor(to NodeID) bool {
	return slices.ContainsFunc(r.inFlight, func(o outgoing) bool { return o.to == to })
}

// ready reports whether a request can be sent to a node now.
func (r *requests) ready(to NodeID, now Millis) bool {
	return !r.waitsFor(to) &&
		!slices.ContainsFunc(r.backoffs, func(b backoff) bool { return b.to == to && b.until > now })
}

// fetching reports whether a Fetch or FetchSnapshot is under way: there is at most one to a bootstrap server, and one
// to the leader.
func (r *requests) fetching() bool { return slices.ContainsFunc(r.inFlight, outgoing.fetches) }

// forgetFetches forgets them. One of two has been answered; the other's answer would be to a log of before, or tell of a
// high watermark of before.
func (r *requests) forgetFetches() { r.inFlight = slices.DeleteFunc(r.inFlight, outgoing.fetches) }

func (o outgoing) fetches() bool {
	switch o.request.(type) {
	case *FetchRequest, *FetchSnapshotRequest:
		return true
	}
	return false
}

// take removes a request that has come to an end.
func (r *requests) take(id RequestID) (outgoing, bool) {
	i := slices.IndexFunc(r.inFlight, func(o outgoing) bool { return o.id == id })
	if i < 0 {
		return outgoing{}, false
	}
	o := r.inFlight[i]
	r.inFlight = slices.Delete(r.inFlight, i, i+1)
	return o, true
}

func (r *requests) backOff(to NodeID, until Millis) {
	r.forgive(to)
	r.backoffs = append(r.backoffs, backoff{to, until})
}

// forgive ends a backoff.
func (r *requests) forgive(to NodeID) {
	r.backoffs = slices.DeleteFunc(r.backoffs, func(b backoff) bool { return b.to == to })
}

// expire removes and returns the requests whose time is over, and forgets backoffs that are.
func (r *requests) expire(now Millis) []outgoing {
	r.backoffs = slices.DeleteFunc(r.backoffs, func(b backoff) bool { return b.until <= now })
	var late []outgoing
	r.inFlight = slices.DeleteFunc(r.inFlight, func(o outgoing) bool {
		if o.by <= now {
			late = append(late, o)
		}
		return o.by <= now
	})
	return late
}

func (r *requests) deadline() Millis {
	at := never
	for _, o := range r.inFlight {
		at = min(at, o.by)
	}
	for _, b := range r.backoffs {
		at = min(at, b.until)
	}
	return at
}

func (c *Core) ready(to NodeID) bool { return c.out.ready(to, c.now) }

func (c *Core) send(to NodeID, at Endpoint, r Request) {
	timeout := max(1, c.cfg.RequestTimeoutMillis)
	c.out.last++
	c.out.inFlight = append(c.out.inFlight, outgoing{c.out.last, to, c.now + timeout, r})
	c.emit(Send{c.out.last, Destination{to, at}, timeout, r})
}

// sendToVoter sends to a voter's default listener.
func (c *Core) sendToVoter(v Voter, r Request) {
	c.send(v.Key.NodeID, c.defaultEndpoint(v.Endpoints), r)
}

// defaultEndpoint returns where the node that has these endpoints is dialled; zero if it doesn't say.
func (c *Core) defaultEndpoint(endpoints []Endpoint) Endpoint {
	e, _ := endpoint(endpoints, c.cfg.DefaultListener)
	return e
}

func (c *Core) backOff(to NodeID) { c.out.backOff(to, c.now+max(1, c.cfg.RetryBackoffMillis)) }

func (c *Core) handleSendFailed(in SendFailed) {
	if o, ok := c.out.take(in.ID); ok {
		c.sendFailed(o, in.Reason)
	}
}

func (c *Core) sendFailed(o outgoing, reason SendFailure) {
	c.backOff(o.to)
	if f, ok := c.role.(*follower); ok && o.to == c.state.leaderID {
		f.connectionFailed(c, reason)
	}
	switch r := o.request.(type) {
	case *VoteRequest:
		c.voteFailed(o, r, reason)
	case *BeginQuorumEpochRequest:
		if l, ok := c.role.(*leader); ok {
			l.begun(o.to)
		}
	case *UpdateVoterRequest:
		if f, ok := c.role.(*follower); ok && reason == Unsupported {
			f.updated = true
		}
	case *ApiVersionsRequest:
		c.probed(o.id, UnsupportedVersion, nil)
	}
}

// handleResponse brings an answer to who waits for it. An answer of another API than the request's is a fault
// of the driver, and counts as one that cannot be read.
func (c *Core) handleResponse(in Answered) {
	o, ok := c.out.take(in.ID)
	if !ok {
		return
	}
	switch q := o.request.(type) {
	case *VoteRequest:
		if r, ok := in.Response.(*VoteResponse); ok && r != nil {
			c.handleVoteResponse(o, q, r)
			return
		}
	case *BeginQuorumEpochRequest:
		if r, ok := in.Response.(*BeginQuorumEpochResponse); ok && r != nil {
			c.handleBeginQuorumEpochResponse(o, r)
			return
		}
	case *EndQuorumEpochRequest:
		if r, ok := in.Response.(*EndQuorumEpochResponse); ok && r != nil {
			c.handleEndQuorumEpochResponse(o, r)
			return
		}
	case *FetchRequest:
		if r, ok := in.Response.(*FetchResponse); ok && r != nil {
			c.handleFetchResponse(o, r)
			return
		}
	case *FetchSnapshotRequest:
		if r, ok := in.Response.(*FetchSnapshotResponse); ok && r != nil {
			c.handleFetchSnapshotResponse(o, q, r)
			return
		}
	case *AddVoterRequest, *RemoveVoterRequest:
		if r, ok := in.Response.(*ChangeVoterResponse); ok && r != nil {
			c.handleJoinResponse(o, r)
			return
		}
	case *UpdateVoterRequest:
		if r, ok := in.Response.(*UpdateVoterResponse); ok && r != nil {
			c.handleUpdateVoterResponse(o, r)
			return
		}
	case *ApiVersionsRequest:
		if r, ok := in.Response.(*ApiVersionsResponse); ok && r != nil {
			c.probed(o.id, r.Code, r)
			return
		}
	}
	c.sendFailed(o, Corrupt)
}

// topLevel deals with an error that concerns the whole request. It reports whether there is none.
func (c *Core) topLevel(o outgoing, code Code) bool {
	switch code {
	case NoError:
		return true
	case ClusterAuthorization:
		c.die("node %d refuses this node: cluster authorization failed", o.to)
	case BrokerNotAvailable:
	default:
		c.tell(Notice{fmt.Sprintf("%s answers %s with an error", c.nameOf(o.to), requestName(o.request)), o.to, code})
	}
	c.backOff(o.to)
	return false
}

// nameOf is a node in a notice; a bootstrap server has no id that says anything.
func (c *Core) nameOf(id NodeID) string {
	if i := int(-2 - id); id < None && i < len(c.cfg.BootstrapServers) {
		e := c.cfg.BootstrapServers[i]
		return fmt.Sprintf("%s:%d", e.Host, e.Port)
	}
	return fmt.Sprintf("node %d", id)
}

// partition deals with the error and the view of the leader that all raft answers have (KIP-595). It reports
// whether the answer counts: it has no error and is of this epoch. Otherwise the destination is left alone for
// a moment, unless the role has changed.
func (c *Core) partition(o outgoing, code Code, view LeaderView) bool {
	before := c.role
	ok := c.adopt(o, code, view)
	if !ok && c.role == before {
		c.backOff(o.to)
	}
	return ok
}

func (c *Core) adopt(o outgoing, code Code, view LeaderView) bool {
	if view.Epoch < c.state.epoch || code == UnknownLeaderEpoch {
		return false // of the past
	}
	var endpoints []Endpoint
	if view.Endpoint.Host != "" {
		// The answer names the address alone; it is that of the listener on which this node dials others.
		endpoints = []Endpoint{{c.cfg.DefaultListener, view.Endpoint.Host, view.Endpoint.Port}}
	}
	higher := view.Epoch > c.state.epoch
	if !c.learn(view.Epoch, view.LeaderID, endpoints) {
		c.die("node %d says that node %d leads epoch %d, which node %d does", o.to, view.LeaderID, view.Epoch, c.state.leaderID)
		return false
	}
	switch code {
	case NoError:
		return !higher
	case InvalidRequest:
		c.die("node %d refuses %s as invalid", o.to, requestName(o.request))
	case InvalidVoterKey:
		c.notice("node %d has another id or directory id than the voter set has for it", o.to)
	}
	return false
}

func requestName(r Request) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", r), "*raft."), "Request")
}
