// Command failover measures how long nobody leads: the benchmark group
// "failover". It prints one figure per line: name, value, unit.
package main

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/graphsubd/graphsubd/test/controlplane"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
	"github.com/graphsubd/graphsubd/test/replicas"
)

// Rounds of each kind; a crash costs more than a minute.
const (
	gracefulRounds = 9
	crashRounds    = 3
)

func main() { os.Exit(harness.Main(run)) }

func run(t harness.T) {
	plane := controlplane.Start(t)
	server, err := postgres.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	set := replicas.Start(t, plane, server, "failover", replicas.Options{Replicas: 3, Subscriptions: 10, Chart: "deploy/helm/graphsubd"})
	leader := set.Lead(replicas.Crash)
	var graceful, crash []float64
	for i := range gracefulRounds + crashRounds {
		began := time.Now()
		if i < gracefulRounds {
			leader.Process.Ask()
		} else {
			leader.Process.Kill()
		}
		heir := leader
		harness.Eventually(t, replicas.Crash+10*time.Second, func() error {
			if heir = set.Leader(); heir == nil || heir == leader {
				return errors.New("nobody else leads")
			}
			return nil
		})
		took := time.Since(began).Seconds()
		<-leader.Process.Done
		if i < gracefulRounds {
			graceful = append(graceful, took)
		} else {
			crash = append(crash, took)
		}
		set.Restart(leader)
		leader = heir
	}
	set.TermsInOrder()
	harness.Figure("failover_graceful_s", harness.Median(graceful), "s")
	harness.Figure("failover_graceful_max_s", slices.Max(graceful), "s")
	harness.Figure("failover_crash_s", harness.Median(crash), "s")
	harness.Figure("failover_crash_max_s", slices.Max(crash), "s")
	harness.Figure("lease_duration_s", replicas.Duration.Seconds(), "s")
	harness.Figure("lease_renew_deadline_s", replicas.RenewDeadline.Seconds(), "s")
	harness.Figure("lease_retry_period_s", replicas.RetryPeriod.Seconds(), "s")
	harness.Figure("cpus", float64(runtime.NumCPU()), "count")
	harness.Figure("rounds", gracefulRounds+crashRounds, "count")
	harness.Figure("spread", harness.Spread(crash), "ratio")
}
