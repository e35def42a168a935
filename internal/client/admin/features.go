package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/client"
)

// Feature is what a node supports, and the level that the cluster has.
type Feature struct {
	Name     string
	Min, Max int16
	Level    int16 // finalized; 0: none
}

// Description is a node's view of the features.
type Description struct {
	Epoch    int64     // of the finalized levels; -1: not known
	Features []Feature // by name
}

// AnyNode is the id of no node in particular.
const AnyNode = -1

// Describe asks a node, or if that is AnyNode one that answers for the cluster.
func (c *Cluster) Describe(ctx context.Context, nodeID int32) (d Description, err error) {
	const doing = "describe the features"
	err = c.retry(ctx, doing, func(ctx context.Context) error {
		var n node
		if nodeID == AnyNode {
			n, err = c.responsible(ctx, doing)
		} else {
			n, err = c.named(ctx, doing, nodeID)
		}
		d = describe(n)
		return err
	})
	return d, err
}

func describe(n node) Description {
	d := Description{Epoch: -1}
	if n.versions == nil {
		return d
	}
	d.Epoch = n.versions.FinalizedFeaturesEpoch
	for _, s := range n.versions.SupportedFeatures {
		d.Features = append(d.Features, Feature{Name: s.Name, Min: s.MinVersion, Max: s.MaxVersion, Level: n.level(s.Name)})
	}
	slices.SortFunc(d.Features, func(a, b Feature) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// level is the finalized level of a feature; 0: none.
func (n node) level(feature string) int16 {
	for _, f := range n.versions.FinalizedFeatures {
		if f.Name == feature {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// named returns a node by its id.
func (c *Cluster) named(ctx context.Context, doing string, id int32) (node, error) {
	n, err := c.find(ctx, doing)
	if err != nil {
		return node{}, err
	}
	nodes, _, err := c.members(ctx, n)
	if err != nil {
		return node{}, err
	}
	known := []string{}
	for _, m := range nodes {
		if m.id == id {
			return c.member(ctx, doing, m)
		}
		known = append(known, fmt.Sprintf("%d at %s", m.id, m.address))
	}
	kind := "brokers"
	if c.options.Controllers {
		kind = "controllers"
	}
	return node{}, &client.Error{What: fmt.Sprintf("there is no node %d", id), Where: fmt.Sprintf("the %s that %s knows: %s", kind, n.address, strings.Join(known, ", "))}
}

// UpgradeType says in which direction a level may move.
type UpgradeType int8

// The types of UpdateFeatures.
const (
	Upgrade         UpgradeType = 1
	SafeDowngrade   UpgradeType = 2
	UnsafeDowngrade UpgradeType = 3 // even if metadata gets lost
)

// Update changes the levels of features, all or none; with validateOnly it only asks whether they could be. A level that a
// feature has already is taken. refused is, for each level, why it is refused, or nil. err is set if the cluster has not
// decided, or if nothing is known of it.
func (c *Cluster) Update(ctx context.Context, levels []features.Level, t UpgradeType, validateOnly bool) (refused []error, err error) {
	const doing = "update the features"
	sent := false
	err = c.retry(ctx, doing, func(ctx context.Context) error {
		n, err := c.responsible(ctx, doing)
		if err != nil {
			return err
		}
		switch newest := n.maxVersion(kmsg.UpdateFeatures); {
		case newest < 0:
			return &client.Error{What: n.address + " does not take updates of features", Fix: "brokers of Apache Kafka do from 3.3 on, controllers from 3.7 on"}
		case newest == 0: // without validateOnly: it would make the change
			return &client.Error{What: n.address + " takes updates of features in the form of before KRaft only", Fix: "upgrade the cluster to Apache Kafka 3.3 or newer"}
		}
		sent = !validateOnly
		answer, err := c.request(ctx, n.address, updateRequest(levels, t, validateOnly, c.options.Settings.RequestTimeout))
		if err != nil {
			failed := unanswered(doing, n.address, err)
			failed.Err = err // a node was there
			return &notReady{err: failed}
		}
		refused, err = refusals(levels, answer.(*kmsg.UpdateFeaturesResponse))
		return err
	})
	var undecided *client.Error
	if sent && errors.As(err, &undecided) {
		undecided.Fix = strings.TrimPrefix(undecided.Fix+"\nit may have been done all the same: describe shows the levels", "\n")
	}
	return refused, err
}

func updateRequest(levels []features.Level, t UpgradeType, validateOnly bool, timeout time.Duration) kmsg.Request {
	q := kmsg.NewPtrUpdateFeaturesRequest()
	q.TimeoutMillis = int32(timeout.Milliseconds())
	q.ValidateOnly = validateOnly
	for _, l := range levels {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = l.Name, l.Level, int8(t)
		q.FeatureUpdates = append(q.FeatureUpdates, u)
	}
	return q
}

// refusals are the results by level. An error at the top counts for all; versions below 2 have one for each feature too.
func refusals(levels []features.Level, r *kmsg.UpdateFeaturesResponse) ([]error, error) {
	out := make([]error, len(levels))
	if r.ErrorCode != 0 {
		top := &refusal{r.ErrorCode, r.ErrorMessage}
		if top.passes() {
			return nil, &notReady{err: top}
		}
		for i := range out {
			out[i] = top
		}
		return out, nil
	}
	for _, result := range r.Results {
		i := slices.IndexFunc(levels, func(l features.Level) bool { return l.Name == result.Feature })
		if i < 0 || result.ErrorCode == 0 {
			continue
		}
		refused := &refusal{result.ErrorCode, result.ErrorMessage}
		if refused.passes() {
			return nil, &notReady{err: refused}
		}
		out[i] = refused
	}
	return out, nil
}

// Node is a node that reports levels.
type Node struct {
	ID      int32
	Address string
}

// Wait returns when every node of the kind that is meant reports all levels: the nodes. Brokers that are fenced are not
// waited for.
func (c *Cluster) Wait(ctx context.Context, levels []features.Level) (nodes []Node, err error) {
	const doing = "see the levels at every node"
	start := time.Now()
	reported := map[int32]bool{}
	var seen error // by the newest attempt that was not cut short: that one says less
	err = c.retry(ctx, doing, func(ctx context.Context) error {
		n, err := c.find(ctx, doing)
		if err != nil {
			return err
		}
		members, _, err := c.members(ctx, n)
		if err != nil {
			return err
		}
		if len(members) == 0 {
			return &notReady{err: fmt.Errorf("%s knows no nodes", n.address)}
		}
		nodes = nil
		// All at once: one that hangs is not to take the others' time.
		behind := make([]error, len(members))
		var asked sync.WaitGroup
		for i, m := range members {
			nodes = append(nodes, Node{m.id, m.address})
			if !reported[m.id] {
				asked.Go(func() { behind[i] = c.reports(ctx, m, levels) })
			}
		}
		asked.Wait()
		for i, m := range members {
			reported[m.id] = behind[i] == nil
		}
		err = errors.Join(behind...)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil:
			seen = err
		case seen != nil:
			err = seen
		}
		return &notReady{err: err}
	})
	if seen != nil && errors.Is(err, context.DeadlineExceeded) {
		err = timedOut(doing, time.Since(start), seen)
	}
	return nodes, err
}

// reports returns which level a node does not report.
func (c *Cluster) reports(ctx context.Context, m member, levels []features.Level) error {
	n, err := c.connect(ctx, m.address)
	if err != nil {
		return fmt.Errorf("node %d at %s: %s", m.id, m.address, reason(err))
	}
	for _, l := range levels {
		if has := n.level(l.Name); has != l.Level {
			return fmt.Errorf("node %d at %s reports %v", m.id, m.address, features.Level{Name: l.Name, Level: has})
		}
	}
	return nil
}
