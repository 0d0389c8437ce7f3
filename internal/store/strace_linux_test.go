package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// traced runs a child under strace, which Debian has, and gives its output and
// the trace.
func traced(t *testing.T, role, path string, options ...string) (out []byte, trace string) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil && testing.Short() {
		t.Skip("strace is not installed")
	}
	if err != nil {
		t.Fatal("strace is not installed: apt-get install --no-install-recommends strace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace")
	arguments := append([]string{"-f", "-y", "-s", "64", "-o", file}, options...)
	command := exec.CommandContext(t.Context(), strace, append(arguments, self, role, path)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err = command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return out, string(text)
}

// appendSome stores a hundred rows, one after the other.
func appendSome(ctx context.Context, path string, out io.Writer) error {
	s, err := store.Open(ctx, store.Config{Path: path, Owner: "child"})
	if err != nil {
		return err
	}
	for n := range int64(100) {
		row := benchRow(n)
		if err := s.Append(ctx, []notification.Row{row}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "taken %s\n", row.Item); err != nil {
			return err
		}
	}
	return s.Close()
}

// No append has returned before the sync that followed its write.
func TestAppendReturnsAfterItsSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	seedWorld(t, path)
	_, trace := traced(t, "some", path, "-e", "trace=pwrite64,write,fsync,fdatasync")
	answers, syncs, dirty, begun := 0, 0, false, false
	for line := range strings.Lines(trace) {
		_, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		sync := strings.HasPrefix(call, "fsync(") || strings.HasPrefix(call, "fdatasync(")
		resumed := strings.HasPrefix(call, "<... fsync") || strings.HasPrefix(call, "<... fdatasync")
		switch {
		case strings.HasPrefix(call, "pwrite64(") && strings.Contains(call, "store.db-wal>"):
			dirty, begun = true, false
		case sync && strings.Contains(call, "store.db-wal>"):
			begun = true
			fallthrough
		case resumed:
			if begun && strings.HasSuffix(call, "= 0") {
				syncs++
				dirty, begun = false, false
			}
		case strings.HasPrefix(call, "write(1<") && strings.Contains(call, `"taken `):
			answers++
			if dirty {
				t.Fatalf("answer %d came before the sync of its write", answers)
			}
		}
	}
	if answers != 100 || syncs < answers {
		t.Errorf("%d answers and %d syncs in the trace", answers, syncs)
	}
}

// outlive appends through syncs that fail and goes on when they no longer do.
// It prints the items that the store took.
func outlive(ctx context.Context, path string, out io.Writer) error {
	s, err := store.Open(ctx, store.Config{Path: path, Owner: "child"})
	if err != nil {
		return err
	}
	refused, since := 0, 0
	for n := int64(0); since < 20; n++ {
		row := benchRow(n)
		switch err := s.Append(ctx, []notification.Row{row}); {
		case err == nil:
			if refused > 0 {
				since++
			}
			if _, err := fmt.Fprintf(out, "%s\n", row.Item); err != nil {
				return err
			}
		case errors.Is(err, graph.ErrStoreUnavailable):
			refused++
		default:
			return err
		}
		if n > 10_000 {
			return fmt.Errorf("%d of %d refused, %d taken since", refused, n, since)
		}
	}
	return s.Close()
}

// A sync that fails is answered honestly, and the database is opened anew.
func TestFailedSyncIsAnsweredAndOutlived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	seedWorld(t, path)
	out, trace := traced(t, "outlive", path, "-e", "trace=fsync,fdatasync",
		"-e", "inject=fsync,fdatasync:error=EIO:when=40..45")
	if n := strings.Count(trace, "(INJECTED)"); n == 0 {
		t.Fatal("no sync failed")
	}
	taken := strings.Split(strings.TrimSpace(string(out)), "\n")
	stored := storedItems(t, path)
	for _, item := range taken {
		if !stored[item] {
			t.Fatalf("a row that was taken is not stored: %s", item)
		}
	}
	if len(taken) < 30 {
		t.Errorf("only %d rows taken", len(taken))
	}
}
