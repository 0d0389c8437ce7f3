package test_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func httpListener(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

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
	sim := startSimulator(t, "--time-scale", "7200")
	service := newService(t, sim, 3)
	process := service.start()
	eventually(t, 20*time.Second, func() error { return want("live", sim.counts().Live, 3) })
	sim.control(http.MethodPost, "notify", map[string]any{"count": 20}, nil)
	eventually(t, 20*time.Second, func() error { return want("events", len(service.events()), 60) })

	removed := sim.live()[0]
	sim.control(http.MethodPost, "subscriptions/"+removed.ID+"/remove", nil, nil)
	eventually(t, 20*time.Second, func() error {
		c := sim.counts()
		return errors.Join(want("created", c.Created, 4), want("live", c.Live, 3))
	})
	eventually(t, 20*time.Second, func() error {
		if c := sim.counts(); c.Renewed < 3 {
			return fmt.Errorf("%d renewals, want 3", c.Renewed)
		}
		return nil
	})
	if c := sim.counts(); c.Expired != 0 || c.Acknowledged != c.Sent {
		t.Errorf("counts %+v", c)
	}
	took, code := process.terminate()
	if took > time.Second || code != 0 {
		t.Errorf("an idle process ended after %v with code %d", took, code)
	}
	var gaps []string
	for _, event := range service.lines("notices.jsonl") {
		if kind, _ := event["type"].(string); strings.HasPrefix(kind, "io.graphsubd.gap.") {
			gaps = append(gaps, kind)
		}
	}
	if strings.Join(gaps, " ") != "io.graphsubd.gap.opened io.graphsubd.gap.closed" {
		t.Errorf("gap events %v", gaps)
	}
	for _, secret := range []string{"anything", strings.Repeat("k", 40), "validationToken"} {
		if strings.Contains(process.logged(), secret) {
			t.Errorf("the log holds a secret: %q", secret)
		}
	}
}

func TestStopUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t, "--time-scale", "60")
	service := newService(t, sim, 3)
	process := service.start()
	eventually(t, 20*time.Second, func() error { return want("live", sim.counts().Live, 3) })
	sim.control(http.MethodPost, "notify", map[string]any{"count": 2000}, nil)
	eventually(t, 20*time.Second, func() error {
		if c := sim.counts(); c.Acknowledged < 200 {
			return fmt.Errorf("%d acknowledged", c.Acknowledged)
		}
		return nil
	})
	took, code := process.terminate()
	if took > 5*time.Second || code != 0 {
		t.Errorf("a busy process ended after %v with code %d", took, code)
	}
	service.start()
	eventually(t, 60*time.Second, func() error { return want("queued", sim.counts().Queued, 0) })
	acknowledged := sim.counts().Acknowledged
	eventually(t, 60*time.Second, func() error { return want("events", len(service.events()), acknowledged) })
	if c := sim.counts(); c.Created != 3 || c.Sent != 6000 {
		t.Errorf("counts %+v", c)
	}
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: the demo takes 30 s")
	}
	t.Parallel()
	p := start(t, "demo", "--for", "30s", "-o", "json")
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("demo ended with code %d:\n%s", code, p.logged())
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	sim := startSimulator(t, "--time-scale", "60")
	service := newService(t, sim, 2)
	process := service.start()
	eventually(t, 20*time.Second, func() error { return want("live", sim.counts().Live, 2) })

	service.rewrite("users/u1/messages", "users/u1/events")
	eventually(t, 20*time.Second, func() error {
		c := sim.counts()
		return errors.Join(want("created", c.Created, 3), want("deleted", c.Deleted, 1), want("live", c.Live, 2))
	})

	service.rewrite("tenant: contoso, resource: users/u0", "tenant: contsoo, resource: users/u0")
	eventually(t, 20*time.Second, func() error { return service.metric("config_reload_success", "0") })
	if log := process.logged(); !strings.Contains(log, "contsoo") || !strings.Contains(log, "graphsubd.yaml:") {
		t.Errorf("the log does not say what is wrong:\n%s", log)
	}
	service.rewrite("tenant: contsoo", "tenant: contoso")
	eventually(t, 20*time.Second, func() error { return service.metric("config_reload_success", "1") })

	service.rewrite("instance: test", "instance: other")
	eventually(t, 20*time.Second, func() error { return service.metric("config_reload_success", "0") })
	if log := process.logged(); !strings.Contains(log, "restart needed: instance changed") {
		t.Errorf("the log does not ask for a restart:\n%s", log)
	}
	if c := sim.counts(); c.Live != 2 || c.Created != 3 || c.Deleted != 1 {
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
	sim := startSimulator(t, "--time-scale", "7200", "--seed", fmt.Sprint(seed%1000+1))
	service := newService(t, sim, wishes)
	for range 20 {
		process := service.start()
		moment := time.Duration(random.IntN(1200)) * time.Millisecond
		for began := time.Now(); time.Since(began) < moment; {
			if sim.counts().Live > 0 {
				sim.control(http.MethodPost, "notify", map[string]any{"count": 3}, nil)
			}
			<-time.After(50 * time.Millisecond)
		}
		process.kill()
	}
	service.start()
	eventually(t, 60*time.Second, func() error {
		c := sim.counts()
		return errors.Join(want("live", c.Live, wishes), want("queued", c.Queued, 0))
	})
	c := sim.counts()
	eventually(t, 60*time.Second, func() error {
		if missing := c.Acknowledged - len(service.events()); missing > 0 {
			return fmt.Errorf("%d of %d acknowledged are missing", missing, c.Acknowledged)
		}
		return nil
	})
	resources := map[string]int{}
	for _, sub := range sim.live() {
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
