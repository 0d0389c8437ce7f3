package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/internal/store/storetest"
)

func TestConformanceOfSQLite(t *testing.T) { storetest.RunTests(t, newFile) }

func TestCase(t *testing.T) { storetest.RunCases(t, newFile) }

func newFile(t *testing.T) storetest.Opener {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	return func(ctx context.Context, cfg store.Config) (storetest.Store, error) {
		cfg.Path = path
		return store.Open(ctx, cfg)
	}
}

func TestConformanceOfPostgres(t *testing.T) { storetest.RunTests(t, newSchema) }

func newSchema(t *testing.T) storetest.Opener {
	t.Helper()
	where := database(t)
	return func(ctx context.Context, cfg store.Config) (storetest.Store, error) {
		cfg.Postgres = where
		return store.Open(ctx, cfg)
	}
}

// openers are the databases that the suite is for.
func openers() map[string]func(*testing.T) storetest.Opener {
	return map[string]func(*testing.T) storetest.Opener{"sqlite": newFile, "postgres": newSchema}
}

// open opens a store and closes it after the test.
func open(tb testing.TB, cfg store.Config) *store.Store {
	tb.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(tb.TempDir(), "store.db")
	}
	cfg.Owner = "test"
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

// seed stores the wish and the record that benchRow is for.
func seed(tb testing.TB, s *store.Store) (term int64) {
	tb.Helper()
	row := benchRow(0)
	term, err := s.NewTerm(tb.Context(), "test")
	if err != nil {
		tb.Fatal(err)
	}
	wish := graph.Wish{
		Name: row.Address.Name, Gen: row.Address.Gen, TenantID: row.TenantID, Sinks: []string{"orders", "archive"},
	}
	if err := s.PutWishes(tb.Context(), term, graph.SourceFile, []graph.Wish{wish}); err != nil {
		tb.Fatal(err)
	}
	record := graph.Record{Name: wish.Name, Gen: wish.Gen, ID: row.SubscriptionID, State: graph.StateActive}
	if err := s.Save(tb.Context(), term, graph.Change{Record: record}); err != nil {
		tb.Fatal(err)
	}
	return term
}

func routeAll(tb testing.TB, s *store.Store) {
	tb.Helper()
	for {
		n, err := s.Route(tb.Context(), 500)
		if err != nil {
			tb.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func rowsOf(n int) []notification.Row {
	rows := make([]notification.Row, n)
	for i := range rows {
		rows[i] = benchRow(int64(i))
	}
	return rows
}
