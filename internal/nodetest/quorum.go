package nodetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/wire"
)

// retryPause lies between two questions to nodes that have no answer yet.
const retryPause = 10 * time.Millisecond

// Pause waits a little. Errors: that of ctx.
func Pause(ctx context.Context) error {
	select {
	case <-time.After(retryPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// QuorumState asks the controllers until one of them answers as the leader, and ok likes what it says.
func QuorumState(addresses []string, ok func(*kmsg.DescribeQuorumResponseTopicPartition) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var clients []*wire.Client
	for _, a := range addresses {
		c := wire.NewClient(a, wire.Self{ClientID: "test"}, nil)
		defer c.Close()
		clients = append(clients, c)
	}
	last := errors.New("no leader answers")
	for {
		for i, c := range clients {
			once, cancel := context.WithTimeout(ctx, 2*time.Second)
			state, err := describeQuorum(once, c)
			cancel()
			switch {
			case err != nil:
			case ok(state):
				return nil
			default:
				last = fmt.Errorf("%s says %+v", addresses[i], *state)
			}
		}
		if Pause(ctx) != nil {
			return last
		}
	}
}

func describeQuorum(ctx context.Context, c *wire.Client) (*kmsg.DescribeQuorumResponseTopicPartition, error) {
	q := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	q.Topics = append(q.Topics, topic)
	r, err := c.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := r.(*kmsg.DescribeQuorumResponse)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil, fmt.Errorf("%+v", *resp)
	}
	return &resp.Topics[0].Partitions[0], nil
}

// upgradeFeature raises the level of a feature.
func upgradeFeature(addresses []string, feature string, level int16) error {
	q := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	const upgrade = 1
	u.Feature, u.MaxVersionLevel, u.UpgradeType = feature, level, upgrade
	q.FeatureUpdates = append(q.FeatureUpdates, u)
	return askActive(addresses, q, func(r kmsg.Response) (int16, *string) {
		resp := r.(*kmsg.UpdateFeaturesResponse)
		return resp.ErrorCode, resp.ErrorMessage
	})
}

// registerController registers a controller that supports levels of one feature only.
func registerController(addresses []string, id int32, feature string, min, max int16) error {
	q := kmsg.NewPtrControllerRegistrationRequest()
	q.ControllerID, q.IncarnationID = id, uuid.New()
	f := kmsg.NewControllerRegistrationRequestFeature()
	f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = feature, min, max
	q.Features = append(q.Features, f)
	return askActive(addresses, q, func(r kmsg.Response) (int16, *string) {
		resp := r.(*kmsg.ControllerRegistrationResponse)
		return resp.ErrorCode, resp.ErrorMessage
	})
}

// askActive asks the active controller, which is the one that does not say NOT_CONTROLLER.
func askActive(addresses []string, q kmsg.Request, code func(kmsg.Response) (int16, *string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		for _, a := range addresses {
			c := wire.NewClient(a, wire.Self{ClientID: "test"}, nil)
			r, err := c.Do(ctx, q)
			c.Close()
			if err != nil {
				continue
			}
			const notController = 41
			switch code, message := code(r); {
			case code == 0:
				return nil
			case code != notController:
				return fmt.Errorf("%s: %s: %s", a, wire.ErrorName(code), *message)
			}
		}
		if err := Pause(ctx); err != nil {
			return err
		}
	}
}

// AwaitControllers waits until one of the controllers says that these are registered.
func AwaitControllers(addresses []string, ids ...int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	last := errors.New("no controller answers")
	for {
		for _, a := range addresses {
			c := wire.NewClient(a, wire.Self{ClientID: "test"}, nil)
			q := kmsg.NewPtrDescribeClusterRequest()
			const controllers = 2
			q.EndpointType = controllers
			r, err := c.Do(ctx, q)
			c.Close()
			if err != nil {
				continue
			}
			have := map[int32]bool{}
			for _, b := range r.(*kmsg.DescribeClusterResponse).Brokers {
				have[b.NodeID] = true
			}
			if !slices.ContainsFunc(ids, func(id int32) bool { return !have[id] }) {
				return nil
			}
			last = fmt.Errorf("%s says that %v are registered", a, have)
		}
		if Pause(ctx) != nil {
			return last
		}
	}
}
