package graph_test

import (
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
)

func TestSilentSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 10, 0, 0, 0, 0, time.UTC)
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	wish := graph.Wish{Name: "a", Gen: "g", SilentAfter: 24 * time.Hour}
	record := graph.Record{Name: "a", Gen: "g", ID: "s1", State: graph.StateActive, CreatedAt: ago(100), GrantedAt: ago(1)}
	receiving := graph.Receiving{Since: ago(200), At: now.Add(-time.Minute)}
	for name, test := range map[string]struct {
		change func(w *graph.Wish, r *graph.Record, at *graph.Receiving)
		last   time.Time
		since  time.Time // zero where it cannot be silent
		silent bool
	}{
		"never anything":          {nil, time.Time{}, ago(100), true},
		"an item of late":         {nil, ago(23), ago(23), false},
		"an item, just so old":    {nil, ago(24), ago(24), true},
		"created of late":         {func(_ *graph.Wish, r *graph.Record, _ *graph.Receiving) { r.CreatedAt = ago(23) }, ago(90), ago(23), false},
		"found in a listing":      {func(_ *graph.Wish, r *graph.Record, _ *graph.Receiving) { r.CreatedAt = time.Time{} }, time.Time{}, ago(1), false},
		"could receive of late":   {func(_ *graph.Wish, _ *graph.Record, at *graph.Receiving) { at.Since = ago(5) }, ago(90), ago(5), false},
		"cannot receive":          {func(_ *graph.Wish, _ *graph.Record, at *graph.Receiving) { at.At = ago(1) }, ago(90), time.Time{}, false},
		"never could receive":     {func(_ *graph.Wish, _ *graph.Record, at *graph.Receiving) { *at = graph.Receiving{} }, ago(90), time.Time{}, false},
		"off":                     {func(w *graph.Wish, _ *graph.Record, _ *graph.Receiving) { w.SilentAfter = 0 }, ago(90), time.Time{}, false},
		"paused":                  {func(w *graph.Wish, _ *graph.Record, _ *graph.Receiving) { w.Paused = true }, ago(90), time.Time{}, false},
		"gone":                    {func(_ *graph.Wish, r *graph.Record, _ *graph.Receiving) { r.ID = "" }, ago(90), time.Time{}, false},
		"about to be replaced":    {func(_ *graph.Wish, r *graph.Record, _ *graph.Receiving) { r.Gen = "older" }, ago(90), time.Time{}, false},
		"an item of a clock fast": {nil, now.Add(time.Hour), now.Add(time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r, at := wish, record, receiving
			if test.change != nil {
				test.change(&w, &r, &at)
			}
			since, silent := at.SilentSince(now, &w, r, test.last)
			if !since.Equal(test.since) || silent != test.silent {
				t.Errorf("got %v, %v; want %v, %v", since, silent, test.since, test.silent)
			}
		})
	}
	if since, silent := receiving.SilentSince(now, nil, record, ago(90)); silent || !since.IsZero() {
		t.Error("what nobody wishes for is silent")
	}
}
