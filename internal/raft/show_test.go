package raft

import (
	"fmt"
	"reflect"
	"strings"
)

// The trace: a line for each message and for each effect that counts.

func (cl *cluster) say(format string, args ...any) {
	if cl.told != cl.now {
		cl.told = cl.now
		fmt.Fprintf(&cl.trace, "%d ms\n", cl.now)
	}
	fmt.Fprintf(&cl.trace, "  "+format+"\n", args...)
}

func (cl *cluster) sayRole(n *testNode) {
	now := fmt.Sprintf("%v, epoch %d", n.last.Role, n.last.Epoch)
	if n.roleSaid != now {
		n.roleSaid = now
		cl.say("%d: is %s", n.id, now)
	}
}

func (cl *cluster) sayPacket(p *packet, arrow string) {
	from, to := name(p.from), name(p.to)
	if p.from == tool {
		from = "tool"
	}
	if p.to == tool {
		to = "tool"
	}
	switch {
	case p.failure != nil:
		if _, ok := p.request.(*FetchRequest); !ok || *p.failure == Refused || cl.verbose {
			cl.say("%s %s %s %s: %s", from, arrow, to, requestName(p.request), [...]string{"disconnected", "refused", "timed out", "unsupported", "corrupt"}[*p.failure])
		}
	case p.response != nil:
		if text := showResponse(p.response); text != "" || cl.verbose {
			cl.say("%s %s %s %s: %s", from, arrow, to, requestName(p.request), text)
		}
	default:
		if _, ok := p.request.(*FetchRequest); !ok || cl.verbose {
			cl.say("%s %s %s %s %s", from, arrow, to, requestName(p.request), showRequest(p.request))
		}
	}
}

func name(id NodeID) string {
	if id == None {
		return "-"
	}
	return fmt.Sprint(id)
}

func showKey(k ReplicaKey) string {
	if k.DirectoryID == dirID(k.NodeID, 1) || k.DirectoryID == dirID(0, 0) {
		return name(k.NodeID)
	}
	return fmt.Sprintf("%d'", k.NodeID) // with another disk than its first
}

func showVoters(voters []Voter) string {
	var list []string
	for _, v := range voters {
		list = append(list, showKey(v.Key))
	}
	return "[" + strings.Join(list, " ") + "]"
}

func showKeys(keys []ReplicaKey) string {
	var list []string
	for _, k := range keys {
		list = append(list, showKey(k))
	}
	return "[" + strings.Join(list, " ") + "]"
}

func showID(id SnapshotID) string { return fmt.Sprintf("%d-%d", id.EndOffset, id.Epoch) }

func showStarts(starts []EpochStart) string {
	var list []string
	for _, e := range starts {
		list = append(list, fmt.Sprintf("%d@%d", e.Epoch, e.Start))
	}
	return "[" + strings.Join(list, " ") + "]"
}

func showBatch(b Batch) string {
	text := fmt.Sprintf("%d-%d of epoch %d", b.BaseOffset, b.LastOffset, b.Epoch)
	for _, r := range b.Control {
		switch r := r.(type) {
		case LeaderChange:
			text += fmt.Sprintf(" LeaderChange(%d)", r.LeaderID)
		case KRaftVersion:
			text += fmt.Sprintf(" KRaftVersion(%d)", r.Version)
		case Voters:
			text += fmt.Sprintf(" Voters%s", showVoters(r.Voters))
		}
	}
	return text
}

func showRequest(r Request) string {
	switch r := r.(type) {
	case *VoteRequest:
		kind := "vote"
		if r.PreVote {
			kind = "pre-vote"
		}
		return fmt.Sprintf("%s of epoch %d for %s, log %d/%d", kind, r.ReplicaEpoch, showKey(r.Replica), r.LastEpoch, r.LastOffset)
	case *BeginQuorumEpochRequest:
		return fmt.Sprintf("epoch %d", r.Epoch)
	case *EndQuorumEpochRequest:
		return fmt.Sprintf("epoch %d, successors %s", r.Epoch, showKeys(r.Successors))
	case *FetchRequest:
		return fmt.Sprintf("epoch %d, from %d/%d, high watermark %d", r.Epoch, r.LastFetchedEpoch, r.FetchOffset, r.HighWatermark)
	case *FetchSnapshotRequest:
		return fmt.Sprintf("%s from byte %d", showID(r.SnapshotID), r.Position)
	case *AddVoterRequest:
		return showKey(r.Voter)
	case *RemoveVoterRequest:
		return showKey(r.Voter)
	case *UpdateVoterRequest:
		return fmt.Sprintf("%s, kraft.version %d-%d", showKey(r.Voter), r.MinKRaftVersion, r.MaxKRaftVersion)
	case *AppendRequest:
		return showBatch(r.Batch)
	case *UpgradeRequest:
		return fmt.Sprintf("kraft.version %d", r.Version)
	}
	return ""
}

func showResponse(r Response) string {
	var text string
	switch r := r.(type) {
	case *VoteResponse:
		text = "rejected"
		if r.VoteGranted {
			text = "granted"
		}
	case *BeginQuorumEpochResponse, *EndQuorumEpochResponse:
		text = "ok"
	case *FetchResponse:
		switch {
		case r.Partition == NotLeaderOrFollower:
			return "" // a bootstrap server, or a leader that was one
		case r.Diverging != nil:
			text = fmt.Sprintf("diverging, epoch %d ends at %d", r.Diverging.Epoch, r.Diverging.EndOffset)
		case r.SnapshotID != nil:
			text = "snapshot " + showID(*r.SnapshotID)
		case len(r.Batches) > 0:
			text = fmt.Sprintf("%d-%d, high watermark %d", r.Batches[0].BaseOffset, r.Batches[len(r.Batches)-1].LastOffset, r.HighWatermark)
		}
	case *FetchSnapshotResponse:
		text = fmt.Sprintf("bytes %d-%d of %d", r.Position, r.Position+int64(len(r.Bytes)), r.SizeBytes)
	case *ChangeVoterResponse:
		if text = "done"; r.Code != NoError {
			return fmt.Sprintf("error %d: %s", r.Code, r.Message)
		}
	case *UpgradeResponse:
		if text = "done"; r.Code != NoError {
			return fmt.Sprintf("error %d: %s", r.Code, r.Message)
		}
	case *UpdateVoterResponse:
		if text = "ok"; r.Code != NoError {
			return fmt.Sprintf("error %d", r.Code)
		}
	case *ApiVersionsResponse:
		text = fmt.Sprintf("kraft.version %d-%d", r.MinKRaftVersion, r.MaxKRaftVersion)
	case *AppendResponse:
		if text = fmt.Sprintf("next offset %d", r.NextOffset); r.Code != NoError {
			return fmt.Sprintf("error %d, %s", r.Code, text)
		}
	case *DescribeQuorumResponse:
		text = fmt.Sprintf("leader %s, epoch %d, high watermark %d", name(r.LeaderID), r.Epoch, r.HighWatermark)
		for _, v := range r.Voters {
			text += fmt.Sprintf("; voter %s at %d", showKey(v.Key), v.LogEnd)
		}
		for _, v := range r.Observers {
			text += fmt.Sprintf("; observer %s at %d", showKey(v.Key), v.LogEnd)
		}
	}
	// All raft answers have the same first fields.
	v := reflect.ValueOf(r).Elem()
	for _, field := range []string{"Code", "Partition"} {
		if f := v.FieldByName(field); f.IsValid() && f.Int() != 0 {
			text = fmt.Sprintf("error %d", f.Int())
		}
	}
	if f := v.FieldByName("LeaderView"); f.IsValid() && text != "" {
		view := f.Interface().(LeaderView)
		text += fmt.Sprintf(" (epoch %d, leader %s)", view.Epoch, name(view.LeaderID))
	}
	return text
}
