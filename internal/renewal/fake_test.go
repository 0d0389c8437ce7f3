package renewal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/renewal"
)

// fakeGraph is Graph for one tenant, in memory, with a hook before each call.
// The real thing is stood in for by the simulator elsewhere; here a test needs
// to say what the very next answer is.
type fakeGraph struct {
	// before may answer in place of Graph (an error), or just look. Both
	// hooks are guarded by mu.
	before func(ctx context.Context, op graph.Operation, id string) error
	// after may lose the answer of a call that took effect.
	after func(op graph.Operation) error

	// judge may refuse a lifetime that is asked for; nil refuses none.
	judge func(op graph.Operation, asked time.Duration) error

	mu    sync.Mutex
	life  time.Duration // the most that is granted
	ahead time.Duration // of our clock
	// tooLong counts requests beyond the maximum by Graph's clock.
	tooLong int
	least   time.Duration // less is raised to it
	// shown changes what a listing gives; nil leaves it. Guarded by mu.
	shown func([]graph.Subscription) []graph.Subscription
	live  map[string]graph.Subscription
	next  int
	calls []string
}

func newFakeGraph(life time.Duration) *fakeGraph {
	return &fakeGraph{
		life: life, live: map[string]graph.Subscription{},
		before: func(context.Context, graph.Operation, string) error { return nil },
		after:  func(graph.Operation) error { return nil },
	}
}

func (f *fakeGraph) call(ctx context.Context, op graph.Operation, id string, do func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if err := before(ctx, op, id); err != nil {
		return err
	}
	f.mu.Lock()
	f.calls = append(f.calls, strings.TrimSpace(string(op)+" "+id))
	for id, sub := range f.live {
		if !f.now().Before(sub.ExpiresAt) {
			delete(f.live, id)
		}
	}
	err := do()
	f.mu.Unlock()
	return errors.Join(err, after(op))
}

func gone(op graph.Operation) error {
	return &graph.Error{Operation: op, Status: 404, Code: "ResourceNotFound", Enveloped: true}
}

func (f *fakeGraph) Create(ctx context.Context, sub graph.Subscription) (graph.Subscription, error) {
	err := f.call(ctx, graph.OperationCreate, "", func() error {
		if err := f.refuse(graph.OperationCreate, sub.ExpiresAt); err != nil {
			return err
		}
		f.next++
		sub.ID = fmt.Sprintf("s%d", f.next)
		sub.ExpiresAt = f.grant(sub.ExpiresAt)
		f.live[sub.ID] = sub
		return nil
	})
	return sub, err
}

func (f *fakeGraph) refuse(op graph.Operation, until time.Time) error {
	if f.judge == nil {
		return nil
	}
	return f.judge(op, until.Sub(f.now()))
}

func (f *fakeGraph) now() time.Time { return time.Now().Add(f.ahead) }

func (f *fakeGraph) grant(asked time.Time) time.Time {
	if raised := f.now().Add(f.least); asked.Before(raised) {
		return raised
	}
	if most := f.now().Add(f.life); asked.After(most) {
		f.tooLong++
		return most
	}
	return asked
}

func (f *fakeGraph) Renew(ctx context.Context, id string, r graph.Renewal) (sub graph.Subscription, err error) {
	err = f.call(ctx, graph.OperationRenew, id, func() error {
		found, ok := f.live[id]
		if !ok {
			return gone(graph.OperationRenew)
		}
		if err := f.refuse(graph.OperationRenew, r.ExpiresAt); err != nil {
			return err
		}
		found.ExpiresAt = f.grant(r.ExpiresAt)
		f.live[id] = found
		sub = found
		return nil
	})
	return sub, err
}

func (f *fakeGraph) Get(ctx context.Context, id string) (sub graph.Subscription, err error) {
	err = f.call(ctx, graph.OperationGet, id, func() error {
		found, ok := f.live[id]
		if !ok {
			return gone(graph.OperationGet)
		}
		sub = found
		return nil
	})
	return sub, err
}

func (f *fakeGraph) Delete(ctx context.Context, id string) error {
	return f.call(ctx, graph.OperationDelete, id, func() error {
		if _, ok := f.live[id]; !ok {
			return gone(graph.OperationDelete)
		}
		delete(f.live, id)
		return nil
	})
}

func (f *fakeGraph) List(ctx context.Context) (subs []graph.Subscription, err error) {
	err = f.call(ctx, graph.OperationList, "", func() error {
		for _, sub := range f.live {
			sub.ClientState = ""
			subs = append(subs, sub)
		}
		if f.shown != nil {
			slices.SortFunc(subs, func(a, b graph.Subscription) int { return strings.Compare(a.ID, b.ID) })
			subs = f.shown(subs)
		}
		return nil
	})
	return subs, err
}

// answer replaces the hook before each call; nil takes it away.
func (f *fakeGraph) answer(before func(ctx context.Context, op graph.Operation, id string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before = before; before == nil {
		f.before = func(context.Context, graph.Operation, string) error { return nil }
	}
}

func (f *fakeGraph) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, id)
}

func (f *fakeGraph) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c == call || strings.HasPrefix(c, call+" ") {
			n++
		}
	}
	return n
}

func (f *fakeGraph) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for id := range f.live {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// fakeStore is the durable state in memory; it survives a term, as the real
// one survives a process.
type fakeStore struct {
	mu        sync.Mutex
	away      bool
	forgetful bool // a fault that is planted: creates are not announced
	failSaves int  // so many saves fail
	now, most int  // saves under way, and the most there ever were
	term      int64
	wishes    []graph.Wish
	records   map[graph.Key]graph.Record
	limits    []graph.LearnedLimit
	commands  []graph.Command
	results   []string // of commands
	gaps      []graph.Gap
	events    []graph.Event
	lifecycle []graph.LifecycleItem
	settled   []string
	pending   chan struct{}
	outages   []graph.Gap // that were not told of
	last      map[string]time.Time
	receiving graph.Receiving // by default always, since long ago
	looks     int             // for the last changes
	lookTakes time.Duration
	onSave    func() // called before each change that is saved, nil for nothing; guarded by mu
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		term: 1, records: map[graph.Key]graph.Record{}, pending: make(chan struct{}, 1),
	}
}

func (f *fakeStore) do(term int64, write func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return fmt.Errorf("fake: %w", graph.ErrStoreUnavailable)
	}
	if term != 0 && term != f.term {
		return fmt.Errorf("fake: %w", graph.ErrTermLost)
	}
	write()
	return nil
}

func (f *fakeStore) setOnSave(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onSave = do
}

func (f *fakeStore) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fakeStore) Wishes(context.Context) (wishes []graph.Wish, err error) {
	err = f.do(0, func() { wishes = f.wishes })
	return wishes, err
}

func (f *fakeStore) PutWishes(_ context.Context, term int64, _ graph.Source, wishes []graph.Wish) error {
	return f.do(term, func() { f.wishes = wishes })
}

func (f *fakeStore) Records(context.Context) (records []graph.Record, err error) {
	err = f.do(0, func() {
		for _, r := range f.records {
			r.Checks = 0
			records = append(records, r)
		}
	})
	return records, err
}

func (f *fakeStore) Save(_ context.Context, term int64, c graph.Change) error {
	f.mu.Lock()
	fails := f.failSaves > 0
	if fails {
		f.failSaves--
	}
	f.now++
	f.most = max(f.most, f.now)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	time.Sleep(time.Millisecond) // as long as a sync takes
	if fails {
		return fmt.Errorf("fake: %w", graph.ErrStoreUnavailable)
	}
	return f.do(term, func() {
		if f.onSave != nil {
			f.onSave()
		}
		if f.forgetful && c.Record.ID == "" && c.Record.Ambiguous {
			c.Record.Ambiguous = false
		}
		if c.Forget {
			delete(f.records, c.Record.Key())
		} else {
			f.records[c.Record.Key()] = c.Record
		}
		if c.Closed != nil {
			f.gaps = append(f.gaps, *c.Closed)
		}
		f.events = append(f.events, c.Events...)
	})
}

func (f *fakeStore) Limits(context.Context) (limits []graph.LearnedLimit, err error) {
	err = f.do(0, func() { limits = slices.Clone(f.limits) })
	return limits, err
}

func (f *fakeStore) LearnLimit(_ context.Context, term int64, limit graph.LearnedLimit) error {
	return f.do(term, func() { f.limits = append(f.limits, limit) })
}

func (f *fakeStore) Commands(context.Context) (list []graph.Command, err error) {
	err = f.do(0, func() { list = slices.Clone(f.commands) })
	return list, err
}

func (f *fakeStore) SettleCommand(_ context.Context, term int64, id string, state graph.CommandState, result string) error {
	return f.do(term, func() {
		f.results = append(f.results, string(state)+": "+result)
		f.commands = slices.DeleteFunc(f.commands, func(c graph.Command) bool { return c.ID == id })
	})
}

func (f *fakeStore) Lifecycle(_ context.Context, limit int) (items []graph.LifecycleItem, err error) {
	err = f.do(0, func() { items = slices.Clone(f.lifecycle[:min(limit, len(f.lifecycle))]) })
	return items, err
}

func (f *fakeStore) SettleLifecycle(_ context.Context, term int64, ids []string) error {
	return f.do(term, func() {
		f.settled = append(f.settled, ids...)
		f.lifecycle = slices.DeleteFunc(f.lifecycle, func(i graph.LifecycleItem) bool { return slices.Contains(ids, i.ID) })
	})
}

func (f *fakeStore) TellOutages(_ context.Context, term int64, limit int) (told []graph.Gap, err error) {
	err = f.do(term, func() {
		told = f.outages[:min(limit, len(f.outages))]
		f.outages = f.outages[len(told):]
		f.gaps = append(f.gaps, told...)
	})
	return told, err
}

func (f *fakeStore) LastNotifications(context.Context) (last map[string]time.Time, err error) {
	time.Sleep(f.lookTakes)
	err = f.do(0, func() { last = maps.Clone(f.last); f.looks++ })
	return last, err
}

func (f *fakeStore) Receiving(context.Context) (r graph.Receiving, err error) {
	err = f.do(0, func() {
		if r = f.receiving; r.At.IsZero() {
			r.At = time.Now()
		}
	})
	return r, err
}

// came notes that a change came now.
func (f *fakeStore) came(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]time.Time{}
	}
	f.last[name] = time.Now()
}

func (f *fakeStore) LifecyclePending() <-chan struct{} { return f.pending }

func (f *fakeStore) tell(items ...graph.LifecycleItem) {
	f.mu.Lock()
	f.lifecycle = append(f.lifecycle, items...)
	f.mu.Unlock()
	select {
	case f.pending <- struct{}{}:
	default:
	}
}

func (f *fakeStore) record(t *testing.T, name, gen string) graph.Record {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.records[graph.Key{Name: name, Gen: gen}]
	if !ok {
		t.Fatalf("no record of %s %s; there are %v", name, gen, f.records)
	}
	return r
}

// spanOfRenewals gives the first and the last planned renewal.
func (f *fakeStore) spanOfRenewals() (earliest, latest time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		if r.ID == "" {
			continue
		}
		if earliest.IsZero() || r.RenewAt.Before(earliest) {
			earliest = r.RenewAt
		}
		if r.RenewAt.After(latest) {
			latest = r.RenewAt
		}
	}
	return earliest, latest
}

// fakeIdentity puts name and gen into the URL in plain text.
type fakeIdentity struct{}

func (fakeIdentity) NotificationURL(name, gen string) string {
	return "https://our/" + name + "/" + gen
}

func (fakeIdentity) LifecycleURL(name, gen string) string {
	return "https://our/lifecycle/" + name + "/" + gen
}
func (fakeIdentity) ClientState(name, gen string) string { return "state-" + name + gen }
func (fakeIdentity) Ours(_ string, sub graph.Subscription) (graph.Key, bool) {
	rest, ok := strings.CutPrefix(sub.NotificationURL, "https://our/")
	name, gen, cut := strings.Cut(rest, "/")
	return graph.Key{Name: name, Gen: gen}, ok && cut
}

// world is a manager with everything around it, for use in a bubble.
type world struct {
	share   float64 // of the quota, 0.9 when 0
	t       *testing.T
	graph   *fakeGraph
	store   *fakeStore
	manager *renewal.Manager
	prove   func(context.Context) error
	left    atomic.Int64 // what is left of leadership; for ever at first
	log     *switchLog
	metrics *prometheus.Registry
	cancel  context.CancelCauseFunc
	done    chan error
}

func wish(name string) graph.Wish {
	return graph.Wish{
		Name: name, Gen: "g", Tenant: "contoso", Resource: "users/u/messages",
		ChangeTypes: []graph.ChangeType{graph.Created}, Sinks: []string{"x"},
	}
}

func newWorld(t *testing.T, g *fakeGraph, s *fakeStore, wishes ...graph.Wish) *world {
	t.Helper()
	return newWorldWith(t, g, s, func(*renewal.Config) {}, wishes...)
}

// newWorldWith has another configuration.
func newWorldWith(t *testing.T, g *fakeGraph, s *fakeStore, change func(*renewal.Config), wishes ...graph.Wish) *world {
	t.Helper()
	rules, err := graph.LoadRules()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, graph: g, store: s, log: &switchLog{}, metrics: prometheus.NewRegistry(), prove: func(context.Context) error { return nil }}
	w.left.Store(math.MaxInt64)
	cfg := renewal.Config{
		Store: s, Identity: fakeIdentity{}, Rules: rules, Policy: renewal.DefaultPolicy(),
		Prove: func(ctx context.Context) error { return w.prove(ctx) },
		Left:  func() time.Duration { return time.Duration(w.left.Load()) },
		Rand:  rand.New(rand.NewPCG(1, 2)), Logger: w.log.logger(), Registerer: w.metrics,
	}
	change(&cfg)
	if w.manager, err = renewal.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.want(wishes...)
	return w
}

// want replaces what is desired.
func (w *world) want(wishes ...graph.Wish) {
	w.t.Helper()
	w.wantAt(0, wishes...)
}

// wantAt is want with a skew that was measured.
func (w *world) wantAt(skew time.Duration, wishes ...graph.Wish) {
	w.t.Helper()
	err := w.manager.SetDesired(renewal.Desired{
		Tenants: []renewal.Tenant{{
			Name: "contoso", App: "hooks", Client: w.graph, Scale: 1, QuotaShare: cmp.Or(w.share, 0.9),
			Skew: func() time.Duration { return skew },
		}},
		Wishes: wishes,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// lead begins a term; stop ends it and gives its error.
func (w *world) lead() {
	ctx, cancel := context.WithCancelCause(w.t.Context())
	w.cancel, w.done = cancel, make(chan error, 1)
	go func() { w.done <- w.manager.Run(ctx, w.store.term) }()
}

func (w *world) stop(cause error) error {
	w.cancel(cause)
	return <-w.done
}
