// Package metaprops is meta.properties, the file that makes a directory a log directory of one node in
// one cluster, and the ensemble of these files in all log directories of a node.
//
// The file is in the format of java.util.Properties. As Kafka writes it:
//
//	#
//	#Mon Nov 30 05:36:43 UTC 2026
//	node.id=1
//	directory.id=IPSRFnY5RtqEmJV5clXmdA
//	version=1
//	cluster.id=Wq9rPWnzQ4uv0sRyMKXc1w
//
// Whoever reads it takes any order, blanks and escapes, and ignores unknown keys; they are gone when
// the file is written again, as in Kafka.
//
//	version            node            cluster.id  directory.id
//	0 (also: missing)  broker.id opt.  optional    optional      before KRaft
//	1                  node.id         required    optional      KIP-631, KIP-858
//	2                  node.id         optional    optional      KIP-1262: the id is learned later
//
// Version 2 is not in Apache Kafka up to 4.4. A missing and an empty cluster.id mean the same in it.
//
// # Text beyond ASCII
//
// Kafka writes the file in UTF-8 and reads it in ISO-8859-1, so a cluster id beyond ASCII is another
// one when it comes back. What counts is what a server reads, so ClusterID is that, Encode writes it so that it
// comes back as itself, and AsKafkaReads turns the argument of the formatter into it: the file has
// the same bytes as Kafka's, and the node the same id as one that Kafka formatted.
//
// # Left out
//
// Which directories must be formatted, created or locked is the business of the formatter and of the
// starting node. Files are written through their own door, so that it happens in the right order.
package metaprops

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"kstorage/internal/config/javaprops"
	"kstorage/internal/javatext"
	"kstorage/internal/kafkaid"
)

// FileName is the name of the file in each log directory.
const FileName = "meta.properties"

// TempName is the name under which it is written before it gets its own by an atomic rename.
const TempName = FileName + ".tmp"

// NoNode is the node id that means none. In version 1 and 2, which always have one, it is what
// the file says, and no node has it.
const NoNode int32 = -1

// Version is the version of the file.
type Version int8

const (
	V0 Version = 0 // before KRaft; the version of a file that names none
	V1 Version = 1
	V2 Version = 2 // KIP-1262
)

// Properties is the content of a file.
type Properties struct {
	Version     Version
	ClusterID   string    // as a server reads it; "": none
	NodeID      int32     // NoNode: none, in version 0 only
	DirectoryID uuid.UUID // uuid.Nil: none

	// A file may say that its directory has the reserved id zero, which isn't the same as none.
	zeroDirectoryID bool
}

// The keys of the file.
const (
	keyVersion     = "version"
	keyClusterID   = "cluster.id"
	keyNodeID      = "node.id"
	keyBrokerID    = "broker.id" // in place of node.id in version 0
	keyDirectoryID = "directory.id"
)

// ReservedDirectoryID reports whether the file gives its directory an id that Kafka has set aside, the zero
// id among them (KIP-858).
func (p Properties) ReservedDirectoryID() bool {
	return p.zeroDirectoryID || p.DirectoryID != uuid.Nil && kafkaid.Reserved(p.DirectoryID)
}

// Blank reports whether the file says nothing: it is empty, cut short by a crash, or no meta.properties at all.
// Kafka takes it for a file of version 0.
func (p Properties) Blank() bool {
	return p == Properties{NodeID: NoNode}
}

// nodeKey is the key that holds the node's id.
func (p Properties) nodeKey() string {
	if p.Version == V0 {
		return keyBrokerID
	}
	return keyNodeID
}

// Decode reads a file. Errors: *ValueError, whose text is Kafka's, or *javaprops.SyntaxError.
func Decode(b []byte) (Properties, error) {
	parsed, err := javaprops.Parse(b)
	if err != nil {
		return Properties{}, err
	}
	values := map[string]string{}
	for _, p := range parsed {
		values[p.Key] = p.Value
	}
	p := Properties{NodeID: NoNode}
	if p.Version, err = decodeVersion(values); err != nil {
		return Properties{}, err
	}
	node, hasNode := values[p.nodeKey()]
	if !hasNode && p.Version != V0 {
		return Properties{}, &ValueError{Key: keyNodeID, text: "Failed to find node.id"}
	}
	if hasNode {
		if p.NodeID, err = decodeInt32(node); err != nil {
			return Properties{}, &ValueError{p.nodeKey(), node, "Unable to read " + p.nodeKey() + " as a base-10 number."}
		}
	}
	if id, found := values[keyDirectoryID]; found {
		if p.DirectoryID, err = decodeDirectoryID(id); err != nil {
			return Properties{}, err
		}
		p.zeroDirectoryID = p.DirectoryID == uuid.Nil
	}
	var hasClusterID bool
	if p.ClusterID, hasClusterID = values[keyClusterID]; !hasClusterID && p.Version == V1 {
		return Properties{}, &ValueError{Key: keyClusterID, text: "cluster.id was not found."}
	}
	return p, nil
}

func decodeVersion(values map[string]string) (Version, error) {
	text, found := values[keyVersion]
	if !found {
		return V0, nil
	}
	// Blanks may stand around this number only.
	trimmed := javatext.Trim(text)
	n, err := decodeInt32(trimmed)
	if err != nil {
		return 0, &ValueError{keyVersion, text, fmt.Sprintf("Invalid meta.properties version string '%s'", trimmed)}
	}
	if n < int32(V0) || n > int32(V2) {
		return 0, &ValueError{keyVersion, text, fmt.Sprintf("Unknown meta.properties version number %d", n)}
	}
	return Version(n), nil
}

func decodeInt32(s string) (int32, error) {
	n, err := javatext.ParseInt(s, 32)
	return int32(n), err
}

func decodeDirectoryID(s string) (uuid.UUID, error) {
	id, err := kafkaid.Parse(s)
	if err == nil {
		return id, nil
	}
	reason := err.Error()
	encoding := base64.RawURLEncoding
	if strings.HasSuffix(s, "=") {
		encoding = base64.URLEncoding
	}
	b, notBase64 := encoding.DecodeString(s)
	switch {
	case len(s) > 24:
		reason = fmt.Sprintf("Input string with prefix `%.24s` is too long to be decoded as a base64 UUID", s)
	case notBase64 == nil && len(b) != len(uuid.Nil):
		reason = fmt.Sprintf("Input string `%s` decoded as %d bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID", s, len(b))
	}
	return uuid.Nil, &ValueError{keyDirectoryID, s, "Unable to read directory.id as a Uuid: " + reason}
}
