package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// Store is what the suite asks of a store; *store.Store has it.
type Store interface {
	Append(ctx context.Context, rows []notification.Row) error
	Route(ctx context.Context, limit int) (int, error)
	Claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error)
	Settle(ctx context.Context, outcomes []notification.Outcome) error
	Pending(sink string) <-chan struct{}
	NextDue(ctx context.Context, sink string) (at time.Time, found bool, err error)
	LastNotifications(ctx context.Context) (map[string]time.Time, error)
	LastNotification(ctx context.Context, name string) (time.Time, error)
	Owner(ctx context.Context, subscriptionID string) (owner notification.Address, found bool, err error)

	NewTerm(ctx context.Context, holder string) (int64, error)
	Leader(ctx context.Context) (holder string, term int64, since time.Time, err error)
	Wishes(ctx context.Context) ([]graph.Wish, error)
	Wish(ctx context.Context, name string) (wish graph.Wish, found bool, err error)
	PutWishes(ctx context.Context, term int64, source graph.Source, wishes []graph.Wish) error
	Records(ctx context.Context) ([]graph.Record, error)
	RecordsOf(ctx context.Context, name string) ([]graph.Record, error)
	Save(ctx context.Context, term int64, change graph.Change) error
	Gaps(ctx context.Context, name string) ([]graph.Gap, error)
	Limits(ctx context.Context) ([]graph.LearnedLimit, error)
	LearnLimit(ctx context.Context, term int64, limit graph.LearnedLimit) error
	SigningKeys(ctx context.Context) ([]string, error)
	PutSigningKeys(ctx context.Context, term int64, fingerprints []string) error
	Lifecycle(ctx context.Context, limit int) ([]graph.LifecycleItem, error)
	SettleLifecycle(ctx context.Context, term int64, ids []string) error
	LifecyclePending() <-chan struct{}
	PutCommand(ctx context.Context, c graph.Command) (id string, err error)
	Commands(ctx context.Context) ([]graph.Command, error)
	SettleCommand(ctx context.Context, term int64, id string, state graph.CommandState, result string) error
	CommandState(ctx context.Context, id string) (state graph.CommandState, result string, found bool, err error)
	NoteReceiving(ctx context.Context) error
	Receiving(ctx context.Context) (graph.Receiving, error)
	TellOutages(ctx context.Context, term int64, limit int) ([]graph.Gap, error)

	Run(ctx context.Context) error
	Stats(ctx context.Context) (store.Stats, error)
	Close() error
}

// Opener opens the store of one database. The suite closes a store before it
// opens the next one of the same database. It sets every field that a case
// depends on; the opener adds those that say where the database is.
type Opener func(ctx context.Context, cfg store.Config) (Store, error)

// RunTests runs the suite; newDatabase gives an empty database each time.
func RunTests(t *testing.T, newDatabase func(t *testing.T) Opener) {
	for _, group := range []map[string]func(*world){
		receivingCases(), routingCases(), deliveryCases(), leaderCases(), outageCases(), retentionCases(),
	} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			t.Run(name, func(t *testing.T) { group[name](&world{t: t, open: newDatabase(t)}) })
		}
	}
}

// RunCases runs the cases of the suite that others reported in public.
func RunCases(t *testing.T, newDatabase func(t *testing.T) Opener) {
	for name, test := range map[string]func(*world){"A31": routeDropsRepeats, "A35": routeHoldsUntilTheIDIsKnown} {
		t.Run(name, func(t *testing.T) { test(&world{t: t, open: newDatabase(t)}) })
	}
}

// The names of the world that most cases begin in: one wish with two sinks,
// whose subscription exists.
const (
	name     = "orders"
	gen      = "gen0000001"
	tenantID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	id1      = "11111111-1111-4111-8111-111111111111"
	id2      = "22222222-2222-4222-8222-222222222222"
	sinkA    = "a"
	sinkB    = "b"
)

// world is a database and the store that is open on it.
type world struct {
	Store
	t    *testing.T
	open Opener
	cfg  store.Config
	term int64
}

// begin opens the store and fills it.
func (w *world) begin(cfg store.Config) {
	w.t.Helper()
	w.cfg = cfg
	w.cfg.Owner = "first"
	w.reopen()
	term, err := w.NewTerm(w.t.Context(), "holder")
	must(w.t, err)
	w.term = term
	w.wish(wish())
	w.save(record(id1))
}

// reopen closes the store, if it is open, and opens the database again.
func (w *world) reopen() {
	w.t.Helper()
	if w.Store != nil {
		must(w.t, w.Close())
	}
	s, err := w.open(w.t.Context(), w.cfg)
	must(w.t, err)
	w.Store = s
	w.t.Cleanup(func() { must(w.t, s.Close()) })
}

func wish() graph.Wish {
	return graph.Wish{
		Name: name, Source: graph.SourceFile, Gen: gen, Tenant: "contoso", TenantID: tenantID,
		Resource: "users/u1/messages", ChangeTypes: []graph.ChangeType{graph.Created, graph.Updated},
		Lifetime: time.Hour, SilentAfter: 2 * time.Hour, Sinks: []string{sinkA, sinkB},
	}
}

func record(id string) graph.Record {
	return graph.Record{Name: name, Gen: gen, ID: id, State: graph.StateActive}
}

func (w *world) wish(wishes ...graph.Wish) {
	w.t.Helper()
	must(w.t, w.PutWishes(w.t.Context(), w.term, graph.SourceFile, wishes))
}

func (w *world) save(r graph.Record) {
	w.t.Helper()
	must(w.t, w.Save(w.t.Context(), w.term, graph.Change{Record: r}))
}

// change gives an ordinary row; n makes its evidence and its text.
func change(n int) notification.Row {
	item := notification.Item{
		ID: fmt.Sprintf("item-%d", n), ChangeType: "created",
		Resource: fmt.Sprintf("Users/U1/Messages/M%d", n), ETag: `W/"1"`,
	}
	return notification.Row{
		Address: notification.Address{Name: name, Gen: gen}, SubscriptionID: id1, TenantID: tenantID,
		ReceivedAt: time.Now().UTC().Truncate(time.Microsecond),
		Kind:       notification.KindChange, Origin: notification.OriginGraph,
		Evidence: notification.EvidenceOf(name, &item),
		Item:     fmt.Appendf(nil, `{"id":"item-%d","resource":"Users/U1/Messages/M%d"}`, n, n),
	}
}

func lifecycle(event, id string) notification.Row {
	row := change(0)
	row.Kind, row.Type, row.Evidence, row.SubscriptionID = notification.KindLifecycle, event, nil, id
	row.Item = []byte(`{"lifecycleEvent":"` + event + `"}`)
	return row
}

func (w *world) append(rows ...notification.Row) {
	w.t.Helper()
	must(w.t, w.Append(w.t.Context(), rows))
}

// route routes all that can be.
func (w *world) route() {
	w.t.Helper()
	for {
		n, err := w.Route(w.t.Context(), 100)
		must(w.t, err)
		if n == 0 {
			return
		}
	}
}

func (w *world) claim(sink string) []notification.Delivery {
	w.t.Helper()
	claimed, err := w.Claim(w.t.Context(), sink, 100, time.Hour)
	must(w.t, err)
	return claimed
}

func (w *world) settle(outcomes ...notification.Outcome) {
	w.t.Helper()
	must(w.t, w.Settle(w.t.Context(), outcomes))
}

func (w *world) stats() store.Stats {
	w.t.Helper()
	stats, err := w.Stats(w.t.Context())
	must(w.t, err)
	return stats
}

// quarantined gives the reasons that are not at zero.
func (w *world) quarantined() map[notification.Reason]int64 {
	w.t.Helper()
	reasons := w.stats().Quarantine
	maps.DeleteFunc(reasons, func(_ notification.Reason, n int64) bool { return n == 0 })
	return reasons
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// near allows for what passes between two looks at two clocks.
func near(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if got.Sub(want).Abs() > 5*time.Second {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// run runs the store's loops until the test ends.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		must(w.t, <-ended)
	})
}

func items(claimed []notification.Delivery) []string {
	texts := make([]string, len(claimed))
	for i := range claimed {
		texts[i] = string(claimed[i].Notification.Item)
	}
	return texts
}

func texts(rows ...notification.Row) []string {
	texts := make([]string, len(rows))
	for i := range rows {
		texts[i] = string(rows[i].Item)
	}
	return texts
}

func sameItems(t *testing.T, claimed []notification.Delivery, rows ...notification.Row) {
	t.Helper()
	if got, want := items(claimed), texts(rows...); !slices.Equal(got, want) {
		t.Fatalf("claimed %q, want %q", got, want)
	}
}
