package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/config"
	"kstorage/internal/disk"
	"kstorage/internal/record"
	"kstorage/internal/wire"
	"kstorage/metaprops"
)

// aloneIn returns the options of a controller that is the only voter, static, of clusterA, whose files are in dir/d.
func aloneIn(t *testing.T, dir string) Options {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	properties := filepath.Join(dir, "server.properties")
	for name, content := range map[string]string{
		filepath.Join(dir, "d", metaprops.FileName): metaProperties(1, clusterA, dirA),
		properties: "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n" +
			"controller.quorum.voters=1@127.0.0.1:1\nlog.dirs=" + filepath.Join(dir, "d") + "\nmetadata.max.idle.interval.ms=0\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(properties, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Config: c, FS: disk.OS, Random: rand.NewChaCha8([32]byte{}), Now: time.Now, LocalHostName: func() string { return "localhost" },
		Log: slog.New(slog.DiscardHandler), Notify: func(string) {},
	}
}

// batchesOf shows the batches of a log, each with the names of its records.
func batchesOf(t *testing.T, folder string) (list []string) {
	t.Helper()
	log, err := os.Open(filepath.Join(folder, "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for in := record.NewBatchReader(log); ; {
		b, err := in.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for e, err := range b.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			decode := record.Decode
			if b.Control {
				decode = func(value []byte) (record.Record, error) { return record.DecodeControl(e.Key, value) }
			}
			r, err := decode(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, r.Message.Name)
		}
		list = append(list, strings.Join(names, " "))
	}
}

// runAlone runs the only controller of a cluster in a directory, until stop is called, and no longer than the test.
func runAlone(t *testing.T, dir string) (n *node, client *wire.Client, stop func()) {
	t.Helper()
	n = newNode(aloneIn(t, dir))
	t.Cleanup(n.close)
	if err := n.open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- n.run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-stopped; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	client = wire.NewClient(n.servers[0].listener.Addr().String(), wire.Self{ClientID: "test"}, nil)
	t.Cleanup(client.Close)
	return n, client, stop
}

// TestNodeUpdatesFeatures: the voters' records come first, all the rest is one batch, and what is refused writes nothing.
func TestNodeUpdatesFeatures(t *testing.T) {
	dir := t.TempDir()
	_, client, stop := runAlone(t, dir)
	ask := func(validateOnly bool, updates ...features.Level) *kmsg.UpdateFeaturesResponse {
		t.Helper()
		q := kmsg.NewPtrUpdateFeaturesRequest()
		q.ValidateOnly = validateOnly
		for _, l := range updates {
			f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			f.Feature, f.MaxVersionLevel, f.UpgradeType = l.Name, l.Level, 1
			q.FeatureUpdates = append(q.FeatureUpdates, f)
		}
		for { // until it leads
			r, err := client.Do(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if u := r.(*kmsg.UpdateFeaturesResponse); u.ErrorCode != codeNotController {
				return u
			}
		}
	}
	kraft, newest := features.Level{Name: features.KRaftVersionName, Level: 1}, features.Level{Name: features.MetadataVersionName, Level: 35}
	for _, test := range []struct {
		validateOnly bool
		updates      []features.Level
		code         int16
	}{
		{true, []features.Level{kraft, newest}, 0},
		{false, []features.Level{kraft, newest, {Name: "group.version", Level: 9}}, 95},
		{false, []features.Level{kraft, newest}, 0},
		{false, []features.Level{{Name: features.KRaftVersionName, Level: 0}}, 95},
		{false, []features.Level{{Name: features.MetadataVersionName, Level: 34}}, 95},
		{false, []features.Level{newest}, 0},
	} {
		if r := ask(test.validateOnly, test.updates...); r.ErrorCode != test.code {
			t.Errorf("%v, validate only %v: error %d", test.updates, test.validateOnly, r.ErrorCode)
		}
	}
	stop()
	batches := batchesOf(t, filepath.Join(dir, "d", "__cluster_metadata-0"))
	// The controller registers meanwhile.
	batches = slices.DeleteFunc(batches, func(b string) bool { return b == record.RegisterController.Name })
	want := []string{
		"KRaftVersionRecord VotersRecord",
		"NoOpRecord FeatureLevelRecord ClusterIdRecord",
		"FeatureLevelRecord",
	}
	if len(batches) < len(want) || !slices.Equal(batches[len(batches)-len(want):], want) {
		t.Errorf("batches %q, want these at the end: %q", batches, want)
	}
}

// TestHeartbeatBetweenFencings has three brokers that are silent for too long, and fencings that take longer than the pause
// between two. A heartbeat that comes in during the first one saves its broker.
func TestHeartbeatBetweenFencings(t *testing.T) {
	ctx := t.Context()
	n, client, stop := runAlone(t, t.TempDir())

	heartbeats := make([]*kmsg.BrokerHeartbeatRequest, 3)
	for id := range heartbeats {
		q := kmsg.NewPtrBrokerRegistrationRequest()
		q.BrokerID, q.ClusterID, q.IncarnationID, q.LogDirs = int32(10+id), clusterA, [16]byte{1}, [][16]byte{{byte(100 + id)}}
		q.Listeners = []kmsg.BrokerRegistrationRequestListener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}}
		q.Features = []kmsg.BrokerRegistrationRequestFeature{{Name: features.MetadataVersionName, MinSupportedVersion: 7, MaxSupportedVersion: 35}}
		for _, f := range features.All() {
			q.Features = append(q.Features, kmsg.BrokerRegistrationRequestFeature{Name: f.Name(), MaxSupportedVersion: f.LatestLevel()})
		}
		registered := &kmsg.BrokerRegistrationResponse{ErrorCode: codeNotController}
		for registered.ErrorCode == codeNotController { // until it leads
			r, err := client.Do(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			registered = r.(*kmsg.BrokerRegistrationResponse)
		}
		if registered.ErrorCode != 0 {
			t.Fatalf("registration: error %d", registered.ErrorCode)
		}
		h := kmsg.NewPtrBrokerHeartbeatRequest()
		h.BrokerID, h.BrokerEpoch, h.CurrentMetadataOffset = q.BrokerID, registered.BrokerEpoch, 1<<40
		heartbeats[id] = h
		if r, err := client.Do(ctx, h); err != nil || r.(*kmsg.BrokerHeartbeatResponse).IsFenced {
			t.Fatalf("heartbeat: %+v, %v", r, err)
		}
	}

	c := n.cluster
	var fenced []bool
	answers := make(chan kmsg.Response, 1)
	err := c.do(ctx, func() {
		wall := c.clock.wall
		c.clock.start = c.clock.start.Add(-time.Minute)
		c.clock.wall = func() time.Time { // is asked once for each append
			c.clock.start = c.clock.start.Add(-time.Second)
			return wall()
		}
		c.box.put(func() error {
			for _, h := range heartbeats {
				fenced = append(fenced, c.active.controller.Image().Broker(h.BrokerID).Fenced)
			}
			return c.decide(heartbeats[2], answers)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	<-answers
	if want := []bool{true, false, false}; !slices.Equal(fenced, want) {
		t.Errorf("fenced are %v when the heartbeat is looked at, want %v", fenced, want)
	}
	stop()
}
