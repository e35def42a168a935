//go:build bench

package node

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/raft"
	"kstorage/internal/record"
	"kstorage/internal/wire"
)

// CommitFunc lets the active controller write a record, and waits until it is committed and loaded, as the answer to a
// request does. It is an error if the node is not the active controller.
type CommitFunc func(context.Context, record.Record) error

// RunForCommits is Run for the benchmarks: clients inside of the process take the place of those that come over the
// network. load gets the function that they call, and is called when the node runs.
func RunForCommits(ctx context.Context, o Options, load func(CommitFunc)) error {
	n := newNode(o)
	defer n.close()
	if err := n.open(); err != nil {
		return withFix(err)
	}
	go load(n.commit)
	return withFix(n.run(ctx))
}

func (n *node) commit(ctx context.Context, r record.Record) error {
	records := []record.Record{r}
	q := kmsg.NewPtrBrokerHeartbeatRequest() // gives the answer its shape, no more
	answers := make(chan kmsg.Response, 1)
	c := n.cluster
	c.box.put(func() error { return c.commit(records, q, answers) })
	select {
	case a := <-answers:
		if code := a.(*kmsg.BrokerHeartbeatResponse).ErrorCode; code != 0 {
			return errors.New(wire.ErrorName(code))
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cluster) commit(records []record.Record, q kmsg.Request, to chan<- kmsg.Response) error {
	if c.active == nil || c.active.lost {
		to <- refuse(q, codeNotController)
		return nil
	}
	if err := c.write(func(raft.Offset) []record.Record { return records }); err != nil {
		return err
	}
	c.answer(q, q.ResponseKind(), to)
	return nil
}
