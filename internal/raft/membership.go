package raft

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// caughtUpMillis is how recent the last fetch of a new voter has to be.
const caughtUpMillis Millis = 3_600_000

// voterChange is an AddRaftVoter or RemoveRaftVoter under way. There is one at a time.
type voterChange struct {
	in     Received
	by     Millis    // answered as timed out then, though its record may still commit
	add    *Voter    // who is to be added, until its record is appended
	probe  RequestID // the ApiVersions that asks it
	offset Offset    // of the voters record; Unknown before
	early  bool      // answered when appended, not when committed
}

// checkChange is what all changes of the voters need (KIP-853).
//
// Two sets in a row differ by one voter, so each majority of one meets each majority of the other; with two
// changes under way that would fail. 1. Sets {1,2,3}, then {1,2,3,4}, then {1,2,3,4,5}, the last two
// uncommitted. 2. Nodes 1 and 2 are a majority of the first, 3, 4 and 5 of the last. 3. Both elect a leader. So
// the latest set has to be committed first; and that is only known to a leader that has committed in its own
// epoch: before, an older leader's set may still win over its own.
func (c *Core) checkChange(l *leader) (Code, string) {
	_, offset := c.history.latest()
	switch {
	case l.change != nil:
		return RequestTimedOut, "another voter is being added or removed"
	case !l.hwKnown:
		return RequestTimedOut, "the leader has not committed in its epoch yet"
	case offset >= c.hw:
		return RequestTimedOut, "the last change of the voters is not committed yet"
	}
	return NoError, ""
}

// checkAdmin is the first part of the checks of AddRaftVoter and RemoveRaftVoter.
func (c *Core) checkAdmin(clusterID *string, voter ReplicaKey) (Code, string) {
	if !c.ourCluster(clusterID) {
		return InconsistentClusterID, fmt.Sprintf("the cluster id %q is not that of this cluster, %q", *clusterID, c.cfg.ClusterID)
	}
	switch code := c.checkLeaderOnly(c.state.epoch); {
	case code != NoError:
		return code, "this node is not the leader"
	case voter.NodeID < 0 || voter.DirectoryID == uuid.Nil:
		return InvalidRequest, "a voter is a node id and a directory id"
	}
	return NoError, ""
}

func (c *Core) handleAddVoter(in Received, r *AddVoterRequest) {
	if code, message := c.addVoter(in, r); code != NoError {
		c.reply(in, &ChangeVoterResponse{code, message})
	}
}

// addVoter begins to add a voter, or returns why not.
func (c *Core) addVoter(in Received, r *AddVoterRequest) (Code, string) {
	if code, message := c.checkAdmin(r.ClusterID, r.Voter); code != NoError {
		return code, message
	}
	at, ok := endpoint(r.Endpoints, c.cfg.DefaultListener)
	if !ok {
		return InvalidRequest, "the voter has no endpoint of the listener " + c.cfg.DefaultListener
	}
	if !recordable(r.Endpoints) {
		return InvalidRequest, "a listener or host of the voter is too long"
	}
	l := c.role.(*leader)
	if code, message := c.checkChange(l); code != NoError {
		return code, message
	}
	switch {
	case c.history.version() == 0:
		return UnsupportedVersion, "voters can be added from kraft.version 1 on"
	case voterByID(c.voters(), r.Voter.NodeID) != nil:
		return DuplicateVoter, fmt.Sprintf("node %d is a voter already", r.Voter.NodeID)
	case !c.ready(r.Voter.NodeID):
		return RequestTimedOut, fmt.Sprintf("node %d cannot be asked just now", r.Voter.NodeID)
	}
	// A voter that the others cannot reach, or that doesn't know the version at which they run, would count in
	// majorities and never answer: it is asked first.
	c.send(r.Voter.NodeID, at, &ApiVersionsRequest{})
	l.change = &voterChange{
		in:     in,
		by:     c.now + max(1, c.cfg.RequestTimeoutMillis),
		add:    &Voter{Key: r.Voter, Endpoints: upperCase(r.Endpoints)},
		probe:  c.out.last,
		offset: Unknown,
		early:  !r.AckWhenCommitted,
	}
	return NoError, ""
}

// probed takes in what the new voter says of itself; r is nil if it could not be asked.
func (c *Core) probed(id RequestID, code Code, r *ApiVersionsResponse) {
	l, ok := c.role.(*leader)
	if !ok || l.change == nil || l.change.add == nil || l.change.probe != id {
		return
	}
	v := *l.change.add
	i, known := l.find(v.Key)
	version := c.history.version()
	if r != nil {
		v.MinKRaftVersion, v.MaxKRaftVersion = r.MinKRaftVersion, r.MaxKRaftVersion
	}
	switch {
	case r == nil:
		l.endChange(c, RequestTimedOut, fmt.Sprintf("node %d cannot be reached at its endpoint", v.Key.NodeID))
	case code != NoError:
		l.endChange(c, RequestTimedOut, fmt.Sprintf("node %d answers ApiVersions with error %d", v.Key.NodeID, code))
	case !r.HasKRaftVersion || !v.supports(version):
		l.endChange(c, InvalidRequest, fmt.Sprintf("node %d doesn't support kraft.version %d", v.Key.NodeID, version))
	case !known || !l.replicas[i].caughtUp(c.now):
		l.endChange(c, RequestTimedOut, fmt.Sprintf("voter %v has not caught up with the leader", v.Key))
	default:
		l.change.add = nil
		l.appendChange(c, append(slices.Clone(c.voters()), v))
	}
}

// caughtUp tells that a replica can become a voter without being in the way of commits for long.
func (r *replica) caughtUp(now Millis) bool {
	return r.lastFetch >= 0 && now-r.lastFetch <= caughtUpMillis && r.lastCaughtUp >= 0
}

func (c *Core) handleRemoveVoter(in Received, r *RemoveVoterRequest) {
	if code, message := c.removeVoter(in, r); code != NoError {
		c.reply(in, &ChangeVoterResponse{code, message})
	}
}

// removeVoter begins to remove a voter, or returns why not.
func (c *Core) removeVoter(in Received, r *RemoveVoterRequest) (Code, string) {
	if code, message := c.checkAdmin(r.ClusterID, r.Voter); code != NoError {
		return code, message
	}
	l := c.role.(*leader)
	if code, message := c.checkChange(l); code != NoError {
		return code, message
	}
	v := voterByID(c.voters(), r.Voter.NodeID)
	switch {
	case c.history.version() == 0:
		return UnsupportedVersion, "voters can be removed from kraft.version 1 on"
	case v == nil || v.Key != r.Voter:
		return VoterNotFound, fmt.Sprintf("%v is not a voter", r.Voter)
	case len(c.voters()) == 1:
		return VoterNotFound, fmt.Sprintf("%v is the only voter", r.Voter)
	}
	l.change = &voterChange{in: in, by: c.now + max(1, c.cfg.RequestTimeoutMillis)}
	l.appendChange(c, without(c.voters(), r.Voter.NodeID))
	return NoError, ""
}

// appendChange appends the new set, which counts from here on.
func (l *leader) appendChange(c *Core, voters []Voter) {
	change := l.change
	change.offset = c.log.end
	c.appendControl(Voters{voters})
	if change.early {
		l.endChange(c, NoError, "")
	}
	l.advance(c) // a smaller set may have a majority already
}

// commitChange answers a change whose record is committed.
func (l *leader) commitChange(c *Core) {
	if l.change != nil && l.change.offset != Unknown && l.change.offset < c.hw {
		l.endChange(c, NoError, "")
	}
}

func (l *leader) expireChange(c *Core) {
	if l.change != nil && l.change.by <= c.now {
		l.endChange(c, RequestTimedOut, "the change of the voters is not committed in time")
	}
}

func (l *leader) endChange(c *Core, code Code, message string) {
	if l.change != nil {
		c.reply(l.change.in, &ChangeVoterResponse{code, message})
		l.change = nil
	}
}

// handleUpdateVoter takes in the endpoints and the range of a voter (KIP-853).
func (c *Core) handleUpdateVoter(in Received, r *UpdateVoterRequest) {
	code := c.updateVoter(r)
	out := &UpdateVoterResponse{Code: code, LeaderView: noView}
	if code != InconsistentClusterID {
		out.LeaderView = c.view(in.Listener)
	}
	c.reply(in, out)
}

func (c *Core) updateVoter(r *UpdateVoterRequest) Code {
	if !c.ourCluster(r.ClusterID) {
		return InconsistentClusterID
	}
	if code := c.checkLeaderOnly(r.Epoch); code != NoError {
		return code
	}
	v := Voter{r.Voter, upperCase(r.Endpoints), r.MinKRaftVersion, r.MaxKRaftVersion}
	_, listens := endpoint(v.Endpoints, c.cfg.DefaultListener)
	if v.Key.NodeID < 0 || v.Key.DirectoryID == uuid.Nil || !listens || !recordable(v.Endpoints) || v.MinKRaftVersion < 0 || v.MaxKRaftVersion < v.MinKRaftVersion {
		return InvalidRequest
	}
	l := c.role.(*leader)
	if code, _ := c.checkChange(l); code != NoError {
		return code
	}
	version := c.history.version()
	entry := voterOf(c.voters(), v.Key)
	switch {
	case !v.supports(version):
		return InvalidRequest
	case entry == nil:
		return VoterNotFound
	case version == 0:
		// There is no record for it: it is kept for the upgrade.
		l.updates = with(l.updates, v)
	case !sameVoter(*entry, v):
		c.appendControl(Voters{with(c.voters(), v)})
	}
	l.heardFrom(c, v.Key)
	return NoError
}

// handleUpgrade raises kraft.version (KIP-853).
func (c *Core) handleUpgrade(in Received, r *UpgradeRequest) {
	code, message := c.upgrade(r)
	c.reply(in, &UpgradeResponse{code, message})
}

func (c *Core) upgrade(r *UpgradeRequest) (Code, string) {
	l, ok := c.role.(*leader)
	version := c.history.version()
	switch {
	case !ok || r.Epoch != c.state.epoch:
		return NotLeaderOrFollower, "this node is not the leader of that epoch"
	case r.Version == version:
		return NoError, ""
	case r.Version < version:
		return InvalidUpdateVersion, fmt.Sprintf("kraft.version is %d and cannot be lowered", version)
	}
	if code, message := c.checkChange(l); code != NoError {
		return InvalidUpdateVersion, message
	}
	// The set gets directory ids, so each voter must have told its own to this leader.
	voters := make([]Voter, len(c.voters()))
	for i, v := range c.voters() {
		if v.matches(c.ownKey()) {
			voters[i] = c.ownVoter()
		} else if update := voterByID(l.updates, v.Key.NodeID); update != nil {
			voters[i] = *update
		}
		if !voters[i].supports(r.Version) {
			return InvalidUpdateVersion, fmt.Sprintf("not all of the voters support it: voter %d has not said so in this epoch", v.Key.NodeID)
		}
	}
	if !r.ValidateOnly {
		c.appendControl(KRaftVersion{r.Version}, Voters{voters})
	}
	return NoError, ""
}
