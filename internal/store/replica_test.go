package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// A newer term waits for a write of the older one that has been let in, and a
// write of the older one waits for the newer term and is refused.
func TestTermsInterleave(t *testing.T) {
	where := database(t)
	a, b := replica(t, where, store.Config{Owner: "a"}), replica(t, where, store.Config{Owner: "b"})
	conn := connection(t, where)
	older := seed(t, a)

	looked, release := make(chan struct{}), make(chan struct{})
	written, issued := make(chan error, 1), make(chan int64, 1)
	go func() { written <- store.LeadSlowly(t.Context(), a, older, looked, release) }()
	<-looked
	go func() {
		newer, err := b.NewTerm(t.Context(), "b")
		if err != nil {
			t.Error(err)
		}
		issued <- newer
	}()
	eventually(t, "the newer term waits", func() bool { return waiting(t, conn) == 1 })
	select {
	case newer := <-issued:
		t.Fatalf("term %d was issued while a write of %d was open", newer, older)
	default:
	}
	close(release)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if newer := <-issued; newer != older+1 {
		t.Errorf("term %d after %d", newer, older)
	}

	execute(t, conn, `BEGIN`)
	execute(t, conn, `UPDATE leader SET term = term + 1`)
	go func() {
		written <- a.LearnLimit(t.Context(), older+1, graph.LearnedLimit{Tenant: "contoso", Type: "message", Lifetime: time.Hour})
	}()
	other := connection(t, where)
	eventually(t, "the older write waits", func() bool { return waiting(t, other) == 1 })
	execute(t, conn, `COMMIT`)
	if err := <-written; !errors.Is(err, graph.ErrTermLost) {
		t.Errorf("a write of an older term: %v", err)
	}
	if n := number(t, conn, `SELECT count(*) FROM tenant_limit`); n != 0 {
		t.Error("a write of an older term was stored")
	}
}

// An id that becomes known at one replica frees what another holds of it, in
// whatever order the two come.
func TestNothingStaysHeldAcrossReplicas(t *testing.T) {
	where := database(t)
	cfg := store.Config{HoldFor: time.Hour, PollInterval: 10 * time.Millisecond}
	cfg.Owner = "a"
	a := replica(t, where, cfg)
	cfg.Owner = "b"
	b := replica(t, where, cfg)
	term := seed(t, a)
	run(t, a)
	run(t, b)
	const ids = 60
	for n := range ids {
		row := benchRow(int64(n))
		row.SubscriptionID = fmt.Sprintf("22222222-2222-4222-8222-%012d", n)
		var both sync.WaitGroup
		both.Go(func() {
			if err := b.Append(t.Context(), []notification.Row{row}); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			record := graph.Record{Name: row.Address.Name, Gen: row.Address.Gen, ID: row.SubscriptionID, State: graph.StateActive}
			if err := a.Save(t.Context(), term, graph.Change{Record: record}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
	}
	eventually(t, "all are routed and none is held", func() bool {
		stats, err := a.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.Routed == ids && stats.Held == 0
	})
}

// A wish that another replica changes is followed at once.
func TestWishOfAnotherReplica(t *testing.T) {
	where := database(t)
	a, b := replica(t, where, store.Config{Owner: "a"}), replica(t, where, store.Config{Owner: "b"})
	term := seed(t, a)
	for n, sinks := range [][]string{{"orders"}, {"moved"}, {"orders", "moved"}} {
		wishes, err := a.Wishes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wishes[0].Sinks = sinks
		if err := a.PutWishes(t.Context(), term, graph.SourceFile, wishes); err != nil {
			t.Fatal(err)
		}
		if err := b.Append(t.Context(), []notification.Row{benchRow(int64(n))}); err != nil {
			t.Fatal(err)
		}
		routeAll(t, b)
		for _, sink := range sinks {
			claimed, err := b.Claim(t.Context(), sink, 10, time.Minute)
			if err != nil || len(claimed) != 1 {
				t.Errorf("step %d: %d deliveries for %s, %v", n, len(claimed), sink, err)
			}
		}
	}
}

// Two routers at work make one event of a repeat, whoever took it in.
func TestRepeatsAcrossReplicas(t *testing.T) {
	where := database(t)
	a := replica(t, where, store.Config{Owner: "a", PollInterval: time.Millisecond})
	b := replica(t, where, store.Config{Owner: "b", PollInterval: time.Millisecond})
	seed(t, a)
	run(t, a)
	run(t, b)
	const items = 400
	var group sync.WaitGroup
	for _, s := range []*store.Store{a, b} {
		group.Go(func() {
			for n := range items {
				if err := s.Append(t.Context(), []notification.Row{benchRow(int64(n))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	eventually(t, "all are routed", func() bool {
		stats, err := b.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.Routed+stats.Duplicate == 2*items
	})
	stats, err := a.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Routed != items || stats.Pending["orders"] != items {
		t.Errorf("%d routed, %d pending of %d", stats.Routed, stats.Pending["orders"], items)
	}
}

// The bound of the backlog counts what another replica has taken in.
func TestBacklogOfAnotherReplica(t *testing.T) {
	where := database(t)
	a := replica(t, where, store.Config{Owner: "a", MaxBacklogRows: 10})
	b := replica(t, where, store.Config{Owner: "b", MaxBacklogRows: 10, PollInterval: 5 * time.Millisecond})
	rows := make([]notification.Row, 10)
	for i := range rows {
		rows[i] = benchRow(int64(i))
		rows[i].SubscriptionID = "held"
	}
	seed(t, a)
	if err := a.Append(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	run(t, b)
	eventually(t, "the other replica is full", func() bool {
		return errors.Is(b.Append(t.Context(), []notification.Row{benchRow(100)}), store.ErrFull)
	})
}

// A delivery that another replica routed wakes this one's sinks, and an item
// for the leader the leader.
func TestWorkOfAnotherReplicaWakes(t *testing.T) {
	where := database(t)
	a := replica(t, where, store.Config{Owner: "a"})
	b := replica(t, where, store.Config{Owner: "b", PollInterval: 5 * time.Millisecond})
	seed(t, a)
	orders, lifecycle := b.Pending("orders"), b.LifecyclePending()
	item := benchRow(1)
	item.Kind, item.Type, item.Evidence = notification.KindLifecycle, "missed", nil
	if err := a.Append(t.Context(), []notification.Row{benchRow(0), item}); err != nil {
		t.Fatal(err)
	}
	routeAll(t, a)
	run(t, b)
	for _, c := range []<-chan struct{}{orders, lifecycle} {
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Error("no token")
		}
	}
}

// deliverForEver claims and settles, and prints what it settled.
func deliverForEver(ctx context.Context, url string, out io.Writer) error {
	s, err := store.Open(ctx, store.Config{Postgres: at(url), Owner: "child", PollInterval: 10 * time.Millisecond})
	if err != nil {
		return err
	}
	go func() { _ = s.Run(ctx) }() // until the kill
	for {
		if _, err := deliver(ctx, s, out); err != nil {
			return err
		}
	}
}

func deliver(ctx context.Context, s *store.Store, out io.Writer) (int, error) {
	claimed, err := s.Claim(ctx, "orders", 5, 500*time.Millisecond)
	if err != nil {
		return 0, err
	}
	for i := range claimed {
		// As a sink would have it: before the settlement.
		if _, err := fmt.Fprintf(out, "%s\n", claimed[i].Notification.Item); err != nil {
			return 0, err
		}
		err := s.Settle(ctx, []notification.Outcome{{DeliveryID: claimed[i].ID}})
		if err != nil && !errors.Is(err, store.ErrClaimLost) {
			return 0, err
		}
	}
	return len(claimed), nil
}

// What a killed replica had claimed is taken over, and nothing is left.
func TestKilledReplica(t *testing.T) {
	url := server(t).Schema(t)
	s := replica(t, at(url), store.Config{Owner: "parent", PollInterval: 10 * time.Millisecond})
	seed(t, s)
	const items = 600
	for n := range items {
		if err := s.Append(t.Context(), []notification.Row{benchRow(int64(n))}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, s)
	command := child(t, "deliver", url)
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	delivered := map[string]bool{}
	lines := bufio.NewScanner(pipe)
	for len(delivered) < items/4 && lines.Scan() {
		delivered[lines.Text()] = true
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it wrote before the kill
		delivered[lines.Text()] = true
	}
	_ = command.Wait() // killed
	var out strings.Builder
	eventually(t, "nothing is pending", func() bool {
		if _, err := deliver(t.Context(), s, &out); err != nil {
			t.Fatal(err)
		}
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.New == 0 && stats.Pending["orders"] == 0
	})
	for line := range strings.Lines(out.String()) {
		delivered[strings.TrimSuffix(line, "\n")] = true
	}
	if len(delivered) != items {
		t.Errorf("%d of %d items delivered", len(delivered), items)
	}
}
