// Command plan measures how long it takes to decide about 100,000 records, and
// what the loop keeps of each: the benchmark group "plan".
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/graphsubd/graphsubd/test/harness"
)

const rounds = 5

func main() { os.Exit(harness.Main(run)) }

func run(t harness.T) {
	figures := map[string][]float64{}
	for range rounds {
		command := exec.CommandContext(t.Context(), "go", "test", "./internal/renewal", "-run", "^$", "-bench", "^BenchmarkPlan$", "-benchtime", "10x", "-cpu", "1")
		command.Stderr = os.Stderr
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// BenchmarkPlan  10  5475828 ns/op  5.476 plan_100k_ms  1001 plan_bytes_per_record
		words := strings.Fields(string(out))
		for i, word := range words {
			if !strings.HasPrefix(word, "plan_") {
				continue
			}
			value, err := strconv.ParseFloat(words[i-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			figures[word] = append(figures[word], value)
		}
	}
	if len(figures) != 2 {
		t.Fatalf("the benchmark gave %v", figures)
	}
	fmt.Printf("plan_100k_ms %.3f ms\n", harness.Median(figures["plan_100k_ms"]))
	fmt.Printf("plan_bytes_per_record %.0f bytes\n", harness.Median(figures["plan_bytes_per_record"]))
	fmt.Printf("cpus %d count\n", runtime.NumCPU())
	fmt.Printf("rounds %d count\n", rounds)
	fmt.Printf("spread %.3f ratio\n", harness.Spread(figures["plan_100k_ms"]))
}
