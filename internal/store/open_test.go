package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/store"
)

func TestSecondOpenIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Config{Path: path})
	_, err := store.Open(t.Context(), store.Config{Path: path, Owner: "second"})
	if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "stop the other graphsubd") {
		t.Fatalf("error %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, store.Config{Path: path})
}

func TestSchemaVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	raise := func(version int) {
		s := open(t, store.Config{Path: path})
		if err := store.Exec(t.Context(), s, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)`, version); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raise(1999)
	// The same major: an older binary still runs.
	raise(2001)
	_, err := store.Open(t.Context(), store.Config{Path: path, Owner: "test"})
	if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "2001") {
		t.Fatalf("error %v", err)
	}
	// The refusal leaves no lock behind.
	_, err = store.Open(t.Context(), store.Config{Path: path, Owner: "test"})
	if !errors.Is(err, store.ErrNewerSchema) {
		t.Fatalf("error %v", err)
	}
}

func TestSchemaVersionsOfPostgres(t *testing.T) {
	where := database(t)
	replica(t, where, store.Config{})
	conn := connection(t, where)
	raise := func(version int) {
		execute(t, conn, `INSERT INTO graphsubd_schema_version (version_id, is_applied) VALUES ($1, true)`, version)
	}
	raise(1999)
	// The same major: an older binary still runs, beside the newer one.
	seed(t, replica(t, where, store.Config{}))
	raise(2001)
	_, err := store.Open(t.Context(), store.Config{Postgres: where, Owner: "test"})
	if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "2001") {
		t.Fatalf("error %v", err)
	}
}

// Many replicas may meet an empty database at once.
func TestManyOpenAnEmptyDatabase(t *testing.T) {
	where := database(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			s, err := store.Open(t.Context(), store.Config{Postgres: where, Owner: "test"})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	conn := connection(t, where)
	if n := number(t, conn, `SELECT count(*) FROM graphsubd_schema_version WHERE version_id = 1001`); n != 1 {
		t.Errorf("the first migration ran %d times", n)
	}
}

func TestOpenRefusesABadConfig(t *testing.T) {
	_, err := store.Open(t.Context(), store.Config{MaxBytes: -1, HoldFor: -1})
	for _, field := range []string{"Path", "Postgres", "Owner", "MaxBytes", "HoldFor"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
}

func TestOpenOfWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := store.Open(t.Context(), store.Config{Path: path, Owner: "test"})
		if !errors.Is(err, graph.ErrStoreUnavailable) {
			t.Fatalf("error %v", err)
		}
	}
}
