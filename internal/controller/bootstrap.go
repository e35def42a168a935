package controller

import (
	"errors"
	"fmt"

	"kstorage/features"
	"kstorage/internal/kafkaid"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

// maxAppendRecords is how many records Kafka puts into one append.
const maxAppendRecords = 10_000

// Bootstrap is the first records of a log.
type Bootstrap struct {
	Source            string          // where they come from
	Records           []record.Record // FeatureLevelRecord of metadata.version among them; no ClusterIdRecord
	ClusterIDProposal string          // of their ClusterIdRecord; "" for none
}

// BootstrapFile is a zero checkpoint or a bootstrap.checkpoint.
type BootstrapFile struct {
	Name    string
	Records []record.Record // metadata records; they are kept
}

// BootstrapError says that a file can not begin a log.
type BootstrapError struct {
	File   string
	Reason string
}

func (e *BootstrapError) Error() string { return fmt.Sprintf("%s: %s", e.File, e.Reason) }

// ChooseBootstrap returns the records that begin a log (KIP-1170): those of the zero checkpoint if it has any, else
// those of bootstrap.checkpoint, else the default level of metadata.version, which depends on whether the node has a
// cluster id (KIP-1262). Each file may be nil. Error: *BootstrapError for a file that counts but says no level.
func ChooseBootstrap(zero, old *BootstrapFile, hasClusterID bool) (Bootstrap, error) {
	file := zero
	if file == nil || len(file.Records) == 0 {
		file = old
	}
	if file == nil {
		r := record.New(record.FeatureLevel, 0)
		r.SetText("Name", features.MetadataVersionName)
		r.SetInt("FeatureLevel", int64(features.DefaultVersion(hasClusterID, false)))
		return Bootstrap{Source: "the default bootstrap", Records: []record.Record{r}}, nil
	}
	b := Bootstrap{Source: file.Name}
	for _, r := range file.Records {
		if r.Message == record.ClusterID {
			b.ClusterIDProposal = r.Text("ClusterId")
			continue
		}
		b.Records = append(b.Records, r)
	}
	if level, ok := b.level(features.MetadataVersionName); !ok || !features.MetadataVersion(level).Known() {
		reason := "no record of metadata.version"
		if ok {
			reason = fmt.Sprintf("metadata.version %d is unknown", level)
		}
		return Bootstrap{}, &BootstrapError{File: file.Name, Reason: reason}
	}
	return b, nil
}

// level returns the level that the records give a feature.
func (b *Bootstrap) level(name string) (level int16, ok bool) {
	for _, r := range b.Records {
		if r.Message == record.FeatureLevel && r.Text("Name") == name {
			level, ok = int16(r.Int("FeatureLevel")), true
		}
	}
	return level, ok
}

// Activate returns what a new active controller appends before all else, each element in one atomic append: the abort
// of a transaction that another leader left open, and the records of b if the log has no metadata.version yet. Those
// are one transaction if their level has transactions.
//
// If it has a ClusterIdRecord, one stands behind the last FeatureLevelRecord: the node's own id, else the proposal of
// b, else a random one. Nowhere else is an id drawn. Error: that of the source of chance.
func (c *Controller) Activate(b Bootstrap) ([][]record.Record, error) {
	var appends [][]record.Record
	if c.aborts {
		r := record.New(record.AbortTransaction, 0)
		r.SetText("Reason", "Controller failover")
		appends = append(appends, []record.Record{r})
	}
	if _, ok := c.image.MetadataVersion(); ok {
		return appends, nil
	}
	n, ok := b.level(features.MetadataVersionName)
	if !ok {
		return nil, errors.New("bootstrap records without metadata.version")
	}
	level := features.MetadataVersion(n)
	records, err := c.withClusterID(b, level)
	if err != nil {
		return nil, err
	}
	if elr, _ := b.level(elrVersion); elr > 0 {
		r := record.New(record.Config, 0)
		r.SetInt("ResourceType", int64(metadata.BrokerConfig))
		r.SetText("Name", minInSyncReplicas)
		r.SetText("Value", c.cfg.MinInSyncReplicas)
		records = append(records, r)
	}
	if level < transactions {
		return append(appends, records), nil
	}
	begin := record.New(record.BeginTransaction, 0)
	begin.SetText("Name", "Bootstrap records")
	records = append([]record.Record{begin}, records...)
	records = append(records, record.New(record.EndTransaction, 0))
	for len(records) > maxAppendRecords {
		appends = append(appends, records[:maxAppendRecords])
		records = records[maxAppendRecords:]
	}
	return append(appends, records), nil
}

// withClusterID returns the records of b with a ClusterIdRecord, if the level has one.
func (c *Controller) withClusterID(b Bootstrap, level features.MetadataVersion) ([]record.Record, error) {
	if !level.SupportsClusterID() {
		return b.Records, nil
	}
	id := c.cfg.ClusterID
	if id == "" {
		id = b.ClusterIDProposal
	}
	if id == "" {
		random, err := kafkaid.New(c.cfg.Random)
		if err != nil {
			return nil, fmt.Errorf("draw a cluster id: %w", err)
		}
		id = kafkaid.String(random)
	}
	r := record.New(record.ClusterID, 0)
	r.SetText("ClusterId", id)
	last := 0
	for i, other := range b.Records {
		if other.Message == record.FeatureLevel {
			last = i + 1
		}
	}
	records := append([]record.Record{}, b.Records[:last]...)
	records = append(records, r)
	return append(records, b.Records[last:]...), nil
}
