package format

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"kstorage/checkpoint"
	"kstorage/internal/disk"
	"kstorage/internal/scram"
	"kstorage/metaprops"
)

const (
	dirPerm        fs.FileMode = 0o777 // less the umask
	propertiesPerm fs.FileMode = 0o666
	checkpointPerm fs.FileMode = 0o400 // as Kafka freezes a snapshot

	bootstrapTemp = checkpoint.BootstrapName + ".tmp" // as Kafka calls it
)

// Apply formats the directories of the plan, once. Where it fails, nothing that was formatted has changed, and the
// same command with --ignore-formatted goes on. removed are the files of earlier runs that are gone, also then: each
// bootstrap.checkpoint, or for a server that reads those a zero checkpoint.
// Errors: *DirError, *Refusal of the rule ReplacedMeanwhile, those of Options.Random.
func (p *Plan) Apply() (removed []string, err error) {
	if p.applied {
		return nil, errors.New("the plan has been applied before")
	}
	p.applied = true
	if len(p.Format) == 0 {
		p.settle() // what cannot be synced now was synced by nobody: not our failure
		return nil, nil
	}
	credentials, err := p.derive()
	if err != nil {
		return nil, err
	}
	if err := p.settle(); err != nil {
		return nil, err
	}
	// The directories come first: a full or read-only disk stops the run here, and they can be locked.
	for _, d := range p.Format {
		if err := p.makeDir(d.Path); err != nil {
			return nil, &DirError{Dir: d.Path, Op: "create", Path: d.Path, Err: err}
		}
	}
	release, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := p.stillEmpty(); err != nil {
		return nil, err
	}
	if p.checkpointDir != "" {
		err = p.writeCheckpoint(credentials)
	} else if p.bootstrap {
		removed, err = p.removeCheckpoint()
	}
	if err != nil {
		return removed, err
	}
	replaced, err := p.writeProperties(credentials)
	return append(removed, replaced...), err
}

func (p *Plan) derive() ([]scram.Credential, error) {
	if len(p.Features) == 0 {
		return nil, nil // no bootstrap metadata is written
	}
	var out []scram.Credential
	for _, arg := range p.scram {
		c, err := arg.Derive(p.options.Random)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// settle makes durable what an earlier run has done.
//
//  1. That run gave the metadata directory's file its name, and was killed before it had synced it.
//  2. This run finds the node formatted, and makes another directory's file durable.
//  3. The power goes: without the sync here the node would be formatted but for its metadata directory.
func (p *Plan) settle() error {
	for _, dir := range p.Formatted {
		for _, folder := range []string{dir, disk.Parent(dir)} {
			// A folder that is closed to us was not made by an earlier run.
			if err := p.disk.SyncDir(folder); err != nil && !errors.Is(err, fs.ErrPermission) {
				return &DirError{Dir: dir, Op: "sync", Path: folder, Err: err}
			}
		}
	}
	return nil
}

// lock keeps out a running node, which holds a lock on a file in each of its directories, and another
// run of format. Directories that do not exist yet cannot be locked.
func (p *Plan) lock() (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	take := func(dir, path string, lock func(string) (func(), error)) error {
		r, err := lock(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return &DirError{Dir: dir, Op: "lock", Path: path, Err: err}
		}
		held = append(held, r)
		return nil
	}
	dirs := slices.Clone(p.Formatted)
	for _, d := range p.Format {
		dirs = append(dirs, d.Path)
	}
	for _, dir := range dirs {
		if err := errors.Join(take(dir, disk.Join(dir, lockFile), p.disk.Lock), take(dir, dir, p.disk.LockDir)); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// stillEmpty checks, now that nobody else can, that no other run has formatted a directory since the plan was made.
func (p *Plan) stillEmpty() error {
	for _, d := range p.Format {
		now := directory{Dir: metaprops.Load([]string{d.Path}, "", p.disk).Dirs[0]}
		if err := now.look(p.disk, d.Path == p.options.MetadataLogDir); err != nil {
			return err
		}
		if now.State != metaprops.Empty || now.live() {
			return &Refusal{Rule: ReplacedMeanwhile, Reason: d.Path + " has been formatted by somebody else meanwhile"}
		}
	}
	return nil
}

// makeDir creates path and its missing parents, each durable before the next. So of those that are there one at most
// is not durable yet, the deepest, which an earlier run may have made: it is synced too.
func (p *Plan) makeDir(path string) error {
	var missing []string
	dir := path
	for ; ; dir = disk.Parent(dir) {
		if _, err := p.disk.Stat(dir); err == nil || dir == "." || dir == "/" {
			break
		}
		missing = append(missing, dir)
	}
	if err := p.disk.SyncDir(disk.Parent(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		if err := p.disk.MkdirAll(dir, dirPerm); err != nil {
			return err
		}
		if err := p.disk.SyncDir(disk.Parent(dir)); err != nil {
			return err
		}
	}
	return nil
}

// writeCheckpoint writes the zero checkpoint. One of an earlier run that did not come to its end is replaced.
func (p *Plan) writeCheckpoint(credentials []scram.Credential) error {
	folder := disk.Join(p.checkpointDir, checkpoint.MetadataDir)
	if err := p.makeDir(folder); err != nil {
		return &DirError{Dir: p.checkpointDir, Op: "create", Path: folder, Err: err}
	}
	name := disk.Join(folder, zeroCheckpoint)
	fail := func(op string, err error) error {
		return &DirError{Dir: p.checkpointDir, Op: op, Path: name, Err: err}
	}
	temp := strings.TrimSuffix(name, checkpoint.Suffix) + "-format" + checkpoint.Suffix + ".part"
	err := disk.Temp(p.disk, temp, checkpointPerm, func(w io.Writer) error {
		return p.encodeCheckpoint(w, credentials)
	})
	if err != nil {
		return fail("write", err)
	}
	// As Kafka does, an empty folder of that name is replaced too.
	if info, err := p.disk.Stat(name); err == nil && info.IsDir() {
		if err := p.disk.Remove(name); err != nil {
			p.disk.Remove(temp)
			return fail("replace", err)
		}
	}
	if err := disk.Replace(p.disk, temp, name); err != nil {
		p.disk.Remove(temp)
		return fail("write", err)
	}
	return nil
}

// removeCheckpoint removes the zero checkpoint that a run for another server or other voters has left.
// Unlike Kafka: the node would begin with what that says.
func (p *Plan) removeCheckpoint() (removed []string, err error) {
	dir := p.options.MetadataLogDir
	if !slices.ContainsFunc(p.Format, func(d Directory) bool { return d.Path == dir }) {
		return nil, nil
	}
	folder := disk.Join(dir, checkpoint.MetadataDir)
	name := disk.Join(folder, zeroCheckpoint)
	if _, err := p.disk.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err := p.disk.Remove(name); err == nil {
		removed = []string{name}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, &DirError{Dir: dir, Op: "remove", Path: name, Err: err}
	}
	// Also where it is gone already: an earlier run may have been killed before it had synced that.
	if err := p.disk.SyncDir(folder); err != nil {
		return removed, &DirError{Dir: dir, Op: "sync", Path: folder, Err: err}
	}
	return removed, nil
}

// encodeCheckpoint writes what the zero checkpoint says.
func (p *Plan) encodeCheckpoint(w io.Writer, credentials []scram.Credential) error {
	now := p.options.Now().UnixMilli()
	h := checkpoint.Header{AppendTime: now, LastContainedLogTime: now, KRaftVersion: p.KRaftVersion, Voters: p.Voters}
	if p.bootstrap {
		return encode(w, h, nil)
	}
	return encode(w, h, p.bootstrapRecords(credentials))
}

// encodeBootstrap writes what a bootstrap.checkpoint says.
func (p *Plan) encodeBootstrap(w io.Writer, credentials []scram.Credential) error {
	return encode(w, checkpoint.Header{AppendTime: p.options.Now().UnixMilli()}, p.bootstrapRecords(credentials))
}

func (p *Plan) bootstrapRecords(credentials []scram.Credential) [][]byte {
	var records [][]byte
	for _, f := range p.Features {
		records = append(records, checkpoint.FeatureLevel(f.Name, f.Level))
	}
	if p.ClusterIDProposal != "" {
		records = append(records, checkpoint.ClusterID(p.ClusterIDProposal))
	}
	for _, c := range credentials {
		records = append(records, checkpoint.ScramCredential(c.Name, checkpoint.ScramMechanism(c.Mechanism), c.Salt(), c.StoredKey(), c.ServerKey(), c.Iterations))
	}
	return records
}

func encode(w io.Writer, h checkpoint.Header, records [][]byte) error {
	cw, err := checkpoint.NewWriter(w, h)
	if err != nil {
		return err
	}
	if err := cw.Append(records...); err != nil {
		return err
	}
	return cw.Close()
}

// writeProperties writes all meta.properties and each bootstrap.checkpoint under their temporary names, and then
// gives them their names, those in the metadata directory first.
//
//  1. Suppose a data directory came first and the machine stopped behind it.
//  2. The next run would find a node that is formatted, but without its metadata directory,
//  3. which is what a lost disk looks like: with --standalone it would have to refuse.
//
// A bootstrap.checkpoint goes right before: a directory that is formatted must not have two bootstraps (KIP-1170), and one
// that is not yet formatted when the run stops has lost nothing, for the next run has the same to write. A new one
// comes right before too: a directory that is formatted has its bootstrap.
func (p *Plan) writeProperties(credentials []scram.Credential) (removed []string, err error) {
	dirs := slices.Clone(p.Format)
	if i := slices.IndexFunc(dirs, func(d Directory) bool { return d.Path == p.options.MetadataLogDir }); i > 0 {
		metadata := dirs[i]
		dirs = slices.Insert(slices.Delete(dirs, i, i+1), 0, metadata)
	}
	var done []string
	fail := func(d Directory, op, name string, err error) ([]string, error) {
		for _, d := range dirs {
			p.disk.Remove(disk.Join(d.Path, metaprops.TempName))
			if d.WritesBootstrap {
				p.disk.Remove(disk.Join(d.Path, bootstrapTemp))
			}
		}
		return removed, &DirError{Dir: d.Path, Op: op, Path: disk.Join(d.Path, name), Err: err, Done: done}
	}
	date := p.options.Now()
	for _, d := range dirs {
		if d.WritesBootstrap {
			err := disk.Temp(p.disk, disk.Join(d.Path, bootstrapTemp), propertiesPerm, func(w io.Writer) error {
				return p.encodeBootstrap(w, credentials)
			})
			if err != nil {
				return fail(d, "write", bootstrapTemp, err)
			}
		}
		properties := metaprops.Properties{Version: metaprops.V1, NodeID: p.NodeID, ClusterID: p.ClusterID, DirectoryID: d.DirectoryID}
		if p.ClusterID == "" {
			properties.Version = metaprops.V2
		}
		err := disk.Temp(p.disk, disk.Join(d.Path, metaprops.TempName), propertiesPerm, func(w io.Writer) error {
			_, err := w.Write(properties.Encode(date))
			return err
		})
		if err != nil {
			return fail(d, "write", metaprops.TempName, err)
		}
	}
	for _, d := range dirs {
		if d.RemovesOldBootstrap {
			if err := p.disk.Remove(disk.Join(d.Path, checkpoint.BootstrapName)); err != nil {
				return fail(d, "remove", checkpoint.BootstrapName, err)
			}
			removed = append(removed, disk.Join(d.Path, checkpoint.BootstrapName))
		}
		if d.WritesBootstrap {
			if err := disk.Replace(p.disk, disk.Join(d.Path, bootstrapTemp), disk.Join(d.Path, checkpoint.BootstrapName)); err != nil {
				return fail(d, "write", checkpoint.BootstrapName, err)
			}
		}
		if err := disk.Replace(p.disk, disk.Join(d.Path, metaprops.TempName), disk.Join(d.Path, metaprops.FileName)); err != nil {
			return fail(d, "write", metaprops.FileName, err)
		}
		done = append(done, d.Path)
	}
	return removed, nil
}
