//go:build linux

package store_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// TestMain is also the main of the children: they are this binary with a role
// and a path as arguments.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.NArg() != 2 {
		code := m.Run()
		if shared.server != nil {
			if err := shared.server.Stop(); err != nil {
				panic(err)
			}
		}
		os.Exit(code)
	}
	roles := map[string]func(context.Context, string, io.Writer) error{"append": appendForEver, "full": fillUp, "deliver": deliverForEver, "some": appendSome, "outlive": outlive}
	if err := roles[flag.Arg(0)](context.Background(), flag.Arg(1), os.Stdout); err != nil {
		panic(err)
	}
}

func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, role, path)
	command.Stderr = t.Output()
	return command
}

// appendForEver prints the item of each row that the store took.
func appendForEver(ctx context.Context, path string, out io.Writer) error {
	s, err := store.Open(ctx, store.Config{Path: path, Owner: "child"})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for caller := range 16 {
		group.Go(func() {
			for n := 0; ; n++ {
				row := benchRow(int64(caller<<32 + n))
				if s.Append(ctx, []notification.Row{row}) == nil {
					// One write of a line is whole, whenever the kill comes.
					_, _ = fmt.Fprintf(out, "%s\n", row.Item)
				}
			}
		})
	}
	group.Wait()
	return nil
}

// What was taken is there after a kill.
func TestKilledProcessLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	seedWorld(t, path)
	var taken []string
	for round := range 5 {
		command := child(t, "append", path)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			taken = append(taken, strings.TrimSuffix(line, "\n"))
			if n == 50+137*round {
				if err := command.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var ended *exec.ExitError
		if err := command.Wait(); !errors.As(err, &ended) {
			t.Fatalf("the child ended by itself: %v", err)
		}
	}
	stored := storedItems(t, path)
	for _, item := range taken {
		if !stored[item] {
			t.Fatalf("a row that was taken is not stored: %s", item)
		}
	}
	t.Logf("%d rows taken in 5 rounds, all stored", len(taken))
}

// fillUp lets no file grow beyond a limit, as a full disk would, appends until
// and after it is reached, lifts the limit and appends again. It prints the
// items that the store took.
func fillUp(ctx context.Context, path string, out io.Writer) error {
	s, err := store.Open(ctx, store.Config{Path: path, Owner: "child"})
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	full := limit
	full.Cur = 1 << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		return err
	}
	n, refused := int64(0), 0
	for ; refused < 20; n++ {
		if n > 100_000 {
			return errors.New("the limit was never reached")
		}
		row := benchRow(n)
		switch err := s.Append(ctx, []notification.Row{row}); {
		case err == nil:
			_, _ = fmt.Fprintf(out, "%s\n", row.Item)
		case errors.Is(err, graph.ErrStoreUnavailable):
			refused++
		default:
			return err
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	row := benchRow(n)
	if err := s.Append(ctx, []notification.Row{row}); err != nil {
		return fmt.Errorf("after the limit was lifted: %w", err)
	}
	_, _ = fmt.Fprintf(out, "%s\n", row.Item)
	return s.Close()
}

func TestFullDiskIsAnsweredAndOutlived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	seedWorld(t, path)
	out, err := child(t, "full", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	taken := strings.Split(strings.TrimSpace(string(out)), "\n")
	stored := storedItems(t, path)
	for _, item := range taken {
		if !stored[item] {
			t.Fatalf("a row that was taken is not stored: %s", item)
		}
	}
	if len(taken) < 2 {
		t.Fatalf("only %d rows taken", len(taken))
	}
}

// seedWorld makes the wish and the record that benchRow is for.
func seedWorld(t *testing.T, path string) {
	t.Helper()
	s := open(t, store.Config{Path: path})
	seed(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// storedItems routes all that is stored and gives the items.
func storedItems(t *testing.T, path string) map[string]bool {
	t.Helper()
	s := open(t, store.Config{Path: path})
	routeAll(t, s)
	items := map[string]bool{}
	for {
		claimed, err := s.Claim(t.Context(), "orders", 1000, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 0 {
			return items
		}
		for i := range claimed {
			items[string(claimed[i].Notification.Item)] = true
		}
	}
}
