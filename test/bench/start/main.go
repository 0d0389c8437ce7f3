// Command start measures how graphsubd starts and stops as a process: the
// benchmark group "start". It prints one figure per line: name, value, unit.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// rounds is how often everything is measured; medians are printed.
const rounds = 7

func main() { os.Exit(harness.Main(run)) }

func run(t harness.T) {
	sim := harness.StartSimulator(t, "--time-scale", "60")
	var ready, rss, idle, busy []float64
	for range rounds {
		service := harness.NewService(t, sim, 3)
		before := sim.Counts().Live
		began := time.Now()
		process := service.Start()
		harness.Eventually(t, 20*time.Second, func() error { return isReady(service) })
		ready = append(ready, time.Since(began).Seconds())
		harness.Eventually(t, 20*time.Second, func() error { return live(sim, before+3) })
		rss = append(rss, harness.ResidentMB(t, process))
		took, code := process.Terminate()
		if code != 0 {
			t.Fatalf("an idle process ended with code %d", code)
		}
		idle = append(idle, took.Seconds())

		process = service.Start()
		harness.Eventually(t, 20*time.Second, func() error { return isReady(service) })
		acknowledged := sim.Counts().Acknowledged
		for _, sub := range sim.Live()[before:] {
			sim.Control(http.MethodPost, "notify", map[string]any{"id": sub.ID, "count": 3000}, nil)
		}
		harness.Eventually(t, 20*time.Second, func() error {
			if sim.Counts().Acknowledged < acknowledged+500 {
				return fmt.Errorf("no load yet")
			}
			return nil
		})
		took, code = process.Terminate()
		if code != 0 {
			t.Fatalf("a busy process ended with code %d", code)
		}
		busy = append(busy, took.Seconds())
		for _, sub := range sim.Live() {
			sim.Control(http.MethodPost, "subscriptions/"+sub.ID+"/remove", nil, nil)
		}
	}
	info, err := os.Stat(harness.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	harness.Figure("start_ready_s", harness.Median(ready), "s")
	harness.Figure("start_rss_mb", harness.Median(rss), "MiB")
	harness.Figure("binary_mb", float64(info.Size())/(1<<20), "MiB")
	harness.Figure("stop_idle_s", harness.Median(idle), "s")
	harness.Figure("stop_busy_s", harness.Median(busy), "s")
	harness.Figure("cpus", float64(runtime.NumCPU()), "count")
	harness.Figure("rounds", rounds, "count")
	harness.Figure("spread", harness.Spread(ready), "ratio")
}

func isReady(service *harness.Service) error {
	status, page, err := service.Telemetry("/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("not ready: %s", page)
	}
	return err
}

func live(sim *harness.Simulator, wanted int) error {
	if n := sim.Counts().Live; n != wanted {
		return fmt.Errorf("%d live, want %d", n, wanted)
	}
	return nil
}
