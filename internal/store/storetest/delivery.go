package storetest

import (
	"time"

	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func deliveryCases() map[string]func(*world) {
	return map[string]func(*world){
		"ClaimIsExclusive":         claimIsExclusive,
		"ClaimIsTakenOver":         claimIsTakenOver,
		"ClaimTakesTheOldestFirst": claimTakesTheOldestFirst,
		"SettleDelivered":          settleDelivered,
		"SettleRetry":              settleRetry,
		"SettleDeadLetter":         settleDeadLetter,
		"SettleOfAStaleOwner":      settleOfAStaleOwner,
		"PendingWakes":             pendingWakes,
		"NextDueCountsClaims":      nextDueCountsClaims,
	}
}

func claimIsExclusive(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1), change(2))
	w.route()
	first, err := w.Claim(t.Context(), sinkA, 1, time.Hour)
	must(t, err)
	sameItems(t, first, change(1))
	sameItems(t, w.claim(sinkA), change(2))
	sameItems(t, w.claim(sinkA))
	sameItems(t, w.claim(sinkB), change(1), change(2))
	none, err := w.Claim(t.Context(), "c", 0, time.Hour)
	must(t, err)
	sameItems(t, none)
}

func claimIsTakenOver(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	first, err := w.Claim(t.Context(), sinkA, 1, time.Millisecond)
	must(t, err)
	var again []notification.Delivery
	eventually(t, "the claim ends", func() bool {
		again = w.claim(sinkA)
		return len(again) == 1
	})
	equal(t, "delivery", again[0].ID, first[0].ID)
	equal(t, "attempts", again[0].Attempts, 0)
	sameItems(t, w.claim(sinkA))
}

func claimTakesTheOldestFirst(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	claimed := w.claim(sinkA)
	w.append(change(2))
	w.route()
	w.settle(notification.Outcome{DeliveryID: claimed[0].ID, Next: time.Now().Add(-time.Hour)})
	sameItems(t, w.claim(sinkA), change(1), change(2))
}

func settleDelivered(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	equal(t, "pending", w.stats().Pending[sinkA], 1)
	claimed := w.claim(sinkA)
	w.settle(notification.Outcome{DeliveryID: claimed[0].ID})
	equal(t, "pending", w.stats().Pending[sinkA], 0)
	_, found, err := w.NextDue(t.Context(), sinkA)
	must(t, err)
	equal(t, "found", found, false)
	wantIs(t, w.Settle(t.Context(), []notification.Outcome{{DeliveryID: claimed[0].ID}}), store.ErrClaimLost)
	w.reopen()
	equal(t, "pending", w.stats().Pending[sinkA], 0)
	equal(t, "pending of b", w.stats().Pending[sinkB], 1)
	must(t, w.Settle(t.Context(), nil))
}

func settleRetry(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	next := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	w.settle(notification.Outcome{DeliveryID: w.claim(sinkA)[0].ID, Next: next, Error: "503"})
	sameItems(t, w.claim(sinkA))
	at, found, err := w.NextDue(t.Context(), sinkA)
	must(t, err)
	equal(t, "found", found, true)
	near(t, "next try", at, next)

	w.settle(notification.Outcome{DeliveryID: w.claim(sinkB)[0].ID, Next: time.Now(), Error: "503"})
	again := w.claim(sinkB)
	sameItems(t, again, change(1))
	equal(t, "attempts", again[0].Attempts, 1)
}

func settleDeadLetter(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	w.settle(notification.Outcome{DeliveryID: w.claim(sinkA)[0].ID, Next: time.Now(), Dead: true, Error: "410"})
	sameItems(t, w.claim(sinkA))
	equal(t, "dead letters", w.stats().Dead[sinkA], 1)
	equal(t, "pending", w.stats().Pending[sinkA], 0)
	w.reopen()
	equal(t, "dead letters", w.stats().Dead[sinkA], 1)
}

// A process that lost its claim must not end what another one has in hand,
// and its other outcomes still count.
func settleOfAStaleOwner(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1), change(2))
	w.route()
	stale, err := w.Claim(t.Context(), sinkA, 1, time.Millisecond)
	must(t, err)
	w.cfg.Owner = "second"
	w.reopen()
	wantIs(t, w.Settle(t.Context(), []notification.Outcome{{DeliveryID: stale[0].ID}}), store.ErrClaimLost)
	var claimed []notification.Delivery
	eventually(t, "the former owner's claim is free", func() bool {
		claimed = append(claimed, w.claim(sinkA)...)
		return len(claimed) == 2
	})
	w.cfg.Owner = "third"
	w.reopen()
	ours, err := w.Claim(t.Context(), sinkB, 1, time.Hour)
	must(t, err)
	err = w.Settle(t.Context(), []notification.Outcome{{DeliveryID: claimed[0].ID}, {DeliveryID: ours[0].ID}})
	wantIs(t, err, store.ErrClaimLost)
	equal(t, "pending of a", w.stats().Pending[sinkA], 2)
	equal(t, "pending of b", w.stats().Pending[sinkB], 1)
}

func pendingWakes(w *world) {
	t := w.t
	w.begin(store.Config{})
	a, c := w.Pending(sinkA), w.Pending("c")
	w.append(change(1), change(2))
	w.route()
	select {
	case <-a:
	default:
		t.Error("no token after routing")
	}
	for sink, channel := range map[string]<-chan struct{}{sinkA: a, "c": c} {
		select {
		case <-channel:
			t.Errorf("a token of sink %s for nothing new", sink)
		default:
		}
	}
	if w.Pending(sinkA) != a {
		t.Error("two channels for one sink")
	}
}

func nextDueCountsClaims(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(change(1))
	w.route()
	at, found, err := w.NextDue(t.Context(), sinkA)
	must(t, err)
	equal(t, "found", found, true)
	if at.After(time.Now()) {
		t.Errorf("a new delivery is due at %v", at)
	}
	w.claim(sinkA)
	at, found, err = w.NextDue(t.Context(), sinkA)
	must(t, err)
	equal(t, "found", found, true)
	if until := time.Until(at); until < 50*time.Minute || until > time.Hour {
		t.Errorf("a claim of an hour ends in %v", until)
	}
}
