//go:build interop

package interop

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestDescribeFigures prints how long kfeatures and kafka-features take to describe the same controller of Kafka's, each in
// a process of its own: that of the latter with the JVM options of its script. Here it is alone; `make bench` holds the
// figures against their target.
func TestDescribeFigures(t *testing.T) {
	const rounds = 7
	n := newNode(t, t.TempDir(), 1, "controller", []string{"d1"})
	byKstorage.format(t, n.write(t, bootstrapServers(n)), "-r", "4.4-IV2", "-s")
	startServer(t, n).wait(t, started)
	args := append(controllerAdmin(n), "describe")
	classes := lab.classPath[len(filepath.Join(lab.scratch, "classes"))+1:]
	java := []string{"-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
		"-Djava.awt.headless=true", "-Dlog4j2.configurationFile=" + lab.logConfig, "-Dinterop.log.level=warn", "-cp", classes, featureTool}
	var samples [2][]time.Duration
	for range 1 + rounds {
		for program, command := range [][]string{append([]string{lab.kfeatures}, args...), slices.Concat([]string{"java"}, java, args)} {
			ctx, cancel := context.WithTimeout(t.Context(), toolLimit)
			began := time.Now()
			out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
			samples[program] = append(samples[program], time.Since(began))
			if cancel(); err != nil {
				t.Fatalf("%q: %v\n%s", command, err, out)
			}
		}
	}
	var medians [2]time.Duration
	for program, s := range samples {
		s = s[1:] // the first time the files are read from the disk
		slices.Sort(s)
		medians[program] = s[rounds/2]
	}
	t.Logf("describe, median of %d: kfeatures %v, kafka-features %v, %.0f times", rounds,
		medians[0].Round(100*time.Microsecond), medians[1].Round(time.Millisecond), float64(medians[1])/float64(medians[0]))
}
