package store_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/internal/store/storetest"
)

// planted names the variable that has this binary run the suite against a
// store with a fault, and plantedIn the one that says on which database.
const (
	planted   = "GRAPHSUBD_PLANTED_FAULT"
	plantedIn = "GRAPHSUBD_PLANTED_IN"
)

// early answers before the row is stored, and loses what is on its way when it
// ends.
type early struct {
	storetest.Store

	mu      sync.Mutex
	waiting []notification.Row
}

// Append stores what the last one answered.
func (e *early) Append(ctx context.Context, rows []notification.Row) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	late := e.waiting
	e.waiting = slices.Clone(rows)
	return e.Store.Append(ctx, late)
}

// endless forgets that a claim ends.
type endless struct{ storetest.Store }

// Claim claims for ever.
func (e *endless) Claim(ctx context.Context, sink string, limit int, _ time.Duration) ([]notification.Delivery, error) {
	return e.Store.Claim(ctx, sink, limit, 1000*time.Hour)
}

// greedy gives what another has claimed.
type greedy struct{ storetest.Store }

// Claim claims for no time.
func (g *greedy) Claim(ctx context.Context, sink string, limit int, _ time.Duration) ([]notification.Delivery, error) {
	return g.Store.Claim(ctx, sink, limit, 0)
}

// unordered gives the newest first.
type unordered struct{ storetest.Store }

// Claim turns the order around.
func (u *unordered) Claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error) {
	claimed, err := u.Store.Claim(ctx, sink, limit, lease)
	slices.Reverse(claimed)
	return claimed, err
}

// termless lets a former leader write.
type termless struct {
	storetest.Store

	newest int64
}

// NewTerm remembers the term.
func (l *termless) NewTerm(ctx context.Context, holder string) (term int64, err error) {
	l.newest, err = l.Store.NewTerm(ctx, holder)
	return l.newest, err
}

// Save writes in the newest term, whatever the caller's is.
func (l *termless) Save(ctx context.Context, _ int64, change graph.Change) error {
	return l.Store.Save(ctx, l.newest, change)
}

// boundless takes more than the bound.
type boundless struct{ storetest.Store }

// Append lets a full store look as if it had room.
func (b *boundless) Append(ctx context.Context, rows []notification.Row) error {
	if err := b.Store.Append(ctx, rows); !errors.Is(err, store.ErrFull) {
		return err
	}
	return nil
}

func faults() map[string]func(storetest.Store) storetest.Store {
	return map[string]func(storetest.Store) storetest.Store{
		"none":      func(s storetest.Store) storetest.Store { return s },
		"early":     func(s storetest.Store) storetest.Store { return &early{Store: s} },
		"endless":   func(s storetest.Store) storetest.Store { return &endless{s} },
		"greedy":    func(s storetest.Store) storetest.Store { return &greedy{s} },
		"unordered": func(s storetest.Store) storetest.Store { return &unordered{s} },
		"termless":  func(s storetest.Store) storetest.Store { return &termless{Store: s} },
		"boundless": func(s storetest.Store) storetest.Store { return &boundless{s} },
	}
}

// TestPlantedFault runs the suite in another process against a store with one
// fault after the other, and expects it to be found, by the case that is for
// it.
func TestPlantedFault(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SHORT: a claim that never ends is waited for")
	}
	if fault := os.Getenv(planted); fault != "" {
		sound := openers()[os.Getenv(plantedIn)]
		storetest.RunTests(t, func(t *testing.T) storetest.Opener {
			t.Helper()
			open := sound(t)
			return func(ctx context.Context, cfg store.Config) (storetest.Store, error) {
				s, err := open(ctx, cfg)
				if err != nil {
					return nil, err
				}
				return faults()[fault](s), nil
			}
		})
		return
	}
	address := server(t).URL()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for in := range openers() {
		for fault, found := range map[string]string{
			"none": "", "early": "AppendIsKept", "endless": "ClaimIsTakenOver", "greedy": "ClaimIsExclusive",
			"unordered": "ClaimTakesTheOldestFirst", "termless": "FormerTermChangesNothing", "boundless": "AppendIsBoundedByRows",
		} {
			t.Run(in+"/"+fault, func(t *testing.T) {
				t.Parallel()
				command := exec.CommandContext(t.Context(), self,
					"-test.run", "^TestPlantedFault$/^(AppendIsKept|AppendIsBoundedByRows|Claim.*|FormerTerm.*)$", "-test.v")
				command.Env = append(os.Environ(), planted+"="+fault, plantedIn+"="+in, "GRAPHSUBD_TEST_POSTGRES_URL="+address)
				out, err := command.CombinedOutput()
				if fault == "none" {
					if err != nil {
						t.Errorf("the suite fails a right store: %v\n%s", err, out)
					}
					return
				}
				if err == nil || !strings.Contains(string(out), "--- FAIL: TestPlantedFault/"+found) {
					t.Errorf("the suite does not find it by %s: %v\n%s", found, err, out)
				}
			})
		}
	}
}
