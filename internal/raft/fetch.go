package raft

// checkLeaderOnly is the check of Fetch, FetchSnapshot and UpdateRaftVoter (KIP-595). A higher epoch changes
// nothing here. Kafka's BROKER_NOT_AVAILABLE of a leader that shuts down has no place: it resigns first.
func (c *Core) checkLeaderOnly(epoch Epoch) Code {
	switch {
	case epoch < c.state.epoch:
		return FencedLeaderEpoch
	case epoch > c.state.epoch:
		return UnknownLeaderEpoch
	case c.role.kind() != Leader:
		return NotLeaderOrFollower
	}
	return NoError
}

// handleFetch answers a Fetch, or keeps it until there is something to tell (KIP-595).
func (c *Core) handleFetch(in Received, r *FetchRequest) {
	if !c.ourCluster(r.ClusterID) {
		c.reply(in, &FetchResponse{Code: InconsistentClusterID, HighWatermark: Unknown})
		return
	}
	if code := c.checkFetch(r); code != NoError {
		c.reply(in, c.fetchError(in, code))
		return
	}
	l := c.role.(*leader)
	place := c.log.place(r.FetchOffset, r.LastFetchedEpoch)
	if place.valid() && r.Replica.NodeID >= 0 {
		l.heardFetch(c, r.Replica, r.FetchOffset)
		l.advance(c)
		if c.role != l {
			c.reply(in, c.fetchError(in, NotLeaderOrFollower))
			return
		}
	}
	f := pendingFetch{in, r, c.now + r.MaxWaitMillis}
	if r.MaxWaitMillis > 0 && !l.hasNews(c, f, place) {
		l.fetches = append(l.fetches, f)
		return
	}
	c.reply(in, l.answer(c, f, place))
}

func (c *Core) checkFetch(r *FetchRequest) Code {
	if r.MaxWaitMillis < 0 || r.FetchOffset < 0 || r.LastFetchedEpoch < 0 || r.LastFetchedEpoch > r.Epoch {
		return InvalidRequest
	}
	if code := c.checkLeaderOnly(r.Epoch); code != NoError {
		return code
	}
	if r.Replica.NodeID == c.cfg.NodeID {
		return UnknownServerError // a node doesn't fetch from itself: somebody else has its id
	}
	return NoError
}

func (c *Core) fetchError(in Received, code Code) *FetchResponse {
	return &FetchResponse{Partition: code, LeaderView: c.view(in.Listener), HighWatermark: Unknown, LogStart: c.log.start}
}

// hasNews tells that a Fetch needn't wait.
func (l *leader) hasNews(c *Core, f pendingFetch, place fetchPlace) bool {
	return !place.valid() || f.request.FetchOffset < c.log.end || f.request.HighWatermark < l.reportedHW(c)
}

func (l *leader) answer(c *Core, f pendingFetch, place fetchPlace) *FetchResponse {
	r := c.fetchError(f.in, NoError)
	r.HighWatermark = l.reportedHW(c)
	r.Diverging, r.SnapshotID = place.diverging, place.snapshot
	if place.valid() {
		// Up to the log's end, not the high watermark: followers have to have it before it can commit. The
		// fsync of this node goes on meanwhile.
		r.Read = LogRange{f.request.FetchOffset, c.log.end, f.request.MaxBytes}
	}
	return r
}

// completeFetches answers those that have news, and those whose wait is over.
func (l *leader) completeFetches(c *Core) {
	waiting := l.fetches[:0]
	for _, f := range l.fetches {
		place := c.log.place(f.request.FetchOffset, f.request.LastFetchedEpoch)
		if f.by <= c.now || l.hasNews(c, f, place) {
			c.reply(f.in, l.answer(c, f, place))
		} else {
			waiting = append(waiting, f)
		}
	}
	clear(l.fetches[len(waiting):])
	l.fetches = waiting
}

// handleDescribeQuorum tells of all replicas (KIP-595).
func (c *Core) handleDescribeQuorum(in Received) {
	l, ok := c.role.(*leader)
	if !ok {
		c.reply(in, &DescribeQuorumResponse{Partition: NotLeaderOrFollower, LeaderID: c.state.leaderID, Epoch: c.state.epoch, HighWatermark: Unknown})
		return
	}
	l.forgetObservers(c)
	r := &DescribeQuorumResponse{LeaderID: c.cfg.NodeID, Epoch: c.state.epoch, HighWatermark: l.reportedHW(c), Nodes: c.voters()}
	own := ReplicaState{c.ownKey(), c.log.end, c.now, c.now}
	if !c.isVoter() {
		r.Observers = append(r.Observers, own)
	}
	for _, v := range c.voters() {
		if v.matches(c.ownKey()) {
			own.Key = v.Key
			r.Voters = append(r.Voters, own)
			continue
		}
		r.Voters = append(r.Voters, l.replica(v.Key).state())
	}
	for _, replica := range l.replicas {
		if voterOf(c.voters(), replica.key) == nil {
			r.Observers = append(r.Observers, replica.state())
		}
	}
	c.reply(in, r)
}

func (r *replica) state() ReplicaState {
	return ReplicaState{r.key, r.end, r.lastFetch, r.lastCaughtUp}
}
