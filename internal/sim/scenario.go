package sim

import (
	"slices"
	"syscall"

	"kstorage/internal/raft"
)

// scenario is a kind of cluster and what it has to bear.
type scenario struct {
	name          string
	voters        []int   // one of these numbers
	observers     int     // at most
	static        float64 // how many clusters begin with kraft.version 0
	quick         float64 // how many have short timeouts: more elections, more of them split
	autoJoin      float64 // how many controllers join by themselves
	appendEvery   micros
	snapshotEvery int     // batches; 0: never
	cleanEvery    micros  // 0: never
	slowDisks     float64 // how many clusters have fsyncs of seconds
	startFaults   float64
	deleteState   float64 // how many starts find that somebody has deleted quorum-state
	barrierFaults float64 // how many barriers are the last thing that a process does
	faultsUntil   micros
	loss          float64 // also duplicates, delays and damage
	faults        []fault
}

// fault is something that happens again and again.
type fault struct {
	every micros // on average
	make  func(*world)
}

// scenarios are the kinds that TestSim runs.
var scenarios = []*scenario{
	base("calm"),
	base("partition", fault{3 * second, partition}),
	base("loss", fault{5 * second, reset}, fault{10 * second, partition}).with(func(s *scenario) { s.loss = 0.05 }),
	base("refuse", fault{2 * second, reset}, fault{5 * second, refuse}),
	base("storm", fault{700 * millisecond, partition}, fault{4 * second, kill}, fault{4 * second, losePower}).with(func(s *scenario) {
		s.voters = []int{3, 5}
		s.appendEvery = 40 * millisecond
	}),
	base("election", fault{second, killLeader}, fault{second, hangDisk}, fault{2 * second, partition}).with(func(s *scenario) {
		s.voters = []int{3, 5, 5}
		s.quick, s.slowDisks = 1, 1
		s.appendEvery = 300 * millisecond
		s.barrierFaults = 0.1
		s.loss = 0.06
		s.faultsUntil = 15 * second
	}),
	base("churn", fault{600 * millisecond, changeVoters}, fault{1200 * millisecond, partition}, fault{4 * second, losePower}).with(dynamic).with(func(s *scenario) {
		s.voters = []int{2, 3, 4}
		s.autoJoin = 0.3
		s.barrierFaults = 0.01
	}),
	base("strangers", fault{500 * millisecond, stranger}, fault{5 * second, losePower}),
	base("crash", fault{4 * second, kill}, fault{4 * second, losePower}, fault{30 * second, blackout}).with(func(s *scenario) { s.deleteState = 0.1 }),
	base("disk", fault{3 * second, failDisk}, fault{3 * second, crashDisk}).with(func(s *scenario) { s.startFaults = 0.2 }),
	base("clock", fault{2 * second, pause}, fault{4 * second, jump}),
	base("single", fault{3 * second, kill}, fault{3 * second, losePower}, fault{5 * second, crashDisk}).with(func(s *scenario) {
		s.voters = []int{1}
		s.snapshotEvery, s.cleanEvery = 20, 3*second
	}),
	base("shutdown", fault{4 * second, shutdown}, fault{6 * second, resign}, fault{8 * second, losePower}),
	base("members", fault{2 * second, changeVoters}, fault{6 * second, kill}, fault{8 * second, partition}, fault{20 * second, move}).with(dynamic),
	base("join", fault{3 * second, changeVoters}, fault{4 * second, losePower}, fault{6 * second, partition}).with(dynamic).with(func(s *scenario) {
		s.autoJoin = 0.7
	}),
	base("replace", fault{3 * second, replaceDisk}, fault{5 * second, changeVoters}, fault{5 * second, losePower}).with(dynamic).with(func(s *scenario) {
		s.autoJoin = 0.6
		s.snapshotEvery, s.cleanEvery = 20, 3*second
	}),
	base("upgrade", fault{2 * second, upgrade}, fault{4 * second, losePower}, fault{5 * second, partition}, fault{4 * second, changeVoters}).with(func(s *scenario) {
		s.static = 1
		s.observers = 2
	}),
	base("snapshot", fault{3 * second, replaceObserver}, fault{3 * second, partition}, fault{4 * second, losePower}, fault{4 * second, kill}, fault{6 * second, crashDisk}).with(func(s *scenario) {
		s.observers = 2
		s.snapshotEvery, s.cleanEvery = 6, second
		s.loss = 0.05
		s.appendEvery = 60 * millisecond
	}),
	base("everything", fault{4 * second, partition}, fault{8 * second, reset}, fault{15 * second, refuse}, fault{5 * second, kill}, fault{5 * second, losePower},
		fault{40 * second, blackout}, fault{10 * second, failDisk}, fault{8 * second, crashDisk}, fault{8 * second, pause}, fault{10 * second, jump},
		fault{15 * second, shutdown}, fault{20 * second, resign}, fault{4 * second, changeVoters}, fault{10 * second, replaceDisk}, fault{5 * second, upgrade},
		fault{20 * second, move}).with(func(s *scenario) {
		s.loss = 0.02
		s.observers = 2
		s.autoJoin = 0.4
		s.startFaults, s.deleteState = 0.05, 0.05
		s.snapshotEvery, s.cleanEvery = 15, 3*second
		s.faultsUntil = 40 * second
	}),
}

func base(name string, faults ...fault) *scenario {
	return &scenario{
		name:        name,
		voters:      []int{1, 3, 3, 3, 5},
		observers:   1,
		static:      0.4,
		quick:       0.3,
		slowDisks:   0.3,
		appendEvery: 150 * millisecond,
		faultsUntil: 25 * second,
		faults:      faults,
	}
}

func (s *scenario) with(change func(*scenario)) *scenario {
	change(s)
	return s
}

func dynamic(s *scenario) {
	s.static = 0
	s.observers = 3
}

// inject makes a fault again and again, until the faults end.
func (w *world) inject(f fault) {
	w.after(f.every/4+w.micros(f.every*3/2), func() {
		if w.faulting {
			f.make(w)
			w.inject(f)
		}
	})
}

// victim picks a machine with a running process: rather the leader's. nil: there is none.
func (w *world) victim() *machine {
	var running, leading []*machine
	for _, m := range w.machines {
		if m.process != nil {
			running = append(running, m)
			if m.process.status.Role == raft.Leader {
				leading = append(leading, m)
			}
		}
	}
	switch {
	case len(running) == 0:
		return nil
	case len(leading) > 0 && w.chance(0.4):
		return pick(w, leading)
	default:
		return pick(w, running)
	}
}

// leader returns the process that leads the highest epoch, nil if none leads.
func (w *world) leader() (leader *process) {
	for _, m := range w.machines {
		if p := m.process; p != nil && p.status.Role == raft.Leader && (leader == nil || p.status.Epoch > leader.status.Epoch) {
			leader = p
		}
	}
	return leader
}

// partition cuts the network in two, or one machine off, or some ways in one direction only.
func partition(w *world) {
	n := len(w.machines)
	if n == 1 {
		return
	}
	side := make([]bool, n)
	if v := w.victim(); v != nil && w.chance(0.5) {
		side[v.index] = true
	} else {
		for i := range side {
			side[i] = w.chance(0.5)
		}
	}
	oneWay := w.chance(0.3)
	for i := range n {
		for j := range n {
			if side[i] != side[j] && (!oneWay || side[i]) {
				w.network.cut[i][j] = true
			}
		}
	}
	w.logf("partition: %v, one way: %t", side, oneWay)
	w.after(w.micros(6*second), func() {
		for _, row := range w.network.cut {
			clear(row)
		}
	})
}

// reset breaks all connections of a machine once.
func reset(w *world) {
	if v := w.victim(); v != nil {
		w.logf("%s loses its connections", v)
		for _, m := range w.machines {
			if m.process != nil {
				w.network.disconnect(m.process, func(c *call) bool { return c.server.machine == v || m == v })
			}
		}
	}
}

// refuse lets a live node refuse connections for a while.
func refuse(w *world) {
	if v := w.victim(); v != nil {
		reset(w)
		w.network.refusing[v.index] = true
		w.after(w.micros(second), func() { w.network.refusing[v.index] = false })
	}
}

// killLeader is a short one.
func killLeader(w *world) {
	if p := w.leader(); p != nil {
		p.machine.crash(w.chance(0.5))
		w.after(w.micros(second/2), p.machine.start)
	}
}

func kill(w *world)      { w.crash(w.victim(), false) }
func losePower(w *world) { w.crash(w.victim(), true) }

func (w *world) crash(m *machine, power bool) {
	if m == nil {
		return
	}
	if power && m.process.driver.syncing && w.chance(0.5) {
		// In the middle of its write.
		m.disk.CrashAt(m.disk.Steps() + 1 + w.intN(2))
		m.process.driver.log.Sync()
	}
	m.crash(power)
	w.after(w.micros(5*second), m.start)
}

// blackout takes the power from all.
func blackout(w *world) {
	for _, m := range w.machines {
		if m.process != nil {
			w.crash(m, true)
		}
	}
}

// failDisk lets a write or fsync fail.
func failDisk(w *world) {
	if m := w.victim(); m != nil {
		m.disk.FailAt(m.disk.Steps()+1+w.intN(20), syscall.EIO)
	}
}

// crashDisk lets a node crash in the middle of a write.
func crashDisk(w *world) {
	if m := w.victim(); m != nil {
		m.disk.CrashAt(m.disk.Steps() + 1 + w.intN(20))
	}
}

// hangDisk lets an fsync hang for longer than the leader lives.
func hangDisk(w *world) {
	if m := w.victim(); m != nil {
		m.hangs = second + w.micros(2*second)
		w.after(w.micros(second/2), func() { killLeader(w) })
	}
}

// pause stops a process for a while, and its clock with it or not.
func pause(w *world) {
	if m := w.victim(); m != nil && m.process.pausedTo < w.now {
		d := w.micros(pick(w, []micros{100 * millisecond, second, 6 * second}))
		m.process.pausedTo = w.now + d
		if w.chance(0.3) {
			m.clock -= d
			m.process.alarmAnew()
		}
	}
}

// jump lets a clock go forward, and a calendar back or forward.
func jump(w *world) {
	if m := w.victim(); m != nil {
		m.clock += w.micros(pick(w, []micros{100 * millisecond, 2 * second, 60 * second}))
		m.wallAhead += w.micros(2000*second) - 1000*second
		m.process.alarmAnew()
	}
}

func shutdown(w *world) {
	if m := w.victim(); m != nil {
		m.process.run(func() { m.process.driver.input(raft.Shutdown{}) })
	}
}

func resign(w *world) {
	if p := w.leader(); p != nil {
		epoch := p.status.Epoch - raft.Epoch(w.intN(2))
		p.run(func() { p.driver.input(raft.Resign{Epoch: epoch}) })
	}
}

// upgrade asks the leader for kraft.version 1.
func upgrade(w *world) {
	if p := w.leader(); p != nil {
		r := &raft.UpgradeRequest{Epoch: p.status.Epoch, Version: 1, ValidateOnly: w.chance(0.1)}
		p.run(func() { p.receive(&call{request: r, done: func(answer) {}}) })
	}
}

// move restarts a node at another port. One machine of a cluster does it, so that the others find the cluster by the rest.
func move(w *world) {
	m := w.machines[0]
	if m.process == nil || w.static || len(w.initialVoters) == 1 {
		return
	}
	w.crash(m, false)
	m.endpoint.Port++
}

// changeVoters asks the leader, or who is taken for it, to add or remove a voter; or only how it is.
func changeVoters(w *world) {
	p := w.leader()
	if p == nil {
		return
	}
	voters := p.status.Voters
	var request raft.Request
	switch w.intN(5) {
	case 0, 1:
		m := pick(w, w.machines)
		if !m.controller || m.process == nil {
			return
		}
		request = &raft.AddVoterRequest{
			TimeoutMillis:    2000,
			Voter:            m.directory.key,
			Endpoints:        []raft.Endpoint{m.endpoint},
			AckWhenCommitted: w.chance(0.5),
		}
		w.lastChange = w.now
	case 2, 3:
		// A dead voter first: without it the others might be too few.
		key := pick(w, voters).Key
		for _, v := range voters {
			if w.dead(v) {
				key = v.Key
			}
		}
		if w.chance(0.1) {
			key = pick(w, w.machines).directory.key
		}
		if !w.safe(key) {
			return
		}
		request = &raft.RemoveVoterRequest{Voter: key}
		w.lastChange = w.now
	case 4:
		request = &raft.DescribeQuorumRequest{}
	}
	to := p.machine
	if w.chance(0.1) {
		to = pick(w, w.machines)
	}
	w.network.send(&call{request: request, timeout: 10 * second, done: func(answer) {}}, to.endpoint)
}

// dead tells whether a voter's disk is gone.
func (w *world) dead(v raft.Voter) bool {
	d := w.check.directoryOf(v.Key)
	return d == nil || d.dead
}

// safe tells whether a voter may be removed: it is dead, or no voter is.
func (w *world) safe(key raft.ReplicaKey) bool {
	if w.dead(raft.Voter{Key: key}) {
		return true
	}
	for _, m := range w.machines {
		voters, _ := m.directory.voterSet()
		if slices.ContainsFunc(voters, w.dead) {
			return false
		}
	}
	return !slices.ContainsFunc(w.check.voters, w.dead)
}

// replaceDisk gives a voter a new empty disk, if the others can go on without the old one: no change of voters is on its
// way, the latest set is committed, and a majority of it has its disks.
func replaceDisk(w *world) {
	c := w.check
	m := w.victim()
	// A node whose quorum began with static voters takes itself for one by its id alone until it has learned better: with an
	// empty disk it would vote twice, and for logs that lack what it had. Kafka's rule; nobody may do that.
	if m == nil || w.static || w.now < w.lastChange+10*second || len(c.voters) == 0 {
		return
	}
	for _, other := range w.machines {
		if _, at := other.directory.voterSet(); at > c.committedEnd() {
			return
		}
	}
	dead := 1
	for _, v := range c.voters {
		if w.dead(v) {
			dead++
		}
	}
	if 2*dead >= len(c.voters) || !slices.ContainsFunc(c.voters, func(v raft.Voter) bool { return v.Key == m.directory.key }) {
		return
	}
	w.crash(m, true)
	w.logf("%s gets a new disk", m)
	m.replaceDisk()
}

// stranger lets a node of another cluster send something to a node that knows which cluster it belongs to.
func stranger(w *world) {
	m := w.victim()
	if m == nil || m.clusterID == "" {
		return
	}
	id := "another"
	epoch := m.process.status.Epoch + raft.Epoch(w.intN(3)) - 1
	key := raft.ReplicaKey{NodeID: pick(w, w.machines).id, DirectoryID: w.newID()}
	voter := raft.ReplicaKey{NodeID: raft.None}
	request := pick(w, []raft.Request{
		&raft.VoteRequest{ClusterID: &id, Voter: voter, ReplicaEpoch: epoch, Replica: key, LastOffset: 1 << 30, PreVote: w.chance(0.5)},
		&raft.BeginQuorumEpochRequest{ClusterID: &id, Voter: voter, LeaderID: key.NodeID, Epoch: epoch},
		&raft.EndQuorumEpochRequest{ClusterID: &id, LeaderID: key.NodeID, Epoch: epoch},
		&raft.FetchRequest{ClusterID: &id, Replica: key, Epoch: epoch, FetchOffset: 1 << 30, MaxBytes: 1000},
		&raft.FetchSnapshotRequest{ClusterID: &id, Replica: key, Epoch: epoch, MaxBytes: 1000},
		&raft.AddVoterRequest{ClusterID: &id, Voter: key, Endpoints: []raft.Endpoint{m.endpoint}},
		&raft.RemoveVoterRequest{ClusterID: &id, Voter: m.directory.key},
		&raft.UpdateVoterRequest{ClusterID: &id, Epoch: epoch, Voter: m.directory.key, Endpoints: []raft.Endpoint{{Listener: "CONTROLLER", Host: "another", Port: 1}}},
	})
	before := m.process.status
	w.network.send(&call{request: request, timeout: 10 * second, done: func(a answer) {
		if a.failed {
			return
		}
		code := raft.NoError
		switch r := a.response.(type) {
		case *raft.VoteResponse:
			code = r.Code
		case *raft.BeginQuorumEpochResponse:
			code = r.Code
		case *raft.EndQuorumEpochResponse:
			code = r.Code
		case *raft.FetchResponse:
			code = r.Code
		case *raft.FetchSnapshotResponse:
			code = r.Code
		case *raft.ChangeVoterResponse:
			code = r.Code
		case *raft.UpdateVoterResponse:
			code = r.Code
		}
		if code != raft.InconsistentClusterID {
			w.fail("%s in epoch %d answers %T of another cluster with error %d", m, before.Epoch, request, code)
		}
	}}, m.endpoint)
}

// replaceObserver gives an observer, which nobody is making a voter just now, a new empty disk.
func replaceObserver(w *world) {
	for _, m := range w.machines {
		isVoter := func(v raft.Voter) bool { return v.Key.NodeID == m.id }
		if m.process != nil && w.now > w.lastChange+10*second && w.chance(0.5) &&
			!slices.ContainsFunc(w.initialVoters, isVoter) && !slices.ContainsFunc(w.check.voters, isVoter) {
			w.crash(m, true)
			w.logf("%s gets a new disk", m)
			m.replaceDisk()
		}
	}
}
