package test_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// says waits until the process has logged all of the words, and is alive.
func says(t *testing.T, p *harness.Process, words ...string) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, func() error {
		for _, word := range words {
			if !strings.Contains(p.Logged(), word) {
				return errors.New("the log does not say " + word)
			}
		}
		return nil
	})
	select {
	case <-p.Done:
		t.Fatal("the process has ended")
	default:
	}
}

// TestTrouble starts the process into each kind of trouble: it stays up, says
// what is wrong and what to do, and goes on by itself when that is mended.
func TestTrouble(t *testing.T) {
	t.Parallel()
	t.Run("token refused", func(t *testing.T) {
		t.Parallel()
		sim := harness.StartSimulator(t, "--time-scale", "60")
		sim.Control(http.MethodPost, "faults", map[string]any{
			"match": "POST /*/oauth2/v2.0/token", "status": 401, "times": -1,
			"body": map[string]any{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided.", "error_codes": []int{7000215}},
		}, nil)
		process := harness.NewService(t, sim, 2).Start()
		says(t, process, `"reason":"unauthorized"`, "AADSTS7000215", "check the client secret")
		sim.Control(http.MethodDelete, "faults", nil, nil)
		harness.Eventually(t, 60*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	})
	t.Run("other cloud", func(t *testing.T) {
		t.Parallel()
		sim := harness.StartSimulator(t, "--time-scale", "60")
		sim.Control(http.MethodPost, "faults", map[string]any{
			"match": "* /v1.0/subscriptions", "status": 401, "times": -1,
			"body": map[string]any{"error": map[string]any{"code": "InvalidAuthenticationToken", "message": "Access token validation failure. Invalid audience."}},
		}, nil)
		process := harness.NewService(t, sim, 2).Start()
		says(t, process, `"reason":"unauthorized"`, "Invalid audience", "check apps[].cloud")
		sim.Control(http.MethodDelete, "faults", nil, nil)
		harness.Eventually(t, 60*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	})
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		sim := harness.StartSimulator(t, "--time-scale", "60")
		service := harness.NewService(t, sim, 2)
		address := harness.FreeAddress(t)
		service.Rewrite(`graph: "`+sim.Line.Graph, `graph: "https://`+address)
		process := service.Start()
		says(t, process, `"reason":"transient"`, "connection refused")
		harness.NewNetworkAt(t, address, strings.TrimPrefix(sim.Line.Graph, "https://"))
		harness.Eventually(t, 60*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	})
	t.Run("other authority", func(t *testing.T) {
		t.Parallel()
		sim, other := harness.StartSimulator(t, "--time-scale", "60"), harness.StartSimulator(t)
		service := harness.NewService(t, sim, 2)
		right, err := os.ReadFile(sim.Line.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := os.ReadFile(other.Line.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		service.Rewrite(sim.Line.CAFile, "ca.pem")
		service.Put("ca.pem", wrong)
		process := service.Start()
		says(t, process, `"reason":"transient"`, "certificate", "endpoints.caFile")
		service.Put("ca.pem", right)
		if err := process.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, 60*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	})
	for _, offset := range []string{"10m", "-10m"} {
		t.Run("clock "+offset, func(t *testing.T) {
			t.Parallel()
			sim := harness.StartSimulator(t, "--time-scale", "3600")
			sim.Control(http.MethodPost, "clock", map[string]any{"offset": offset}, nil)
			process := harness.NewService(t, sim, 2).Start()
			says(t, process, "clock differs from graph's", "time synchronisation")
			harness.Eventually(t, 60*time.Second, func() error {
				c := sim.Counts()
				if c.Renewed < 4 {
					return errors.New("not renewed yet")
				}
				return errors.Join(want("live", c.Live, 2), want("created", c.Created, 2), want("expired", c.Expired, 0))
			})
			sim.Control(http.MethodPost, "clock", map[string]any{"offset": "0s"}, nil)
			says(t, process, "clock agrees with graph's again")
		})
	}
}
