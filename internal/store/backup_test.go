package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// A copy that is made under load holds all that was acknowledged before, opens
// as a store, and keeps its settings.
func TestBackupOfAStoreInUse(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "store.db"), filepath.Join(dir, "copy.db")
	s := open(t, store.Config{Path: path})
	seed(t, s)
	before := rowsOf(500)
	if err := s.Append(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	load := newLoad(t, []*store.Store{s})
	load.goesOn("before the copy")
	if err := store.Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	load.goesOn("after the copy")
	load.end()
	if n := load.failed.Load(); n != 0 {
		t.Errorf("%d appends failed", n)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := query(t, to, "PRAGMA auto_vacuum"); got[0] != "2" {
		t.Errorf("auto_vacuum %v", got)
	}
	stored := storedItems(t, to)
	for i := range before {
		if !stored[string(before[i].Item)] {
			t.Fatalf("the copy lacks %s", before[i].Item)
		}
	}
}

func TestBackupRefuses(t *testing.T) {
	dir := t.TempDir()
	path, taken := filepath.Join(dir, "store.db"), filepath.Join(dir, "taken")
	s := open(t, store.Config{Path: path})
	if err := s.Append(t.Context(), []notification.Row{benchRow(1)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Backup(t.Context(), path, taken); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto a file: error %v", err)
	}
	if text, err := os.ReadFile(taken); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if err := store.Backup(t.Context(), path, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto itself: error %v", err)
	}
	to := filepath.Join(dir, "new.db")
	if err := store.Backup(t.Context(), filepath.Join(dir, "none.db"), to); !errors.Is(err, graph.ErrStoreUnavailable) {
		t.Errorf("of nothing: error %v", err)
	}
	if err := store.Backup(t.Context(), taken, to); !errors.Is(err, graph.ErrStoreUnavailable) {
		t.Errorf("of no database: error %v", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed copy is left: %v", err)
	}
}
