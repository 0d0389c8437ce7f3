package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphsubd/graphsubd/internal/lease"
)

// span is one run of a body.
type span struct {
	replica     *replica
	began       time.Time
	told, ended time.Time // when its context ended and when it returned, zero before
	cause       error
}

// stage sees every body and fails the test when two run at once.
type stage struct {
	t  *testing.T
	mu sync.Mutex
	// spans are all that ever ran, in order of their beginning; guarded by mu
	spans  []*span
	active int
}

func (s *stage) enter(r *replica) *span {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active++; s.active > 1 {
		s.t.Errorf("%d bodies at once at %v", s.active, time.Now())
	}
	now := time.Now()
	for _, other := range s.spans {
		if other.replica != r && now.Before(other.replica.promised()) {
			s.t.Errorf("a body begins at %v, and another process was promised to lead until %v", now, other.replica.promised())
		}
	}
	one := &span{replica: r, began: now}
	s.spans = append(s.spans, one)
	return one
}

func (s *stage) tell(one *span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.told = time.Now()
}

func (s *stage) leave(one *span, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.ended.IsZero() {
		one.ended, one.cause = time.Now(), cause
		s.active--
	}
}

// last gives a copy of the newest span, or nil.
func (s *stage) last() *span {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spans) == 0 {
		return nil
	}
	one := *s.spans[len(s.spans)-1]
	return &one
}

// span gives a copy of one.
func (s *stage) span(i int) span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.spans[i]
}

func (s *stage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spans)
}

// leads says whether a body runs now.
func (s *stage) leads() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active > 0
}

// timings are those of the configuration's defaults.
type timings struct{ duration, deadline, retry, call time.Duration }

func defaults() timings {
	return timings{time.Minute, 40 * time.Second, 1500 * time.Millisecond, 5 * time.Second}
}

// replica is one process: an elector, its wire and its body.
type replica struct {
	stage    *stage
	wire     *wire
	elector  *lease.Kubernetes
	registry *prometheus.Registry
	log      *logBuffer
	linger   time.Duration // how long the body goes on after it was told to end

	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed

	mu      sync.Mutex
	dead    chan struct{} // closed by a crash
	promise time.Time     // nobody else leads before; guarded by mu
}

// promised is when another may lead, as far as this process was told.
func (r *replica) promised() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.promise
}

func (r *replica) note(until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promise = until
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte(text))
}

func newReplica(t *testing.T, s *stage, w *wire, of timings) *replica {
	t.Helper()
	r := &replica{stage: s, wire: w, registry: prometheus.NewRegistry(), log: &logBuffer{}, done: make(chan struct{}), dead: make(chan struct{})}
	var err error
	r.elector, err = lease.NewKubernetes(lease.KubernetesConfig{
		Namespace: "graph", Name: "graphsubd", Identity: lease.NewIdentity("pod"), Election: "test",
		Duration: of.duration, RenewDeadline: of.deadline, RetryPeriod: of.retry, CallTimeout: of.call,
		Client: w.client(t), LostCause: errLost,
		Logger: slog.New(slog.NewTextHandler(r.log, nil)), Registerer: r.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the elector until stop.
func (r *replica) start(ctx context.Context) *replica {
	ctx, r.cancel = context.WithCancel(ctx)
	r.stage.t.Cleanup(func() {
		r.stop()
		if r.stage.t.Failed() {
			r.stage.t.Logf("log of a replica:\n%s", r.log.text())
		}
	})
	go func() {
		defer close(r.done)
		r.err = r.elector.Run(ctx, r.body)
	}()
	return r
}

func (r *replica) stop() {
	r.cancel()
	<-r.done
}

// crash ends all that the process does to the world. Its goroutines stay until
// they are reaped.
func (r *replica) crash() {
	r.wire.always(fault{hang: true})
	close(r.dead)
}

// body leads as renewal does: it looks at what is left of the lease, over and
// over, until it is told to end.
func (r *replica) body(ctx context.Context) error {
	one := r.stage.enter(r)
	defer func() {
		r.note(time.Time{})
		r.stage.leave(one, context.Cause(ctx))
	}()
	look := time.NewTicker(317 * time.Millisecond)
	defer look.Stop()
	for {
		left := r.elector.Left()
		if left <= 0 && !endsNow(ctx) {
			r.stage.t.Error("leads, and nothing is left of the lease")
		}
		r.note(time.Now().Add(left))
		select {
		case <-r.dead:
			r.stage.leave(one, nil)
			<-ctx.Done() // the promise stands: a write may be on its way
			return nil
		case <-look.C:
		case <-ctx.Done():
			r.stage.tell(one)
			if left := r.elector.Left(); errors.Is(context.Cause(ctx), errLost) && left > 0 {
				r.stage.t.Errorf("%v is left of a lost lease", left)
			}
			return pause(context.WithoutCancel(ctx), r.linger)
		}
	}
}

// endsNow says whether ctx ends before time goes on. A loss reaches Left before
// it reaches the context, within the same instant of the bubble's clock.
func endsNow(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(time.Nanosecond):
		return ctx.Err() != nil
	}
}

func (r *replica) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue() + family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func (r *replica) failures(t *testing.T, reason string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "graphsubd_lease_errors_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no failures by %s", reason)
	return 0
}

// until waits for a condition and gives how long that took.
func until(t *testing.T, within time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}
