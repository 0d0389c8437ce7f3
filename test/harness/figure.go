package harness

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// Figure prints one figure of a benchmark.
func Figure(name string, value float64, unit string) { fmt.Printf("%s %.3f %s\n", name, value, unit) }

// Median gives the middle of some values, or the upper of two.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Spread is how far the slowest round was from the fastest, as a ratio.
func Spread(values []float64) float64 { return slices.Max(values) / slices.Min(values) }

// ResidentMB reads the resident memory of a process, in MiB.
func ResidentMB(t T, p *Process) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "VmRSS:" {
			kib, err := strconv.Atoi(string(fields[1]))
			if err != nil {
				t.Fatal(err)
			}
			return float64(kib) / 1024
		}
	}
	t.Fatal("the kernel does not tell the resident memory")
	return 0
}
