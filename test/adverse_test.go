package test_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// says waits until the process has logged all of the words, and is alive.
func (p *process) says(words ...string) {
	p.t.Helper()
	eventually(p.t, 20*time.Second, func() error {
		for _, word := range words {
			if !strings.Contains(p.logged(), word) {
				return errors.New("the log does not say " + word)
			}
		}
		return nil
	})
	select {
	case <-p.done:
		p.t.Fatal("the process has ended")
	default:
	}
}

// TestTrouble starts the process into each kind of trouble: it stays up, says
// what is wrong and what to do, and goes on by itself when that is mended.
func TestTrouble(t *testing.T) {
	t.Parallel()
	t.Run("token refused", func(t *testing.T) {
		t.Parallel()
		sim := startSimulator(t, "--time-scale", "60")
		sim.control(http.MethodPost, "faults", map[string]any{
			"match": "POST /*/oauth2/v2.0/token", "status": 401, "times": -1,
			"body": map[string]any{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided.", "error_codes": []int{7000215}},
		}, nil)
		process := newService(t, sim, 2).start()
		process.says(`"reason":"unauthorized"`, "AADSTS7000215", "check the client secret")
		sim.control(http.MethodDelete, "faults", nil, nil)
		eventually(t, 60*time.Second, func() error { return want("live", sim.counts().Live, 2) })
	})
	t.Run("other cloud", func(t *testing.T) {
		t.Parallel()
		sim := startSimulator(t, "--time-scale", "60")
		sim.control(http.MethodPost, "faults", map[string]any{
			"match": "* /v1.0/subscriptions", "status": 401, "times": -1,
			"body": map[string]any{"error": map[string]any{"code": "InvalidAuthenticationToken", "message": "Access token validation failure. Invalid audience."}},
		}, nil)
		process := newService(t, sim, 2).start()
		process.says(`"reason":"unauthorized"`, "Invalid audience", "check apps[].cloud")
		sim.control(http.MethodDelete, "faults", nil, nil)
		eventually(t, 60*time.Second, func() error { return want("live", sim.counts().Live, 2) })
	})
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		sim := startSimulator(t, "--time-scale", "60")
		service := newService(t, sim, 2)
		address := freeAddress(t)
		service.rewrite(`graph: "`+sim.line.Graph, `graph: "https://`+address)
		process := service.start()
		process.says(`"reason":"transient"`, "connection refused")
		forward(t, address, strings.TrimPrefix(sim.line.Graph, "https://"))
		eventually(t, 60*time.Second, func() error { return want("live", sim.counts().Live, 2) })
	})
	t.Run("other authority", func(t *testing.T) {
		t.Parallel()
		sim, other := startSimulator(t, "--time-scale", "60"), startSimulator(t)
		service := newService(t, sim, 2)
		right, err := os.ReadFile(sim.line.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		wrong, err := os.ReadFile(other.line.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		service.rewrite(sim.line.CAFile, "ca.pem")
		service.put("ca.pem", wrong)
		process := service.start()
		process.says(`"reason":"transient"`, "certificate", "endpoints.caFile")
		service.put("ca.pem", right)
		if err := process.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, func() error { return want("live", sim.counts().Live, 2) })
	})
	for _, offset := range []string{"10m", "-10m"} {
		t.Run("clock "+offset, func(t *testing.T) {
			t.Parallel()
			sim := startSimulator(t, "--time-scale", "3600")
			sim.control(http.MethodPost, "clock", map[string]any{"offset": offset}, nil)
			process := newService(t, sim, 2).start()
			process.says("clock differs from graph's", "time synchronisation")
			eventually(t, 60*time.Second, func() error {
				c := sim.counts()
				if c.Renewed < 4 {
					return errors.New("not renewed yet")
				}
				return errors.Join(want("live", c.Live, 2), want("created", c.Created, 2), want("expired", c.Expired, 0))
			})
			sim.control(http.MethodPost, "clock", map[string]any{"offset": "0s"}, nil)
			process.says("clock agrees with graph's again")
		})
	}
}

// put writes a file beside the configuration.
func (s *service) put(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// forward brings connections from one address to another until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { bridge(ctx, near, to) })
		}
	})
}

// bridge copies both ways until either side or ctx ends.
func bridge(ctx context.Context, near net.Conn, to string) {
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		_ = near.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
	defer stop()
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_, _ = near.Close(), far.Close()
		})
	}
	copying.Wait()
}
