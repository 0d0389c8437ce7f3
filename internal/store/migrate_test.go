package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/store"
)

// openAside opens a store beside the test, and gives how that ended.
func openAside(t *testing.T, where *store.Postgres) (ended <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		s, err := store.Open(t.Context(), store.Config{Postgres: where, Owner: "aside"})
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	return done
}

// Replicas that start together must not fill a small server while one of them
// makes the schema.
func TestWaitingForAMigrationTakesNoConnection(t *testing.T) {
	where := database(t)
	conn := connection(t, where)
	execute(t, conn, `BEGIN`)
	execute(t, conn, `SELECT pg_advisory_xact_lock($1::integer, hashtext(current_schema()::text))`, store.LockMigration)
	url, err := where.URL()
	if err != nil {
		t.Fatal(err)
	}
	waiter := at(with(t, url, "application_name", "waiter "+t.Name()))
	ended := openAside(t, waiter)
	watch := connection(t, where) // a transaction would see the same all the time
	count := func() int64 {
		return number(t, watch, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, "waiter "+t.Name())
	}
	eventually(t, "the replica has tried", func() bool { return count() > 0 })
	eventually(t, "it waits without a connection", func() bool { return count() == 0 })
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	execute(t, conn, `COMMIT`)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// One whose schema is right waits for nobody.
	execute(t, conn, `BEGIN`)
	execute(t, conn, `SELECT pg_advisory_xact_lock($1::integer, hashtext(current_schema()::text))`, store.LockMigration)
	if err := <-openAside(t, where); err != nil {
		t.Error(err)
	}
}

// A dump reads a table that is to be altered. The leader of the version before
// goes on with it meanwhile, and the migration comes when the dump has ended.
func TestMigrationGivesWayToAReader(t *testing.T) {
	where := database(t)
	s := replica(t, where, store.Config{})
	term := seed(t, s)
	conn := connection(t, where)
	execute(t, conn, `ALTER TABLE subscription DROP COLUMN held`)
	execute(t, conn, `DELETE FROM graphsubd_schema_version WHERE version_id >= 1004`)
	dump := connection(t, where)
	execute(t, dump, `BEGIN; LOCK TABLE subscription IN ACCESS SHARE MODE`)
	ended := openAside(t, where)
	eventually(t, "the migration waits", func() bool {
		return number(t, conn, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'subscription'::regclass`) > 0
	})
	began := time.Now()
	if n := number(t, conn, `SELECT count(*) FROM subscription`); n != 1 {
		t.Errorf("%d records", n)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("others waited %v behind the migration", took)
	}
	execute(t, dump, `COMMIT`)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	record := graph.Record{Name: "another", Gen: "abcdefghij", State: graph.StateActive, Held: true}
	if err := s.Save(t.Context(), term, graph.Change{Record: record}); err != nil {
		t.Error(err)
	}
}

// Each migration but the first ones, which alter nothing, gives way.
func TestMigrationsHaveALockTimeout(t *testing.T) {
	files, err := filepath.Glob("postgres/*.sql")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	for _, file := range files[3:] {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- +goose Up\nSET LOCAL lock_timeout = ") {
			t.Errorf("%s does not begin with a lock_timeout", file)
		}
	}
}
