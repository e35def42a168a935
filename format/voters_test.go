package format

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"kstorage/checkpoint"
	"kstorage/internal/kafkaid"
)

const (
	idA = "JEXY6aqzQY-32P5TStzaFg"
	idB = "MvDxzVmcRsaTz33bUuRU6A"
)

// voterTexts writes voters as the recordings do: id@host:port:directory-id, without brackets.
func voterTexts(voters []checkpoint.Voter) (texts []string) {
	for _, v := range voters {
		e := v.Endpoints[0]
		texts = append(texts, fmt.Sprintf("%d@%s:%d:%s", v.NodeID, e.Host, e.Port, kafkaid.String(v.DirectoryID)))
	}
	return texts
}

// recordings are lists and the voters that Kafka makes of them, none where it refuses the list.
// testdata/voters/Record.java wrote them.
func recordings(t testing.TB) map[string][]string {
	f, err := os.Open("testdata/voters/kafka-4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recorded := make(map[string][]string)
	s := bufio.NewScanner(f)
	for s.Scan() {
		row := strings.ReplaceAll(s.Text(), "~", idA)
		if !strings.HasPrefix(row, `"`) {
			continue
		}
		var texts []string
		for strings.HasPrefix(row, `"`) {
			quoted, err := strconv.QuotedPrefix(row)
			if err != nil {
				t.Fatalf("%s: %v", row, err)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%s: %v", quoted, err)
			}
			texts = append(texts, text)
			row = strings.TrimLeft(row[len(quoted):], "\t ")
		}
		recorded[texts[0]] = texts[1:]
	}
	if s.Err() != nil || len(recorded) < 600 {
		t.Fatalf("%d recordings, %v", len(recorded), s.Err())
	}
	return recorded
}

// unlikeKafka are the recorded lists of which we make something else, and what.
func unlikeKafka() map[string][]string {
	ours := make(map[string][]string)
	for _, reserved := range []string{
		"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAAP",
		"AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAABQ", "AAAAAAAAAAAAAAAAAAAAYw",
		"AAAAAAAAAAD__________w", "AAAAAAAAAACAAAAAAAAAAA",
		"AAAAAAAAAAAAAAAAAAAAAA,2@b.invalid:9094:AAAAAAAAAAAAAAAAAAAAAB",
	} {
		ours["1@a.invalid:9093:"+reserved] = nil
	}
	for _, repeated := range []string{idA, "JEXY6aqzQY-32P5TStzaFh"} {
		ours["1@a.invalid:9093:"+idA+",2@b.invalid:9094:"+repeated] = nil
	}
	// The recording machine had no such interfaces.
	for _, name := range []string{"nosuch0", "1x", "a b", "a:b", "a.b", "25eth9"} {
		ours["1@[fe80::1%"+name+"]:9093:"+idA] = []string{"1@fe80:0:0:0:0:0:0:1%" + name + ":9093:" + idA}
	}
	for _, name := range []string{
		"nosuch0", "%1", "1%2", " 1", "+1", "-1", "2147483648", "4294967296", "99999999999999999999", "\u0661", "\uff11",
	} {
		ours["1@[::1%"+name+"]:9093:"+idA] = []string{"1@0:0:0:0:0:0:0:1%" + name + ":9093:" + idA}
	}
	ours["1@[fe80:0:0:0:0:0:0:1%nosuch0]:9093:"+idA] = []string{"1@fe80:0:0:0:0:0:0:1%nosuch0:9093:" + idA}
	ours["1@[FE80::ABCD%nosuch0]:9093:"+idA] = []string{"1@fe80:0:0:0:0:0:0:abcd%nosuch0:9093:" + idA}
	ours["1@[2001:db8::1%nosuch0]:9093:"+idA] = []string{"1@2001:db8:0:0:0:0:0:1%nosuch0:9093:" + idA}
	return ours
}

func TestInitialControllersAsKafka(t *testing.T) {
	recorded, ours := recordings(t), unlikeKafka()
	for list := range ours {
		if _, ok := recorded[list]; !ok {
			t.Errorf("%q stands in no recording", list)
		}
	}
	for list, want := range recorded {
		if different, ok := ours[list]; ok {
			want = different
		}
		voters, err := ParseInitialControllers(list, "CONTROLLER")
		if got := voterTexts(voters); !slices.Equal(got, want) || (err == nil) != (len(want) > 0) {
			t.Errorf("ParseInitialControllers(%q)\n got %q, %v\nwant %q", list, got, err, want)
		}
	}
}

func TestInitialControllersInOrderOfIDs(t *testing.T) {
	voters, err := ParseInitialControllers("10@b.invalid:9094:"+idB+", 9@[::1]:9093:"+idA, "controller")
	voter := func(nodeID int32, directoryID, host string, port uint16) checkpoint.Voter {
		id, err := kafkaid.Parse(directoryID)
		if err != nil {
			t.Fatal(err)
		}
		return checkpoint.Voter{
			NodeID:          nodeID,
			DirectoryID:     id,
			Endpoints:       []checkpoint.Endpoint{{Name: "CONTROLLER", Host: host, Port: port}},
			MaxKRaftVersion: 1,
		}
	}
	want := []checkpoint.Voter{voter(9, idA, "0:0:0:0:0:0:0:1", 9093), voter(10, idB, "b.invalid", 9094)}
	if err != nil || !reflect.DeepEqual(voters, want) {
		t.Errorf("got %v, %v; want %v", voters, err, want)
	}
}

func TestInitialControllersErrors(t *testing.T) {
	const rest = "@a.invalid:9093:" + idA
	tests := []struct {
		name, list string
		want       []string // the entries with their reasons
	}{
		{"empty", " ", []string{`"": the list is empty`}},
		{"only commas", ",,", []string{`",,": the list is empty`}},
		{"blank entry", "1" + rest + ", ,2@b.invalid:9094:" + idB, []string{`"": there is no @ after a node id`}},
		{"no node id", rest, []string{`"` + rest + `": node id "" is not a number from 0 to 2147483647`}},
		{"negative node id", "-1" + rest, []string{`"-1` + rest + `": node id "-1" is not a number from 0 to 2147483647`}},
		{"no port", "1@a.invalid", []string{`"1@a.invalid": there is no port after the host`}},
		{"no port after brackets", "1@[::1]", []string{`"1@[::1]": there is no port after the ] of the host`}},
		{"open bracket", "1@[::1:9093:" + idA, []string{`"1@[::1:9093:` + idA + `": there is no ] after the host`}},
		{"port too big", "1@a.invalid:65536:" + idA, []string{`"1@a.invalid:65536:` + idA + `": port "65536" is not a number from 0 to 65535`}},
		{"IPv6 without brackets", "1@fe80::1%eth0:9093:" + idA, []string{`"1@fe80::1%eth0:9093:` + idA + `": an IPv6 address stands in brackets`}},
		{"no directory id", "1@127.0.0.1:9093", []string{`"1@127.0.0.1:9093": there is no directory id after the port`}},
		{"empty directory id", "1@127.0.0.1:9093:", []string{`"1@127.0.0.1:9093:": there is no directory id after the port`}},
		{"directory id is none", "1@127.0.0.1:9093:notauuid", []string{`"1@127.0.0.1:9093:notauuid": directory id: "notauuid" holds 6 bytes, an id has 16`}},
		{"same node twice", "1" + rest + ",01@b.invalid:9094:" + idB, []string{`"01@b.invalid:9094:` + idB + `": node id 1 was given before`}},
		{"same directory id twice", "1" + rest + ",2" + rest + "==", []string{`"2` + rest + `==": directory id ` + idA + ` is that of node 1`}},
		{"reserved directory id", "1@a.invalid:9093:AAAAAAAAAAAAAAAAAAAAAR", []string{`"1@a.invalid:9093:AAAAAAAAAAAAAAAAAAAAAR": directory id AAAAAAAAAAAAAAAAAAAAAQ is a reserved one`}},
		{"not UTF-8", "1@m\xfcller.invalid:9093:" + idA, []string{`"1@m\xfcller.invalid:9093:` + idA + `": it is not UTF-8`}},
		{"line break in an entry", "1@a\nb", []string{`"1@a\nb": there is no port after the host`}},
		{"all bad entries in their order", "x, 1" + rest + ",y ,,2" + rest, []string{
			`"x": there is no @ after a node id`,
			`"y": there is no @ after a node id`,
			`"2` + rest + `": directory id ` + idA + ` is that of node 1`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			voters, err := ParseInitialControllers(tt.list, "CONTROLLER")
			if voters != nil || err == nil {
				t.Fatalf("got %v, %v", voters, err)
			}
			var want []string
			for _, w := range tt.want {
				want = append(want, "initial controller "+w+"; the form is id@host:port:directory-id")
			}
			if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", err, strings.Join(want, "\n"))
			}
			if e := new(VoterError); !errors.As(err, &e) {
				t.Errorf("%T is no *VoterError", err)
			}
		})
	}
}

func TestStandaloneVoter(t *testing.T) {
	id := uuid.MustParse("2445d8e9-aab3-418f-b7d8-fe534adcda16") // idA
	for host, want := range map[string]string{
		"localhost":       "localhost",
		"ctl.example.com": "ctl.example.com",
		"192.168.1.1":     "192.168.1.1",
		"127.1":           "127.0.0.1",
	} {
		v, err := standaloneVoter(1, id, "CONTROLLER", host, 9093)
		same, parseErr := ParseInitialControllers("1@"+want+":9093:"+idA, "CONTROLLER")
		if err != nil || parseErr != nil || !reflect.DeepEqual([]checkpoint.Voter{v}, same) {
			t.Errorf("standaloneVoter(%s) = %v, %v; want %v, %v", host, v, err, same, parseErr)
		}
	}
	for _, host := range []string{"::1", "0:0:0:0:0:0:0:1", "fe80::1%eth0"} {
		v, err := standaloneVoter(1, id, "CONTROLLER", host, 9093)
		e := new(VoterError)
		if !errors.As(err, &e) {
			t.Fatalf("standaloneVoter(%s) = %v, %v; want a *VoterError", host, v, err)
		}
		// The way out that the error names works.
		_, entry, _ := strings.Cut(e.Reason, "--initial-controllers ")
		entry, _, ok := strings.Cut(entry, "DIRECTORY-ID with an id from random-uuid")
		if voters, err := ParseInitialControllers(entry+idA, "CONTROLLER"); !ok || err != nil || voters[0].DirectoryID != id {
			t.Errorf("%q leads to %v, %v", e.Reason, voters, err)
		}
	}
}

// An address in any form is written as the same address, in the form of Java.
func TestHostStringOfAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		octet := rapid.OneOf(rapid.Just(byte(0)), rapid.Just(byte(255)), rapid.Byte())
		b := [16]byte(rapid.SliceOfN(octet, 16, 16).Draw(t, "ip"))
		if rapid.Bool().Draw(t, "mapped") {
			copy(b[:], []byte{10: 0xff, 11: 0xff})
		}
		ip := netip.AddrFrom16(b)
		want := ip.Unmap()
		for _, text := range []string{want.String(), ip.String(), ip.StringExpanded(), strings.ToUpper(ip.String())} {
			got := hostString(text)
			back, err := netip.ParseAddr(got)
			if err != nil || back != want || strings.Contains(got, "::") || hostString(got) != got {
				t.Fatalf("hostString(%s) = %s", text, got)
			}
		}
	})
}

func FuzzParseInitialControllers(f *testing.F) {
	for list := range recordings(f) {
		f.Add(list)
	}
	f.Add("1@m\xfcller.invalid:9093:" + idA)
	f.Fuzz(func(t *testing.T, list string) {
		voters, err := ParseInitialControllers(list, "CONTROLLER")
		if err != nil {
			if e := new(VoterError); voters != nil || !errors.As(err, &e) {
				t.Fatalf("got %v, %v", voters, err)
			}
			return
		}
		// What was accepted has a canonical form, which gives the same voters.
		var entries []string
		for i, v := range voters {
			if i > 0 && v.NodeID <= voters[i-1].NodeID || v.NodeID < 0 || kafkaid.Reserved(v.DirectoryID) {
				t.Fatalf("voters %v", voters)
			}
			e := v.Endpoints[0]
			host := e.Host
			if !strings.Contains(host, "]") {
				host = "[" + host + "]"
			}
			entries = append(entries, fmt.Sprintf("%d@%s:%d:%s", v.NodeID, host, e.Port, kafkaid.String(v.DirectoryID)))
		}
		again, err := ParseInitialControllers(strings.Join(entries, ","), "CONTROLLER")
		if err != nil || !reflect.DeepEqual(again, voters) {
			t.Fatalf("%q gives %v, %v; want %v", entries, again, err, voters)
		}
	})
}
