package storetest

import (
	"slices"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

func outageCases() map[string]func(*world) {
	return map[string]func(*world){
		"ReceivingIsNoted":                receivingIsNoted,
		"ReceivingIsNotNotedWhenFull":     receivingIsNotNotedWhenFull,
		"OutageIsToldOnce":                outageIsToldOnce,
		"OutageIsToldInPieces":            outageIsToldInPieces,
		"OutageIsToldByTheLeader":         outageIsToldByTheLeader,
		"OutageTearsOnlyWhatIsWished":     outageTearsOnlyWhatIsWished,
		"OutageTearsWhatWasRecreatedThen": outageTearsWhatWasRecreatedThen,
	}
}

// anyBreak makes an outage of any two notes in a row.
func anyBreak() store.Config { return store.Config{OutageAfter: time.Microsecond} }

// id3 is one that nothing had before.
const id3 = "33333333-3333-4333-8333-333333333333"

func (w *world) note() graph.Receiving {
	w.t.Helper()
	must(w.t, w.NoteReceiving(w.t.Context()))
	r, err := w.Receiving(w.t.Context())
	must(w.t, err)
	return r
}

func (w *world) tell(limit int) []graph.Gap {
	w.t.Helper()
	told, err := w.TellOutages(w.t.Context(), w.term, limit)
	must(w.t, err)
	return told
}

func receivingIsNoted(w *world) {
	t := w.t
	w.begin(store.Config{})
	none, err := w.Receiving(t.Context())
	must(t, err)
	equal(t, "before the first note", none, graph.Receiving{})
	first := w.note()
	near(t, "at", first.At, time.Now())
	equal(t, "since", first.Since, first.At)
	w.reopen()
	next := w.note()
	equal(t, "since, after a restart", next.Since, first.Since)
	if !next.At.After(first.At) {
		t.Errorf("noted at %v after %v", next.At, first.At)
	}
	equal(t, "told", len(w.tell(10)), 0)
}

func receivingIsNotNotedWhenFull(w *world) {
	t := w.t
	w.begin(store.Config{MaxBacklogRows: 2})
	before := w.note()
	w.append(change(1), change(2))
	wantIs(t, w.NoteReceiving(t.Context()), store.ErrFull)
	after, err := w.Receiving(t.Context())
	must(t, err)
	equal(t, "noted", after, before)
}

func outageIsToldOnce(w *world) {
	t := w.t
	w.begin(anyBreak())
	before := w.note()
	equal(t, "told after the first note", len(w.tell(10)), 0)
	select {
	case <-w.LifecyclePending():
	default:
	}
	after := w.note()
	equal(t, "since", after.Since, after.At)
	select {
	case <-w.LifecyclePending():
	default:
		t.Error("an outage does not wake the leader")
	}
	w.reopen()
	want := graph.Gap{Name: name, From: before.At, To: after.At, Cause: graph.GapOutage}
	if told := w.tell(10); !slices.Equal(told, []graph.Gap{want}) {
		t.Fatalf("told %v, want %v", told, want)
	}
	equal(t, "told again", len(w.tell(10)), 0)
	gaps, err := w.Gaps(t.Context(), name)
	must(t, err)
	if !slices.Equal(gaps, []graph.Gap{want}) {
		t.Errorf("gaps %v, want %v", gaps, want)
	}
	equal(t, "open gaps", w.stats().OpenGaps, 0)
	w.route()
	var types []string
	for _, d := range w.claim(sinkA) {
		types = append(types, d.Notification.Type)
		equal(t, "tenant", d.Notification.TenantID, tenantID)
		equal(t, "kind", d.Notification.Kind, notification.KindOperation)
	}
	if !slices.Equal(types, []string{string(graph.EventGapOpened), string(graph.EventGapClosed)}) {
		t.Errorf("events %v", types)
	}
}

// two wishes with a subscription each.
func (w *world) two() {
	w.t.Helper()
	other := wish()
	other.Name = "rooms"
	w.wish(wish(), other)
	r := record(id2)
	r.Name = "rooms"
	w.save(r)
}

func outageIsToldInPieces(w *world) {
	t := w.t
	w.begin(anyBreak())
	w.two()
	w.note()
	w.note()
	var names []string
	for range 2 {
		told := w.tell(1)
		equal(t, "told at once", len(told), 1)
		names = append(names, told[0].Name)
	}
	equal(t, "told after all", len(w.tell(1)), 0)
	if !slices.Equal(names, []string{name, "rooms"}) {
		t.Errorf("told of %v", names)
	}
}

func outageIsToldByTheLeader(w *world) {
	t := w.t
	w.begin(anyBreak())
	w.note()
	w.note()
	newer, err := w.NewTerm(t.Context(), "other")
	must(t, err)
	_, err = w.TellOutages(t.Context(), w.term, 10)
	wantIs(t, err, graph.ErrTermLost)
	told, err := w.TellOutages(t.Context(), newer, 10)
	must(t, err)
	equal(t, "told by the newer term", len(told), 1)
}

func outageTearsOnlyWhatIsWished(w *world) {
	t := w.t
	w.begin(anyBreak())
	w.two()
	w.note()
	w.wish(wish()) // the rooms go
	paused := record("")
	w.save(paused) // and this one has no subscription any more
	w.note()       // what lived in between
	if told := w.tell(10); len(told) != 1 || told[0].Name != name {
		t.Fatalf("told %v", told)
	}
	w.note()            // nothing lived in between
	w.save(record(id3)) // which was made after it
	equal(t, "told of what was made since", len(w.tell(10)), 0)
}

// The leader may make a lost subscription anew before the outage is noted.
func outageTearsWhatWasRecreatedThen(w *world) {
	t := w.t
	w.begin(anyBreak())
	before := w.note()
	w.save(record(""))
	w.save(record(id3))
	w.note()
	told := w.tell(10)
	equal(t, "told", len(told), 1)
	equal(t, "from", told[0].From, before.At)
}
