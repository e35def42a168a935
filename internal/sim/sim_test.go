package sim

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedFlag     = flag.Int64("seed", -1, "run this seed alone")
	seedsFlag    = flag.Int("seeds", 3*len(scenarios), "run so many seeds, spread over all scenarios")
	firstFlag    = flag.Int64("first", 0, "the first of the seeds")
	durationFlag = flag.Duration("duration", 0, "run seeds until this time is over, instead of a number of them")
	logFlag      = flag.String("log", "", "write what happens with -seed to this file")
)

// total counts what all runs came to.
var total struct{ seeds, events, violations atomic.Int64 }

func TestMain(m *testing.M) {
	flag.Parse()
	// All scenarios share the processors, so that they end together.
	must(flag.Set("test.parallel", strconv.Itoa(len(scenarios))))
	if *durationFlag > 0 {
		must(flag.Set("test.timeout", "0"))
	}
	begin := time.Now()
	code := m.Run()
	if n := total.seeds.Load(); n > 0 {
		seconds := time.Since(begin).Seconds()
		fmt.Printf("%d seeds, %d events, %.0f events/s, %d violations\n", n, total.events.Load(), float64(total.events.Load())/seconds, total.violations.Load())
	}
	os.Exit(code)
}

// TestSim runs each scenario with its share of the seeds: seed i belongs to scenario i modulo their number.
func TestSim(t *testing.T) {
	deadline := time.Now().Add(*durationFlag)
	for i, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if *seedFlag >= 0 {
				runSeed(t, s, uint64(*seedFlag), logFile(t))
				return
			}
			t.Parallel()
			more := func(seed int64) bool { return seed < *firstFlag+int64(*seedsFlag) }
			if *durationFlag > 0 {
				more = func(int64) bool { return time.Now().Before(deadline) }
			}
			for seed := *firstFlag + int64(i); more(seed); seed += int64(len(scenarios)) {
				runSeed(t, s, uint64(seed), nil)
			}
		})
	}
}

// TestSeeds runs the seeds that once failed: the files of testdata/seeds, named by scenario, have one a line, and what was wrong.
func TestSeeds(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("testdata", "seeds", s.name))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(data)) {
				number, _, _ := strings.Cut(strings.TrimSpace(line), " ")
				seed, err := strconv.ParseUint(number, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				runSeed(t, s, seed, nil)
			}
		})
	}
}

// runSeed makes a run twice.
func runSeed(t *testing.T, s *scenario, seed uint64, log io.Writer) {
	t.Helper()
	r := run(s, seed, tamper{}, log)
	again := run(s, seed, tamper{}, nil)
	total.seeds.Add(1)
	total.events.Add(int64(r.events + again.events))
	if r.violation == "" && (r.trace != again.trace || r.events != again.events) {
		r.violation = fmt.Sprintf("two runs differ: %d events with trace %x, %d with %x", r.events, r.trace, again.events, again.trace)
	}
	if r.violation != "" {
		total.violations.Add(1)
		t.Errorf("replay: go test ./internal/sim -run 'TestSim/%s$' -seed=%d\n%s", s.name, seed, r.violation)
	}
}

func logFile(t *testing.T) io.Writer {
	if *logFlag == "" {
		return nil
	}
	f, err := os.Create(*logFlag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestQueueIsInOrderOfTimeAndArrival(t *testing.T) {
	var q queue
	var got []int
	for i := range 1000 {
		q.add(micros(i*7919%10), func() { got = append(got, i*7919%10*1000+i) })
	}
	for len(q.heap) > 0 {
		q.next().run()
	}
	if !slices.IsSorted(got) || len(got) != 1000 {
		t.Error(got)
	}
}

func TestScenariosDoWhatTheyAreFor(t *testing.T) {
	var did counts
	for _, s := range scenarios {
		for seed := range uint64(8) {
			did.add(run(s, seed, tamper{}, nil).did)
		}
	}
	t.Logf("%+v", did)
	v := reflect.ValueOf(did)
	for i := range v.NumField() {
		if v.Field(i).Int() == 0 {
			t.Errorf("no %s", v.Type().Field(i).Name)
		}
	}
}

func TestRunsWithOtherSeedsDiffer(t *testing.T) {
	var a, b bytes.Buffer
	if x, y := run(scenarios[0], 1, tamper{}, &a), run(scenarios[0], 2, tamper{}, &b); x.trace == y.trace || bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two seeds, one run")
	}
}
