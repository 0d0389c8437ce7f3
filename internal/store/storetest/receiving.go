package storetest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func receivingCases() map[string]func(*world) {
	return map[string]func(*world){
		"AppendIsKept":             appendIsKept,
		"AppendKeepsEveryField":    appendKeepsEveryField,
		"AppendFromMany":           appendFromMany,
		"AppendQuarantines":        appendQuarantines,
		"QuarantineBoundedByRows":  quarantineIsBounded(store.Config{MaxQuarantineRows: 2}),
		"QuarantineBoundedByBytes": quarantineIsBounded(store.Config{MaxQuarantineBytes: int64(len(change(1).Item)) * 5 / 2}),
		"AppendIsBoundedByRows":    appendIsBoundedByRows,
		"AppendIsBoundedByBytes":   appendIsBoundedByBytes,
		"AppendAfterItsContext":    appendAfterItsContext,
		"AppendTakesAnyText":       appendTakesAnyText,
		"ClosedStoreIsUnavailable": closedStoreIsUnavailable,
	}
}

func appendIsKept(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1), change(2))
	w.reopen()
	w.append(change(3))
	w.route()
	claimed := w.claim(sinkA)
	sameItems(t, claimed, change(1), change(2), change(3))
	ids := []string{claimed[0].Notification.ID, claimed[1].Notification.ID, claimed[2].Notification.ID}
	if !slices.IsSorted(ids) {
		t.Errorf("ids %v are not in the order of storing", ids)
	}
}

func appendKeepsEveryField(w *world) {
	t := w.t
	w.begin(store.Config{})
	row := change(1)
	w.append(row)
	w.route()
	for _, sink := range []string{sinkA, sinkB} {
		claimed := w.claim(sink)
		equal(t, "deliveries", len(claimed), 1)
		got := claimed[0]
		if !reflect.DeepEqual(got.Notification.Row, row) {
			t.Errorf("row %+v, want %+v", got.Notification.Row, row)
		}
		equal(t, "sink", got.Sink, sink)
		equal(t, "key", got.Key, "users/u1/messages/m1")
		equal(t, "attempts", got.Attempts, 0)
		equal(t, "id of 26 digits", len(got.Notification.ID), 26)
	}
}

func appendFromMany(w *world) {
	t := w.t
	const callers, each = 32, 20
	w.begin(store.Config{})
	var group sync.WaitGroup
	errs := make(chan error, callers*each)
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				errs <- w.Append(t.Context(), []notification.Row{change(caller*each + i)})
			}
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		must(t, err)
	}
	w.reopen()
	w.route()
	found := map[string]bool{}
	for range 10 {
		for _, text := range items(w.claim(sinkA)) {
			found[text] = true
		}
	}
	equal(t, "different items", len(found), callers*each)
}

func appendQuarantines(w *world) {
	t := w.t
	w.begin(store.Config{MaxBacklogRows: 1})
	bad, worse := change(1), change(2)
	bad.Reason, worse.Reason = notification.ReasonBadClientState, notification.ReasonMalformed
	worse.Item = nil
	w.append(bad, worse, change(3))
	w.append(bad)
	w.route()
	sameItems(t, w.claim(sinkA), change(3))
	got := w.quarantined()
	equal(t, "bad clientState", got[notification.ReasonBadClientState], 2)
	equal(t, "malformed", got[notification.ReasonMalformed], 1)
	w.reopen()
	equal(t, "after reopening", w.quarantined()[notification.ReasonBadClientState], 2)
}

// A full quarantine takes nothing more, from the receiver or from the router,
// and holds up nothing that is good, until retention has made room.
func quarantineIsBounded(cfg store.Config) func(*world) {
	return func(w *world) {
		t := w.t
		cfg.RetainDeadLetters, cfg.PollInterval = 100*time.Millisecond, time.Millisecond
		w.begin(cfg)
		bad, stranger := change(1), change(3)
		bad.Reason = notification.ReasonBadClientState
		stranger.TenantID = "ffffffff-ffff-4fff-8fff-ffffffffffff"
		w.append(bad)
		w.append(bad)
		w.append(bad, change(2), bad)
		w.append(bad)
		w.append(stranger)
		w.route()
		sameItems(t, w.claim(sinkA), change(2))
		got := w.quarantined()
		equal(t, "kept", got[notification.ReasonBadClientState], 2)
		equal(t, "kept by the router", got[notification.ReasonWrongTenant], 0)
		equal(t, "not routed", w.stats().New, 0)
		w.run()
		eventually(t, "retention makes room", func() bool { return w.quarantined()[notification.ReasonBadClientState] == 0 })
	}
}

func appendIsBoundedByRows(w *world) {
	t := w.t
	w.begin(store.Config{MaxBacklogRows: 20})
	rows := make([]notification.Row, 10)
	for i := range rows {
		rows[i] = change(i)
	}
	w.append(rows...)
	// Ten rows on their way to two sinks are twenty.
	w.route()
	full := func() {
		t.Helper()
		wantIs(t, w.Append(t.Context(), []notification.Row{change(100)}), store.ErrFull)
		wantIs(t, w.Append(t.Context(), []notification.Row{change(100), lifecycle("missed", id1)}), store.ErrFull)
	}
	full()
	w.append(lifecycle("missed", id1), lifecycle("missed", id1))
	wantIs(t, w.Append(t.Context(), []notification.Row{lifecycle("missed", id1)}), store.ErrFull)
	full()
	w.reopen()
	full()

	w.route()
	full()
	claimed, err := w.Claim(t.Context(), sinkA, 1, 0)
	must(t, err)
	w.settle(notification.Outcome{DeliveryID: claimed[0].ID})
	w.append(change(101))
	full()
}

func appendIsBoundedByBytes(w *world) {
	t := w.t
	size := int64(len(change(1).Item))
	w.begin(store.Config{MaxBacklogBytes: 2 * size})
	w.append(change(1), change(2))
	wantIs(t, w.Append(t.Context(), []notification.Row{change(3)}), store.ErrFull)
	w.route()
	for _, sink := range []string{sinkA, sinkB} {
		for _, d := range w.claim(sink) {
			w.settle(notification.Outcome{DeliveryID: d.ID, Dead: true})
		}
	}
	w.append(change(3))
}

func appendAfterItsContext(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The row may have been stored or not; the error is what counts.
	if err := w.Append(ctx, []notification.Row{change(1)}); err != nil {
		wantIs(t, err, graph.ErrStoreUnavailable)
		wantIs(t, err, context.Canceled)
	}
	w.append(change(2))
}

// What anyone may write into an item must not make it, or those stored with it,
// fail.
func appendTakesAnyText(w *world) {
	t := w.t
	w.begin(store.Config{})
	odd := lifecycle("a\x00b\xff", id1)
	odd.SubscriptionID, odd.TenantID = "\x00\xfe", "\x00"
	zero := change(1)
	zero.Item = []byte(`{"resource":"a\u0000b"}`)
	w.append(odd, zero, change(2))
	w.route()
	claimed := w.claim(sinkA)
	sameItems(t, claimed, zero, change(2))
	w.settle(notification.Outcome{DeliveryID: claimed[0].ID, Next: time.Now(), Dead: true, Error: "\x00\xff"})
	equal(t, "dead letters", w.stats().Dead[sinkA], 1)
}

func closedStoreIsUnavailable(w *world) {
	t := w.t
	w.begin(store.Config{})
	must(t, w.Close())
	must(t, w.Close())
	for name, call := range map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error { return w.Append(ctx, []notification.Row{change(1)}) },
		"Save": func(ctx context.Context) error {
			return w.Save(ctx, w.term, graph.Change{Record: record(id2)})
		},
		"Owner":  func(ctx context.Context) error { _, _, err := w.Owner(ctx, id1); return err },
		"Wishes": func(ctx context.Context) error { _, err := w.Wishes(ctx); return err },
		"Claim":  func(ctx context.Context) error { _, err := w.Claim(ctx, sinkA, 1, 0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			wantIs(t, call(t.Context()), graph.ErrStoreUnavailable)
		})
	}
}
