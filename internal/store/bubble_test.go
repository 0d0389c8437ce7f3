package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// The whole store runs by the clock of a bubble: retries, holding and
// retention pass in no time, and no goroutine is left.
func TestStoreInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A poll an hour, or fifteen days would be a million of them.
		s := open(t, store.Config{PollInterval: time.Hour})
		seed(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		early := benchRow(1)
		early.SubscriptionID = "33333333-3333-4333-8333-333333333333"
		if err := s.Append(ctx, []notification.Row{benchRow(0), early}); err != nil {
			t.Fatal(err)
		}
		<-s.Pending("orders")
		claimed, err := s.Claim(ctx, "orders", 10, time.Minute)
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		retry := notification.Outcome{DeliveryID: claimed[0].ID, Next: time.Now().Add(time.Hour), Error: "503"}
		if err := s.Settle(ctx, []notification.Outcome{retry}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, sink := range []string{"orders", "archive"} {
			claimed, err = s.Claim(ctx, sink, 10, time.Minute)
			if err != nil || len(claimed) != 1 {
				t.Fatalf("claimed %d of %s, %v", len(claimed), sink, err)
			}
			if err := s.Settle(ctx, []notification.Outcome{{DeliveryID: claimed[0].ID}}); err != nil {
				t.Fatal(err)
			}
		}
		stats := bubbleStats(t, s)
		if stats.Held != 0 || stats.Quarantine[notification.ReasonUnknownSubscription] != 1 || stats.Routed != 1 {
			t.Errorf("after an hour: %+v", stats)
		}
		time.Sleep(15 * 24 * time.Hour)
		synctest.Wait()
		stats = bubbleStats(t, s)
		if stats.Routed != 0 || stats.Quarantine[notification.ReasonUnknownSubscription] != 0 {
			t.Errorf("after 15 days: %+v", stats)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func bubbleStats(t *testing.T, s *store.Store) store.Stats {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
