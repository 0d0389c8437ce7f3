package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// shared is the server of this package's tests, which TestMain ends.
var shared = struct {
	once   sync.Once
	server *postgres.Server
	err    error
}{}

func server(tb testing.TB) *postgres.Server {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgres.Use(context.WithoutCancel(tb.Context())) })
	have(tb, shared.err)
	return shared.server
}

// have fails a test that has no server. Only a short run may leave it out.
func have(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, postgres.ErrMissing) && testing.Short() {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// database gives an empty database.
func database(tb testing.TB) *store.Postgres {
	tb.Helper()
	return at(server(tb).Schema(tb))
}

func at(url string) *store.Postgres {
	return &store.Postgres{URL: func() (string, error) { return url, nil }}
}

// replica opens a store on a database and closes it after the test.
func replica(tb testing.TB, where *store.Postgres, cfg store.Config) *store.Store {
	tb.Helper()
	cfg.Postgres = where
	if cfg.Owner == "" {
		cfg.Owner = "test"
	}
	s, err := store.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// run runs the loops of a store until the test ends.
func run(tb testing.TB, s *store.Store) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
}

// connection is one beside the stores.
func connection(tb testing.TB, where *store.Postgres) *pgx.Conn {
	tb.Helper()
	url, err := where.URL()
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

func execute(tb testing.TB, conn *pgx.Conn, statement string, args ...any) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatal(err)
	}
}

// number reads one.
func number(tb testing.TB, conn *pgx.Conn, query string, args ...any) int64 {
	tb.Helper()
	var n int64
	if err := conn.QueryRow(tb.Context(), query, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// eventually waits for a condition.
func eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			tb.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// waiting says how many connections wait for a lock.
func waiting(tb testing.TB, conn *pgx.Conn) int64 {
	tb.Helper()
	return number(tb, conn, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
}
