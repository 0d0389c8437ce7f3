package test_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// want is an error unless got is what is waited for.
func want(what string, got, wanted int) error {
	if got != wanted {
		return fmt.Errorf("%s is %d, want %d", what, got, wanted)
	}
	return nil
}

func TestServeKeepsAliveReceivesAndDelivers(t *testing.T) {
	t.Parallel()
	// Twelve hours pass in six seconds.
	sim := harness.StartSimulator(t, "--time-scale", "7200")
	service := harness.NewService(t, sim, 3)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 3) })
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 20}, nil)
	harness.Eventually(t, 20*time.Second, func() error { return want("events", len(service.Events()), 60) })

	removed := sim.Live()[0]
	sim.Control(http.MethodPost, "subscriptions/"+removed.ID+"/remove", nil, nil)
	harness.Eventually(t, 20*time.Second, func() error {
		c := sim.Counts()
		return errors.Join(want("created", c.Created, 4), want("live", c.Live, 3))
	})
	harness.Eventually(t, 20*time.Second, func() error {
		if c := sim.Counts(); c.Renewed < 3 {
			return fmt.Errorf("%d renewals, want 3", c.Renewed)
		}
		return nil
	})
	if c := sim.Counts(); c.Expired != 0 || c.Acknowledged != c.Sent {
		t.Errorf("counts %+v", c)
	}
	took, code := process.Terminate()
	if took > time.Second || code != 0 {
		t.Errorf("an idle process ended after %v with code %d", took, code)
	}
	var gaps []string
	for _, event := range service.Lines("notices.jsonl") {
		if kind, _ := event["type"].(string); strings.HasPrefix(kind, "io.graphsubd.gap.") {
			gaps = append(gaps, kind)
		}
	}
	if strings.Join(gaps, " ") != "io.graphsubd.gap.opened io.graphsubd.gap.closed" {
		t.Errorf("gap events %v", gaps)
	}
	for _, secret := range []string{harness.ClientSecret, harness.SigningKey, "validationToken"} {
		if strings.Contains(process.Logged(), secret) {
			t.Errorf("the log holds a secret: %q", secret)
		}
	}
}

func TestStopUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 3)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 3) })
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 2000}, nil)
	harness.Eventually(t, 20*time.Second, func() error {
		if c := sim.Counts(); c.Acknowledged < 200 {
			return fmt.Errorf("%d acknowledged", c.Acknowledged)
		}
		return nil
	})
	took, code := process.Terminate()
	if took > 5*time.Second || code != 0 {
		t.Errorf("a busy process ended after %v with code %d", took, code)
	}
	service.Start()
	harness.Eventually(t, 60*time.Second, func() error { return want("queued", sim.Counts().Queued, 0) })
	acknowledged := sim.Counts().Acknowledged
	harness.Eventually(t, 60*time.Second, func() error { return want("events", len(service.Events()), acknowledged) })
	if c := sim.Counts(); c.Created != 3 || c.Sent != 6000 {
		t.Errorf("counts %+v", c)
	}
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: the demo takes 30 s")
	}
	t.Parallel()
	p := harness.Start(t, "demo", "--for", "30s", "-o", "json")
	<-p.Done
	if code := p.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("demo ended with code %d:\n%s", code, p.Logged())
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 2)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 2) })

	service.Rewrite("users/u1/messages", "users/u1/events")
	harness.Eventually(t, 20*time.Second, func() error {
		c := sim.Counts()
		return errors.Join(want("created", c.Created, 3), want("deleted", c.Deleted, 1), want("live", c.Live, 2))
	})

	service.Rewrite("tenant: contoso, resource: users/u0", "tenant: contsoo, resource: users/u0")
	harness.Eventually(t, 20*time.Second, func() error { return service.Metric("config_reload_success", "0") })
	if log := process.Logged(); !strings.Contains(log, "contsoo") || !strings.Contains(log, "graphsubd.yaml:") {
		t.Errorf("the log does not say what is wrong:\n%s", log)
	}
	service.Rewrite("tenant: contsoo", "tenant: contoso")
	harness.Eventually(t, 20*time.Second, func() error { return service.Metric("config_reload_success", "1") })

	service.Rewrite("instance: test", "instance: other")
	harness.Eventually(t, 20*time.Second, func() error { return service.Metric("config_reload_success", "0") })
	if log := process.Logged(); !strings.Contains(log, "restart needed: instance changed") {
		t.Errorf("the log does not ask for a restart:\n%s", log)
	}
	if c := sim.Counts(); c.Live != 2 || c.Created != 3 || c.Deleted != 1 {
		t.Errorf("a refused configuration changed something: %+v", c)
	}
}

// TestKilledTwentyTimes kills the process at random moments, while it creates,
// renews and receives, and starts it again on the same store.
func TestKilledTwentyTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: twenty restarts take a while")
	}
	t.Parallel()
	const wishes = 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	sim := harness.StartSimulator(t, "--time-scale", "7200", "--seed", fmt.Sprint(seed%1000+1))
	service := harness.NewService(t, sim, wishes)
	for range 20 {
		process := service.Start()
		moment := time.Duration(random.IntN(1200)) * time.Millisecond
		for began := time.Now(); time.Since(began) < moment; {
			if sim.Counts().Live > 0 {
				sim.Control(http.MethodPost, "notify", map[string]any{"count": 3}, nil)
			}
			<-time.After(50 * time.Millisecond)
		}
		process.Kill()
	}
	service.Start()
	harness.Eventually(t, 60*time.Second, func() error {
		c := sim.Counts()
		return errors.Join(want("live", c.Live, wishes), want("queued", c.Queued, 0))
	})
	c := sim.Counts()
	harness.Eventually(t, 60*time.Second, func() error {
		if missing := c.Acknowledged - len(service.Events()); missing > 0 {
			return fmt.Errorf("%d of %d acknowledged are missing", missing, c.Acknowledged)
		}
		return nil
	})
	resources := map[string]int{}
	for _, sub := range sim.Live() {
		resources[sub.Resource]++
	}
	if len(resources) != wishes {
		t.Errorf("live are %v: not one for each wish", resources)
	}
	// A create is needed for each wish, and for each that expired while
	// nothing ran; none besides.
	if needed := wishes + c.Expired; c.Created != needed || c.Acknowledged == 0 {
		t.Errorf("%d creates for %d wishes and %d expired; %d acknowledged", c.Created, wishes, c.Expired, c.Acknowledged)
	}
	t.Logf("killed 20 times: %d created, %d renewed, %d expired, %d acknowledged, all delivered", c.Created, c.Renewed, c.Expired, c.Acknowledged)
}

// TestRemovedSink renames a sink that takes nothing while much waits for it:
// what waited becomes dead letters, and receiving goes on.
func TestRemovedSink(t *testing.T) {
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 2)
	service.Rewrite("{name: archive, events: [changes], file: {path: changes.jsonl}}", "{name: broken, events: [changes], file: {path: missing/changes.jsonl}}")
	service.Rewrite("sinks: [archive, notices]", "sinks: [broken, notices]")
	service.Rewrite("store: {sqlite: {path: data/graphsubd.db}}", "store: {sqlite: {path: data/graphsubd.db}, maxBacklog: {rows: 30}}")
	service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 10}, nil)
	harness.Eventually(t, 20*time.Second, func() error { return want("acknowledged", sim.Counts().Acknowledged, 20) })

	service.Rewrite("{name: broken, events: [changes], file: {path: missing/changes.jsonl}}", "{name: archive, events: [changes], file: {path: changes.jsonl}}")
	service.Rewrite("sinks: [broken, notices]", "sinks: [archive, notices]")
	harness.Eventually(t, 60*time.Second, func() error { return service.Metric(`dead_letters{sink="broken"}`, "20") })
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 5}, nil)
	harness.Eventually(t, 60*time.Second, func() error { return want("events", len(service.Events()), 10) })
}

// TestLostSigningKey starts with another key than before: nothing is written
// until the former key is back or a person has said so.
func TestLostSigningKey(t *testing.T) {
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 2)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	process.Terminate()

	service.Put("signing.key", []byte("another-signing-key-0123456789abcdefghijkl"))
	process = service.Start()
	says(t, process, "none of the configured signing keys", "--accept-new-keys")
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 1}, nil)
	harness.Eventually(t, 20*time.Second, func() error { return want("queued", sim.Counts().Queued, 2) })
	process.Terminate()
	if c := sim.Counts(); c.Created != 2 || c.Deleted != 0 || c.Acknowledged != 0 {
		t.Errorf("counts %+v", c)
	}

	service.Put("signing.key", []byte(harness.SigningKey))
	process = service.Start()
	harness.Eventually(t, 60*time.Second, func() error { return want("acknowledged", sim.Counts().Acknowledged, 2) })
	process.Terminate()

	service.Put("signing.key", []byte("another-signing-key-0123456789abcdefghijkl"))
	service.Start("--accept-new-keys")
	harness.Eventually(t, 60*time.Second, func() error {
		c := sim.Counts()
		return errors.Join(want("created", c.Created, 4), want("deleted", c.Deleted, 2), want("live", c.Live, 2))
	})
}
