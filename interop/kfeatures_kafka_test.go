//go:build interop

package interop

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// secured is a running Kafka node, which is broker and controller, and the ways to it.
type secured struct {
	*server
	broker, controller way
	scram256, scram512 way // to the broker
	scramTLS           way
	tls                map[string]way // by storeTypes
	controllerTLS      way
	controllerScramTLS way
	refused            []refusedWay
}

// refusedWay is a way that the listener does not allow.
type refusedWay struct {
	way
	reason string // as kfeatures says it
}

func startSecured(t *testing.T, level string) secured {
	t.Helper()
	files := newStores(t)
	folder := t.TempDir()
	n := newNode(t, folder, 1, "broker,controller", []string{"d1"})
	at := n.secure(t, files)
	byKstorage.format(t, n.write(t, bootstrapServers(n)), slices.Concat([]string{"-r", level, "-s"}, scram)...)
	s := secured{server: startServer(t, n), broker: toBroker(n), controller: toControllers(n), tls: map[string]way{}}

	secure := func(name, bootstrap, address, protocol, settings string) way {
		path := filepath.Join(folder, name+".properties")
		writeFile(t, path, "security.protocol="+protocol+"\n"+settings)
		return way{name, []string{"--" + bootstrap, address, "--command-config", path}}
	}
	const server, controller = "bootstrap-server", "bootstrap-controller"
	alice, bob := login("SCRAM-SHA-256", "alice", "wonderland"), login("SCRAM-SHA-512", "bob", "builder")
	s.scram256 = secure("SCRAM-SHA-256", server, n.saslAddress(), "SASL_PLAINTEXT", alice)
	s.scram512 = secure("SCRAM-SHA-512", server, n.saslAddress(), "SASL_PLAINTEXT", bob)
	s.scramTLS = secure("SCRAM behind TLS", server, at["SASLSSL"], "SASL_SSL", bob+files.trusting("PKCS12"))
	for _, kind := range storeTypes {
		s.tls[kind] = secure("TLS with "+kind, server, at["SSL"], "SSL", files.trusting(kind)+files.certified(kind))
	}
	s.controllerTLS = secure("controller, TLS", controller, at["CONTROLLERSSL"], "SSL", files.trusting("PEM")+files.certified("PEM"))
	s.controllerScramTLS = secure("controller, SCRAM behind TLS", controller, at["CONTROLLERSASLSSL"], "SASL_SSL", alice+files.trusting("JKS"))
	s.refused = []refusedWay{
		{secure("another password", server, n.saslAddress(), "SASL_PLAINTEXT", login("SCRAM-SHA-256", "alice", "builder")), "invalid credentials with SASL mechanism SCRAM-SHA-256"},
		{secure("no trust", server, at["SASLSSL"], "SASL_SSL", bob), "certificate signed by unknown authority"},
		{secure("no certificate", server, at["SSL"], "SSL", files.trusting("JKS")), "tls: bad certificate"},
		{secure("controller, another password", controller, at["CONTROLLERSASLSSL"], "SASL_SSL", login("SCRAM-SHA-512", "bob", "x")+files.trusting("JKS")), "invalid credentials with SASL mechanism SCRAM-SHA-512"},
	}
	s.wait(t, started)
	return s
}

// ways are all that lead to the cluster.
func (s secured) ways() []way {
	all := []way{s.broker, s.controller, s.scram256, s.scram512, s.scramTLS, s.controllerTLS, s.controllerScramTLS}
	for _, kind := range storeTypes {
		all = append(all, s.tls[kind])
	}
	return all
}

// TestFeaturesOfKafka lets kfeatures and kafka-features ask and change clusters of Kafka's over listeners of each kind.
func TestFeaturesOfKafka(t *testing.T) {
	t.Parallel()
	t.Run("4.4", func(t *testing.T) {
		t.Parallel()
		s := startSecured(t, "4.4-IV2")
		for _, w := range s.ways() {
			checkLevels(t, w, "metadata.version=4.4-IV2 kraft.version=1 group.version=1")
		}
		for _, w := range s.refused {
			args := append(slices.Clone(w.args), "describe")
			want, got := kafkaTool(t, featureTool, args...), kfeatures(t, args...)
			if checkSame(t, got, want); want.exit != 1 || !strings.Contains(got.stderr, w.reason) {
				t.Errorf("%s: it should be refused because of %q: %s\n%s", w.name, w.reason, want, got)
			}
		}
		play(t,
			step{s.broker, "describe --node-id 1", 0, "Feature: share.version", ""},
			step{s.controllerTLS, "describe --node-id 1", 0, "Feature: share.version", ""},
			step{s.broker, "upgrade --feature group.version=1", 0, "group.version was upgraded to 1.", "group.version=1"},
			step{s.scram256, "downgrade --feature group.version=0 --dry-run", 0, "group.version can be downgraded to 0.", "group.version=1"},
			step{s.scram512, "downgrade --feature group.version=0", 0, "group.version was downgraded to 0.", "group.version=0"},
			step{s.tls["JKS"], "disable --feature share.version --feature streams.version", 0, "share.version was disabled.", "share.version=0 streams.version=0"},
			step{s.controllerScramTLS, "disable --feature transaction.version --dry-run", 0, "transaction.version can be disabled.", "transaction.version=2"},
			step{s.controller, "disable --feature transaction.version --unsafe", 0, "transaction.version was disabled.", "transaction.version=0"},
			step{s.controllerTLS, "upgrade --feature transaction.version=1 --feature group.version=1", 0, "transaction.version was upgraded to 1.", "transaction.version=1 group.version=1"},
			step{s.tls["PKCS12"], "upgrade --release-version 4.4 --dry-run", 0, "share.version can be upgraded to 2.", "share.version=0"},
			step{s.tls["PEM"], "upgrade --release-version 4.4", 0, "share.version was upgraded to 2.", "share.version=2 streams.version=1 transaction.version=2"},
			step{s.controllerScramTLS, "upgrade --feature unknown.version=1", 1, "does not support this feature.", ""},
			step{s.broker, "upgrade --feature transaction.version=3 --feature group.version=1", 1, "Could not upgrade group.version to 1.", ""},
			step{s.controller, "upgrade --feature metadata.version=35", 1, "only supports versions 7-33", ""},
			step{s.scramTLS, "downgrade --metadata 4.3", 1, "Refusing to perform the requested downgrade", ""},
			step{s.controllerTLS, "downgrade --release-version 4.0 --unsafe", 1, "Unsafe metadata downgrade is not supported", "metadata.version=4.4-IV2"},
			step{s.tls["PEM"], "disable --feature kraft.version", 1, "Can't downgrade the version of this feature.", ""},
			step{s.broker, "upgrade --feature group.version=0", 1, "", ""},
		)
	})
	t.Run("3.9", func(t *testing.T) {
		t.Parallel()
		s := startSecured(t, "3.9-IV0")
		for _, w := range s.ways() {
			checkLevels(t, w, "metadata.version=3.9-IV0 kraft.version=1 group.version=0")
		}
		play(t,
			step{s.controller, "upgrade --feature eligible.leader.replicas.version=1", 1, "depends on metadata.version level 23", ""},
			step{s.scramTLS, "disable --feature group.version", 0, "group.version was disabled.", "group.version=0"},
			step{s.broker, "downgrade --metadata 3.8", 0, "metadata.version was downgraded to 20.", "metadata.version=3.8-IV0"},
			step{s.broker, "downgrade --metadata 3.5", 1, "Refusing to perform the requested downgrade", ""},
			step{s.controllerScramTLS, "upgrade --release-version 4.4 --dry-run", 0, "metadata.version can be upgraded to 33.", "metadata.version=3.8-IV0"},
			step{s.scram256, "upgrade --metadata 4.0", 0, "metadata.version was upgraded to 25.", "metadata.version=4.0-IV3 group.version=0"},
			step{s.controllerTLS, "upgrade --feature group.version=1 --feature transaction.version=1", 0, "group.version was upgraded to 1.", "group.version=1 transaction.version=1"},
			step{s.tls["JKS"], "upgrade --release-version 4.4", 0, "metadata.version was upgraded to 33.", "metadata.version=4.4-IV2 eligible.leader.replicas.version=1 share.version=2"},
			step{s.controller, "downgrade --release-version 4.0 --dry-run", 1, "Can not downgrade metadata.version to 25.", ""},
			step{s.scram512, "downgrade --feature share.version=1 --feature group.version=0", 0, "share.version was downgraded to 1.", "share.version=1 group.version=0"},
		)
		for _, w := range s.ways() {
			checkLevels(t, w, "metadata.version=4.4-IV2 kraft.version=1 share.version=1")
		}
		for _, w := range []way{s.scramTLS, s.controllerScramTLS} {
			r := kfeatures(t, append(slices.Clone(w.args), "upgrade", "--release-version", "4.4", "--wait")...)
			if r.exit != 0 || !strings.HasSuffix(r.stdout, "Reported by every node: 1 at "+w.args[1]+".\n") {
				t.Errorf("%s: %s", w.name, r)
			}
		}
	})
}
