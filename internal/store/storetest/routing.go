package storetest

import (
	"maps"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func routingCases() map[string]func(*world) {
	return map[string]func(*world){
		"RouteDropsRepeats":               routeDropsRepeats,
		"RouteKeepsWhatProvesNothing":     routeKeepsWhatProvesNothing,
		"RouteForgetsEvidenceInTime":      routeForgetsEvidenceInTime,
		"RouteTakesNoEvidenceOfTheBad":    routeTakesNoEvidenceOfTheBad,
		"RouteQuarantines":                routeQuarantines,
		"RouteFollowsTheIDHistory":        routeFollowsTheIDHistory,
		"RouteHoldsUntilTheIDIsKnown":     routeHoldsUntilTheIDIsKnown,
		"RouteHoldsNotForEver":            routeHoldsNotForEver,
		"RouteHoldsARepeatBesideTheFirst": routeHoldsARepeatBesideTheFirst,
		"RouteFansOut":                    routeFansOut,
		"RouteSeesNewWishesAtOnce":        routeSeesNewWishesAtOnce,
		"RouteTakesNoMoreThanAsked":       routeTakesNoMoreThanAsked,
		"RouteNotesTheLastChange":         routeNotesTheLastChange,
		"RunRoutes":                       runRoutes,
	}
}

// evident gives a row with the evidence of an item.
func evident(n int, item notification.Item) notification.Row {
	row := change(n)
	row.Evidence = notification.EvidenceOf(name, &item)
	return row
}

// Created, updated, the same created again with and without its
// id, then a real second update.
func routeDropsRepeats(w *world) {
	t := w.t
	verdicts := &verdicts{}
	w.begin(store.Config{Verdict: verdicts.add})
	created := notification.Item{ID: "i1", ChangeType: "created", Resource: "m", ETag: `W/"1"`}
	again := notification.Item{ChangeType: "created", Resource: "m", ETag: `W/"1"`}
	updated := notification.Item{ID: "i2", ChangeType: "updated", Resource: "m", ETag: `W/"1"`}
	later := notification.Item{ChangeType: "updated", Resource: "m", ETag: `W/"2"`}
	w.append(evident(1, created), evident(2, updated), evident(3, created))
	w.route()
	w.append(evident(4, again), evident(5, later))
	w.reopen()
	w.route()
	sameItems(t, w.claim(sinkA), change(1), change(2), change(5))
	equal(t, "duplicates", w.stats().Duplicate, 2)
	equal(t, "told", verdicts.of("duplicate", notification.ReasonDuplicate), 2)
}

func routeKeepsWhatProvesNothing(w *world) {
	t := w.t
	w.begin(store.Config{})
	row := change(1)
	row.Evidence = nil
	w.append(row, row)
	w.route()
	sameItems(t, w.claim(sinkA), row, row)
}

func routeForgetsEvidenceInTime(w *world) {
	t := w.t
	w.begin(store.Config{SeenWindow: time.Millisecond})
	w.append(change(1))
	w.route()
	eventually(t, "the evidence ends", func() bool {
		w.append(change(1))
		w.route()
		return w.stats().Routed == 2
	})
}

// An item that is refused must not make a good one look like its repeat.
func routeTakesNoEvidenceOfTheBad(w *world) {
	t := w.t
	w.begin(store.Config{})
	bad := change(1)
	bad.TenantID = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
	w.append(bad, change(1))
	w.route()
	sameItems(t, w.claim(sinkA), change(1))
	equal(t, "wrong tenant", w.quarantined()[notification.ReasonWrongTenant], 1)
}

func routeQuarantines(w *world) {
	t := w.t
	verdicts := &verdicts{}
	w.begin(store.Config{Verdict: verdicts.add})
	other := wish()
	other.Name, other.Gen = "former", "gen0000009"
	w.wish(wish(), other)
	w.wish(wish())
	deleted := change(1)
	deleted.Address = notification.Address{Name: "former", Gen: "gen0000009"}
	unknown := change(2)
	unknown.Address.Name = "nobody"
	tenant := change(3)
	tenant.TenantID = ""
	generation := change(4)
	generation.Address.Gen = "gen0000002"
	w.append(deleted, unknown, tenant, generation)
	w.route()
	want := map[notification.Reason]int64{
		notification.ReasonNotDesired: 1, notification.ReasonUnknownSubscription: 1,
		notification.ReasonWrongTenant: 1, notification.ReasonBadClientState: 1,
	}
	if got := w.quarantined(); !maps.Equal(got, want) {
		t.Errorf("quarantined %v, want %v", got, want)
	}
	for reason := range want {
		equal(t, "told of "+string(reason), verdicts.of("quarantined", reason), 1)
	}
	equal(t, "deliveries", len(w.claim(sinkA)), 0)
	w.reopen()
	if got := w.quarantined(); !maps.Equal(got, want) {
		t.Errorf("quarantined after reopening %v, want %v", got, want)
	}
}

func routeFollowsTheIDHistory(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.save(record(id2))
	owner, found, err := w.Owner(t.Context(), id1)
	must(t, err)
	equal(t, "former id is known", found, true)
	equal(t, "owner", owner, notification.Address{Name: name, Gen: gen})
	_, found, err = w.Owner(t.Context(), "33333333-3333-4333-8333-333333333333")
	must(t, err)
	equal(t, "a foreign id is known", found, false)

	former, current := change(1), change(2)
	current.SubscriptionID = id2
	w.append(former, current)
	w.route()
	sameItems(t, w.claim(sinkA), former, current)

	must(t, w.Save(t.Context(), w.term, graph.Change{Record: record(id2), Forget: true}))
	late := change(3)
	late.SubscriptionID = id2
	w.append(late)
	w.route()
	sameItems(t, w.claim(sinkA), late)
}

// The first notification comes before the answer to the create.
func routeHoldsUntilTheIDIsKnown(w *world) {
	t := w.t
	w.begin(store.Config{})
	early, other := change(1), change(2)
	early.SubscriptionID, other.SubscriptionID = id2, "33333333-3333-4333-8333-333333333333"
	w.append(early, other)
	w.route()
	equal(t, "held", w.stats().Held, 2)
	equal(t, "deliveries", len(w.claim(sinkA)), 0)
	w.reopen()
	w.route()
	equal(t, "held after reopening", w.stats().Held, 2)

	w.save(record(id2))
	w.route()
	sameItems(t, w.claim(sinkA), early)
	equal(t, "still held", w.stats().Held, 1)
	equal(t, "new", w.stats().New, 0)
}

func routeHoldsNotForEver(w *world) {
	t := w.t
	w.begin(store.Config{HoldFor: time.Minute, MaxBacklogRows: 2})
	old, young := change(1), change(2)
	old.SubscriptionID, young.SubscriptionID = id2, id2
	old.ReceivedAt = time.Now().Add(-2 * time.Minute)
	w.append(old, young)
	w.route()
	equal(t, "quarantined", w.quarantined()[notification.ReasonUnknownSubscription], 1)
	equal(t, "held", w.stats().Held, 1)
	w.append(change(3))
	// What is held counts: junk ids cannot fill the store.
	wantIs(t, w.Append(t.Context(), []notification.Row{change(4)}), store.ErrFull)

	w.cfg.HoldFor = time.Millisecond
	w.reopen()
	eventually(t, "the held one is given up", func() bool {
		w.route()
		return w.stats().Held == 0
	})
	equal(t, "quarantined", w.quarantined()[notification.ReasonUnknownSubscription], 2)
}

func routeHoldsARepeatBesideTheFirst(w *world) {
	t := w.t
	w.begin(store.Config{})
	early := change(1)
	early.SubscriptionID = id2
	w.append(early, early)
	w.route()
	equal(t, "held", w.stats().Held, 2)
	w.save(record(id2))
	w.route()
	sameItems(t, w.claim(sinkA), early)
	equal(t, "duplicates", w.stats().Duplicate, 1)
}

func routeFansOut(w *world) {
	t := w.t
	w.begin(store.Config{Accepts: func(sink string, n *notification.Notification) bool {
		return sink == sinkA || n.Kind == notification.KindChange
	}})
	doubled := wish()
	doubled.Sinks = []string{sinkA, sinkB, sinkA}
	w.wish(doubled)
	plain := change(1)
	plain.Item = []byte(`{"id":"no resource"}`)
	w.append(plain)
	must(t, w.Save(t.Context(), w.term, graph.Change{
		Record: record(id1), Events: []graph.Event{{Type: graph.EventSubscriptionResumed, Name: name, At: time.Now()}},
	}))
	w.route()
	a, b := w.claim(sinkA), w.claim(sinkB)
	equal(t, "deliveries of a", len(a), 2)
	equal(t, "deliveries of b", len(b), 1)
	equal(t, "key without a resource", a[0].Key, name)
	equal(t, "event", a[1].Notification.Type, string(graph.EventSubscriptionResumed))

	silent := wish()
	silent.Sinks = nil
	w.wish(silent)
	w.append(change(2))
	w.route()
	equal(t, "routed", w.stats().Routed, 3)
	equal(t, "quarantined", len(w.quarantined()), 0)
}

func routeSeesNewWishesAtOnce(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	moved := wish()
	moved.Sinks = []string{"c"}
	w.wish(moved)
	w.append(change(2))
	w.route()
	sameItems(t, w.claim("c"), change(2))
	w.wish()
	w.append(change(3))
	w.route()
	equal(t, "not desired", w.quarantined()[notification.ReasonNotDesired], 1)
}

func routeTakesNoMoreThanAsked(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1), change(2), change(3))
	for _, want := range []int{2, 1, 0} {
		n, err := w.Route(t.Context(), 2)
		must(t, err)
		equal(t, "rows taken", n, want)
	}
	n, err := w.Route(t.Context(), 0)
	must(t, err)
	equal(t, "rows taken of none", n, 0)
}

func routeNotesTheLastChange(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	at := time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour)
	last := func() time.Time {
		all, err := w.LastNotifications(ctx)
		must(t, err)
		one, err := w.LastNotification(ctx, name)
		must(t, err)
		equal(t, "the one of the name", one, all[name])
		return one
	}
	row := func(n int, after time.Duration) notification.Row {
		r := change(n)
		r.ReceivedAt = at.Add(after)
		return r
	}
	if got := last(); !got.IsZero() {
		t.Errorf("a new store knows a last one, %v", got)
	}
	w.append(row(1, time.Minute), row(2, 2*time.Minute), row(3, time.Second))
	w.route()
	equal(t, "the last of a batch", last(), at.Add(2*time.Minute))
	w.append(row(4, time.Minute))
	w.route()
	equal(t, "after an older one", last(), at.Add(2*time.Minute))

	other, refused := row(5, 3*time.Minute), row(6, 4*time.Minute)
	other.Kind, other.Type = notification.KindLifecycle, "missed"
	refused.TenantID = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
	w.append(other, refused)
	w.route()
	w.reopen()
	equal(t, "after what is no change", last(), at.Add(2*time.Minute))
}

func runRoutes(w *world) {
	t := w.t
	w.begin(store.Config{PollInterval: time.Hour})
	pending := w.Pending(sinkA)
	w.run()
	for n := range 5 {
		w.append(change(n))
		var claimed []notification.Delivery
		eventually(t, "the row is routed", func() bool {
			claimed = append(claimed, w.claim(sinkA)...)
			return len(claimed) == 1
		})
	}
	select {
	case <-pending:
	default:
		t.Error("no token for five deliveries")
	}
}
