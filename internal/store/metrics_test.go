package store_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := open(t, store.Config{Registerer: registry, PollInterval: time.Hour})
	term := seed(t, s)
	gap := &graph.Gap{Name: "orders-inbox", From: time.Now(), Cause: graph.GapMissed}
	row := benchRow(0)
	record := graph.Record{Name: row.Address.Name, Gen: row.Address.Gen, ID: row.SubscriptionID}
	if err := s.Save(t.Context(), term, graph.Change{Record: record, Opened: gap}); err != nil {
		t.Fatal(err)
	}
	unknown := benchRow(1)
	unknown.Address.Name = "nobody"
	if err := s.Append(t.Context(), []notification.Row{row, unknown}); err != nil {
		t.Fatal(err)
	}
	routeAll(t, s)
	claimed, err := s.Claim(t.Context(), "archive", 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), []notification.Outcome{{DeliveryID: claimed[0].ID, Dead: true}}); err != nil {
		t.Fatal(err)
	}
	got := gather(t, registry)
	for series, want := range map[string]float64{
		`graphsubd_backlog_rows{}`: 0, `graphsubd_backlog_rows{orders}`: 1, `graphsubd_backlog_rows{archive}`: 0,
		`graphsubd_dead_letters{archive}`: 1, `graphsubd_dead_letters{orders}`: 0,
		`graphsubd_quarantine_rows{unknown_subscription}`: 1,
		`graphsubd_quarantine_rows{undecryptable}`:        0,
		`graphsubd_gaps_total{missed}`:                    1,
		`graphsubd_gaps_total{outage}`:                    0,
		`graphsubd_term`:                                  1,
		`graphsubd_delivery_oldest_age_seconds{archive}`:  0,
		`graphsubd_quarantine_rows{duplicate}`:            0,
	} {
		if value, found := got[series]; !found || value != want {
			t.Errorf("%s is %v (found %v), want %v", series, value, found, want)
		}
	}
	if got["graphsubd_store_bytes"] <= 0 || got["graphsubd_store_commit_duration_seconds"] <= 0 {
		t.Errorf("bytes %v, commits %v", got["graphsubd_store_bytes"], got["graphsubd_store_commit_duration_seconds"])
	}
}

// gather gives the value, or the count of observations, of each series.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += "{" + label.GetValue() + "}"
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}
