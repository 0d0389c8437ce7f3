package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"

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
