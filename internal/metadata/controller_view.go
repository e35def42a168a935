package metadata

import "github.com/google/uuid"

// TopicName returns the name of a topic, "" if there is none with the id.
func (i *Image) TopicName(id uuid.UUID) string {
	if t := i.topics.byID.rows[id]; t != nil {
		return t.name
	}
	return ""
}
