package format

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
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
)

// Apply formats the directories of the plan. Where it fails, what was there before is still there, and the
// same command with --ignore-formatted goes on. Errors: *DirError, those of Options.Random and of a lock that another
// process holds.
func (p *Plan) Apply() error {
	if len(p.Format) == 0 {
		return nil
	}
	credentials, err := p.derive()
	if err != nil {
		return err
	}
	release, err := p.lock()
	if err != nil {
		return err
	}
	defer release()
	// Before anything else so that a full or read-only disk stops the run while nothing has happened.
	for _, d := range p.Format {
		if err := p.makeDir(d.Path); err != nil {
			return &DirError{Dir: d.Path, Op: "create", Path: d.Path, Err: err}
		}
	}
	if p.checkpointDir != "" {
		if err := p.writeCheckpoint(credentials); err != nil {
			return err
		}
	}
	return p.writeProperties()
}

func (p *Plan) derive() ([]scram.Credential, error) {
	if p.checkpointDir == "" {
		return nil, nil
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

// lock takes the locks that a running node holds, in every directory of the node.
func (p *Plan) lock() (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	dirs := slices.Clone(p.Formatted)
	for _, d := range p.Format {
		dirs = append(dirs, d.Path)
	}
	for _, dir := range dirs {
		r, err := p.disk.Lock(child(dir, lockFile))
		if err != nil {
			release()
			return nil, &DirError{Dir: dir, Op: "lock", Path: dir, Err: err, Help: "stop the node that runs on this directory before you format"}
		}
		held = append(held, r)
	}
	return release, nil
}

// makeDir creates path and its missing parents, durably: each new name is synced in the folder that holds it.
func (p *Plan) makeDir(path string) error {
	var missing []string
	for dir := path; ; dir = filepath.Dir(dir) {
		if _, err := p.disk.Stat(dir); err == nil {
			break
		}
		missing = append(missing, dir)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := p.disk.MkdirAll(path, dirPerm); err != nil {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		if err := p.disk.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// writeCheckpoint writes the zero checkpoint. One of an earlier run that did not come to its end is replaced.
func (p *Plan) writeCheckpoint(credentials []scram.Credential) error {
	folder := child(p.checkpointDir, checkpoint.MetadataDir)
	if err := p.makeDir(folder); err != nil {
		return &DirError{Dir: p.checkpointDir, Op: "create", Path: folder, Err: err}
	}
	name := child(folder, zeroCheckpoint)
	temp := strings.TrimSuffix(name, checkpoint.Suffix) + "-format" + checkpoint.Suffix + ".part"
	err := disk.Temp(p.disk, temp, checkpointPerm, func(w io.Writer) error {
		return p.encodeCheckpoint(w, credentials)
	})
	if err != nil {
		return &DirError{Dir: p.checkpointDir, Op: "write", Path: name, Err: err}
	}
	// As Kafka does, an empty folder of that name is replaced too.
	if info, err := p.disk.Stat(name); err == nil && info.IsDir() {
		if err := p.disk.Remove(name); err != nil {
			p.disk.Remove(temp)
			return &DirError{Dir: p.checkpointDir, Op: "replace", Path: name, Err: err}
		}
	}
	if err := disk.Replace(p.disk, temp, name); err != nil {
		p.disk.Remove(temp)
		return &DirError{Dir: p.checkpointDir, Op: "write", Path: name, Err: err}
	}
	return nil
}

func (p *Plan) encodeCheckpoint(w io.Writer, credentials []scram.Credential) error {
	now := p.options.Now().UnixMilli()
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
	cw, err := checkpoint.NewWriter(w, checkpoint.Header{
		AppendTime: now, LastContainedLogTime: now, KRaftVersion: p.KRaftVersion, Voters: p.Voters,
	})
	if err != nil {
		return err
	}
	if err := cw.Append(records...); err != nil {
		return err
	}
	return cw.Close()
}

// writeProperties writes all meta.properties under their temporary names, removes the
// bootstrap.checkpoint files that they supersede, and then gives them their names, that of the
// metadata directory first.
//
//  1. Suppose a data directory came first and the machine stopped behind it.
//  2. The next run would find a node that is formatted, but without its metadata directory,
//  3. which is what a lost disk looks like: with --standalone it would have to refuse.
func (p *Plan) writeProperties() error {
	dirs := slices.Clone(p.Format)
	slices.SortStableFunc(dirs, func(a, b Directory) int {
		return boolRank(a.Path != p.options.MetadataLogDir) - boolRank(b.Path != p.options.MetadataLogDir)
	})
	undo := func() {
		for _, d := range dirs {
			p.disk.Remove(child(d.Path, metaprops.TempName))
		}
	}
	date := p.options.Now()
	for _, d := range dirs {
		properties := metaprops.Properties{Version: metaprops.V1, NodeID: p.NodeID, ClusterID: p.ClusterID, DirectoryID: d.DirectoryID}
		if p.ClusterID == "" {
			properties.Version = metaprops.V2
		}
		temp := child(d.Path, metaprops.TempName)
		err := disk.Temp(p.disk, temp, propertiesPerm, func(w io.Writer) error {
			_, err := w.Write(properties.Encode(date))
			return err
		})
		if err != nil {
			undo()
			return &DirError{Dir: d.Path, Op: "write", Path: temp, Err: err}
		}
	}
	for _, d := range dirs {
		if !d.RemovesOldBootstrap {
			continue
		}
		if err := p.disk.Remove(child(d.Path, checkpoint.BootstrapName)); err != nil {
			undo()
			return &DirError{Dir: d.Path, Op: "remove", Path: child(d.Path, checkpoint.BootstrapName), Err: err}
		}
	}
	for i, d := range dirs {
		name := child(d.Path, metaprops.FileName)
		if err := disk.Replace(p.disk, child(d.Path, metaprops.TempName), name); err != nil {
			undo()
			return &DirError{Dir: d.Path, Op: "write", Path: name, Err: err, Help: done(dirs[:i])}
		}
	}
	return nil
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// done says what a run that stopped midway has formatted.
func done(dirs []Directory) string {
	if len(dirs) == 0 {
		return ""
	}
	var paths []string
	for _, d := range dirs {
		paths = append(paths, d.Path)
	}
	return fmt.Sprintf("formatted before it failed: %s; run the same command with --ignore-formatted for the others", strings.Join(paths, ", "))
}
