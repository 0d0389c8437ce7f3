package harness

import (
	"fmt"
	"slices"
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
