package controller

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/metadata"
	"kstorage/internal/record"
)

const invalidUpdateVersion int16 = 95

// Upgrade types of an UpdateFeaturesRequest (KIP-584, KIP-778).
const (
	upgrade         int8 = 1
	safeDowngrade   int8 = 2
	unsafeDowngrade int8 = 3
)

// FeatureUpdate is what an UpdateFeaturesRequest comes to. Response is what holds once all is done; with an error in
// it there is nothing to do.
type FeatureUpdate struct {
	Response *kmsg.UpdateFeaturesResponse
	// KRaftVersion is the level to which the consensus layer is to raise kraft.version before Records are appended, 0 for
	// none. What it says against it goes to FailKRaftVersion.
	KRaftVersion int16
	ValidateOnly bool
	Records      []record.Record
}

// Failed tells whether the request is refused.
func (u *FeatureUpdate) Failed() bool { return u.Response.ErrorCode != none }

// FailKRaftVersion refuses the request for what the consensus layer says.
func (u *FeatureUpdate) FailKRaftVersion(code int16, reason string) {
	text := fmt.Sprintf("Invalid upgrade of kraft.version to KRAFT_VERSION_%d because %s", u.KRaftVersion, reason)
	u.fail(&featureError{code: code, reason: text, whole: true})
}

func (u *FeatureUpdate) fail(err *featureError) {
	u.Records, u.KRaftVersion = nil, 0
	u.Response.ErrorCode = cmp.Or(err.code, invalidUpdateVersion)
	u.Response.ErrorMessage = message("The update failed for all features since the following feature had an error: %s", err.text())
	u.Response.Results = nil
}

// featureError is why a level is not to be.
type featureError struct {
	code   int16 // 0: INVALID_UPDATE_VERSION
	name   string
	level  int16
	reason string
	whole  bool // reason is the whole text
}

func (e *featureError) text() string {
	if e.whole {
		return e.reason
	}
	return fmt.Sprintf("Invalid update version %d for feature %s. %s", e.level, e.name, e.reason)
}

// UpdateFeatures decides about an UpdateFeaturesRequest: all updates or none. Texts are Kafka's, which its tools print.
//
// The step of metadata.version to one that has ClusterIdRecord brings the record too, in the same batch, so a
// controller that does not know the cluster's id refuses it (KIP-1262).
func (c *Controller) UpdateFeatures(q *kmsg.UpdateFeaturesRequest) FeatureUpdate {
	u := FeatureUpdate{Response: q.ResponseKind().(*kmsg.UpdateFeaturesResponse), ValidateOnly: q.ValidateOnly}
	// The last update of a feature counts. Unlike Kafka: features are looked at in the request's order, there in that
	// of a hash map.
	levels, kinds := map[string]int16{}, map[string]int8{}
	var names []string
	for _, f := range q.FeatureUpdates {
		if _, again := levels[f.Feature]; !again {
			names = append(names, f.Feature)
		}
		levels[f.Feature], kinds[f.Feature] = f.MaxVersionLevel, f.UpgradeType
		if q.Version == 0 { // AllowDowngrade, which version 0 has instead, is nothing to Kafka
			kinds[f.Feature] = upgrade
		}
		if q.Version < 2 {
			result := kmsg.NewUpdateFeaturesResponseResult()
			result.Feature, result.ErrorMessage = f.Feature, message("NONE")
			u.Response.Results = append(u.Response.Results, result)
		}
	}
	for _, name := range names {
		level := levels[name]
		if err := c.checkUpdate(name, level, kinds[name], levels); err != nil {
			u.fail(err)
			return u
		}
		switch {
		case name != features.KRaftVersionName:
			u.Records = append(u.Records, c.featureRecords(name, level)...)
		case kinds[name] == upgrade:
			if level > c.kraftVersion {
				u.KRaftVersion = level
			}
			u.Records = append(u.Records, record.New(record.NoOp, 0))
		}
	}
	if q.ValidateOnly {
		u.Records = nil
	}
	return u
}

// checkUpdate returns why a feature may not be set to a level, nil if it may. The order of the checks is Kafka's.
func (c *Controller) checkUpdate(name string, level int16, kind int8, proposed map[string]int16) *featureError {
	refuse := func(format string, args ...any) *featureError {
		return &featureError{name: name, level: level, reason: fmt.Sprintf(format, args...)}
	}
	current := c.image.FeatureLevel(name)
	if name == features.KRaftVersionName {
		current = c.kraftVersion
	}
	if kind != upgrade && kind != safeDowngrade && kind != unsafeDowngrade {
		return refuse("The controller does not support the given upgrade type.")
	}
	if level < 0 {
		return refuse("A feature version cannot be less than 0.")
	}
	if reason := c.unsupported(name, level); reason != "" {
		return refuse("%s", reason)
	}
	switch {
	case level < current && kind == upgrade:
		return refuse("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && kind != upgrade:
		return refuse("Can't downgrade to a newer version.")
	case name == features.KRaftVersionName && level < current:
		return refuse("Can't downgrade the version of this feature.")
	case name == features.KRaftVersionName:
		return nil
	case name == features.MetadataVersionName:
		return c.checkMetadataVersion(features.MetadataVersion(level), features.MetadataVersion(current), kind)
	}
	if _, ok := features.Lookup(name); !ok {
		return refuse("Feature %s not found.", name)
	}
	required, err := features.Requirements(features.Level{Name: name, Level: level})
	if err != nil {
		return refuse("%v", err)
	}
	for _, r := range required {
		have, ok := proposed[r.Name]
		if !ok {
			have = c.image.FeatureLevel(r.Name)
		}
		if have < r.Level {
			return refuse("%s could not be set to %d because it depends on %s level %d", name, level, r.Name, r.Level)
		}
	}
	return nil
}

func (c *Controller) checkMetadataVersion(level, current features.MetadataVersion, kind int8) *featureError {
	refuse := func(format string, args ...any) *featureError {
		return &featureError{name: features.MetadataVersionName, level: int16(level), reason: fmt.Sprintf(format, args...)}
	}
	if level < current {
		for v := level + 1; v <= current; v++ {
			if !v.DidMetadataChange() {
				continue
			}
			reason := "Refusing to perform the requested downgrade because it might delete metadata information."
			if kind == unsafeDowngrade {
				reason = "Unsafe metadata downgrade is not supported in this version."
			}
			err := refuse("Unsupported metadata.version downgrade from %d to %d. %s", current, level, reason)
			err.whole = true
			return err
		}
	}
	if level.SupportsClusterID() && !current.SupportsClusterID() {
		if c.ClusterID() == "" {
			return refuse("This controller does not know the id of the cluster, which has to be committed with it.")
		}
		// Unlike Kafka, for every voter: one that exits at the record takes its vote along.
		for _, id := range c.voters {
			if id != c.cfg.NodeID && c.image.Controller(id) == nil {
				return refuse("controller %d has not registered, and may not support this feature", id)
			}
		}
	}
	return nil
}

// unsupported says which node can't have the level: this one, a broker that is registered, or another controller. A
// feature that a node doesn't name is one that it supports at level 0 alone.
func (c *Controller) unsupported(name string, level int16) string {
	reason := func(who string, id int32, ranges []metadata.FeatureRange) string {
		var r metadata.FeatureRange
		if i := slices.IndexFunc(ranges, func(r metadata.FeatureRange) bool { return r.Name == name }); i >= 0 {
			r = ranges[i]
		}
		switch {
		case level >= r.Min && level <= r.Max:
			return ""
		case r.Min == 0 && r.Max == 0:
			return fmt.Sprintf("%s %d does not support this feature.", who, id)
		case r.Min == r.Max:
			return fmt.Sprintf("%s %d only supports versions %d", who, id, r.Min)
		}
		return fmt.Sprintf("%s %d only supports versions %d-%d", who, id, r.Min, r.Max)
	}
	if why := reason("Local controller", c.cfg.NodeID, c.cfg.Supported); why != "" {
		return why
	}
	// Unlike Kafka, where the levels that are not in production end the range, a range here has them in its middle.
	if v := features.MetadataVersion(level); name == features.MetadataVersionName && !v.Production() && !c.cfg.Unstable {
		return fmt.Sprintf("Local controller %d only supports version %d with unstable.feature.versions.enable=true", c.cfg.NodeID, level)
	}
	for _, b := range c.image.Brokers() {
		if why := reason("Broker", b.ID, b.Features); why != "" {
			return why
		}
	}
	if version, _ := c.image.MetadataVersion(); version < controllerRegistration {
		return ""
	}
	for _, other := range c.image.Controllers() {
		if other.ID == c.cfg.NodeID {
			continue
		}
		if why := reason("Controller", other.ID, other.Features); why != "" {
			return why
		}
	}
	for _, id := range c.cfg.StaticVoters {
		if id != c.cfg.NodeID && c.image.Controller(id) == nil {
			return fmt.Sprintf("controller %d has not registered, and may not support this feature", id)
		}
	}
	return ""
}

// featureRecords are the records that set a level, and what else changes with it.
func (c *Controller) featureRecords(name string, level int16) []record.Record {
	r := record.New(record.FeatureLevel, 0)
	r.SetText("Name", name)
	r.SetInt("FeatureLevel", int64(level))
	records := []record.Record{r}
	current, _ := c.image.MetadataVersion()
	switch {
	case name == features.MetadataVersionName && features.MetadataVersion(level).SupportsClusterID() && !current.SupportsClusterID():
		id := record.New(record.ClusterID, 0)
		id.SetText("ClusterId", c.ClusterID())
		records = append(records, id)
	case name == elrVersion && level > c.image.FeatureLevel(name):
		records = append(c.settleMinInSyncReplicas(), records...)
	}
	return records
}

// settleMinInSyncReplicas makes min.insync.replicas one value for all brokers, which eligible leader replicas need
// (KIP-966).
func (c *Controller) settleMinInSyncReplicas() []record.Record {
	var records []record.Record
	set := func(resource string, value *string) {
		r := record.New(record.Config, 0)
		r.SetInt("ResourceType", int64(metadata.BrokerConfig))
		r.SetText("ResourceName", resource)
		r.SetText("Name", minInSyncReplicas)
		if value == nil {
			r.SetNull("Value")
		} else {
			r.SetText("Value", *value)
		}
		records = append(records, r)
	}
	if _, ok := c.image.Config(metadata.BrokerConfig, "", minInSyncReplicas); !ok {
		set("", &c.cfg.MinInSyncReplicas)
	}
	for _, broker := range c.image.Configured(metadata.BrokerConfig, minInSyncReplicas) { // also of brokers that are gone
		if broker != "" {
			set(broker, nil)
		}
	}
	return records
}
