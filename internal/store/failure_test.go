package store_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// A transaction that fails is lost to all its callers, and only to them.
func TestFailedTransactionIsAnsweredAndOutlived(t *testing.T) {
	s := open(t, store.Config{})
	seed(t, s)
	if err := store.LimitPages(t.Context(), s, 20); err != nil {
		t.Fatal(err)
	}
	const callers = 32
	errs := make([]error, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			row := benchRow(int64(i))
			row.Item = append(row.Item, bytes.Repeat([]byte(" "), 64<<10)...)
			errs[i] = s.Append(t.Context(), []notification.Row{row})
		})
	}
	group.Wait()
	taken := int64(0)
	for _, err := range errs {
		switch {
		case err == nil:
			taken++
		case !errors.Is(err, graph.ErrStoreUnavailable):
			t.Errorf("error %v", err)
		}
	}
	if taken == callers {
		t.Fatal("the limit was not reached")
	}
	if err := s.Append(t.Context(), []notification.Row{benchRow(callers)}); err != nil {
		t.Fatalf("after the failure: %v", err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.New != taken+1 {
		t.Errorf("%d rows stored, %d taken", stats.New, taken+1)
	}
}

// A store that stalls is an honest error in the caller's time.
func TestStalledStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, store.Config{})
		seed(t, s)
		release := make(chan struct{})
		ended := store.Stall(t.Context(), s, release)
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		begin := time.Now()
		err := s.Append(ctx, []notification.Row{benchRow(1)})
		if !errors.Is(err, graph.ErrStoreUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if waited := time.Since(begin); waited != 900*time.Millisecond {
			t.Errorf("answered after %v", waited)
		}
		time.Sleep(30 * time.Second)
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Append(t.Context(), []notification.Row{benchRow(2)}); err != nil {
			t.Error(err)
		}
	})
}

// The leader's writes and the router go on under a load that never pauses.
func TestWritersDoNotStarve(t *testing.T) {
	s := open(t, store.Config{})
	term := seed(t, s)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for caller := range 64 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.Append(t.Context(), []notification.Row{benchRow(int64(caller<<32 + n))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 20 {
		if err := s.LearnLimit(ctx, term, graph.LearnedLimit{Tenant: "contoso", Type: "message", Lifetime: time.Hour}); err != nil {
			t.Error(err)
		}
		if _, err := s.Route(ctx, 100); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	group.Wait()
}
