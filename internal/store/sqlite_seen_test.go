package store_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// A repeat is told from a new item for as long as the window is, whether its
// evidence is in memory, in the log or in the table, over restarts and lost
// transactions, and memory stays bounded.
func TestEvidenceIsKeptForItsWindow(t *testing.T) {
	const window = time.Hour
	for range 10 {
		start := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(start, 0))
			path := filepath.Join(t.TempDir(), "store.db")
			reopen := func() *store.Store {
				s, err := store.Open(t.Context(), store.Config{Path: path, Owner: "test", SeenWindow: window})
				if err == nil {
					err = store.ShrinkSeen(t.Context(), s, 30, 3)
				}
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := reopen()
			t.Cleanup(func() { _ = s.Close() }) // where the test has failed
			seed(t, s)
			until := map[int64]time.Time{}
			most, inTable := 0, false
			for step := range 300 {
				switch random.IntN(12) {
				case 0:
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = reopen()
				case 1:
					if err := store.LoseSeen(t.Context(), s); err != nil {
						t.Fatal(err)
					}
				case 2:
					time.Sleep(time.Duration(random.Int64N(int64(window / 2))))
				case 3, 4, 5, 6:
					time.Sleep(time.Duration(random.Int64N(int64(window / 20))))
				}
				// Several at once, of which some are repeats.
				var rows []notification.Row
				repeats := int64(0)
				for range 1 + random.IntN(5) {
					n := random.Int64N(150)
					rows = append(rows, benchRow(n))
					if time.Now().Before(until[n]) {
						repeats++
						continue
					}
					until[n] = time.Now().Add(window)
				}
				before := bubbleStats(t, s)
				if err := s.Append(t.Context(), rows); err != nil {
					t.Fatal(err)
				}
				routeAll(t, s)
				if got := bubbleStats(t, s).Duplicate - before.Duplicate; got != repeats {
					t.Fatalf("seed %d, step %d: %d of %d are taken for repeats, want %d", start, step, got, len(rows), repeats)
				}
				n, moved, err := store.SeenKeys(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				most, inTable = max(most, n), inTable || moved
			}
			if most > 200 || !inTable {
				t.Errorf("seed %d: up to %d keys were in memory, any in the table: %v", start, most, inTable)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
