package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/raft"
	"kstorage/internal/raftlog"
)

// machine is a computer of the cluster with its disk. A process runs on it, or none.
type machine struct {
	w          *world
	index      int
	id         raft.NodeID // index + 1
	controller bool
	voter      bool // from the beginning
	autoJoin   bool
	old        bool // it has Kafka's faults and, in the eyes of the others, no pre-votes under kraft.version 0
	endpoint   raft.Endpoint
	clusterID  string // in meta.properties; "": not known yet
	disk       *crashdisk.Disk
	directory  *directory
	process    *process
	powerOff   bool   // while no process runs: packets vanish, else connections are refused
	hangs      micros // so long the next fsync takes
	clock      micros // is ahead of the world's by so much; counts since the process' start
	wallAhead  micros
}

const logDir = "/data/" + checkpoint.MetadataDir

// format gives the machine a new empty disk, as `kstorage format` does it.
func (m *machine) format(voters []raft.Voter) {
	m.disk = crashdisk.New()
	must(m.disk.MkdirAll(logDir, 0o755))
	if m.controller {
		zero := raft.Snapshot{Voters: voters}
		if !m.w.static {
			zero.KRaftVersion = 1
		}
		name := filepath.Join(logDir, checkpoint.ID{}.String())
		must(disk.Temp(m.disk, name+".tmp", 0o400, func(w io.Writer) error {
			return image{level: m.w.level}.write(w, header(zero, m.wallMillis()))
		}))
		must(disk.Replace(m.disk, name+".tmp", name))
	}
	must(m.disk.SyncDir("/data"))
	must(m.disk.SyncDir("/"))
}

// replaceDisk puts a new disk in.
func (m *machine) replaceDisk() {
	m.directory.dead = true
	m.newDirectory(m.w.newID())
	m.format(nil)
}

// newDirectory begins the log anew in what the checker knows.
func (m *machine) newDirectory(id uuid.UUID) {
	m.directory = &directory{key: raft.ReplicaKey{NodeID: m.id, DirectoryID: id}, machine: m, quorum: raft.NoQuorumState()}
	m.w.check.directories[id] = m.directory
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// voterEntry is what a voter set says of the machine.
func (m *machine) voterEntry() raft.Voter {
	return raft.Voter{Key: m.directory.key, Endpoints: []raft.Endpoint{m.endpoint}, MaxKRaftVersion: 1}
}

func (m *machine) config() raft.Config {
	w := m.w
	c := raft.DefaultConfig()
	c.NodeID, c.DirectoryID, c.ClusterID = m.id, m.directory.key.DirectoryID, m.clusterID
	c.CanBeVoter, c.AutoJoin = m.controller, m.autoJoin
	c.DefaultListener = m.endpoint.Listener
	if m.controller {
		c.Listeners = []raft.Endpoint{m.endpoint}
	}
	if w.static {
		c.StaticVoters = w.initialVoters
	}
	c.BootstrapServers = w.bootstrapServers
	c.FetchMaxBytes, c.SnapshotMaxBytes = w.fetchMaxBytes, w.snapshotMaxBytes
	c.RetentionBytes = w.retentionBytes
	if w.quick {
		c.FetchTimeoutMillis, c.RequestTimeoutMillis = 800, 800 // a Fetch waits 500 at the leader
		c.ElectionTimeoutMillis, c.ElectionBackoffMaxMillis = 100, 100
	}
	c.Random = rand.New(rand.NewPCG(w.random.Uint64(), 0))
	return c
}

// start starts a process. Where the disk fails it tries again a little later.
func (m *machine) start() {
	w := m.w
	if m.process != nil {
		return
	}
	m.powerOff = false
	m.disk.FailAt(0, nil)
	if w.faulty(w.scenario.startFaults) {
		m.disk.FailAt(m.disk.Steps()+1+w.intN(10), syscall.EIO)
	}
	var log *raftlog.Log
	var recovered raft.Recovered
	var err error
	if m.clusterID == "" && !m.voter {
		// docs/design.md 5: what is there may be of another cluster.
		err = m.dropLog()
	}
	if d := m.directory; w.faulty(w.scenario.deleteState) && d.unsure == nil && d.durableEpoch() >= d.quorum.Epoch {
		// Operators do that. It is safe as long as the log knows the epoch: a vote in it is of no use to anybody any more.
		if m.disk.Remove(filepath.Join(logDir, "quorum-state")) == nil {
			d.noQuorum = true
		}
	}
	if err == nil {
		log, recovered, err = raftlog.Open(m.disk, logDir, w.logConfig)
	}
	if err != nil {
		if !errors.Is(err, syscall.EIO) && !errors.Is(err, crashdisk.ErrCrashed) {
			w.fail("%v cannot open its log: %v", m.directory, err)
		}
		m.crash(w.intN(2) == 0)
		w.after(w.micros(second), m.start)
		return
	}
	batches, err := readLog(log, recovered)
	if err != nil {
		w.fail("%v cannot read its log: %v", m.directory, err)
	}
	w.check.recovered(m.directory, recovered, batches)
	if t := w.tamper.recovered; t != nil {
		t(m, &recovered)
	}
	m.clock = w.micros(1000*second) - w.now
	p := &process{
		machine:       m,
		w:             w,
		directory:     m.directory,
		serving:       map[raft.RequestID]*call{},
		highWatermark: raft.Unknown,
		alarmAt:       -1,
	}
	p.driver = driver{core: raft.New(m.config(), recovered), log: log, host: p}
	p.app.p = p
	m.process = p
	w.did.restarts++
	w.logf("%s starts: %v", p, m.directory)
	p.driver.input(raft.Tick{})
	p.every(w.scenario.cleanEvery, func() {
		p.driver.input(raft.Clean{WallMillis: p.wallMillis(), LogSizeBytes: p.driver.log.SizeBytes()})
	})
}

// readLog reads the whole log back.
func readLog(log *raftlog.Log, r raft.Recovered) ([]raft.Batch, error) {
	var batches []raft.Batch
	for at := r.LogStart; at < r.LogEnd; {
		data, err := log.Read(raft.LogRange{From: at, End: r.LogEnd, MaxBytes: 1 << 20})
		if err != nil {
			return nil, err
		}
		part, err := raft.DecodeBatches(data)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 || part[0].BaseOffset > at {
			return nil, fmt.Errorf("nothing at offset %d of a log from %d to %d", at, r.LogStart, r.LogEnd)
		}
		batches = append(batches, part...)
		at = part[len(part)-1].LastOffset + 1
	}
	return batches, nil
}

// dropLog removes all but the zero checkpoint.
func (m *machine) dropLog() error {
	m.newDirectory(m.directory.key.DirectoryID)
	entries, err := m.disk.ReadDir(logDir)
	for _, e := range entries {
		if e.Name() != (checkpoint.ID{}).String() {
			err = errors.Join(err, m.disk.Remove(filepath.Join(logDir, e.Name())))
		}
	}
	return errors.Join(err, m.disk.SyncDir(logDir))
}

// crash ends the process, and loses what is not synced if the power fails. Either way what the disk could not do is undone.
func (m *machine) crash(power bool) {
	if power {
		m.disk = m.disk.Restart(m.w.random.Uint64())
	} else {
		m.disk = m.disk.Kill()
	}
	p := m.process
	m.process = nil
	if p == nil {
		return
	}
	m.w.logf("%s ends, power lost: %t", p, power)
	p.dead = true
	if m.powerOff = power && m.w.intN(2) == 0; !m.powerOff {
		m.w.network.gone(p)
	}
}

func (m *machine) wallMillis() int64 {
	return 1_700_000_000_000 + int64((m.w.now+m.wallAhead)/millisecond)
}

func (m *machine) String() string { return fmt.Sprintf("node %d", m.id) }
