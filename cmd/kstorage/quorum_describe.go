package main

import (
	"context"

	"github.com/google/uuid"
	urfave "github.com/urfave/cli/v2"

	"kstorage/internal/cli"
	"kstorage/internal/client"
	"kstorage/internal/kafkaid"
)

// replica is a node of the quorum in JSON.
type replica struct {
	NodeID      int32    `json:"nodeId"`
	DirectoryID *string  `json:"directoryId"`
	Endpoints   []string `json:"endpoints"`
}

func replicaDocument(r client.Replica) replica {
	out := replica{NodeID: r.NodeID, Endpoints: endpoints(r.Endpoints)}
	if r.DirectoryID != uuid.Nil {
		id := kafkaid.String(r.DirectoryID)
		out.DirectoryID = &id
	}
	return out
}

func replicaDocuments(replicas []client.Replica) []replica {
	out := []replica{}
	for _, r := range replicas {
		out = append(out, replicaDocument(r))
	}
	return out
}

func endpoints(in []client.Endpoint) []string {
	out := []string{}
	for _, e := range in {
		out = append(out, e.String())
	}
	return out
}

func (s *session) describeQuorum(ctx *urfave.Context) error {
	status, replication, human := ctx.Bool("status"), ctx.Bool("replication"), ctx.Bool("human-readable")
	switch {
	case !status && !replication:
		return quorumUsage("describe needs the option --status or --replication")
	case human && status:
		return quorumUsage("the option --human-readable goes with --replication")
	}
	cluster, err := s.cluster(ctx, false)
	if err != nil {
		return err
	}
	defer cluster.Close()
	q, err := cluster.DescribeQuorum(context.Background())
	if err != nil {
		return err
	}
	if status {
		return s.out.Result(s.statusDocument(q), q.StatusText())
	}
	return s.out.Result(s.replicationDocument(q), q.ReplicationText(human, s.world.Now()))
}

func (s *session) statusDocument(q *client.Quorum) any {
	records, millis := q.MaxFollowerLag()
	return struct {
		cli.Document
		ClusterID            string    `json:"clusterId"`
		LeaderID             int32     `json:"leaderId"`
		LeaderEpoch          int32     `json:"leaderEpoch"`
		HighWatermark        int64     `json:"highWatermark"`
		MaxFollowerLag       int64     `json:"maxFollowerLag"`
		MaxFollowerLagTimeMs int64     `json:"maxFollowerLagTimeMs"`
		Voters               []replica `json:"currentVoters"`
		Observers            []replica `json:"currentObservers"`
	}{s.out.Document(), q.ClusterID, q.LeaderID, q.LeaderEpoch, q.HighWatermark, records, millis, replicaDocuments(q.Voters), replicaDocuments(q.Observers)}
}

func (s *session) replicationDocument(q *client.Quorum) any {
	type row struct {
		replica
		LogEndOffset int64  `json:"logEndOffset"`
		Lag          int64  `json:"lag"`
		LastFetch    int64  `json:"lastFetchTimestamp"`
		LastCaughtUp int64  `json:"lastCaughtUpTimestamp"`
		Status       string `json:"status"`
	}
	rows := []row{}
	for _, r := range q.Rows() {
		rows = append(rows, row{replicaDocument(r.Replica), r.LogEndOffset, r.Lag, r.LastFetch, r.LastCaughtUp, r.Status})
	}
	return struct {
		cli.Document
		ClusterID string `json:"clusterId"`
		Replicas  []row  `json:"replicas"`
	}{s.out.Document(), q.ClusterID, rows}
}
