package raft

const (
	// maxReadBytes is the most that a peer gets with one answer, except for one larger batch. It is Kafka's largest batch:
	// what comes in over the wire must not decide on this node's memory.
	maxReadBytes int32 = 8 << 20

	// maxFetchWaitMillis is the longest wait of a Fetch that has nothing to bring: ten times what nodes ask for, and
	// longer than they wait for any answer.
	maxFetchWaitMillis Millis = 5000

	// maxObservers is how many replicas a leader remembers before it takes in no more observers, and how many Fetches
	// wait. Beyond it they are served without either: no cluster has so many brokers, somebody makes up keys.
	maxObservers = 10_000
)

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
		c.reply(in, &FetchResponse{Code: InconsistentClusterID, LeaderView: noView, HighWatermark: Unknown})
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
	l.replaceFetch(c, r.Replica)
	f := pendingFetch{in, r, c.now + min(r.MaxWaitMillis, maxFetchWaitMillis)}
	if f.by > c.now && len(l.fetches.list) < maxObservers && !l.hasNews(c, f, place) {
		l.fetches.add(f)
		return
	}
	c.reply(in, l.answer(c, f, place))
}

// replaceFetch answers a Fetch that waits when its replica sends another one: it has given that one up.
func (l *leader) replaceFetch(c *Core, key ReplicaKey) {
	if f, ok := l.fetches.take(key); ok {
		c.reply(f.in, l.answer(c, f, fetchPlace{}))
	}
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

// hasNews tells that a Fetch needn't wait. To a voter each record is news, as it has to have it before it can be committed.
//
// Unlike Kafka, where that holds for observers too: an observer does nothing with a record before it knows that it is
// committed. It gets both with one answer, where a thousand of them would else be told twice, and the second time only
// after the first had reached all. What is committed in quick succession they get together: see roundMillis.
func (l *leader) hasNews(c *Core, f pendingFetch, place fetchPlace) bool {
	hw := l.reportedHW(c)
	switch {
	case !place.valid():
		return true
	case voterOf(c.voters(), f.request.Replica) != nil:
		return f.request.FetchOffset < c.log.end || l.commitIsNews(c, f.request.HighWatermark)
	case f.request.FetchOffset >= hw && f.request.HighWatermark >= hw:
		return false
	}
	l.roundDue = l.roundDue || l.roundAt > c.now
	return l.roundAt <= c.now
}

// commitAloneMillis is how long voters wait for news of a commit to come with the next record.
const commitAloneMillis Millis = 2

// commitIsNews tells that a voter, which knows a high watermark, need not wait for the next record to hear of a newer one.
//
// Unlike Kafka, which tells it at once (KIP-1166): a client that writes one record after the other would wait for that answer
// and the Fetch that follows, before the voter can get the next record. The first commit of an epoch is told at once, as
// nodes that start wait for it.
func (l *leader) commitIsNews(c *Core, known Offset) bool {
	switch {
	case known >= l.reportedHW(c):
		return false
	case known <= l.epochStart:
		return true
	}
	l.votersAt = min(l.votersAt, c.now+commitAloneMillis)
	return l.votersAt <= c.now
}

// roundMillis is for how long a leader leaves its observers alone when it has told them of a commit: 40 microseconds for each,
// about twice what an answer and the next Fetch cost. With a thousand of them and a hundred commits a second it would else do
// nothing but that, and the commits, and so the observers too, would wait longer.
func (l *leader) roundMillis() Millis { return Millis(len(l.replicas) * 40 / 1000) }

func (l *leader) answer(c *Core, f pendingFetch, place fetchPlace) *FetchResponse {
	r := c.fetchError(f.in, NoError)
	r.HighWatermark = l.reportedHW(c)
	r.Diverging, r.SnapshotID = place.diverging, place.snapshot
	if place.valid() {
		// Up to the log's end, not the high watermark: followers have to have it before it can commit. The
		// fsync of this node goes on meanwhile.
		r.Read = LogRange{f.request.FetchOffset, c.log.end, min(f.request.MaxBytes, maxReadBytes)}
	}
	return r
}

// completeFetches answers those whose wait is over, and those that have news. It is called whenever that could be, and
// looks at all only if there can be news: what waits is at the log's end, or at what is committed of it, where nothing
// else is news; or it waits for the next round.
func (l *leader) completeFetches(c *Core) {
	for f, ok := l.fetches.takeDue(c.now); ok; f, ok = l.fetches.takeDue(c.now) {
		c.reply(f.in, l.answer(c, f, f.place(c)))
	}
	if l.toldEnd == c.log.end && l.toldHW == l.reportedHW(c) && !(l.roundDue && l.roundAt <= c.now) && l.votersAt > c.now {
		return
	}
	voters := l.votersAt <= c.now || l.toldEnd != c.log.end // all that wait get their answers
	l.toldEnd, l.toldHW, l.roundDue = c.log.end, l.reportedHW(c), false
	round := false
	l.fetches.keep(func(f pendingFetch) bool {
		place := f.place(c)
		if !l.hasNews(c, f, place) {
			return true
		}
		c.reply(f.in, l.answer(c, f, place))
		round = round || voterOf(c.voters(), f.request.Replica) == nil
		return false
	})
	if round {
		l.roundAt = c.now + l.roundMillis()
	}
	if voters {
		l.votersAt = never
	}
}

func (f pendingFetch) place(c *Core) fetchPlace {
	return c.log.place(f.request.FetchOffset, f.request.LastFetchedEpoch)
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
