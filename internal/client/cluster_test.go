package client

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/internal/kafkaid"
	"kstorage/internal/raft"
	"kstorage/internal/wire"
)

// quorumAPIs are what a controller serves of what is asked here.
var quorumAPIs = []int16{int16(kmsg.ApiVersions), int16(kmsg.DescribeQuorum), int16(kmsg.DescribeCluster), int16(kmsg.AddRaftVoter), int16(kmsg.RemoveRaftVoter)}

// clusterOf is the answer of a controller that takes leader, at address c<leader>:1, for the leader; -1: it knows none.
func clusterOf(leader int32) *kmsg.DescribeClusterResponse {
	r := kmsg.NewPtrDescribeClusterResponse()
	r.ClusterID, r.ControllerID = "Wq9rPWnzQ4uv0sRyMKXc1w", leader
	for id := int32(1); id <= 2; id++ {
		r.Brokers = append(r.Brokers, kmsg.DescribeClusterResponseBroker{NodeID: id, Host: []string{"", "c1", "c2"}[id], Port: 1})
	}
	return r
}

func quorumOf(leader int32, code raft.Code) *kmsg.DescribeQuorumResponse {
	r := kmsg.NewPtrDescribeQuorumResponse()
	voter := kmsg.DescribeQuorumResponseTopicPartitionReplicaState{ReplicaID: leader, LogEndOffset: 5, LastFetchTimestamp: 1, LastCaughtUpTimestamp: 1}
	r.Topics = []kmsg.DescribeQuorumResponseTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumResponseTopicPartition{{
		ErrorCode: int16(code), LeaderID: leader, CurrentVoters: []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{voter},
	}}}}
	return r
}

// talk is a cluster in memory and what the person was told.
type talk struct {
	*Cluster
	told []string
}

func newTalk(t *testing.T, n network, bootstrap string, controllers bool) *talk {
	list, err := ParseBootstrap(bootstrap, "--bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{}
	k.Cluster = NewCluster(Options{Bootstrap: list, Controllers: controllers, Settings: DefaultSettings(), Dial: n.dial,
		Tell: func(text string) { k.told = append(k.told, text) }})
	t.Cleanup(k.Close)
	return k
}

// A cluster that is not ready is asked until it is.
func TestNotReady(t *testing.T) {
	for reason, test := range map[string]struct {
		first func(q kmsg.Request) (kmsg.Response, error) // how c1 answers the first time; nil: as later
		told  string
	}{
		"no leader at first":               {func(kmsg.Request) (kmsg.Response, error) { return clusterOf(-1), nil }, "c1:1 knows no leader of the quorum"},
		"a leader that has not registered": {func(kmsg.Request) (kmsg.Response, error) { return clusterOf(7), nil }, "c1:1 knows no leader of the quorum"},
		"a leader that is gone":            {func(kmsg.Request) (kmsg.Response, error) { return clusterOf(2), nil }, "c2:1: connection refused"},
		"no longer the leader": {func(q kmsg.Request) (kmsg.Response, error) {
			if _, ok := q.(*kmsg.DescribeQuorumRequest); ok {
				return quorumOf(1, raft.NotLeaderOrFollower), nil
			}
			return clusterOf(1), nil
		}, "c1:1 answers NOT_LEADER_OR_FOLLOWER"},
		"a connection that breaks": {func(q kmsg.Request) (kmsg.Response, error) {
			if _, ok := q.(*kmsg.DescribeQuorumRequest); ok {
				return nil, errClosed
			}
			return clusterOf(1), nil
		}, "c1:1: disconnected"},
		"an answer that does not come": {func(q kmsg.Request) (kmsg.Response, error) {
			if _, ok := q.(*kmsg.DescribeQuorumRequest); ok {
				return nil, errSilent
			}
			return clusterOf(1), nil
		}, "waiting for c1:1 to answer DescribeQuorum, up to 28s more"},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				n := network{"c1:1": speaks(t, quorumAPIs, func(q kmsg.Request) (kmsg.Response, error) {
					if time.Since(start) < 50*time.Millisecond {
						return test.first(q)
					}
					if _, ok := q.(*kmsg.DescribeClusterRequest); ok {
						return clusterOf(1), nil
					}
					return quorumOf(1, raft.NoError), nil
				})}
				k := newTalk(t, n, "c1:1", true)
				q, err := k.DescribeQuorum(t.Context())
				if err != nil || q.LeaderID != 1 || q.ClusterID != "Wq9rPWnzQ4uv0sRyMKXc1w" {
					t.Fatal(q, err)
				}
				if !slices.ContainsFunc(k.told, func(s string) bool { return strings.Contains(s, test.told) }) {
					t.Errorf("told %q, expected %q", k.told, test.told)
				}
			})
		})
	}
}

// A bootstrap address that hangs leaves time for the next one.
func TestBootstrapAddressHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := speaks(t, quorumAPIs, func(kmsg.Request) (kmsg.Response, error) { return nil, errSilent })
		n := network{"a:1": silent, "c1:1": speaks(t, quorumAPIs, func(q kmsg.Request) (kmsg.Response, error) {
			if _, ok := q.(*kmsg.DescribeClusterRequest); ok {
				return clusterOf(1), nil
			}
			return quorumOf(1, raft.NoError), nil
		})}
		k := newTalk(t, n, "a:1,c1:1", true)
		k.options.Settings.Timeout = 8 * time.Second
		if q, err := k.DescribeQuorum(t.Context()); err != nil || q.LeaderID != 1 {
			t.Error(q, err)
		}
	})
}

// The bootstrap addresses are tried in their order, for some seconds if nobody listens at any.
func TestBootstrapAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := newTalk(t, network{}, "a:1,b:2", true)
		_, err := k.DescribeQuorum(t.Context())
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) != 2 || !errors.Is(err, wire.ErrRefused) {
			t.Fatalf("%#v", err)
		}
		for i, e := range joined.Unwrap() {
			if want := []string{"a:1", "b:2"}[i]; !strings.Contains(e.Error(), want) {
				t.Errorf("error %q should name %s", e, want)
			}
		}
		if took := time.Since(start); took < comingUp/2 || took > comingUp {
			t.Errorf("it took %v", took)
		}
		if !slices.Equal(k.told, []string{"waiting up to 5s: a:1: connection refused; b:2: connection refused"}) {
			t.Errorf("told %q", k.told)
		}
		k = newTalk(t, network{"b:2": speaks(t, quorumAPIs, func(q kmsg.Request) (kmsg.Response, error) {
			if q.Key() == int16(kmsg.DescribeCluster) {
				return clusterOf(-1), nil
			}
			return quorumOf(1, raft.NoError), nil
		})}, "a:1,b:2", false)
		if q, err := k.DescribeQuorum(t.Context()); err != nil || q.LeaderID != 1 {
			t.Fatal(q, err)
		}
	})
}

// A cluster that was started a moment ago is waited for, as long as --timeout allows; other reasons are told at once.
func TestClusterComesUp(t *testing.T) {
	unsupported := kmsg.NewPtrDescribeClusterResponse()
	unsupported.ErrorCode = int16(raft.UnsupportedVersion)
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for reason, test := range map[string]struct {
		bootstrap string
		timeout   time.Duration
		dial      error         // at c1 in the beginning; nil: it listens
		answer    kmsg.Response // of c1 to DescribeCluster in the beginning
		comesUp   time.Duration // when c1 answers as it should
		where     string        // "": it works out
		fix       string
	}{
		"nobody listens yet":               {"c1:1", time.Minute, refused, nil, 2 * time.Second, "", ""},
		"nobody listens":                   {"c1:1", time.Minute, refused, nil, time.Hour, "c1:1: connection refused", "is the node running"},
		"nobody listens, and time is up":   {"c1:1", 300 * time.Millisecond, refused, nil, 2 * time.Second, "c1:1: connection refused", "is the node running"},
		"no metadata.version known yet":    {"c1:1", time.Minute, nil, unsupported, 2 * time.Second, "", ""},
		"no metadata.version known":        {"c1:1", time.Minute, nil, unsupported, time.Hour, "c1:1 answers UNSUPPORTED_VERSION", "has had no leader"},
		"no metadata.version, but another": {"c1:1,c2:1", time.Minute, nil, unsupported, time.Hour, "", ""},
		"no such name":                     {"c1:1", time.Minute, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "c1", IsNotFound: true}}, nil, time.Second, "c1:1: no such host", "name"},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				n := network{}
				for _, address := range []string{"c1:1", "c2:1"} {
					n[address] = speaks(t, quorumAPIs, func(q kmsg.Request) (kmsg.Response, error) {
						switch {
						case q.Key() != int16(kmsg.DescribeCluster):
							return quorumOf(2, raft.NoError), nil
						case address == "c1:1" && time.Since(start) < test.comesUp:
							return test.answer, nil
						}
						return clusterOf(2), nil
					})
				}
				k := newTalk(t, n, test.bootstrap, true)
				k.options.Settings.Timeout = test.timeout
				k.options.Dial = func(ctx context.Context, address string) (net.Conn, error) {
					if address == "c1:1" && test.dial != nil && time.Since(start) < test.comesUp {
						return nil, test.dial
					}
					return n.dial(ctx, address)
				}
				_, err := k.DescribeQuorum(t.Context())
				if test.where == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				var e *Error
				if !errors.As(err, &e) || !strings.HasPrefix(e.Where, test.where) || !strings.Contains(e.Fix, test.fix) {
					t.Errorf("%#v", err)
				}
				if took := time.Since(start); took > comingUp {
					t.Errorf("it took %v", took)
				}
				for _, told := range k.told {
					if strings.Count(told, "refused") > 1 {
						t.Errorf("told %q", told)
					}
				}
			})
		})
	}
}

func TestTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := newTalk(t, network{"c1:1": speaks(t, quorumAPIs, func(kmsg.Request) (kmsg.Response, error) { return clusterOf(-1), nil })}, "c1:1", true)
		_, err := k.DescribeQuorum(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.What != "cannot describe the quorum within 1m0s" || !strings.Contains(e.Where, "c1:1 knows no leader") {
			t.Errorf("%#v", err)
		}
		if time.Since(start) != time.Minute || len(k.told) != 1 {
			t.Errorf("after %v, told %q", time.Since(start), k.told)
		}
		// A node that accepts the connection and says nothing.
		k = newTalk(t, network{"c1:1": func([]byte) []byte { return silence }}, "c1:1", true)
		_, err = k.DescribeQuorum(t.Context())
		if !errors.As(err, &e) || !errors.Is(err, errRequestTimeout) || len(k.told) != 1 || !strings.Contains(e.Fix, "TLS") {
			t.Errorf("%#v, told %q", err, k.told)
		}
	})
}

// The end of the caller's context ends everything.
func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		k := newTalk(t, network{"c1:1": func([]byte) []byte { return silence }}, "c1:1", true)
		if _, err := k.DescribeQuorum(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A change whose answer is lost may have been made: it is not sent again, and the person is told. One that was not
// sent, or that says that the leader is another, is.
func TestChangesAreMadeOnce(t *testing.T) {
	id, err := kafkaid.Parse("0uxowEDmQBWimN46s2tlBA")
	if err != nil {
		t.Fatal(err)
	}
	for reason, test := range map[string]struct {
		answer func() (kmsg.Response, error)
		sent   int
		fix    string // "": it works out
	}{
		"done":                    {func() (kmsg.Response, error) { return kmsg.NewPtrRemoveRaftVoterResponse(), nil }, 1, ""},
		"the connection breaks":   {func() (kmsg.Response, error) { return nil, errClosed }, 1, "may have been done"},
		"no answer":               {func() (kmsg.Response, error) { return nil, errSilent }, 1, "may have been done"},
		"the server has no time":  {func() (kmsg.Response, error) { return removed(raft.RequestTimedOut), nil }, 1, "run the command again"},
		"no such voter":           {func() (kmsg.Response, error) { return removed(raft.VoterNotFound), nil }, 1, "describe --status"},
		"the user may not":        {func() (kmsg.Response, error) { return removed(raft.ClusterAuthorization), nil }, 1, "ALTER"},
		"another leader for ever": {func() (kmsg.Response, error) { return removed(raft.NotLeaderOrFollower), nil }, -1, "--timeout"},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int32
				k := newTalk(t, network{"c1:1": speaks(t, quorumAPIs, func(q kmsg.Request) (kmsg.Response, error) {
					if q.Key() == int16(kmsg.DescribeCluster) {
						return clusterOf(1), nil
					}
					sent.Add(1)
					return test.answer()
				})}, "c1:1", true)
				err := k.RemoveController(t.Context(), 2, id)
				if times := int(sent.Load()); test.sent >= 0 && times != test.sent || test.sent < 0 && times < 50 {
					t.Errorf("sent %d times", times)
				}
				if test.fix == "" && err == nil {
					return
				}
				var e *Error
				if !errors.As(err, &e) || !strings.Contains(e.Fix, test.fix) {
					t.Errorf("%#v should say %q", err, test.fix)
				}
			})
		})
	}
}

func removed(code raft.Code) *kmsg.RemoveRaftVoterResponse {
	r := kmsg.NewPtrRemoveRaftVoterResponse()
	r.ErrorCode = int16(code)
	return r
}

// A broker of an older release passes on DescribeQuorum alone.
func TestBrokerThatDoesNotPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t, network{"b:1": speaks(t, quorumAPIs[:3], func(kmsg.Request) (kmsg.Response, error) { return clusterOf(-1), nil })}, "b:1", false)
		var e *Error
		if err := k.AddController(t.Context(), Controller{NodeID: 2}); !errors.As(err, &e) || !strings.Contains(e.Fix, "--bootstrap-controller") {
			t.Errorf("%#v", err)
		}
	})
}

// The cluster id of the directory goes along, so that a controller does not join another cluster.
func TestAddControllerNamesCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t, network{"c1:1": speaks(t, quorumAPIs, func(q kmsg.Request) (kmsg.Response, error) {
			if q.Key() == int16(kmsg.DescribeCluster) {
				return clusterOf(1), nil
			}
			if add := q.(*kmsg.AddRaftVoterRequest); add.ClusterID == nil || *add.ClusterID != "other" || !add.AckWhenCommitted {
				t.Errorf("%+v", add)
			}
			r := kmsg.NewPtrAddRaftVoterResponse()
			r.ErrorCode = int16(raft.InconsistentClusterID)
			return r, nil
		})}, "c1:1", true)
		var e *Error
		if err := k.AddController(t.Context(), Controller{NodeID: 2, ClusterID: "other"}); !errors.As(err, &e) || e.Code != raft.InconsistentClusterID || e.Fix == "" {
			t.Errorf("%#v", err)
		}
	})
}
