package client

import (
	"fmt"
	"math"

	"github.com/google/uuid"

	"kstorage/internal/config"
	"kstorage/internal/disk"
	"kstorage/metaprops"
)

// Controller is a controller as its own configuration and metadata directory have it.
type Controller struct {
	NodeID      int32
	DirectoryID uuid.UUID
	ClusterID   string // "": it has not learned it yet (KIP-1262)
	Endpoints   []Endpoint
}

// ReadController reads what AddController needs to know of a controller on this machine. localHostName is what it
// advertises where its configuration names no host.
//
// Unlike Kafka's tool, which looks up five keys, the file has to be one that the server starts with, node.id has to be
// that of meta.properties, and a listener without a host is not localhost but what the server advertises.
func ReadController(conf *config.Config, localHostName func() string) (v Controller, err error) {
	if !conf.IsController {
		return v, &Error{What: fmt.Sprintf("node %d is no controller", conf.NodeID), Where: "process.roles, " + conf.Source("process.roles"),
			Fix: "pass the configuration of the controller that is to be added"}
	}
	v.NodeID = conf.NodeID
	dir := metaprops.Load([]string{conf.MetadataLogDir}, conf.MetadataLogDir, nil).Dirs[0]
	switch {
	case dir.State == metaprops.Failed:
		return v, &Error{What: "cannot read the directory id of the controller", Where: fmt.Sprintf("%s: %s", dir.File(), disk.Reason(dir.Err.Err)), Err: dir.Err,
			Fix: "run the command on the machine of the controller, as a user that can read its directories"}
	case dir.State == metaprops.Empty:
		return v, &Error{What: "the metadata directory of the controller is not formatted", Where: dir.File(),
			Fix: "run the command on the machine of the controller; a new controller is formatted with format --no-initial-controllers and started first"}
	case dir.Properties.DirectoryID == uuid.Nil:
		return v, &Error{What: "the metadata directory of the controller has no directory id", Where: dir.File(), Fix: "start the controller: it gives itself one"}
	case dir.Properties.NodeID != conf.NodeID:
		return v, &Error{What: fmt.Sprintf("the directory belongs to node %d, the configuration to node %d", dir.Properties.NodeID, conf.NodeID), Where: dir.File(),
			Fix: "pass the configuration of the controller that is to be added"}
	}
	v.DirectoryID, v.ClusterID = dir.Properties.DirectoryID, dir.Properties.ClusterID
	for _, l := range conf.AdvertisedControllerListeners {
		if l.Port <= 0 || l.Port > math.MaxUint16 {
			return v, &Error{What: fmt.Sprintf("the port %d of the controller listener %s is none that others can connect to", l.Port, l.Name), Fix: "set advertised.listeners"}
		}
		e := Endpoint{Listener: l.Name, Host: l.Host, Port: uint16(l.Port)}
		if e.Host == "" {
			e.Host = localHostName()
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v, nil
}
