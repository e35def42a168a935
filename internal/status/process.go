package status

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Process is what the operating system and Go's runtime say of this process. -1: they don't.
type Process struct {
	CPUSeconds    float64
	ResidentBytes float64
	VirtualBytes  float64
	OpenFiles     float64
	MaxFiles      float64
	GoVersion     string
	Goroutines    float64
	HeapBytes     float64 // of objects, also those that are not yet collected
	RuntimeBytes  float64 // all that the runtime has from the operating system
	Collections   float64 // of garbage
}

// readProcess stops the goroutines for some microseconds, as ReadMemStats does. The package runtime/metrics needs no such stop,
// but costs each start of the program a tenth of a millisecond.
func readProcess() Process {
	p := Process{ResidentBytes: -1, VirtualBytes: -1, OpenFiles: -1, MaxFiles: -1, CPUSeconds: -1, GoVersion: runtime.Version()}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		p.CPUSeconds = seconds(usage.Utime) + seconds(usage.Stime)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		p.MaxFiles = float64(limit.Cur)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if pages := strings.Fields(string(text)); len(pages) > 1 {
			p.VirtualBytes, p.ResidentBytes = pageBytes(pages[0]), pageBytes(pages[1])
		}
	}
	if folder, err := os.Open("/proc/self/fd"); err == nil {
		if names, err := folder.Readdirnames(-1); err == nil {
			p.OpenFiles = float64(len(names) - 1) // without that of the folder
		}
		folder.Close()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	p.Goroutines, p.HeapBytes, p.RuntimeBytes, p.Collections = float64(runtime.NumGoroutine()), float64(memory.HeapAlloc), float64(memory.Sys), float64(memory.NumGC)
	return p
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func pageBytes(pages string) float64 {
	n, err := strconv.ParseFloat(pages, 64)
	if err != nil {
		return -1
	}
	return n * float64(os.Getpagesize())
}
