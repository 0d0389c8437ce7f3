package test_test

import (
	"testing"

	"github.com/graphsubd/graphsubd/test/crash"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// crashes is how many kills make test has on each kind of store; make crash has
// a hundred.
const crashes = 5

func TestCrashSQLite(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: injecting faults needs strace")
	}
	t.Parallel()
	if o := crash.SQLite(t, crashes); o.Lost > 0 || o.Acknowledged < crashes {
		t.Errorf("%+v", o)
	}
}

func TestCrashPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("SHORT: what a killed replica had claimed is free after a minute")
	}
	t.Parallel()
	server, err := postgres.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if o := crash.Postgres(t, server, crashes); o.Lost > 0 || o.Acknowledged < crashes {
		t.Errorf("%+v", o)
	}
}
