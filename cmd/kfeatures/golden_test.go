package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kstorage/features"
	"kstorage/internal/wire"
)

const (
	goldenDir       = "../../testdata/golden/features"
	framesDir       = "../../testdata/golden/wire"
	differencesFile = "../../testdata/golden/DIFFERENCES.md"
)

// TestGolden runs what was recorded with kafka-features of Apache Kafka 4.4.0 and compares. Cases with a server have one that
// plays the frames of that run where they were recorded; for the others the answer is put together from what the recording
// prints, in frames of the same server, and what was asked for is compared with it. What differs on purpose is in
// DIFFERENCES.md; a case that is there must differ in just the parts that are named.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.txtar"))
	if err != nil || len(files) != 247 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	differences := readDifferences(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		on := differences[name]
		delete(differences, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readCase(t, name, file)
			got := c.run(t)
			differ := c.differences(got)
			parts := slices.Sorted(maps.Keys(differ))
			if slices.Equal(parts, on) {
				return
			}
			t.Errorf("differs in %v, DIFFERENCES.md says %v", parts, on)
			for _, part := range parts {
				t.Errorf("%s: %s", part, differ[part])
			}
			t.Logf("exit %d\nstdout:\n%s\nstderr:\n%s", got.exit, got.stdout, got.stderr)
		})
	}
	for name := range differences {
		t.Errorf("DIFFERENCES.md has features/%s, but there is no such recording", name)
	}
}

// readDifferences reads the rows of the table that are about these recordings: a case, the parts that differ, the reason.
func readDifferences(t *testing.T) map[string][]string {
	b, err := os.ReadFile(differencesFile)
	must(t, err)
	out := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `features/([^`]+)` \\| ([a-z, ]+) \\| (.+) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(b), -1) {
		out[m[1]] = slices.Sorted(slices.Values(strings.Split(m[2], ", ")))
	}
	return out
}

// goldenCase is a recording: what goes in, and what came out.
type goldenCase struct {
	name  string
	files map[string][]byte
}

func readCase(t *testing.T, name, file string) goldenCase {
	a, err := txtar.ParseFile(file)
	must(t, err)
	c := goldenCase{name: name, files: map[string][]byte{}}
	for _, f := range a.Files {
		c.files[f.Name] = f.Data
	}
	return c
}

func (c goldenCase) text(section string) string { return string(c.files[section]) }

func (c goldenCase) lines(section string) []string {
	if c.text(section) == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(c.text(section), "\n"), "\n")
}

// Ports of the recordings: a broker and a controller, if there is a server, and two at which nobody listens.
const (
	brokerPort, controllerPort = 21092, 21093
	firstDead, secondDead      = 21999, 21998
)

func (c goldenCase) run(t *testing.T) outcome {
	work := t.TempDir()
	var replace []string
	for _, port := range []int{firstDead, secondDead} {
		replace = append(replace, "127.0.0.1:"+strconv.Itoa(port), deadAddress(t))
	}
	var player *player
	if c.files["cluster/format"] != nil {
		player = newPlayer(t, c)
		replace = append(replace, "127.0.0.1:"+strconv.Itoa(brokerPort), player.broker.address(), "127.0.0.1:"+strconv.Itoa(controllerPort), player.controller.address())
	}
	in := strings.NewReplacer(append(replace, "$WORK", work)...)
	for name, data := range c.files {
		path := strings.TrimPrefix(name, "pre/")
		switch {
		case name == "client.properties":
			must(t, os.WriteFile(filepath.Join(work, path), []byte(in.Replace(string(data))), 0o644))
		case strings.HasPrefix(name, "pre/"):
			must(t, os.MkdirAll(filepath.Join(work, path), 0o755))
		}
	}
	for _, line := range c.lines("modes") {
		mode, path, _ := strings.Cut(line, " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		must(t, err)
		must(t, os.Chmod(filepath.Join(work, path), os.FileMode(bits)))
	}
	args := []string{}
	for _, arg := range c.lines("cmd") {
		args = append(args, in.Replace(arg))
	}
	got := call(map[string]string{"KFEATURES_RELEASE_VERSION": "4.4-IV2"}, args...)
	if player != nil {
		player.check(t)
	}
	return got
}

var (
	epoch     = regexp.MustCompile(`Epoch: \d+`)
	total     = regexp.MustCompile(`(?m)^\d+ out of \d+ operation\(s\) failed\.$`)
	sentences = regexp.MustCompile(`Command line error: (You must specify|unrecognized arguments: '--(bootstrap|command)).*`)
)

// differences compares the parts of an outcome with the recording.
func (c goldenCase) differences(got outcome) map[string]string {
	out := map[string]string{}
	differ := func(part, want, got string) {
		if want != got {
			out[part] = fmt.Sprintf("want\n%s\ngot\n%s", want, got)
		}
	}
	differ("exit", strings.TrimSpace(c.text("exit")), strconv.Itoa(got.exit))
	if strings.HasPrefix(c.text("stdout"), "usage: ") {
		differ("stdout", "a help text", map[bool]string{true: "a help text", false: got.stdout}[strings.Contains(got.stdout, "Usage:")])
	} else {
		differ("stdout", c.text("stdout"), epoch.ReplaceAllString(got.stdout, "Epoch: $$EPOCH"))
	}
	want := c.text("stderr")
	switch {
	case (strings.TrimSpace(want) == "") != (strings.TrimSpace(got.stderr) == ""):
		differ("stderr", want, got.stderr)
	case strings.Contains(got.stderr, "Exception") || strings.Contains(got.stderr, "goroutine "):
		out["stderr"] = "a stack trace"
	default:
		differ("stderr", total.FindString(want), total.FindString(got.stderr))
		if s := sentences.FindString(want); s != "" {
			differ("stderr", s, sentences.FindString(got.stderr))
		}
	}
	return out
}

// frame is a line of a recorded run.
type frame struct {
	Port          int    `json:"port"`
	Kind          string `json:"kind"`
	Key           int16  `json:"apiKey"`
	Version       int16  `json:"apiVersion"`
	CorrelationID int32  `json:"correlationId"`
	Hex           string `json:"hex"`
}

func readFrames(t testing.TB, name string) []frame {
	b, err := os.ReadFile(filepath.Join(framesDir, name+".jsonl"))
	if os.IsNotExist(err) {
		return nil
	}
	must(t, err)
	var out []frame
	for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n"))[1:] { // the first has the result
		var f frame
		must(t, json.Unmarshal(line, &f))
		out = append(out, f)
	}
	return out
}

func (f frame) bytes(t testing.TB) []byte {
	b, err := hex.DecodeString(f.Hex)
	must(t, err)
	return b
}

func (f frame) request(t testing.TB) kmsg.Request {
	_, q, err := wire.DecodeRequest(f.bytes(t))
	must(t, err)
	return q
}

func (f frame) response(t testing.TB) kmsg.Response {
	q := kmsg.RequestForKey(f.Key)
	q.SetVersion(f.Version)
	r, _, err := wire.DecodeResponse(q, f.bytes(t))
	must(t, err)
	return r
}

// player is a broker and a controller that answer as in a recorded run.
type player struct {
	c                  goldenCase
	broker, controller *fakeNode
	updates            []*kmsg.UpdateFeaturesRequest // recorded
	answers            map[int]map[int16]kmsg.Response
}

func newPlayer(t *testing.T, c goldenCase) *player {
	p := &player{c: c, answers: map[int]map[int16]kmsg.Response{brokerPort: {}, controllerPort: {}}}
	// What no run of the case has is as in these.
	for _, name := range []string{"live-44-describe", "live-44-describe-controller", "live-44-disable-controller", c.name} {
		for _, f := range readFrames(t, name) {
			switch {
			case f.Kind == "response":
				p.answers[f.Port][f.Key] = f.response(t)
			case f.Key == kmsg.UpdateFeatures.Int16() && name == c.name:
				p.updates = append(p.updates, f.request(t).(*kmsg.UpdateFeaturesRequest))
			}
		}
	}
	p.broker = startNode(t, &fakeNode{answer: func(q kmsg.Request) kmsg.Response { return p.answer(brokerPort, q) }})
	p.controller = startNode(t, &fakeNode{answer: func(q kmsg.Request) kmsg.Response { return p.answer(controllerPort, q) }})
	// The Java client asks brokers for Metadata where this one asks for the cluster.
	p.answers[brokerPort][kmsg.DescribeCluster.Int16()] = clusterAnswer(1, map[int32]int32{1: p.broker.port()})
	cluster := p.answers[controllerPort][kmsg.DescribeCluster.Int16()].(*kmsg.DescribeClusterResponse)
	for i := range cluster.Brokers {
		cluster.Brokers[i].Port = p.controller.port()
	}
	if len(readFrames(t, c.name)) == 0 {
		p.compose(t)
	}
	return p
}

func (p *player) answer(port int, q kmsg.Request) kmsg.Response {
	r := p.answers[port][q.Key()]
	if r == nil {
		return nil
	}
	return r
}

var (
	featureLine = regexp.MustCompile(`^Feature: (\S+) +SupportedMinVersion: (\S+) +SupportedMaxVersion: (\S+) +FinalizedVersionLevel: (\S+) +Epoch: .*$`)
	resultLine  = regexp.MustCompile(`^(?:(?:Could|Can) not (?:upgrade|downgrade|disable) )?(\S+?)(?: (?:was|can be) (?:upgraded|downgraded|disabled))?(?: to (-?\d+))?\.(?: (.*))?$`)
)

// compose makes the answer of a case whose frames were not recorded from what it prints.
func (p *player) compose(t testing.TB) {
	update := kmsg.NewPtrUpdateFeaturesResponse()
	update.ErrorMessage = kmsg.StringPtr("")
	for _, line := range p.c.lines("stdout") {
		if m := resultLine.FindStringSubmatch(line); m != nil && m[3] != "" {
			update.ErrorCode, update.ErrorMessage = kerr.InvalidUpdateVersion.Code, &m[3]
		}
	}
	for port := range p.answers {
		p.answers[port][kmsg.UpdateFeatures.Int16()] = update
		versions := p.answers[port][kmsg.ApiVersions.Int16()].(*kmsg.ApiVersionsResponse)
		versions.SupportedFeatures, versions.FinalizedFeatures = nil, nil
		for _, line := range slices.Concat(p.c.lines("stdout"), p.c.lines("describe")) {
			m := featureLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			versions.SupportedFeatures = append(versions.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: m[1], MinVersion: levelOf(t, m[2]), MaxVersion: levelOf(t, m[3])})
			if level := levelOf(t, m[4]); level != 0 {
				versions.FinalizedFeatures = append(versions.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: m[1], MinVersionLevel: level, MaxVersionLevel: level})
			}
		}
	}
}

func levelOf(t testing.TB, text string) int16 {
	if v, err := features.ParseVersion(text, true); err == nil {
		return int16(v)
	}
	n, err := strconv.ParseInt(text, 10, 16)
	must(t, err)
	return int16(n)
}

// check compares what was asked for with the recorded request, or if there is none with what the case prints.
func (p *player) check(t *testing.T) {
	for _, n := range []*fakeNode{p.broker, p.controller} {
		if n.asked(kmsg.Metadata) != nil {
			t.Error("it asks for Metadata")
		}
	}
	asked := append(p.broker.asked(kmsg.UpdateFeatures), p.controller.asked(kmsg.UpdateFeatures)...)
	var want []kmsg.UpdateFeaturesRequestFeatureUpdate
	validateOnly := slices.Contains(p.c.lines("cmd"), "--dry-run")
	if len(p.updates) > 0 {
		want, validateOnly = p.updates[0].FeatureUpdates, p.updates[0].ValidateOnly
	} else {
		for _, line := range p.c.lines("stdout") {
			m := resultLine.FindStringSubmatch(line)
			if m == nil || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "Feature:") {
				continue
			}
			u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			u.Feature, u.UpgradeType = m[1], p.upgradeType()
			if m[2] != "" {
				u.MaxVersionLevel = levelOf(t, m[2])
			}
			want = append(want, u)
		}
	}
	switch {
	case len(want) == 0 && len(asked) == 0:
		return
	case len(want) == 0 || len(asked) != 1:
		t.Fatalf("%d updates were asked for, %v is expected", len(asked), want)
	}
	got := asked[0].(*kmsg.UpdateFeaturesRequest)
	byName := func(a, b kmsg.UpdateFeaturesRequestFeatureUpdate) int { return cmp.Compare(a.Feature, b.Feature) }
	slices.SortFunc(want, byName)
	slices.SortFunc(got.FeatureUpdates, byName)
	if fmt.Sprint(want) != fmt.Sprint(got.FeatureUpdates) || got.ValidateOnly != validateOnly {
		t.Errorf("asked for %v, validate only %v; expected %v, %v", got.FeatureUpdates, got.ValidateOnly, want, validateOnly)
	}
}

func (p *player) upgradeType() int8 {
	cmd := p.c.lines("cmd")
	switch {
	case slices.Contains(cmd, "upgrade"):
		return 1
	case slices.Contains(cmd, "--unsafe"):
		return 3
	}
	return 2
}
