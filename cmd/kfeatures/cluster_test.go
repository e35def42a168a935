package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quorum is three controllers of which one is the active one, at level 1 of group.version until an update comes.
type quorum struct {
	nodes   map[int32]*fakeNode
	leader  atomic.Int32
	level   [4]atomic.Int32 // of group.version, by node
	refuse  atomic.Int32    // how many updates get NOT_CONTROLLER
	unnamed atomic.Bool     // nobody knows the leader
	brokers bool
	lag     map[int32]*atomic.Int32 // nodes that see an update only after so many questions, and their level then
	late    atomic.Int32
	silent  map[int32]*atomic.Int32 // nodes that say what they serve only so often
	ctx     context.Context         // of the test
}

func startQuorum(t *testing.T) *quorum {
	q := &quorum{nodes: map[int32]*fakeNode{}, lag: map[int32]*atomic.Int32{}, silent: map[int32]*atomic.Int32{}, ctx: t.Context()}
	q.leader.Store(2)
	for id := int32(1); id <= 3; id++ {
		q.level[id].Store(1)
		q.nodes[id] = startNode(t, &fakeNode{answer: func(r kmsg.Request) kmsg.Response { return q.answer(id, r) }})
	}
	return q
}

func (q *quorum) addresses(ids ...int32) string {
	var out []string
	for _, id := range ids {
		out = append(out, q.nodes[id].address())
	}
	return strings.Join(out, ",")
}

func (q *quorum) answer(id int32, r kmsg.Request) kmsg.Response {
	switch r := r.(type) {
	case *kmsg.ApiVersionsRequest:
		if left := q.silent[id]; left != nil && left.Add(-1) < 0 {
			<-q.ctx.Done()
			return nil
		}
		if lag := q.lag[id]; lag != nil && lag.Add(-1) == 0 {
			q.level[id].Store(q.late.Load())
		}
		return versionsAnswer(!q.brokers, map[string][3]int16{"group.version": {0, 9, int16(q.level[id].Load())}})
	case *kmsg.DescribeClusterRequest:
		ports := map[int32]int32{}
		for other, n := range q.nodes {
			ports[other] = n.port()
		}
		leader := q.leader.Load()
		if q.unnamed.Load() {
			leader = -1
		}
		return clusterAnswer(leader, ports)
	case *kmsg.UpdateFeaturesRequest:
		out := kmsg.NewPtrUpdateFeaturesResponse()
		out.ErrorMessage = kmsg.StringPtr("")
		if q.refuse.Add(-1) >= 0 || !q.brokers && id != q.leader.Load() {
			out.ErrorCode = kerr.NotController.Code
			return out
		}
		for other := range q.nodes {
			if level := int32(r.FeatureUpdates[0].MaxVersionLevel); !r.ValidateOnly && q.lag[other] == nil {
				q.level[other].Store(level)
			}
		}
		return out
	}
	return nil
}

func TestControllers(t *testing.T) {
	q := startQuorum(t)
	dead := deadAddress(t)
	got := line("--bootstrap-controller %s,%s upgrade --feature group.version=2", dead, q.addresses(1, 3))
	if got.exit != 0 || got.stdout != "group.version was upgraded to 2.\n" || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	if len(q.nodes[2].asked(kmsg.UpdateFeatures)) != 1 || len(q.nodes[1].asked(kmsg.UpdateFeatures)) != 0 || len(q.nodes[3].requests) != 0 {
		t.Error("the update did not go to the active controller alone")
	}
	r := q.nodes[1].asked(kmsg.DescribeCluster)[0].(*kmsg.DescribeClusterRequest)
	if r.EndpointType != 2 {
		t.Errorf("endpoint type %d", r.EndpointType)
	}
	for _, n := range q.nodes {
		if n.asked(kmsg.Metadata) != nil || n.asked(kmsg.GetTelemetrySubscriptions) != nil {
			t.Error("more was asked for than was meant")
		}
	}
}

// once is the file of a client's configuration with which no second attempt comes in time.
func once(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "once.properties")
	must(t, os.WriteFile(path, []byte("retry.backoff.ms=60000\nretry.backoff.max.ms=60000\n"), 0o600))
	return path
}

// A quorum that elects a leader is waited for.
func TestNoController(t *testing.T) {
	q := startQuorum(t)
	q.refuse.Store(2)
	got := line("--bootstrap-controller %s upgrade --feature group.version=2", q.addresses(1))
	if got.exit != 0 || got.stdout != "group.version was upgraded to 2.\n" {
		t.Errorf("%+v", got)
	}
	q.unnamed.Store(true)
	for _, command := range []string{"describe", "upgrade --feature group.version=2"} {
		got = line("--bootstrap-controller %s --command-config %s %s", q.addresses(1), once(t), command)
		if got.exit != 1 || !strings.Contains(got.stderr, "within ") || !strings.Contains(got.stderr, q.addresses(1)+" knows no active controller") || !strings.Contains(got.stderr, "--timeout") {
			t.Errorf("%+v", got)
		}
	}
}

func TestNodeID(t *testing.T) {
	for _, brokers := range []bool{false, true} {
		q := startQuorum(t)
		q.brokers = brokers
		q.level[3].Store(7)
		option := map[bool]string{false: "--bootstrap-controller", true: "--bootstrap-server"}[brokers]
		got := line("%s %s describe --node-id 3", option, q.addresses(1))
		if got.exit != 0 || !strings.Contains(got.stdout, "FinalizedVersionLevel: 7 ") {
			t.Errorf("%+v", got)
		}
		got = line("%s %s describe --node-id 9", option, q.addresses(1))
		if got.exit != 1 || got.stdout != "" || !strings.Contains(got.stderr, "there is no node 9") || !strings.Contains(got.stderr, "3 at "+q.addresses(3)) {
			t.Errorf("%+v", got)
		}
	}
}

func TestWait(t *testing.T) {
	for _, brokers := range []bool{false, true} {
		q := startQuorum(t)
		q.brokers = brokers
		q.lag[3] = new(atomic.Int32)
		q.lag[3].Store(5)
		q.late.Store(2)
		option := map[bool]string{false: "--bootstrap-controller", true: "--bootstrap-server"}[brokers]
		got := line("%s %s upgrade --feature group.version=2 --wait", option, q.addresses(1))
		want := "group.version was upgraded to 2.\nReported by every node: 1 at " + q.addresses(1) + ", 2 at " + q.addresses(2) + ", 3 at " + q.addresses(3) + ".\n"
		if got.exit != 0 || got.stdout != want {
			t.Errorf("%+v", got)
		}
		got = line("%s %s upgrade --feature group.version=3 --wait --timeout 400ms", option, q.addresses(1))
		if got.exit != 1 || got.stdout != "group.version was upgraded to 3.\n" || !strings.Contains(got.stderr, "node 3 at "+q.addresses(3)+" reports group.version=2") || strings.Contains(got.stderr, "node 2") {
			t.Errorf("%+v", got)
		}
		got = line("%s %s upgrade --feature group.version=3 --wait --dry-run", option, q.addresses(1))
		if got.exit != 1 || got.stdout != "" || !strings.Contains(got.stderr, "--dry-run") {
			t.Errorf("%+v", got)
		}
		got = call(map[string]string{"KFEATURES_WAIT": "true"}, strings.Fields(option+" "+q.addresses(1)+" upgrade --feature group.version=3 --dry-run")...)
		if got.exit != 0 || got.stdout != "group.version can be upgraded to 3.\n" {
			t.Errorf("%+v", got)
		}
	}
}

// What was seen last is told also when the time is up in the middle of the next look.
func TestWaitCutShort(t *testing.T) {
	q := startQuorum(t)
	q.lag[3], q.silent[3] = new(atomic.Int32), new(atomic.Int32)
	q.silent[3].Store(2)
	got := line("--bootstrap-controller %s upgrade --feature group.version=2 --wait --timeout 4s", q.addresses(1))
	if got.exit != 1 || !strings.Contains(got.stderr, "last: node 3 at "+q.addresses(3)+" reports group.version=1\n") || q.silent[3].Load() >= 0 {
		t.Errorf("%+v", got)
	}
}

func TestJSON(t *testing.T) {
	q := startQuorum(t)
	decode := func(text string) map[string]any {
		t.Helper()
		var out map[string]any
		if err := json.Unmarshal([]byte(text), &out); err != nil || out["version"] != 1.0 {
			t.Errorf("%v in %s", err, text)
		}
		return out
	}
	got := line("--bootstrap-controller %s describe --json", q.addresses(1))
	d := decode(got.stdout)
	f := d["features"].([]any)[0].(map[string]any)
	if got.exit != 0 || got.stderr != "" || d["epoch"] != 7.0 || f["name"] != "group.version" || f["supportedMaxVersion"] != 9.0 || f["finalizedVersionLevel"] != 1.0 {
		t.Errorf("%+v", got)
	}
	got = line("--bootstrap-controller %s upgrade --feature group.version=2 --wait --json", q.addresses(1))
	d = decode(got.stdout)
	if got.exit != 0 || got.stderr != "" || d["operation"] != "upgrade" || len(d["reportedBy"].([]any)) != 3 {
		t.Errorf("%+v", got)
	}
	got = line("--bootstrap-controller %s --command-config %s upgrade --metadata 4.0 --json", deadAddress(t), once(t))
	d = decode(got.stdout)
	f = d["features"].([]any)[0].(map[string]any)
	if got.exit != 1 || !strings.HasPrefix(f["error"].(string), "Timed out waiting") || len(d["warnings"].([]any)) != 1 || len(decode(got.stderr)["errors"].([]any)) != 2 {
		t.Errorf("%+v", got)
	}
	got = line("describe --json --bootstrap-server x:1")
	if got.exit != 1 || got.stdout != "" || len(decode(got.stderr)["errors"].([]any)) != 1 {
		t.Errorf("%+v", got)
	}
}

// What is wrong with an address is told in seconds, with the address.
func TestAddresses(t *testing.T) {
	q := startQuorum(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { silent.Close() })
	closing := startNode(t, &fakeNode{answer: func(kmsg.Request) kmsg.Response { return nil }})
	config := filepath.Join(t.TempDir(), "client.properties")
	must(t, os.WriteFile(config, []byte("request.timeout.ms=300\n"), 0o600))
	tests := []struct {
		name, address string
		want          string
	}{
		{"a dead port", deadAddress(t), "connection refused"},
		{"no such host", "no-such-host.invalid:9092", "no-such-host.invalid:9092: "},
		{"nobody answers", silent.Addr().String(), "no answer in time"},
		{"a connection that is closed", closing.address(), "the connection was closed without an answer"},
		{"a controller for a broker", q.addresses(1), "pass its address with --bootstrap-controller"},
		{"no port", "localhost", "host:port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := "--bootstrap-server " + tt.address + " describe"
			if tt.address == silent.Addr().String() { // the others may take their time on a busy machine
				args = "--command-config " + config + " " + args
			}
			got := line("%s", args)
			if got.exit != 1 || got.stdout != "" || !strings.Contains(got.stderr, tt.want) || !strings.Contains(got.stderr, tt.address) || got.took > 8*time.Second {
				t.Errorf("%+v", got)
			}
			if strings.Contains(got.stderr, "unable to") || strings.Contains(got.stderr, "kgo") {
				t.Errorf("words of a library: %s", got.stderr)
			}
		})
	}
}

// A node that hangs takes no time from the others, be they the next addresses or those that --wait asks.
func TestNodeThatHangs(t *testing.T) {
	q := startQuorum(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	q.nodes[1].answer = func(kmsg.Request) kmsg.Response { <-release; return nil }
	got := line("--bootstrap-controller %s describe --timeout 4s", q.addresses(1, 2))
	if got.exit != 0 {
		t.Errorf("%+v", got)
	}
	got = line("--bootstrap-controller %s upgrade --feature group.version=2 --wait --timeout 4s", q.addresses(2))
	if got.exit != 1 || got.stdout != "group.version was upgraded to 2.\n" || !strings.Contains(got.stderr, "node 1 at ") || strings.Contains(got.stderr, "node 2") || strings.Contains(got.stderr, "node 3") {
		t.Errorf("%+v", got)
	}
}

// An answer that gets lost is asked for again: an update made twice is made once.
func TestLostAnswer(t *testing.T) {
	q := startQuorum(t)
	var lost atomic.Bool
	answer := q.nodes[2].answer
	q.nodes[2].answer = func(r kmsg.Request) kmsg.Response {
		a := answer(r)
		if r.Key() == kmsg.UpdateFeatures.Int16() && !lost.Swap(true) {
			return nil
		}
		return a
	}
	got := line("--bootstrap-controller %s upgrade --feature group.version=2", q.addresses(2))
	if got.exit != 0 || got.stdout != "group.version was upgraded to 2.\n" {
		t.Errorf("%+v", got)
	}
	q.refuse.Store(1000) // its record may be there, and win over the loss of the leadership
	for option, told := range map[string]bool{"": true, " --dry-run": false} {
		got = line("--bootstrap-controller %s upgrade --feature group.version=3%s --timeout 700ms", q.addresses(2), option)
		if got.exit != 1 || strings.Contains(got.stderr, "it may have been done all the same") != told {
			t.Errorf("%+v", got)
		}
	}
}

// Version 1 of the response has a result for each feature.
func TestResultsByFeature(t *testing.T) {
	n := startNode(t, &fakeNode{})
	n.answer = func(r kmsg.Request) kmsg.Response {
		if _, ok := r.(*kmsg.UpdateFeaturesRequest); !ok {
			versions := versionsAnswer(false, nil)
			for i := range versions.ApiKeys {
				versions.ApiKeys[i].MaxVersion = min(versions.ApiKeys[i].MaxVersion, 1)
			}
			return versions
		}
		out := kmsg.NewPtrUpdateFeaturesResponse()
		out.Results = []kmsg.UpdateFeaturesResponseResult{
			{Feature: "b", ErrorCode: kerr.InvalidUpdateVersion.Code, ErrorMessage: kmsg.StringPtr("No.")},
			{Feature: "a"},
		}
		return out
	}
	got := line("--bootstrap-server %s downgrade --feature b=0 --feature a=1", n.address())
	want := "a was downgraded to 1.\nCould not downgrade b to 0. No.\n"
	if got.exit != 1 || got.stdout != want || got.stderr != "1 out of 2 operation(s) failed.\n" {
		t.Errorf("%+v", got)
	}
}

// A node that only knows the form of before KRaft would make the change of a dry run.
func TestOldUpdateFeatures(t *testing.T) {
	n := startNode(t, &fakeNode{})
	n.answer = func(kmsg.Request) kmsg.Response {
		versions := versionsAnswer(false, nil)
		for i := range versions.ApiKeys {
			versions.ApiKeys[i].MaxVersion = 0
		}
		return versions
	}
	got := line("--bootstrap-server %s upgrade --feature a=1 --dry-run", n.address())
	if got.exit != 1 || n.asked(kmsg.UpdateFeatures) != nil || !strings.Contains(got.stderr, "before KRaft") {
		t.Errorf("%+v", got)
	}
}

// What a command changes is never in the environment.
func TestEnvironment(t *testing.T) {
	q := startQuorum(t)
	env := map[string]string{
		"KFEATURES_BOOTSTRAP_CONTROLLER": q.addresses(1), "KFEATURES_FEATURE": "group.version=2", "KFEATURES_METADATA": "4.0",
		"KFEATURES_RELEASE_VERSION": "4.0", "KFEATURES_UNSAFE": "true", "KFEATURES_JSON": "false",
	}
	for _, command := range []string{"upgrade", "downgrade", "disable", "feature-dependencies"} {
		if got := call(env, command); got.exit != 1 || got.stdout != "" || !strings.Contains(got.stderr, "--feature") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if got := call(env, "downgrade", "--feature", "group.version=0"); got.exit != 0 || q.nodes[2].asked(kmsg.UpdateFeatures)[0].(*kmsg.UpdateFeaturesRequest).FeatureUpdates[0].UpgradeType != 2 {
		t.Errorf("%+v", got)
	}
	if got := call(env, "version-mapping"); got.exit != 0 || !strings.HasPrefix(got.stdout, "metadata.version=25 (4.0)\n") {
		t.Errorf("%+v", got)
	}
	// An option switches the variable of the other one off.
	if got := call(env, "--bootstrap-server", q.addresses(1), "describe"); !strings.Contains(got.stderr, "is a controller") {
		t.Errorf("%+v", got)
	}
}
