package test_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// Two processes on one PostgreSQL share the work, and when the leader is
// replaced under load the other leads, and nothing acknowledged is missed.
func TestTwoReplicasOnPostgres(t *testing.T) {
	t.Parallel()
	server, err := postgres.Use(t.Context())
	if errors.Is(err, postgres.ErrMissing) && testing.Short() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	sim := harness.StartSimulator(t, "--time-scale", "60")
	address, lease := server.Schema(t), filepath.Join(t.TempDir(), "lease")
	var services [2]*harness.Service
	for i := range services {
		s := harness.NewService(t, sim, 3)
		s.Put("database.url", []byte(address))
		s.Rewrite("sqlite: {path: data/graphsubd.db}}", fmt.Sprintf("postgres: {url: {file: database.url}}}\nlease: {file: {path: %s, single: true}}", lease))
		services[i] = s
	}
	first, second := services[0], services[1]
	second.Rewrite("publicURL: http://"+second.Public, "publicURL: http://"+first.Public)
	leader := first.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 3) })
	follower := second.Start()
	harness.Eventually(t, 20*time.Second, func() error { return second.Metric("leader{election=\"test\"}", "0") })

	sim.Control(http.MethodPost, "notify", map[string]any{"count": 1000}, nil)
	harness.Eventually(t, 20*time.Second, func() error {
		if c := sim.Counts(); c.Acknowledged < 200 {
			return fmt.Errorf("%d acknowledged", c.Acknowledged)
		}
		return nil
	})
	if _, code := leader.Terminate(); code != 0 {
		t.Errorf("the leader ended with code %d", code)
	}
	harness.Eventually(t, 20*time.Second, func() error { return second.Metric("leader{election=\"test\"}", "1") })
	first.Start()
	harness.Eventually(t, 60*time.Second, func() error { return want("queued", sim.Counts().Queued, 0) })
	acknowledged := sim.Counts().Acknowledged
	// A claim that was under way when its process ended is free after a minute.
	harness.Eventually(t, 120*time.Second, func() error {
		events := first.Events()
		for id, times := range second.Events() {
			events[id] += times
		}
		return want("events", len(events), acknowledged)
	})
	if c := sim.Counts(); c.Created != 3 || c.Live != 3 {
		t.Errorf("counts %+v", c)
	}
	if _, code := follower.Terminate(); code != 0 {
		t.Errorf("the follower ended with code %d", code)
	}
}
