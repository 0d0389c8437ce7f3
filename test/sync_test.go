package test_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/test/harness"
)

// TestNo202BeforeTheSync looks at the system calls of the running service: of
// each notification, first the write to the log, then the sync, then the 202.
func TestNo202BeforeTheSync(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: tracing needs strace")
	}
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 1)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 1) })
	output, stop := harness.Trace(t, process, "-e", "trace=pwrite64,fsync,fdatasync,write,read")
	const posts = 10
	for n := range posts {
		sim.Control(http.MethodPost, "notify", map[string]any{"count": 1}, nil)
		harness.Eventually(t, 20*time.Second, func() error { return want("events", len(service.Events()), n+1) })
	}
	stop()
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	answers, wrote, synced := 0, false, false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.Contains(line, `"POST /notifications/`):
			// What follows an answer, such as its delivery, is synced too, and says
			// nothing of the next.
			wrote, synced = false, false
		case strings.Contains(line, "pwrite64("):
			wrote = true
		case wrote && (strings.Contains(line, "sync(") || strings.Contains(line, "sync resumed")) && strings.Contains(line, "= 0"):
			synced = true
		case strings.Contains(line, `"HTTP/1.1 202`):
			if answers++; !synced {
				t.Errorf("answer %d left before its sync", answers)
			}
		}
	}
	if answers != posts {
		t.Errorf("%d answers of 202 in the trace, want %d", answers, posts)
	}
}

// TestFailingSync makes every sync of the running service fail for a while:
// nothing is acknowledged then, and it goes on when syncs work again.
func TestFailingSync(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: injecting faults needs strace")
	}
	t.Parallel()
	sim := harness.StartSimulator(t, "--time-scale", "60")
	service := harness.NewService(t, sim, 2)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 2) })
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 5}, nil)
	harness.Eventually(t, 20*time.Second, func() error { return want("events", len(service.Events()), 10) })

	_, stop := harness.Trace(t, process, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
	sim.Control(http.MethodPost, "notify", map[string]any{"count": 5}, nil)
	harness.Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(process.Logged(), "store refuses notifications") {
			return errors.New("no notification was refused")
		}
		return nil
	})
	if c := sim.Counts(); c.Acknowledged != 10 || c.Queued == 0 {
		t.Errorf("acknowledged although no sync works: %+v", c)
	}
	stop()
	harness.Eventually(t, 60*time.Second, func() error {
		return errors.Join(want("acknowledged", sim.Counts().Acknowledged, 20), want("events", len(service.Events()), 20))
	})
	select {
	case <-process.Done:
		t.Error("the process has ended")
	default:
	}
}

// TestOlderBackupPutBack restores a copy of the store from before a
// subscription was made anew: nothing is made twice, and the gap is told.
func TestOlderBackupPutBack(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: it takes two renewals of each subscription")
	}
	t.Parallel()
	// Twelve hours pass in 36 seconds: the copy is put back well before what it
	// names expires, also where the machine is busy.
	sim := harness.StartSimulator(t, "--time-scale", "1200")
	service := harness.NewService(t, sim, 3)
	process := service.Start()
	harness.Eventually(t, 20*time.Second, func() error { return want("live", sim.Counts().Live, 3) })
	backup := harness.Start(t, "store", "backup", "--config", service.Path("graphsubd.yaml"), "--to", service.Path("copy.db"))
	<-backup.Done
	if code := backup.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("backup ended with %d: %s", code, backup.Logged())
	}
	sim.Control(http.MethodPost, "subscriptions/"+sim.Live()[0].ID+"/remove", nil, nil)
	harness.Eventually(t, 60*time.Second, func() error { return want("created", sim.Counts().Created, 4) })
	process.Terminate()

	copied, err := os.ReadFile(service.Path("copy.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"data/graphsubd.db-wal", "data/graphsubd.db-shm"} {
		if err := os.Remove(service.Path(old)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	service.Put("data/graphsubd.db", copied)
	before := len(service.Lines("notices.jsonl"))
	service.Start()
	renewed := sim.Counts().Renewed
	harness.Eventually(t, 120*time.Second, func() error {
		if c := sim.Counts(); c.Renewed < renewed+6 {
			return fmt.Errorf("%d renewals since", c.Renewed-renewed)
		}
		return nil
	})
	if c := sim.Counts(); c.Live != 3 || c.Created != 4 || c.Deleted != 0 || c.Expired != 0 {
		t.Errorf("counts %+v", c)
	}
	kinds := map[string]int{}
	for _, event := range service.Lines("notices.jsonl")[before:] {
		kind, _ := event["type"].(string)
		kinds[kind]++
	}
	if kinds["io.graphsubd.gap.opened"] != 1 || kinds["io.graphsubd.gap.closed"] != 1 {
		t.Errorf("events after the restore %v", kinds)
	}
}
