package metadata

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"kstorage/internal/record"
)

// owner is whom a part of an image belongs to. It has a size, so that no two have one address.
type owner struct{ _ byte }

// table is a part of an image that its clones share until one of them writes.
type table[K comparable, V any] struct {
	rows  map[K]V
	owner *owner
}

// writable returns the rows to be written by an image with owner o.
func (t *table[K, V]) writable(o *owner) map[K]V {
	if t.owner != o {
		rows := make(map[K]V, len(t.rows)+1)
		maps.Copy(rows, t.rows)
		t.rows, t.owner = rows, o
	}
	return t.rows
}

// configResource is what a configuration belongs to.
type configResource struct {
	kind int8
	name string
}

func (a configResource) compare(b configResource) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.name, b.name))
}

// Records that are kept encoded by a key, in the order of a snapshot.
const (
	keptQuotas = iota
	keptACLs
	keptScram
	keptTokens
)

var keptKinds = [...]struct {
	set    *record.Message
	remove *record.Message         // nil: set has a field Remove
	key    func(record.Row) string // of both
}{
	keptQuotas: {record.ClientQuota, nil, quotaKey},
	keptACLs:   {record.AccessControlEntry, record.RemoveAccessControlEntry, aclKey},
	keptScram:  {record.UserScramCredential, record.RemoveUserScramCredential, scramKey},
	keptTokens: {record.DelegationToken, record.RemoveDelegationToken, tokenKey},
}

func aclKey(r record.Row) string {
	id := r.UUID("Id")
	return string(id[:])
}

func scramKey(r record.Row) string { return string([]byte{byte(r.Int("Mechanism"))}) + r.Text("Name") }

func tokenKey(r record.Row) string { return r.Text("TokenId") }

// quotaKey is the same for entities in any order.
func quotaKey(r record.Row) string {
	var parts []string
	for _, e := range r.Structs("Entity") {
		name := "default"
		if !e.Null("EntityName") {
			name = fmt.Sprintf("%q", e.Text("EntityName"))
		}
		parts = append(parts, fmt.Sprintf("%q %s", e.Text("EntityType"), name))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%s %q", strings.Join(parts, " "), r.Text("Key"))
}

// keep replays a record of kind: it is kept, or what it removes goes.
func (i *Image) keep(kind int, r record.Record) error {
	k := &keptKinds[kind]
	key := k.key(r.Row)
	_, known := i.kept[kind].rows[key]
	switch {
	case r.Message == k.remove && kind == keptACLs && !known:
		return fmt.Errorf("no ACL with the id %s", r.UUID("Id"))
	case r.Message == k.remove || k.remove == nil && r.Bool("Remove"):
		if known {
			delete(i.kept[kind].writable(i.owner), key)
		}
		return nil
	}
	r.Version = k.set.Latest
	value, err := r.AppendValue(nil)
	if err != nil {
		return err
	}
	i.kept[kind].writable(i.owner)[key] = string(value)
	return nil
}

// keptRecords returns the records of kind by key. A record is valid until the next one.
func (i *Image) keptRecords(kind int) iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		rows := i.kept[kind].rows
		var d record.Decoder
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			if !yield(mustDecode(&d, []byte(rows[key]))) {
				return
			}
		}
	}
}

// mustDecode decodes what was encoded here.
func mustDecode(d *record.Decoder, value []byte) record.Record {
	r, err := d.Decode(value)
	if err != nil {
		panic(fmt.Sprintf("metadata: kept record %x: %v", value, err))
	}
	return r
}
