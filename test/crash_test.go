package test_test

import (
	"testing"

	"github.com/graphsubd/graphsubd/test/crash"
	"github.com/graphsubd/graphsubd/test/postgres"
)

// crashes is how many kills make test has on each kind of store; make crash has
// a hundred.
const crashes = 5

// TestCase has the cases that need a process.
func TestCase(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SHORT: faults need strace, and time-outs their time")
	}
	t.Run("A30", caseA30)
	t.Run("A34", func(t *testing.T) {
		t.Parallel()
		t.Run("SQLite", crashSQLite)
		t.Run("PostgreSQL", crashPostgres)
	})
}

func crashSQLite(t *testing.T) {
	t.Parallel()
	if o := crash.SQLite(t, crashes); o.Lost > 0 || o.Acknowledged < crashes {
		t.Errorf("%+v", o)
	}
}

// crashPostgres takes a minute, until what a killed replica had claimed is free.
func crashPostgres(t *testing.T) {
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
