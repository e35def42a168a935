package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/controller"
	"kstorage/internal/disk"
	"kstorage/internal/record"
)

// readBootstrap reads the zero checkpoint and bootstrap.checkpoint in the metadata directory; nil stands for a file that is not there.
// Which of them counts is the controller's to say (KIP-1170). A damaged file is an *Error on every node: nobody starts with
// fewer features or users than were formatted.
func (st *storage) readBootstrap() (zero, old *controller.BootstrapFile, err error) {
	zero, zeroErr := st.readBootstrapFile(disk.Join(st.LogFolder(), checkpoint.ID{}.String()))
	old, oldErr := st.readBootstrapFile(disk.Join(st.s.MetadataDir, checkpoint.BootstrapName))
	if err := errors.Join(zeroErr, oldErr); err != nil {
		return nil, nil, err
	}
	if zero != nil && len(zero.Records) > 0 && old != nil {
		st.log.Warn("Two files have bootstrap metadata; the zero checkpoint counts", "zero checkpoint", zero.Name, "ignored", old.Name)
	}
	return zero, old, nil
}

func (st *storage) readBootstrapFile(path string) (*controller.BootstrapFile, error) {
	f, err := st.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, st.fail(st.metadata(), "open", path, err)
	}
	defer f.Close()
	damaged := func(err error) error {
		if corrupt, ok := errors.AsType[*checkpoint.CorruptError](err); ok {
			return &Error{What: "a file is damaged: " + corrupt.Reason, Where: fmt.Sprintf("%s, byte %d", path, corrupt.Offset), Err: err,
				Fix: "restore it from a copy, or if this node has never run empty its directories and format them again"}
		}
		return st.fail(st.metadata(), "read", path, err)
	}
	in, err := checkpoint.NewReader(f, path)
	if err != nil {
		return nil, damaged(err)
	}
	out := &controller.BootstrapFile{Name: path}
	hasVersion := false
	for raw, err := range in.Records() {
		if err != nil {
			return nil, damaged(err)
		}
		r, err := record.Decode(bytes.Clone(raw.Value))
		if err != nil {
			return nil, damaged(err) // not after Records has decoded it
		}
		hasVersion = hasVersion || r.Message == record.FeatureLevel && r.Text("Name") == features.MetadataVersionName
		out.Records = append(out.Records, r)
	}
	// A zero checkpoint of before 4.4 has none at all.
	isZero := path != disk.Join(st.s.MetadataDir, checkpoint.BootstrapName)
	if !hasVersion && !(isZero && len(out.Records) == 0) {
		return nil, &Error{What: "the bootstrap metadata has no metadata.version", Where: path, Fix: "restore the file from a copy, or if this node has never run empty its directories and format them again"}
	}
	return out, nil
}
