//go:build interop

package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// way is how kfeatures and kafka-features reach a cluster.
type way struct {
	name string
	args []string // in front of the command
}

func toBroker(n *node) way {
	return way{fmt.Sprintf("broker %d", n.id), []string{"--bootstrap-server", n.brokerAddress()}}
}

func toControllers(nodes ...*node) way { return way{"controllers", controllerAdmin(nodes...)} }

// step is a call that kfeatures and kafka-features make one after the other, with the same result: what is as it shall
// be is done once more without a complaint.
type step struct {
	way     way
	command string // with blanks between the arguments
	exit    int
	want    string // is in the text
	after   string // levels that both show then, NAME=LEVEL with blanks between them
}

// play makes the calls of steps. The two tools take turns in who is the first.
func play(t *testing.T, steps ...step) {
	t.Helper()
	for i, s := range steps {
		args := slices.Concat(s.way.args, strings.Fields(s.command))
		theirs := func() result { return kafkaTool(t, featureTool, args...) }
		ours := func() result { return kfeatures(t, args...) }
		var want, got result
		if i%2 == 0 {
			got, want = ours(), theirs()
		} else {
			want, got = theirs(), ours()
		}
		checkSame(t, got, want)
		if want.exit != s.exit || !strings.Contains(want.stdout, s.want) {
			t.Errorf("%s: want exit %d and %q: %s", s.way.name, s.exit, s.want, want)
		}
		if s.after != "" {
			checkLevels(t, s.way, s.after)
		}
	}
}

// checkLevels waits until a cluster shows levels, since a broker hears of them a moment later, and lets both tools
// describe it.
func checkLevels(t *testing.T, w way, levels string) {
	t.Helper()
	args := append(slices.Clone(w.args), "describe")
	var got result
	eventually(t, "the levels by "+w.name, func() error {
		got = kfeatures(t, args...)
		for _, level := range strings.Fields(levels) {
			name, value, _ := strings.Cut(level, "=")
			if !regexp.MustCompile(`(?m)^Feature: ` + name + ` .*FinalizedVersionLevel: ` + value + ` `).MatchString(got.stdout) {
				return fmt.Errorf("%s should be at %s: %s", name, value, got)
			}
		}
		return nil
	})
	checkSame(t, got, kafkaTool(t, featureTool, args...))
}

var (
	slow   = regexp.MustCompile(`(?m)^(kfeatures: )?waiting (for|up to) .*\n`) // what kfeatures tells a person in the meantime
	epoch  = regexp.MustCompile(`(?m)Epoch: \d+$`)
	failed = regexp.MustCompile(`(?m)^\d+ out of \d+ operation\(s\) failed\.$`)
)

// checkSame compares what kfeatures did with what kafka-features did.
func checkSame(t *testing.T, ours, theirs result) {
	t.Helper()
	got, want := epoch.ReplaceAllString(ours.stdout, "Epoch: _"), epoch.ReplaceAllString(theirs.stdout, "Epoch: _")
	// Levels that Kafka doesn't know have no name there.
	want = strings.ReplaceAll(want, "UNKNOWN 35 ", "4.5-IV1    ")
	if ours.exit != theirs.exit || got != want || (slow.ReplaceAllString(ours.stderr, "") == "") != (theirs.stderr == "") ||
		failed.FindString(ours.stderr) != failed.FindString(theirs.stderr) {
		t.Errorf("the tools don't agree:\n%s\n%s", ours, theirs)
	}
}
