package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestConcerns(t *testing.T) {
	t.Parallel()
	patterns := watched("etc/graphsubd.yaml", []string{"more.d/*.yaml", "/abs/x.yaml"})
	for changed, want := range map[string]bool{
		"etc/graphsubd.yaml": true, "etc/..data": true, "etc/more.d/a.yaml": true, "etc/more.d/..data": true, "/abs/x.yaml": true,
		"etc/graphsubd.db-wal": false, "etc/events.jsonl": false, "etc/more.d/a.yaml~": false, "graphsubd.yaml": false, "..data": false,
	} {
		if got := concerns(patterns, changed); got != want {
			t.Errorf("concerns(%q) = %v, want %v", changed, got, want)
		}
	}
}

func TestWatchFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "graphsubd.yaml")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("graphsubd.yaml")
	changed, stop, err := watchFiles(t.Context(), path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	write("graphsubd.yaml")
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("a changed file is not noticed")
	}
	// As an editor does it: a new file in the place of the old one.
	write("graphsubd.yaml.new")
	if err := os.Rename(filepath.Join(dir, "graphsubd.yaml.new"), path); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("a replaced file is not noticed")
	}
}
