package record

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// schemas of Kafka, as testdata has them.
type kafkaMessage struct {
	APIKey        int16
	Name, Enum    string
	ValidVersions string
	Schemas       []struct {
		Versions []int16
		Flexible bool
		Fields   []kafkaField
	}
}

type kafkaField struct {
	Name, Type, Elem string
	Tag              *uint8
	Nullable         bool
	Default          any
	Fields           []kafkaField
}

func readSchemas(t *testing.T, file string, into any) {
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// TestTable compares the table with the schemas of Kafka, field by field at each version.
func TestTable(t *testing.T) {
	var file struct{ Records []kafkaMessage }
	readSchemas(t, "metadata-records.json", &file)
	for _, k := range file.Records {
		m := Lookup(k.APIKey)
		if m == nil {
			t.Errorf("%s with apiKey %d is missing", k.Name, k.APIKey)
			continue
		}
		if m.Type != k.Enum || m.Control {
			t.Errorf("%s: type %s, want %s; control %v", k.Name, m.Type, k.Enum, m.Control)
		}
		compareMessage(t, m, k)
	}
	if ours := len(metadataMessages) - len(file.Records); ours != 1 {
		t.Errorf("%d records are not Kafka's, want ClusterIdRecord alone", ours)
	}
	if Lookup(30) != ClusterID || Lookup(31) != nil || Lookup(6) != nil || Lookup(-1) != nil {
		t.Error("apiKey 30 is ClusterIdRecord, 31 and 6 are not taken")
	}
}

func TestControlTable(t *testing.T) {
	var file struct {
		ControlRecordTypes []struct {
			Name string
			Type int16
		}
		Messages []kafkaMessage
	}
	readSchemas(t, "control-records.json", &file)
	types := map[string]int16{}
	for _, k := range file.ControlRecordTypes {
		types[strings.ReplaceAll(k.Name, "_", "")] = k.Type
	}
	for _, k := range file.Messages {
		i := slices.IndexFunc(controlMessages, func(m *Message) bool { return m.Name == k.Name })
		if i < 0 {
			t.Errorf("%s is missing", k.Name)
			continue
		}
		m := controlMessages[i]
		if want := types[strings.ToUpper(m.Type)]; m.Key != want || !m.Control || LookupControl(m.Key) != m {
			t.Errorf("%s: type %d, want %d", m.Name, m.Key, want)
		}
		compareMessage(t, m, k)
	}
	if len(controlMessages) != len(file.Messages) {
		t.Errorf("%d control records, Kafka has %d", len(controlMessages), len(file.Messages))
	}
}

func compareMessage(t *testing.T, m *Message, k kafkaMessage) {
	if m.Name != k.Name {
		t.Errorf("key %d is %s, want %s", m.Key, m.Name, k.Name)
	}
	version := int16(0)
	for _, s := range k.Schemas {
		for _, v := range s.Versions {
			if v != version || !s.Flexible {
				t.Errorf("%s: version %d, flexible %v", m.Name, v, s.Flexible)
			}
			version++
			compareFields(t, m.Name, m.Fields, s.Fields, v)
		}
	}
	if m.Latest != version-1 {
		t.Errorf("%s: latest version %d, want %d", m.Name, m.Latest, version-1)
	}
}

func compareFields(t *testing.T, where string, fields []Field, want []kafkaField, version int16) {
	// On the wire tagged fields come last, by their tags; the table has them in the order of JSON.
	var got []Field
	for _, f := range fields {
		if f.Since <= version {
			got = append(got, f)
		}
	}
	slices.SortStableFunc(got, func(a, b Field) int { return int(a.Tag) - int(b.Tag) })
	if len(got) != len(want) {
		t.Errorf("%s version %d: %d fields, want %d", where, version, len(got), len(want))
		return
	}
	for i, f := range got {
		k := want[i]
		if f.Name != k.Name || f.Type != kafkaType(k) || f.Nullable != k.Nullable {
			t.Errorf("%s version %d: field %+v, want %+v", where, version, f, k)
		}
		if (f.Tag != 0) != (k.Tag != nil) || k.Tag != nil && f.Tag != tag(*k.Tag) {
			t.Errorf("%s.%s version %d: tag %d, want %v", where, f.Name, version, f.Tag, k.Tag)
		}
		if !sameDefault(f, k) {
			t.Errorf("%s.%s version %d: default %d, null %v, want %v", where, f.Name, version, f.Default, f.Null, k.Default)
		}
		compareFields(t, where+"."+f.Name, f.Fields, k.Fields, version)
	}
}

// TestTagNumbers has what the encoder relies on: no gaps, so that unknown tagged fields come behind the known ones.
func TestTagNumbers(t *testing.T) {
	for _, m := range append(slices.Clone(metadataMessages), controlMessages...) {
		var tags []Tag
		for _, f := range m.Fields {
			if f.Tag != 0 {
				tags = append(tags, f.Tag)
			}
			for _, g := range f.Fields {
				if g.Tag != 0 {
					t.Errorf("%s.%s.%s is tagged: look at the tags of structs too", m.Name, f.Name, g.Name)
				}
			}
		}
		slices.Sort(tags)
		for i, got := range tags {
			if got != tag(uint8(i)) {
				t.Errorf("%s: tags %v", m.Name, tags)
			}
		}
	}
}

func kafkaType(k kafkaField) Type {
	types := map[string]Type{
		"boolean": Bool, "int8": Int8, "int16": Int16, "uint16": Uint16, "int32": Int32, "int64": Int64, "float64": Float64,
		"uuid": UUID, "compact_string": String, "compact_nullable_string": String, "compact_bytes": Bytes, "struct": Struct,
		"array of int32": Int32s, "array of uuid": UUIDs, "array of compact_string": Strings, "array of struct": Structs,
	}
	if k.Type == "compact_array" {
		return types["array of "+k.Elem]
	}
	return types[k.Type]
}

func sameDefault(f Field, k kafkaField) bool {
	switch d := k.Default.(type) {
	case nil:
		return f.Null
	case bool:
		return !f.Null && (f.Default == 1) == d
	case float64:
		return !f.Null && float64(f.Default) == d
	}
	return !f.Null && f.Default == 0 // empty text, array, struct; the zero UUID
}
