package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/lease"
)

// elector is what the program asks of both kinds.
type elector interface {
	Run(ctx context.Context, body lease.Body) error
	Left() time.Duration
}

var (
	_ elector = (*lease.File)(nil)
	_ elector = (*lease.Kubernetes)(nil)
)

// TestConformance holds both kinds to one contract. Each test asks for several
// electors that contend for one lease.
func TestConformance(t *testing.T) {
	t.Parallel()
	for kind, contenders := range map[string]func(t *testing.T) func() elector{
		"file": func(t *testing.T) func() elector {
			t.Helper()
			path := filepath.Join(t.TempDir(), "lease")
			return func() elector { return newFile(t, path) }
		},
		"kubernetes": func(t *testing.T) func() elector {
			t.Helper()
			w := &wire{api: newAPIServer()}
			return func() elector { return newReplica(t, &stage{t: t}, w, defaults()).elector }
		},
	} {
		for name, run := range map[string]func(t *testing.T, next func() elector){
			"only one leads": onlyOneLeads, "a failed body is run again": failedBodyRunsAgain,
			"an ended context": endedContext, "a stop while it waits": stopWhileWaiting,
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { run(t, contenders(t)) })
			})
		}
	}
}

func newFile(t *testing.T, path string) *lease.File {
	t.Helper()
	f, err := lease.NewFile(lease.FileConfig{
		Path: path, Election: "test", Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func onlyOneLeads(t *testing.T, next func() elector) {
	t.Helper()
	leads := make(chan int)
	ended := make(chan error, 3)
	stops := make([]context.CancelFunc, 3)
	var busy atomic.Bool
	for i := range stops {
		ctx, cancel := context.WithCancel(t.Context())
		stops[i] = cancel
		e := next()
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context) error {
				if busy.Swap(true) {
					t.Error("two lead at once")
				}
				if e.Left() < 50*time.Second {
					t.Errorf("%v is left at the beginning", e.Left())
				}
				leads <- i
				<-ctx.Done()
				time.Sleep(2 * time.Minute) // whatever it takes, nobody else leads meanwhile
				busy.Store(false)
				return nil
			})
		}()
	}
	for range stops {
		i := <-leads
		time.Sleep(time.Minute)
		began := time.Now()
		stops[i]()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*time.Minute || took > 2*time.Minute+time.Second {
			t.Errorf("ended %v after it was stopped", took)
		}
	}
}

func failedBodyRunsAgain(t *testing.T, next func() elector) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	runs := 0
	began := time.Now()
	err := next().Run(ctx, func(context.Context) error {
		if runs++; runs == 3 {
			stop()
		}
		return errors.New("no luck")
	})
	if err != nil || runs != 3 || time.Since(began) > 10*time.Second {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func endedContext(t *testing.T, next func() elector) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := next().Run(ctx, func(context.Context) error {
		t.Error("leads after the end")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func stopWhileWaiting(t *testing.T, next func() elector) {
	t.Helper()
	led := make(chan struct{})
	first, stopFirst := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		e := next()
		ended <- e.Run(first, func(ctx context.Context) error {
			close(led)
			<-ctx.Done()
			return nil
		})
	}()
	<-led
	second, stopSecond := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stopSecond()
	err := next().Run(second, func(context.Context) error {
		t.Error("leads beside another")
		return nil
	})
	stopFirst()
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
}

func TestLockThatCannotBeMadeMeansNotLeading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := newFile(t, filepath.Join(t.TempDir(), "missing", "lease")).Run(ctx, func(context.Context) error {
			t.Error("leads without a lock")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
