package metaprops

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"

	"kstorage/internal/config/javaprops"
	"kstorage/internal/kafkaid"
)

// Encode returns the file, byte by byte as Kafka writes it; date stands in its second line in its own time zone.
// Decode gives p back (but invalid UTF-8 in ClusterID, which becomes U+FFFD).
func (p Properties) Encode(date time.Time) []byte {
	dst := append(appendDate([]byte("#\n#"), date), '\n')
	for _, property := range p.properties() {
		dst = append(append(dst, property.key...), '=')
		dst = append(appendLatin1(dst, javaprops.AppendValue(nil, property.value)), '\n')
	}
	return dst
}

type property struct{ key, value string }

// properties returns what the file says, in the order of a Java hash table, which Kafka writes.
func (p Properties) properties() []property {
	properties := make([]property, 0, 4)
	if p.NodeID != NoNode || p.Version != V0 {
		properties = append(properties, property{p.nodeKey(), strconv.Itoa(int(p.NodeID))})
	}
	if p.DirectoryID != uuid.Nil || p.zeroDirectoryID {
		properties = append(properties, property{keyDirectoryID, kafkaid.String(p.DirectoryID)})
	}
	properties = append(properties, property{keyVersion, strconv.Itoa(int(p.Version))})
	if p.hasClusterID() {
		properties = append(properties, property{keyClusterID, p.ClusterID})
	}
	return properties
}

// In version 1 an empty id is one: Kafka's formatter stores it where the variable for the id was unset.
func (p Properties) hasClusterID() bool { return p.ClusterID != "" || p.Version == V1 }

// appendDate appends date as java.util.Date prints it. The names of time zones come from the time zone
// database; where it has only an offset, so do we, in Java's form.
func appendDate(dst []byte, date time.Time) []byte {
	zone, _ := date.Zone()
	if zone == "" || strings.HasPrefix(zone, "+") || strings.HasPrefix(zone, "-") {
		zone = "GMT" + date.Format("-07:00")
	}
	dst = date.AppendFormat(dst, "Mon Jan 02 15:04:05 ")
	dst = append(append(dst, zone...), ' ')
	return date.AppendFormat(dst, "2006")
}

// appendLatin1 appends UTF-8 text in ISO-8859-1, the characters that it lacks as Java escapes.
func appendLatin1(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if r <= 0xff {
			dst = append(dst, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			const hex = "0123456789ABCDEF"
			dst = append(dst, '\\', 'u', hex[unit>>12], hex[unit>>8&15], hex[unit>>4&15], hex[unit&15])
		}
	}
	return dst
}

// AsKafkaReads returns the cluster id that a server has whose directory Kafka's formatter formatted
// with the argument id: id itself as long as it is ASCII, else the characters of its UTF-8 bytes.
// It is what belongs into Properties.ClusterID for an id that was given on the command line.
func AsKafkaReads(id string) string {
	if !slices.ContainsFunc([]byte(id), func(b byte) bool { return b >= utf8.RuneSelf }) {
		return id
	}
	runes := make([]rune, len(id))
	for i := range len(id) {
		runes[i] = rune(id[i])
	}
	return string(runes)
}

// SameClusterID reports whether given, the argument of a formatter, means the stored id: it is the id, or the
// text behind `cluster.id=` in a file that holds it. Scripts cut the id from there, escapes
// and all, and ids of 16 base64 characters and `==` are written with escapes.
func SameClusterID(stored, given string) bool {
	if stored == AsKafkaReads(given) {
		return true
	}
	if strings.ContainsAny(given, "\r\n") {
		return false
	}
	parsed, err := javaprops.Parse([]byte(keyClusterID + "=" + given))
	return err == nil && len(parsed) == 1 && parsed[0].Value == stored
}
