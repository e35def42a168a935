package format

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"kstorage/checkpoint"
	"kstorage/internal/disk/crashdisk"
	"kstorage/internal/kafkaid"
	"kstorage/metaprops"
)

func TestKinds(t *testing.T) {
	list := ptr("1@c1:9093:" + idA + ",2@c2:9093:" + idB)
	without := ptr("2@c2:9093:" + idB)
	tests := []struct {
		name    string
		change  func(*Options)
		want    Kind // of the metadata directory
		kraft   int16
		voters  int
		warning string
	}{
		{"broker", func(o *Options) { o.Controller = false }, MetadataDirectory, 1, 0, ""},
		{"broker of static voters", func(o *Options) { o.Controller, o.StaticVoters = false, true }, MetadataDirectory, 0, 0, ""},
		{"broker with the list of voters", func(o *Options) { o.Controller, o.InitialControllers = false, list }, DynamicMetadataVoterDirectory, 1, 0, ""},
		{"controller of static voters", func(o *Options) { o.StaticVoters = true }, MetadataDirectory, 0, 0, ""},
		{"standalone", func(o *Options) { o.Standalone = true }, DynamicMetadataVoterDirectory, 1, 1, ""},
		{"initial controllers", func(o *Options) { o.InitialControllers = list }, DynamicMetadataVoterDirectory, 1, 2, ""},
		{"initial controllers without this node", func(o *Options) { o.InitialControllers = without }, DynamicMetadataDirectory, 1, 1, "node 1 is none of the initial controllers"},
		{"no initial controllers", func(o *Options) { o.NoInitialControllers = true }, MetadataDirectory, 1, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := nodeOptions("/d1", "/d2")
			o.Controller, o.ClusterID, o.MetadataLogDir = true, ptr(otherID), "/d2"
			tt.change(&o)
			d := crashdisk.New()
			p, err := newPlan(o, d)
			if err != nil {
				t.Fatal(err)
			}
			if p.Format[0].Kind != DataDirectory || p.Format[1].Kind != tt.want || p.KRaftVersion != tt.kraft || len(p.Voters) != tt.voters {
				t.Errorf("got %v, kraft.version %d, voters %v", p.Format, p.KRaftVersion, p.Voters)
			}
			if text := strings.Join(p.Warnings, "\n"); (text == "") != (tt.warning == "") || !strings.Contains(text, tt.warning) {
				t.Errorf("warnings %q", text)
			}
			if _, err := p.Apply(); err != nil {
				t.Error(err)
			}
			if _, err := d.Stat("/d2/__cluster_metadata-0/" + zeroCheckpoint); (err == nil) != o.Controller {
				t.Errorf("controller: %v, zero checkpoint: %v", o.Controller, err)
			}
			if own := p.Format[1].DirectoryID; o.InitialControllers == list && kafkaid.String(own) != idA {
				t.Errorf("the directory id is %s, the list has %s", kafkaid.String(own), idA)
			}
		})
	}
}

// Warnings are about what works, but perhaps not as its author thinks.
func TestWarnings(t *testing.T) {
	alice := []ScramArgument{NewScramArgument("SCRAM-SHA-256=[name=alice,password=x]")}
	tests := []struct {
		name   string
		files  map[string]string
		change func(*Options) // of a standalone controller with /d1 and /d2 and a cluster id
		want   []string
	}{
		{"nothing to tell", nil, func(*Options) {}, nil},
		{"cluster id that is no UUID", nil, func(o *Options) { o.ClusterID = ptr("my cluster") }, []string{"is no UUID"}},
		{"cluster id with spare bits", nil, func(o *Options) { o.ClusterID = ptr(otherID[:21] + "B") }, []string{"is not the one that base64 gives"}},
		{"cluster id of old", map[string]string{"/d1/meta.properties": v1}, func(o *Options) { o.ClusterID, o.IgnoreFormatted = nil, true }, nil},
		{"mount point as log directory", map[string]string{"/d2/lost+found/": ""}, func(*Options) {}, []string{"/d2 has a folder lost+found"}},
		{"file lost+found", map[string]string{"/d2/lost+found": ""}, func(*Options) {}, nil},
		{"controller without its metadata log", map[string]string{"/d2/meta.properties": v1},
			func(o *Options) {
				o.ClusterID, o.IgnoreFormatted, o.Standalone, o.NoInitialControllers = nil, true, false, true
			},
			[]string{"node 1 comes back without its metadata log: /d1 is empty, but /d2 is formatted"}},
		{"wildcard on a host without a name", nil, func(o *Options) {
			o.ControllerListener.Host, o.LocalHostName = "0.0.0.0", func() string { return "localhost" }
		}, []string{"localhost:9093, which other nodes cannot reach"}},
		{"wildcard on a host with a loopback address", nil, func(o *Options) {
			o.ControllerListener.Host, o.LocalHostName = "[::]", func() string { return "127.0.1.1" }
		}, []string{"127.0.1.1:9093, which other nodes cannot reach"}},
		{"wildcard on a host with a name", nil, func(o *Options) { o.ControllerListener.Host = "" }, nil},
		{"port that the listener has not", nil, func(o *Options) {
			o.Standalone, o.InitialControllers = false, ptr("1@c1:9094:"+idA)
		}, []string{"gives node 1 the port 9094, but its controller listener CONTROLLER has 9093"}},
		{"users on a broker", nil, func(o *Options) { o.Controller, o.Standalone, o.Scram = false, false, alice }, []string{"--add-scram has no effect on a broker"}},
		{"users on a node of old", map[string]string{"/d1/meta.properties": v1},
			func(o *Options) { o.ClusterID, o.IgnoreFormatted, o.Scram = nil, true, alice },
			[]string{"without effect, because /d1 is not formatted now: --add-scram"}},
		{"voters and users on a node of old", map[string]string{"/d1/meta.properties": v1 + "directory.id=" + idB},
			func(o *Options) {
				o.ClusterID, o.IgnoreFormatted, o.Scram = nil, true, alice
				o.Standalone, o.InitialControllers = false, ptr("1@c1:9093:"+idA)
			},
			[]string{"--add-scram (kafka-configs --alter --add-config adds users to a running cluster), --initial-controllers (it gives node 1 the directory id " + idA + ", but /d1 has " + idB + ")"}},
		{"the same voters again", map[string]string{"/d1/meta.properties": v1 + "directory.id=" + idA, "/d2/meta.properties": v1},
			func(o *Options) {
				o.ClusterID, o.IgnoreFormatted = nil, true
				o.Standalone, o.InitialControllers = false, ptr("1@c1:9093:"+idA)
			}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := standaloneOptions("/d1", "/d2")
			o.ClusterID = ptr(otherID)
			tt.change(&o)
			p, err := newPlan(o, diskWith(t, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Warnings) != len(tt.want) {
				t.Fatalf("got %q, want %q", p.Warnings, tt.want)
			}
			for i, w := range tt.want {
				if !strings.Contains(p.Warnings[i], w) {
					t.Errorf("got %q, want %q", p.Warnings[i], w)
				}
			}
		})
	}
}

// The name of this host is what a voter with a wildcard is called; other than IPv6 addresses it can be anything.
func TestStandaloneEndpoint(t *testing.T) {
	o := standaloneOptions("/d1")
	o.ControllerListener.Host, o.ControllerListener.Name = "", "controller"
	p, err := newPlan(o, crashdisk.New())
	if err != nil || len(p.Voters) != 1 || p.Voters[0].Endpoints[0] != (checkpoint.Endpoint{Name: "CONTROLLER", Host: "c1", Port: 9093}) || p.Voters[0].DirectoryID != p.Format[0].DirectoryID {
		t.Errorf("got %+v, %v", p, err)
	}
	o.LocalHostName = func() string { return "fd00::1" }
	if _, err := newPlan(o, crashdisk.New()); !isA[*VoterError](err) {
		t.Errorf("got %v", err)
	}
	if name := LocalHostName(); name == "" || strings.HasSuffix(name, ".") {
		t.Errorf("this host is %q", name)
	}
}

// What is not given has a default.
func TestDefaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d1")
	o := standaloneOptions(dir)
	o.Random, o.Now, o.LocalHostName = nil, nil, nil
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("New writes")
	}
	if _, err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	e := metaprops.Load([]string{dir}, dir, nil)
	if id := e.Dirs[0].Properties.DirectoryID; e.Dirs[0].State != metaprops.Formatted || id == uuid.Nil || id != p.Voters[0].DirectoryID {
		t.Errorf("got %+v", e.Dirs[0])
	}
	if Hazards([]string{dir}) != nil {
		t.Error("a hazard where there is none")
	}
}

// A source of random bytes that has none stops the run, before anything is written.
func TestNothingRandom(t *testing.T) {
	cause := errors.New("no entropy")
	alice := []ScramArgument{NewScramArgument("SCRAM-SHA-256=[name=alice,password=x]")}
	for bytes := range 3*16 + 32 {
		o := standaloneOptions("/d1", "/d2")
		o.Scram = alice
		o.Random = &fewBytes{bytes, cause}
		d := crashdisk.New()
		p, err := newPlan(o, d)
		if err == nil {
			_, err = p.Apply()
		}
		if !errors.Is(err, cause) || d.Steps() != 0 {
			t.Errorf("%d bytes: %v, %d steps", bytes, err, d.Steps())
		}
	}
}

// fewBytes gives n bytes, which are not all alike, and then an error.
type fewBytes struct {
	n   int
	err error
}

func (r *fewBytes) Read(b []byte) (int, error) {
	for i := range b {
		if r.n == 0 {
			return i, r.err
		}
		b[i] = byte(r.n * 37)
		r.n--
	}
	return len(b), nil
}
