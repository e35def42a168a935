package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// interpret fills the fields of Config and checks what the settings say together, as kafka.server.KafkaConfig does when it
// validates its values. A check is left out where a setting that it needs has a problem of its own.
func (l *loader) interpret() {
	l.identity()
	l.quorum()
	l.endpoints()
	l.directories()
	l.limits()
	l.groups()
	l.UnstableFeatureVersions = l.usable("unstable.feature.versions.enable") && l.Bool("unstable.feature.versions.enable")
}

func (l *loader) identity() {
	if l.usable("process.roles") {
		roles := l.List("process.roles")
		l.IsBroker, l.IsController = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	}
	if l.usable("node.id") {
		l.NodeID = int32(l.Int("node.id"))
	}
	if l.usable("node.id", "broker.id") && l.Has("node.id") && l.Has("broker.id") && l.Int("node.id") != l.Int("broker.id") {
		l.fail("broker.id", fmt.Sprintf("%d is not the node.id %d (%s)", l.Int("broker.id"), l.NodeID, l.Source("node.id")), "remove broker.id, an old name of node.id")
	}
}

func (l *loader) directories() {
	key := l.dirsKey()
	if !l.usable(key, "log.dirs", "metadata.log.dir", "cordoned.log.dirs") {
		return
	}
	l.LogDirs = l.List(key)
	l.MetadataLogDir = l.LogDirs[0]
	if !l.Null("metadata.log.dir") {
		l.MetadataLogDir = l.String("metadata.log.dir")
	}
	// Unlike Kafka: it would use the root of the file system.
	if l.MetadataLogDir == "" {
		l.fail("metadata.log.dir", "the value is empty", "name a directory, or remove the line: then it is the first of "+key)
		return
	}
	l.checkSpellings(key)
	l.CordonedLogDirs = l.List("cordoned.log.dirs")
	all := slices.Contains(l.CordonedLogDirs, "*")
	if l.IsBroker {
		for _, dir := range l.CordonedLogDirs {
			switch {
			case all && len(l.CordonedLogDirs) > 1:
				l.fail("cordoned.log.dirs", "other directories stand beside *, which means all of them", "remove either")
				return
			case !all && !slices.Contains(l.LogDirs, dir):
				l.fail("cordoned.log.dirs", fmt.Sprintf("%q is none of the log directories", dir), fmt.Sprintf("write it as %s has it: %q", key, l.LogDirs))
			}
		}
	}
	if all {
		l.CordonedLogDirs = l.LogDirs
	}
}

// dirsKey is the setting that names the log directories.
func (l *loader) dirsKey() string {
	if l.Has("log.dirs") {
		return "log.dirs"
	}
	return "log.dir"
}

// checkSpellings refuses one directory under two names. Unlike Kafka: it takes them for two, and the
// meta.properties of one replaces that of the other.
func (l *loader) checkSpellings(key string) {
	spelled := map[string]string{}
	for _, dir := range l.LogDirs {
		path := absolute(dir)
		if other, ok := spelled[path]; ok {
			l.fail(key, fmt.Sprintf("%q and %q are one directory", other, dir), "remove one of them")
		}
		spelled[path] = dir
	}
	if other, ok := spelled[absolute(l.MetadataLogDir)]; ok && !slices.Contains(l.LogDirs, l.MetadataLogDir) {
		l.fail("metadata.log.dir", fmt.Sprintf("%q and %q of %s are one directory", l.MetadataLogDir, other, key), "write it as "+key+" has it")
	}
}

func absolute(dir string) string {
	if path, err := filepath.Abs(dir); err == nil {
		return path
	}
	return filepath.Clean(dir)
}

// limits checks single numbers against each other.
func (l *loader) limits() {
	l.checkRetention()
	l.atMost("replica.fetch.wait.max.ms", "replica.socket.timeout.ms")
	l.atMost("replica.fetch.wait.max.ms", "replica.lag.time.max.ms")
	if l.usable("log.roll.ms") && !l.Null("log.roll.ms") && l.Long("log.roll.ms") < 1 {
		l.fail("log.roll.ms", fmt.Sprintf("%d is less than 1", l.Long("log.roll.ms")), "write the milliseconds after which a segment is closed")
	}
	if l.usable("log.roll.jitter.ms") && l.Long("log.roll.jitter.ms") < 0 {
		l.fail("log.roll.jitter.ms", fmt.Sprintf("%d is less than 0", l.Long("log.roll.jitter.ms")), "write 0 or more")
	}
	if l.usable("log.cleaner.threads", "log.cleaner.dedupe.buffer.size") {
		const mebibyte = 1 << 20
		if threads := int64(l.Int("log.cleaner.threads")); threads == 0 || l.Long("log.cleaner.dedupe.buffer.size")/threads <= mebibyte {
			l.fail(l.set("log.cleaner.dedupe.buffer.size", "log.cleaner.threads"), fmt.Sprintf("%s leaves not more than 1 MiB for each of %s",
				l.describe("log.cleaner.dedupe.buffer.size"), l.describe("log.cleaner.threads")), "have at least one thread, and more than 1048576 bytes for each")
		}
	}
	if queued := l.number("queued.max.request.bytes"); queued > 0 {
		l.atMost("socket.request.max.bytes", "queued.max.request.bytes")
	}
	if l.number("connections.max.idle.ms") >= 0 {
		l.less("connection.failed.authentication.delay.ms", "connections.max.idle.ms")
	}
	for _, key := range []string{"offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"} {
		if codec := l.number(key); codec < 0 || codec > 4 {
			l.fail(key, fmt.Sprintf("%d is no compression codec", codec), "write 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
		}
	}
	l.checkConnectionsPerAddress()
}

// checkRetention applies to the first of the settings that has a value; a negative one means for ever.
func (l *loader) checkRetention() {
	for _, key := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if !l.usable(key) {
			return
		}
		if l.Null(key) {
			continue
		}
		if l.number(key) == 0 {
			l.fail(key, "0 would keep nothing", "write how long to keep messages, or -1 for ever")
		}
		return
	}
}

func (l *loader) checkConnectionsPerAddress() {
	const key = "max.connections.per.ip.overrides"
	if !l.usable(key) {
		return
	}
	const form = "the form is HOST:NUMBER,HOST:NUMBER"
	pairs, problem := parsePairs(l.String(key))
	if problem != nil {
		l.fail(key, problem.reason, form)
		return
	}
	for _, p := range pairs {
		if _, ok := parseInteger(p.value, 32); !ok || !isHost(p.name) {
			l.fail(key, fmt.Sprintf("%q with %q is no host with a whole number", p.name, p.value), form)
		}
	}
	if len(pairs) == 0 && l.number("max.connections.per.ip") == 0 {
		l.fail("max.connections.per.ip", "0 would let nobody in", "set "+key+" too, or another number")
	}
}

// groups checks the settings of the group coordinator, whose defaults are in order.
func (l *loader) groups() {
	if !slices.ContainsFunc(l.properties, func(p property) bool { return strings.HasPrefix(p.Key, "group.") }) {
		return
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		prefix := "group." + kind + "."
		for _, name := range []string{"heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"} {
			l.within(prefix, name)
		}
		l.less(prefix+"heartbeat.interval.ms", prefix+"session.timeout.ms")
	}
	for _, name := range []string{"delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"} {
		l.within("group.share.", name)
	}
	l.atMost("group.share.max.size", "group.share.max.share.sessions")
	l.atMost("group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
	l.atMost("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas")
	l.atMost("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms")

	l.checkAssignors("group.consumer.assignors", "uniform", "range")
	l.checkAssignors("group.share.assignors", "simple")
	l.checkAssignors("group.streams.assignors", "sticky")
	if key := "group.share.assignors"; l.usable(key) && len(l.List(key)) != 1 {
		l.fail(key, "it names more than one assignor", "choose one")
	}
	if key := "group.coordinator.rebalance.protocols"; l.usable(key) && !slices.Contains(l.List(key), "classic") {
		l.fail(key, "the protocol classic cannot be switched off", "add classic, or remove the line")
	}
	if key := "group.streams.rack.aware.assignment.tags"; l.usable(key) && l.values[key].doubled != nil {
		l.fail(key, fmt.Sprintf("%q stands there twice", l.values[key].doubled[0]), "remove one of them")
	}
}

// checkAssignors takes the names of Kafka's own assignors and those of classes.
func (l *loader) checkAssignors(key string, names ...string) {
	if !l.usable(key) {
		return
	}
	for _, name := range l.List(key) {
		if !slices.Contains(names, name) && !(isClassName(name) && strings.Contains(name, ".")) {
			l.fail(key, fmt.Sprintf("%q is no assignor", name), fmt.Sprintf("use one of %q, or the full name of a class", names))
		}
	}
}

// within checks a setting against its least and its greatest value, which are settings too.
func (l *loader) within(prefix, name string) {
	l.atMost(prefix+"min."+name, prefix+"max."+name)
	l.atMost(prefix+"min."+name, prefix+name)
	l.atMost(prefix+name, prefix+"max."+name)
}

func (l *loader) atMost(low, high string) {
	if l.usable(low, high) && l.number(low) > l.number(high) {
		l.failPair(low, high, "less than")
	}
}

func (l *loader) less(low, high string) {
	if l.usable(low, high) && l.number(low) >= l.number(high) {
		l.failPair(low, high, "not more than")
	}
}

// failPair reports two settings of the wrong order, as a problem of the one that the file sets.
func (l *loader) failPair(low, high, relation string) {
	reason := fmt.Sprintf("%s is %s %s", l.describe(high), relation, l.describe(low))
	l.fail(l.set(high, low), reason, fmt.Sprintf("raise %s or lower %s", high, low))
}

func (l *loader) describe(key string) string {
	return fmt.Sprintf("%s (%d, %s)", key, l.number(key), l.Source(key))
}

// set returns the first of keys that the file sets: where one of two settings can be changed, that is it.
func (l *loader) set(keys ...string) string {
	for _, key := range keys {
		if l.Has(key) {
			return key
		}
	}
	return keys[0]
}

// number is the value of a setting of any of the whole-number types.
func (l *loader) number(key string) int64 {
	return l.value(key, intKind, longKind, shortKind).number
}
