// Command store measures the store on SQLite and on PostgreSQL: the benchmark
// group "store". It prints one figure per line: name, value, unit.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
	"github.com/graphsubd/graphsubd/test/harness"
	"github.com/graphsubd/graphsubd/test/postgres"
)

const (
	rounds = 5
	// appenders store one row at a time and wait for each.
	appenders  = 64
	appendTime = 3 * time.Second
	// routed rows go to two sinks in steps of the size that the router takes.
	routed    = 20_000
	routeStep = 500
	// settlers claim and settle the deliveries of one sink in batches.
	settlers, settleBatch = 4, 100
)

func main() { os.Exit(harness.Main(run)) }

func run(t harness.T) {
	server, err := postgres.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	databases := map[string]func() store.Config{
		"sqlite": func() store.Config { return store.Config{Path: filepath.Join(t.TempDir(), "store.db")} },
		"pg": func() store.Config {
			url := server.Schema(t)
			return store.Config{Postgres: &store.Postgres{URL: func() (string, error) { return url, nil }}}
		},
	}
	results := map[string][]float64{}
	for range rounds {
		for _, name := range []string{"sqlite", "pg"} {
			for what, rate := range measure(t, databases[name]) {
				key := "store_" + name + "_" + what + "_rps"
				results[key] = append(results[key], rate)
			}
		}
	}
	widest := 1.0
	for _, what := range []string{"append", "route", "settle"} {
		for _, name := range []string{"sqlite", "pg"} {
			key := "store_" + name + "_" + what + "_rps"
			harness.Figure(key, harness.Median(results[key]), "rows/s")
			widest = max(widest, harness.Spread(results[key]))
		}
	}
	harness.Figure("cpus", float64(runtime.NumCPU()), "count")
	harness.Figure("rounds", rounds, "count")
	harness.Figure("spread", widest, "ratio")
}

// measure appends to one store, and routes and settles in another, so that what
// the one leaves does not slow the other.
func measure(t harness.T, empty func() store.Config) map[string]float64 {
	t.Helper()
	rates := map[string]float64{}
	s := open(t, empty())
	rates["append"] = appendRate(t, s)
	second := open(t, empty())
	rates["route"], rates["settle"] = routeRate(t, second), settleRate(t, second)
	for _, opened := range []*store.Store{s, second} {
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return rates
}

// open opens an empty store with the wish and the record that row is for.
func open(t harness.T, cfg store.Config) *store.Store {
	t.Helper()
	cfg.Owner = "bench"
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	sample := row(0)
	term, err := s.NewTerm(t.Context(), "bench")
	if err != nil {
		t.Fatal(err)
	}
	wish := graph.Wish{
		Name: sample.Address.Name, Gen: sample.Address.Gen, TenantID: sample.TenantID, Sinks: []string{"orders", "archive"},
	}
	if err := s.PutWishes(t.Context(), term, graph.SourceFile, []graph.Wish{wish}); err != nil {
		t.Fatal(err)
	}
	record := graph.Record{Name: wish.Name, Gen: wish.Gen, ID: sample.SubscriptionID, State: graph.StateActive}
	if err := s.Save(t.Context(), term, graph.Change{Record: record}); err != nil {
		t.Fatal(err)
	}
	return s
}

// row is an ordinary change of about the size that Graph sends.
func row(n int64) notification.Row {
	item := notification.Item{
		ID: fmt.Sprintf("id-%d", n), ChangeType: "created", Resource: fmt.Sprintf("Users/u1/Messages/AAMkAD%d", n), ETag: `W/"1"`,
	}
	return notification.Row{
		Address:        notification.Address{Name: "orders-inbox", Gen: "abcdefghij"},
		SubscriptionID: "11111111-1111-4111-8111-111111111111",
		TenantID:       "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
		ReceivedAt:     time.Now(),
		Kind:           notification.KindChange, Origin: notification.OriginGraph,
		Evidence: notification.EvidenceOf("orders-inbox", &item),
		Item: fmt.Appendf(nil, `{"id":"id-%d","subscriptionId":"11111111-1111-4111-8111-111111111111",`+
			`"subscriptionExpirationDateTime":"2030-01-02T03:04:05.6789012Z","tenantId":"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa",`+
			`"changeType":"created","resource":"Users/u1/Messages/AAMkAD%d","resourceData":{"@odata.type":"#Microsoft.Graph.Message",`+
			`"@odata.id":"Users/u1/Messages/AAMkAD%d","@odata.etag":"W/\"1\"","id":"AAMkAD%d"}}`, n, n, n, n),
	}
}

// appendRate is how many rows a second become durable.
func appendRate(t harness.T, s *store.Store) float64 {
	t.Helper()
	var taken, next atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var group sync.WaitGroup
	for range appenders {
		group.Go(func() {
			for time.Since(began) < appendTime {
				if err := s.Append(t.Context(), []notification.Row{row(next.Add(1))}); err != nil {
					failed.Store(&err)
					return
				}
				taken.Add(1)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	return float64(taken.Load()) / time.Since(began).Seconds()
}

// routeRate is how many rows a second are routed to two sinks.
func routeRate(t harness.T, s *store.Store) float64 {
	t.Helper()
	for n := int64(0); n < routed; n += routeStep {
		rows := make([]notification.Row, routeStep)
		for i := range rows {
			rows[i] = row(1<<40 + n + int64(i))
		}
		if err := s.Append(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for done := 0; done < routed; {
		n, err := s.Route(t.Context(), routeStep)
		if err != nil || n == 0 {
			t.Fatal("route: ", n, err)
		}
		done += n
	}
	return routed / time.Since(began).Seconds()
}

// settleRate is how many deliveries a second are claimed and settled.
func settleRate(t harness.T, s *store.Store) float64 {
	t.Helper()
	var settled atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var group sync.WaitGroup
	for range settlers {
		group.Go(func() {
			for {
				claimed, err := s.Claim(t.Context(), "orders", settleBatch, time.Minute)
				if err == nil && len(claimed) == 0 {
					return
				}
				outcomes := make([]notification.Outcome, len(claimed))
				for i := range claimed {
					outcomes[i].DeliveryID = claimed[i].ID
				}
				if err == nil {
					err = s.Settle(t.Context(), outcomes)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				settled.Add(int64(len(claimed)))
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	if n := settled.Load(); n != routed {
		t.Fatalf("%d of %d deliveries settled", n, routed)
	}
	return routed / time.Since(began).Seconds()
}
