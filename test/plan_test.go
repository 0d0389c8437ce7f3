package test_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// ask runs a command against the admin listener of a service.
func ask(t *testing.T, service *harness.Service, args ...string) (said string, code int) {
	t.Helper()
	addresses, err := service.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--server", "http://"+addresses.Admin, "--token-file", service.Path("admin.token"))
	cmd := exec.CommandContext(t.Context(), harness.Binary(t), args...)
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// TestMassDeletion takes 24 of 40 subscriptions out of the configuration:
// nothing is deleted until somebody says so, and the rest goes on.
func TestMassDeletion(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: it takes a renewal of each subscription")
	}
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "600")
	service := harness.NewService(t, sim, 40)
	service.Put("admin.token", []byte("a-token-of-a-test-0123456789"))
	service.Rewrite("tenants:", "admin: {tokens: [{name: ops, role: operator, token: {file: admin.token}}]}\ntenants:")
	process := service.Start()
	harness.Eventually(t, 30*time.Second, func() error { return want("live", sim.Counts().Live, 40) })

	text, err := os.ReadFile(service.Path("graphsubd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "name: mailbox-2") && !strings.Contains(line, "name: mailbox-3") && !strings.Contains(line, "name: mailbox-1") {
			kept = append(kept, line)
		}
	}
	service.Put("graphsubd.yaml", []byte(strings.Join(kept, "")))
	said := ""
	harness.Eventually(t, 20*time.Second, func() error {
		said, _ = ask(t, service, "plan")
		if !strings.Contains(said, "30 changes are held") {
			return fmt.Errorf("plan says:\n%s", said)
		}
		return nil
	})
	t.Logf("plan says:\n%s", said)
	_, id, _ := strings.Cut(said, "--approve=")
	id, _, _ = strings.Cut(id, "\n")
	says(t, process, "plan --approve")
	if said, _ := ask(t, service, "status"); !strings.Contains(said, "mass_change_held") || !strings.Contains(said, "plan --approve") {
		t.Errorf("status says:\n%s", said)
	}
	if said, code := ask(t, service, "plan", "--approve=0123456789ab"); code != 6 {
		t.Errorf("another plan was approved with code %d: %s", code, said)
	}
	// Twelve hours are 72 seconds here, so each is renewed within the minute.
	began := sim.Counts().Renewed
	harness.Eventually(t, 90*time.Second, func() error {
		if n := sim.Counts().Renewed - began; n < 40 {
			return fmt.Errorf("%d renewed", n)
		}
		return nil
	})
	if c := sim.Counts(); c.Deleted != 0 || c.Live != 40 || c.Expired != 0 {
		t.Fatalf("counts %+v before the approval", c)
	}
	said, code := ask(t, service, "plan", "--approve="+id)
	if code != 0 || said != "30 changes released\n" {
		t.Errorf("approval: code %d, %q", code, said)
	}
	harness.Eventually(t, 20*time.Second, func() error {
		c := sim.Counts()
		return errors.Join(want("deleted", c.Deleted, 30), want("live", c.Live, 10))
	})
	if said, code := ask(t, service, "plan", "--approve"); code != 6 || !strings.Contains(said, "nothing is held") {
		t.Errorf("code %d, %q", code, said)
	}
}
