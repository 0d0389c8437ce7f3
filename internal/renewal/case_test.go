package renewal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// TestCase holds hard cases from public reports, by their numbers, as far as
// they are the renewal's. Those of the wire are held beside msgraph, httpapi
// and notification.
func TestCase(t *testing.T) {
	for name, play := range map[string]func(*testing.T){
		"A27": caseA27, "A28": caseA28,
		"A37": caseA37, "A38": caseA38, "A39": caseA39, "A40": caseA40, "A41": caseA41, "A42": caseA42, "A43": caseA43, "A44": caseA44,
		"A46": caseA46, "A47": caseA47, "A48": caseA48, "A50": caseA50,
		"A51": caseA51, "A52": caseA52, "A53": caseA53, "A54": caseA54, "A55": caseA55, "A56": caseA56, "A58": caseA58,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, play) })
	}
}

// refusing makes the hook of fakeGraph answer one operation with fault for as
// long as while gives true.
func refusing(op graph.Operation, fault error, while func() bool) func(context.Context, graph.Operation, string) error {
	return func(_ context.Context, called graph.Operation, _ string) error {
		if called == op && while() {
			return fault
		}
		return nil
	}
}

// first is true for the first n calls.
func first(n int64) func() bool {
	var calls atomic.Int64
	return func() bool { return calls.Add(1) <= n }
}

// until is true before an instant.
func until(at time.Time) func() bool { return func() bool { return time.Now().Before(at) } }

func always() bool { return true }

// led plays a manager over a store until the time has passed, and joins it.
func led(t *testing.T, w *world, long time.Duration) {
	t.Helper()
	w.lead()
	time.Sleep(long)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
}

func expect(t *testing.T, g *fakeGraph, calls map[string]int) {
	t.Helper()
	for call, n := range calls {
		if got := g.count(call); got != n {
			t.Errorf("%d times %q, want %d; calls %v", got, call, n, g.calls)
		}
	}
}

// The same challenge three times for one and once for another, and again: one
// renewal each.
func caseA27(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"), wish("b"))
	w.lead()
	time.Sleep(time.Hour)
	post := func(round string) {
		var items []graph.LifecycleItem
		for i, name := range []string{"a", "a", "a", "b"} {
			r := s.record(t, name, "g")
			items = append(items, graph.LifecycleItem{
				ID: fmt.Sprint(round, i), Name: name, Gen: "g", SubscriptionID: r.ID,
				Event: "reauthorizationRequired", ReceivedAt: time.Now(),
			})
		}
		s.tell(items...)
	}
	post("one")
	time.Sleep(5 * time.Second)
	post("two")
	time.Sleep(time.Second)
	post("three")
	time.Sleep(time.Minute)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
	expect(t, g, map[string]int{"renew s1": 1, "renew s2": 1})
}

// subscriptionRemoved twice at once and once late: one new subscription, one
// gap.
func caseA28(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"))
	w.lead()
	time.Sleep(time.Hour)
	g.remove("s1")
	removed := func(id string) graph.LifecycleItem {
		return graph.LifecycleItem{ID: id, Name: "a", Gen: "g", SubscriptionID: "S1", Event: "subscriptionRemoved", ReceivedAt: time.Now()}
	}
	s.tell(removed("1"), removed("2"))
	time.Sleep(10 * time.Minute)
	s.tell(removed("3"))
	time.Sleep(10 * time.Minute)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
	expect(t, g, map[string]int{"create": 2})
	if len(s.gaps) != 1 || s.record(t, "a", "g").ID != "s2" {
		t.Errorf("gaps %+v", s.gaps)
	}
}

// 404 on a renewal: never patched again, made anew once, also when the create
// fails at first.
func caseA37(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"))
	w.lead()
	time.Sleep(time.Hour)
	g.remove("s1")
	g.answer(refusing(graph.OperationCreate, answered(graph.OperationCreate, 503, "ServiceUnavailable", ""), first(3)))
	time.Sleep(week)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
	expect(t, g, map[string]int{"renew s1": 1, "create": 2})
	if len(s.gaps) != 1 || s.gaps[0].Cause != graph.GapRecreated {
		t.Errorf("gaps %+v", s.gaps)
	}
}

// A transient failure never takes a record out of the renewal, through a
// restart too.
func caseA38(t *testing.T) {
	for name, fault := range map[string]error{
		"503 with an empty message": answered(graph.OperationRenew, 503, "UnknownError", ""),
		"502 with HTML":             answered(graph.OperationRenew, 502, "", ""),
		"connection reset":          &graph.Error{Operation: graph.OperationRenew, Err: errors.New("connection reset")},
	} {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		led(t, w, time.Hour)
		due := s.record(t, "a", "g").RenewAt
		g.answer(refusing(graph.OperationRenew, fault, until(due.Add(20*time.Minute))))
		time.Sleep(time.Until(due.Add(-time.Minute)))
		led(t, newWorld(t, g, s, wish("a")), 6*time.Minute)
		if r := s.record(t, "a", "g"); r.State != graph.StateActive || r.Reason != graph.ReasonTransient || r.Attempt == 0 {
			t.Errorf("%s: record %+v", name, r)
		}
		led(t, newWorld(t, g, s, wish("a")), time.Hour)
		expect(t, g, map[string]int{"create": 1, "renew": 1})
	}
}

// A 409 that names the subscription: ours is adopted and renewed, one that is
// not ours is left alone without a loop.
func caseA39(t *testing.T) {
	for url, adopted := range map[string]bool{"https://our/a/g": true, "https://theirs/a/g": false} {
		g, s := newFakeGraph(week), newFakeStore().known()
		g.put(idA, url)
		conflicting(g, true)
		led(t, newWorld(t, g, s, wish("a")), 6*24*time.Hour)
		r := s.record(t, "a", "g")
		if (r.ID == idA) != adopted || (g.count("renew") > 0) != adopted || g.count("delete") != 0 || len(g.ids()) != 1 {
			t.Errorf("%s: record %+v, calls %v", url, r, g.calls)
		}
		if n := g.count("get"); n > 40 {
			t.Errorf("%s: %d looks at it in six days", url, n)
		}
	}
}

// A renewal that Graph refuses because our endpoint did not answer in time is
// tried again, and nothing is created while the old one lives.
func caseA40(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"))
	led(t, w, time.Hour)
	g.answer(refusing(graph.OperationRenew,
		answered(graph.OperationRenew, 400, "InvalidRequest", "Subscription validation request timed out."), first(3)))
	// Half an hour of life is left.
	r := s.record(t, "a", "g")
	time.Sleep(time.Until(r.ExpiresAt.Add(-30 * time.Minute)))
	log := &logBuffer{}
	w = newWorld(t, g, s, wish("a"))
	w.log.set(log)
	led(t, w, 29*time.Minute)
	expect(t, g, map[string]int{"create": 1, "renew": 1})
	if !strings.Contains(log.String(), "handshake_failed") {
		t.Errorf("nobody was told: %s", log)
	}
}

// An expiry above the maximum is answered with the maximum, which is learned.
func caseA41(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"Subscription expiration can only be 4230 minutes in the future.": 4225 * time.Minute,
		"Subscription expiration can only be 1 minutes in the future.":    6 * time.Second,
		"Subscription expiration can only be so much in the future.":      55 * time.Minute,
	} {
		g, s := newFakeGraph(week), newFakeStore()
		g.answer(refusing(graph.OperationCreate, answered(graph.OperationCreate, 400, "ExtensionError", text), first(1)))
		led(t, newWorld(t, g, s, wish("a")), 5*time.Second)
		r := s.record(t, "a", "g")
		if life := r.ExpiresAt.Sub(r.GrantedAt); life != want {
			t.Errorf("%s: asked for %v, want %v", text, life, want)
		}
		if named := !strings.Contains(text, "so much"); (len(s.limits) == 1) != named {
			t.Errorf("%s: stored limits %v; a guess is not stored", text, s.limits)
		}
	}
	// The same on a renewal; the create of another asks for less from then on.
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"))
	led(t, w, time.Hour)
	g.answer(refusing(graph.OperationRenew, answered(graph.OperationRenew, 400, "ExtensionError", "Subscription expiration can only be 4230 minutes in the future."), first(1)))
	led(t, newWorld(t, g, s, wish("a"), wish("b")), 5*24*time.Hour)
	if r := s.record(t, "a", "g"); r.ExpiresAt.Sub(r.GrantedAt) != 4225*time.Minute {
		t.Errorf("record %+v", r)
	}
	expect(t, g, map[string]int{"create": 2})
}

// 401 on everything except create: nothing is created while the known expiry
// lies ahead, and one is once it has passed.
func caseA42(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"))
	led(t, w, time.Hour)
	expires := s.record(t, "a", "g").ExpiresAt
	g.answer(func(_ context.Context, op graph.Operation, _ string) error {
		if op == graph.OperationCreate || op == graph.OperationList {
			return nil
		}
		return answered(op, 401, "ExtensionError", "Operation: Update; Exception: [Status Code: Unauthorized; Reason: p#S256 doesn't match.]")
	})
	w = newWorld(t, g, s, wish("a"))
	w.lead()
	time.Sleep(time.Until(expires.Add(-time.Minute)))
	expect(t, g, map[string]int{"create": 1})
	if r := s.record(t, "a", "g"); r.Reason != graph.ReasonUnauthorized || r.State != graph.StateActive {
		t.Errorf("record %+v", r)
	}
	time.Sleep(time.Hour)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
	expect(t, g, map[string]int{"create": 2})
}

// Quota and permission are parked, each with its reason; others go on, nothing
// is deleted to make room, and a later try succeeds.
func caseA43(t *testing.T) {
	for reason, text := range map[graph.Reason]string{
		graph.ReasonQuota:     "Operation: Create; Exception: [Status Code: Forbidden; Reason: Maximum number of subscriptions has been reached]",
		graph.ReasonForbidden: "Operation: Create; Exception: [Status Code: Forbidden; Reason: Forbidden]",
	} {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Hour)
		var tries atomic.Int64
		g.answer(refusing(graph.OperationCreate, answered(graph.OperationCreate, 403, "ExtensionError", text), func() bool { tries.Add(1); return true }))
		w.want(wish("a"), wish("b"))
		time.Sleep(2 * 24 * time.Hour)
		if r := s.record(t, "b", "g"); r.State != graph.StateParked || r.Reason != reason {
			t.Errorf("record %+v", r)
		}
		if n := tries.Load(); n < 3 || n > 25 {
			t.Errorf("%d tries in two days", n)
		}
		g.answer(nil)
		time.Sleep(7 * time.Hour)
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		if a, b := s.record(t, "a", "g"), s.record(t, "b", "g"); a.State != graph.StateActive || b.State != graph.StateActive {
			t.Errorf("records %+v, %+v", a, b)
		}
		expect(t, g, map[string]int{"delete": 0})
	}
}

// A throttle slows the whole client, obeys what it is told, and backs off where
// it is told nothing.
func caseA44(t *testing.T) {
	for _, told := range []time.Duration{0, 2128 * time.Millisecond, 2 * time.Minute} {
		g, s := newFakeGraph(week), newFakeStore()
		w := newWorld(t, g, s, wish("a"))
		led(t, w, time.Hour)
		due := s.record(t, "a", "g").RenewAt
		fault := answered(graph.OperationRenew, 429, "TooManyRequests", "Please retry again later.")
		fault.RetryAfter = told
		var throttled atomic.Int64
		g.answer(refusing(graph.OperationRenew, fault, func() bool {
			return throttled.CompareAndSwap(0, time.Now().UnixNano())
		}))
		w = newWorld(t, g, s, wish("a"))
		w.lead()
		time.Sleep(time.Until(due.Add(time.Hour)))
		if err := w.stop(nil); err != nil {
			t.Error(err)
		}
		waited := s.record(t, "a", "g").GrantedAt.Sub(time.Unix(0, throttled.Load()))
		if waited < max(told, 5*time.Second) || waited > max(told, 15*time.Second)+time.Second {
			t.Errorf("told to wait %v, waited %v", told, waited)
		}
		expect(t, g, map[string]int{"renew": 1, "create": 1})
	}
}

// Clocks that differ by seconds and minutes: never is more asked for than the
// maximum by Graph's clock.
func caseA46(t *testing.T) {
	for _, skew := range []time.Duration{3 * time.Second, 4 * time.Minute, -4 * time.Minute} {
		g, s := newFakeGraph(week), newFakeStore()
		g.ahead = -skew // ours is fast, so Graph's is behind
		w := newWorld(t, g, s)
		w.wantAt(-skew, wish("a"))
		led(t, w, 3*week)
		if g.tooLong > 0 || g.count("create") != 1 {
			t.Errorf("skew %v: %d refused, calls %v", skew, g.tooLong, g.calls)
		}
	}
}

// Ten minutes were asked for and 45 granted: the plan follows the 45, and a
// warning says so.
func caseA47(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	g.least = 45 * time.Minute
	short := wish("a")
	short.Lifetime = 10 * time.Minute
	log := &logBuffer{}
	w := newWorld(t, g, s, short)
	w.log.set(log)
	led(t, w, 24*time.Hour)
	if n := g.count("renew"); n < 45 || n > 55 {
		t.Errorf("%d renewals of 45 minutes in a day", n)
	}
	if n := strings.Count(log.String(), "granted another lifetime"); n != 1 {
		t.Errorf("said %d times: %s", n, log)
	}
}

// Less is granted than was asked for, down to five minutes: the plan follows,
// without a hot loop.
func caseA48(t *testing.T) {
	for life, most := range map[time.Duration]int{24 * time.Hour: 2, 5 * time.Minute: 12 * 40} {
		g, s := newFakeGraph(life), newFakeStore()
		log := &logBuffer{}
		w := newWorld(t, g, s, wish("a"))
		w.log.set(log)
		led(t, w, 24*time.Hour)
		if n := g.count("renew"); n == 0 || n > most || g.count("create") != 1 {
			t.Errorf("life %v: %d renewals in a day, %d creates", life, n, g.count("create"))
		}
		if !strings.Contains(log.String(), "granted another lifetime") {
			t.Errorf("life %v: nobody was told", life)
		}
	}
	// At most one renewal in two minutes, also of what lives for three.
	g, s := newFakeGraph(3*time.Minute), newFakeStore()
	led(t, newWorld(t, g, s, wish("a")), time.Hour)
	if n := g.count("renew"); n > 31 {
		t.Errorf("%d renewals in an hour", n)
	}
}

// A thousand made in the same second, six hours of 503, two restarts: none
// lapses, and their renewals are spread out.
func caseA50(t *testing.T) {
	g, s := newFakeGraph(60*time.Hour), newFakeStore().known()
	var wishes []graph.Wish
	for i := range 1000 {
		wishes = append(wishes, wish(fmt.Sprintf("w%04d", i)))
	}
	led(t, newWorld(t, g, s, wishes...), time.Hour)
	earliest, latest := s.spanOfRenewals()
	if spread := latest.Sub(earliest); spread < 3*time.Hour {
		t.Errorf("a thousand renewals are spread over %v", spread)
	}
	time.Sleep(time.Until(earliest))
	fault := answered(graph.OperationRenew, 503, "ServiceUnavailable", "")
	g.answer(refusing(graph.OperationRenew, fault, until(time.Now().Add(6*time.Hour))))
	led(t, newWorld(t, g, s, wishes...), 2*time.Hour)
	led(t, newWorld(t, g, s, wishes...), 2*time.Hour)
	led(t, newWorld(t, g, s, wishes...), 40*time.Hour)
	expect(t, g, map[string]int{"create": 1000})
	if n := len(g.ids()); n != 1000 {
		t.Errorf("%d live", n)
	}
}

// A listing that breaks off is no inventory: nothing is made from it, and what
// is found once it works is kept.
func caseA51(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	g.put(idA, "https://our/a/g")
	g.answer(refusing(graph.OperationList, answered(graph.OperationList, 500, "UnknownError", ""), first(3)))
	led(t, newWorld(t, g, s, wish("a")), time.Hour)
	expect(t, g, map[string]int{"create": 0, "delete": 0})
	if r := s.record(t, "a", "g"); r.ID != idA {
		t.Errorf("record %+v", r)
	}
}

// clientState is withheld in listings; ten of them change nothing.
func caseA52(t *testing.T) {
	g, s := newFakeGraph(10*week), newFakeStore()
	far := wish("a")
	far.Resource = "users" // lives for 29 days
	led(t, newWorld(t, g, s, far), 16*24*time.Hour)
	expect(t, g, map[string]int{"create": 1, "delete": 0, "renew": 0})
	if n := g.count("list"); n < 10 {
		t.Errorf("%d listings", n)
	}
}

// What a listing does not show is not gone.
func caseA53(t *testing.T) {
	now := time.Now()
	r := graph.Record{
		Name: "a", Gen: "g", ID: "s2", State: graph.StateActive, GrantedAt: now.Add(-time.Hour),
		RenewAt: now.Add(time.Hour), ExpiresAt: now.Add(2 * time.Hour),
	}
	action, wake := renewal.DecideOne(now, renewal.Situation{
		Wish: &graph.Wish{Name: "a", Gen: "g"}, Record: r, MayCreate: true, MayDelete: true,
		Listing: &renewal.Listing{At: now, Found: map[graph.Key][]graph.Subscription{}},
	})
	if action.Verb != renewal.Wait || !wake.Equal(r.RenewAt) {
		t.Errorf("decides %v at %v", action, wake)
	}
}

// Two live for one wish: the recorded one is kept, the other deleted once, and
// one that is not ours never touched.
func caseA54(t *testing.T) {
	g, s := newFakeGraph(week), newFakeStore()
	w := newWorld(t, g, s, wish("a"))
	w.lead()
	time.Sleep(time.Hour)
	g.put(idA, "https://our/a/g")
	g.put(idB, "https://theirs/a/g")
	time.Sleep(3 * 24 * time.Hour)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
	expect(t, g, map[string]int{"delete " + idA: 1, "delete": 1, "create": 1})
	if ids := g.ids(); len(ids) != 2 {
		t.Errorf("live %v", ids)
	}
}

// Listings that flicker change nothing.
func caseA55(t *testing.T) {
	g, s := newFakeGraph(10*week), newFakeStore()
	wishes := []graph.Wish{wish("a"), wish("b")}
	for i := range wishes {
		wishes[i].Resource = "users"
	}
	w := newWorld(t, g, s, wishes...)
	w.lead()
	time.Sleep(time.Hour)
	var round atomic.Int64
	g.mu.Lock()
	g.shown = func(subs []graph.Subscription) []graph.Subscription {
		switch round.Add(1) % 3 {
		case 0:
			return nil
		case 1:
			return subs[:1]
		}
		return subs[1:]
	}
	g.mu.Unlock()
	time.Sleep(15 * 24 * time.Hour)
	if err := w.stop(nil); err != nil {
		t.Error(err)
	}
	if round.Load() < 9 {
		t.Errorf("%d listings", round.Load())
	}
	expect(t, g, map[string]int{"create": 2, "delete": 0})
}

// Created, but the answer never came: by a closed connection, a 504, an answer
// after the client gave up, or a kill. One in the end, each time.
func caseA56(t *testing.T) {
	for name, lose := range map[string]error{
		"connection closed": unanswered(graph.OperationCreate),
		"504":               answered(graph.OperationCreate, 504, "", ""),
		"gave up":           &graph.Error{Operation: graph.OperationCreate, Err: context.DeadlineExceeded},
	} {
		g, s := newFakeGraph(week), newFakeStore()
		once := first(1)
		g.after = func(op graph.Operation) error {
			if op == graph.OperationCreate && once() {
				return lose
			}
			return nil
		}
		led(t, newWorld(t, g, s, wish("a")), time.Hour)
		expect(t, g, map[string]int{"create": 1})
		if r := s.record(t, "a", "g"); r.ID != "s1" {
			t.Errorf("%s: record %+v", name, r)
		}
	}
	// Killed before it could be stored: TestKilledBetweenCreateAndStore.
}

// 404 right after our own 201: within the grace time it is checked again, and
// only when it stays is another made.
func caseA58(t *testing.T) {
	// A life of 80 s is renewed after 53 s, while our 201 is still young.
	for name, test := range map[string]struct {
		blind   time.Duration
		creates int
		patches int
	}{"for a while": {62 * time.Second, 1, 1}, "for good": {1000 * time.Hour, 2, 0}} {
		g, s := newFakeGraph(80*time.Second), newFakeStore().known()
		blind := time.Now().Add(test.blind)
		g.answer(func(_ context.Context, op graph.Operation, id string) error {
			if id == "s1" && time.Now().Before(blind) {
				return gone(op)
			}
			return nil
		})
		led(t, newWorld(t, g, s, wish("a")), 90*time.Second)
		if g.count("create") != test.creates || g.count("renew s1") != test.patches {
			t.Errorf("404 %s: calls %v", name, g.calls)
		}
	}
}

// logBuffer takes log lines from many goroutines.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is for slog.
func (l *logBuffer) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// switchLog is a writer that can be changed after the logger was made.
type switchLog struct {
	mu sync.Mutex
	to *logBuffer
}

func (s *switchLog) set(to *logBuffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
}

// Write is for slog.
func (s *switchLog) Write(text []byte) (int, error) {
	s.mu.Lock()
	to := s.to
	s.mu.Unlock()
	if to == nil {
		return len(text), nil
	}
	return to.Write(text)
}

func (s *switchLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }
