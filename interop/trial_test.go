//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// trial is one call of format: a configuration, what lies in the folder before, and arguments.
type trial struct {
	settings [][2]string       // keys and values of the configuration, the last of a key counts
	config   string            // the text of server.properties
	before   map[string]string // path: content; a path that ends in a slash is a folder
	args     []string

	clusterID  string // of args
	standalone bool
	voters     string
}

// choice makes a trial from random numbers. Mostly it chooses what is usual, so that many trials come to writing
// files, and now and then something else: in some trials seldom, in some often.
type choice struct {
	*rand.Rand
	trial
	rare int // something unusual is chosen once in so many times
}

func newTrial(random *rand.Rand, work string) trial {
	c := choice{Rand: random, trial: trial{before: map[string]string{}}, rare: []int{50, 15, 5}[random.IntN(3)]}
	c.configure(work)
	c.fillFolder()
	c.commandLine(work)
	return c.trial
}

// pick returns what is usual, or now and then one of the others.
func (c *choice) pick(usual string, others ...string) string {
	if c.oneIn(c.rare) {
		return others[c.IntN(len(others))]
	}
	return usual
}

// any returns one of several that are all usual.
func (c *choice) any(options ...string) string { return options[c.IntN(len(options))] }

// oneIn is true once in n times.
func (c *choice) oneIn(n int) bool { return c.IntN(n) == 0 }

const (
	ownDirectoryID   = "JEXY6aqzQY-32P5TStzaFg"
	firstDirectoryID = "IO8aYqGKTIGJlHOKaLK-aw"
	otherDirectoryID = "P93iaE5oRLgeYDvLvCyQuA"
	zeroDirectoryID  = "AAAAAAAAAAAAAAAAAAAAAA"
	otherClusterID   = "XcZZOzUqS4yHOjhMQB6JLQ"
)

func (c *choice) configure(work string) {
	set := func(key, value string) { c.settings = append(c.settings, [2]string{key, value}) }
	roles := c.any("broker,controller", "controller,broker", "controller", "broker", "controller, broker")
	set("process.roles", roles)
	set(c.any("node.id", "node.id", "broker.id"), c.pick("1", "01", "+1", "1 ", "0", "-1", "2147483648", "x", ""))
	broker := c.pick("PLAINTEXT://127.0.0.1:19092", "PLAINTEXT://:19092", "PLAINTEXT://[::1]:19092",
		"PLAINTEXT://127.0.0.1:19092,EXTERNAL://127.0.0.1:19094")
	controller := c.pick("CONTROLLER://127.0.0.1:19093", "CONTROLLER://localhost:19093", "CONTROLLER://:19093",
		"CONTROLLER://[::1]:19093", "controller://127.0.0.1:19093", "CONTROLLER://127.0.0.1:0",
		"CONTROLLER://127.0.0.1:19093,OTHER://127.0.0.1:19095")
	switch roles {
	case "controller":
		set("listeners", controller)
	case "broker":
		set("listeners", broker)
	default:
		set("listeners", c.pick(broker+","+controller, controller, broker, "PLAINTEXT://127.0.0.1:19093,"+controller))
	}
	set("controller.listener.names", c.pick("CONTROLLER", "controller", "CONTROLLER,OTHER", "", "PLAINTEXT"))
	if c.oneIn(4) {
		set("listener.security.protocol.map",
			c.pick("CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_SSL,OTHER:SSL", "CONTROLLER:PLAINTEXT",
				"CONTROLLER:NONSENSE", "CONTROLLER"))
	}
	switch c.any("dynamic", "dynamic", "dynamic", "static", "static", "both", c.pick("dynamic", "none")) {
	case "dynamic":
		set("controller.quorum.bootstrap.servers", c.pick(c.any("127.0.0.1:19093", "c1:9093,c2:9093"),
			"c1:9093, c2:9093", "c1", "[::1]:9093", ""))
	case "static":
		set("controller.quorum.voters", c.pick(c.any("1@127.0.0.1:19093", "1@127.0.0.1:19093,2@c2:9093"),
			"2@c2:9093", "1@c1", "x@c1:1", "1@127.0.0.1:19093,1@c2:9093", "1@0.0.0.0:0", ""))
	case "both":
		set("controller.quorum.voters", "1@127.0.0.1:19093")
		set("controller.quorum.bootstrap.servers", "127.0.0.1:19093")
	}
	set(c.pick("log.dirs", "log.dir"), strings.ReplaceAll(c.any("W/d1", "W/d1", "W/d1,W/d2", "W/d2,W/d1",
		c.pick("W/d1", "W/a b,W/d1", "W/x/y/z", "W/d1,W/d2,W/d3", "W/d1, W/d1", "W/d1 , W/d2", "W/d1,",
			"W/d1,,W/d2", "W/Größe", "W/d1,W/d1/sub", "")), "W", work))
	if c.oneIn(5) {
		set("metadata.log.dir", work+c.pick("/d2", "/m", "/d1", "/d1/sub"))
	}
	if c.oneIn(8) {
		extra := c.any("num.io.threads=4", "log.segment.bytes=7", "nonsense=x", "node.id=2", "broker.id=2", "log.dirs=",
			"advertised.listeners=PLAINTEXT://h:1", "advertised.listeners=PLAINTEXT://h:1,CONTROLLER://h:2",
			"advertised.listeners=CONTROLLER://h:2", "inter.broker.listener.name=PLAINTEXT",
			"inter.broker.listener.name=CONTROLLER", "early.start.listeners=X", "security.inter.broker.protocol=NONE",
			"process.roles=", "process.roles=broker,broker", "controller.quorum.auto.join.enable=true",
			"unstable.feature.versions.enable=true", "metadata.log.segment.bytes=100", "log.retention.ms=x",
			"compression.type=nonsense", "log.cleanup.policy=compact", "num.partitions=0", "ssl.client.auth=maybe",
			"sasl.enabled.mechanisms=X", "min.insync.replicas=2147483648", "auto.create.topics.enable=yes",
			"message.max.bytes=-1", "super.users=User:a", "broker.session.timeout.ms=1", "background.threads=1.5",
			"group.coordinator.rebalance.protocols=a")
		key, value, _ := strings.Cut(extra, "=")
		set(key, value)
	}
	var b strings.Builder
	end := c.any("\n", "\r\n", "\n# a comment\n", "\n\n", "\r")
	for _, s := range c.settings {
		separator := c.any("=", " = ", ": ", " ", "\t", "=\\\n   ")
		fmt.Fprint(&b, c.pick("", "  ", "\t"), s[0], separator, s[1], end)
	}
	c.config = b.String()
}

// fillFolder puts something into the directories now and then.
func (c *choice) fillFolder() {
	meta := func(lines ...string) string {
		head, end := c.pick("#\n#Mon Jan 01 00:00:00 UTC 2024\n", ""), c.pick("\n", "\r\n")
		return head + strings.Join(lines, end) + c.pick(end, "")
	}
	const version, cluster, node = "version=1", "cluster.id=" + clusterID, "node.id=1"
	if c.oneIn(5) {
		c.before["d1/meta.properties"] = c.pick(meta(version, cluster, node, "directory.id="+firstDirectoryID),
			meta(version, "cluster.id="+otherClusterID, node, "directory.id="+firstDirectoryID),
			meta(version, cluster, "node.id=7", "directory.id="+firstDirectoryID),
			meta(version, cluster, node),
			meta("version=0", cluster, "broker.id=1"),
			meta("version=0", cluster, "broker.id=7"),
			meta(version, cluster, node, "directory.id="+zeroDirectoryID),
			meta(version, cluster, node, "directory.id="+firstDirectoryID, "extra=yes"),
			meta("version = 1", "cluster.id : "+clusterID, "node.id 1"))
	}
	if c.oneIn(8) {
		c.before["d2/meta.properties"] = c.pick(meta(version, cluster, node, "directory.id="+otherDirectoryID),
			meta(version, cluster, node, "directory.id="+firstDirectoryID),
			meta(version, cluster, "node.id=7", "directory.id="+otherDirectoryID))
	}
	if c.oneIn(6) {
		left := c.any("d1/", "d1/meta.properties.tmp", "d1/topic-0/00000000000000000000.log",
			"d1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
			"d1/lost+found/", "d1/meta.properties/", "d1", "d2/file")
		c.before[left] = ""
		if left == "d1" || left == "d1/meta.properties/" {
			delete(c.before, "d1/meta.properties")
		}
	}
}

func (c *choice) commandLine(work string) {
	add := func(args ...string) { c.args = append(c.args, args...) }
	// option adds an option and its value in one of the ways that the parser takes.
	option := func(short, long, value string) {
		switch c.any("separate", "long", "joined", "equals", "short equals", "prefix") {
		case "separate":
			add(short, value)
		case "long":
			add(long, value)
		case "joined":
			add(short + value)
		case "equals":
			add(long + "=" + value)
		case "short equals":
			add(short + "=" + value)
		case "prefix":
			add(long[:len(long)-2], value)
		}
	}
	add(c.pick("format", "format", "form"))
	option("-c", "--config", work+"/server.properties")
	c.clusterID = c.pick(c.any(clusterID, clusterID, clusterID, "my-cluster"), "a=b:c#d!e\\f", "Größe", "7", "-5",
		otherClusterID, " x", "a b", "x\ty", strings.Repeat("x", 300), "日本", "😀", "a'b\"c")
	option("-t", "--cluster-id", c.clusterID)
	static, roles := c.setting("controller.quorum.voters") != "", c.setting("process.roles")
	if quiet := static && !c.oneIn(10) || roles == "broker" && !c.oneIn(3); !quiet {
		switch c.any("-s", "-s", "-N", "-I", "-I", "-I", c.pick("-s", "")) {
		case "-s":
			if strings.Contains(c.setting("listeners"), "CONTROLLER://[") {
				break // Kafka's tool can't parse its own text of such a voter
			}
			c.standalone = true
			add(c.pick("-s", "--standalone", "--stand"))
		case "-N":
			add(c.pick("-N", "--no-initial-controllers", "--no"))
		case "-I":
			own, other := "1@127.0.0.1:19093:"+ownDirectoryID, "2@c2:9093:MvDxzVmcRsaTz33bUuRU6A"
			c.voters = c.pick(c.any(own, own+","+other, other+", "+own), other, own+",", ","+own,
				"1@127.0.0.1:19093", own+","+own, "", " "+own, own+" ",
				"1@[::1]:19093:"+ownDirectoryID, "1@c1:0:"+ownDirectoryID, "1@:9:"+ownDirectoryID,
				"x@c1:1:"+ownDirectoryID, "1@c1:1:"+zeroDirectoryID, "1@c1:65536:"+ownDirectoryID,
				"1@c1:-1:"+ownDirectoryID, "-1@c1:1:"+ownDirectoryID, "1@c1:1:tooshort",
				"1@c1:1:"+ownDirectoryID+":x", "1@c 1:1:"+ownDirectoryID,
				"1@127.1:1:"+ownDirectoryID, "1@c1:+1:"+ownDirectoryID, "1@c_1:01:"+ownDirectoryID,
				"1@C1.Example:1:"+ownDirectoryID, own+",2@127.0.0.1:19093:"+ownDirectoryID,
				"1@2130706433:1:"+ownDirectoryID, "1@1.2.3.4.5:1:"+ownDirectoryID, "1@256.1.1.1:1:"+ownDirectoryID,
				"1@[::ffff:1.2.3.4]:1:"+ownDirectoryID, "1@[::]:1:"+ownDirectoryID)
			option("-I", "--initial-controllers", c.voters)
		}
	}
	unstable := c.setting("unstable.feature.versions.enable") == "true" // then the default is not 4.4-IV2
	if unstable || c.IntN(3) > 0 {
		option("-r", "--release-version", c.any("3.3-IV3", "3.5-IV2", "3.7-IV2", "3.9", "4.0", "4.0-IV3", "4.1-IV0", "4.2", "4.3-IV0",
			"4.4-IV1", "4.4", c.pick("4.4.0", "3.5", "4.0.1.2", "3.2", "4.9", "x", "4.5-IV0", "", " 4.0", "4")))
	}
	for range c.IntN(3) {
		name := c.any("transaction.version", "group.version", "share.version", "streams.version", "eligible.leader.replicas.version",
			c.pick("share.version", "kraft.version", "metadata.version", "nosuch.version", "", " group.version"))
		level := c.pick(c.any("1", "0"), "2", "3", "-1", "17", "29", "+1", "x", "01", " 1", "1 ", "99999")
		option("-f", "--feature", name+c.pick("=", "", "==")+level)
	}
	for range c.IntN(2) {
		mechanism := c.any("SCRAM-SHA-256", "SCRAM-SHA-512", c.pick("SCRAM-SHA-512", "SCRAM-SHA-1", "scram-sha-256", ""))
		name := c.pick("name=alice", `name="alice"`, "name=", "user=alice", "name=Zoë", "name=a,name=b", " name=alice", `name="`)
		salt := c.pick(`,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="`, ",salt=N3E=", ",salt=%%%", ",salt=N3E", ",salt=")
		iterations := c.pick(c.any("", ",iterations=8192"), ",iterations=100", ",iterations=x", `,iterations="4096"`,
			",iterations=16385", ",iterations=")
		password := c.pick(c.any(",password=wonderland", `,saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="`),
			",password=", ",password=a=b", ",password=a,b", "", `,password="q"`, ",password=pä ss", ",saltedpassword=x",
			",extra=1,password=y")
		option("-S", "--add-scram", mechanism+c.pick("=[", "=", "[", " = [")+name+salt+iterations+password+c.pick("]", "", "],", "]]", "] "))
	}
	if c.oneIn(3) {
		add(c.any("-g", "--ignore-formatted", "--ign"))
	}
	if c.oneIn(25) {
		add(c.any("--nonsense", "left-over", "-g", "-t", "-x", "--", "-s", "--config", "-gs", ""))
	}
	if c.oneIn(30) {
		c.before["more"] = c.any("-g\n", "-g", "-r\n3.9\n", "\n")
		add("@" + filepath.Join(work, "more"))
	}
}
