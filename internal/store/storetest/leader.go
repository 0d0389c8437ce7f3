package storetest

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func leaderCases() map[string]func(*world) {
	return map[string]func(*world){
		"TermsRise":                   termsRise,
		"LeaderIsKnown":               leaderIsKnown,
		"OneNameIsFound":              oneNameIsFound,
		"FormerTermChangesNothing":    formerTermChangesNothing,
		"WishesAreASetPerSource":      wishesAreASetPerSource,
		"WishesOfTwoSourcesStayApart": wishesOfTwoSourcesStayApart,
		"RecordsAreKept":              recordsAreKept,
		"GapsAreKept":                 gapsAreKept,
		"EventsAreRouted":             eventsAreRouted,
		"LifecycleGoesToTheLeader":    lifecycleGoesToTheLeader,
		"LimitsAndSigningKeysAreKept": limitsAndSigningKeysAreKept,
		"CommandsGoToTheLeader":       commandsGoToTheLeader,
	}
}

func termsRise(w *world) {
	t := w.t
	w.begin(store.Config{})
	second, err := w.NewTerm(t.Context(), "other")
	must(t, err)
	w.reopen()
	third, err := w.NewTerm(t.Context(), "holder")
	must(t, err)
	if w.term >= second || second >= third || w.term < 1 {
		t.Errorf("terms %d, %d, %d", w.term, second, third)
	}
}

func leaderIsKnown(w *world) {
	t := w.t
	s, err := w.open(t.Context(), store.Config{Owner: "first"})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	holder, term, since, err := s.Leader(t.Context())
	must(t, err)
	if holder != "" || term != 0 || !since.IsZero() {
		t.Errorf("a new store knows the leader %q of term %d since %v", holder, term, since)
	}
	before := time.Now()
	issued, err := s.NewTerm(t.Context(), "holder")
	must(t, err)
	holder, term, since, err = s.Leader(t.Context())
	must(t, err)
	equal(t, "holder", holder, "holder")
	equal(t, "term", term, issued)
	if since.Before(before.Truncate(time.Microsecond)) || since.After(time.Now()) {
		t.Errorf("since %v", since)
	}
}

func formerTermChangesNothing(w *world) {
	t := w.t
	w.begin(store.Config{})
	w.append(lifecycle("missed", id1))
	w.route()
	waiting, err := w.Lifecycle(t.Context(), 10)
	must(t, err)
	newer, err := w.NewTerm(t.Context(), "other")
	must(t, err)
	ctx := t.Context()
	for _, term := range []int64{w.term, newer + 1, 0} {
		wantIs(t, w.PutWishes(ctx, term, graph.SourceFile, nil), graph.ErrTermLost)
		wantIs(t, w.Save(ctx, term, graph.Change{
			Record: record(id2), Opened: &graph.Gap{Name: name, From: time.Now(), Cause: graph.GapMissed},
			Events: []graph.Event{{Type: graph.EventGapOpened, Name: name}},
		}), graph.ErrTermLost)
		wantIs(t, w.LearnLimit(ctx, term, graph.LearnedLimit{Tenant: "contoso", Type: "message", Lifetime: time.Hour}), graph.ErrTermLost)
		wantIs(t, w.PutSigningKeys(ctx, term, []string{"f"}), graph.ErrTermLost)
		wantIs(t, w.SettleLifecycle(ctx, term, []string{waiting[0].ID}), graph.ErrTermLost)
	}
	wishes, err := w.Wishes(ctx)
	must(t, err)
	equal(t, "wishes", len(wishes), 1)
	records, err := w.Records(ctx)
	must(t, err)
	equal(t, "id", records[0].ID, id1)
	_, found, err := w.Owner(ctx, id2)
	must(t, err)
	equal(t, "id of the refused record is known", found, false)
	limits, err := w.Limits(ctx)
	must(t, err)
	equal(t, "limits", len(limits), 0)
	keys, err := w.SigningKeys(ctx)
	must(t, err)
	equal(t, "keys", len(keys), 0)
	waiting, err = w.Lifecycle(ctx, 10)
	must(t, err)
	equal(t, "lifecycle items", len(waiting), 1)
	stats := w.stats()
	equal(t, "gaps", stats.OpenGaps, 0)
	equal(t, "new rows", stats.New, 0)
}

func wishesAreASetPerSource(w *world) {
	t := w.t
	w.begin(store.Config{})
	other := wish()
	other.Name, other.Paused, other.Rotation, other.ImmutableIDs = "rooms", true, 3, true
	w.wish(wish(), other)
	w.reopen()
	got, err := w.Wishes(t.Context())
	must(t, err)
	if want := []graph.Wish{wish(), other}; !reflect.DeepEqual(got, want) {
		t.Fatalf("wishes %+v, want %+v", got, want)
	}
	w.wish(other)
	got, err = w.Wishes(t.Context())
	must(t, err)
	if want := []graph.Wish{other}; !reflect.DeepEqual(got, want) {
		t.Fatalf("wishes %+v, want %+v", got, want)
	}
	w.wish(wish(), other)
	got, err = w.Wishes(t.Context())
	must(t, err)
	equal(t, "wishes after it came back", len(got), 2)
}

func wishesOfTwoSourcesStayApart(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	mine := wish()
	mine.Name = "mine"
	must(t, w.PutWishes(ctx, w.term, graph.SourceREST, []graph.Wish{mine}))
	w.wish(wish())
	names := func() []string {
		wishes, err := w.Wishes(ctx)
		must(t, err)
		var names []string
		for _, wish := range wishes {
			names = append(names, string(wish.Source)+"/"+wish.Name)
		}
		return names
	}
	want := []string{"rest/mine", "file/orders"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("wishes %v, want %v", got, want)
	}
	taken := wish()
	taken.Sinks = []string{"elsewhere"}
	fresh := wish()
	fresh.Name = "fresh"
	wantIs(t, w.PutWishes(ctx, w.term, graph.SourceREST, []graph.Wish{fresh, taken}), store.ErrNameTaken)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("wishes after a refusal %v, want %v", got, want)
	}
	w.wish()
	must(t, w.PutWishes(ctx, w.term, graph.SourceREST, []graph.Wish{taken}))
	if got, want := names(), []string{"rest/orders"}; !slices.Equal(got, want) {
		t.Errorf("wishes after the name was free %v, want %v", got, want)
	}
}

func recordsAreKept(w *world) {
	t := w.t
	w.begin(store.Config{})
	now := time.Now().UTC().Truncate(time.Microsecond)
	full := graph.Record{
		Name: "rooms", Gen: "gen0000001", Tenant: "contoso", Resource: "users/u1/events", ID: id2,
		State: graph.StateParked, Reason: graph.ReasonQuota, Detail: "Maximum number of subscriptions",
		CreatedAt: now, GrantedAt: now.Add(time.Millisecond), ExpiresAt: now.Add(time.Hour), RenewAt: now.Add(time.Minute),
		Attempt: 4, NextAt: now.Add(time.Second), Ambiguous: true, Held: true, LostAt: now.Add(-time.Hour),
		LostCause: graph.GapRemoved,
	}
	other := full
	other.Gen, other.ID, other.Ambiguous = "gen0000002", "", false
	w.save(full)
	w.save(other)
	w.reopen()
	full.Term, other.Term = w.term, w.term
	plain := record(id1)
	plain.Term = w.term
	got, err := w.Records(t.Context())
	must(t, err)
	if want := []graph.Record{plain, full, other}; !reflect.DeepEqual(got, want) {
		t.Fatalf("records %+v, want %+v", got, want)
	}
	must(t, w.Save(t.Context(), w.term, graph.Change{Record: other, Forget: true}))
	must(t, w.Save(t.Context(), w.term, graph.Change{Record: full, Forget: true}))
	got, err = w.Records(t.Context())
	must(t, err)
	if !reflect.DeepEqual(got, []graph.Record{plain}) {
		t.Fatalf("records %+v, want %+v", got, plain)
	}
}

func oneNameIsFound(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	other := wish()
	other.Name = "rooms"
	w.wish(wish(), other)
	older := record(id2)
	older.Gen = "gen0000000"
	w.save(older)
	got, found, err := w.Wish(ctx, name)
	must(t, err)
	if !found || !reflect.DeepEqual(got, wish()) {
		t.Errorf("found %v: %+v", found, got)
	}
	records, err := w.RecordsOf(ctx, name)
	must(t, err)
	equal(t, "records", len(records), 2)
	equal(t, "first", records[0].ID, id2)
	equal(t, "second", records[1].ID, id1)

	w.wish(other)
	_, found, err = w.Wish(ctx, name)
	must(t, err)
	equal(t, "a deleted wish is found", found, false)
	records, err = w.RecordsOf(ctx, "rooms")
	must(t, err)
	equal(t, "records of another", len(records), 0)
}

func gapsAreKept(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	from := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	gap := graph.Gap{Name: name, From: from, Cause: graph.GapRemoved}
	open1 := graph.Change{Record: record(id1), Opened: &gap}
	must(t, w.Save(ctx, w.term, open1))
	must(t, w.Save(ctx, w.term, open1))
	missed := graph.Gap{Name: name, From: from.Add(time.Minute), To: from.Add(2 * time.Minute), Cause: graph.GapMissed}
	must(t, w.Save(ctx, w.term, graph.Change{Record: record(id1), Closed: &missed}))
	equal(t, "open gaps", w.stats().OpenGaps, 1)
	closed := gap
	closed.To = from.Add(time.Hour)
	must(t, w.Save(ctx, w.term, graph.Change{Record: record(id1), Closed: &closed}))
	w.reopen()
	equal(t, "open gaps", w.stats().OpenGaps, 0)
	for _, of := range []string{name, ""} {
		got, err := w.Gaps(ctx, of)
		must(t, err)
		if want := []graph.Gap{closed, missed}; !slices.Equal(got, want) {
			t.Errorf("gaps of %q: %v, want %v", of, got, want)
		}
	}
	none, err := w.Gaps(ctx, "nobody")
	must(t, err)
	equal(t, "gaps of another", len(none), 0)
}

// A consumer learns of the end of a subscription although nobody wishes for it
// any more, and of each event although two look alike.
func eventsAreRouted(w *world) {
	t := w.t
	w.begin(store.Config{MaxBacklogRows: 1})
	w.wish()
	at := time.Now().UTC().Truncate(time.Microsecond)
	event := graph.Event{Type: graph.EventSubscriptionRemoved, Name: name, ID: id1, At: at, Cause: graph.GapRemoved}
	later := event
	later.At = at.Add(time.Microsecond)
	// Twice, as a leader does that does not know whether the first was stored.
	for _, e := range []graph.Event{event, later, event} {
		must(t, w.Save(t.Context(), w.term, graph.Change{Record: record(id1), Forget: true, Events: []graph.Event{e}}))
	}
	w.route()
	claimed := w.claim(sinkB)
	equal(t, "events", len(claimed), 2)
	got := claimed[0]
	equal(t, "kind", got.Notification.Kind, notification.KindOperation)
	equal(t, "origin", got.Notification.Origin, notification.OriginGraphsubd)
	equal(t, "type", got.Notification.Type, string(graph.EventSubscriptionRemoved))
	equal(t, "time", got.Notification.ReceivedAt, at)
	equal(t, "key", got.Key, name)
	equal(t, "address", got.Notification.Address, notification.Address{Name: name, Gen: gen})
	want, err := json.Marshal(event)
	must(t, err)
	equal(t, "data", string(got.Notification.Item), string(want))
}

// An item of a former id reaches the leader too, which compares
// it with the current one.
func lifecycleGoesToTheLeader(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	w.save(record(id2))
	row := lifecycle("subscriptionRemoved", id1)
	w.append(row, lifecycle("missed", id2))
	w.route()
	select {
	case <-w.LifecyclePending():
	default:
		t.Error("no token for two lifecycle items")
	}
	equal(t, "deliveries", len(w.claim(sinkA)), 0)
	w.reopen()
	first, err := w.Lifecycle(ctx, 1)
	must(t, err)
	want := graph.LifecycleItem{
		ID: first[0].ID, Name: name, Gen: gen, SubscriptionID: id1,
		Event: "subscriptionRemoved", ReceivedAt: row.ReceivedAt,
	}
	equal(t, "items", len(first), 1)
	equal(t, "item", first[0], want)
	must(t, w.SettleLifecycle(ctx, w.term, []string{first[0].ID}))
	must(t, w.SettleLifecycle(ctx, w.term, []string{first[0].ID}))
	rest, err := w.Lifecycle(ctx, 10)
	must(t, err)
	equal(t, "items left", len(rest), 1)
	equal(t, "event left", rest[0].Event, "missed")
}

func limitsAndSigningKeysAreKept(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	at := time.Now().UTC().Truncate(time.Microsecond)
	// The newest of a type counts, and each tenant has its own.
	want := []graph.LearnedLimit{
		{Tenant: "contoso", Type: "event", Lifetime: 4230 * time.Minute, LearnedAt: at},
		{Tenant: "contoso", Type: "message", Lifetime: 2 * time.Hour, LearnedAt: at.Add(time.Second)},
		{Tenant: "fabrikam", Type: "message", Lifetime: 3 * time.Hour, LearnedAt: at},
	}
	must(t, w.LearnLimit(ctx, w.term, graph.LearnedLimit{Tenant: "contoso", Type: "message", Lifetime: time.Hour, LearnedAt: at}))
	for _, limit := range want {
		must(t, w.LearnLimit(ctx, w.term, limit))
	}
	must(t, w.PutSigningKeys(ctx, w.term, []string{"b", "old"}))
	must(t, w.PutSigningKeys(ctx, w.term, []string{"b", "a", "b"}))
	w.reopen()
	limits, err := w.Limits(ctx)
	must(t, err)
	if !slices.EqualFunc(limits, want, func(a, b graph.LearnedLimit) bool {
		same := a.LearnedAt.Equal(b.LearnedAt)
		a.LearnedAt = b.LearnedAt
		return same && a == b
	}) {
		t.Errorf("limits %v, want %v", limits, want)
	}
	keys, err := w.SigningKeys(ctx)
	must(t, err)
	if want := []string{"a", "b"}; !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
}

func commandsGoToTheLeader(w *world) {
	t := w.t
	w.begin(store.Config{})
	ctx := t.Context()
	drain(w.LifecyclePending())
	asked := graph.Command{Action: graph.CommandApprove, Argument: "abc", By: "ops"}
	first, err := w.PutCommand(ctx, asked)
	must(t, err)
	select {
	case <-w.LifecyclePending():
	default:
		t.Error("the leader is not told")
	}
	_, err = w.PutCommand(ctx, graph.Command{Action: "other", By: "ops"})
	must(t, err)
	w.reopen()
	list, err := w.Commands(ctx)
	must(t, err)
	asked.ID = first
	if len(list) != 2 || list[0] != asked || list[1].Action != "other" {
		t.Fatalf("commands %+v", list)
	}
	wantIs(t, w.SettleCommand(ctx, w.term+1, first, graph.CommandDone, "x"), graph.ErrTermLost)
	must(t, w.SettleCommand(ctx, w.term, first, graph.CommandDone, "3 changes released"))
	// What was settled is not settled otherwise.
	must(t, w.SettleCommand(ctx, w.term, first, graph.CommandConflict, "too late"))
	list, err = w.Commands(ctx)
	must(t, err)
	equal(t, "commands left", len(list), 1)
	state, result, found, err := w.CommandState(ctx, first)
	must(t, err)
	if !found || state != graph.CommandDone || result != "3 changes released" {
		t.Errorf("state %s, %q, %v", state, result, found)
	}
	_, _, found, err = w.CommandState(ctx, "nothing")
	must(t, err)
	equal(t, "an unknown command is known", found, false)
}

// drain takes the token that may be there.
func drain(tokens <-chan struct{}) {
	select {
	case <-tokens:
	default:
	}
}
