package node

import (
	"errors"
	"fmt"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// unknown says what to do about metadata that this release does not know: a level of metadata.version, or a record. log
// is the folder of the metadata log, at the level that was reached before. Other errors stay as they are.
func unknown(err error, log string, at features.MetadataVersion) error {
	replay, ok := errors.AsType[*metadata.ReplayError](err)
	if !ok {
		return err
	}
	newest := features.LatestProduction
	levels := fmt.Sprintf("%d (%v) to %d (%v)", features.Minimum, features.Minimum, newest, newest)
	out := &Error{
		Where: fmt.Sprintf("offset %d of the metadata log %s", replay.Offset, log),
		Fix:   fmt.Sprintf("start this node with the release that the other nodes of its cluster run, which is newer than %s", newest.Release()),
		Err:   err,
	}
	if replay.File != "" {
		out.Where = fmt.Sprintf("record %d of the snapshot %s", replay.Offset, replay.File)
	}
	level, isLevel := errors.AsType[*features.UnknownLevelError](err)
	corrupt, isRecord := errors.AsType[*record.CorruptError](err)
	switch {
	case isLevel && level.Level.Level < int16(features.Minimum):
		out.What = fmt.Sprintf("the cluster is at metadata.version %d, which is older than the levels that this release knows, %s", level.Level.Level, levels)
		out.Fix = fmt.Sprintf("raise metadata.version to %d (%v) with the release that the cluster runs, then start this one", features.Minimum, features.Minimum)
	case isLevel:
		out.What = fmt.Sprintf("the cluster is at metadata.version %d, which a release after %s has; this one knows %s", level.Level.Level, newest.Release(), levels)
	case isRecord && corrupt.Unknown:
		out.What = fmt.Sprintf("the cluster, at metadata.version %d (%v), has a record that a release after %s may know: %s", at, at, newest.Release(), corrupt.Reason)
	default:
		return err
	}
	return out
}
