package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// TestUnknownMetadata: who starts an older release learns which one the cluster needs.
func TestUnknownMetadata(t *testing.T) {
	for _, test := range []struct {
		reason string
		values [][]byte
		what   string
		fix    string
	}{
		{"a level to come", [][]byte{valueOf(t, finalized(features.MetadataVersionName, 36))},
			"the cluster is at metadata.version 36, which a release after 4.5 has; this one knows 7 (3.3-IV3) to 35 (4.5-IV1)",
			"start this node with the release that the other nodes of its cluster run, which is newer than 4.5"},
		{"a level of before", [][]byte{valueOf(t, finalized(features.MetadataVersionName, 5))},
			"the cluster is at metadata.version 5, which is older than the levels that this release knows, 7 (3.3-IV3) to 35 (4.5-IV1)",
			"raise metadata.version to 7 (3.3-IV3) with the release that the cluster runs, then start this one"},
		{"a record to come", [][]byte{valueOf(t, finalized(features.MetadataVersionName, 34)), {1, 31, 0, 0}},
			"the cluster, at metadata.version 34 (4.5-IV0), has a record that a release after 4.5 may know: unknown apiKey 31: ",
			"start this node with the release that the other nodes of its cluster run, which is newer than 4.5"},
		{"damage", [][]byte{{1, 12, 0, 9}}, "", ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			l := metadata.NewLoader(metadata.SnapshotPolicy{}, 0)
			var reason error
			for i, v := range test.values {
				if reason == nil {
					reason = l.Replay(record.AppendBatch(nil, record.BatchHeader{BaseOffset: int64(i)}, record.Entry{Value: v}))
				}
			}
			at, _ := l.Image().MetadataVersion()
			err := unknown(reason, "/m/__cluster_metadata-0", at)
			if !errors.Is(err, reason) {
				t.Errorf("the cause is lost: %v", err)
			}
			e, ok := errors.AsType[*Error](err)
			switch {
			case test.what == "" && ok, test.what != "" && !ok:
				t.Errorf("%v", err)
			case ok && (!strings.HasPrefix(e.What, test.what) || e.Fix != test.fix || !strings.Contains(e.Where, "of the metadata log /m/__cluster_metadata-0")):
				t.Errorf("%+v", e)
			}
		})
	}
}

func valueOf(t *testing.T, r record.Record) []byte {
	t.Helper()
	value, err := r.AppendValue(nil)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestRunMeetsUnknownLevel: a node whose log was written by a newer release stops.
func TestRunMeetsUnknownLevel(t *testing.T) {
	dir := t.TempDir()
	options := aloneIn(t, dir)
	logFolder := filepath.Join(dir, "d", "__cluster_metadata-0")
	if err := os.MkdirAll(logFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	batch := record.AppendBatch(nil, record.BatchHeader{LeaderEpoch: 1}, record.Entry{Value: valueOf(t, finalized(features.MetadataVersionName, 36))})
	if err := os.WriteFile(filepath.Join(logFolder, "00000000000000000000.log"), batch, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), options)
	e, ok := errors.AsType[*Error](err)
	if !ok || !strings.HasPrefix(e.What, "the cluster is at metadata.version 36, ") || e.Where != "offset 0 of the metadata log "+logFolder {
		t.Errorf("%#v", err)
	}
}
