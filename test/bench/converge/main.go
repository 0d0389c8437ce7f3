// Command converge measures how 10,000 subscriptions come to life and are kept
// through a month of trouble, in fake time: the benchmark group "converge". It
// prints one figure per line: name, value, unit.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/graphsubd/graphsubd/test/harness"
)

func main() { os.Exit(harness.Main(run)) }

// run prints the figures of the test that plays it. Fake time makes them
// figures of the design and not of the machine, so one round is enough.
func run(t harness.T) {
	command := exec.CommandContext(t.Context(), "go", "test", "./internal/renewal", "-tags", "bench", "-run", "^TestConverge$", "-timeout", "2h", "-v")
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	figures := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		switch words := strings.Fields(line); {
		case len(words) == 3 && strings.Contains(words[0], "_"):
			fmt.Println(line)
			figures++
		default:
			t.Logf("%s", line)
		}
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	const all = 10
	if figures != all {
		t.Fatalf("%d figures, want %d", figures, all)
	}
	harness.Figure("cpus", float64(runtime.NumCPU()), "count")
	harness.Figure("rounds", 1, "count")
	harness.Figure("spread", 1, "ratio")
}
