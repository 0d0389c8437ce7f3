package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// Under load the server is restarted, crashes and loses its connections. What
// fails says so honestly, work goes on afterwards, and nothing acknowledged is
// lost.
func TestServerOutages(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: a server is stopped and started again")
	}
	srv, err := postgres.Start(t.Context(), postgres.Options{})
	have(t, err)
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	where := at(srv.Schema(t))
	stores := []*store.Store{
		replica(t, where, store.Config{Owner: "a", PollInterval: 20 * time.Millisecond}),
		replica(t, where, store.Config{Owner: "b", PollInterval: 20 * time.Millisecond}),
	}
	term := seed(t, stores[0])
	load := newLoad(t, stores)
	for _, s := range stores {
		run(t, s)
	}
	for name, outage := range map[string]func() error{
		"restart": func() error { return errors.Join(srv.Halt(), srv.Run(t.Context())) },
		"crash":   func() error { return errors.Join(srv.Crash(), srv.Run(t.Context())) },
		"cut": func() error {
			srv.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'graphsubd'`)
			return nil
		},
	} {
		load.goesOn(name + ": before")
		failed := load.failed.Load()
		if err := outage(); err != nil {
			t.Fatal(name, err)
		}
		load.goesOn(name + ": after")
		t.Logf("%s: %d appends failed", name, load.failed.Load()-failed)
		if name != "cut" && load.failed.Load() == failed {
			t.Errorf("%s went unnoticed", name)
		}
	}
	load.end()
	eventually(t, "the leader writes again", func() bool {
		return stores[0].LearnLimit(t.Context(), term, graph.LearnedLimit{Tenant: "contoso", Type: "message", Lifetime: time.Hour}) == nil
	})
	delivered := map[string]bool{}
	eventually(t, "all that was acknowledged is delivered", func() bool {
		for _, s := range stores {
			claimed, err := s.Claim(t.Context(), "orders", 1000, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			for i := range claimed {
				delivered[string(claimed[i].Notification.Item)] = true
			}
		}
		stats, err := stores[0].Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.New == 0 && len(delivered) >= len(load.taken)
	})
	for item := range load.taken {
		if !delivered[item] {
			t.Fatalf("acknowledged and lost: %s", item)
		}
	}
	t.Logf("%d acknowledged, %d failed, all acknowledged ones delivered", len(load.taken), load.failed.Load())
}

// load appends to stores without a pause and notes what was acknowledged.
type load struct {
	t                    *testing.T
	stop                 chan struct{}
	group                sync.WaitGroup
	acknowledged, failed atomic.Int64

	mu    sync.Mutex
	taken map[string]bool // guarded by mu until end
}

func newLoad(t *testing.T, stores []*store.Store) *load {
	t.Helper()
	l := &load{t: t, stop: make(chan struct{}), taken: map[string]bool{}}
	for caller := range 8 {
		l.group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
					l.append(stores[caller%len(stores)], benchRow(int64(caller<<32+n)))
				}
			}
		})
	}
	return l
}

func (l *load) append(s *store.Store, row notification.Row) {
	err := s.Append(l.t.Context(), []notification.Row{row})
	switch {
	case err == nil:
		l.mu.Lock()
		l.taken[string(row.Item)] = true
		l.mu.Unlock()
		l.acknowledged.Add(1)
	case errors.Is(err, graph.ErrStoreUnavailable):
		l.failed.Add(1)
	default:
		l.t.Errorf("append: %v", err)
	}
}

// goesOn waits until more has been acknowledged.
func (l *load) goesOn(when string) {
	l.t.Helper()
	since := l.acknowledged.Load()
	eventually(l.t, fmt.Sprintf("the load goes on, %s", when), func() bool { return l.acknowledged.Load() > since+50 })
}

func (l *load) end() {
	close(l.stop)
	l.group.Wait()
}

// A server that cannot be reached is an honest error, without its password.
func TestServerIsAway(t *testing.T) {
	const password = "a-password-of-a-test"
	for _, url := range []string{
		"postgres://u:" + password + "@127.0.0.1:1/db?sslmode=disable",
		"postgres://u:" + password + "@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://u:" + password + "@127.0.0.1:port/db",
		"mysql://u:" + password + "@127.0.0.1/db",
		password,
	} {
		_, err := store.Open(t.Context(), store.Config{Postgres: at(url), Owner: "test"})
		if err == nil || containsText(err, password) {
			t.Errorf("error %v", err)
		}
		if url[len(url)-7:] == "disable" && !errors.Is(err, graph.ErrStoreUnavailable) {
			t.Errorf("error %v", err)
		}
	}
}
