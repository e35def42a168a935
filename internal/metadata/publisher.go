package metadata

// ClusterIDPublisher decides when the node learns the cluster's id: from the first published image that has one.
// KIP-1262.
type ClusterIDPublisher struct {
	stored  string
	persist func(id string) error
}

// NewClusterIDPublisher returns the publisher of a node whose meta.properties have the id stored, "" for none. persist
// writes an id into them.
func NewClusterIDPublisher(stored string, persist func(id string) error) *ClusterIDPublisher {
	return &ClusterIDPublisher{stored, persist}
}

// Publish looks at a published image. The first time that it has an id and the node none, it calls persist. Errors:
// *ClusterIDError, that of persist; the node must stop then, and its files stay.
func (p *ClusterIDPublisher) Publish(i *Image) error {
	switch id := i.ClusterID(); {
	case id == "" || id == p.stored:
		return nil
	case p.stored != "":
		return &ClusterIDError{Stored: p.stored, Committed: id, Offset: i.Offset}
	default:
		if err := p.persist(id); err != nil {
			return err
		}
		p.stored = id
		return nil
	}
}
