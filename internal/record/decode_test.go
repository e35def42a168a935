package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func unhex(tb testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		why, value string
		offset     int64
		reason     string
	}{
		{"nothing", "", 0, "cut"},
		{"frame version of the first preview", "00 0c 00", 0, "frame version 0"},
		{"frame version of the future", "02 0c 00", 0, "frame version 2"},
		{"text of another topic", "7b 22 61 22 7d", 0, "frame version 123"},
		{"apiKey that was given up", "01 0d 00 00", 1, "unknown apiKey 13"},
		{"apiKey that is free", "01 1f 00 00", 1, "unknown apiKey 31"},
		{"apiKey beyond 16 bits", "01 8c 80 04 00 00", 1, "unknown apiKey 65548"},
		{"version beyond 16 bits", "01 0c 80 80 02 00", 2, "record version 32768"},
		{"no body", "01 0c 00", 3, "cut"},
		{"text cut", "01 0c 00 05 61 62", 3, "Name has length 4, but 2 bytes are left"},
		{"text null", "01 0c 00 00 00 01 00", 3, "Name is null"},
		{"number cut", "01 0c 00 02 61 00", 5, "2 bytes are needed"},
		{"tagged fields missing", "01 0c 00 02 61 00 01", 7, "cut"},
		{"more bytes", "01 0c 00 02 61 00 01 00 ff", 8, "1 bytes behind the end"},
		{"length of 5 bytes too large", "01 0c 00 ff ff ff ff 0f", 8, "too large"},
		{"length of more than 64 bits", "01 0c 00 ff ff ff ff ff ff ff ff ff ff 01", 3, "64 bits"},
		{"length in more bytes than needed", "01 0c 00 82 00 61 00 01 00", 3, "takes 2 bytes instead of 1"},
		{"apiKey in more bytes than needed", "01 8c 00 00 02 61 00 01 00", 1, "takes 2 bytes instead of 1"},
		{"array longer than the bytes", "01 05 00 00000001 41414141414141414141414141414141 01 00 05 05 00000001", 26, "Isr has length 4"},
		{"structs longer than the bytes", "01 0e 00 7f 01 01 00", 3, "Entity has length 126"},
		{"boolean that is neither", "01 0e 00 01 02 61 0000000000000000 02 00", 14, "boolean Remove is 2"},
		{"tagged field cut", "01 17 00 01 00 7f 02 61", 6, "127 bytes are needed"},
		{"tagged field longer than its content", "01 17 00 01 00 03 02 61 62", 8, "1 bytes behind the end of tagged field Name"},
		{"tagged field shorter than its content", "01 17 00 01 00 02 05 61 62 63 64", 6, "Name has length 4, but 1 bytes are left"},
		{"tagged fields that do not ascend", "01 11 01 00000001 0000000000000002 02 01 01 01 00 01 01", 19, "tagged field 0 behind 1"},
		{"tagged field twice", "01 11 00 00000001 0000000000000002 02 00 01 01 00 01 01", 19, "tagged field 0 behind 0"},
		{"tagged field of a later version", "01 11 00 00000001 0000000000000002 01 01 01 01", 16, "tagged field InControlledShutdown in version 0"},
		{"tagged field missing", "01 14 00 02 05 00", 6, "cut"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			_, err := Decode(unhex(t, test.value))
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Offset != test.offset || !strings.Contains(corrupt.Reason, test.reason) {
				t.Errorf("got %v, want byte %d: …%s…", err, test.offset, test.reason)
			}
		})
	}
}

func TestDecodeControlErrors(t *testing.T) {
	tests := []struct{ why, key, value, reason string }{
		{"short key", "0000", "00000000", "key of 2 bytes"},
		{"a transaction's marker", "00000001", "000000000000", "unknown control record type 1"},
		{"unknown type", "00000007", "0000", "unknown control record type 7"},
		{"negative type", "0000ffff", "0000", "unknown control record type -1"},
		{"short value", "00000004", "00", "SnapshotFooter of 1 bytes"},
		{"negative version", "00000004", "ffff00", "version -1"},
		{"more bytes", "00000004", "00000000", "1 bytes behind the end"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			_, err := DecodeControl(unhex(t, test.key), unhex(t, test.value))
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !strings.Contains(corrupt.Reason, test.reason) {
				t.Errorf("got %v, want …%s…", err, test.reason)
			}
		})
	}
}

// TestAccepted has what Kafka does not write, but a reader must take and give back as it was.
func TestAccepted(t *testing.T) {
	tests := []struct{ why, value, json string }{
		{"a version newer than the table has the newest layout", "01 0c 07 02 61 0005 00", `{"type":"FEATURE_LEVEL_RECORD","version":7,"data":{"name":"a","featureLevel":5}}`},
		{"and the newest fields", "01 11 09 00000001 0000000000000002 01 03 01 01", `{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":9,"data":{"brokerId":1,"brokerEpoch":2,"cordonedLogDirs":[]}}`},
		{"a tagged field that is at its default", "01 17 00 01 00 01 00", `{"type":"BEGIN_TRANSACTION_RECORD","version":0,"data":{}}`},
		{"text that is no UTF-8", "01 1e 00 04 61ff62 00", `{"type":"CLUSTER_ID_RECORD","version":0,"data":{"clusterId":"a` + "\ufffd" + `b"}}`},
		{"a tagged field that nobody knows yet", "01 11 00 00000001 0000000000000002 02 00 01 ff 04 01 01", `{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":0,"data":{"brokerId":1,"brokerEpoch":2,"fenced":-1}}`},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			value := unhex(t, test.value)
			r, err := Decode(value)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.AppendJSON(nil)); got != test.json {
				t.Errorf("JSON\n got %s\nwant %s", got, test.json)
			}
			if again, err := r.AppendValue(nil); err != nil || !bytes.Equal(again, value) {
				t.Errorf("encoded again: %x, %v", again, err)
			}
		})
	}
}

// TestSetters builds the record of testdata in which each field is set.
func TestSetters(t *testing.T) {
	dir := func(n byte) uuid.UUID { return uuid.UUID{1, 2, 3, 4, 5, 6, 7, 8, 15: n} }
	built := map[string]func(Record){
		"PartitionRecord/2/full": func(r Record) {
			r.SetInt("PartitionId", 2)
			r.SetUUID("TopicId", dir(2))
			r.SetInt32s("Replicas", []int32{4, 5})
			r.SetInt32s("Isr", []int32{6, 7})
			r.SetInt32s("RemovingReplicas", []int32{8, 9})
			r.SetInt32s("AddingReplicas", []int32{10, 11})
			r.SetInt("Leader", 12)
			r.SetInt("LeaderEpoch", 13)
			r.SetInt("PartitionEpoch", 14)
			r.SetUUIDs("Directories", []uuid.UUID{dir(14), dir(15)})
			r.SetInt("LeaderRecoveryState", 17)
			r.SetInt32s("EligibleLeaderReplicas", []int32{18, 19})
			r.SetInt32s("LastKnownElr", []int32{20, 21})
		},
		"ClientQuotaRecord/0/full": func(r Record) {
			for _, name := range []string{"s1", "s3"} {
				e := r.Add("Entity")
				e.SetText("EntityType", name)
				e.SetText("EntityName", map[string]string{"s1": "s2", "s3": "s4"}[name])
			}
			r.SetText("Key", "s5")
			r.SetFloat("Value", 1.5)
			r.SetBool("Remove", true)
		},
		"ClientQuotaRecord/0/nulls": func(r Record) { r.Add("Entity").SetNull("EntityName") },
		"DelegationTokenRecord/0/full": func(r Record) {
			r.SetText("Owner", "s1")
			r.SetText("Requester", "s2")
			r.SetTexts("Renewers", []string{"s3", "s4"})
			r.SetInt("IssueTimestamp", 6)
			r.SetInt("MaxTimestamp", 7)
			r.SetInt("ExpirationTimestamp", 8)
			r.SetText("TokenId", "s8")
		},
		"UserScramCredentialRecord/0/full": func(r Record) {
			r.SetText("Name", "s1")
			r.SetInt("Mechanism", 3)
			r.SetBytes("Salt", []byte{0x6f, 0x7a, 0x85, 0x90, 0x9b})
			r.SetBytes("StoredKey", []byte{0x94, 0x9f, 0xaa, 0xb5, 0xc0})
			r.SetBytes("ServerKey", []byte{0xb9, 0xc4, 0xcf, 0xda, 0xe5})
			r.SetInt("Iterations", 7)
		},
		"UserScramCredentialRecord/0/default": func(r Record) { r.SetBytes("Salt", nil) },
	}
	for _, c := range kafkaCases(t) {
		build := built[c.name]
		if build == nil {
			continue
		}
		delete(built, c.name)
		r := New(c.message, c.version)
		build(r)
		if got, err := r.AppendValue(nil); err != nil || !bytes.Equal(got, c.value) {
			t.Errorf("%s: %v\n got %x\nwant %x", c.name, err, got, c.value)
		}
	}
	if len(built) > 0 {
		t.Errorf("not found in testdata: %v", built)
	}
}

func TestGetters(t *testing.T) {
	r := New(Partition, 2)
	dirs := []uuid.UUID{{1}, {2}}
	r.SetUUID("TopicId", dirs[1])
	r.SetInt32s("Isr", []int32{-1, 1 << 30})
	r.SetUUIDs("Directories", dirs)
	if r.UUID("TopicId") != dirs[1] || !slices.Equal(r.Int32s("Isr"), []int32{-1, 1 << 30}) || !slices.Equal(r.UUIDs("Directories"), dirs) {
		t.Errorf("got %s", r.AppendJSON(nil))
	}
	if !r.Null("LastKnownElr") || r.Int32s("LastKnownElr") != nil || r.Null("Isr") || r.Int32s("Replicas") == nil {
		t.Error("null and empty arrays")
	}
	q := New(ClientQuota, 0)
	q.SetFloat("Value", -0.5)
	q.SetBool("Remove", true)
	q.Add("Entity").SetText("EntityType", "user")
	if e := q.Structs("Entity"); len(e) != 1 || e[0].Text("EntityType") != "user" || q.Float("Value") != -0.5 || !q.Bool("Remove") {
		t.Errorf("got %s", q.AppendJSON(nil))
	}
	q.SetBool("Remove", false)
	if q.Bool("Remove") {
		t.Error("false stays true")
	}
	d := New(DelegationToken, 0)
	d.SetTexts("Renewers", []string{"a", ""})
	if !slices.Equal(d.Texts("Renewers"), []string{"a", ""}) {
		t.Errorf("got %q", d.Texts("Renewers"))
	}
	s := New(UserScramCredential, 0)
	s.SetBytes("Salt", []byte{1})
	if !bytes.Equal(s.Bytes("Salt"), []byte{1}) || s.Null("Salt") {
		t.Errorf("got %x", s.Bytes("Salt"))
	}
	v := New(KRaftVoters, 0)
	v.Add("Voters").Struct("KRaftVersionFeature").SetInt("MaxSupportedVersion", 1)
	v.Add("Voters")
	if list := v.Structs("Voters"); list[0].Struct("KRaftVersionFeature").Int("MaxSupportedVersion") != 1 || list[1].Struct("KRaftVersionFeature").Int("MaxSupportedVersion") != 0 {
		t.Errorf("got %s", v.AppendData(nil))
	}
}

func TestWrongName(t *testing.T) {
	for why, use := range map[string]func(Record){
		"no such field": func(r Record) { r.Int("Level") },
		"another type":  func(r Record) { r.Text("FeatureLevel") },
	} {
		t.Run(why, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			use(New(FeatureLevel, 0))
		})
	}
}

func TestEncodeErrors(t *testing.T) {
	tests := []struct {
		why    string
		record Record
		set    func(Record)
		field  string
	}{
		{"int16 too large", New(FeatureLevel, 0), func(r Record) { r.SetInt("FeatureLevel", 1<<15) }, "FeatureLevel"},
		{"int8 too small", New(Config, 0), func(r Record) { r.SetInt("ResourceType", -129) }, "ResourceType"},
		{"int32 too large", New(UnregisterController, 0), func(r Record) { r.SetInt("ControllerId", 1<<31) }, "ControllerId"},
		{"port negative", New(RegisterController, 0), func(r Record) { r.Add("EndPoints").SetInt("Port", -1) }, "Port"},
		{"text too long", New(ClusterID, 0), func(r Record) { r.SetText("ClusterId", strings.Repeat("a", 1<<15)) }, "ClusterId"},
		{"text of an array too long", New(DelegationToken, 0), func(r Record) { r.SetTexts("Renewers", []string{strings.Repeat("a", 1<<15)}) }, "element"},
		{"null where none may be", New(Topic, 0), func(r Record) { r.SetNull("Name") }, "Name"},
		{"null array where none may be", New(DelegationToken, 0), func(r Record) { r.SetNull("Renewers") }, "Renewers"},
		{"a field that the version doesn't have", New(RegisterBroker, 3), func(r Record) { r.SetUUIDs("CordonedLogDirs", nil) }, "CordonedLogDirs"},
		{"the same in a struct", New(LeaderChange, 0), func(r Record) { r.Add("Voters").SetUUID("VoterDirectoryId", uuid.UUID{1}) }, "VoterDirectoryId"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			test.set(test.record)
			_, err := test.record.AppendValue(nil)
			var wrong *RecordError
			if !errors.As(err, &wrong) || wrong.Field != test.field || wrong.Message != test.record.Message {
				t.Errorf("got %v, want field %s", err, test.field)
			}
		})
	}
}

// TestDecoderReuse decodes all records of testdata with one Decoder, small and large ones in turn.
func TestDecoderReuse(t *testing.T) {
	var d Decoder
	cases := kafkaCases(t)
	for range 3 {
		for i := range cases {
			for _, c := range []kafkaCase{cases[i], cases[len(cases)-1-i]} {
				if c.message.Control {
					continue
				}
				r, err := d.Decode(c.value)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(r.AppendJSON(nil)); got != c.json {
					t.Fatalf("%s\n got %s\nwant %s", c.name, got, c.json)
				}
			}
		}
	}
}

// fill sets the fields of a row to what rapid draws.
func fill(t *rapid.T, r Row, version int16) {
	text := rapid.StringOf(rapid.Rune())
	for i := range r.fields {
		f := &r.fields[i]
		if f.Since > version || f.Name == "Version" || rapid.IntRange(0, 3).Draw(t, "left alone") == 0 {
			continue
		}
		if f.Nullable && rapid.Bool().Draw(t, "null") {
			r.SetNull(f.Name)
			continue
		}
		id := func(t *rapid.T) uuid.UUID { return uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")) }
		switch f.Type {
		case Bool:
			r.SetBool(f.Name, rapid.Bool().Draw(t, f.Name))
		case Int8:
			r.SetInt(f.Name, int64(rapid.Int8().Draw(t, f.Name)))
		case Int16:
			r.SetInt(f.Name, int64(rapid.Int16().Draw(t, f.Name)))
		case Uint16:
			r.SetInt(f.Name, int64(rapid.Uint16().Draw(t, f.Name)))
		case Int32:
			r.SetInt(f.Name, int64(rapid.Int32().Draw(t, f.Name)))
		case Int64:
			r.SetInt(f.Name, rapid.Int64().Draw(t, f.Name))
		case Float64:
			r.SetFloat(f.Name, rapid.Float64().Draw(t, f.Name))
		case UUID:
			r.SetUUID(f.Name, id(t))
		case String:
			r.SetText(f.Name, text.Draw(t, f.Name))
		case Bytes:
			r.SetBytes(f.Name, rapid.SliceOf(rapid.Byte()).Draw(t, f.Name))
		case Int32s:
			r.SetInt32s(f.Name, rapid.SliceOf(rapid.Int32()).Draw(t, f.Name))
		case UUIDs:
			r.SetUUIDs(f.Name, rapid.SliceOf(rapid.Custom(id)).Draw(t, f.Name))
		case Strings:
			r.SetTexts(f.Name, rapid.SliceOf(text).Draw(t, f.Name))
		case Struct:
			fill(t, r.Struct(f.Name), version)
		case Structs:
			for range rapid.IntRange(0, 3).Draw(t, f.Name) {
				fill(t, r.Add(f.Name), version)
			}
		}
	}
}

func TestAnyRecord(t *testing.T) {
	all := append(slices.Clone(metadataMessages), controlMessages...)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(all).Draw(t, "message")
		r := New(m, rapid.Int16Range(0, m.Latest).Draw(t, "version"))
		fill(t, r.Row, r.Version)
		value, err := r.AppendValue(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeAs(m, value)
		if err != nil {
			t.Fatalf("%x: %v", value, err)
		}
		again, err := back.AppendValue(nil)
		if err != nil || !bytes.Equal(again, value) {
			t.Fatalf("encoded again: %v\n got %x\nwant %x", err, again, value)
		}
		text := back.AppendJSON(nil)
		if !json.Valid(text) || !bytes.Equal(text, r.AppendJSON(nil)) {
			t.Fatalf("JSON\n got %s\nwant %s", text, r.AppendJSON(nil))
		}
	})
}

func TestDouble(t *testing.T) {
	// As java.lang.Double prints them since Java 19; those of testdata are the same in all versions.
	for want, x := range map[string]float64{
		"1.0E23": 1e23, "2.0E-4": 2e-4, "4.9E-324": math.SmallestNonzeroFloat64, "1.0E7": 1e7, "9999999.999": 9999999.999, "0.001": 0.001,
		"-12.0": -12, "1.7976931348623157E308": math.MaxFloat64,
	} {
		if got := string(appendDouble(nil, x)); got != want {
			t.Errorf("%g: got %s, want %s", x, got, want)
		}
	}
}
