package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/delivery"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// entry is one delivery of the fake queue.
type entry struct {
	notification.Delivery
	next, leased time.Time
	done, dead   bool
	lastError    string
	settled      []time.Time
}

// fakeQueue keeps deliveries in memory as the store would.
type fakeQueue struct {
	mu          sync.Mutex
	last        int64
	entries     map[string][]*entry
	pending     map[string]chan struct{}
	claimError  error
	settleError error
	claims      int
	settles     int
	afterClaim  func()
}

func newQueue() *fakeQueue {
	return &fakeQueue{entries: map[string][]*entry{}, pending: map[string]chan struct{}{}}
}

// add makes n deliveries for a sink that are due at once, with some changes.
func (q *fakeQueue) add(sink string, n int, changes ...func(*notification.Notification)) []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	var added []*entry
	for range n {
		note := change()
		note.ID, note.Evidence, note.ReceivedAt = fmt.Sprintf("%s-%d", sink, len(q.entries[sink])+1), nil, time.Now()
		for _, change := range changes {
			change(note)
		}
		q.last++
		e := &entry{Delivery: notification.Delivery{ID: q.last, Sink: sink, Key: "k", Notification: *note}, next: time.Now()}
		q.entries[sink], added = append(q.entries[sink], e), append(added, e)
	}
	q.wake(sink)
	return added
}

// look gives entries as they are now.
func (q *fakeQueue) look(entries []*entry) []entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	var now []entry
	for _, e := range entries {
		now = append(now, *e)
	}
	return now
}

func (q *fakeQueue) wake(sink string) {
	if c := q.pending[sink]; c != nil {
		close(c)
		delete(q.pending, sink)
	}
}

func (q *fakeQueue) Claim(ctx context.Context, sink string, limit int, lease time.Duration) ([]notification.Delivery, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims++
	if q.claimError != nil {
		return nil, q.claimError
	}
	var batch []notification.Delivery
	now := time.Now()
	for _, e := range q.entries[sink] {
		if len(batch) < limit && !e.done && !e.dead && !e.next.After(now) && !e.leased.After(now) {
			e.leased = now.Add(lease)
			batch = append(batch, e.Delivery)
		}
	}
	if q.afterClaim != nil {
		q.afterClaim()
	}
	return batch, nil
}

func (q *fakeQueue) Settle(ctx context.Context, outcomes []notification.Outcome) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settles++
	if q.settleError != nil {
		return q.settleError
	}
	for _, out := range outcomes {
		for _, entries := range q.entries {
			for _, e := range entries {
				if e.ID == out.DeliveryID {
					e.settle(out)
				}
			}
		}
	}
	return nil
}

func (e *entry) settle(out notification.Outcome) {
	e.leased, e.next, e.dead, e.lastError = time.Time{}, out.Next, out.Dead, out.Error
	e.done = out.Next.IsZero() && !out.Dead
	e.Attempts++
	e.settled = append(e.settled, time.Now())
}

func (q *fakeQueue) Pending(sink string) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending[sink] == nil {
		q.pending[sink] = make(chan struct{})
	}
	return q.pending[sink]
}

func (q *fakeQueue) NextDue(_ context.Context, sink string) (time.Time, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []time.Time
	for _, e := range q.entries[sink] {
		if !e.done && !e.dead {
			at := e.next
			if e.leased.After(at) {
				at = e.leased
			}
			due = append(due, at)
		}
	}
	if len(due) == 0 {
		return time.Time{}, false, nil
	}
	return slices.MinFunc(due, time.Time.Compare), true, nil
}

// fakeSink records what it is sent, and when.
type fakeSink struct {
	send func(ctx context.Context, events []event.Event) []error

	mu     sync.Mutex
	sent   []event.Event
	at     []time.Time
	calls  int
	closed int
}

func (s *fakeSink) Send(ctx context.Context, events []event.Event) []error {
	s.mu.Lock()
	s.calls++
	s.sent = append(s.sent, events...)
	for range events {
		s.at = append(s.at, time.Now())
	}
	s.mu.Unlock()
	if s.send != nil {
		return s.send(ctx, events)
	}
	return make([]error, len(events))
}

func (s *fakeSink) Close() error {
	s.closed++
	return nil
}

func (s *fakeSink) ids() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for i := range s.sent {
		ids = append(ids, s.sent[i].ID())
	}
	return strings.Join(ids, " ")
}

// count says how often Send was called.
func (s *fakeSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// always fails every event.
func always(err error) func(context.Context, []event.Event) []error {
	return func(_ context.Context, events []event.Event) []error {
		results := make([]error, len(events))
		for i := range results {
			results[i] = err
		}
		return results
	}
}

// logBuffer is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// constant is a source of jitter that always gives the same share.
type constant float64

func (c constant) Uint64() uint64 { return uint64(float64(c) * (1 << 53)) }

type rig struct {
	queue    *fakeQueue
	registry *prometheus.Registry
	log      *logBuffer
	cancel   context.CancelFunc
	done     chan error
}

// start runs a delivery until the test, or stop, ends it.
func start(t *testing.T, queue *fakeQueue, change func(*delivery.Config), sinks ...delivery.Destination) *rig {
	t.Helper()
	r := &rig{queue: queue, registry: prometheus.NewRegistry(), log: &logBuffer{}, done: make(chan error, 1)}
	cfg := delivery.Config{
		Sinks: sinks, AppOf: appOf, Rand: rand.New(constant(0.5)), Registerer: r.registry,
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	d, err := delivery.New(cfg, queue)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.done <- d.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// stop ends the delivery and says how long that took.
func (r *rig) stop(t *testing.T) time.Duration {
	t.Helper()
	from := time.Now()
	r.cancel()
	if err := <-r.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	return time.Since(from)
}

func (r *rig) assertCounts(t *testing.T, sink string, delivered, retried, dead float64) {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, child := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range child.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["sink"] == sink {
				got[labels["outcome"]] = child.GetCounter().GetValue()
			}
		}
	}
	if len(got) != 3 || got["delivered"] != delivered || got["retried"] != retried || got["dead"] != dead {
		t.Errorf("%s: counts %v, want %v delivered, %v retried, %v dead", sink, got, delivered, retried, dead)
	}
}

// lines counts the log lines that hold a text.
func (r *rig) lines(text string) int { return strings.Count(r.log.String(), text) }

func sinkOf(name string, s delivery.Sink) delivery.Destination {
	return delivery.Destination{Name: name, Sink: s}
}

// pass lets time go by and all that it sets off come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errDown = errors.New("connection refused")
